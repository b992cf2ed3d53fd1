"""The load's processes as victims of faults.

Faults have a thread of their own, and the load's thread owns its workers. Signals are sent at once, by whoever wants
them; another worker in the place of one that was killed is started by the load's thread, when it comes by.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from nemesis.base import Client
from workloads.base import CONSUMER, PRODUCER
from workloads.fleet import Fleet


class ClientVictims:
    """`nemesis.base.Clients` over a fleet. `note` is told of all that were killed so far before another one is."""

    def __init__(self, fleet: Fleet, note: Callable[[list[int]], None]) -> None:
        self._fleet = fleet
        self._note = note
        self._lock = threading.Lock()
        self._killed: set[int] = set()
        self._wanted: set[int] = set()  # killed ones whose place shall be taken
        self._heirs: dict[int, int] = {}  # who took the place of whom
        self._over = False

    def running(self) -> list[Client]:
        """Producers and consumers that live now."""
        return [
            Client(
                worker.config.process,
                worker.config.role,
                worker.popen.pid,
                sum(count for name, count in worker.counts.items() if name != "sent"),
            )
            for worker in self._fleet.living(PRODUCER, CONSUMER)
        ]

    def kill(self, process: int) -> None:
        """SIGKILL, on purpose; that is on record before it happens."""
        with self._lock:
            self._note(sorted({*self._killed, process}))
            self._killed.add(process)
            self._fleet.signal(process, signal.SIGKILL)

    def pause(self, process: int) -> None:
        """SIGSTOP."""
        self._fleet.signal(process, signal.SIGSTOP)

    def resume(self, process: int) -> None:
        """SIGCONT."""
        self._fleet.signal(process, signal.SIGCONT)

    def replace(self, process: int) -> None:
        """Have another one started in the place of one that was killed; one is enough, however often it is asked."""
        with self._lock:
            if process in self._killed and process not in self._heirs:
                self._wanted.add(process)

    def replaced(self, process: int) -> bool:
        """Whether that other one, or whoever came after it, runs and has spoken.

        Nobody takes the place of anybody when the load is over.
        """
        with self._lock:
            if self._over or process not in self._killed:
                return True
            heir = process
            while heir in self._heirs:  # one that was killed as well has an heir of its own
                heir = self._heirs[heir]
            if heir in self._killed:
                return False
        worker = self._fleet.workers.get(heir)
        return worker is not None and worker.spoke and worker.popen.poll() is None

    def take_places(self, start: Callable[[int], int]) -> None:
        """Start those that are wanted: given a process, `start` puts another one in its place and returns that one."""
        with self._lock:
            for process in sorted(self._wanted):
                self._heirs[process] = start(process)
            self._wanted.clear()

    def close(self) -> None:
        """The load comes to its end: nobody is started any more."""
        with self._lock:
            self._over = True
            self._wanted.clear()
