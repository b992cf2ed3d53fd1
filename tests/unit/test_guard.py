"""The guard: whatever happens to the harness, what it recorded is undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import ClusterError, TidegaugeError
from harness.guard import OWNER_FILE, YOUNG_S, Guard, owner_of, sweep
from harness.processes import TOKEN_VARIABLE, Identity, mine
from harness.supervisor import IDENTITY_FILE
from harness.undo import read, record
from tests.support import REPOSITORY, eventually, unique

HARNESS = f"""
import os, signal, subprocess, sys
from pathlib import Path
from harness.guard import Guard
guard = Guard(Path(sys.argv[1]))
guard.record(kind="processes", value=sys.argv[2])
environment = {{**os.environ, "{TOKEN_VARIABLE}": sys.argv[2]}}
print(subprocess.Popen(["sleep", "600"], env=environment, stdout=subprocess.DEVNULL).pid, flush=True)
signal.pause()
"""
NOBODY = {"pid": os.getpid(), "began": "0"}  # our pid, but not our beginning


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


def supervisor_of(directory: Path) -> Identity:
    """The supervisor that watches a directory."""
    return Identity(**json.loads((directory / IDENTITY_FILE).read_text()))


def test_a_killed_harness_leaves_nothing(directory: Path, state_home: Path) -> None:
    """After SIGKILL the supervisor kills what was started and removes the directory."""
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(directory), directory.name],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout
    with harness.stdout:
        started = Identity.of(int(harness.stdout.readline()))
    assert started
    assert owner_of(directory) == Identity.of(harness.pid)
    harness.kill()
    harness.wait()
    eventually(lambda: not started.alive(), "the marked process is killed")
    eventually(lambda: not (state_home / "tidegauge").exists(), "the directory is gone")


def test_release_undoes_and_waits(directory: Path, state_home: Path) -> None:
    """After a normal end nothing is left, not even empty parents, and the supervisor is gone."""
    guard = Guard(directory)
    supervisor = supervisor_of(directory)
    assert supervisor.alive()
    assert owner_of(directory) == mine()
    guard.record(kind="link", value="tg-no-such")
    assert read(directory) == [{"kind": "link", "value": "tg-no-such"}]
    guard.release()
    assert not (state_home / "tidegauge").exists()
    eventually(lambda: not supervisor.alive(), "the supervisor ends")


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
    guard.release()
    assert not directory.exists()


@pytest.mark.parametrize("ignored", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_supervisor_ignores_what_ends_the_harness(
    directory: Path, monkeypatch: pytest.MonkeyPatch, ignored: signal.Signals
) -> None:
    """Ctrl-C and a closing terminal may reach everybody; the one who cleans up must not mind."""
    guard = Guard(directory)
    monkeypatch.setattr(guard, "_start_supervisor", lambda: pytest.fail("the supervisor died and was replaced"))
    monkeypatch.setattr("harness.guard.undo_all", lambda _: pytest.fail("the supervisor died, we had to undo"))
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
    """Without a supervisor nothing is started."""
    (tmp_path / "file").touch()
    with pytest.raises(TidegaugeError, match="the supervisor could not be started"):
        Guard(tmp_path / "file" / "cluster")


def test_sweep_removes_what_nobody_owns(abandoned: Path) -> None:
    """An old directory without owner and supervisor is undone."""
    assert sweep() == []
    assert not abandoned.exists()


@pytest.mark.parametrize(
    "content",
    [json.dumps(NOBODY), "{", "[]", '{"pid": 1}', "null", ""],
    ids=["reused pid", "torn", "array", "no beginning", "null", "empty"],
)
def test_sweep_removes_what_the_dead_owned(abandoned: Path, content: str) -> None:
    """A reused pid, a torn or a senseless file are no owner."""
    (abandoned / OWNER_FILE).write_text(content)
    age(abandoned)
    assert sweep() == []
    assert not abandoned.exists()


def test_sweep_does_not_wait_when_the_supervisor_is_known_to_be_dead(abandoned: Path) -> None:
    """A directory that had a supervisor is not just being made, however young it is."""
    (abandoned / IDENTITY_FILE).write_text(json.dumps(NOBODY))
    assert sweep() == []
    assert not abandoned.exists()


def test_sweep_leaves_the_young(directory: Path) -> None:
    """A directory that is just being made has no owner written down yet."""
    directory.mkdir(parents=True)
    assert sweep() == []
    assert directory.exists()


@pytest.mark.parametrize("file", [OWNER_FILE, IDENTITY_FILE])
def test_sweep_leaves_what_somebody_watches(abandoned: Path, file: str) -> None:
    """A living harness or a living supervisor is enough."""
    (abandoned / file).write_text(json.dumps(vars(mine())))
    age(abandoned)
    assert sweep() == []
    assert abandoned.exists()


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
