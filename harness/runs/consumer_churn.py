"""Consumers that crash and stand still as a part of the load, the way members of real groups do.

Nothing of it is a fault: no run has to prove that it bit, and `tidegauge run` without a nemesis does it as well. Who it
is and what happens to them follows from a seed; when, from the clock of the load. Whoever a fault has stopped is
left to it.
"""

from __future__ import annotations

import random

from nemesis.base import Clients
from nemesis.client import is_stopped
from workloads.base import CONSUMER, Churn


class ConsumerChurn:
    """Does what a workload asks for, one consumer at a time, and never to the last one that works."""

    def __init__(self, churn: Churn | None, clients: Clients, seed: int) -> None:
        self._churn = churn
        self._clients = clients
        self._random = random.Random(seed)  # noqa: S311 - chances, not secrets
        self._next_at: float | None = None
        self._paused: dict[int, float] = {}  # until when

    def tick(self, now_s: float) -> None:
        """Do what is due."""
        if self._churn is None:
            return
        for process, until_s in list(self._paused.items()):
            if now_s >= until_s:
                del self._paused[process]
                self._clients.resume(process)
        if self._next_at is None:
            self._next_at = now_s + self._churn.every_s
        if now_s >= self._next_at:
            self._next_at = now_s + self._churn.every_s
            self._strike(self._churn, now_s)

    def close(self) -> None:
        """The load comes to its end: whoever stands still goes on."""
        self._churn = None
        for process in self._paused:
            self._clients.resume(process)
        self._paused.clear()

    def _strike(self, churn: Churn, now_s: float) -> None:
        kinds = [name for name, wanted in (("crash", churn.crash), ("pause", churn.pause_s > 0)) if wanted]
        working = sorted(
            client.process
            for client in self._clients.running()
            if client.role == CONSUMER and client.done and not is_stopped(client.pid)
        )
        if not kinds or len(working) < 2:  # somebody has to go on
            return
        kind, process = self._random.choice(kinds), self._random.choice(working)
        if kind == "pause":
            self._paused[process] = now_s + churn.pause_s
            self._clients.pause(process)
        else:
            self._clients.kill(process)
            self._clients.replace(process)
