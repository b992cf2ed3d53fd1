"""The runner's side of its workers, with real processes: probes of nodes that nobody listens at need no cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.foundation.processes import TOKEN_VARIABLE, marked
from harness.history.schema import Kind
from harness.history.segments import Damage
from tests.support import eventually, unique
from tests.support.worker_sessions import NOBODY, rows, target, worker_config
from workloads.base import PROBE, NodeAddress
from workloads.fleet import Fleet, WorkerProcess

TOKEN = unique("fleet")
PATIENCE_S = 30


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet that leaves nothing behind."""
    made = Fleet({TOKEN_VARIABLE: TOKEN}, tmp_path / "logs")
    yield made
    made.stop(0)


def probe(directory: Path, process: int = 5, **changes: Any) -> Any:
    """A worker that goes on until it is told to stop."""
    segment = directory / f"{process}.segment"
    return worker_config(directory, role=PROBE, process=process, segment=segment, **changes)


def start(fleet: Fleet, directory: Path, process: int = 5) -> Path:
    """Start one, and wait until it records."""
    config = probe(directory, process)
    fleet.start(config)
    eventually(lambda: config.segment.exists() and len(rows(config.segment)[1][Kind.PROBE]) > 0, "it records")
    return Path(config.segment)


def _detail(fleet: Fleet) -> str:
    """What the worker said last."""
    fleet.poll()
    return fleet.workers[5].detail


def _polled_and_over(fleet: Fleet) -> bool:
    """Whether all have ended, after another poll."""
    fleet.poll()
    return fleet.over()


def test_a_worker_says_what_it_does_and_ends_when_told(fleet: Fleet, tmp_path: Path) -> None:
    """Its segment is closed, it is not among the dead, and nothing is left of it."""
    segment = start(fleet, tmp_path)
    eventually(lambda: _detail(fleet) != "", "it tells")
    assert not fleet.over()
    fleet.stop(PATIENCE_S)
    assert fleet.over()
    assert fleet.dead() == []
    assert rows(segment)[0].damage == Damage()
    assert marked(TOKEN) == []


def test_ctrl_c_does_not_reach_a_worker_and_sigterm_ends_it_before_its_time(fleet: Fleet, tmp_path: Path) -> None:
    """The first is the runner's; the second is a stranger's: the segment is whole, but the worker is among the dead."""
    segment = start(fleet, tmp_path)
    pid = fleet.workers[5].popen.pid
    os.kill(pid, signal.SIGINT)
    before = len(rows(segment)[1][Kind.PROBE])
    eventually(lambda: len(rows(segment)[1][Kind.PROBE]) > before, "it goes on")
    os.kill(pid, signal.SIGTERM)
    eventually(fleet.over, "it ends")
    (death,) = fleet.dead()
    assert (death.how, death.detail) == ("exit code 1", "SIGTERM")
    assert rows(segment)[0].damage == Damage()


def test_a_worker_that_does_not_read_holds_nobody_up(fleet: Fleet, tmp_path: Path) -> None:
    """A configuration larger than a pipe waits until it is read, and so does what the worker is told meanwhile."""
    config = probe(tmp_path, targets=[target(partition, -1, "x" * 200) for partition in range(2000)])
    fleet.start(config)
    os.kill(fleet.workers[5].popen.pid, signal.SIGSTOP)
    for cue in range(20_000):
        fleet.tell({"cue": cue})
    fleet.tell({"stop": True})
    assert len(fleet.workers[5].unsent) > 0
    os.kill(fleet.workers[5].popen.pid, signal.SIGCONT)
    eventually(lambda: _polled_and_over(fleet), "it ends")
    assert fleet.dead() == []
    assert fleet.workers[5].unsent == b""
    assert rows(config.segment)[0].damage == Damage()


