"""The guard: whatever happens to the harness, what it recorded is undone."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.clusters.cleanup import guard as guard_module
from harness.clusters.cleanup.guard import (
    OWNER_FILE,
    YOUNG_S,
    Guard,
    is_watched,
    keep_all_supervised,
    owner_of,
    sweep,
)
from harness.clusters.cleanup.supervisor import IDENTITY_FILE
from harness.clusters.cleanup.undo import JOURNAL, read, record
from harness.foundation.errors import CannotHere, ClusterError, TidegaugeError
from harness.foundation.processes import TOKEN_VARIABLE, Identity, claim, is_claimed, mine
from tests.support import REPOSITORY, eventually, unique

HARNESS = f"""
import os, signal, subprocess, sys
from pathlib import Path
from harness.clusters.cleanup.guard import Guard
guard = Guard(Path(sys.argv[1]))
guard.record(kind="processes", value=sys.argv[2])
environment = {{**os.environ, "{TOKEN_VARIABLE}": sys.argv[2]}}
print(subprocess.Popen(["sleep", "600"], env=environment, stdout=subprocess.DEVNULL).pid, flush=True)
signal.pause()
"""
FORKING = """
import os, signal, sys, time
from pathlib import Path
from harness.clusters.cleanup.guard import Guard
guard = Guard(Path(sys.argv[1]))
child = os.fork()
if not child:
    signal.pause()
    os._exit(0)
print(child, flush=True)
signal.pause()
"""
NOBODY = {"pid": os.getpid(), "began": "0"}  # our pid, but not our beginning
FILES = (OWNER_FILE, IDENTITY_FILE)


@pytest.fixture
def directory(state_home: Path) -> Path:
    """Where a cluster would have its directory."""
    return state_home / "tidegauge" / "clusters" / unique("guarded")


@pytest.fixture
def abandoned(directory: Path) -> Path:
    """A directory nobody owns, old enough to be swept."""
    directory.mkdir(parents=True)
    age(directory)
    return directory


def age(directory: Path) -> None:
    """Make a directory older than those that are just being made."""
    long_ago = directory.stat().st_mtime - YOUNG_S - 1
    os.utime(directory, (long_ago, long_ago))


def write_down(directory: Path, content: str | None = None) -> None:
    """Harness and supervisor have written themselves down, and hold no lock: it is us, unless told otherwise."""
    for name in FILES:
        (directory / name).write_text(json.dumps(vars(mine())) if content is None else content)


@contextlib.contextmanager
def running(program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A program that prints the pid of its child, and goes on; both end with the block."""
    harness = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout
    with harness.stdout:
        pid = int(harness.stdout.readline())
    child = Identity.of(pid)
    try:
        yield harness, pid
    finally:
        harness.kill()
        harness.wait()
        if child and child.alive():
            os.kill(pid, signal.SIGKILL)


def supervisor_of(directory: Path) -> Identity:
    """The supervisor that watches a directory."""
    return Identity(**json.loads((directory / IDENTITY_FILE).read_text()))


def test_a_killed_harness_leaves_nothing(directory: Path, state_home: Path) -> None:
    """After SIGKILL the supervisor kills what was started and removes the directory."""
    with running(HARNESS, str(directory), directory.name) as (harness, pid):
        started = Identity.of(pid)
        assert started
        assert owner_of(directory) == Identity.of(harness.pid)
        assert is_watched(directory)
        harness.kill()
        harness.wait()
        eventually(lambda: not started.alive(), "the marked process is killed")
        eventually(lambda: not (state_home / "tidegauge").exists(), "the directory is gone")


def test_a_forked_child_does_not_keep_the_cluster(directory: Path, state_home: Path) -> None:
    """It has copies of our pipes and of our lock; after our SIGKILL they must not pass for our life."""
    with running(FORKING, str(directory)) as (harness, pid):
        child = Identity.of(pid)
        assert child
        assert owner_of(directory) == Identity.of(harness.pid)
        harness.kill()
        harness.wait()
        eventually(lambda: not (state_home / "tidegauge").exists(), "the directory is gone")
        assert child.alive()


