"""The harness's side of the supervisor: a directory, a journal and the promise that both end with us.

`sweep` is the last line: when harness and supervisor were killed together, the next command finds the directory that
nobody watches any more and undoes what its journal says.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from harness.errors import ClusterError, TidegaugeError
from harness.paths import cluster_dirs
from harness.processes import TOKEN_VARIABLE, Identity, mine
from harness.supervisor import DIRECTORY_VARIABLE, IDENTITY_FILE
from harness.undo import Entry, record, undo_all

OWNER_FILE = "owner.json"
START_TIMEOUT_S = 30.0
UNDO_TIMEOUT_S = 90.0
YOUNG_S = 30.0


class Guard:
    """Everything recorded here is undone when this process ends, in whatever way."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._start_supervisor()
        (directory / OWNER_FILE).write_text(json.dumps(vars(mine())))

    def record(self, **entry: str) -> None:
        """Write down what is about to be made: call this first, make it then."""
        self.keep_supervised()
        record(self.directory, Entry(entry))

    def keep_supervised(self) -> None:
        """Start another supervisor if somebody killed ours."""
        if select.select([self._report], [], [], 0)[0] and not os.read(self._report, 4096):
            os.close(self._report)
            os.close(self._lifeline)
            self._start_supervisor()

    def release(self) -> None:
        """Have everything undone and wait for it; what could not be undone is an error that names it."""
        self.keep_supervised()
        os.close(self._lifeline)
        said = self._read_line(UNDO_TIMEOUT_S)
        os.close(self._report)
        left = json.loads(said) if said else undo_all(self.directory)
        if left:
            raise ClusterError(
                f"not everything could be removed ({'; '.join(left)})",
                "mend what it names, then run `tidegauge cluster down --all`",
            )

    def _start_supervisor(self) -> None:
        stdin, self._lifeline = os.pipe()
        self._report, stdout = os.pipe()
        environment = {**os.environ, DIRECTORY_VARIABLE: str(self.directory)}
        environment.pop(TOKEN_VARIABLE, None)  # else the supervisor of a harness inside a harness would kill itself
        try:
            subprocess.run(
                [sys.executable, "-m", "harness.supervisor"],
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                check=True,
            )
        finally:
            os.close(stdin)
            os.close(stdout)
        if self._read_line(START_TIMEOUT_S) != "ready":
            raise TidegaugeError(
                f"the supervisor could not be started for {self.directory}",
                "check that this directory can be written to, or set TIDEGAUGE_HOME",
            )

    def _read_line(self, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._report], [], [], max(0.0, deadline - time.monotonic()))[0]:
                break
            chunk = os.read(self._report, 4096)
            if not chunk:
                break
            line += chunk
        return line.decode().strip()


def owner_of(directory: Path) -> Identity | None:
    """The harness that a cluster's directory belongs to, if it lives."""
    return _living(directory / OWNER_FILE)


def sweep() -> list[str]:
    """Undo what belongs to nobody any more; what could not be undone is returned, one sentence each."""
    left: list[str] = []
    for directory in cluster_dirs():
        if owner_of(directory) or _living(directory / IDENTITY_FILE):
            continue
        try:
            young = time.time() - directory.stat().st_mtime < YOUNG_S and not (directory / IDENTITY_FILE).exists()
        except FileNotFoundError:
            continue
        if not young:  # a directory that is just being made has no owner written down yet
            left += undo_all(directory, patience_s=0)
    return left


def _living(file: Path) -> Identity | None:
    try:
        identity = Identity(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return identity if identity.alive() else None
