"""Sentences about offsets and watermarks that contradict acknowledgements."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def inconsistent_offset(finding: Finding, say: Wording) -> str:
    """Two values at one place."""
    return f"offset {finding.offset} holds two values"


def shared_offset(finding: Finding, say: Wording) -> str:
    """Acknowledgements that contradict each other."""
    return f"offset {finding.offset} was acknowledged to {say.count(finding.facts['count'], 'send')}"


def realtime_order(finding: Finding, say: Wording) -> str:
    """A later send, a lower offset."""
    first, then = _operation(finding, "x", say), _before_other(finding, say)
    return f"{first} was acknowledged {then} began, which got a lower offset"


def not_linearizable(finding: Finding, say: Wording) -> str:
    """Two operations out of order."""
    first, then = _operation(finding, "x", say), _before_other(finding, say)
    return f"{first} was over {then} began, which comes before it in the log"


def _operation(finding: Finding, which: str, say: Wording) -> str:
    node, value = finding.facts.get(f"{which}_node"), finding.facts.get(f"{which}_value")
    if node is not None:
        return f"end() by node {node}"
    return "a read" if value is None else say.value(value)


def _before_other(finding: Finding, say: Wording) -> str:
    return f"{say.lasted(finding.facts['by_ns'])} before {_operation(finding, 'y', say)}"


def watermark_behind_ack(finding: Finding, say: Wording) -> str:
    """A mark that comes too late."""
    facts = finding.facts
    node = f"node {facts['y_node']}" if "y_node" in facts else "a node"
    return (
        f"offset {facts['offset']} was acknowledged at {say.at(facts['x_at'])}; {node} still showed less when asked at"
        f" {say.at(facts['y_at'])} ({say.count(facts['proofs'], 'offset')} like it)"
    )


def watermark_frozen(finding: Finding, say: Wording) -> str:
    """A mark that stands."""
    facts = finding.facts
    node = f"node {facts['y_node']}" if "y_node" in facts else "a node"
    return (
        f"{node} showed {facts['mark']} until {say.at(facts['y_at'])}, although offset {facts['offset']} was"
        f" acknowledged at {say.at(facts['x_at'])} ({say.count(facts['proofs'], 'offset')} like it)"
    )


def watermark_ahead(finding: Finding, say: Wording) -> str:
    """A mark above what was there."""
    facts = finding.facts
    node = f"node {facts['x_node']}" if "x_node" in facts else "a node"
    what = "an append" if "later append" in finding.tags else "a final read"
    return (
        f"{node} showed {facts['offset']} at {say.at(facts['x_at'])}; {what} that began at {say.at(facts['y_at'])}"
        f" found less ({say.count(facts['proofs'], 'mark')} like it)"
    )


SENTENCES: dict[str, Sentence] = {
    "inconsistent-offset": inconsistent_offset,
    "shared-offset": shared_offset,
    "realtime-order": realtime_order,
    "not-linearizable": not_linearizable,
    "watermark-behind-ack": watermark_behind_ack,
    "watermark-frozen": watermark_frozen,
    "watermark-ahead": watermark_ahead,
}
