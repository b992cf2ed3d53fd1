"""What a diagnosis says: causes with the evidence for and against them, what is excluded, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from checkers.core.results import Finding

Confidence = Literal["certain", "likely", "possible"]
MeasurementOutcome = Literal["none", "allowed", "seen", "not measured", "not excluded"]

CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")
FINDINGS_TOLD = 5  # by results.json; all of them are there under their anomalies


@dataclass(frozen=True)
class Cause:
    """Why something was seen. `findings` prove it; `consequences` are other findings that follow from it."""

    name: str
    sentence: str
    confidence: Confidence
    findings: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()
    because: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    allowed: bool = False  # the configuration permits what was seen

    @property
    def explains(self) -> tuple[str, ...]:
        """The anomalies that it accounts for, those that prove it first."""
        return tuple(dict.fromkeys(each.anomaly for each in (*self.findings, *self.consequences)))

    @property
    def first(self) -> Finding | None:
        """The first counterexample in time, of those that prove it."""
        dated = [each for each in self.findings if each.time_ns is not None]
        return min(dated, key=lambda each: each.time_ns or 0, default=next(iter(self.findings), None))

    def as_json(self) -> dict[str, Any]:
        """For results.json; findings are pointed at, and told under their anomalies."""
        return {
            "name": self.name,
            "sentence": self.sentence,
            "confidence": self.confidence,
            "because": list(self.because),
            "against": list(self.against),
            "remedies": list(self.remedies),
            "explains": list(self.explains),
            "allowed": self.allowed,
            "first": None if self.first is None else _pointer(self.first),
            "findings": [_pointer(each) for each in self.findings[:FINDINGS_TOLD]],
        }


@dataclass(frozen=True)
class Measured:
    """What was asked of the run whatever was found: one of the usual suspects, and what the measurement says."""

    name: str
    outcome: MeasurementOutcome
    sentence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


@dataclass(frozen=True)
class Excluded:
    """A usual suspect that was measured, and is not the cause."""

    name: str
    sentence: str
    because: str

    def as_json(self) -> dict[str, str]:
        """For results.json."""
        return {"name": self.name, "sentence": self.sentence, "because": self.because}


@dataclass(frozen=True)
class Diagnosis:
    """Causes, the most harmful first; those of what is allowed apart; what no rule explains is said."""

    causes: tuple[Cause, ...] = ()
    allowed: tuple[Cause, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    measured: tuple[Measured, ...] = ()
    unexplained: tuple[str, ...] = ()  # anomalies that are not allowed, and that no cause accounts for

    @property
    def not_excluded(self) -> tuple[Measured, ...]:
        """What was looked for and not found, and may be there all the same."""
        return tuple(each for each in self.measured if each.outcome == "not excluded") if self.causes else ()

    @property
    def cause(self) -> Cause | None:
        """The one on top."""
        return next(iter(self.causes), None)

    def as_json(self) -> dict[str, Any]:
        """For results.json."""
        return {
            "causes": [each.as_json() for each in self.causes],
            "allowed": [each.as_json() for each in self.allowed],
            "excluded": [each.as_json() for each in self.excluded],
            "measured": [
                {"name": each.name, "outcome": each.outcome, "sentence": each.sentence} for each in self.measured
            ],
            "unexplained": list(self.unexplained),
        }


def _pointer(finding: Finding) -> dict[str, Any]:
    return {
        "anomaly": finding.anomaly,
        "place": finding.place,
        "time_ns": finding.time_ns,
        "events": list(finding.events),
        "detail": finding.detail,
    }


def listed(things: Sequence[object]) -> str:
    """A, B and C."""
    words = [str(each) for each in things]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def when(condition: object, sentence: str) -> tuple[str, ...]:
    """The sentence, if it is so."""
    return (sentence,) if condition else ()


def counted(count: int, one: str, many: str = "") -> str:
    """1 offset, 2 offsets."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
