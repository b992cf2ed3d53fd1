"""Sentences about transactions: torn ones, wrong outcomes, and cycles among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import ID_BITS
from harness.judging.sentences.wording import Sentence, Wording


def torn(finding: Finding, say: Wording) -> str:
    """Part of it is there."""
    visible, missing, writes = (f"{finding.facts[name]:,}" for name in ("visible", "missing", "writes"))
    return f"readers see {visible} of the transaction's {writes} writes and miss {missing}"


def wrong_outcome(finding: Finding, say: Wording) -> str:
    """The other end than the acknowledged one."""
    facts = finding.facts
    if "commit" in finding.tags:
        return (
            "the commit was acknowledged, but readers see no write of the transaction, although"
            f" {facts['aborted']:,} of {facts['writes']:,} reached the log"
        )
    return f"the transaction was aborted, but {facts['visible']:,} of {facts['writes']:,} writes reached readers"


def zombie_write(finding: Finding, say: Wording) -> str:
    """A fenced producer wrote on."""
    fenced, written = finding.facts["fenced_ns"], finding.facts["written_ns"]
    return (
        f"another producer took over the transactional id at {say.at(fenced)}; the fenced one sent this message"
        f" {say.lasted(written - fenced)} later, and readers see it"
    )


def offsets_not_atomic(finding: Finding, say: Wording) -> str:
    """Inputs and outputs that do not go together."""
    facts = finding.facts
    if "twice" in finding.tags:
        return f"{say.count(facts['outputs'], 'output')} of this input were committed"
    if "no output" in finding.tags:
        past = f"the group committed offset {facts['committed']} in a transaction"
        return f"{past}, but no output of this input was committed"
    stands = "has no offset" if facts["answer"] < 0 else f"is still at offset {facts['answer']}"
    return f"an output of this input was committed, but the group {stands}"


def precommitted_read(finding: Finding, say: Wording) -> str:
    """It read its own."""
    return "the transaction polled its own write before it committed"


_CYCLES_STEPS_SHOWN = 12


def cycle(finding: Finding, say: Wording) -> str:
    """Edge by edge, and which transactions these are."""
    facts = finding.facts
    steps = [_cycles_step(facts, number, say) for number in range(min(len(facts["kinds"]), _CYCLES_STEPS_SHOWN))]
    if len(facts["kinds"]) > _CYCLES_STEPS_SHOWN:
        steps.append(f"and {say.count(len(facts['kinds']) - _CYCLES_STEPS_SHOWN, 'more step')}")
    names = [
        f"T{number} is {_cycles_called(op, say)}"
        for number, op in enumerate(facts["operations"][:_CYCLES_STEPS_SHOWN], 1)
    ]
    return "; ".join([*steps, ", ".join(names)])


def _cycles_step(facts: Mapping[str, Any], number: int, say: Wording) -> str:
    kind, before, after = facts["kinds"][number], f"T{facts['sources'][number]}", f"T{facts['destinations'][number]}"
    if kind == "realtime":
        return f"{before} ended before {after} began"
    where = f"{say.place(facts['topics'][number], facts['partitions'][number])}@{facts['offsets'][number]}"
    return {
        "ww": f"{before} wrote before {after} wrote {where}",
        "wr": f"{before} wrote {where} and {after} read it",
        "rw": f"{before} stopped reading before {where}, which {after} wrote",
    }[kind]


def _cycles_called(op: int, say: Wording) -> str:
    return f"transaction {op}" if say.foreign else f"transaction {op % (1 << ID_BITS)} of process {op >> ID_BITS}"


SENTENCES: dict[str, Sentence] = {
    "torn": torn,
    "wrong-outcome": wrong_outcome,
    "zombie-write": zombie_write,
    "offsets-not-atomic": offsets_not_atomic,
    "precommitted-read": precommitted_read,
    "G0": cycle,
    "G1c": cycle,
    "G-single": cycle,
    "G2": cycle,
    "G0-realtime": cycle,
    "G1c-realtime": cycle,
    "G-single-realtime": cycle,
    "G2-realtime": cycle,
}
