"""Faults of clients: rules at taps that exist on paper, and victims that are real processes."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.cluster_view import ClusterView
from harness.foundation.errors import ClusterError
from harness.foundation.processes import TOKEN_VARIABLE, marked
from harness.runs.client_victims import ClientVictims
from harness.tap.rules import Rule
from nemesis import base
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence
from nemesis.client import (
    FAULTS,
    ClientKill,
    ClientPause,
    DropResponses,
    DuplicateRequests,
    HoldEndTxn,
    HoldProduce,
    StaleMetadata,
    is_stopped,
)
from tests.support import eventually, unique
from tests.support.worker_sessions import worker_config
from workloads.base import CONSUMER, PROBE, PRODUCER
from workloads.fleet import Fleet

TOKEN = unique("victims")
STATUS = {"state": "running", "detail": "", "sent": 9, "ok": 3, "fail": 2, "info": 1, "read": 4}
PRODUCING, CONSUMING, PROBING = 2, 3, 4


class PaperTaps:
    """Rules that came, and what they are said to have done."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        self.said: list[str] = []
        self.did: dict[str, int] = {}
        self.again: dict[str, int] = {}

    def bend(self, rule: Rule) -> None:
        """It comes."""
        self.rules[rule.title] = rule

    def unbend(self, name: str) -> None:
        """It goes."""
        self.rules.pop(name, None)
        self.said.append(f"unbend {name}")

    def release(self, name: str) -> None:
        """What it holds goes on."""
        self.said.append(f"release {name}")

    def is_bent(self, name: str) -> bool:
        """Whether it is there."""
        return name in self.rules

    def acted(self, name: str) -> int:
        """As told."""
        return self.did.get(name, 0)

    def resent(self, name: str) -> int:
        """As told."""
        return self.again.get(name, 0)


class Clock:
    """Time that passes when a test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


@pytest.fixture
def taps(monkeypatch: pytest.MonkeyPatch) -> PaperTaps:
    """Taps before three nodes that all answer."""
    monkeypatch.setattr(base, "observe", lambda *_: ClusterView(("t",), {1: {}, 2: {}, 3: {}}))
    return PaperTaps()


def make(kind: type[Fault], taps: PaperTaps | None = None, target: str = "", **others: Any) -> Any:
    """A fault of three nodes."""
    cluster: Any = SimpleNamespace(nodes=[SimpleNamespace(id=node) for node in (1, 2, 3)], security=None)
    whole: dict[str, Any] = {"options": kind.options, "tag": "tg7", "taps": taps, **others}
    return kind(FaultContext(cluster, lambda: ["t"], random.Random(1), target or kind.roles[0], **whole))


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (DropResponses, {"action": "drop-response", "api": ("Produce",), "then": "close", "probability": 0.5}),
        (DuplicateRequests, {"action": "duplicate-request", "api": ("Produce",), "probability": 0.5}),
        (HoldProduce, {"action": "hold", "side": "request", "api": ("Produce",)}),
        (HoldEndTxn, {"action": "hold", "side": "request", "api": ("EndTxn",)}),
    ],
)
def test_a_rule_comes_bends_and_goes(kind: type[Fault], rule: dict[str, Any], taps: PaperTaps) -> None:
    """At all nodes, under the name of this injection; gone, whatever it held is let go, and twice does no harm."""
    fault = make(kind, taps)
    assert fault.aim().sentence.endswith("at nodes 1, 2, 3")
    fault.inject()
    bent = taps.rules["tg7"]
    assert bent.node == (1, 2, 3)
    assert {key: getattr(bent, key) for key in rule} == rule
    assert fault.proof() is None
    assert "tg7" in fault.healed()
    taps.did["tg7"] = taps.again["tg7"] = 1234
    assert fault.proof().sentence.startswith("1,234 ")
    fault.undo()
    fault.undo()
    assert (taps.rules, fault.healed()) == ({}, "")
    assert taps.said.index("release tg7") < taps.said.index("unbend tg7")


def test_a_dropped_response_has_bitten_when_its_batch_comes_again(taps: PaperTaps) -> None:
    """Dropping alone is not the point."""
    fault = make(DropResponses, taps, options={"probability": 0.1})
    fault.aim()
    fault.inject()
    assert taps.rules["tg7"].probability == 0.1
    taps.did["tg7"] = 31
    assert fault.proof() is None
    taps.again["tg7"] = 29
    assert fault.proof().sentence == "31 responses dropped, 29 batches sent again"


class PaperMove:
    """A leader that moves when it is told to, and is seen to have moved when the test says so."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.seen = False

    def aim(self) -> Aim:
        """Always possible."""
        return Aim("leadership of t-0 moves from 1 to 2")

    def inject(self) -> None:
        """It moves."""
        self.did.append("moved")

    def proof(self) -> FaultEvidence | None:
        """Whether it has."""
        return FaultEvidence("moved", 1) if self.seen else None

    def undo(self) -> None:
        """Back."""
        self.did.append("back")

    def healed(self) -> str:
        """It is."""
        return "" if "back" in self.did else "t-0 is still led by 2"


