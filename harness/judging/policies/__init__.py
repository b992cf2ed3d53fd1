"""The policy: what is illegal when. A module per family of anomalies; whatever has no policy is illegal.

All that was seen is shown; this decides what it means, by how the run was set up and by what was done to it.
"""

from __future__ import annotations

from checkers.core.results import CheckResults, Finding
from checkers.delivery.acknowledged_values import SETTLED
from harness.foundation.discovery import modules_with
from harness.judging.policies.case import FindingCase, Mark, PlannedFault, Policy, RunFacts

__all__ = ["POLICIES", "Mark", "PlannedFault", "Policy", "RunFacts", "judge"]

POLICIES: dict[str, Policy] = {
    name: policy for module in modules_with("POLICIES", __name__, __path__) for name, policy in module.POLICIES.items()
}


def judge(finding: Finding, results: CheckResults, facts: RunFacts) -> Mark:
    """What can excuse it, one after the other."""
    policy = POLICIES.get(finding.anomaly, Policy())
    case = FindingCase(finding, results, facts, policy)
    if policy.by_absence and (unproven := _unproven(finding, results)):
        return unproven
    if excuse := _excuse(case):
        return Mark("allowed", excuse)
    if not facts.known and policy.by_configuration and not policy.certain(case):
        return Mark("unproven", "setup-unknown")
    mark = _by_configuration(case)
    if mark.status == "illegal" and policy.by_unclean_election and case.perhaps_unclean():
        return Mark("unproven", "election-unknown")
    return mark


def _excuse(case: FindingCase) -> str:
    """The code of what permits it however the clients were set up, if anything does."""
    if case.policy.by_own_deletion and "deleted topic" in case.finding.tags:
        return "own-deletion"
    if case.policy.by_deletion and case.deleted():
        return "deleted-by-fault"
    return "stateless" if case.policy.by_statelessness and case.facts.stateless else ""


def _by_configuration(case: FindingCase) -> Mark:
    lost_with_a_leader = case.policy.by_leader_change and SETTLED not in case.finding.tags
    if lost_with_a_leader and (weak := case.weak) and case.leaders_changed:
        return weak
    return case.policy.judge(case)


def _unproven(finding: Finding, results: CheckResults) -> Mark | None:
    if "foreign" in finding.tags:
        return None  # the record itself says so
    if results.has_holes:
        return Mark("unproven", "holes")
    if finding.anomaly == "phantom" and results.damaged_processes.intersection(finding.processes):
        return Mark("unproven", "producer-damaged")
    return None