def test_of_what_a_worker_was_told_the_latest_is_kept() -> None:
    """A pipe that is full takes up no more memory however often somebody speaks into it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as pipe, open(writing, "wb") as stdin:  # noqa: PTH123 - descriptors
        process: Any = SimpleNamespace(stdin=stdin)
        worker = WorkerProcess(worker_config(Path()), process, b"x" * (1 << 20) + b"\n")
        for cue in range(1000):
            worker.tell({"cue": cue})
        worker.tell({"stop": True})
        lines: list[bytes] = []
        received = b""
        while len(lines := received.splitlines()) < 2:
            received += os.read(pipe.fileno(), 1 << 16)
            worker.tell({})
    assert len(lines[0]) == 1 << 20
    assert json.loads(lines[1]) == {"cue": 999, "stop": True}


def test_a_worker_that_is_killed_is_among_the_dead(fleet: Fleet, tmp_path: Path) -> None:
    """By its signal; telling it anything afterwards does no harm, and the others go on."""
    start(fleet, tmp_path, 5)
    start(fleet, tmp_path, 6)
    os.kill(fleet.workers[5].popen.pid, signal.SIGKILL)
    eventually(lambda: fleet.workers[5].over, "it ends")
    fleet.tell({"cue": 1})
    fleet.workers[5].tell({"cue": 2})
    (death,) = fleet.dead()
    assert (death.process, death.how) == (5, "SIGKILL")
    assert "worker 5 (probe) ended with SIGKILL" in str(death)
    assert not fleet.workers[6].over


def test_a_worker_that_is_killed_on_purpose_is_nobodys_loss(fleet: Fleet, tmp_path: Path) -> None:
    """It is not among the dead; one that had died of something else before is, whoever wanted to kill it."""
    for process in (5, 6):
        start(fleet, tmp_path, process)
    fleet.signal(5, signal.SIGKILL)
    fleet.workers[6].popen.terminate()
    eventually(fleet.over, "both end")
    fleet.signal(6, signal.SIGKILL)
    assert [(death.process, death.how) for death in fleet.dead()] == [(6, "exit code 1")]
    assert fleet.living(PROBE) == []


def test_workers_that_are_stopped_live(fleet: Fleet, tmp_path: Path) -> None:
    """They have said something, and are there until they end."""
    start(fleet, tmp_path)
    worker = fleet.workers[5]
    assert not WorkerProcess(worker.config, worker.popen, b"").spoke
    eventually(lambda: bool(_detail(fleet)), "it tells")
    assert worker.spoke
    fleet.signal(5, signal.SIGSTOP)
    assert fleet.living(PROBE) == [worker]
    assert fleet.living("producer") == []
    fleet.signal(5, signal.SIGCONT)
    fleet.stop(PATIENCE_S)
    assert (fleet.living(PROBE), fleet.dead()) == ([], [])


def test_a_worker_that_does_not_end_is_killed(fleet: Fleet, tmp_path: Path) -> None:
    """One that is frozen hears nothing."""
    start(fleet, tmp_path)
    os.kill(fleet.workers[5].popen.pid, signal.SIGSTOP)
    fleet.stop(0.2)
    assert fleet.over()
    assert [death.how for death in fleet.dead()] == ["SIGKILL"]
    assert marked(TOKEN) == []


def test_a_worker_that_fails_says_why(fleet: Fleet, tmp_path: Path) -> None:
    """As a sentence, with exit code 1; the traceback is in its log."""
    fleet.start(probe(tmp_path).model_copy(update={"settings": {"ackz": 1}}))
    eventually(fleet.over, "it ends")
    (death,) = fleet.dead()
    assert death.how == "exit code 1"
    assert "did you mean 'acks'?" in death.detail
    assert "Traceback" in (tmp_path / "logs" / "worker-5.log").read_text()


def test_a_worker_ends_when_its_runner_is_gone(tmp_path: Path) -> None:
    """However the runner ended: its end of the pipe is closed then."""
    config = probe(tmp_path)
    with subprocess.Popen([sys.executable, "-P", "-m", "workloads.worker"], stdin=-1, stdout=-1) as worker:
        assert worker.stdin is not None
        worker.stdin.write(config.model_dump_json().encode() + b"\n")
        worker.stdin.flush()
        eventually(config.segment.exists, "it records")
        worker.stdin.close()
        assert worker.wait(PATIENCE_S) == 0
    assert rows(config.segment)[0].damage == Damage()


def test_totals_are_sums_over_a_role(fleet: Fleet, tmp_path: Path) -> None:
    """Nothing yet, by all names."""
    start(fleet, tmp_path)
    assert fleet.totals(PROBE) == {"sent": 0, "ok": 0, "fail": 0, "info": 0, "read": 0}
    assert fleet.totals("producer") == {"sent": 0, "ok": 0, "fail": 0, "info": 0, "read": 0}


def test_a_node_that_refuses_connections_is_one_row_each_time(fleet: Fleet, tmp_path: Path) -> None:
    """With the reason, for each of the nodes; none holds up another."""
    config = probe(tmp_path, nodes=[NodeAddress(id=1, address=NOBODY), NodeAddress(id=2, address="nonsense")])
    fleet.start(config)
    eventually(
        lambda: config.segment.exists() and set(rows(config.segment)[1][Kind.PROBE]["node"].tolist()) == {1, 2},
        "both are asked",
    )
    fleet.stop(PATIENCE_S)
    segment, found = rows(config.segment)
    assert set(found[Kind.PROBE]["error"].tolist()) == {-1}
    assert any("refuses connections" in text for text in segment.texts.values())
    assert any("is not an address" in text for text in segment.texts.values())
    assert time.monotonic_ns() > found[Kind.PROBE]["time"].max()
