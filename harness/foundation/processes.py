"""Processes, known by more than their pid.

A pid is reused; a pid together with the moment its process began is not. And whatever the harness starts carries a
token in its environment, which its children inherit: that finds even a process that was started in the instant before
the harness died and that nobody wrote down.

Both mean something in one pid namespace only. Whether a harness lives is therefore asked of a lock that it holds, which
the kernel drops with it and which is seen from every container and namespace that shares the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

TOKEN_VARIABLE = "TIDEGAUGE_TOKEN"  # noqa: S105 - marks processes, guards nothing
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess, OSError)


@dataclass(frozen=True)
class Identity:
    """One process, for all time."""

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The process that has this pid now, if any."""
        try:
            if Path("/proc/self/stat").exists():
                # ticks since boot: unlike a wall-clock time they do not move when the clock is set
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                return None if fields[0] == "Z" else cls(pid, fields[19])
            return cls(pid, f"{psutil.Process(pid).create_time():.2f}")
        except _GONE:
            return None

    def alive(self) -> bool:
        """Whether that very process still runs."""
        return Identity.of(self.pid) == self


def claim(file: Path) -> int:
    """Write this process into the file and lock it until the returned descriptor is closed, or we end."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(vars(mine())).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_claimed(file: Path) -> bool:
    """Whether the process that claimed the file still lives, wherever it runs."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask do not take each other for it
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def claimant(file: Path) -> Identity | None:
    """The living process that claimed the file, if it is one of this pid namespace."""
    try:
        identity = Identity(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return identity if is_claimed(file) and identity.alive() else None


def mine() -> Identity:
    """This process."""
    identity = Identity.of(os.getpid())
    assert identity is not None, "a running process has an identity"
    return identity


def marked(token: str) -> list[psutil.Process]:
    """Every process that carries the token, and all their descendants."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(TOKEN_VARIABLE) == token:
                for relative in (process, *process.children(recursive=True)):
                    found[relative.pid] = relative
        except _GONE:
            continue
    found.pop(os.getpid(), None)
    return list(found.values())


def kill_marked(token: str, quiet_scans: int = 2, gap_s: float = 0.2, patience_s: float = 15.0) -> None:
    """SIGKILL until nothing with the token turns up any more, not even what was just being started."""
    quiet = 0
    deadline = time.monotonic() + patience_s
    while quiet < quiet_scans:
        processes = marked(token)
        if processes and time.monotonic() > deadline:
            raise TimeoutError(f"the processes {[process.pid for process in processes]} cannot be killed")
        for process in reversed(processes):  # children before parents, so that none is orphaned and lost from sight
            try:
                process.kill()
            except _GONE:
                continue
        psutil.wait_procs(processes, timeout=1)
        quiet = 0 if processes else quiet + 1
        if quiet < quiet_scans:
            time.sleep(gap_s)
