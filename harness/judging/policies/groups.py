"""Groups: a coordinator that was deposed may not know it yet, and a group hears nothing of whoever is cut off."""

from __future__ import annotations

from checkers.commits import COORDINATORS_KNOWN_NS
from harness.judging.policies.case import FindingCase, Mark, Policy

THROWN_OUT_NS = 10_000_000_000  # until a member that asks all the time has heard of it, on a busy machine, too


def _near(case: FindingCase, *, all_faults: bool = False) -> bool:
    """Whether a fault that changes leaders, or any at all, was there when it was seen, or not long before."""
    changing = {fault.name for fault in case.facts.faults if all_faults or fault.changes_leaders}
    seen_ns = case.finding.until_ns
    return any(
        fault is None
        or fault.undone_ns is None
        or seen_ns is None
        or seen_ns <= max(fault.undone_ns, fault.healed_ns or 0) + COORDINATORS_KNOWN_NS
        for fault in case.came(changing)
    )


def _judge_answer(case: FindingCase) -> Mark:
    if "transaction" in case.finding.tags:
        return Mark("allowed", "offsets-settle")
    if case.facts.unclean_election and case.leaders_changed:
        return Mark("allowed", "unclean-election")
    if _near(case):
        return Mark("allowed", "deposed-coordinator")
    if "moved" in case.finding.tags:
        return Mark("unproven", "coordinator-may-have-moved")
    return Mark("illegal")


def _judge_owners(case: FindingCase) -> Mark:
    """Who was thrown out is told when it asks again; where a generation is known, it is known who was not."""
    if "generation unknown" not in case.finding.tags:
        return Mark("illegal")
    if _near(case, all_faults=True):
        return Mark("allowed", "member-thrown-out")
    if case.finding.facts.get("overlap_ns", 0) < THROWN_OUT_NS:
        return Mark("unproven", "perhaps-thrown-out")
    return Mark("illegal")


def _judge_loss(case: FindingCase) -> Mark:
    if "open poll" in case.finding.tags:
        return Mark("allowed", "killed-in-poll")
    return Mark("illegal")


_ANSWER = Policy(_judge_answer, by_deletion=True, by_configuration=True)

POLICIES: dict[str, Policy] = {
    "committed-offset-regression": _ANSWER,
    "committed-offset-vanished": _ANSWER,
    "committed-beyond-read": Policy(by_absence=True, by_deletion=True, by_configuration=True, by_leader_change=True),
    "double-ownership": Policy(_judge_owners),
    "rebalance-loss": Policy(
        _judge_loss, by_absence=True, by_deletion=True, by_configuration=True, by_leader_change=True
    ),
}
