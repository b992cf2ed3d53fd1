"""Linearizability: what acks=1 does not promise, and leaders that do not know that they were deposed."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.policies.case import OF_WRITES, FindingCase, Mark, Policy
from harness.judging.policies.watermarks import deposed


def _judge_end(case: FindingCase) -> Mark:
    tags = case.finding.tags
    if "behind" in tags and case.facts.acks in {"0", "1"}:
        return case.by_acks("weak-acks-end")
    if "older epoch" in tags:
        return deposed(case)
    return Mark("illegal")


_OF_TWO = replace(OF_WRITES, judge=_judge_end)

POLICIES: dict[str, Policy] = {
    "realtime-order": _OF_TWO,
    "not-linearizable": _OF_TWO,
}
