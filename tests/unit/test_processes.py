"""Processes: identities that outlive pids, and tokens that find every descendant."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from harness.processes import TOKEN_VARIABLE, Identity, kill_marked, marked, mine
from tests.support import REPOSITORY, unique

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program with a token in its environment; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*command: str, token: str) -> subprocess.Popen[str]:
        environment = {**os.environ, TOKEN_VARIABLE: token, "PYTHONPATH": str(REPOSITORY)}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    """The next line a process prints."""
    assert process.stdout
    return process.stdout.readline().strip()


def test_this_process_has_an_identity() -> None:
    """It is alive, and the same every time."""
    assert mine() == Identity.of(os.getpid())
    assert mine().alive()


def test_a_dead_process_is_not_alive(start: Start) -> None:
    """After its end, its pid is nobody."""
    process = start("sleep", "600", token=unique("t"))
    identity = Identity.of(process.pid)
    assert identity
    assert identity.alive()
    process.kill()
    process.wait()
    assert Identity.of(process.pid) is None
    assert not identity.alive()


def test_a_zombie_is_dead(start: Start) -> None:
    """A process that ended and was not waited for runs nothing any more."""
    process = start("true", token=unique("t"))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Identity.of(process.pid) is None


def test_a_reused_pid_is_another_process() -> None:
    """The same pid with another beginning is not the process that was meant."""
    assert not replace(mine(), began="0").alive()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_pid_that_cannot_be_is_nobody(pid: int) -> None:
    """Nonsense in a file is no error."""
    assert Identity.of(pid) is None


def test_a_name_with_brackets_does_not_confuse(start: Start) -> None:
    """A program may call itself anything, brackets and blanks included."""
    script = "import time; open('/proc/self/comm', 'w').write(') Z 1 (x'); print('named', flush=True); time.sleep(600)"
    process = start(sys.executable, "-c", script, token=unique("t"))
    assert line(process) == "named"
    identity = Identity.of(process.pid)
    assert identity
    assert identity.began.isdigit()
    assert identity.alive()


def test_kill_marked_kills_descendants_and_only_marked_ones(start: Start) -> None:
    """A child goes with its parent even without the token; processes with another token stay."""
    token = unique("t")
    parent = start("sh", "-c", f"env -u {TOKEN_VARIABLE} sleep 600 & echo $!; wait", token=token)
    child = Identity.of(int(line(parent)))
    other = start("sleep", "600", token=f"{token}x")
    assert child
    assert {parent.pid, child.pid} <= {process.pid for process in marked(token)}
    kill_marked(token, gap_s=0)
    assert parent.poll() is not None
    assert not child.alive()
    assert other.poll() is None
    assert not marked(token)


def test_kill_marked_finds_orphans(start: Start) -> None:
    """A process whose parent is gone still carries the token."""
    token = unique("t")
    parent = start("sh", "-c", "sleep 600 >/dev/null & echo $!", token=token)
    orphan = Identity.of(int(line(parent)))
    parent.wait()
    assert orphan
    assert orphan.alive()
    kill_marked(token, gap_s=0)
    assert not orphan.alive()


def test_kill_marked_of_nothing_is_no_error() -> None:
    """Undoing twice is the same as once."""
    kill_marked(unique("t"), gap_s=0)


def test_a_marked_process_does_not_kill_itself(start: Start) -> None:
    """Who asks is spared, though it carries the token."""
    script = (
        "from harness.processes import *; kill_marked(__import__('os').environ[TOKEN_VARIABLE], gap_s=0); print('ok')"
    )
    assert line(start(sys.executable, "-c", script, token=unique("t"))) == "ok"


def test_a_child_of_a_marked_process_does_not_kill_itself(start: Start) -> None:
    """Who asks is spared as a descendant, too: a harness inside a harness has no token but a marked parent."""
    token = unique("t")
    script = f"from harness.processes import *; print([p.pid for p in marked('{token}')]); print(mine().pid)"
    parent = start("sh", "-c", f'env -u {TOKEN_VARIABLE} "{sys.executable}" -c "$0" & wait', script, token=token)
    found, pid = line(parent), line(parent)
    assert pid not in found.strip("[]").split(", ")
