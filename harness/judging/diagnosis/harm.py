"""Harm: what a cause does to data that was acknowledged, by the anomalies that it accounts for.

acknowledged   acknowledgements contradict each other, or what was acknowledged is lost, damaged or replaced
read           readers are handed what they must not be, twice, out of order, or not at all
service        clients do not get through
told           nodes say something wrong of themselves: watermarks, leaders, coordinators
elsewhere      the same, of topics that the workload does not use

Causes are told in this order. Of two with the same harm that one comes first whose own proof is the graver: a watermark
that hides acknowledged messages comes after offsets that were given twice. Then the surer one does, then the one whose
rule is asked first. What is allowed harms nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import CONFIDENCES, Cause
from harness.judging.diagnosis.evidence import Evidence

Harm = Literal["acknowledged", "read", "service", "told", "elsewhere"]

HARMS: tuple[Harm, ...] = get_args(Harm)
_OF: dict[Harm, tuple[str, ...]] = {
    "acknowledged": (
        "shared-offset",
        "false-ack",
        "split-brain",
        "lost-write",
        "lost-tail",
        "inconsistent-offset",
        "corrupt",
        "misrouted",
        "torn",
        "wrong-outcome",
        "zombie-write",
        "replica-divergence",
        "retry-duplicate",
        "retry-offset-changed",
    ),
    "read": (
        "unseen",
        "phantom",
        "gap",
        "aborted-read",
        "duplicate",
        "realtime-order",
        "nonmonotonic-send",
        "int-nonmonotonic-send",
        "retry-reorder",
        "poll-skip",
        "int-poll-skip",
        "nonmonotonic-poll",
        "int-nonmonotonic-poll",
        "rebalance-loss",
        "committed-offset-vanished",
        "committed-offset-regression",
        "committed-beyond-read",
        "double-ownership",
        "offsets-not-atomic",
        "precommitted-read",
        "G0",
        "G1c",
        "G-single",
        "G2",
        "G0-realtime",
        "G1c-realtime",
        "G-single-realtime",
        "G2-realtime",
    ),
    "service": ("stall", "lso-stuck", "not-leader-loop", "leaderless", "no-progress-in-fault", "slow-recovery"),
}
HARM_OF: dict[str, Harm] = {anomaly: harm for harm, anomalies in _OF.items() for anomaly in anomalies}


def in_order(causes: Iterable[Cause], evidence: Evidence) -> list[Cause]:
    """The most harmful first; the evidence is whole: nothing is accounted for yet."""

    def rank(cause: Cause) -> tuple[int, int, int]:
        follows = [each for each in evidence.counting(cause.consequences) if evidence.uses(each.topic)]
        own = _worst(cause.findings, evidence)
        return min(own, _worst(follows, evidence, none="elsewhere")), own, CONFIDENCES.index(cause.confidence)

    return sorted(causes, key=rank)


def _worst(findings: Iterable[Finding], evidence: Evidence, none: Harm = "service") -> int:
    """The gravest harm; a cause without findings has errors of clients to show."""
    harms = [HARM_OF.get(each.anomaly, "told") if evidence.uses(each.topic) else "elsewhere" for each in findings]
    return min((HARMS.index(each) for each in harms), default=HARMS.index(none))
