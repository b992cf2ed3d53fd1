"""Processes: identities that outlive pids, and tokens that find every descendant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness.foundation.processes import (
    TOKEN_VARIABLE,
    Identity,
    claim,
    claimant,
    is_claimed,
    kill_marked,
    marked,
    mine,
)
from tests.support import REPOSITORY, end, eventually, unique

Start = Callable[..., subprocess.Popen[str]]
CLAIM = """
import sys, time
from pathlib import Path
from harness.foundation.processes import claim
descriptor = claim(Path(sys.argv[1]))
print("claimed", flush=True)
time.sleep(600)
"""
ASK = """
import sys
from pathlib import Path
from harness.foundation.processes import claimant, is_claimed
print(is_claimed(Path(sys.argv[1])), getattr(claimant(Path(sys.argv[1])), "pid", None), flush=True)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program with a token in its environment; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*command: str, token: str) -> subprocess.Popen[str]:
        environment = {**os.environ, TOKEN_VARIABLE: token, "PYTHONPATH": str(REPOSITORY)}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        pid = started[-1].pid
        # for an instant after it was started a process shows no environment
        eventually(lambda: Identity.of(pid) is None or pid in [each.pid for each in marked(token)], "its token")
        return started[-1]

    yield run
    end(started)


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


def test_kill_marked_kills_children_before_parents(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that dies first would give its children away, and they could be lost from sight."""
    token = unique("t")
    script = f"env -u {TOKEN_VARIABLE} sh -c 'sleep 600 >/dev/null & echo $!; wait' & echo $!; wait"
    parent = start("sh", "-c", script, token=token)
    below = {int(line(parent)), int(line(parent))}
    (child,) = psutil.Process(parent.pid).children()
    (grandchild,) = child.children()
    assert {child.pid, grandchild.pid} == below
    killed: list[int] = []
    kill = psutil.Process.kill

    def remember(process: psutil.Process) -> None:
        killed.append(process.pid)
        kill(process)

    monkeypatch.setattr(psutil.Process, "kill", remember)
    kill_marked(token, gap_s=0)
    assert killed[:3] == [grandchild.pid, child.pid, parent.pid]
    assert Identity.of(child.pid) is None
    assert Identity.of(grandchild.pid) is None


def test_kill_marked_says_what_cannot_be_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stays, for whatever reason, is named when patience ends; it was tried more than once."""
    token = unique("t")
    process = start("sleep", "600", token=token)
    tries: list[int] = []

    def refuse(each: psutil.Process) -> None:
        tries.append(each.pid)
        raise psutil.AccessDenied(each.pid)

    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "kill", refuse)
        patch.setattr(psutil, "wait_procs", lambda *_, **__: None)
        with pytest.raises(TimeoutError, match=rf"the processes \[{process.pid}\] cannot be killed"):
            kill_marked(token, gap_s=0, patience_s=1)
    assert len(tries) > 1
    assert set(tries) == {process.pid}
    assert process.poll() is None
    kill_marked(token, gap_s=0)
    assert process.poll() is not None


