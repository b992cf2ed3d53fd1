"""Processes of a run that are told things by lines of JSON and tell their standing the same way.

A child may die or freeze at any moment, by a fault or by itself; nothing here raises or waits because of that. What a
pipe does not take is kept for the next time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

READ_BYTES = 65536
POLL_S = 0.05


def start(module: str, environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A Python module as a process with pipes that never block us; Ctrl-C does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        popen = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for the runner, which tells its processes in its own way
        )
    assert popen.stdin is not None and popen.stdout is not None, "both are pipes"  # noqa: PT018
    for stream in (popen.stdin, popen.stdout):
        os.set_blocking(stream.fileno(), False)
    return popen


class Child(ABC):
    """One process, what it is told and what it said."""

    def __init__(self, popen: subprocess.Popen[bytes], first: bytes) -> None:
        self.popen = popen
        self.unsent = first  # what its pipe did not take so far; its configuration at first
        self._pending: dict[str, Any] = {}
        self._unread = b""
        self._let_go = False

    @abstractmethod
    def take(self, status: dict[str, Any]) -> None:
        """What it said; raise KeyError, TypeError or ValueError at nonsense, which is then left alone."""

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

    def tell(self, message: Mapping[str, Any]) -> None:
        """Something to know, now or when it reads again; of what has the same name only the latest is kept."""
        self._pending.update(message)
        self._write()

    def hear(self) -> None:
        """Take in what has arrived, and pass on what it was told."""
        if not self.over:
            self._read()
            self._write()

    def kill(self) -> None:
        """SIGKILL it with all it started, and wait for its end."""
        if not self.over:
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()

    def _write(self) -> None:
        assert self.popen.stdin is not None, "children are started with pipes"
        with suppress(OSError, ValueError):  # a pipe that is full, broken or closed
            while self.unsent or self._pending:
                if not self.unsent:
                    self.unsent, self._pending = line(self._pending), {}
                self.unsent = self.unsent[os.write(self.popen.stdin.fileno(), self.unsent) :]

    def _read(self) -> None:
        assert self.popen.stdout is not None, "children are started with pipes"
        with suppress(BlockingIOError):
            while chunk := os.read(self.popen.stdout.fileno(), READ_BYTES):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        for each in lines:
            with suppress(ValueError, TypeError, KeyError):
                self.take(json.loads(each))


def stop_all(children: Sequence[Child], timeout_s: float, poll: Callable[[], None]) -> None:
    """Ask all to come to an end, wait that long, kill the rest; afterwards none is left."""
    for child in children:
        if not child.over:
            child.tell({"stop": True})
    deadline = time.monotonic() + timeout_s
    while not all(child.over for child in children) and time.monotonic() < deadline:
        poll()
        time.sleep(POLL_S)
    for child in children:
        child.kill()
    poll()


def line(message: Mapping[str, Any]) -> bytes:
    """A message as it goes through a pipe."""
    return json.dumps(message).encode() + b"\n"


def how_it_ended(returncode: int) -> str:
    """`exit code 1` or `SIGKILL`."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
