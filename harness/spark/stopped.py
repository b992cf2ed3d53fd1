"""Processes of Spark that somebody has stopped (SIGSTOP): they would be waited for without an end.

A JVM or a Python worker that was stopped keeps its connections open and answers nothing. One that is found stopped in
several looks in a row is killed, and then Spark, or whoever waits for the JVM, has an error to tell.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import psutil

LOOK_EVERY_S = 2.0
LOOKS = 5


class StoppedProcesses:
    """What is stopped in the tree of a process, and for how many looks."""

    def __init__(self, looks: int = LOOKS) -> None:
        self._looks = looks
        self._seen: Counter[int] = Counter()

    def look(self, pid: int) -> list[psutil.Process]:
        """Those that have been stopped for long enough."""
        stopped = [process for process in _tree(pid) if _is_stopped(process)]
        self._seen = Counter({process.pid: self._seen[process.pid] + 1 for process in stopped})
        return [process for process in stopped if self._seen[process.pid] >= self._looks]

    def kill(self, pid: int) -> int:
        """Look, and kill them; how many those were."""
        found = self.look(pid)
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return len(found)


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False
