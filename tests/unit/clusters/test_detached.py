"""Clusters that outlive their command: whose they are, and how they are taken down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clusters import detached
from harness.clusters.base import DESCRIPTION_FILE
from harness.clusters.cleanup.guard import OWNER_FILE
from harness.clusters.detached import Detached, find, running, take_down
from harness.foundation.errors import CannotHere, ClusterError, Exit, UsageError
from harness.foundation.processes import claim
from tests.support import REPOSITORY, end, eventually, unique

HARNESS = """
import signal, sys
from pathlib import Path
from harness.clusters.cleanup.guard import Guard
guard = Guard(Path(sys.argv[1]))
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""
Start = Callable[[str], tuple[subprocess.Popen[str], Detached]]


def described(directory: Path, **changes: Any) -> Detached:
    """A directory that says it is a cluster of ours."""
    directory.mkdir(parents=True, exist_ok=True)
    description = {"name": directory.name, "harness_pid": 7, "held_by_tidegauge": True} | changes
    (directory / DESCRIPTION_FILE).write_text(json.dumps(description))
    return Detached(directory, description)


@pytest.fixture
def directory(state_home: Path) -> Path:
    """Where a cluster would have its directory."""
    return state_home / "tidegauge" / "clusters" / unique("held")


@pytest.fixture
def start(directory: Path) -> Iterator[Start]:
    """Starts a harness that holds a cluster; it is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(manner: str) -> tuple[subprocess.Popen[str], Detached]:
        process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, str(directory), manner],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        return process, described(directory, harness_pid=process.pid)

    yield run
    end(started)


def test_an_obedient_harness_is_asked(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM is enough, and we return when all of it is gone."""
    process, cluster = start("obedient")
    take_down(cluster)
    assert process.wait(30) == -signal.SIGTERM
    assert not cluster.directory.exists()


@pytest.mark.parametrize("manner", ["deaf", "stopped"])
def test_a_harness_that_does_not_obey_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch, manner: str) -> None:
    """It hangs or was stopped: its supervisor does the rest."""
    monkeypatch.setattr(detached, "OBEY_TIMEOUT_S", 0.3)
    process, cluster = start(manner)
    if manner == "stopped":
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    take_down(cluster)
    assert process.wait(30) == -signal.SIGKILL
    assert not cluster.directory.exists()


def test_a_cluster_of_another_program_is_left_alone(start: Start) -> None:
    """A test of somebody uses it: refused, and nothing is signalled."""
    process, _ = start("obedient")
    cluster = described(find(None).directory, held_by_tidegauge=False, harness_pid=process.pid)
    said = f"{cluster.name} belongs to the program with pid {process.pid}: it is removed when that program ends"
    with pytest.raises(UsageError, match=said) as caught:
        take_down(cluster)
    assert caught.value.exit_code == Exit.USAGE
    assert process.poll() is None
    assert cluster.directory.exists()


def test_a_description_that_does_not_say_whose_it_is_is_not_ours(directory: Path) -> None:
    """In doubt nothing is taken down."""
    cluster = described(directory)
    del cluster.description["held_by_tidegauge"]
    with pytest.raises(UsageError, match="belongs to the program with pid 7"):
        take_down(cluster)
    assert directory.exists()


@pytest.mark.parametrize(
    "content",
    [{"pid": os.getpid(), "began": "0"}, {"pid": 2**22 + 1, "began": "5"}],
    ids=["a pid of ours, of another time", "a pid that is not there"],
)
def test_a_harness_of_another_container_cannot_be_asked(
    directory: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any]
) -> None:
    """Its lock is seen and its pid means nothing here: nobody is signalled."""
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a stranger was signalled"))
    cluster = described(directory)
    lock = claim(directory / OWNER_FILE)
    (directory / OWNER_FILE).write_text(json.dumps(content))
    with pytest.raises(CannotHere, match=rf"the harness of {directory.name} runs in another container: run this"):
        take_down(cluster)
    os.close(lock)
    assert directory.exists()


def test_what_does_not_go_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody holds it, and nobody removes it: the wait has an end."""
    monkeypatch.setattr(detached, "_wait_gone", lambda place, timeout_s=0.1, wait=detached._wait_gone: wait(place, 0.1))
    with pytest.raises(ClusterError, match=rf"{directory.name} is still there after 0 s: try `cluster down` again"):
        take_down(described(directory))


def test_what_runs_is_what_has_a_description(directory: Path) -> None:
    """Half a description is a cluster that starts or stops just now."""
    cluster = described(directory)
    for content in ("", "{"):
        other = directory.with_name(f"{directory.name}x")
        other.mkdir(exist_ok=True)
        (other / DESCRIPTION_FILE).write_text(content)
        assert running() == [cluster]
    assert find(None) == find(cluster.name) == cluster
    assert cluster.name == directory.name


@pytest.mark.parametrize(
    ("code", "kind"), [(Exit.USAGE, UsageError), (Exit.CANNOT_HERE, CannotHere), (Exit.HARNESS_ERROR, ClusterError)]
)
def test_an_error_of_the_detached_harness_is_ours(code: Exit, kind: type[Exception]) -> None:
    """With its kind, its sentence and all its notes: log lines, and what could not be undone."""
    error = {"message": "it died", "remedy": "see", "exit_code": int(code), "notes": ["one\ntwo", "not removed"]}
    with pytest.raises(kind, match="it died: see") as caught:
        detached._raise(error)
    assert caught.value.log_tail == ("one", "two", "not removed")  # type: ignore[attr-defined]
