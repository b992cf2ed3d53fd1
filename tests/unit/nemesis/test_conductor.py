"""The conductor, with faults on paper and a clock that moves only when somebody sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from checkers.core.results import CheckResults
from checkers.core.timeline import timeline
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from harness.clusters.cluster_view import PartitionView
from harness.clusters.node import Capability
from harness.foundation.errors import ClusterError
from harness.foundation.reasons import FAULT_FAILED
from harness.foundation.threads import Threads
from harness.history.recorder import Recorder
from harness.history.schema import FaultStage, Kind, row_type
from harness.history.segments import Damage, Segment
from harness.judging.policies import PlannedFault, RunFacts
from harness.judging.verdict import decide
from nemesis.base import Aim, Fault, FaultEvidence, Victim
from nemesis.conductor import Conductor, TroublesSince
from nemesis.schedule import Slot

VICTIM = Victim(2, "t", 1, PartitionView(2, 4, (1, 2, 3), (1, 2, 3)))
BITE = FaultEvidence("it hurt", 2, "t", 1, 3, 5)
NOWHERE: Any = None  # a field that nothing looks at


class Clock:
    """Seconds that pass by sleeping."""

    def __init__(self) -> None:
        self.s = 0.0
        self.alarms: dict[float, Callable[[], None]] = {}

    def sleep(self, seconds: float) -> None:
        """Time passes, and what was to happen happens."""
        self.s = round(self.s + seconds, 6)
        for at_s in [at_s for at_s in self.alarms if at_s <= self.s]:
            self.alarms.pop(at_s)()
        assert self.s < 1000, "the conductor does not come to an end"


class Paper(Fault):
    """Bites as long after its injection as it is told, and fails where it is told."""

    name = "paper"
    description = "for tests"
    needs: ClassVar[frozenset[Capability]] = frozenset()
    longest_s = 20.0
    changes_leaders = False
    roles = ("leader",)

    def __init__(self, clock: Clock, bites_after_s: float = 0.5, victim_from_s: float = 0.0) -> None:
        super().__init__(NOWHERE)
        self.clock, self.bites_after_s, self.victim_from_s = clock, bites_after_s, victim_from_s
        self.broken = False
        self.stays_s = 0.0  # how long something of it is left after the undo
        self.undone_s = 0.0
        self.injected_s = -1.0
        self.fails: dict[str, int] = {}  # how many times a method still fails
        self.others_felled: Callable[[], Collection[int]] = frozenset

    def beside(self, out_of_service: Callable[[], Collection[int]]) -> Self:
        """Told what others have felled."""
        self.others_felled = out_of_service
        return self

    def _perhaps_fail(self, method: str) -> None:
        if self.fails.get(method):
            self.fails[method] -= 1
            raise ClusterError(f"{method} failed", "try again")

    def aim(self) -> Aim | None:
        """From its time on."""
        self._perhaps_fail("aim")
        return Aim("will hurt", VICTIM) if self.clock.s >= self.victim_from_s else None

    def inject(self) -> None:
        """Broken, even if it then fails."""
        self.broken, self.injected_s = True, self.clock.s
        self._perhaps_fail("inject")

    def proof(self) -> FaultEvidence | None:
        """When it is time."""
        self._perhaps_fail("proof")
        return BITE if self.clock.s >= self.injected_s + self.bites_after_s else None

    def undo(self) -> None:
        """Whole again, unless it fails."""
        self._perhaps_fail("undo")
        self.broken, self.undone_s = False, self.clock.s

    def healed(self) -> str:
        """When it is time."""
        self._perhaps_fail("healed")
        return "a rule is still there" if self.clock.s < self.undone_s + self.stays_s else ""


class PaperClient(Paper):
    """Nothing of it is felt by nodes."""

    of_clients = True


class Inline(Executor):
    """Does at once what it is given, so that nothing but the clock decides what happens when."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        """Done."""
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **more))
        return done


class Stage:
    """A conductor with everything around it; what it said is in `said`, with the time."""

    def __init__(
        self,
        directory: Path,
        faults: list[Paper],
        clock: Clock,
        slots: list[Slot],
        troubles_since: TroublesSince | None = None,
    ) -> None:
        self.clock, self.faults = clock, faults
        self.said: list[tuple[float, str, int]] = []
        self.texts: list[str] = []
        self.segment = directory / "faults.segment"
        self.recorder = Recorder(self.segment, 1)
        make = dict(zip([slot.number for slot in slots], faults, strict=True))
        self.conductor = Conductor(
            slots,
            lambda slot, out_of_service: make[slot.number].beside(out_of_service),
            self.recorder,
            {"t": 7}.get,
            self._hear,
            troubles_since=troubles_since,
            clock=lambda: clock.s,
            sleep=clock.sleep,
            executor=Inline(),
        )

    def _hear(self, stage: FaultStage, slot: Slot, text: str) -> None:
        self.said.append((self.clock.s, stage.name, slot.number))
        self.texts.append(text)

    def rows(self) -> Any:
        """The events as they were recorded."""
        self.recorder.close()
        read = Segment(self.segment)
        rows = np.frombuffer(b"".join(read.blocks(Kind.FAULT, 1)), row_type(Kind.FAULT))
        assert read.damage == Damage()
        return rows


@pytest.fixture
def clock() -> Clock:
    """At zero."""
    return Clock()


@pytest.fixture
def play(tmp_path: Path, clock: Clock) -> Callable[..., Stage]:
    """Makes a stage for faults, one slot each: from 5 to 15 s, from 35 to 45 s and so on."""

    def make(*faults: Paper, slots: list[Slot] | None = None, troubles_since: TroublesSince | None = None) -> Stage:
        planned = [Slot(n + 1, "paper", "leader", 5.0 + 30 * n, 15.0 + 30 * n, n) for n in range(len(faults))]
        return Stage(tmp_path, list(faults), clock, slots or planned, troubles_since)

    return make


Play = Callable[..., Stage]


def test_a_fault_is_injected_bites_and_is_undone(play: Play, clock: Clock) -> None:
    """At the beginning of its slot, when there is a proof, and at the end of the slot."""
    stage = play(Paper(clock))
    stage.conductor.run()
    assert stage.said == [(5.0, "INJECTED", 1), (5.5, "BIT", 1), (15.0, "UNDONE", 1)]
    assert stage.texts[:2] == ["will hurt", "it hurt"]
    (outcome,) = stage.conductor.outcomes
    assert outcome.evidence is BITE
    assert outcome.sentence == "it hurt"
    assert outcome.over
    assert not outcome.failed
    assert not stage.faults[0].broken
    assert not stage.conductor.errors


def test_everything_is_recorded_with_whom_it_concerns(play: Play, clock: Clock) -> None:
    """The victim with its old epoch, the proof with the new one; times rise and are those of the outcome."""
    stage = play(Paper(clock))
    stage.conductor.run()
    rows = stage.rows()
    assert rows["stage"].tolist() == [FaultStage.INJECTED, FaultStage.BIT, FaultStage.UNDONE]
    assert rows["fault"].tolist() == [1, 1, 1]
    injected, bit, undone = rows
    assert [injected[name] for name in ("node", "topic", "partition", "leader", "leader_epoch")] == [2, 7, 1, 2, 4]
    assert [bit[name] for name in ("node", "topic", "partition", "leader", "leader_epoch")] == [2, 7, 1, 3, 5]
    (outcome,) = stage.conductor.outcomes
    assert [injected["time"], undone["time"]] == [outcome.injected_at, outcome.undone_at]
    assert np.all(np.diff(rows["time"]) >= 0)


def test_the_injection_is_recorded_before_it_is_made(play: Play, clock: Clock) -> None:
    """And the end after it was undone."""
    stage = play(Paper(clock))
    seen: list[tuple[str, bool]] = []
    stage.conductor._on_change = lambda what, slot, text: seen.append((what.name, stage.faults[0].broken))
    stage.conductor.run()
    assert seen == [("INJECTED", False), ("BIT", True), ("UNDONE", False)]


def test_a_fault_is_not_undone_before_it_has_bitten(play: Play, clock: Clock) -> None:
    """Its slot is over after ten seconds, and the proof comes after twelve."""
    stage = play(Paper(clock, bites_after_s=12))
    stage.conductor.run()
    assert stage.said == [(5.0, "INJECTED", 1), (17.0, "BIT", 1), (17.0, "UNDONE", 1)]


def test_a_fault_that_never_bites_is_undone_all_the_same(play: Play, clock: Clock) -> None:
    """After its longest duration, as missed."""
    stage = play(Paper(clock, bites_after_s=999))
    stage.conductor.run()
    assert stage.said == [(5.0, "INJECTED", 1), (25.0, "MISSED", 1), (25.0, "UNDONE", 1)]
    (outcome,) = stage.conductor.outcomes
    assert outcome.evidence is None
    assert outcome.sentence == "it had not taken effect 20 s after it began"


def test_a_victim_is_waited_for(play: Play, clock: Clock) -> None:
    """And the fault lasts as long as it was to, from then on."""
    stage = play(Paper(clock, victim_from_s=8))
    stage.conductor.run()
    assert stage.said == [(8.0, "INJECTED", 1), (8.5, "BIT", 1), (18.0, "UNDONE", 1)]


def test_without_a_victim_nothing_is_injected(play: Play, clock: Clock) -> None:
    """Which is a miss, too, half a minute after the end of its slot."""
    stage = play(Paper(clock, victim_from_s=99))
    stage.conductor.run()
    assert stage.said == [(45.0, "MISSED", 1)]
    assert stage.faults[0].injected_s == -1
    assert "nothing it could have been aimed at" in stage.conductor.outcomes[0].sentence


def test_a_slot_waits_for_the_one_before(play: Play, clock: Clock) -> None:
    """Two kills at once would be another fault than one kill after the other."""
    slots = [Slot(1, "paper", "leader", 0, 5, 0), Slot(2, "paper", "leader", 6, 16, 0)]
    stage = play(Paper(clock, bites_after_s=8), Paper(clock), slots=slots)
    stage.conductor.run()
    assert [(at_s, what) for at_s, what, number in stage.said if number == 1][-1] == (8.0, "UNDONE")
    assert next((at_s, what) for at_s, what, number in stage.said if number == 2) == (8.0, "INJECTED")


def test_a_slot_whose_time_passes_while_it_waits_is_missed(play: Play, clock: Clock) -> None:
    """Half a minute later; the reason is told."""
    slots = [Slot(1, "paper", "leader", 0, 50, 0), Slot(2, "paper", "leader", 6, 9, 0)]
    stage = play(Paper(clock, bites_after_s=15), Paper(clock), slots=slots)
    stage.faults[0].longest_s = 60.0  # type: ignore[misc]  # of this one alone
    stage.conductor.run()
    assert (39.0, "MISSED", 2) in stage.said
    assert stage.conductor.outcomes[1].sentence == "the one before it was not over in time"


def test_different_faults_overlap(play: Play, clock: Clock) -> None:
    """That is what composing them is for; both are current at once."""
    slots = [Slot(1, "paper", "leader", 0, 10, 0), Slot(2, "stone", "leader", 5, 15, 0)]
    stage = play(Paper(clock), Paper(clock), slots=slots)
    current: list[int] = []
    clock.alarms[7] = lambda: current.extend(outcome.slot.number for outcome in stage.conductor.current())
    stage.conductor.run()
    assert current == [1, 2]
    assert stage.conductor.current() == []


@pytest.mark.parametrize("method", ["inject", "proof"])
def test_an_error_is_recorded_and_what_was_broken_is_undone(play: Play, clock: Clock, method: str) -> None:
    """And the next slot comes as if nothing had been."""
    stage = play(Paper(clock), Paper(clock))
    stage.faults[0].fails[method] = 1
    stage.conductor.run()
    assert [what for _, what, number in stage.said if number == 1] == ["INJECTED", "FAILED", "UNDONE"]
    assert [what for _, what, number in stage.said if number == 2] == ["INJECTED", "BIT", "UNDONE"]
    assert not stage.faults[0].broken
    assert stage.conductor.outcomes[0].failed
    assert stage.conductor.outcomes[0].sentence == f"{method} failed: try again"
    assert stage.conductor.errors == [f"paper (fault 1): {method} failed: try again"]


def test_an_error_before_the_injection_leaves_nothing_to_undo(play: Play, clock: Clock) -> None:
    """It failed, and that was all."""
    stage = play(Paper(clock))
    stage.faults[0].fails["aim"] = 1
    stage.conductor.run()
    assert [what for _, what, _ in stage.said] == ["FAILED"]
    assert stage.conductor.heal() == []


def test_a_failed_undo_is_done_again_when_healing(play: Play, clock: Clock) -> None:
    """What is still broken counts as current, and a second try takes it back."""
    stage = play(Paper(clock))
    stage.faults[0].fails["undo"] = 1
    stage.conductor.run()
    assert stage.conductor.outcomes[0].over
    assert [outcome.slot.number for outcome in stage.conductor.current()] == [1]
    assert stage.conductor.heal() == []
    assert [what for _, what, _ in stage.said] == ["INJECTED", "BIT", "FAILED", "UNDONE"]
    assert not stage.faults[0].broken
    assert stage.conductor.heal() == []
    assert len(stage.said) == 4


def test_what_cannot_be_healed_is_told(play: Play, clock: Clock) -> None:
    """In a sentence, and not as an exception."""
    stage = play(Paper(clock))
    stage.faults[0].fails["undo"] = 99
    stage.conductor.run()
    assert stage.conductor.heal() == ["paper (fault 1) could not be undone (undo failed: try again)"]


def test_stopping_undoes_what_is_active_and_injects_nothing_more(play: Play, clock: Clock) -> None:
    """In the middle of the first of two slots."""
    stage = play(Paper(clock), Paper(clock))
    clock.alarms[8] = stage.conductor.stop
    stage.conductor.run()
    assert stage.said == [(5.0, "INJECTED", 1), (5.5, "BIT", 1), (8.0, "UNDONE", 1)]
    assert stage.conductor.outcomes[1].injected_at is None
    assert stage.conductor.outcomes[1].sentence == "the run ended before its time came"


def test_stopping_takes_a_last_look_for_the_proof(play: Play, clock: Clock) -> None:
    """A bite just before the end counts; without one it was a miss."""
    bitten = play(Paper(clock, bites_after_s=3))
    clock.alarms[8] = bitten.conductor.stop
    bitten.conductor.run()
    assert [what for _, what, _ in bitten.said] == ["INJECTED", "BIT", "UNDONE"]


def test_stopping_before_the_bite_is_a_miss(play: Play, clock: Clock) -> None:
    """With the reason."""
    stage = play(Paper(clock, bites_after_s=5))
    clock.alarms[8] = stage.conductor.stop
    stage.conductor.run()
    assert [what for _, what, _ in stage.said] == ["INJECTED", "MISSED", "UNDONE"]
    assert stage.conductor.outcomes[0].sentence == "the run ended before it took effect"


def test_a_listener_that_fails_stops_nothing(play: Play, clock: Clock) -> None:
    """Its error is kept."""
    stage = play(Paper(clock))

    def deaf(*_: object) -> None:
        raise RuntimeError("no ears")

    stage.conductor._on_change = deaf
    stage.conductor.run()
    assert stage.conductor.outcomes[0].over
    assert stage.conductor.errors[0] == "paper (fault 1) could not be announced as injected (no ears)"


def test_what_cannot_be_recorded_is_not_injected(play: Play, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that the history does not know of would make every finding a riddle."""
    stage = play(Paper(clock))

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(stage.recorder, "write", full)
    stage.conductor.run()
    assert stage.faults[0].injected_s == -1
    assert "could not be recorded as injected (disk full)" in stage.conductor.errors[0]


