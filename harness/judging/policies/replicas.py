"""Replicas: below the watermark they hold the same, whatever the acknowledgements, unless an election was unclean."""

from __future__ import annotations

from harness.judging.policies.case import FindingCase, Mark, Policy


def _judge(case: FindingCase) -> Mark:
    if case.unclean and case.leaders_changed:
        return Mark("allowed", "unclean-election")
    if "missing" in case.finding.tags and case.results.has_holes:
        return Mark("unproven", "holes")
    return Mark("illegal")


POLICIES: dict[str, Policy] = {
    "replica-divergence": Policy(_judge, by_own_deletion=True, by_configuration=True, by_unclean_election=True),
}