def stale(taps: PaperTaps, **others: Any) -> tuple[Any, PaperMove]:
    """Old metadata, injected, and the leader that moves meanwhile."""
    fault, move = make(StaleMetadata, taps, **others), PaperMove()
    fault.move = move
    assert fault.aim().sentence.endswith("at nodes 1, 2, 3; leadership of t-0 moves from 1 to 2")
    fault.inject()
    return fault, move


def test_clients_are_made_to_ask_for_metadata_and_probes_are_told_the_truth(taps: PaperTaps) -> None:
    """The load's clients ask when they have lost a connection; without a load every client is meant."""
    fault, _ = stale(taps, clients=SimpleNamespace())
    old, ask = taps.rules["tg7"], taps.rules["tg7-ask"]
    assert (old.action, old.api, old.node) == ("stale", ("Metadata",), (1, 2, 3))
    assert (ask.action, ask.api, ask.every) == ("close", ("Produce", "Fetch"), 10)
    assert old.client == ask.client == "tidegauge-*er-*"
    taps.unbend("tg7")
    assert "tg7-ask" in fault.healed()
    fault.undo()
    assert (taps.rules, fault.healed()) == ({}, "")
    stale(taps)
    assert taps.rules["tg7"].client == ""


def test_old_metadata_has_bitten_when_it_was_told_after_a_leader_had_moved(taps: PaperTaps) -> None:
    """As long as nothing has moved, old answers are true; and a leader moves when one was learnt, and comes back."""
    fault, move = stale(taps)
    assert fault.proof() is None
    assert move.did == []
    taps.did["tg7"] = 3
    assert fault.proof() is None
    taps.did["tg7"] = 5
    move.seen = True
    assert fault.proof() is None
    assert fault.proof() is None
    taps.did["tg7"] = 7
    assert fault.proof().sentence == "2 old answers to Metadata given after a leader had moved"
    taps.rules.clear()
    assert fault.healed() == "t-0 is still led by 2"
    fault.undo()
    fault.undo()
    assert move.did == ["moved", "back", "back"]
    assert fault.healed() == ""


@pytest.mark.parametrize("kind", [DropResponses, DuplicateRequests, HoldProduce, HoldEndTxn])
def test_probes_are_not_bent(kind: type[Fault], taps: PaperTaps) -> None:
    """What they do proves nothing."""
    fault = make(kind, taps, clients=SimpleNamespace())
    fault.aim()
    fault.inject()
    assert taps.rules["tg7"].client == "tidegauge-*er-*"


@pytest.mark.parametrize("kind", [DropResponses, DuplicateRequests, HoldProduce])
def test_only_leaders_get_messages(kind: type[Fault]) -> None:
    """Any other role may have none to bend."""
    assert kind.roles == ("all", "leader")


