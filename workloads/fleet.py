"""The runner's side of its workers: starts them, hears them, tells them things, and leaves none behind.

A worker may die or freeze at any moment, by a fault or by itself; nothing here raises or waits because of that. What a
pipe does not take is kept for the next poll. A worker's last status and the way it ended are kept (`dead`). A worker is
configured by a `workloads.base.WorkerConfig`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workloads.base import COUNTS, WorkerConfig

RUNNING, ENDED, FAILED = "running", "ended", "failed"
POLL_S = 0.05
READ_BYTES = 65536


@dataclass(frozen=True)
class Death:
    """A worker that ended otherwise than it should."""

    process: int
    role: str
    how: str  # "exit code 1" or "SIGKILL"
    detail: str  # its last words

    def __str__(self) -> str:
        said = f": {self.detail}" if self.detail else ""
        return f"worker {self.process} ({self.role}) ended with {self.how}{said}"


@dataclass
class Worker:
    """One process and what it said last."""

    config: WorkerConfig
    popen: subprocess.Popen[bytes]
    unsent: bytes  # what its pipe did not take so far; its configuration at first
    state: str = RUNNING
    detail: str = ""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    _pending: dict[str, Any] = field(default_factory=dict)
    _unread: bytes = b""
    _let_go: bool = False

    @property
    def over(self) -> bool:
        """Whether the process has ended; its last words are then heard."""
        if self.popen.poll() is not None and not self._let_go:
            self._read()
            self._let_go = True
            for stream in (self.popen.stdin, self.popen.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
        return self._let_go

    @property
    def well(self) -> bool:
        """Whether it runs, or ended as it should."""
        return not self.over or (self.popen.returncode == 0 and self.state == ENDED)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Something to know, now or when it reads again; of what has the same name only the latest is kept."""
        self._pending.update(message)
        self._write()

    def hear(self) -> None:
        """Take in the statuses that have arrived, and pass on what it was told."""
        if not self.over:
            self._read()
            self._write()

    def _write(self) -> None:
        assert self.popen.stdin is not None, "workers are started with pipes"
        with suppress(OSError, ValueError):  # a pipe that is full, broken or closed
            while self.unsent or self._pending:
                if not self.unsent:
                    self.unsent, self._pending = _line(self._pending), {}
                self.unsent = self.unsent[os.write(self.popen.stdin.fileno(), self.unsent) :]

    def _read(self) -> None:
        assert self.popen.stdout is not None, "workers are started with pipes"
        with suppress(BlockingIOError):
            while chunk := os.read(self.popen.stdout.fileno(), READ_BYTES):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            with suppress(ValueError, TypeError, KeyError):
                status = json.loads(line)
                self.state, self.detail = str(status["state"]), str(status["detail"])
                self.counts = {name: int(status[name]) for name in COUNTS}


class Fleet:
    """All workers of a run. `environment` is theirs; it carries the token by which nothing of a run gets lost."""

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._logs = logs
        self.workers: dict[int, Worker] = {}

    def start(self, config: WorkerConfig) -> None:
        """Start a worker; it records from now on."""
        assert config.process not in self.workers, "process numbers are unique in a run"
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"worker-{config.process}.log").open("ab") as log:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "workloads.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the runner, which tells its workers in its own way
            )
        assert popen.stdin is not None and popen.stdout is not None, "both are pipes"  # noqa: PT018
        for stream in (popen.stdin, popen.stdout):
            os.set_blocking(stream.fileno(), False)
        worker = Worker(config, popen, _line(config.model_dump(mode="json")))
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

    def of(self, role: str | None = None) -> Iterator[Worker]:
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
            Death(number, worker.config.label, _how(worker.popen.returncode), worker.detail)
            for number, worker in self.workers.items()
            if not worker.well
        ]

    def stop(self, timeout_s: float) -> None:
        """Ask all to come to an end, wait that long, kill the rest; afterwards none is left."""
        self.tell({"stop": True})
        deadline = time.monotonic() + timeout_s
        while not self.over() and time.monotonic() < deadline:
            self.poll()
            time.sleep(POLL_S)
        for worker in self.of():
            if not worker.over:
                with suppress(ProcessLookupError):
                    os.killpg(worker.popen.pid, signal.SIGKILL)
                worker.popen.wait()
        self.poll()


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _how(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
