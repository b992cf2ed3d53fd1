"""Sentences about watermarks, last stable offsets and log starts that fell or stood still."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def watermark_regression(finding: Finding, say: Wording) -> str:
    """Node 2 showed high watermark 20 at 4.000 s (leader epoch 3), then node 1 showed 11 at 8.000 s (…)."""
    return _fell(finding, say, "high watermark", "high watermark")


def end_offset_regression(finding: Finding, say: Wording) -> str:
    """The same of ends."""
    return _fell(finding, say, "end offset", "end offset")


def lso_regression(finding: Finding, say: Wording) -> str:
    """The same of last stable offsets."""
    return _fell(finding, say, "last stable offset", "last stable offset")


def log_start_regression(finding: Finding, say: Wording) -> str:
    """The same of log starts."""
    return _fell(finding, say, "log start offset", "log start offset")


def lso_above_hw(finding: Finding, say: Wording) -> str:
    """Two answers that contradict each other, or one that contradicts itself."""
    facts = finding.facts
    if "one answer" not in finding.tags:
        return _fell(finding, say, "last stable offset", "high watermark")
    shown = (
        f"{_node(say, facts.get('node'))} showed last stable offset {facts['shown_before']} above its own high"
        f" watermark {facts['shown']} in one answer at {say.at(facts['at_ns'])}"
    )
    return f"{shown}; {say.count(facts['answers'], 'answer')} did that" if facts["answers"] > 1 else shown


def lso_stuck(finding: Finding, say: Wording) -> str:
    """Node 1 showed last stable offset 5 for 37 s while its high watermark reached 12."""
    facts = finding.facts
    return (
        f"{_node(say, facts.get('node'))} showed last stable offset {facts['stable']} for"
        f" {say.lasted(facts['lasted_ns'])} while its high watermark reached {facts['highest']}"
    )


def _fell(finding: Finding, say: Wording, before: str, after: str) -> str:
    facts = finding.facts
    first, second = facts.get("before_node"), facts.get("node")
    who = "" if first == second and first is not None else f"{_node(say, second)} showed "
    mark = "" if before == after else f"{after} "
    fell = (
        f"{_node(say, first)} showed {before} {facts['shown_before']} at {say.at(facts['before_ns'])}"
        f" ({_watermarks_epoch(facts.get('before_epoch'))}), then {who}{mark}{facts['shown']}"
        f" at {say.at(facts['at_ns'])} ({_watermarks_epoch(facts.get('epoch'))})"
    )
    return f"{fell}; {say.count(facts['answers'], 'answer')} fell back like that" if facts["answers"] > 1 else fell


def _node(say: Wording, node: int | None) -> str:
    return "an unknown node" if node is None else say.nodes([node])


def _watermarks_epoch(epoch: int | None) -> str:
    return "leader epoch unknown" if epoch is None else f"leader epoch {epoch}"


SENTENCES: dict[str, Sentence] = {
    "watermark-regression": watermark_regression,
    "end-offset-regression": end_offset_regression,
    "lso-regression": lso_regression,
    "log-start-regression": log_start_regression,
    "lso-above-hw": lso_above_hw,
    "lso-stuck": lso_stuck,
}
