"""The load as far as it starts workers: those of its stages, and others in the places of those that were killed."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.foundation.security import Security
from harness.history.store import Run
from harness.runs import load as module
from harness.runs.load import ClientEndpoints, Load
from harness.runs.scenario import load
from workloads.base import CONSUMER, COUNTS, PRODUCER, NodeAddress, Role, WorkerConfig


class PaperFleet:
    """What was started, and who got which signal."""

    def __init__(self) -> None:
        self.started: dict[int, WorkerConfig] = {}
        self.signals: list[tuple[int, int]] = []

    def start(self, config: WorkerConfig) -> None:
        """Remember it."""
        self.started[config.process] = config

    def signal(self, process: int, number: signal.Signals) -> None:
        """Remember it."""
        self.signals.append((process, number))


def loaded(directory: Path, *settings: str) -> tuple[Load, PaperFleet]:
    """A stream of two producers and two consumers, on paper."""
    Run(directory).update(state="running")
    fleet: Any = PaperFleet()
    cluster: Any = None
    scenario = load(None, {"workload": "stream", "seed": 5}, settings)
    endpoints = ClientEndpoints((NodeAddress(id=1, address="h:1"),), Security())
    return Load(scenario, cluster, endpoints, fleet, directory, "run", faults=1), fleet


def test_another_worker_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    """It does the same under a number and a seed of its own; run.json knew of the kill before it happened."""
    made, fleet = loaded(tmp_path)
    roles = [Role(CONSUMER, 0, 2, finite=False), Role(PRODUCER, 1, 2, finite=False)]
    kept, killed = (made._start(role) for role in roles)
    made.clients.kill(killed)
    assert fleet.signals == [(killed, signal.SIGKILL)]
    assert Run(tmp_path).facts["killed_on_purpose"] == [killed]
    made.clients.take_places(made._take_place)
    assert set(fleet.started) == {kept, killed}
    made.clients.replace(killed)
    made.clients.take_places(made._take_place)
    (new,) = set(fleet.started) - {kept, killed}
    old, heir = fleet.started[killed], fleet.started[new]
    assert heir.seed != old.seed
    assert heir.segment != old.segment
    assert heir == old.model_copy(update={"process": new, "segment": heir.segment, "seed": heir.seed})
    assert Run(tmp_path).facts["processes"] == {str(kept): CONSUMER, str(killed): PRODUCER, str(new): PRODUCER}


def test_all_who_were_killed_are_on_record(tmp_path: Path) -> None:
    """One after the other."""
    made, _ = loaded(tmp_path)
    first, second = (made._start(Role(PRODUCER, number, 2, finite=False)) for number in range(2))
    made.clients.kill(second)
    made.clients.kill(first)
    assert Run(tmp_path).facts["killed_on_purpose"] == [first, second]


def test_topics_that_are_no_longer_in_use_keep_their_numbers(tmp_path: Path) -> None:
    """A fault that was aimed at one of them is proven, and undone, later."""
    made, _ = loaded(tmp_path, "rotate=1s")
    (old,) = made.topics_in_use()
    made._began -= 60 * 10**9
    later = made.topics_in_use()
    assert old not in later
    assert [made.topic_number(name) for name in (old, later[0], "other")] == [0, 58, None]


class IdleFleet(PaperFleet):
    """Workers that are over as soon as they are told to stop; what they were told is in the order of events."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events

    def of(self, role: str) -> list[Any]:
        """Nobody that could be asked."""
        return []

    def tell(self, message: dict[str, Any], role: str) -> None:
        """Remember it."""
        self.events.append(f"{role} {message}")

    def over(self, role: str) -> bool:
        """They are."""
        return True

    def poll(self) -> None:
        """Nothing new."""

    def totals(self, role: str = "") -> dict[str, int]:
        """Nothing done."""
        return dict.fromkeys(COUNTS, 0)


@pytest.mark.parametrize(("over", "first"), [(False, "end"), (True, "admin {'stop': True}")])
def test_faults_end_before_clients_are_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, *, over: bool
) -> None:
    """After Ctrl-C, for example: who is paused or held could not finish. What is over is watched until it is healed."""
    made, _ = loaded(tmp_path)
    events: list[str] = []
    fleet: Any = IdleFleet(events)
    made.fleet = fleet
    monkeypatch.setattr(made, "_watch_leaders", lambda event: None)
    outcome = SimpleNamespace(over=over)
    conductor: Any = SimpleNamespace(outcomes=[outcome], current=list, end=lambda: events.append("end"))
    view: Any = SimpleNamespace(standing=lambda standing: None)
    stop: Any = SimpleNamespace(asked=1)
    made.run(conductor, stop, view)
    assert events[0] == first


@pytest.mark.parametrize(
    ("done", "consumers", "begins"),
    [
        ({"ok": 0, "read": 0}, [1], False),
        ({"ok": 5, "read": 0}, [1], False),
        ({"ok": 5, "read": 1}, [1], True),
        ({"ok": 5, "read": 0}, [], True),
    ],
)
def test_faults_begin_when_clients_work(
    tmp_path: Path, done: dict[str, int], consumers: list[int], *, begins: bool
) -> None:
    """A machine that is slow to start them would have the first fault come before anybody could feel it."""
    made, _ = loaded(tmp_path)
    fleet: Any = SimpleNamespace(totals=lambda: done, of=lambda role: consumers)
    made.fleet = fleet
    assert made._clients_work() is begins


