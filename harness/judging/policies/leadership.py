"""Leadership and metadata: a node that is cut off goes on as before, and all need a moment to hear of a leader.

What lies in the *wake* of a fault that changes leaders, from its injection until RECOVERY_NS after the cluster was
whole again (or, if nobody saw that, after it was undone), may be what a node did or said that could not know better.

Stateless brokers, whose data lies in a store that all of them share, have no leaders to disagree about: who is named
as one may depend on who asks. What they acknowledge is held to the same promises as that of any other broker.
"""

from __future__ import annotations

from math import inf

from checkers.core.timeline import Fault
from harness.judging.policies.case import FindingCase, Mark, Policy

RECOVERY_NS = 10_000_000_000
OLD_ANSWERS = "stale-metadata"  # the fault that answers Metadata as it was
STALE = "cut-off"


def in_wake(case: FindingCase, *named: str) -> bool:
    """Whether it lies in the wake of a fault that changes leaders (or is named so), or of several in a row."""
    faults = case.came(set(named)) if named else case.injected("changes_leaders")
    began = case.finding.time_ns
    if began is None or None in faults:
        return bool(faults)
    ended = began if case.finding.until_ns is None else case.finding.until_ns
    reached: float = began
    for since, until in sorted(_wake(fault) for fault in faults if fault is not None):
        reached = max(reached, until) if since <= reached else reached
    return ended < reached


def _wake(fault: Fault) -> tuple[int, float]:
    over = fault.undone_ns if fault.healed_ns is None else fault.healed_ns
    return fault.injected_ns or 0, inf if over is None else over + RECOVERY_NS


def _lasted_ns(case: FindingCase) -> float:
    began, ended = case.finding.time_ns, case.finding.until_ns
    return inf if began is None or ended is None else ended - began


def _judge_slow(case: FindingCase) -> Mark:
    """What a node need not know yet: on a busy machine brokers are fenced, and leaders change, without any fault."""
    mark = _judge_stale(case)
    if mark.status == "illegal" and _lasted_ns(case) < RECOVERY_NS:
        return Mark("unproven", "slow-to-hear")
    return mark


def _judge_stale(case: FindingCase) -> Mark:
    return Mark("allowed", STALE) if in_wake(case) else Mark("illegal")


def _judge_loop(case: FindingCase) -> Mark:
    if "brief" in case.finding.tags:
        return Mark("allowed", "brief")
    return _judge_slow(case) if "moved" in case.finding.tags else _judge_stale(case)


def _judge_disagreement(case: FindingCase) -> Mark:
    return _judge_slow(case) if "stale" in case.finding.tags else Mark("illegal")


def _judge_epochs(case: FindingCase) -> Mark:
    if {fault.name for fault in case.facts.faults} & {OLD_ANSWERS} and in_wake(case, OLD_ANSWERS):
        return Mark("allowed", "stale-metadata-fault")
    return _judge_slow(case) if "one client" in case.finding.tags else Mark("illegal")


def _judge_incomplete(case: FindingCase) -> Mark:
    """A broker may be fenced for a moment; to a node that never lists it that did not happen."""
    tags = case.finding.tags
    if "broker" not in tags and "brief" not in tags:
        return Mark("illegal")
    return _judge_stale(case) if "always" in tags else _judge_slow(case)


def _judge_impostor(case: FindingCase) -> Mark:
    if "deposed" not in case.finding.tags:
        return Mark("illegal")
    return Mark("allowed", "deposed-unaware") if in_wake(case) else _judge_slow(case)


def _judge_split(case: FindingCase) -> Mark:
    if "overlapping" in case.finding.tags and case.leaders_changed:
        return Mark("unproven", "there-and-back")
    return Mark("illegal")


def _judge_coordinator(case: FindingCase) -> Mark:
    if "moved" in case.finding.tags:
        return Mark("allowed", "coordinator-moved") if case.leaders_changed else Mark("unproven", "moved-without-fault")
    return _judge_slow(case) if "steadfast" in case.finding.tags else _judge_stale(case)


POLICIES: dict[str, Policy] = {
    "not-leader-loop": Policy(_judge_loop, by_own_deletion=True, by_deletion=True),
    "metadata-incomplete": Policy(_judge_incomplete),
    "metadata-disagreement": Policy(_judge_disagreement, by_deletion=True, by_statelessness=True),
    "epoch-regression": Policy(_judge_epochs, by_deletion=True),
    "impostor-leader": Policy(_judge_impostor, by_deletion=True, by_statelessness=True),
    "coordinator-mismatch": Policy(_judge_coordinator, by_statelessness=True),
    "split-brain": Policy(
        _judge_split,
        by_deletion=True,
        by_configuration=True,
        by_leader_change=True,
        by_statelessness=True,
        by_unclean_election=True,
    ),
    "leaderless": Policy(_judge_stale, by_deletion=True),
}
