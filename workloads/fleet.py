"""The runner's side of its workers: starts them, hears them, tells them things, and leaves none behind.

A worker's last status and the way it ended are kept (`dead`). Faults look for workers and send them signals from
another thread; all else is for one. A worker is configured by a `workloads.base.WorkerConfig`; what it shares with
other processes of a run is in `harness.foundation.children`.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.foundation.children import Child, how_it_ended, line, start, stop_all
from workloads.base import COUNTS, WorkerConfig

RUNNING, ENDED, FAILED = "running", "ended", "failed"


@dataclass(frozen=True)
class Death:
    """A worker that ended otherwise than it should."""

    process: int
    role: str
    label: str
    how: str  # "exit code 1" or "SIGKILL"
    detail: str  # its last words

    def __str__(self) -> str:
        said = f": {self.detail}" if self.detail else ""
        return f"worker {self.process} ({self.label}) ended with {self.how}{said}"


class WorkerProcess(Child):
    """One worker and what it said last."""

    def __init__(self, config: WorkerConfig, popen: subprocess.Popen[bytes], first: bytes) -> None:
        super().__init__(popen, first)
        self.config = config
        self.state = RUNNING
        self.detail = ""
        self.spoke = False  # it has said something since it was started
        self.counts = dict.fromkeys(COUNTS, 0)

    @property
    def well(self) -> bool:
        """Whether it runs, or ended as it should."""
        return not self.over or (self.popen.returncode == 0 and self.state == ENDED)

    def take(self, status: dict[str, Any]) -> None:
        """Its state, a word about it, and what it has done so far."""
        self.state, self.detail = str(status["state"]), str(status["detail"])
        self.counts = {name: int(status[name]) for name in COUNTS}
        self.spoke = True


class Fleet:
    """All workers of a run. `environment` is theirs; it carries the token by which nothing of a run gets lost."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = environment
        self._logs = logs
        self.workers: dict[int, WorkerProcess] = {}
        self.killed: set[int] = set()  # on purpose

    def start(self, config: WorkerConfig) -> None:
        """Start a worker; it records from now on."""
        assert config.process not in self.workers, "process numbers are unique in a run"
        popen = start("workloads.worker", self._environment, self._logs / f"worker-{config.process}.log")
        worker = WorkerProcess(config, popen, line(config.model_dump(mode="json")))
        self.workers[config.process] = worker
        worker.hear()

    def poll(self) -> None:
        """Take in what the workers have said since the last time, and pass on what they were told."""
        for worker in self.workers.values():
            worker.hear()

    def tell(self, message: Mapping[str, Any], role: str | None = None) -> None:
        """Tell something to all workers of a role, or to all."""
        for worker in self.of(role):
            if not worker.over:
                worker.tell(message)

    def of(self, role: str | None = None) -> Iterator[WorkerProcess]:
        """The workers of a role, or all."""
        return (worker for worker in self.workers.values() if role in {None, worker.config.role})

    def over(self, role: str | None = None) -> bool:
        """Whether all workers of a role have ended, however."""
        return all(worker.over for worker in self.of(role))

    def totals(self, role: str | None = None) -> dict[str, int]:
        """What they have done together: sent, ok, fail, info, read."""
        total = Counter(dict.fromkeys(COUNTS, 0))
        for worker in self.of(role):
            total.update(worker.counts)
        return dict(total)

    def dead(self) -> list[Death]:
        """Workers that ended unexpectedly: by a signal, with an error, or without saying that they were done."""
        self.poll()
        return [
            Death(number, worker.config.role, worker.config.label, how_it_ended(worker.popen.returncode), worker.detail)
            for number, worker in self.workers.items()
            if not worker.well and not self._was_killed(worker)
        ]

    def living(self, *roles: str) -> list[WorkerProcess]:
        """Those of these roles that run, or are stopped, at this moment; may be asked from any thread."""
        return [
            worker
            for worker in list(self.workers.values())
            if worker.config.role in roles and worker.popen.poll() is None
        ]

    def signal(self, process: int, number: signal.Signals) -> None:
        """Send a worker a signal, from any thread; SIGKILL is on purpose, and a worker that has ended gets none."""
        if number == signal.SIGKILL:
            self.killed.add(process)
        self.workers[process].popen.send_signal(number)

    def _was_killed(self, worker: WorkerProcess) -> bool:
        return worker.config.process in self.killed and worker.popen.returncode == -signal.SIGKILL

    def stop(self, timeout_s: float) -> None:
        """Ask all to come to an end, wait that long, kill the rest; afterwards none is left."""
        stop_all(list(self.of()), timeout_s, self.poll)
