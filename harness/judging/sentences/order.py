"""Sentences about the order of what readers got and of what producers sent."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def poll_skip(finding: Finding, say: Wording) -> str:
    """A poll ended at offset 3 and the next one began at offset 6; it skipped offset 4."""
    facts = finding.facts
    return (
        f"a poll ended at offset {facts['from_offset']} and the next one began at offset {facts['to_offset']};"
        f" it skipped offset {finding.offset}"
    )


def int_poll_skip(finding: Finding, say: Wording) -> str:
    """One poll or transaction went from offset 3 to offset 6 and skipped offset 4."""
    facts = finding.facts
    return (
        f"one poll or transaction went from offset {facts['from_offset']} to offset {facts['to_offset']}"
        f" and skipped offset {finding.offset}"
    )


def nonmonotonic_poll(finding: Finding, say: Wording) -> str:
    """A poll ended at offset 6 and the next one went back to offset 3."""
    start, end = finding.facts["from_offset"], finding.facts["to_offset"]
    again = "returned it again" if start == end else f"went back to offset {end}"
    return f"a poll ended at offset {start} and the next one {again}"


def int_nonmonotonic_poll(finding: Finding, say: Wording) -> str:
    """One poll or transaction went back from offset 6 to offset 3."""
    start, end = finding.facts["from_offset"], finding.facts["to_offset"]
    again = f"returned offset {end} twice" if start == end else f"went back from offset {start} to offset {end}"
    return f"one poll or transaction {again}"


def gap(finding: Finding, say: Wording) -> str:
    """A reader went from offset 3 to offset 6; nothing accounts for the 2 offsets between them."""
    facts = finding.facts
    return (
        f"a reader went from offset {facts['from_offset']} to offset {facts['to_offset']};"
        f" nothing accounts for the {say.count(facts['missing'], 'offset')} between them"
    )


def nonmonotonic_send(finding: Finding, say: Wording) -> str:
    """Acknowledged at offset 7; producer 3 #18, sent later, got offset 5."""
    later = say.value(finding.values[-1])
    return f"acknowledged at offset {finding.offset}; {later}, sent later, got offset {finding.facts['later_offset']}"


def int_nonmonotonic_send(finding: Finding, say: Wording) -> str:
    """The same within a transaction."""
    return f"{nonmonotonic_send(finding, say)} in the same transaction"


SENTENCES: dict[str, Sentence] = {
    "poll-skip": poll_skip,
    "int-poll-skip": int_poll_skip,
    "nonmonotonic-poll": nonmonotonic_poll,
    "int-nonmonotonic-poll": int_nonmonotonic_poll,
    "gap": gap,
    "nonmonotonic-send": nonmonotonic_send,
    "int-nonmonotonic-send": int_nonmonotonic_send,
}
