"""Watermarks: a new leader has to learn them, and one that was deposed may not know it yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.judging.policies.case import FindingCase, Mark, Policy
from harness.judging.policies.liveness import STALL_NS, outside_ns

END = "end-offset-regression"
_DEPOSED = Mark("allowed", "deposed-leader")
_NEW = Mark("allowed", "new-leader")
_UNCLEAN = Mark("allowed", "unclean-election")


def deposed(case: FindingCase) -> Mark:
    """Of an answer of an older epoch: Metadata shows that the leader changed, and not why."""
    return _DEPOSED if case.leaders_changed else Mark("unproven", "deposed-without-fault")


def _judge_regression(case: FindingCase) -> Mark:
    tags, changed = case.finding.tags, case.leaders_changed
    if case.unclean and changed:
        return _UNCLEAN
    if "older epoch" in tags and "across nodes" in tags:
        return deposed(case)
    if "restarted" in tags and changed:
        return Mark("allowed", "restarted-follower")
    if "epoch unknown" in tags and (changed or "across nodes" in tags):
        return _of_unknown(case)
    if "epoch rose" in tags and case.finding.anomaly != END:
        return _NEW
    return Mark("illegal")  # KIP-207: a new leader does not tell its end before it knows it


def _of_unknown(case: FindingCase) -> Mark:
    """Nobody knows who led; a node may have lost the lead and regained it, or another one took it without a fault."""
    if not case.leaders_changed:
        return Mark("unproven", "moved-unseen")
    if "across nodes" in case.finding.tags and case.finding.anomaly != END:
        return Mark("allowed", "other-node-epoch-unknown")
    return Mark("unproven", "leadership-unknown")


def _judge_above(case: FindingCase) -> Mark:
    if "one answer" in case.finding.tags:
        return Mark("allowed", "two-reads")
    return _judge_regression(case)


def _judge_behind(case: FindingCase) -> Mark:
    tags, changed = case.finding.tags, case.leaders_changed
    if case.facts.acks in {"0", "1"}:
        return case.by_acks("weak-acks-visibility")
    if case.unclean and changed:
        return _UNCLEAN
    if "older epoch" in tags:
        return deposed(case)
    if "epoch rose" in tags:
        return _NEW
    if "epoch unknown" in tags and changed:
        return Mark("allowed", "epoch-unknown")
    return Mark("illegal")


def _kept_from_followers(case: FindingCase) -> bool:
    """Whether it stood while a fault had changed the leader and need let nothing through to the new one."""
    names = {fault.name for fault in case.facts.faults if fault.blocks and fault.changes_leaders}
    return bool(case.came(names)) and outside_ns(case, names) < STALL_NS


def _judge_frozen(case: FindingCase) -> Mark:
    tags, changed = case.finding.tags, case.leaders_changed
    if _kept_from_followers(case):
        return _NEW
    if case.facts.acks in {"0", "1"} and case.came({fault.name for fault in case.facts.faults}):
        return case.by_acks("weak-acks-followers")
    if changed and ("epoch unknown" in tags or case.unclean):
        return Mark("allowed", "new-leader-unknown")
    return Mark("illegal")


def _judge_ahead(case: FindingCase) -> Mark:
    return _UNCLEAN if case.unclean and case.leaders_changed else Mark("illegal")


def _judge_stuck(case: FindingCase) -> Mark:
    return deposed(case) if "older epoch" in case.finding.tags else Mark("illegal")


_REGRESSION = Policy(
    _judge_regression,
    by_own_deletion=True,
    by_deletion=True,
    by_configuration=True,
    by_unclean_election=True,
    certain=lambda case: "one epoch" in case.finding.tags,
    seen_at_its_time=True,
)


def _of_acknowledgements(judge: Callable[[FindingCase], Mark]) -> Policy:
    return Policy(judge, by_deletion=True, by_configuration=True, by_unclean_election=True, dated=True)


POLICIES: dict[str, Policy] = {
    "watermark-regression": _REGRESSION,
    "end-offset-regression": _REGRESSION,
    "lso-regression": _REGRESSION,
    "log-start-regression": _REGRESSION,
    "lso-above-hw": replace(_REGRESSION, judge=_judge_above),
    "lso-stuck": Policy(_judge_stuck, by_own_deletion=True, by_deletion=True, dated=True),
    "watermark-behind-ack": _of_acknowledgements(_judge_behind),
    "watermark-frozen": _of_acknowledgements(_judge_frozen),
    "watermark-ahead": _of_acknowledgements(_judge_ahead),
}
