"""Carries out a schedule: injects, watches for the proof, undoes, and writes all of it into the history.

The life of a slot, each step an event (`FaultStage`):

    INJECTED   written before the fault is injected, with its victim
    BIT        the proof was seen
    MISSED     it ended without a proof: none within the fault's longest duration, or until the run ended; or there was
               no victim all the time (then it was never injected)
    UNDONE     written after it was undone: at the end of its slot, but not before it has bitten
    FAILED     injecting, proving or undoing met an error; what was injected is undone all the same

One thread does everything, so a slow step delays the others. A slot waits while one of the same fault before it is not
over. Nothing that goes wrong leaves this module as an exception: it is an event, and a sentence in `errors`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.errors import TidegaugeError
from harness.history import FaultStage, Kind, Recorder, now
from nemesis.base import Bite, Fault, Victim
from nemesis.schedule import Slot

TICK_S = 0.1
STOP_TIMEOUT_S = 90.0  # longer than any fault needs to be undone

OnChange = Callable[[FaultStage, Slot, str], None]


@dataclass
class Outcome:
    """How far a slot has come; times are those of the history."""

    slot: Slot
    stage: FaultStage | None = None
    sentence: str = "the run ended before its time came"
    injected_at: int | None = None
    bit: Bite | None = None
    undone_at: int | None = None
    failed: bool = False

    @property
    def active(self) -> bool:
        """Whether something is broken now, as far as is known."""
        return self.injected_at is not None and self.undone_at is None

    @property
    def over(self) -> bool:
        """Whether the schedule is done with it; what could not be undone is left to `heal`."""
        return self.stage is not None and (self.failed or not self.active)


class Conductor:
    """Carries out slots; `outcomes` has one entry for each, in the same order."""

    def __init__(  # noqa: PLR0913 - what it works with, and time
        self,
        slots: Sequence[Slot],
        make_fault: Callable[[Slot], Fault],
        recorder: Recorder,
        topic_number: Callable[[str], int | None],
        on_change: OnChange = lambda stage, slot, text: None,  # noqa: ARG005 - nobody need listen
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.outcomes = [Outcome(slot) for slot in slots]
        self.errors: list[str] = []
        self._make_fault = make_fault
        self._recorder = recorder
        self._topic_number = topic_number
        self._on_change = on_change
        self._clock = clock
        self._stopping = threading.Event()
        self._sleep = sleep or self._stopping.wait
        self._faults: dict[int, Fault] = {}
        self._deadlines_s: dict[int, float] = {}
        self._thread = threading.Thread(target=self.run, name="conductor", daemon=True)

    def start(self) -> None:
        """Begin; the times of the slots count from now."""
        self._thread.start()

    def stop(self) -> None:
        """Inject nothing more, undo what is active, and return when that is done."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)

    def heal(self) -> list[str]:
        """Stop, undo again what could not be undone, and say in sentences what still is not."""
        self.stop()
        if self._thread.is_alive():
            return [f"{name(one.slot)} is still being undone after {STOP_TIMEOUT_S:.0f} s" for one in self.current()]
        for outcome in self.current():
            self._undo(outcome)
        return [f"{name(outcome.slot)} could not be undone ({outcome.sentence})" for outcome in self.current()]

    def current(self) -> list[Outcome]:
        """What is broken at the moment."""
        return [outcome for outcome in self.outcomes if outcome.active]

    def run(self) -> None:
        """The whole schedule, in the calling thread."""
        began_s = self._clock()
        while not self._stopping.is_set() and not all(outcome.over for outcome in self.outcomes):
            for outcome in self.outcomes:
                if not outcome.over:
                    self._advance(outcome, self._clock() - began_s)
            self._sleep(TICK_S)
        for outcome in self.current():
            if not outcome.failed:
                self._finish(outcome, "the run ended before it had bitten")

    def _advance(self, outcome: Outcome, now_s: float) -> None:
        """One step of one slot, if it is time for one."""
        slot = outcome.slot
        try:
            if outcome.active:
                self._look(outcome)
                if now_s >= self._deadlines_s[slot.number]:
                    self._finish(outcome, f"it had not bitten {self._faults[slot.number].longest_s:g} s after it began")
                elif outcome.bit and now_s >= slot.end_s:
                    self._undo(outcome)
            elif now_s >= slot.start_s:
                missing = self._begin(outcome, now_s)
                if missing and now_s >= slot.end_s:
                    self._say(FaultStage.MISSED, outcome, missing)
        except Exception as error:  # noqa: BLE001 - whatever a fault meets, the run goes on
            self._fail(outcome, error)

    def _begin(self, outcome: Outcome, now_s: float) -> str:
        """Inject, or say what is missing to do so."""
        slot = outcome.slot
        if any(other.active and other.slot.fault == slot.fault for other in self.outcomes):
            return "the one before it was not over in time"
        if slot.number not in self._faults:
            self._faults[slot.number] = self._make_fault(slot)
        fault = self._faults[slot.number]
        aim = fault.aim()
        if aim is None:
            return "there was nothing it could have been aimed at"
        self._deadlines_s[slot.number] = now_s + fault.longest_s
        about = aim.victim or (Bite(aim.sentence, aim.node) if aim.node is not None else None)
        outcome.injected_at = self._say(FaultStage.INJECTED, outcome, aim.sentence, about)
        fault.inject()
        return ""

    def _look(self, outcome: Outcome) -> None:
        """Whether it has bitten by now."""
        if outcome.bit is None:
            outcome.bit = self._faults[outcome.slot.number].proof()
            if outcome.bit:
                self._say(FaultStage.BIT, outcome, outcome.bit.sentence, outcome.bit)

    def _finish(self, outcome: Outcome, why_missed: str) -> None:
        """Undo it, with a last look for the proof."""
        try:
            self._look(outcome)
            if outcome.bit is None:
                self._say(FaultStage.MISSED, outcome, why_missed)
        except Exception as error:  # noqa: BLE001 - it is undone all the same
            self._fail(outcome, error)
        else:
            self._undo(outcome)

    def _fail(self, outcome: Outcome, error: Exception) -> None:
        self._say_failed(outcome, error)
        if outcome.active:
            self._undo(outcome)

    def _undo(self, outcome: Outcome) -> None:
        try:
            self._faults[outcome.slot.number].undo()
        except Exception as error:  # noqa: BLE001 - `heal` tries again
            self._say_failed(outcome, error)
        else:
            outcome.undone_at = self._say(FaultStage.UNDONE, outcome, self._lasted(outcome))

    def _say_failed(self, outcome: Outcome, error: Exception) -> None:
        text = str(error) if isinstance(error, TidegaugeError) else f"{type(error).__name__}: {error}"
        outcome.failed = True
        self.errors.append(f"{name(outcome.slot)}: {text}")
        self._say(FaultStage.FAILED, outcome, text)

    def _say(self, stage: FaultStage, outcome: Outcome, text: str, about: Victim | Bite | None = None) -> int:
        """Record it, tell whoever listens, and return its time; what is not recorded is not injected."""
        at = now()
        try:
            self._recorder.write(
                Kind.FAULT,
                time=at,
                fault=outcome.slot.number,
                stage=stage,
                name=outcome.slot.fault,
                detail=text,
                **(self._columns(about) if about else {}),
            )
        except Exception as error:
            self.errors.append(f"{name(outcome.slot)} could not be recorded as {stage.name.lower()} ({error})")
            if stage is FaultStage.INJECTED:
                raise
        outcome.stage = stage
        if stage is not FaultStage.UNDONE:  # whether it bit says more
            outcome.sentence = text
        try:
            self._on_change(stage, outcome.slot, text)
        except Exception as error:  # noqa: BLE001 - who listens must not stop the faults from being undone
            self.errors.append(f"{name(outcome.slot)} could not be announced as {stage.name.lower()} ({error})")
        return at

    def _lasted(self, outcome: Outcome) -> str:
        return f"undone {(now() - (outcome.injected_at or 0)) / 1e9:.1f} s after it was injected"

    def _columns(self, about: Victim | Bite) -> dict[str, int | None]:
        return {
            "node": about.node,
            "topic": None if about.topic is None else self._topic_number(about.topic),
            "partition": about.partition,
            "leader": about.leader,
            "leader_epoch": about.leader_epoch,
        }


def name(slot: Slot) -> str:
    """How sentences call a slot."""
    return f"{slot.fault} (fault {slot.number})"
