"""Which anomalies of a run count as a finding.

Unless told otherwise: what is illegal, whatever it is. A loss that acks=1 permits is none then, because an exploration
that draws acks=1 would meet it before anything else. Somebody may look for `any` anomaly, or name some: then also what
the configuration allows counts, and what may be the client's doing. What is unproven never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.core.selection import anomalies_of
from harness.foundation.config import suggestion
from harness.foundation.errors import UsageError
from harness.judging.verdict import Verdict

ILLEGAL, ANY = "illegal", "any"
GRAVEST = ("illegal", "possibly the client", "allowed")


@dataclass(frozen=True)
class FoundAnomaly:
    """An anomaly of a run."""

    anomaly: str
    times: int
    status: str  # as the policy says it
    why: str = ""

    def __str__(self) -> str:
        told = f"{self.anomaly} ×{self.times:,}"
        return told if self.status == ILLEGAL else f"{told} ({self.status})"


@dataclass(frozen=True)
class Goal:
    """What is looked for."""

    anomalies: frozenset[str] = frozenset()  # nothing but these; all if there are none
    permitted: bool = False  # whether also what is not illegal counts

    def among(self, found: Sequence[FoundAnomaly]) -> list[FoundAnomaly]:
        """Those that count, the gravest first."""
        counted = [
            each
            for each in found
            if (each.status == ILLEGAL or (self.permitted and each.status in GRAVEST))
            and (not self.anomalies or each.anomaly in self.anomalies)
        ]
        return sorted(counted, key=lambda each: GRAVEST.index(each.status))

    def __str__(self) -> str:
        if self.anomalies:
            return f"{', '.join(sorted(self.anomalies))}, allowed or not"
        return "any anomaly, allowed or not" if self.permitted else "anything illegal"


def goal_of(names: Sequence[str]) -> Goal:
    """What somebody asked for: `illegal`, `any`, or names of anomalies and of their families."""
    if list(names) in ([], [ILLEGAL]):
        return Goal()
    if list(names) == [ANY]:
        return Goal(permitted=True)
    known = {name: anomalies for name, anomalies in anomalies_of().items() if anomalies}  # some only measure
    for name in names:
        if name not in known:
            raise UsageError(f"there is no anomaly '{name}' to look for", suggestion(name, [*known, ILLEGAL, ANY]))
    return Goal(frozenset[str]().union(*(known[name] for name in names)), permitted=True)


def found_in(verdict: Verdict) -> list[FoundAnomaly]:
    """All that a run has shown."""
    return [FoundAnomaly(seen.anomaly, seen.found, seen.mark.status, seen.mark.why) for seen in verdict.seen]
