"""What somebody has stopped is killed, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from harness.spark.stopped import StoppedProcesses
from tests.support import eventually

PARENT = "import subprocess, sys; subprocess.run(['sleep', '600'])"


@pytest.fixture
def parent() -> Iterator[psutil.Process]:
    """A process with a child, as a JVM has Python workers."""
    with subprocess.Popen([sys.executable, "-c", PARENT]) as popen:
        process = psutil.Process(popen.pid)
        eventually(lambda: bool(process.children()), "it has a child")
        (child,) = process.children()
        yield process
        for each in (child, process):
            if each.is_running():
                each.kill()


def is_stopped(process: psutil.Process) -> bool:
    """Or it is on its way."""
    return bool(process.status() == psutil.STATUS_STOPPED)


@pytest.mark.parametrize("which", ["parent", "child"])
def test_who_is_stopped_for_long_enough_is_killed(parent: psutil.Process, which: str) -> None:
    """Not at the first look: whoever debugs it may stop it for a moment."""
    victim = parent if which == "parent" else parent.children()[0]
    stopped = StoppedProcesses(looks=2)
    os.kill(victim.pid, signal.SIGSTOP)
    eventually(lambda: is_stopped(victim), "it is stopped")
    assert stopped.kill(parent.pid) == 0
    assert stopped.kill(parent.pid) == 1
    eventually(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE, "it is dead")


def test_who_goes_on_is_left_alone(parent: psutil.Process) -> None:
    """Looks count only in a row."""
    stopped = StoppedProcesses(looks=2)
    for _ in range(2):
        os.kill(parent.pid, signal.SIGSTOP)
        eventually(lambda: is_stopped(parent), "it is stopped")
        assert stopped.kill(parent.pid) == 0
        os.kill(parent.pid, signal.SIGCONT)
        eventually(lambda: not is_stopped(parent), "it goes on")
        assert stopped.kill(parent.pid) == 0


def test_who_is_gone_is_no_error(parent: psutil.Process) -> None:
    """It may end at any moment."""
    for each in (*parent.children(), parent):
        each.kill()
    assert StoppedProcesses(looks=1).kill(parent.pid) == 0