def test_a_forked_child_does_not_end_the_cluster(directory: Path) -> None:
    """What it lets go of is its own copy: the harness goes on, owned and supervised."""
    guard = Guard(directory)
    supervisor = supervisor_of(directory)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert owner_of(directory) == mine()
    guard.record(kind="link", value="tg-no-such")
    assert supervisor_of(directory) == supervisor
    assert supervisor.alive()
    guard.release()
    assert not directory.exists()


def test_nothing_is_left_open_after_release(directory: Path) -> None:
    """Pipes and lock are given back."""
    gc.collect()  # what tests before this one left for it
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - a Path would be resolved, these are descriptors
    guard = Guard(directory)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 3  # noqa: PTH208
    guard.release()
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_release_undoes_and_waits(directory: Path, state_home: Path) -> None:
    """After a normal end nothing is left, not even empty parents, and the supervisor is gone."""
    guard = Guard(directory)
    supervisor = supervisor_of(directory)
    assert supervisor.alive()
    assert owner_of(directory) == mine()
    assert is_claimed(directory / OWNER_FILE)
    assert is_claimed(directory / IDENTITY_FILE)
    guard.record(kind="link", value="tg-no-such", more="kept")
    assert read(directory) == [{"kind": "link", "value": "tg-no-such", "more": "kept"}]
    guard.release()
    assert not (state_home / "tidegauge").exists()
    eventually(lambda: not supervisor.alive(), "the supervisor ends")


def test_a_main_loop_misses_a_supervisor_that_was_killed(directory: Path) -> None:
    """Without anything being made: SIGKILL of the harness would else leave what it made long before."""
    guard = Guard(directory)
    first = supervisor_of(directory)
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not first.alive(), "the supervisor is dead")
    keep_all_supervised()
    second = supervisor_of(directory)
    assert second.alive()
    assert second != first
    guard.release()
    assert not directory.exists()


