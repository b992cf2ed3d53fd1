"""Sentences about findings, made from their facts: the only place where the words are.

A module per family of anomalies, as in `checkers`; one function per anomaly, named like it. Each says in one sentence
what proves the finding; where it was, when, and which values are involved stand beside it wherever it is shown.
"""

from __future__ import annotations

from dataclasses import replace

from checkers.core.results import CheckResults, Finding
from harness.judging.sentences import (
    delivery,
    groups,
    idempotence,
    leadership,
    linearizability,
    liveness,
    order,
    replicas,
    transactions,
    watermarks,
)
from harness.judging.sentences.wording import Sentence, Wording

_MODULES = (
    delivery,
    order,
    linearizability,
    watermarks,
    leadership,
    idempotence,
    transactions,
    groups,
    replicas,
    liveness,
)

SENTENCES: dict[str, Sentence] = {name: make for module in _MODULES for name, make in module.SENTENCES.items()}


def add_sentences(results: CheckResults, *, foreign: bool = False) -> None:
    """Give every finding its sentence."""
    say = Wording(results.first_ns, foreign)
    for anomaly in results.anomalies.values():
        anomaly.findings = [replace(each, detail=sentence(each, say)) for each in anomaly.findings]


def sentence(finding: Finding, say: Wording) -> str:
    """What proves it."""
    make = SENTENCES.get(finding.anomaly)
    return make(finding, say) if make else plain(finding)


def plain(finding: Finding) -> str:
    """Of an anomaly that has no words of its own yet: its facts."""
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in finding.facts.items())
