"""Transactions: writes are not isolated, and a poll returns as much of a log as it likes."""

from __future__ import annotations

from dataclasses import replace

from harness.judging.policies.case import OF_WRITES, FindingCase, Mark, Policy

_NO_ISOLATION = Mark("allowed", "no-write-isolation")
_BEHIND = Mark("allowed", "readers-behind")


def _judge_interleaving(_: FindingCase) -> Mark:
    return _NO_ISOLATION


def _judge_circular(case: FindingCase) -> Mark:
    """Who reads another's writes reads them after that one was committed; the order of writes promises nothing."""
    return _NO_ISOLATION if "ww" in case.finding.tags else Mark("illegal")


def _judge_behind(_: FindingCase) -> Mark:
    return _BEHIND


def _judge_absent(case: FindingCase) -> Mark:
    """What rests on something being absent is not proven by a history with holes."""
    if case.results.has_holes and not {"abort", "twice"}.intersection(case.finding.tags):
        return Mark("unproven", "holes")
    return Mark("illegal")


_OF_WRITES = replace(OF_WRITES, judge=_judge_absent)

POLICIES: dict[str, Policy] = {
    "torn": _OF_WRITES,
    "wrong-outcome": _OF_WRITES,
    "offsets-not-atomic": _OF_WRITES,
    "G0": Policy(_judge_interleaving),
    "G0-realtime": Policy(_judge_interleaving),
    "G1c": Policy(_judge_circular),
    "G1c-realtime": Policy(_judge_circular),
    "G-single": Policy(_judge_behind),
    "G-single-realtime": Policy(_judge_behind),
    "G2": Policy(_judge_behind),
    "G2-realtime": Policy(_judge_behind),
}
