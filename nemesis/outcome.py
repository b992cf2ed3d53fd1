"""What came of a fault: how far its slot has come, and when."""

from __future__ import annotations

from dataclasses import dataclass

from harness.history.schema import FaultStage
from nemesis.base import FaultEvidence
from nemesis.schedule import Slot


@dataclass
class FaultOutcome:
    """How far a slot has come; times are those of the history."""

    slot: Slot
    stage: FaultStage | None = None
    sentence: str = "the run ended before its time came"
    injected_at: int | None = None
    evidence: FaultEvidence | None = None
    undone_at: int | None = None
    healed_at: int | None = None
    failed: bool = False

    @property
    def active(self) -> bool:
        """Whether something is broken now, as far as is known."""
        return self.injected_at is not None and self.undone_at is None

    @property
    def over(self) -> bool:
        """Whether the schedule is done with it; what could not be undone is left to `heal`."""
        return self.stage is not None and (self.failed or not self.active)

    @property
    def recovering(self) -> bool:
        """Whether it is undone and the cluster was not seen whole since."""
        return self.undone_at is not None and self.healed_at is None

    @property
    def recovered_after_s(self) -> float | None:
        """How long after the undo the cluster was seen whole."""
        if self.undone_at is None or self.healed_at is None:
            return None
        return round((self.healed_at - self.undone_at) / 1e9, 1)
