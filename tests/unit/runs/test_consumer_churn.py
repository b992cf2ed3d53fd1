"""Consumers that crash and stand still as a part of the load."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from harness.runs.consumer_churn import ConsumerChurn
from nemesis.base import Client
from tests.support import eventually
from workloads.base import CONSUMER, PRODUCER, Churn


class Processes:
    """Consumers 1 to 3 and a producer, and what was done to them."""

    def __init__(self, consumers: int = 3, done: int = 5) -> None:
        self.here = [Client(1 + number, CONSUMER, os.getpid(), done) for number in range(consumers)]
        self.here.append(Client(9, PRODUCER, os.getpid(), done))
        self.log: list[tuple[str, int]] = []

    def running(self) -> list[Client]:
        """All."""
        return self.here

    def kill(self, process: int) -> None:
        """Note it."""
        self.log.append(("kill", process))

    def pause(self, process: int) -> None:
        """Note it."""
        self.log.append(("pause", process))

    def resume(self, process: int) -> None:
        """Note it."""
        self.log.append(("resume", process))

    def replace(self, process: int) -> None:
        """Note it."""
        self.log.append(("replace", process))

    def replaced(self, process: int) -> bool:
        """Whether that was asked for."""
        return ("replace", process) in self.log


def test_crashes_come_in_time_and_are_replaced() -> None:
    """The first one after a whole interval; never a producer."""
    clients = Processes()
    churn = ConsumerChurn(Churn(every_s=10), clients, seed=1)
    for now_s in range(100, 131):
        churn.tick(now_s)
    kinds = [kind for kind, _ in clients.log]
    assert kinds == ["kill", "replace"] * 3
    assert {process for _, process in clients.log} <= {1, 2, 3}
    assert all(clients.log[index][1] == clients.log[index + 1][1] for index in (0, 2, 4))


def test_a_paused_one_goes_on_in_time() -> None:
    """After as long as was asked for."""
    clients = Processes()
    churn = ConsumerChurn(Churn(every_s=10, crash=False, pause_s=4), clients, seed=1)
    for now_s in range(24):
        churn.tick(now_s)
    (kind, first), (again, same), (third, _) = clients.log
    assert (kind, again, third) == ("pause", "resume", "pause")
    assert first == same


def test_both_kinds_happen() -> None:
    """As the seed draws them; the same seed draws the same."""
    logs = []
    for _ in range(2):
        clients = Processes()
        churn = ConsumerChurn(Churn(every_s=10, pause_s=4), clients, seed=3)
        for now_s in range(300):
            churn.tick(now_s)
        logs.append(clients.log)
    assert {kind for kind, _ in logs[0]} == {"kill", "replace", "pause", "resume"}
    assert logs[0] == logs[1]


@pytest.mark.parametrize("clients", [Processes(consumers=1), Processes(done=0)], ids=["one", "none at work"])
def test_the_last_one_at_work_is_left_alone(clients: Processes) -> None:
    """Somebody has to go on."""
    churn = ConsumerChurn(Churn(every_s=1, pause_s=1), clients, seed=1)
    for now_s in range(20):
        churn.tick(now_s)
    assert clients.log == []


@pytest.fixture
def stopped() -> Iterator[int]:
    """A process that stands still."""
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it stands still")
        yield process.pid
        process.kill()


def test_who_stands_still_is_left_alone(stopped: int) -> None:
    """Two are left, of whom each may be hit; with one of these gone, nobody is."""
    clients = Processes()
    clients.here[0] = Client(1, CONSUMER, stopped, 5)
    churn = ConsumerChurn(Churn(every_s=1), clients, seed=1)
    for now_s in range(40):
        churn.tick(now_s)
    assert {process for _, process in clients.log} == {2, 3}
    del clients.here[1], clients.log[:]
    churn.tick(100)
    assert clients.log == []


def test_at_the_end_everybody_goes_on() -> None:
    """And nothing happens any more."""
    clients = Processes()
    churn = ConsumerChurn(Churn(every_s=10, crash=False, pause_s=100), clients, seed=1)
    churn.tick(0)
    churn.tick(10)
    churn.close()
    churn.close()
    churn.tick(20)
    assert [kind for kind, _ in clients.log] == ["pause", "resume"]


def test_without_churn_nothing_happens() -> None:
    """Most workloads have none."""
    clients = Processes()
    churn = ConsumerChurn(None, clients, seed=1)
    churn.tick(0)
    churn.tick(1000)
    churn.close()
    assert clients.log == []
