"""A process that the nodes of a local cluster need and that is none of them: ZooKeeper, which old brokers live on.

It is started before the nodes, on the side of the host: faults of nodes do not touch it, and walls between nodes leave
it within reach of each of them. It carries the cluster's token and lies in the cluster's directory, so it goes with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.clusters import node_init, wire
from harness.clusters.base import LOG_TAIL_LINES
from harness.clusters.target import HelperPart, write_inside
from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError, NodeDied

READY_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 1.0
LOG_FILE = "log"

Render = Callable[[str, Mapping[str, str]], str]


@dataclass
class HelperProcess:
    """The process of one cluster."""

    part: HelperPart
    directory: Path
    host: str
    port: int
    child: subprocess.Popen[bytes] | None = None

    @property
    def placeholders(self) -> dict[str, str]:
        """By which nodes are told where it is."""
        return {"helper.host": self.host, "helper.port": str(self.port)}

    def start(self, render: Render, environment: Mapping[str, str]) -> None:
        """Write its files, start it, and wait until it accepts connections."""
        self.directory.mkdir()
        values = {**self.placeholders, "node_dir": str(self.directory)}
        for name, text in self.part.files.items():
            write_inside(self.directory, name, render(text.lstrip("\n"), values))
        command = [render(word, values) for word in self.part.command]
        with (self.directory / LOG_FILE).open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-I", "-S", node_init.__file__, *command],
                cwd=self.directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(self._accepts, READY_TIMEOUT_S, "ready")
        except TimeoutError:
            raise ClusterError(
                f"{self.part.name} was not ready after {READY_TIMEOUT_S:.0f} s",
                "its last log lines are below",
                log_tail=self._log_tail(),
            ) from None

    def fail_if_dead(self) -> None:
        """An error with its log when it has ended: no node can do without it."""
        if self.child is not None and self.child.poll() is not None:
            raise NodeDied(
                f"{self.part.name}, which all nodes need, died", "its last log lines are below", self._log_tail()
            )

    def _accepts(self) -> bool:
        self.fail_if_dead()
        try:
            wire.NodeConnection(f"{self.host}:{self.port}", PROBE_TIMEOUT_S).__exit__()
        except wire.WireError:
            return False
        return True

    def _log_tail(self) -> tuple[str, ...]:
        with (self.directory / LOG_FILE).open(errors="replace") as file:
            return tuple(line.rstrip("\n") for line in deque(file, maxlen=LOG_TAIL_LINES))
