"""The harness's side of the supervisor: a directory, a journal and the promise that both end with us.

`sweep` is the last line: when harness and supervisor were killed together, the next command finds the directory that
nobody watches any more and undoes what its journal says.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

import psutil

from harness.clusters.cleanup.supervisor import DIRECTORY_VARIABLE, HARNESS_VARIABLE, IDENTITY_FILE, READY
from harness.clusters.cleanup.undo import FORGOTTEN, Entry, record, undo_all
from harness.foundation.errors import ClusterError, TidegaugeError, from_os_error
from harness.foundation.paths import HOME_VARIABLE, cluster_dirs
from harness.foundation.processes import TOKEN_VARIABLE, Identity, claim, claimant, is_claimed, mine

OWNER_FILE = "owner.json"
NONE = -1
START_TIMEOUT_S = 30.0
UNDO_TIMEOUT_S = 90.0
YOUNG_S = 30.0


class Guard:
    """Everything recorded here is undone when this process ends, in whatever way."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lifeline = self._report = self._claim = NONE
        self._supervising = threading.Lock()  # faults record from threads of their own
        self._start_supervisor()
        try:
            self._claim = claim(directory / OWNER_FILE)
        except BaseException:
            self.let_go()
            raise
        _guards.add(self)

    def record(self, **entry: str) -> None:
        """Write down what is about to be made: call this first, make it then."""
        self.keep_supervised()
        record(self.directory, Entry(entry))

    def forget(self, kind: str, value: str) -> None:
        """Write down that something recorded is undone: nobody need do it again."""
        self.record(kind=FORGOTTEN, of=kind, value=value)

    def keep_supervised(self) -> None:
        """Start another supervisor if somebody killed ours, and have ours go on if somebody stopped it."""
        with self._supervising:
            gone = self._report == NONE
            if gone or (select.select([self._report], [], [], 0)[0] and not os.read(self._report, 4096)):
                self._start_supervisor()
            else:
                _wake(claimant(self.directory / IDENTITY_FILE))

    def release(self) -> None:
        """Have everything undone and wait for it; what could not be undone is an error that names it."""
        said = ""
        with suppress(TidegaugeError):  # without a supervisor we do it ourselves
            self.keep_supervised()
            self._lifeline = _closed(self._lifeline)
            said = self._read_line(UNDO_TIMEOUT_S)
        self.let_go()
        left = json.loads(said) if said else undo_all(self.directory)
        if left:
            raise ClusterError(
                f"not everything could be removed ({'; '.join(left)})",
                "fix what it names, then run `tidegauge cluster down --all`",
            )

    def let_go(self) -> None:
        """Close what ties the supervisor to this process; it takes that for our end."""
        _guards.discard(self)
        self._lifeline, self._report = _closed(self._lifeline), _closed(self._report)
        self._claim = _closed(self._claim)

    def _start_supervisor(self) -> None:
        self._lifeline, self._report = _closed(self._lifeline), _closed(self._report)
        stdin, self._lifeline = os.pipe()
        self._report, stdout = os.pipe()
        environment = {**os.environ, DIRECTORY_VARIABLE: str(self.directory.absolute())}
        environment[HARNESS_VARIABLE] = json.dumps(vars(mine()))
        environment.pop(TOKEN_VARIABLE, None)  # else the supervisor of a harness inside a harness would kill itself
        if home := environment.get(HOME_VARIABLE):
            environment[HOME_VARIABLE] = str(Path(home).expanduser().absolute())  # it leaves our working directory
        try:
            subprocess.run(
                [sys.executable, "-P", "-m", "harness.clusters.cleanup.supervisor"],
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(stdin)
            os.close(stdout)
        said = self._read_line(START_TIMEOUT_S)
        if said != READY:
            self._lifeline, self._report = _closed(self._lifeline), _closed(self._report)
            if said:
                raise from_os_error(OSError(*json.loads(said)), "making the cluster's directory")
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


def keep_all_supervised() -> None:
    """For main loops: a supervisor that was killed or stopped is missed now, not when the next thing is made."""
    for guard in list(_guards):
        guard.keep_supervised()


def _wake(supervisor: Identity | None) -> None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        if supervisor is not None and psutil.Process(supervisor.pid).status() == psutil.STATUS_STOPPED:
            os.kill(supervisor.pid, signal.SIGCONT)


def owner_of(directory: Path) -> Identity | None:
    """The harness that a cluster's directory belongs to, if it lives and can be seen from here."""
    return claimant(directory / OWNER_FILE)


def is_watched(directory: Path) -> bool:
    """Whether the cluster's harness or its supervisor lives, be it in another container that shares this directory."""
    return is_claimed(directory / OWNER_FILE) or is_claimed(directory / IDENTITY_FILE)


def is_abandoned(directory: Path) -> bool:
    """Whether nobody will undo what the cluster's journal says, unless we do."""
    return not is_watched(directory) and not _is_being_made(directory)


def sweep() -> list[str]:
    """Undo what belongs to nobody any more; what could not be undone is returned, one sentence each."""
    left: list[str] = []
    for directory in filter(is_abandoned, cluster_dirs()):
        left += undo_all(directory, patience_s=0)
    return left


def _is_being_made(directory: Path) -> bool:
    """A new directory in which harness or supervisor have not written themselves down yet."""
    try:
        written = all((directory / name).stat().st_size for name in (OWNER_FILE, IDENTITY_FILE))
    except FileNotFoundError:
        written = False
    try:
        return not written and time.time() - directory.stat().st_mtime < YOUNG_S
    except FileNotFoundError:
        return True


def _closed(descriptor: int) -> int:
    if descriptor != NONE:
        os.close(descriptor)
    return NONE


def _forget_in_a_forked_child() -> None:
    """A child without exec holds copies of our pipes: as long as it lives, our end would not be seen."""
    for guard in list(_guards):
        guard.let_go()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_in_a_forked_child)
