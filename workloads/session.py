"""What a worker has at hand: its configuration, its recorder, what the runner tells it and what it tells the runner."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.foundation.security import Security
from harness.history.recorder import Recorder
from workloads.base import COUNTS, WorkerConfig

STDIN, STDOUT = 0, 1
STATUS_EVERY_S = 0.2
LAST_STATUS_S = 2.0
READ_BYTES = 65536


def collect_garbage_less_often() -> None:
    """For a process that makes many objects and hardly any cycles; what is there now is never looked at again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class Control:
    """Lines from the runner: {"stop": true}, {"leave": true}, {"cue": k}, {"acked": n}.

    To leave is to stop without waiting for what is outstanding. The end of the lines means that the runner is gone.
    """

    def __init__(self) -> None:
        self.cue = 0
        self.acked: int | None = None
        self.gone = False  # nobody waits for what is outstanding: the runner has ended, or said so
        self.terminated = False  # by SIGTERM, which the runner never sends
        self._stop = threading.Event()
        self._unread = b""

    @property
    def stopped(self) -> bool:
        """Whether to come to an end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Come to an end."""
        self._stop.set()

    def wait(self, timeout_s: float) -> bool:
        """Sleep, unless stopped."""
        return self._stop.wait(timeout_s)

    def listen(self) -> None:
        """Ignore Ctrl-C, which is the runner's; take SIGTERM and lines on standard input."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._terminate)
        threading.Thread(target=self._read, daemon=True, name="control").start()

    def first_line(self) -> bytes:
        """The line that configures the worker; empty when the runner is already gone."""
        while b"\n" not in self._unread:
            chunk = os.read(STDIN, READ_BYTES)
            if not chunk:
                return b""
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def take(self, line: bytes) -> None:
        """Heed one line; what is not understood is left alone."""
        with suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict):
                self.cue = max(self.cue, int(message.get("cue", 0)))
                if "acked" in message:
                    self.acked = int(message["acked"])
                self.gone = self.gone or bool(message.get("leave"))
                if message.get("stop") or message.get("leave"):
                    self.stop()

    def _terminate(self, *_: object) -> None:
        self.terminated = True
        self.stop()

    def _read(self) -> None:
        # not through sys.stdin: its lock would be held by this thread when the interpreter ends
        while True:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                self.take(line)
            try:
                chunk = os.read(STDIN, READ_BYTES)
            except OSError:
                chunk = b""
            if not chunk:
                self.gone = True
                self.stop()
                return
            self._unread += chunk


@dataclass
class WorkerStatus:
    """What the runner is told: counts, and a word about what goes on."""

    sent: int = 0
    ok: int = 0
    fail: int = 0
    info: int = 0
    read: int = 0
    detail: str = ""
    _shown_at: float = field(default=0.0, repr=False)

    def show(self) -> None:
        """Tell the runner, at most five times a second; dropped when it does not listen."""
        if time.monotonic() - self._shown_at >= STATUS_EVERY_S:
            self._shown_at = time.monotonic()
            with suppress(OSError):
                os.write(STDOUT, self._line("running"))

    def last(self, state: str) -> None:
        """The last word; given a moment to get through."""
        deadline = time.monotonic() + LAST_STATUS_S
        while time.monotonic() < deadline:
            try:
                os.write(STDOUT, self._line(state))
            except BlockingIOError:
                time.sleep(0.01)
                continue
            except OSError:
                pass
            return

    def _line(self, state: str) -> bytes:
        counts: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        # a write of up to 4,096 bytes to a pipe is whole or not at all
        return json.dumps({"state": state, "detail": self.detail[:500], **counts}).encode() + b"\n"


@dataclass(frozen=True)
class WorkerSession:
    """A worker's world."""

    config: WorkerConfig
    security: Security
    recorder: Recorder
    control: Control
    status: WorkerStatus

    @property
    def addresses(self) -> list[str]:
        """All nodes', in their order."""
        return [node.address for node in self.config.nodes]

    @property
    def client_id(self) -> str:
        """How brokers and taps know this worker."""
        return f"tidegauge-{self.config.role}-{self.config.process}"
