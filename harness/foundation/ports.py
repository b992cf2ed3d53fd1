"""Ports on loopback: below the ephemeral range, free now, and leased so that two harnesses do not choose the same one.

A lease is a locked file; the kernel drops the lock when its holder dies, so no lease outlives its harness, and
`sweep_leases` removes the files of dead ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
from pathlib import Path

from harness.foundation.errors import CannotHere
from harness.foundation.paths import state_dir

UNPRIVILEGED = 1024
FIRST, LAST = 20000, 32767  # 32768 and up is where the kernel takes ports for outgoing connections


class PortLeases:
    """The ports of one cluster, held until `release` or the end of this process."""

    def __init__(self) -> None:
        self._locks: list[tuple[int, Path]] = []

    def take(self, count: int) -> list[int]:
        """`count` ports that nobody listens on and no other harness holds."""
        taken: list[int] = []
        # not a matter of seeds: two harnesses with the same seed must still choose different ports
        for port in random.SystemRandom().sample(range(FIRST, LAST + 1), LAST + 1 - FIRST):
            if self._lease(port):
                taken.append(port)
            if len(taken) == count:
                return taken
        raise CannotHere(f"no {count} free ports between {FIRST} and {LAST}", "stop something that listens there")

    def take_exactly(self, port: int) -> int:
        """This very port, or an error that says who could have it."""
        if port < UNPRIVILEGED and os.geteuid() != 0:
            raise CannotHere(f"port {port} needs root", f"take one from {UNPRIVILEGED} on")
        if not self._lease(port):
            raise CannotHere(
                f"port {port} on 127.0.0.1 is in use",
                "stop what listens there, give other ports, or leave --ports out to have free ones chosen",
            )
        return port

    def release(self) -> None:
        """Give all of them back."""
        for descriptor, path in self._locks:
            _unlock(descriptor, path)
        self._locks.clear()
        _remove_if_empty()

    def _lease(self, port: int) -> bool:
        locked = _lock(port)
        if locked is None:
            return False
        self._locks.append(locked)
        try:
            with socket.socket() as probe:
                # as a server does it: a connection of an earlier cluster in TIME_WAIT does not make the port taken
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                probe.listen(1)
        except OSError:
            _unlock(*self._locks.pop())
            return False
        return True


def _lock(port: int) -> tuple[int, Path] | None:
    """The lease file of a port, locked, or nothing when another harness has it."""
    path = _directory() / str(port)
    while True:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the last one out removed the directory meanwhile
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor, path
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the file was removed before we had the lock: a lock on it would tell nobody


def _unlock(descriptor: int, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.close(descriptor)


def sweep_leases() -> None:
    """Remove the lease files that no living harness holds."""
    for path in _directory().glob("*"):
        if path.name.isdecimal() and (locked := _lock(int(path.name))):
            _unlock(*locked)
    _remove_if_empty()


def _remove_if_empty() -> None:
    for empty in (_directory(), state_dir()):
        with contextlib.suppress(OSError):  # others still hold ports, or a cluster is up
            empty.rmdir()


def _directory() -> Path:
    return state_dir() / "ports"