def test_a_supervisor_that_was_stopped_goes_on(directory: Path) -> None:
    """Stopped, it would neither undo anything nor be missed."""
    guard = Guard(directory)
    supervisor = supervisor_of(directory)
    os.kill(supervisor.pid, signal.SIGSTOP)
    eventually(lambda: psutil.Process(supervisor.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    keep_all_supervised()
    eventually(lambda: psutil.Process(supervisor.pid).status() != psutil.STATUS_STOPPED, "it goes on")
    assert supervisor_of(directory) == supervisor
    guard.release()
    assert not directory.exists()


def test_a_guard_that_was_released_is_not_kept_supervised(directory: Path) -> None:
    """Its directory is gone, and must not come back."""
    guard = Guard(directory)
    guard.release()
    keep_all_supervised()
    assert not directory.exists()


def test_a_killed_supervisor_is_replaced(directory: Path) -> None:
    """Before anything else is made, there is a supervisor again; without need there is no second one."""
    guard = Guard(directory)
    first = supervisor_of(directory)
    guard.keep_supervised()
    assert supervisor_of(directory) == first
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not first.alive(), "the supervisor is dead")
    guard.record(kind="link", value="tg-no-such")
    second = supervisor_of(directory)
    assert second != first
    assert second.alive()
    assert is_claimed(directory / IDENTITY_FILE)
    guard.release()
    assert not directory.exists()


@pytest.mark.parametrize("ignored", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_supervisor_ignores_what_ends_the_harness(
    directory: Path, monkeypatch: pytest.MonkeyPatch, ignored: signal.Signals
) -> None:
    """Ctrl-C and a closing terminal may reach everybody; the one who cleans up must not mind."""
    guard = Guard(directory)
    monkeypatch.setattr(guard, "_start_supervisor", lambda: pytest.fail("the supervisor died and was replaced"))
    monkeypatch.setattr(
        "harness.clusters.cleanup.guard.undo_all", lambda _: pytest.fail("the supervisor died, we had to undo")
    )
    os.kill(supervisor_of(directory).pid, ignored)
    guard.release()
    assert not directory.exists()


def test_what_could_not_be_undone_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Release names it and says what to do."""
    guard = Guard(directory)
    monkeypatch.setattr(guard, "_read_line", lambda timeout_s: '["netns a: busy", "link b: busy"]')
    with pytest.raises(ClusterError, match=r"netns a: busy; link b: busy.*cluster down --all"):
        guard.release()
    eventually(lambda: not directory.exists(), "the real supervisor has removed it")


def test_a_place_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    """Without a supervisor nothing is started, and the supervisor's reason is ours."""
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "cluster"
    with pytest.raises(TidegaugeError) as caught:
        Guard(place)
    assert type(caught.value) is TidegaugeError
    assert caught.value.message == f"making the cluster's directory failed: Not a directory ({place})"


def test_a_file_in_place_of_the_directory_is_an_error_and_stays(tmp_path: Path) -> None:
    """What is not ours is not removed."""
    (tmp_path / "file").write_text("somebody's")
    with pytest.raises(TidegaugeError, match=r"making the cluster's directory failed: File exists \(.*file\)"):
        Guard(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "somebody's"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full: making the cluster's directory failed"),
        (errno.EDQUOT, "the disk is full: making the cluster's directory failed"),
        (errno.EACCES, "making the cluster's directory is not permitted"),
        (errno.EROFS, "making the cluster's directory is not permitted"),
    ],
)
def test_errors_of_the_supervisor_come_back(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    """A full disk met by the supervisor is a full disk to the harness, with the path; no descriptor stays open."""
    answer = json.dumps([number, os.strerror(number), str(directory)])
    monkeypatch.setattr(Guard, "_read_line", lambda self, timeout_s: answer)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(CannotHere) as caught:
        Guard(directory)
    assert caught.value.message == f"{said} ({directory})"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    eventually(lambda: not directory.exists(), "the supervisor, which waits for nobody, has removed it")


def test_a_supervisor_that_says_nothing_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died before it was ready: nothing is started without it."""
    monkeypatch.setattr(Guard, "_read_line", lambda self, timeout_s: "")
    with pytest.raises(TidegaugeError, match=r"the supervisor could not be started for .*TIDEGAUGE_HOME"):
        Guard(directory)
    eventually(lambda: not directory.exists(), "the supervisor, which waits for nobody, has removed it")


def test_an_owner_that_cannot_be_written_down_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor, ready already, takes it for our end."""

    def full(file: Path) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(guard_module, "claim", full)
    with pytest.raises(OSError, match="No space left"):
        Guard(directory)
    eventually(lambda: not directory.exists(), "the directory is gone")


def test_sweep_removes_what_nobody_owns(abandoned: Path) -> None:
    """An old directory without owner and supervisor is undone."""
    assert sweep() == []
    assert not abandoned.exists()


@pytest.mark.parametrize(
    "content",
    [json.dumps(NOBODY), json.dumps(vars(mine())), "{", "[]", '{"pid": 1}', "null", ""],
    ids=["reused pid", "living pid", "torn", "array", "no beginning", "null", "empty"],
)
def test_sweep_removes_what_nobody_holds(abandoned: Path, content: str) -> None:
    """A reused or even a living pid, a torn or a senseless file are no owner: only a lock is."""
    write_down(abandoned, content)
    age(abandoned)
    assert not is_watched(abandoned)
    assert owner_of(abandoned) is None
    assert sweep() == []
    assert not abandoned.exists()


def test_sweep_does_not_wait_when_both_are_known_to_be_dead(directory: Path) -> None:
    """A directory that had harness and supervisor is not just being made, however young it is."""
    directory.mkdir(parents=True)
    write_down(directory)
    assert sweep() == []
    assert not directory.exists()


@pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
@pytest.mark.parametrize("unwritten", [(OWNER_FILE,), (IDENTITY_FILE,), FILES], ids=["owner", "supervisor", "both"])
def test_sweep_leaves_the_young(directory: Path, unwritten: tuple[str, ...], content: str | None) -> None:
    """In a directory that is just being made, one of the two is not written down yet; after a while it is nobody's."""
    directory.mkdir(parents=True)
    write_down(directory)
    for name in unwritten:
        (directory / name).unlink()
        if content is not None:
            (directory / name).write_text(content)
    assert sweep() == []
    assert directory.exists()
    age(directory)
    assert sweep() == []
    assert not directory.exists()


@pytest.mark.parametrize(("off_s", "left"), [(-2, True), (2, False)])
def test_how_long_a_directory_is_young(directory: Path, off_s: float, left: bool) -> None:  # noqa: FBT001
    """Thirty seconds, by the directory's own time."""
    assert YOUNG_S == 30
    directory.mkdir(parents=True)
    then = directory.stat().st_mtime - YOUNG_S - off_s
    os.utime(directory, (then, then))
    assert sweep() == []
    assert directory.exists() is left


def test_a_directory_that_vanishes_meanwhile_is_no_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else undid it in the same moment."""
    directory.mkdir(parents=True)

    def vanish(asked: Path) -> bool:
        assert asked == directory
        shutil.rmtree(directory)
        return False

    monkeypatch.setattr(guard_module, "is_watched", vanish)
    monkeypatch.setattr(guard_module, "undo_all", lambda *_, **__: pytest.fail("nothing is there to undo"))
    assert sweep() == []


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [None, json.dumps(NOBODY), ""], ids=["ours", "of another container", "empty"])
def test_sweep_leaves_what_somebody_watches(abandoned: Path, file: str, content: str | None) -> None:
    """The lock of a living harness or of a living supervisor is enough, whatever pid it wrote down."""
    write_down(abandoned, json.dumps(NOBODY))
    lock = claim(abandoned / file)
    if content is not None:
        (abandoned / file).write_text(content)
    age(abandoned)
    assert is_watched(abandoned)
    assert owner_of(abandoned) == (mine() if file == OWNER_FILE and content is None else None)
    assert sweep() == []
    assert abandoned.exists()
    os.close(lock)
    assert not is_watched(abandoned)
    assert sweep() == []
    assert not abandoned.exists()


def test_sweep_leaves_a_cluster_whose_harness_was_just_killed(directory: Path) -> None:
    """Its supervisor is at work, and one is enough."""
    guard = Guard(directory)
    os.kill(supervisor_of(directory).pid, signal.SIGSTOP)
    try:
        guard.let_go()
        assert owner_of(directory) is None
        age(directory)
        assert sweep() == []
        assert directory.exists()
    finally:
        os.kill(supervisor_of(directory).pid, signal.SIGCONT)
    eventually(lambda: not directory.exists(), "the supervisor has removed it")


def test_sweep_reports_what_resists(abandoned: Path) -> None:
    """What cannot be undone is told and kept."""
    record(abandoned, {"kind": "zeppelin", "value": "x"})
    age(abandoned)
    assert sweep() == ["do not know how to undo 'zeppelin'"]
    assert read(abandoned)


def test_sweep_without_clusters_does_nothing(state_home: Path) -> None:
    """Nothing to do, nothing made."""
    assert sweep() == []
    assert not state_home.exists()


def test_a_supervisor_that_cannot_be_replaced_takes_nothing_with_it(directory: Path) -> None:
    """The journal stays, the caller hears of it, and at the end we undo everything ourselves."""
    guard = Guard(directory)
    guard.record(kind="link", value="tg-none")
    supervisor = guard.directory / IDENTITY_FILE
    os.kill(json.loads(supervisor.read_text())["pid"], signal.SIGKILL)
    eventually(lambda: not is_claimed(supervisor), "the supervisor is dead")
    supervisor.unlink()
    supervisor.mkdir()
    with pytest.raises(TidegaugeError):
        guard.record(kind="link", value="tg-another")
    assert (guard.directory / JOURNAL).exists()
    guard.release()
    assert not guard.directory.exists()


def test_what_was_forgotten_is_no_longer_in_the_journal(directory: Path) -> None:
    """It was undone already, and another supervisor need not do it again."""
    guard = Guard(directory)
    try:
        guard.record(kind="link", value="a")
        guard.record(kind="link", value="b")
        guard.forget("link", "a")
        assert read(directory) == [{"kind": "link", "value": "b"}]
    finally:
        guard.forget("link", "b")
        guard.release()
    assert not directory.exists()
