"""Clocks that are set: the library's, and the fault's, by what a node on paper stamps."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from harness.clusters import clock as clock_module
from harness.clusters.clock import NodeClock, find_library, why_no_clocks
from harness.clusters.wire import WireError
from harness.foundation.errors import ClusterError
from nemesis import base, clocks
from nemesis.admin import asking
from nemesis.clocks import ClockSkew, append
from tests.support import unique
from tests.support.fake_cluster import CAPABLE, WHOLE, Answers, Paper, context_on

NOW_S = 1_800_000_000.0
TOPIC = "tidegauge-clock-tg"


class PaperClocks(Paper):
    """With a clock for each node; `deaf` nodes do not go by theirs."""

    def __init__(self) -> None:
        super().__init__(*CAPABLE)
        self.ahead_s = dict.fromkeys((1, 2, 3), 0.0)
        self.deaf: set[int] = set()
        self.silent: set[int] = set()
        self.stamped: list[tuple[str, str]] = []

    def set_clock(self, node_id: int, ahead_s: float) -> None:
        """Set."""
        self._do(f"clock {ahead_s:g}", node_id)
        if node_id not in self.deaf:
            self.ahead_s[node_id] = ahead_s

    def stamp(self, address: str, topic: str) -> int | None:
        """What `append` would find."""
        self.stamped.append((address, topic))
        node = int(address.rpartition(":")[2])
        return None if node in self.silent else int((NOW_S + self.ahead_s[node]) * 1000)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes."""
    made = Answers()
    made.topic_id = None
    monkeypatch.setattr(asking, "NodeConnection", made.connect)
    return made


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, answers: Answers) -> PaperClocks:
    """Node 1 leads the only partition; time passes only by sleeping."""
    made = PaperClocks()
    made.views["t", 0] = WHOLE
    now = [0.0]
    monkeypatch.setattr(base, "observe", made.look)
    monkeypatch.setattr(clocks, "append", made.stamp)
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return made


