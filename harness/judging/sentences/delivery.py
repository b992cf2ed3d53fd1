"""Sentences about messages: lost, read twice, never sent, changed, or acknowledged wrongly."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def lost_write(finding: Finding, say: Wording) -> str:
    """Acknowledged at offset 17; readers got to offset 40 without it."""
    facts = finding.facts
    if "reached" in facts:
        return f"acknowledged at offset {facts['acknowledged']}; readers got to offset {facts['reached']} without it"
    return f"acknowledged without an offset; the final read{_delivery_end(finding)} without it"


def lost_tail(finding: Finding, say: Wording) -> str:
    """Acknowledged at offset 17; the final read ended at offset 17 without it."""
    return f"acknowledged at offset {finding.facts['acknowledged']}; the final read{_delivery_end(finding)} without it"


def unseen(finding: Finding, say: Wording) -> str:
    """Acknowledged at offset 17, the partition ends at 20; process 5 has been at offset 12 since 40.000 s."""
    facts = finding.facts
    names = ("standing_process", "standing_offset", "standing_since_ns")
    standing = [
        f"process {process} has been at offset {offset} since {say.at(since)}"
        for process, offset, since in zip(*(facts.get(name, ()) for name in names), strict=True)
    ]
    readers = ", ".join(standing) or "no reader got any record of it"
    return f"acknowledged at offset {facts['acknowledged']}, and the partition ends at {facts['known_end']}; {readers}"


def phantom(finding: Finding, say: Wording) -> str:
    """Readers got it, but process 3 never sent it."""
    producer = finding.facts.get("producer")
    return "nobody sent it" if producer is None else f"process {producer} should have sent it but never did"


def aborted_read(finding: Finding, say: Wording) -> str:
    """Its transaction was aborted, yet it was read."""
    if finding.facts["in_transaction"]:
        return "its transaction was aborted, but a reader got it"
    return "its send failed for certain, but a reader got it"


def duplicate(finding: Finding, say: Wording) -> str:
    """It is in the log at offsets 3 and 9."""
    return f"in the log at offset {finding.facts['low']} and again at offset {finding.facts['high']}"


def false_ack(finding: Finding, say: Wording) -> str:
    """Acknowledged at offset 4, below log start 5, which a node had shown before the send began."""
    facts = finding.facts
    if "log_start" in facts:
        return (
            f"acknowledged at offset {facts['acknowledged']}, below log start {facts['log_start']}, which a node had"
            f" already shown at {say.at(facts['shown_ns'])}, before it was sent"
        )
    return "acknowledged without a usable offset"


def _delivery_end(finding: Finding) -> str:
    end = finding.facts.get("final_end")
    return " ended" if end is None else f" ended at offset {end}"


def corrupt(finding: Finding, say: Wording) -> str:
    """A checksum that does not hold."""
    return f"the record at offset {finding.offset} fails its checksum"


def misrouted(finding: Finding, say: Wording) -> str:
    """A record of another topic or partition."""
    return f"the record at offset {finding.offset} was sent to another topic or partition"


def _foreign_record(finding: Finding, say: Wording) -> str:
    """With the tag `foreign`; without it, `checkers.delivery.family` found it."""
    return f"the record at offset {finding.offset} was not written by this run"


def _last_write_of_key(finding: Finding, say: Wording) -> str:
    """With the tag `last of its key`; without it, `checkers.delivery.family` found it."""
    facts = finding.facts
    end = facts.get("final_end")
    final = "the final read ended" if end is None else f"the final read ended at offset {end}"
    found = f"nothing newer than offset {facts['found']}" if "found" in facts else "nothing"
    return (
        f"the last write of key {facts['key']} was acknowledged at offset {facts['written']}; {final} and found"
        f" {found} of that key"
    )


def _lost_write(finding: Finding, say: Wording) -> str:
    return (_last_write_of_key if "last of its key" in finding.tags else lost_write)(finding, say)


def _phantom(finding: Finding, say: Wording) -> str:
    return (_foreign_record if "foreign" in finding.tags else phantom)(finding, say)


SENTENCES: dict[str, Sentence] = {
    "lost-write": _lost_write,
    "lost-tail": lost_tail,
    "unseen": unseen,
    "phantom": _phantom,
    "aborted-read": aborted_read,
    "duplicate": duplicate,
    "false-ack": false_ack,
    "corrupt": corrupt,
    "misrouted": misrouted,
}
