"""The load as far as it starts workers: those of its stages, and others in the places of those that were killed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from harness.load import Front, Load
from harness.scenario import load
from harness.security import Security
from harness.store import Run
from workloads.base import CONSUMER, PRODUCER, NodeAddress, Role, WorkerConfig


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


def loaded(directory: Path) -> tuple[Load, PaperFleet]:
    """A stream of two producers and two consumers, on paper."""
    Run(directory).update(state="running")
    fleet: Any = PaperFleet()
    cluster: Any = None
    scenario = load(None, {"workload": "stream", "seed": 5})
    front = Front((NodeAddress(id=1, address="h:1"),), Security())
    return Load(scenario, cluster, front, fleet, directory, "run", faults=1), fleet


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