def test_kill_marked_looks_again_after_a_quiet_moment(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was just being started when nothing was to be seen is killed as well."""
    token = unique("t")
    late: list[subprocess.Popen[str]] = []

    def looks(asked: str) -> list[psutil.Process]:
        assert asked == token
        found = marked(token)
        if not late:
            assert found == []
            late.append(start("sleep", "600", token=token))
        return found

    monkeypatch.setattr("harness.foundation.processes.marked", looks)
    kill_marked(token, gap_s=0)
    assert late[0].poll() is not None


def test_kill_marked_of_nothing_is_no_error() -> None:
    """Undoing twice is the same as once, and needs no patience."""
    kill_marked(unique("t"), gap_s=0)
    kill_marked(unique("t"), gap_s=0, patience_s=-1)


def test_a_marked_process_does_not_kill_itself(start: Start) -> None:
    """Who asks is spared, though it carries the token."""
    script = (
        "import os; from harness.foundation.processes import *; "
        "kill_marked(os.environ[TOKEN_VARIABLE], gap_s=0); print('ok')"
    )
    assert line(start(sys.executable, "-c", script, token=unique("t"))) == "ok"


def test_a_child_of_a_marked_process_does_not_kill_itself(start: Start) -> None:
    """Who asks is spared as a descendant, too: a harness inside a harness has no token but a marked parent."""
    token = unique("t")
    script = f"from harness.foundation.processes import *; print([p.pid for p in marked('{token}')]); print(mine().pid)"
    parent = start("sh", "-c", f'env -u {TOKEN_VARIABLE} "{sys.executable}" -c "$0" & wait', script, token=token)
    found, pid = line(parent), line(parent)
    assert pid not in found.strip("[]").split(", ")


def test_a_claim_holds_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    """The file says who we are, nobody else may read it, and its lock is what counts."""
    file = tmp_path / "owner.json"
    assert not is_claimed(file)
    assert not file.exists()  # asking makes nothing
    descriptor = claim(file)
    assert json.loads(file.read_text()) == vars(mine())
    assert file.stat().st_mode & 0o777 == 0o600
    assert not os.get_inheritable(descriptor)
    assert is_claimed(file)
    assert claimant(file) == mine()
    os.close(descriptor)
    assert not is_claimed(file)


def test_a_free_lock_has_no_claimant_though_its_process_lives(tmp_path: Path) -> None:
    """What is written in the file proves nothing: only the lock does."""
    file = tmp_path / "owner.json"
    os.close(claim(file))
    assert Identity(**json.loads(file.read_text())).alive()
    assert claimant(file) is None


def test_asking_does_not_take_the_lock(tmp_path: Path) -> None:
    """Neither a held claim nor a free file is changed by who asks."""
    file = tmp_path / "owner.json"
    descriptor = claim(file)
    assert [is_claimed(file), is_claimed(file)] == [True, True]
    os.close(descriptor)
    assert [is_claimed(file), is_claimed(file)] == [False, False]
    os.close(claim(file))  # would wait for ever if asking had kept it


def test_a_claim_is_seen_by_other_processes(start: Start, tmp_path: Path) -> None:
    """Ours by them, theirs by us."""
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    descriptor = claim(ours)
    assert line(start(sys.executable, "-c", ASK, str(ours), token=unique("t"))) == f"True {os.getpid()}"
    os.close(descriptor)
    assert line(start(sys.executable, "-c", ASK, str(ours), token=unique("t"))) == "False None"
    process = start(sys.executable, "-c", CLAIM, str(theirs), token=unique("t"))
    assert line(process) == "claimed"
    assert is_claimed(theirs)
    assert claimant(theirs) == Identity.of(process.pid)


def test_the_claim_of_a_killed_process_is_free(start: Start, tmp_path: Path) -> None:
    """The kernel drops the lock, and the next one can have it at once."""
    file = tmp_path / "owner.json"
    process = start(sys.executable, "-c", CLAIM, str(file), token=unique("t"))
    assert line(process) == "claimed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not is_claimed(file)
    assert claimant(file) is None
    descriptor = claim(file)
    assert claimant(file) == mine()
    os.close(descriptor)


def test_a_stopped_process_keeps_its_claim(start: Start, tmp_path: Path) -> None:
    """It hangs, but it lives."""
    file = tmp_path / "owner.json"
    process = start(sys.executable, "-c", CLAIM, str(file), token=unique("t"))
    assert line(process) == "claimed"
    process.send_signal(signal.SIGSTOP)
    assert is_claimed(file)
    assert claimant(file) == Identity.of(process.pid)


def test_a_program_that_is_started_does_not_inherit_the_claim(start: Start, tmp_path: Path) -> None:
    """Else a broker would keep its dead harness alive."""
    file = tmp_path / "owner.json"
    descriptor = claim(file)
    start("sleep", "600", token=unique("t"))
    os.close(descriptor)
    assert not is_claimed(file)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "5", '{"pid": 1}', '{"pid": 1, "began": "1", "more": 1}', '{"pid": 1, "began": "0"}'],
)
def test_a_claim_of_somebody_we_cannot_see(tmp_path: Path, content: str) -> None:
    """Claimed it is, by whom we cannot say: a process of another container, or a file that somebody damaged."""
    file = tmp_path / "owner.json"
    descriptor = claim(file)
    file.write_text(content)
    assert is_claimed(file)
    assert claimant(file) is None
    os.close(descriptor)


@pytest.mark.parametrize("before", ["", "{", "x" * 1000], ids=["empty", "torn", "longer"])
def test_a_claim_replaces_what_was_there(tmp_path: Path, before: str) -> None:
    """Nothing of the one before stays."""
    file = tmp_path / "owner.json"
    file.write_text(before)
    descriptor = claim(file)
    assert json.loads(file.read_text()) == vars(mine())
    os.close(descriptor)


def test_a_claim_that_fails_keeps_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the error comes through, and the lock is free."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = tmp_path / "owner.json"
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            claim(file)
    assert not is_claimed(file)