def test_an_undo_counts_even_when_it_cannot_be_recorded(
    play: Play, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is whole; the error says what the history lacks."""
    stage = play(Paper(clock))

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    clock.alarms[8] = lambda: monkeypatch.setattr(stage.recorder, "write", full)
    stage.conductor.run()
    assert stage.conductor.outcomes[0].over
    assert stage.conductor.errors == ["paper (fault 1) could not be recorded as undone (disk full)"]


def test_in_a_thread_of_its_own(tmp_path: Path, clock: Clock) -> None:
    """Started, stopped and healed from another thread, with real sleep."""
    fault, bitten = Paper(clock, bites_after_s=0), threading.Event()
    conductor = Conductor(
        [Slot(1, "paper", "leader", 0, 600, 0), Slot(2, "paper", "leader", 600, 700, 0)],
        lambda slot, out_of_service: fault,
        Recorder(tmp_path / "faults.segment", 1),
        {"t": 7}.get,
        lambda stage, slot, text: bitten.set() if stage is FaultStage.BIT else None,
    )
    conductor.start()
    assert bitten.wait(60)
    assert fault.broken
    conductor.stop()
    assert not fault.broken
    assert conductor.heal() == []
    assert conductor.outcomes[0].evidence is BITE
    conductor._recorder.close()


def test_a_conductor_that_never_began_has_nothing_to_heal(play: Play, clock: Clock) -> None:
    """A run that ends before its load."""
    assert play(Paper(clock)).conductor.heal() == []


def test_an_undo_counts_when_nothing_is_left(play: Play, clock: Clock) -> None:
    """The fault itself is asked, until it finds nothing."""
    stage = play(Paper(clock))
    stage.faults[0].stays_s = 3
    stage.conductor.run()
    assert stage.said[-1] == (18.0, "UNDONE", 1)
    assert not stage.conductor.errors


def test_what_is_left_for_too_long_is_a_failure(play: Play, clock: Clock) -> None:
    """And stays current: it is undone again when healing."""
    stage = play(Paper(clock))
    stage.faults[0].stays_s = 40
    stage.conductor.run()
    assert stage.said[-1] == (45.0, "FAILED", 1)
    assert stage.conductor.errors == [
        "paper (fault 1): 30 s after it was undone, a rule is still there: it is tried again at the end"
    ]
    assert [outcome.slot.number for outcome in stage.conductor.current()] == [1]
    stage.faults[0].stays_s = 0
    assert stage.conductor.heal() == []
    assert [what for _, what, _ in stage.said][-2:] == ["FAILED", "UNDONE"]
    assert stage.conductor.outcomes[0].failed


def test_an_error_of_the_look_for_what_is_left_is_a_failure(play: Play, clock: Clock) -> None:
    """Nobody knows whether it is gone."""
    stage = play(Paper(clock))
    stage.faults[0].fails["healed"] = 1
    stage.conductor.run()
    assert [what for _, what, _ in stage.said] == ["INJECTED", "BIT", "FAILED"]


def test_turns_of_one_plan_come_one_after_the_other(play: Play, clock: Clock) -> None:
    """Even if a mix drew different faults for them; those of another plan come when they want."""
    slots = [
        Slot(1, "paper", "leader", 0, 5, 0, plan=0),
        Slot(2, "stone", "leader", 6, 8, 0, plan=0),
        Slot(3, "glass", "leader", 6, 8, 0, plan=1),
        Slot(4, "paper", "leader", 10, 12, 0, plan=0),
        Slot(5, "stone", "leader", 22, 23, 0, plan=0),
    ]
    faults = [Paper(clock, bites_after_s=after_s) for after_s in (9, 5, 1, 1, 1)]
    stage = play(*faults, slots=slots)
    stage.conductor.run()
    assert [(at_s, number) for at_s, what, number in stage.said if what == "INJECTED"] == [
        (0.0, 1),
        (6.0, 3),
        (10.0, 2),  # the first one was over at 9, and a second is as much as was planned between them
        (17.0, 4),  # the second one at 15: two seconds were planned
        (22.0, 5),
    ]


def test_the_cluster_recovers_after_the_undo(play: Play, clock: Clock) -> None:
    """Told when a look that began after the undo finds nothing wrong; the schedule is done with it before that."""
    asked: list[int] = []

    def troubles_since(time_ns: int) -> list[str] | None:
        asked.append(time_ns)
        if clock.s < 16:
            return None
        return ["t-0 has 2 of 3 replicas in sync"] if clock.s < 18 else []

    stage = play(Paper(clock), troubles_since=troubles_since)
    over: list[bool] = []
    clock.alarms[17] = lambda: over.append(stage.conductor.outcomes[0].over)
    stage.conductor.run()
    assert stage.said[2:] == [(15.0, "UNDONE", 1), (18.0, "HEALED", 1)]
    (outcome,) = stage.conductor.outcomes
    assert (over, outcome.sentence) == ([True], "it hurt")
    assert set(asked) == {outcome.undone_at}
    assert stage.texts[-1].startswith("recovered ")
    assert outcome.recovered_after_s is not None
    assert stage.rows()["stage"].tolist()[-1] == FaultStage.HEALED


def test_a_cluster_is_not_whole_while_something_else_is_broken(play: Play, clock: Clock) -> None:
    """Both are over when it is seen whole after the last of them."""
    slots = [Slot(1, "paper", "leader", 0, 5, 0), Slot(2, "stone", "leader", 3, 9, 0)]
    stage = play(Paper(clock), Paper(clock), slots=slots, troubles_since=lambda time_ns: [])
    stage.conductor.run()
    assert [each for each in stage.said if each[1] == "HEALED"] == [(9.0, "HEALED", 1), (9.0, "HEALED", 2)]


def test_a_cluster_may_be_whole_while_a_client_stands_still(play: Play, clock: Clock) -> None:
    """It is nodes and replicas that are looked at, and a fault of clients breaks none of them."""
    slots = [Slot(1, "paper", "leader", 0, 5, 0), Slot(2, "stone", "consumer", 3, 9, 0)]
    stage = play(Paper(clock), PaperClient(clock), slots=slots, troubles_since=lambda time_ns: [])
    stage.conductor.run()
    assert [each for each in stage.said if each[1] == "HEALED"] == [(5.0, "HEALED", 1), (9.0, "HEALED", 2)]


def test_a_run_that_ends_first_says_later_that_the_cluster_is_whole(play: Play, clock: Clock) -> None:
    """Once, and for what was injected only."""
    stage = play(Paper(clock), Paper(clock), troubles_since=lambda time_ns: ["still bad"])
    clock.alarms[20] = stage.conductor.stop
    stage.conductor.run()
    assert stage.conductor.heal() == []
    stage.conductor.whole()
    stage.conductor.whole()
    assert stage.said[2:] == [(15.0, "UNDONE", 1), (20.0, "HEALED", 1)]


def test_what_could_not_be_undone_keeps_the_cluster_from_being_whole(play: Play, clock: Clock) -> None:
    """Whatever the nodes say."""
    stage = play(Paper(clock), Paper(clock))
    stage.faults[1].fails["undo"] = 99
    stage.conductor.run()
    stage.conductor.whole()
    assert all(what != "HEALED" for _, what, _ in stage.said)


@pytest.mark.parametrize("method", ["inject", "proof", "undo", "healed"])
def test_whatever_fails_is_in_the_timeline_that_the_verdict_goes_by(play: Play, clock: Clock, method: str) -> None:
    """Even if a second try succeeds: a run with a fault that failed is never valid."""
    stage = play(Paper(clock))
    stage.faults[0].fails[method] = 1
    stage.conductor.run()
    assert stage.conductor.heal() == []
    rows = [
        {
            "time": int(row["time"]),
            "name": "paper",
            "detail": "",
            "fault": int(row["fault"]),
            "stage": int(row["stage"]),
        }
        for row in stage.rows()
    ]
    (fault,) = timeline(rows, 0, 2**62).faults
    covered = FaultCoverage(fault, Span(9, 9), Span(9, 9), Span(9, 9))
    told = decide(
        CheckResults(events=9, coverage=Coverage(faults=[covered])),
        RunFacts(faults=(PlannedFault("paper", changes_leaders=False),)),
    )
    assert fault.undone_ns is not None
    assert told.outcome == "unknown"
    assert any("fault 1 (paper) failed" in reason.sentence for reason in told.reasons)
    assert FAULT_FAILED in {reason.code for reason in told.reasons}


def test_a_fault_that_hangs_does_not_keep_another_from_being_undone(tmp_path: Path, clock: Clock) -> None:
    """Each slot has a thread of its own."""
    hangs, go_on, undone = threading.Event(), threading.Event(), threading.Event()

    class Slow(Paper):
        def proof(self) -> FaultEvidence | None:
            hangs.set()
            go_on.wait(60)
            return super().proof()

    slow, quick = Slow(clock, bites_after_s=0), Paper(clock, bites_after_s=0)
    conductor = Conductor(
        [Slot(1, "slow", "leader", 0, 0.1, 0), Slot(2, "paper", "leader", 0, 0.1, 0)],
        lambda slot, out_of_service: slow if slot.number == 1 else quick,
        Recorder(tmp_path / "faults.segment", 1),
        {"t": 7}.get,
        lambda stage, slot, text: undone.set() if stage is FaultStage.UNDONE and slot.number == 2 else None,
    )
    conductor.start()
    try:
        assert hangs.wait(60)
        assert undone.wait(60)
        assert slow.broken
        assert not quick.broken
    finally:
        go_on.set()
        conductor.stop()
    assert conductor.heal() == []
    assert not slow.broken
    conductor._recorder.close()


class Felling(Paper):
    """Takes one of three nodes, as long as the two others are there."""

    name = "felling"

    @property
    def out_of_service(self) -> frozenset[int]:
        """One node."""
        return frozenset({2})

    def aim(self) -> Aim | None:
        """Nobody, while the cluster is without somebody."""
        return None if self.others_felled() else Aim("will fall", node=2)


def test_two_faults_at_once_leave_a_majority(play: Play, clock: Clock) -> None:
    """`-n kill -n pause`: both want to begin at the same moment, and the second waits until the first is over."""
    slots = [Slot(1, "kill", "leader", 5, 15, 0, plan=0), Slot(2, "pause", "leader", 5, 15, 0, plan=1)]
    stage = play(Felling(clock), Felling(clock), slots=slots)
    stage.conductor.run()
    told = [each for each in stage.said if each[1] in {"INJECTED", "UNDONE"}]
    assert told == [(5.0, "INJECTED", 1), (15.0, "UNDONE", 1), (15.0, "INJECTED", 2), (25.0, "UNDONE", 2)]
    assert stage.faults[0].others_felled() == frozenset()


def test_what_could_not_be_undone_stays_felled(play: Play, clock: Clock) -> None:
    """And a fault does not count what it has felled itself."""
    slots = [Slot(1, "kill", "leader", 5, 6, 0), Slot(2, "pause", "leader", 5, 15, 0)]
    stage = play(Felling(clock), Felling(clock), slots=slots)
    stage.faults[0].fails["undo"] = 1
    stage.conductor.run()
    assert [what for _, what, number in stage.said if number == 2] == ["MISSED"]
    assert [fault.others_felled() for fault in stage.faults] == [frozenset(), {2}]


def test_beginnings_do_not_interleave(tmp_path: Path, clock: Clock) -> None:
    """Who takes aim sees what others have done, and not what they are about to do."""
    order: list[str] = []
    another, bitten = threading.Event(), threading.Semaphore(0)

    class Slow(Paper):
        def aim(self) -> Aim | None:
            order.append("aim")
            if len(order) > 1:
                another.set()
            another.wait(0.5)  # long enough for the other one, if nothing keeps it
            return super().aim()

        def inject(self) -> None:
            super().inject()
            order.append("inject")

    conductor = Conductor(
        [Slot(1, "a", "leader", 0, 600, 0), Slot(2, "b", "leader", 0, 600, 0)],
        lambda slot, out_of_service: Slow(clock, bites_after_s=0),
        Recorder(tmp_path / "faults.segment", 1),
        {"t": 7}.get,
        lambda stage, slot, text: bitten.release() if stage is FaultStage.BIT else None,
    )
    conductor.start()
    assert bitten.acquire(timeout=60)
    assert bitten.acquire(timeout=60)
    conductor.stop()
    conductor._recorder.close()
    assert order == ["aim", "inject", "aim", "inject"]


def test_an_injection_that_hangs_does_not_keep_others_from_being_undone_at_the_end(
    tmp_path: Path, clock: Clock
) -> None:
    """It is undone itself as soon as it is done."""
    hangs, go_on, bitten, undone = (threading.Event() for _ in range(4))

    class Slow(Paper):
        def inject(self) -> None:
            super().inject()
            assert bitten.wait(60)
            hangs.set()
            go_on.wait(60)

    slow, quick = Slow(clock, bites_after_s=0), Paper(clock, bites_after_s=0)
    heard = {FaultStage.BIT: bitten, FaultStage.UNDONE: undone}
    conductor = Conductor(
        [Slot(1, "paper", "leader", 0, 600, 0), Slot(2, "slow", "leader", 0, 600, 0)],
        lambda slot, out_of_service: quick if slot.number == 1 else slow,
        Recorder(tmp_path / "faults.segment", 1),
        {"t": 7}.get,
        lambda stage, slot, text: heard[stage].set() if stage in heard and slot.number == 1 else None,
    )
    conductor.start()
    try:
        assert hangs.wait(60)
        conductor.end()
        assert undone.wait(60)
        assert (quick.broken, slow.broken) == (False, True)
    finally:
        go_on.set()
    assert conductor.heal() == []
    assert not slow.broken
    conductor._recorder.close()


def test_a_step_that_hangs_keeps_nobody_from_leaving() -> None:
    """Python waits at its end for the threads of a pool, and not for these; errors come to whoever asks."""
    assert Threads("fault").submit(lambda: threading.current_thread().daemon).result(60)
    with pytest.raises(ZeroDivisionError):
        Threads("fault").submit(lambda: 1 / 0).result(60)


def test_nothing_is_injected_once_the_end_was_asked_for(play: Play, clock: Clock) -> None:
    """Not even what had begun to take aim."""
    stage = play(Paper(clock))
    aim = stage.faults[0].aim

    def late() -> Aim | None:
        stage.conductor.end()
        return aim()

    stage.faults[0].aim = late  # type: ignore[method-assign]
    stage.conductor.run()
    assert (stage.said, stage.faults[0].injected_s) == ([], -1)


def test_a_fault_is_never_over_while_it_is_injected(play: Play, clock: Clock) -> None:
    """Not even for the moment in which that is told."""
    stage = play(Paper(clock))
    (outcome,) = stage.conductor.outcomes
    seen: list[tuple[str, bool, bool]] = []
    stage.conductor._on_change = lambda what, slot, text: seen.append((what.name, outcome.active, outcome.over))
    stage.conductor.run()
    assert seen[0] == ("INJECTED", True, False)


def test_a_fault_lasts_from_the_end_of_its_injection(play: Play, clock: Clock) -> None:
    """However long that took."""
    stage = play(Paper(clock))
    inject = stage.faults[0].inject

    def slowly() -> None:
        clock.sleep(4)
        inject()

    stage.faults[0].inject = slowly  # type: ignore[method-assign]
    stage.conductor.run()
    assert (stage.faults[0].injected_s, stage.said[-1]) == (9.0, (19.0, "UNDONE", 1))


def test_a_fault_of_a_whole_topic_is_recorded_with_the_topic(play: Play, clock: Clock) -> None:
    """From the injection on, whether it bites or not."""
    stage = play(Paper(clock))
    stage.faults[0].aim = lambda: Aim("t is deleted", topic="t")  # type: ignore[method-assign]
    stage.conductor.run()
    assert stage.rows()["topic"].tolist()[0] == 7


def test_the_wait_for_a_victim_counts_from_the_end_of_the_fault_that_kept_it_away(play: Play, clock: Clock) -> None:
    """A cluster that was just healed needs a while, however late that was."""
    slots = [Slot(1, "paper", "leader", 5, 20, 0), Slot(2, "stone", "leader", 5, 6, 0)]
    stage = play(Paper(clock), Paper(clock, victim_from_s=45), slots=slots)
    stage.conductor.run()
    assert [what for _, what, number in stage.said if number == 2] == ["INJECTED", "BIT", "UNDONE"]
