"""Sentences about replicas that do not hold the same."""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.sentences.wording import Sentence, Wording


def replica_divergence(finding: Finding, say: Wording) -> str:
    """Nodes 1 and 2 hold different records; or: node 1 holds a record that nodes 2 and 3 lack."""
    holders, lacking = finding.facts["holders"], finding.facts.get("lacking", ())
    if lacking:
        hold = "holds" if len(holders) == 1 else "hold"
        lack = "lacks" if len(lacking) == 1 else "lack"
        return f"{say.nodes(holders)} {hold} a record that {say.nodes(lacking)} {lack}"
    if len(holders) == 1:
        return f"{say.nodes(holders)} returned different records for this offset"
    return f"{say.nodes(holders)} hold different records"


SENTENCES: dict[str, Sentence] = {
    "replica-divergence": replica_divergence,
}