class StalledWorker:
    """A worker whose broker has stopped answering; it ends when it is told to leave, unless it hangs."""

    def __init__(self, role: str, *, hangs: bool = False) -> None:
        self.config = SimpleNamespace(role=role)
        self.counts = {**dict.fromkeys(COUNTS, 0), "sent": 10, "ok": 4}
        self.over, self.spoke, self.detail = False, True, ""
        self.hangs = hangs


class StallingFleet(PaperFleet):
    """Workers that do a little and then nothing."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__()
        self.workers: dict[int, StalledWorker] = {}
        self.hangs = hangs

    def start(self, config: WorkerConfig) -> None:
        """It gets stuck at once."""
        super().start(config)
        self.workers[config.process] = StalledWorker(config.role, hangs=self.hangs)

    def of(self, role: str | None = None) -> list[StalledWorker]:
        """Those of a role."""
        return [each for each in self.workers.values() if role in {None, each.config.role}]

    def over(self, role: str | None = None) -> bool:
        """Whether all of them have ended."""
        return all(each.over for each in self.of(role))

    def tell(self, message: dict[str, Any], role: str | None = None) -> None:
        """Who is to leave does, whoever is to stop waits for answers."""
        for each in self.of(role):
            each.over = each.over or (bool(message.get("leave")) and not each.hangs)

    def totals(self, role: str | None = None) -> dict[str, int]:
        """Together."""
        return {name: sum(each.counts[name] for each in self.of(role)) for name in COUNTS}

    def poll(self) -> None:
        """Nothing new."""


def stalled(directory: Path, monkeypatch: pytest.MonkeyPatch, workload: str, *, hangs: bool) -> tuple[Load, list[str]]:
    """A whole load on a broker that stalls, with a clock that jumps; and what was said of it."""
    Run(directory).update(state="running")
    fleet: Any = StallingFleet(hangs=hangs)
    cluster: Any = None
    endpoints = ClientEndpoints((NodeAddress(id=1, address="h:1"),), Security())
    made = Load(load(None, {"workload": workload, "seed": 5}), cluster, endpoints, fleet, directory, "run", faults=0)
    time_s = [0.0]

    def jump(by_s: float) -> None:
        time_s[0] += 10 * by_s

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: time_s[0], sleep=jump))
    made._idle.clock = lambda: time_s[0]
    monkeypatch.setattr(made, "_watch_leaders", lambda event: None)
    said: list[str] = []
    conductor: Any = SimpleNamespace(outcomes=[], current=list, end=lambda: None)
    view: Any = SimpleNamespace(standing=lambda standing: said.append(standing.waits), happened=said.append)
    stop: Any = SimpleNamespace(asked=0)
    made.run(conductor, stop, view)
    made.ended_after_s = time_s[0]  # type: ignore[attr-defined]
    return made, said


def test_a_stage_in_which_nothing_moves_ends_and_the_next_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer leaves what has no answer; then what is there is read, and that ends too; each says why."""
    made, said = stalled(tmp_path, monkeypatch, "large-batch", hangs=False)
    fleet: Any = made.fleet
    assert [each.config.role for each in fleet.workers.values()] == ["probe", PRODUCER, CONSUMER]
    assert "answers to 6 sends" in made.not_over
    assert any(text.startswith("waiting for answers to 6 sends") for text in said)
    assert any(text.startswith("waiting for records") for text in said)
    assert made.ended_after_s < 4 * made._idle.limit_s  # type: ignore[attr-defined]


@pytest.mark.parametrize("workload", ["large-batch", "stream"])
def test_clients_that_hang_do_not_keep_a_load_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str
) -> None:
    """They are told to leave and do not: the load is over all the same, and the verdict hears why."""
    made, _ = stalled(tmp_path, monkeypatch, workload, hangs=True)
    assert made.not_over.startswith("the load ended early, because nothing moved for")
    assert made.ended_after_s < 4 * made._idle.limit_s  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("counts", "outstanding"),
    [((8, 8, 8), ""), ((8, 7, 7), "an answer"), ((8, 8, 7), "a record"), ((0, 0, 0), "everything"), ((8, 8, 9), "")],
)
def test_clients_that_have_all_they_asked_for_have_a_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int, int], outstanding: str
) -> None:
    """Neither a send without an answer nor a record that is still to be read; of nothing at all nobody has a break."""
    made, _ = stalled(tmp_path, monkeypatch, "stream", hangs=True)
    sent, ok, read = counts
    totals = {
        PRODUCER: dict.fromkeys(COUNTS, 0) | {"sent": sent, "ok": ok},
        CONSUMER: dict.fromkeys(COUNTS, 0) | {"read": read},
    }
    monkeypatch.setattr(made.fleet, "totals", totals.__getitem__)
    assert made._has_nothing_outstanding() == (not outstanding)
