"""Linearizability: what acks=1 does not promise, and leaders that do not know that they were deposed."""

from __future__ import annotations

from dataclasses import replace

from harness.policies.case import OF_WRITES, Case, Mark, Policy


def _judge_end(case: Case) -> Mark:
    tags = case.finding.tags
    if "behind" in tags and case.facts.acks in {"0", "1"}:
        return Mark(
            "allowed",
            f"acks={case.facts.acks}: acknowledged before it was replicated, end() is held to monotonic reads only",
        )
    if "older epoch" in tags and case.leaders_changed:
        return Mark("allowed", "a leader that a fault had deposed answered before it knew of its successor")
    return Mark("illegal")


_OF_TWO = replace(OF_WRITES, judge=_judge_end)

POLICIES: dict[str, Policy] = {
    "realtime-order": _OF_TWO,
    "not-linearizable": _OF_TWO,
}
