"""The runner's side of the tap: its process, the addresses clients are given, and what is done when it dies.

A tap that dies takes every connection with it. Another one is started in its place, on the same ports, so that the run
comes to its end; what passed meanwhile was not recorded, so the verdict can no longer be `valid`.

Several threads use it: the one that runs the load watches it, the one that runs the faults bends what passes. A rule is
sent to the process at once, and to the one that takes its place.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.foundation.children import Child, how_it_ended, line, start, stop_all
from harness.foundation.errors import TidegaugeError
from harness.history.schema import FIRST_TAP
from harness.tap.process import ENDED, FAILED, TapConfig, Upstream
from harness.tap.proxy import LOOPBACK
from harness.tap.rules import Rule

START_TIMEOUT_S = 60.0
FINISH_TIMEOUT_S = 10.0
TELL_TIMEOUT_S = 5.0
SILENT_S = 20.0  # it says how it stands twice a second
REPLACED_AT_MOST = 5
POLL_S = 0.02
COUNTS = ("connections", "exchanges", "bent", "not_understood", "unknown_apis", "refused")


@dataclass(frozen=True)
class TapPlace:
    """One tap: the broker behind it, and where it listens."""

    node: int  # -1 when nobody knows it yet
    host: str
    upstream_port: int
    port: int

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def upstream(self) -> str:
        """Where the broker really is."""
        return f"[{self.host}]:{self.upstream_port}" if ":" in self.host else f"{self.host}:{self.upstream_port}"


class TapProcess(Child):
    """The process and its standing."""

    def __init__(self, popen: subprocess.Popen[bytes], first: bytes) -> None:
        super().__init__(popen, first)
        self.state = ""
        self.detail = ""
        self.taps: list[TapPlace] = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.acted: dict[str, int] = {}  # exchanges that were bent, by who did it
        self.resent: dict[str, int] = {}  # batches that came again after that
        self.rules: list[str] = []  # that are there
        self.idle: list[str] = []  # rules and broken brokers of the scenario that have bent nothing so far
        self.troubles: list[str] = []
        self.heard_at_s = time.monotonic()  # when it last said anything
        self._told = self._taken = 0  # lines of control, here and there

    def tell(self, message: Mapping[str, Any]) -> None:
        """One after the other: of two rules none may take the other's place."""
        self._told += 1
        self.unsent += line(message)
        self.hear()

    def take(self, status: dict[str, Any]) -> None:
        """Where it listens, and what it counted."""
        self.heard_at_s = time.monotonic()
        self.state, self.detail = str(status["state"]), str(status.get("detail", ""))
        if self.state != FAILED:
            self.taps = [TapPlace(**tap) for tap in status["taps"]]
            self.counts = {name: int(status[name]) for name in COUNTS}
            self.acted = {str(name): int(count) for name, count in status["acted"].items()}
            self.resent = {str(name): int(count) for name, count in status["resent"].items()}
            self.rules = [str(name) for name in status["rules"]]
            self.idle = [str(name) for name in status["idle"]]
            self.troubles = [str(sentence) for sentence in status["troubles"]]
            self._taken = int(status["lines"])

    @property
    def obeyed(self) -> bool:
        """Whether what it last said was said after it had done all that it was told."""
        return self._taken == self._told


