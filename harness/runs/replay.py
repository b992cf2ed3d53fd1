"""A recorded run once more: exactly the faults of its schedule, whatever a newer version would make of its plans."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.foundation.errors import UsageError
from harness.history.store import RUN_FILE, Run
from nemesis import scheduled
from nemesis.schedule import Slot


@dataclass(frozen=True)
class Replay:
    """What is taken from a run."""

    run: Path
    slots: tuple[Slot, ...]

    def within(self, time_s: float) -> list[Slot]:
        """The slots, for a load that lasts so long."""
        last_s = max((slot.end_s for slot in self.slots), default=0.0)
        if last_s > time_s:
            raise UsageError(
                f"the faults of {self.run} end {last_s:g} s into the load, which lasts {time_s:g} s",
                f"let it last {last_s:g} s or more",
            )
        return list(self.slots)


def replay_of(run: Run) -> Replay:
    """The schedule of a run in the store."""
    file = run.path / RUN_FILE
    facts = run.facts
    if "schedule" not in facts:
        raise UsageError(f"{file} has no schedule that could be repeated", "name a run that `tidegauge run` made")
    try:
        return Replay(run.path, tuple(scheduled(facts["schedule"])))
    except ValueError as error:
        raise UsageError(
            f"{file} has a schedule that cannot be repeated ({error})",
            f"repeat its scenario instead: tidegauge run {run.path / 'scenario.toml'}",
        ) from None
