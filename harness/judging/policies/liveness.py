"""Liveness: nothing has to get through while a fault blocks it, nor at once after it."""

from __future__ import annotations

from itertools import zip_longest

from checkers.core.timeline import Fault
from harness.judging.policies.case import FindingCase, Mark, Policy
from workloads.base import CONSUMER, FINAL, PROBE, RAW

RECOVERY_NS = 30_000_000_000  # after a fault was undone, for consumers and groups to find their way
STALL_NS = 5_000_000_000
SLOW_RECOVERY = "slow-recovery"
DO_NOT_SEND = (CONSUMER, PROBE, FINAL, RAW)  # workers, by their roles
MAY_BLOCK = frozenset({"bridge", "flapping", "packet-loss"})  # beside those that are said to


def _windows(case: FindingCase, names: set[str], after_ns: int = 0) -> list[tuple[int, int]]:
    """When faults of these names were there, and for so long afterwards, in the order of time."""
    found = []
    for covered in case.results.coverage.faults:
        fault: Fault = covered.fault
        if fault.name in names and fault.injected_ns is not None:
            end = None if fault.undone_ns is None else max(fault.undone_ns, fault.healed_ns or 0) + after_ns
            found.append((fault.injected_ns, (1 << 63) - 1 if end is None else end))
    return sorted(found)


def outside_ns(case: FindingCase, names: set[str], after_ns: int = 0) -> int:
    """How long it lasted without such a fault."""
    begin, end = case.finding.time_ns or 0, case.finding.until_ns or 0
    left = end - begin
    for start, stop in _windows(case, names, after_ns):
        left -= max(0, min(end, stop) - max(begin, start))
        begin = max(begin, min(end, stop))
    return left


def _near(case: FindingCase, names: set[str], after_ns: int = 0) -> bool:
    """Whether such a fault was there at any time of it."""
    begin, end = case.finding.time_ns or 0, case.finding.until_ns or 0
    return any(start <= end and stop >= begin for start, stop in _windows(case, names, after_ns))


def _judge_stall(case: FindingCase) -> Mark:
    tags = case.finding.tags
    names = {fault.name for fault in case.facts.faults}
    late = "class 3" in tags
    if _near(case, names, RECOVERY_NS) and (late or outside_ns(case, names, RECOVERY_NS) < STALL_NS):
        return Mark("allowed", "near-fault")
    if "stood still" in tags:
        return Mark("allowed", "run-stood-still")
    if "within the limit" in tags:
        return Mark("allowed", "within-limit")
    return Mark("illegal")


def _judge_waiting(case: FindingCase) -> Mark:
    blocking = {fault.name for fault in case.facts.faults if fault.blocks or fault.name in MAY_BLOCK}
    # what outlasts a fault has met it: there it counts for how long
    slow = case.finding.anomaly == SLOW_RECOVERY and outside_ns(case, blocking, RECOVERY_NS) >= STALL_NS
    if _near(case, blocking, RECOVERY_NS) and not slow:
        return Mark("allowed", "blocked-by-fault")
    # hung until it was killed, perhaps: what is not sent nobody lets through
    for death, role in zip_longest(case.facts.dead_workers, case.facts.dead_roles):
        if role not in DO_NOT_SEND:
            return Mark("unproven", "perhaps-not-sent", (("death", death),))
    return Mark("illegal")


POLICIES: dict[str, Policy] = {
    "stall": Policy(_judge_stall, by_absence=True, by_deletion=True),
    "no-progress-in-fault": Policy(_judge_waiting, by_absence=True, by_deletion=True),
    SLOW_RECOVERY: Policy(_judge_waiting, by_absence=True, by_deletion=True),
}
