"""Sentences about batches that were sent again."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def retry_duplicate(finding: Finding, say: Wording) -> str:
    """Producer 7 (epoch 0), sequence 0: acknowledged at offset 5 and again at offset 8."""
    facts = finding.facts
    how = "read" if "read twice" in finding.tags else "acknowledged"
    return f"{_batch(finding)}: {how} at offset {facts['low_offset']} and at offset {facts['high_offset']}"


def retry_offset_changed(finding: Finding, say: Wording) -> str:
    """The same batch, other offsets."""
    facts = finding.facts
    return (
        f"{_batch(finding)}: {say.count(facts['acks'], 'acknowledgement')} of the same batch,"
        f" at offsets from {facts['low_offset']} to {facts['high_offset']}"
    )


def retry_reorder(finding: Finding, say: Wording) -> str:
    """A later sequence at a lower offset."""
    facts = finding.facts
    return (
        f"{_batch(finding)}: at offset {finding.offset}, below the earlier sequence {facts['sequence_before']}"
        f" at offset {facts['place_before']}"
    )


def retry_watermark_regression(finding: Finding, say: Wording) -> str:
    """A mark on both sides of a resend."""
    facts = finding.facts
    mark = "high watermark" if "watermark" in finding.tags else "end offset"
    return (
        f"{say.nodes([facts['node']])} showed {mark} {facts['before']} before a batch was resent at"
        f" {say.at(facts['resent_ns'])}, and {facts['after']} after it was handled at {say.at(facts['handled_ns'])}"
    )


def _batch(finding: Finding) -> str:
    facts = finding.facts
    return f"producer {facts['producer_id']} (epoch {facts['producer_epoch']}), sequence {facts['sequence']}"


SENTENCES: dict[str, Sentence] = {
    "retry-duplicate": retry_duplicate,
    "retry-offset-changed": retry_offset_changed,
    "retry-reorder": retry_reorder,
    "retry-watermark-regression": retry_watermark_regression,
}