@pytest.mark.parametrize("kind", [DropResponses, ClientKill])
def test_what_a_fault_has_not_got_is_a_sentence(kind: type[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """No taps, no clients."""
    monkeypatch.setattr(base, "observe", lambda *_: ClusterView(("t",), {1: {}}))
    fault = make(kind)
    with pytest.raises(ClusterError, match=r"there (are|is) none"):
        assert fault.aim() is None or fault.inject()


def test_all_faults_of_the_family_are_there() -> None:
    """Each by its name; those that every workload feels may be drawn by chance."""
    assert {fault.name for fault in FAULTS} == {
        "drop-responses", "duplicate-requests", "client-kill", "client-pause", "hold-end-txn", "hold-produce",
        "stale-metadata",
    }  # fmt: skip
    assert {fault.name for fault in FAULTS if not fault.tame} == {"hold-end-txn"}
    assert {fault.name for fault in FAULTS if fault.endless} == {"client-kill"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A producer, a consumer and a probe that wait for nodes at which nobody listens."""
    made = Fleet({TOKEN_VARIABLE: TOKEN}, tmp_path / "logs")
    for process, role in ((PRODUCING, PRODUCER), (CONSUMING, CONSUMER), (PROBING, PROBE)):
        start(made, tmp_path, process, role)
    yield made
    made.stop(0)
    assert marked(TOKEN) == []


def start(fleet: Fleet, directory: Path, process: int, role: str) -> int:
    """Another worker, which has not said anything yet."""
    segment = directory / f"{process:04}.segment"
    fleet.start(worker_config(directory, role=role, process=process, segment=segment))
    return process


def victims(fleet: Fleet) -> ClientVictims:
    """Nothing is noted."""
    return ClientVictims(fleet, lambda _: None)


def work(fleet: Fleet, process: int, **counts: int) -> None:
    """As if it had said so."""
    fleet.workers[process].take({**STATUS, **counts})


def aimed(kind: type[Fault], fleet: Fleet, target: str, clock: Clock | None = None) -> tuple[Any, ClientVictims]:
    """A fault that has found its victim."""
    clients = victims(fleet)
    fault = make(kind, None, target, clients=clients, clock=clock or Clock())
    assert fault.aim() is not None
    return fault, clients


@pytest.mark.parametrize(("target", "process"), [("producer", PRODUCING), ("consumer", CONSUMING)])
def test_victims_are_clients_of_the_role_that_have_begun_to_work(fleet: Fleet, target: str, process: int) -> None:
    """Probes are none, and one that has done nothing so far proves nothing."""
    fault = make(ClientPause, None, target, clients=victims(fleet))
    assert fault.aim() is None
    for each in (PRODUCING, CONSUMING, PROBING):
        work(fleet, each)
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == f"SIGSTOP of {target} {process} (pid {fleet.workers[process].popen.pid})"
    os.kill(fleet.workers[process].popen.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(fleet.workers[process].popen.pid), "it is stopped")
    assert fault.aim() is None


def test_random_means_any_of_them(fleet: Fleet) -> None:
    """By chance."""
    for each in (PRODUCING, CONSUMING, PROBING):
        work(fleet, each)
    found = set()
    for seed in range(20):
        fault = make(ClientKill, None, "random", clients=victims(fleet))
        fault.context = replace(fault.context, rng=random.Random(seed))
        fault.aim()
        found.add(fault.victim.process)
    assert found == {PRODUCING, CONSUMING}


def test_a_paused_client_is_proven_by_standing_still(fleet: Fleet) -> None:
    """What it said before it was stopped may arrive later; it has to be silent for a second after that."""
    clock = Clock()
    work(fleet, PRODUCING)
    fault, _ = aimed(ClientPause, fleet, "producer", clock)
    assert fault.proof() is None
    fault.inject()
    eventually(lambda: is_stopped(fault.victim.pid), "it is stopped")
    assert fault.proof() is None
    clock.now_s += 0.9
    work(fleet, PRODUCING, ok=1003)
    assert fault.proof() is None
    clock.now_s += 0.9
    assert fault.proof() is None
    clock.now_s += 0.2
    assert fault.proof().sentence.endswith("is stopped, and stands at 1,010 done for 1.1 s")
    assert "still stopped" in fault.healed()
    fault.undo()
    fault.undo()
    eventually(lambda: not fault.healed(), "it goes on")
    assert not is_stopped(fault.victim.pid)


def test_a_paused_client_that_ends_is_healed(fleet: Fleet) -> None:
    """There is nothing left to let go on."""
    work(fleet, CONSUMING)
    fault, _ = aimed(ClientPause, fleet, "consumer")
    fault.inject()
    fleet.workers[CONSUMING].kill()
    assert (fault.proof(), fault.healed()) == (None, "")
    fault.undo()


def test_a_killed_client_is_gone_until_another_takes_its_place(fleet: Fleet, tmp_path: Path) -> None:
    """Its death is on purpose; the load starts the other one, once, and it counts when it has spoken."""
    noted: list[list[int]] = []
    clients = ClientVictims(fleet, noted.append)
    work(fleet, PRODUCING)
    fault = make(ClientKill, None, "producer", clients=clients, clock=Clock())
    fault.aim()
    assert fault.proof() is None
    fault.inject()
    assert noted == [[PRODUCING]]
    eventually(lambda: fault.proof() is not None, "it is gone")
    assert "with 10 done" in fault.proof().sentence
    assert fleet.dead() == []
    assert "nothing replaced" in fault.healed()
    fault.undo()
    fault.undo()
    started: list[int] = []

    def take_place(process: int) -> int:
        started.append(process)
        return start(fleet, tmp_path, 9, PRODUCER)

    clients.take_places(take_place)
    fault.undo()
    clients.take_places(take_place)
    assert started == [PRODUCING]
    assert "nothing replaced" in fault.healed()
    work(fleet, 9)
    assert fault.healed() == ""
    fleet.workers[9].kill()
    assert "nothing replaced" in fault.healed()


def test_who_took_the_place_of_a_killed_client_may_be_killed_as_well(fleet: Fleet, tmp_path: Path) -> None:
    """Then it is the one after that who counts."""
    clients = victims(fleet)
    for process, heir in ((PRODUCING, 8), (8, 9)):
        clients.kill(process)
        assert not clients.replaced(process)
        clients.replace(process)
        clients.take_places(lambda _, heir=heir: start(fleet, tmp_path, heir, PRODUCER))  # type: ignore[misc]
        assert not clients.replaced(PRODUCING)
        work(fleet, heir)
        assert clients.replaced(PRODUCING)


def test_a_client_that_was_not_killed_is_not_replaced(fleet: Fleet) -> None:
    """An injection that never came to it is undone all the same."""
    work(fleet, PRODUCING)
    fault, clients = aimed(ClientKill, fleet, "producer")
    fault.undo()
    clients.take_places(lambda process: pytest.fail(f"{process} lives"))
    assert fault.healed() == ""


def test_nobody_is_killed_off_the_record(fleet: Fleet) -> None:
    """A kill that could not be noted did not happen, and needs no replacement."""

    def full(_: list[int]) -> None:
        raise OSError("no space left")

    clients = ClientVictims(fleet, full)
    with pytest.raises(OSError, match="no space"):
        clients.kill(PRODUCING)
    clients.replace(PRODUCING)
    clients.take_places(lambda process: pytest.fail(f"{process} lives"))
    assert PRODUCING in {client.process for client in clients.running()}
    assert fleet.killed == set()


def test_nobody_is_started_when_the_load_is_over(fleet: Fleet) -> None:
    """There would be nothing to do."""
    work(fleet, PRODUCING)
    fault, clients = aimed(ClientKill, fleet, "producer")
    fault.inject()
    fault.undo()
    clients.close()
    clients.take_places(lambda process: pytest.fail(f"{process} is over"))
    assert fault.healed() == ""
