"""Retries and idempotence: a new leader cannot recognise what it never had, and one that restarts forgets its mark."""

from __future__ import annotations

from harness.judging.policies.case import FindingCase, Mark, Policy
from harness.judging.policies.leadership import in_wake

_OF_A_BATCH = Policy(
    by_own_deletion=True,
    by_deletion=True,
    by_configuration=True,
    by_leader_change=True,
    by_unclean_election=True,
)


def _judge_mark(case: FindingCase) -> Mark:
    if case.unclean and case.leaders_changed:
        return Mark("allowed", "unclean-election")
    if in_wake(case):
        return Mark("allowed", "new-leader-mark")
    return Mark("illegal")


POLICIES: dict[str, Policy] = {
    "retry-duplicate": _OF_A_BATCH,
    "retry-offset-changed": _OF_A_BATCH,
    "retry-reorder": _OF_A_BATCH,
    "retry-watermark-regression": Policy(
        _judge_mark, by_own_deletion=True, by_deletion=True, by_configuration=True, by_unclean_election=True
    ),
}