def test_a_clock_is_set_ahead_or_back_by_chance(cluster: PaperClocks) -> None:
    """As far as it was told."""
    aims = [ClockSkew(context_on(cluster, ClockSkew, seed=seed, by=30.0)).aim() for seed in range(20)]
    assert {aim.sentence for aim in aims if aim} == {
        "the clock of node 1 (leader of t-0) is set 30 s ahead",
        "the clock of node 1 (leader of t-0) is set 30 s back",
    }


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_bites_by_the_stamp_of_its_node(cluster: PaperClocks, answers: Answers, seed: int) -> None:
    """In a topic of which no other node has a replica, and which goes with the fault."""
    cluster.deaf.add(1)
    fault = ClockSkew(context_on(cluster, ClockSkew, seed=seed))
    aim = fault.aim()
    assert aim
    fault.inject()
    settings = {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"}
    assert answers.asked == [("h:1", "create", (TOPIC, {0: (1,)}, settings))]
    assert fault.proof() is None
    cluster.deaf.clear()
    sign = 1 if "ahead" in aim.sentence else -1
    cluster.ahead_s[1] = sign * -60.0
    assert fault.proof() is None
    cluster.ahead_s[1] = sign * 60.0
    bite = fault.proof()
    assert bite
    assert bite.sentence == f"node 1 stamps records with a time {sign * 60:+.1f} s off that of this machine"
    assert bite.node == 1
    assert set(cluster.stamped) == {("h:1", TOPIC)}
    fault.undo()
    assert cluster.ahead_s[1] == 0
    assert answers.requests() == ["create", "delete"]
    assert fault.healed() == ""
    answers.codes = [3]
    fault.undo()
    assert fault.healed() == ""


def test_a_clock_that_stays_wrong_is_told(cluster: PaperClocks, answers: Answers) -> None:
    """Again and again; the topic stays as long as it is needed to see that."""
    fault = injected(cluster)
    cluster.ahead_s[1] = 5.0
    cluster.deaf.add(1)
    fault.undo()
    assert fault.healed() == "the clock of node 1 is still 5 s ahead"
    assert answers.requests() == ["create"]
    cluster.ahead_s[1] = -3.0
    assert fault.healed() == "the clock of node 1 is still 3 s back"
    cluster.ahead_s[1] = 0.0
    assert fault.healed() == ""
    assert answers.requests() == ["create", "delete"]
    assert fault.healed() == ""
    assert answers.requests() == ["create", "delete"]


def test_the_topic_goes_with_the_last_try(cluster: PaperClocks, answers: Answers) -> None:
    """Whatever the clock says."""
    fault = injected(cluster)
    cluster.deaf.add(1)
    fault.undo()
    assert answers.requests() == ["create"]
    fault.undo()
    assert answers.requests() == ["create", "delete"]
    assert "the clock of node 1 is still 60 s" in fault.healed()


def test_a_clock_that_was_never_set_need_not_be_seen(cluster: PaperClocks, answers: Answers) -> None:
    """The topic could not be made; perhaps it was, all the same."""
    fault = ClockSkew(context_on(cluster, ClockSkew))
    fault.aim()
    cluster.silent.add(1)
    fault.undo()
    assert fault.healed() == ""
    assert answers.requests() == ["delete"]


def injected(cluster: PaperClocks) -> ClockSkew:
    """One that was aimed and injected."""
    fault = ClockSkew(context_on(cluster, ClockSkew))
    assert fault.aim()
    fault.inject()
    return fault


def test_a_node_that_is_down_proves_nothing_and_hides_nothing(cluster: PaperClocks) -> None:
    """Its clock is set all the same; it is right when it comes back, and until then only if the node is dead."""
    fault = injected(cluster)
    cluster.silent.add(1)
    assert fault.proof() is None
    fault.undo()
    assert fault.healed() == "the clock of node 1 cannot be seen"
    assert cluster.ahead_s[1] == 0
    cluster.dead.add(1)
    assert fault.healed() == ""


def test_without_a_victim_no_clock_is_set(cluster: PaperClocks) -> None:
    """Nobody answers."""
    cluster.dead |= {1, 2, 3}
    fault = ClockSkew(context_on(cluster, ClockSkew))
    assert fault.aim() is None
    with pytest.raises(ClusterError, match="without a victim"):
        fault.inject()


class Stamping:
    """A node that answers Produce."""

    def __init__(self, error_code: int, stamp_ms: int) -> None:
        self.result = SimpleNamespace(error_code=error_code, log_append_time_ms=stamp_ms)
        self.asked: list[Any] = []

    def __call__(self, address: str, timeout_s: float) -> Stamping:
        """A connection."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, response_class: Any, version: int) -> Any:
        """The result, for a request that can be sent."""
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="test")
        assert request.encode(header=True, framed=True)
        self.asked.append(request)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[self.result])])


@pytest.mark.parametrize(
    ("error_code", "stamp_ms", "found"), [(0, 1_800_000_000_123, 1_800_000_000_123), (3, 5, None), (0, -1, None)]
)
def test_a_stamp_is_what_the_node_says(
    monkeypatch: pytest.MonkeyPatch, error_code: int, stamp_ms: int, found: int | None
) -> None:
    """None where it refuses, or keeps the time of the client."""
    node = Stamping(error_code, stamp_ms)
    monkeypatch.setattr(clocks, "NodeConnection", node)
    assert append("h:1", "topic") == found
    (request,) = node.asked
    assert request.topic_data[0].name == "topic"
    assert len(request.topic_data[0].partition_data[0].records) > 61


def test_a_node_that_does_not_answer_gives_no_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is down."""

    def refuse(address: str, timeout_s: float) -> None:
        raise WireError(f"{address} refuses connections")

    monkeypatch.setattr(clocks, "NodeConnection", refuse)
    assert append("h:1", "topic") is None


def test_a_clock_is_read_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right at first; what was set stays when the node is started again."""
    monkeypatch.setattr(clock_module, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(sem_open=semaphore(tmp_path)))
    clock = NodeClock(Path("/lib/fake.so"), tmp_path / "clock", "local-1")
    clock.prepare()
    assert (tmp_path / "clock").read_text() == "+0.000\n"
    clock.set(-60)
    assert (tmp_path / "clock").read_text() == "-60.000\n"
    clock.shared[1].write_bytes(b"held")
    clock.prepare()
    assert (tmp_path / "clock").read_text() == "-60.000\n"
    assert {path.name for path in tmp_path.iterdir()} == {"clock", "sem.local-1", "local-1"}
    assert not any(clock.shared[1].read_bytes())
    environment = clock.environment({"LD_PRELOAD": "/lib/other.so"})
    assert environment["LD_PRELOAD"] == "/lib/fake.so /lib/other.so"
    assert environment["FAKETIME_TIMESTAMP_FILE"] == str(tmp_path / "clock")
    assert environment["FAKETIME_SHARED"] == "/local-1 /local-1"
    assert clock.environment({})["LD_PRELOAD"] == "/lib/fake.so"


def semaphore(place: Path) -> Any:
    """What makes one: only where there is none."""

    def make(name: bytes, *_: int) -> int:
        path = place / f"sem.{name.decode()[1:]}"
        if path.exists():
            return 0
        path.write_bytes(b"1")
        return 1

    return make


def test_without_a_semaphore_there_is_no_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the system's."""
    monkeypatch.setattr(clock_module, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(sem_open=lambda *_: 0))
    monkeypatch.setattr(ctypes, "get_errno", lambda: 13)
    with pytest.raises(ClusterError, match="Permission denied"):
        NodeClock(Path("/lib/fake.so"), tmp_path / "clock", "local-1").prepare()


@pytest.mark.skipif(find_library() is None, reason="libfaketime is not installed")
def test_the_real_library_leaves_nothing_behind_and_goes_by_the_file(tmp_path: Path) -> None:
    """Although its process is killed: it uses what was made for it."""
    library = find_library()
    assert library
    clock = NodeClock(library, tmp_path / "clock", unique("tidegauge-test"))
    before = set(clock_module.SHARED_MEMORY.iterdir())
    try:
        clock.prepare()
        clock.set(-1_000_000)
        script = "import os, signal, time; print(time.time(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        ran = subprocess.run(
            [sys.executable, "-c", script], env=clock.environment({}), capture_output=True, text=True, check=False
        )
        assert float(ran.stdout) < time.time() - 900_000, ran.stderr
        assert set(clock_module.SHARED_MEMORY.iterdir()) - before == set(clock.shared)
    finally:
        for path in clock.shared:
            path.unlink(missing_ok=True)


def test_what_is_missing_for_clocks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library, or the system that it is for."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(clock_module, "find_library", lambda: Path("/lib/fake.so"))
    assert why_no_clocks() is None
    monkeypatch.setattr(clock_module, "find_library", lambda: None)
    missing = why_no_clocks()
    assert missing
    assert "faketime" in missing[1]
    monkeypatch.setattr(sys, "platform", "darwin")
    missing = why_no_clocks()
    assert missing
    assert "Linux" in missing[0]
