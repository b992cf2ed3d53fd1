"""Sentences about consumer groups: committed offsets, ownership and rebalances."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.history.schema import ID_BITS
from harness.judging.sentences.wording import Sentence, Wording


def committed_offset_regression(finding: Finding, say: Wording) -> str:
    """Group G committed offset 9 by 15.000 s; at 25.000 s the answer was offset 5 (3 such answers)."""
    return f"{_committed(finding, say)} the answer was offset {finding.facts['shown']}{_so_often(finding, say)}"


def committed_offset_vanished(finding: Finding, say: Wording) -> str:
    """Group G committed offset 9 by 15.000 s; at 25.000 s the answer was that there is no commit (3 such answers)."""
    return f"{_committed(finding, say)} the answer was that there is no commit{_so_often(finding, say)}"


def _committed(finding: Finding, say: Wording) -> str:
    facts = finding.facts
    made, shown = say.at(facts["committed_ns"]), say.at(facts["shown_ns"])
    return f"group {facts['group']} committed offset {facts['committed']} by {made}; at {shown}"


def _so_often(finding: Finding, say: Wording) -> str:
    times = finding.facts["times"]
    return "" if times == 1 else f" ({say.count(times, 'such answer')})"


def committed_beyond_read(finding: Finding, say: Wording) -> str:
    """Group G committed offset 9, but its members had only got to offset 5 (in 3 seconds of the run)."""
    facts = finding.facts
    often = "" if facts["seconds"] == 1 else f" (in {say.count(facts['seconds'], 'second')} of the run)"
    return (
        f"group {facts['group']} committed offset {facts['committed']},"
        f" but its members had only got to offset {facts['handed']}{often}"
    )


def rebalance_loss(finding: Finding, say: Wording) -> str:
    """Group G skipped 3 acknowledged records between offsets 4 and 9 that other readers got."""
    facts = finding.facts
    if facts["lost"] == 1:
        lost = f"an acknowledged record at offset {facts['first']}"
    else:
        count = say.count(facts["lost"], "acknowledged record")
        lost = f"{count} between offsets {facts['first']} and {facts['last']}"
    killed = "; a member that was killed while polling may have had it" if "open poll" in finding.tags else ""
    return f"group {facts['group']} skipped {lost} that other readers got{killed}"


def double_ownership(finding: Finding, say: Wording) -> str:
    """Group G assigned it to member 7 of process 5 (generation 3) 2.0 s before member 4 of process 6 let go."""
    facts = finding.facts
    new = _groups_member(facts["member"], facts.get("generation"), say)
    old = _groups_member(facts["member_before"], facts.get("generation_before"), say)
    return f"group {facts['group']} assigned it to {new} {say.lasted(facts['overlap_ns'])} before {old} let go"


def _groups_member(member: int, generation: int | None, say: Wording) -> str:
    name = f"member {member}"
    if not say.foreign:
        name = f"member {member % (1 << ID_BITS)} of process {member >> ID_BITS}"
    return f"{name} ({'generation unknown' if generation is None else f'generation {generation}'})"


SENTENCES: dict[str, Sentence] = {
    "committed-offset-regression": committed_offset_regression,
    "committed-offset-vanished": committed_offset_vanished,
    "committed-beyond-read": committed_beyond_read,
    "rebalance-loss": rebalance_loss,
    "double-ownership": double_ownership,
}