class Taps:
    """The taps of a run."""

    def __init__(
        self,
        config: Callable[[int], TapConfig],
        environment: Mapping[str, str],
        logs: Path,
        note: Callable[[int], None],
    ) -> None:
        self._config = config  # given the number of the process
        self._environment = environment
        self._logs = logs
        self._note = note  # told of each process before it starts
        self._processes: list[TapProcess] = []
        self._bends: dict[str, dict[str, Any]] = {}  # rules that came later, by name
        self._finished = False
        self._lock = threading.RLock()  # whoever talks to a process, or puts another one in its place
        self.lost = False  # it died, and nothing could be put in its place
        self.deaths: list[str] = []

    @property
    def current(self) -> TapProcess:
        """The one that works now."""
        return self._processes[-1]

    @property
    def counts(self) -> dict[str, int]:
        """What all of them counted."""
        return {name: sum(each.counts[name] for each in self._processes) for name in COUNTS}

    @property
    def troubles(self) -> list[str]:
        """What went wrong in them."""
        return [sentence for each in self._processes for sentence in each.troubles]

    def address(self, node: int) -> str:
        """Where clients find this broker."""
        with self._lock:
            return next(tap.address for each in reversed(self._processes) for tap in each.taps if tap.node == node)

    def prepare(self) -> None:
        """Start the process, which takes a moment to load; it does nothing before `start`."""
        with self._lock:
            number = FIRST_TAP + len(self._processes)
            self._note(number)
            popen = start("harness.tap.process", self._environment, self._logs / f"tap-{number}.log")
            self._processes.append(TapProcess(popen, b""))

    def start(self) -> None:
        """Tell it what to do, and wait until it listens."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        number = FIRST_TAP + len(self._processes) - 1
        process = self.current
        config = self._config(number)
        if known := [tap for each in self._processes for tap in each.taps]:  # those that it found by itself included
            places = {tap.upstream: Upstream(node=tap.node, address=tap.upstream, port=tap.port) for tap in known}
            config = config.model_copy(update={"upstreams": tuple(places.values())})
        process.unsent = line(config.model_dump(mode="json", by_alias=True))
        for rule in self._bends.values():
            process.tell({"bend": rule})
        deadline = time.monotonic() + START_TIMEOUT_S
        while not process.taps:
            process.hear()
            if process.over or time.monotonic() > deadline:
                said = process.detail or "it did not say why"
                process.kill()
                raise TidegaugeError(
                    f"the tap could not be started ({said})",
                    "see the tap's log in the run's directory, or run without it (--no-tap)",
                )
            time.sleep(POLL_S)

    def watch(self) -> list[str]:
        """Look after it; a sentence for each thing that happened."""
        with self._lock:
            return self._watch()

    def _watch(self) -> list[str]:
        self.current.hear()
        if self._finished or self.lost:
            return []
        silent_s = time.monotonic() - self.current.heard_at_s
        silent = not self.current.over and bool(self.current.taps) and silent_s > SILENT_S
        if silent:
            self.current.kill()  # stopped, or stuck: whoever is connected would wait for ever
        if not self.current.over:
            return []
        said = f" ({self.current.detail})" if self.current.detail else ""
        said = f" (it had said nothing for {silent_s:.0f} s)" if silent else said
        how = how_it_ended(self.current.popen.returncode) + said
        happened = [f"the tap ended with {how}: what passed before another one took its place was not recorded"]
        if len(self._processes) > REPLACED_AT_MOST:
            self.lost = True
            happened.append("the tap died too often and was not replaced")
        else:
            try:
                self.prepare()
                self.start()
            except TidegaugeError as error:
                self.lost = True
                happened.append(str(error))
        self.deaths += happened
        return happened

    def bend(self, rule: Rule) -> None:
        """From now on, instead of a rule of the same name; a tap that takes this one's place does the same."""
        with self._lock:
            self._bends[rule.title] = rule.model_dump(mode="json", by_alias=True, exclude_none=True)
            self._tell({"bend": self._bends[rule.title]})

    def unbend(self, name: str) -> None:
        """No longer; what the rule holds goes on."""
        with self._lock:
            self._bends.pop(name, None)
            self._tell({"unbend": name})

    def release(self, name: str) -> None:
        """Let go what a rule holds; it holds nothing from now on."""
        with self._lock:
            self._bends.pop(name, None)
            self._tell({"release": name})

    def acted(self, name: str) -> int:
        """How many exchanges the rule has bent, as far as the processes have said; known after it is gone, too."""
        with self._lock:
            _hear(self._processes)
            return sum(each.acted.get(name, 0) for each in self._processes)

    def resent(self, name: str) -> int:
        """How many batches clients have sent again after the rule had lost, held or doubled them."""
        with self._lock:
            _hear(self._processes)
            return sum(each.resent.get(name, 0) for each in self._processes)

    def is_bent(self, name: str) -> bool:
        """Whether the rule is at work, or may be because the process has not said since that it is gone."""
        with self._lock:
            _hear(self._processes)
            if self._finished or self.lost:
                return False
            current = self.current
            return name in self._bends or (not current.over and (name in current.rules or not current.obeyed))

    def _tell(self, message: Mapping[str, Any]) -> None:
        """Now, if it listens; one that is yet to start is told all rules at its start."""
        process = self.current
        if not process.taps:
            return
        process.tell(message)
        deadline = time.monotonic() + TELL_TIMEOUT_S
        while process.unsent and not process.over and time.monotonic() < deadline:
            time.sleep(POLL_S)
            process.hear()

    def stop(self, timeout_s: float = FINISH_TIMEOUT_S) -> None:
        """Have it close its history, and leave none behind."""
        with self._lock:
            if self._finished or not self._processes:
                return
            self.watch()
            self._finished = True
            stop_all(self._processes, timeout_s, lambda: _hear(self._processes))
            last = self.current
            if last.state != ENDED or last.popen.returncode:
                self.deaths.append(f"the tap ended with {how_it_ended(last.popen.returncode or 0)}, not in order")


def _hear(processes: Sequence[TapProcess]) -> None:
    for process in processes:
        process.hear()
