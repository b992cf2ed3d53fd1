"""Carries out a schedule: injects, watches for the proof, undoes, and writes all of it into the history.

The life of a slot, each step an event (`FaultStage`):

    INJECTED   written before the fault is injected, with its victim
    BIT        the proof was seen
    MISSED     it ended without a proof: none within the fault's longest duration, or until the run ended; or there was
               no victim all the time (then it was never injected)
    UNDONE     written after it was undone, and the fault itself has found nothing left of it: when it has lasted as
               long as its slot, but not before it has bitten
    FAILED     injecting, proving or undoing met an error, or something is left; what was injected is undone all the
               same
    HEALED     the whole cluster was seen to be well again after it, and nothing else of it was broken at that moment;
               clients may still stand still

Each slot takes its steps on threads of its own, one after the other, so that a slow one does not delay the undoing of
others. Only beginnings wait for each other: who takes aim knows what those before it have broken. A slot waits while
one of the same fault, or of the same plan, before it is not over, and while there is no victim. Nothing that goes wrong
leaves this module as an exception: it is an event, and a sentence in `errors`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait

from harness.foundation.errors import ClusterError, TidegaugeError
from harness.foundation.threads import Threads
from harness.history.recorder import Recorder
from harness.history.schema import FaultStage, Kind, now
from nemesis.base import Fault, FaultEvidence, Victim
from nemesis.outcome import FaultOutcome
from nemesis.schedule import Slot

TICK_S = 0.1
STOP_TIMEOUT_S = 90.0  # longer than any fault needs to be undone
HEAL_TIMEOUT_S = 30.0  # from the undo until nothing is left of a fault
PATIENCE_S = 30.0  # beyond the end of its slot, for a victim: a cluster needs a while to get over other faults
RESPITE_S = 3.0  # that a turn which comes late leaves after the one before it, unless less is planned

OnChange = Callable[[FaultStage, Slot, str], None]
TroublesSince = Callable[[int], list[str] | None]  # what is wrong, seen after that time; None: nobody has looked since
Felled = Callable[[], Collection[int]]  # the nodes that the cluster has to do without, because of other faults


class Conductor:
    """Carries out slots; `outcomes` has one entry for each, in the same order."""

    def __init__(  # noqa: PLR0913 - what it works with, and time
        self,
        slots: Sequence[Slot],
        make_fault: Callable[[Slot, Felled], Fault],
        recorder: Recorder,
        topic_number: Callable[[str], int | None],
        on_change: OnChange = lambda stage, slot, text: None,  # noqa: ARG005 - nobody need listen
        *,
        troubles_since: TroublesSince | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.outcomes = [FaultOutcome(slot) for slot in slots]
        self.errors: list[str] = []
        self._make_fault = make_fault
        self._recorder = recorder
        self._topic_number = topic_number
        self._on_change = on_change
        self._troubles_since = troubles_since
        self._clock = clock
        self._stopping = threading.Event()
        self._sleep = sleep or self._stopping.wait
        self._sleep_anyway = sleep or time.sleep
        self._faults: dict[int, Fault] = {}
        self._ends_s: dict[int, float] = {}
        self._ended_s: dict[int, float] = {}
        self._deadlines_s: dict[int, float] = {}
        self._began_s = clock()
        self._executor = executor or Threads("fault")
        self._beginning = threading.Lock()  # from the aim to the injection
        self._steps: dict[int, Future[None]] = {}  # the step that each slot is at
        self._saying = threading.Lock()
        self._thread = threading.Thread(target=self.run, name="conductor", daemon=True)

    def start(self) -> None:
        """Begin; the times of the slots count from now."""
        self._thread.start()

    def end(self) -> None:
        """Inject nothing more, and undo what is active; returns at once."""
        self._stopping.set()

    def stop(self) -> None:
        """Inject nothing more, undo what is active, and return when that is done."""
        self.end()
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

    def current(self) -> list[FaultOutcome]:
        """What is broken at the moment."""
        return [outcome for outcome in self.outcomes if outcome.active]

    def whole(self) -> None:
        """The cluster is whole, as somebody has seen just now: say so for every fault that it has recovered from."""
        if not self._thread.is_alive():
            self._say_healed()

    def run(self) -> None:
        """The whole schedule; then, if it can be seen, until the cluster is whole."""
        self._began_s = self._clock()
        while not self._stopping.is_set() and not self._done:
            for outcome in self.outcomes:
                self._next_step(outcome, self._now_s)
            self._look_whether_whole()
            self._sleep(TICK_S)
        self._finish_all("the run ended before it took effect")

    @property
    def _now_s(self) -> float:
        """As slots count."""
        return self._clock() - self._began_s

    def _finish_all(self, why_missed: str) -> None:
        """Undo each as soon as its last step is done: one that hangs keeps nothing else from being undone."""
        last: list[Future[None]] = []
        left = list(self.outcomes)
        while left:
            busy = [outcome for outcome in left if self._busy(outcome)]
            ready = [outcome for outcome in left if outcome not in busy and outcome.active and not outcome.failed]
            last += [self._executor.submit(self._finish, outcome, why_missed) for outcome in ready]
            wait([self._steps[outcome.slot.number] for outcome in busy], return_when=FIRST_COMPLETED)
            left = busy
        wait(last)

    def _next_step(self, outcome: FaultOutcome, now_s: float) -> None:
        """Have a slot take a step, if it is time for one and the step before is done."""
        slot = outcome.slot
        if self._busy(outcome) or outcome.over or now_s < slot.start_s:
            return
        waits = not outcome.active and any(self._keeps_waiting(other, slot) for other in self.outcomes)
        if waits and now_s < slot.end_s + PATIENCE_S:
            return
        step = self._miss if waits else self._advance
        self._steps[slot.number] = self._executor.submit(step, outcome, now_s)

    def _busy(self, outcome: FaultOutcome) -> bool:
        step = self._steps.get(outcome.slot.number)
        return step is not None and not step.done()

    def _miss(self, outcome: FaultOutcome, _: float) -> None:
        self._say(FaultStage.MISSED, outcome, "the one before it was not over in time")

    @property
    def _done(self) -> bool:
        open_ = self._troubles_since is not None and any(outcome.recovering for outcome in self.outcomes)
        return not open_ and all(outcome.over for outcome in self.outcomes)

    def _due(self, outcome: FaultOutcome, now_s: float) -> bool:
        slot = outcome.slot
        late = outcome.active and now_s >= self._deadlines_s[slot.number]
        return late or (outcome.active and outcome.evidence is not None and now_s >= self._ends_s[slot.number])

    def _look_whether_whole(self) -> None:
        """Whether the cluster has recovered from what was undone, by a look that began after the last undo."""
        if self._troubles_since is None or not any(each.recovering for each in self.outcomes):
            return
        if any(self._breaks(each) for each in self.outcomes):
            return
        if self._troubles_since(max(each.undone_at or 0 for each in self.outcomes)) == []:
            self._say_healed()

    def _breaks(self, outcome: FaultOutcome) -> bool:
        """Whether it may keep the cluster from being whole now; a client that stands still does not."""
        fault = self._faults.get(outcome.slot.number)
        return (self._busy(outcome) or outcome.active) and not (fault is not None and fault.of_clients)

    def _say_healed(self) -> None:
        for outcome in self.outcomes:
            if outcome.recovering and not any(self._breaks(each) for each in self.current()):
                text = f"recovered {(now() - (outcome.undone_at or 0)) / 1e9:.1f} s after it was undone"
                outcome.healed_at = self._say(FaultStage.HEALED, outcome, text)

    def _advance(self, outcome: FaultOutcome, now_s: float) -> None:
        """One step of one slot, if it is time for one."""
        slot = outcome.slot
        if outcome.over:
            return
        try:
            if outcome.active:
                self._look(outcome)
                if self._due(outcome, now_s):
                    self._finish(
                        outcome, f"it had not taken effect {self._faults[slot.number].longest_s:g} s after it began"
                    )
            elif not self._begin(outcome) and now_s >= self._patient_until_s(slot):
                self._say(FaultStage.MISSED, outcome, "there was nothing it could have been aimed at")
        except Exception as error:  # noqa: BLE001 - whatever a fault meets, the run goes on
            self._fail(outcome, error)

    def _patient_until_s(self, slot: Slot) -> float:
        """How long to wait for a victim, from the end of the slot, or of the last fault that may have kept it away."""
        ended_s = [each_s - self._began_s for each_s in list(self._ended_s.values())]
        return max(slot.end_s, *ended_s, 0) + PATIENCE_S

    def _begin(self, outcome: FaultOutcome) -> bool:
        """Inject, if there is a victim and no other fault begins meanwhile."""
        slot = outcome.slot
        with self._beginning:
            if slot.number not in self._faults:
                self._faults[slot.number] = self._make_fault(slot, lambda: self._felled_beside(slot))
            fault = self._faults[slot.number]
            aim = fault.aim()
            if aim is None or self._stopping.is_set():
                return False
            about = aim.victim or FaultEvidence(aim.sentence, aim.node, aim.topic)
            self._say(FaultStage.INJECTED, outcome, aim.sentence, about)
            fault.inject()
        self._ends_s[slot.number] = self._now_s + slot.end_s - slot.start_s
        self._deadlines_s[slot.number] = self._now_s + fault.longest_s
        return True

    def _felled_beside(self, slot: Slot) -> frozenset[int]:
        """The nodes that the other faults keep from working."""
        others = [self._faults[each.slot.number] for each in self.current() if each.slot is not slot]
        return frozenset().union(*(fault.out_of_service for fault in others))

    def _keeps_waiting(self, other: FaultOutcome, slot: Slot) -> bool:
        """Turns of one plan come one after the other, whatever they draw, and one fault does not meet itself."""
        same_plan = slot.plan is not None and other.slot.plan == slot.plan
        if other.slot is slot:
            return False
        if self._busy(other) or other.active:
            return same_plan or other.slot.fault == slot.fault
        ended_s = self._ended_s.get(other.slot.number)
        if not same_plan or ended_s is None:
            return False
        return self._clock() < ended_s + min(RESPITE_S, slot.start_s - other.slot.end_s)

    def _look(self, outcome: FaultOutcome) -> None:
        """Whether it has bitten by now."""
        if outcome.evidence is None:
            outcome.evidence = self._faults[outcome.slot.number].proof()
            if outcome.evidence:
                self._say(FaultStage.BIT, outcome, outcome.evidence.sentence, outcome.evidence)

    def _finish(self, outcome: FaultOutcome, why_missed: str) -> None:
        """Undo it, with a last look for the proof."""
        try:
            self._look(outcome)
            if outcome.evidence is None:
                self._say(FaultStage.MISSED, outcome, why_missed)
        except Exception as error:  # noqa: BLE001 - it is undone all the same
            self._fail(outcome, error)
        else:
            self._undo(outcome)

    def _fail(self, outcome: FaultOutcome, error: Exception) -> None:
        self._say_failed(outcome, error)
        if outcome.active:
            self._undo(outcome)

    def _undo(self, outcome: FaultOutcome) -> None:
        fault = self._faults[outcome.slot.number]
        try:
            fault.undo()
            self._see_that_it_is_gone(fault)
        except Exception as error:  # noqa: BLE001 - `heal` tries again
            self._say_failed(outcome, error)
        else:
            self._ended_s[outcome.slot.number] = self._clock()
            outcome.undone_at = self._say(FaultStage.UNDONE, outcome, self._lasted(outcome))

    def _see_that_it_is_gone(self, fault: Fault) -> None:
        """An undo is believed when the fault has looked for what it left."""
        deadline_s = self._clock() + HEAL_TIMEOUT_S
        while left := fault.healed():
            if self._clock() >= deadline_s:
                raise ClusterError(
                    f"{HEAL_TIMEOUT_S:.0f} s after it was undone, {left}", "it is tried again at the end"
                )
            self._sleep_anyway(TICK_S)

    def _say_failed(self, outcome: FaultOutcome, error: Exception) -> None:
        text = str(error) if isinstance(error, TidegaugeError) else f"{type(error).__name__}: {error}"
        outcome.failed = True
        self.errors.append(f"{name(outcome.slot)}: {text}")
        self._say(FaultStage.FAILED, outcome, text)

    def _say(
        self, stage: FaultStage, outcome: FaultOutcome, text: str, about: Victim | FaultEvidence | None = None
    ) -> int:
        """Record it, tell whoever listens, and return its time; what is not recorded is not injected."""
        with self._saying:
            return self._say_alone(stage, outcome, text, about)

    def _say_alone(
        self, stage: FaultStage, outcome: FaultOutcome, text: str, about: Victim | FaultEvidence | None
    ) -> int:
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
        if stage is FaultStage.INJECTED:
            outcome.injected_at = at  # before the stage: there is no moment at which it seems to be over
        outcome.stage = stage
        if stage not in {FaultStage.UNDONE, FaultStage.HEALED}:  # whether it bit says more
            outcome.sentence = text
        try:
            self._on_change(stage, outcome.slot, text)
        except Exception as error:  # noqa: BLE001 - who listens must not stop the faults from being undone
            self.errors.append(f"{name(outcome.slot)} could not be announced as {stage.name.lower()} ({error})")
        return at

    def _lasted(self, outcome: FaultOutcome) -> str:
        return f"undone {(now() - (outcome.injected_at or 0)) / 1e9:.1f} s after it was injected"

    def _columns(self, about: Victim | FaultEvidence) -> dict[str, int | None]:
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
