"""A clock for one node that can be set: libfaketime, loaded before the node's own libraries.

The library reads how far the clock is off from a file, about once a second, so that it can be set while the node runs.
Time that only passes (waits and time-outs) stays as it is. The library shares a semaphore and a few bytes of memory
among a node's processes; it would leave them behind when those are killed, so they are made here, under names of ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.foundation.errors import ClusterError

LIBRARY = "libfaketimeMT.so.1"
PLACES = ("/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps both
SHARED_BYTES = 64  # more than any version of the library takes
REREAD_EVERY_S = 1


@dataclass(frozen=True)
class NodeClock:
    """One node's clock."""

    library: Path
    file: Path  # says how far it is off
    name: str  # of what the node's processes share

    @property
    def shared(self) -> tuple[Path, Path]:
        """What they share: a semaphore and its memory."""
        return SHARED_MEMORY / f"sem.{self.name}", SHARED_MEMORY / self.name

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """What a node has to be started with."""
        return {
            "LD_PRELOAD": " ".join(filter(None, (str(self.library), inherited.get("LD_PRELOAD")))),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": str(REREAD_EVERY_S),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_SHARED": f"/{self.name} /{self.name}",
        }

    def prepare(self) -> None:
        """Before each start of the node: new things to share, since one that was killed may have held the old."""
        for path in self.shared:
            path.unlink(missing_ok=True)
        open_semaphore = ctypes.CDLL(None, use_errno=True).sem_open
        open_semaphore.restype = ctypes.c_void_p
        open_semaphore.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_uint]
        if not open_semaphore(f"/{self.name}".encode(), os.O_CREAT | os.O_EXCL, 0o600, 1):
            why = os.strerror(ctypes.get_errno())
            raise ClusterError(f"no semaphore can be made for a clock ({why})", f"allow files in {SHARED_MEMORY}")
        self.shared[1].write_bytes(b"\0" * SHARED_BYTES)
        if not self.file.exists():
            self.set(0)

    def set(self, ahead_s: float) -> None:
        """So much ahead of the real one, or behind it; the node knows within two seconds."""
        unfinished = self.file.with_name(f"{self.file.name}.new")
        unfinished.write_text(f"{ahead_s:+.3f}\n")
        unfinished.rename(self.file)


@cache
def find_library() -> Path | None:
    """Where the library is, if it is installed."""
    return next((found for place in PLACES for found in sorted(Path("/").glob(f"{place[1:]}/{LIBRARY}"))), None)


def why_no_clocks() -> tuple[str, str] | None:
    """What is missing for clocks that can be set and how to get it, or nothing."""
    if sys.platform != "linux":
        return "a node's clock can be set on Linux only", "run it on Linux"
    if find_library() is None:
        return f"{LIBRARY}, by which a node's clock can be set, is missing", "install the package `faketime`"
    return None
