"""What has to come of a run: a verdict, and if the file says so the anomalies and the cause that must be found.

An anomaly under `anomalies` has to be found and not be allowed: a promise was broken, or it may be the client's doing,
or it is unproven. One under `allowed` has to be found and be permitted by the configuration. What else was found is
the verdict's matter alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from checkers.core.selection import anomalies_of
from harness.foundation.config import Model, suggestion
from harness.judging.checking import Checked
from harness.judging.diagnosis.rules import NAMES

Verdict = Literal["valid", "invalid", "unknown"]
REASONS = 3  # of a verdict that are told


@dataclass(frozen=True)
class RunFindings:
    """What came of a run, as far as it can be expected."""

    verdict: str
    anomalies: Mapping[str, str]  # by name, the gravest mark
    causes: tuple[str, ...] = ()  # names, the surest first
    allowed_causes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()  # for anything but valid

    @classmethod
    def of(cls, checked: Checked) -> Self:
        """From a run that was checked."""
        return cls(
            checked.verdict.outcome,
            {seen.anomaly: seen.mark.status for seen in checked.verdict.seen},
            tuple(cause.name for cause in checked.diagnosis.causes),
            tuple(cause.name for cause in checked.diagnosis.allowed),
            tuple(map(str, checked.verdict.reasons)),
        )


class Expectation(Model):
    """The `expect` of a suite's scenario."""

    verdict: Verdict | None = Field(None, description="The verdict; default: what the other keys imply.")
    anomalies: tuple[str | tuple[str, ...], ...] = Field(
        (), description="Each was found and is not allowed; several in a list are one of these."
    )
    allowed: tuple[str, ...] = Field((), description="Each was found, and the configuration permits it.")
    cause: str | None = Field(None, description="The cause on top.")
    at_least: int | None = Field(None, ge=1, description="In this many of the tries; default: all.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, written: Any) -> Any:
        return {"verdict": written} if isinstance(written, str) else written

    @model_validator(mode="after")
    def _known(self) -> Self:
        known = sorted(frozenset().union(*anomalies_of().values()))
        named = [name for each in self.anomalies for name in ((each,) if isinstance(each, str) else each)]
        for name in (*named, *self.allowed):
            if name not in known:
                raise ValueError(f"there is no anomaly '{name}': {suggestion(name, known)}")
        if self.cause is not None and self.cause not in NAMES:
            raise ValueError(f"there is no cause '{self.cause}': {suggestion(self.cause, sorted(NAMES))}")
        if () in self.anomalies:
            raise ValueError("an empty list in 'anomalies' could never be found")
        return self

    @property
    def outcome(self) -> Verdict:
        """The verdict that is expected."""
        if self.verdict is not None:
            return self.verdict
        return "invalid" if self.anomalies or (self.cause and not self.allowed) else "valid"

    def unmet(self, found: RunFindings) -> Iterator[str]:
        """A sentence for each thing that is not as it had to be."""
        if found.verdict != self.outcome:
            why = f": {'; '.join(found.reasons[:REASONS])}" if found.reasons else ""
            yield f"the verdict is {found.verdict} instead of {self.outcome}{why}"
        for each in self.anomalies:
            names = (each,) if isinstance(each, str) else each
            if not any(found.anomalies.get(name, "allowed") != "allowed" for name in names):
                yield f"{_either(names)} was not found" + (
                    ", but for what is allowed" if any(name in found.anomalies for name in names) else ""
                )
        for name in self.allowed:
            if found.anomalies.get(name) != "allowed":
                yield f"{name} was {'found and is not allowed' if name in found.anomalies else 'not found'}"
        if self.cause is not None and self.cause not in self._causes(found):
            top = next(iter(found.causes), None)
            yield f"the cause on top is {top} instead of {self.cause}" if top else f"{self.cause} was not diagnosed"

    def needed(self, tries: int) -> int:
        """In how many of the tries it has to be so."""
        return tries if self.at_least is None else self.at_least

    def __str__(self) -> str:
        parts = [_either((each,) if isinstance(each, str) else each) for each in self.anomalies]
        parts += [f"{name} (allowed)" for name in self.allowed]
        return ": ".join(filter(None, (self.outcome, ", ".join(parts))))

    @staticmethod
    def _causes(found: RunFindings) -> tuple[str, ...]:
        """The one on top; where there is none, those of what is allowed."""
        return found.causes[:1] or found.allowed_causes


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(names)
