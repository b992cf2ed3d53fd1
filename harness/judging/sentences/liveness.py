"""Sentences about stretches of time in which nothing got through."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def stall(finding: Finding, say: Wording) -> str:
    """No records from offset 2 on for 9.6 s, although more was acknowledged; nodes showed 5."""
    facts = finding.facts
    if "class 3" in finding.tags:
        return (
            f"consumers reached offset {facts['position']} while offset {facts['early']} had long been acknowledged;"
            " another partition of the same consumer was read to its end"
        )
    shown = f"nodes showed up to {facts['shown']}" if "shown" in facts else "no node was seen to answer meanwhile"
    return (
        f"consumers received no records from offset {finding.offset} on for {say.lasted(facts['lasted_ns'])}, from"
        f" {say.at(finding.time_ns)} on, although more was acknowledged; {shown}"
    )


def no_progress_in_fault(finding: Finding, say: Wording) -> str:
    """No send got through for 23.0 s, from 31.000 s on; leader-kill lasted for 20.0 s of that."""
    facts = finding.facts
    fault = facts.get("fault")
    during = f"{fault} lasted for {say.lasted(facts['span_ns'])} of that" if fault else "no fault was active"
    return f"{_progress_waited(finding, say)}; {during}"


def slow_recovery(finding: Finding, say: Wording) -> str:
    """No send got through for 44.0 s, from 46.000 s on; 31.0 s of that after leader-kill was undone."""
    facts = finding.facts
    return f"{_progress_waited(finding, say)}; {say.lasted(facts['span_ns'])} of that after {facts['fault']} was undone"


def _progress_waited(finding: Finding, say: Wording) -> str:
    return f"no send got through for {say.lasted(finding.facts['lasted_ns'])}, from {say.at(finding.time_ns)} on"


SENTENCES: dict[str, Sentence] = {
    "stall": stall,
    "no-progress-in-fault": no_progress_in_fault,
    "slow-recovery": slow_recovery,
}
