"""What all clusters share."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters import base, waiting, wire
from harness.clusters.base import LOG_TAIL_LINES, ODD_AT_MOST_S, Cluster
from harness.clusters.docker import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.failed_start import KEPT_STARTS
from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability, Node, NodeState, new_uuid
from harness.clusters.target import ReadyCheck, ReadyKind, Target, load_target
from harness.clusters.waiting import wait_until
from harness.clusters.wire import Metadata, WireError
from harness.foundation.config import parse
from harness.foundation.errors import CannotHere, ClusterError, NodeDied, UsageError
from harness.foundation.security import Security

BOTH = {1: "h:1", 2: "h:2"}


class Paper(Cluster):
    """A cluster that exists on paper only."""

    kind = "paper"

    def __init__(self, ready: ReadyKind = "kafka", timeout_s: float = 5) -> None:
        super().__init__("product", "1.0", ReadyCheck(ready, timeout_s))
        self.nodes = (Node(1, "h:1"), Node(2, "h:2"))
        self.dead: set[int] = set()
        self.actions: list[str] = []

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Two of them."""
        return frozenset({Capability.PAUSE, Capability.KILL})

    def _bring_up(self) -> None:
        self.actions.append("up")

    def stop_node(self, node_id: int) -> None:
        """Written down."""
        self.actions.append(f"stop {node_id}")

    def kill(self, node_id: int) -> None:
        """Written down."""

    def pause(self, node_id: int) -> None:
        """Written down."""

    def resume(self, node_id: int) -> None:
        """Written down."""

    def start_node(self, node_id: int) -> None:
        """Written down."""
        self.actions.append(f"start {node_id}")

    def state(self, node_id: int) -> NodeState:
        """Dead when told so."""
        return NodeState.DEAD if node_id in self.dead else NodeState.RUNNING

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """One line."""
        return [f"last words of {node_id}"]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time that passes only by sleeping."""
    naps: list[float] = []
    passing = SimpleNamespace(monotonic=lambda: sum(naps), sleep=naps.append)
    for module in (base, waiting):
        monkeypatch.setattr(module, "time", passing)
    return naps


def answering(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Metadata]) -> None:
    """Nodes that answer as told."""
    monkeypatch.setattr(wire, "ask_metadata", lambda address, timeout_s: answer(address))


def test_waiting_ends_when_the_condition_holds(slept: list[float]) -> None:
    """No longer than needed, and not at all when it holds already."""
    wait_until(lambda: len(slept) == 3, 10, "three naps", every_s=0.5)
    assert slept == [0.5, 0.5, 0.5]
    wait_until(lambda: True, 0, "nothing to wait for")
    assert len(slept) == 3


def test_waiting_ends_with_the_time(slept: list[float]) -> None:
    """The message is the error, and the condition was looked at once more at the end."""
    looks: list[float] = []

    def never() -> bool:
        looks.append(sum(slept))
        return False

    with pytest.raises(TimeoutError, match=r"^the moon$"):
        wait_until(never, 2, "the moon", every_s=1)
    assert looks == [0, 1, 2, 3]


def test_errors_of_the_condition_are_not_swallowed(slept: list[float]) -> None:
    """A condition that fails ends the wait."""
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: bool(1 // 0), 2, "x")


def test_ids_differ() -> None:
    """Every cluster has an id and a name of its own."""
    assert len({new_uuid() for _ in range(100)}) == 100
    assert Paper().name != Paper().name


def test_nodes_are_found_by_number() -> None:
    """A number that no node has is an error that lists those that exist."""
    cluster = Paper()
    assert cluster.node(2) == cluster.nodes[1]
    with pytest.raises(UsageError, match=r"no node 7 in paper-\w+: its nodes are 1, 2"):
        cluster.node(7)


def test_a_cluster_describes_itself() -> None:
    """As plain data, with everything other programs need."""
    cluster = Paper()
    described = cluster.describe().as_json()
    assert described["bootstrap"] == "h:1,h:2"
    assert described["capabilities"] == ["kill", "pause"]
    assert described["nodes"][0] == {"id": 1, "address": "h:1", "listeners": {}}
    assert described["security"] == "PLAINTEXT"
    assert described["name"] == cluster.name


def test_what_is_not_up_has_no_guard() -> None:
    """Nothing can be made before start; stopping what never started does nothing."""
    cluster = Paper()
    with pytest.raises(ClusterError, match="is not up: call start"):
        _ = cluster.guard
    cluster.stop()


def test_who_is_held_down_is_not_started() -> None:
    """Until all who hold it let it up; others are, and letting up twice does no harm."""
    cluster = Paper()
    cluster.hold_down(1, "a")
    cluster.hold_down(1, "b")
    assert cluster.is_held_down(1, but="a")
    cluster.let_up(1, "a")
    cluster.let_up(1, "a")
    assert cluster.is_held_down(1)
    assert not cluster.is_held_down(1, but="b")
    cluster.start_unless_held(1)
    cluster.start_unless_held(2)
    assert cluster.actions == ["start 2"]
    cluster.let_up(1, "b")
    cluster.let_up(2, "never held")
    cluster.start_unless_held(1)
    assert cluster.actions == ["start 2", "start 1"]


def test_nobody_takes_hold_of_a_node_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would come up after the holder has killed it."""
    cluster = Paper()
    held = threading.Event()

    def hold() -> None:
        cluster.hold_down(1, "a")
        held.set()

    holder = threading.Thread(target=hold)

    def start_node(_: Paper, node_id: int) -> None:
        holder.start()
        assert not held.wait(0.2)
        cluster.actions.append(f"start {node_id}")

    monkeypatch.setattr(Paper, "start_node", start_node)
    cluster.start_unless_held(1)
    holder.join()
    assert cluster.actions == ["start 1"]
    assert cluster.is_held_down(1)


def test_a_full_disk_is_found_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers on a full disk die in seconds and say little; we say it first, and nothing is started."""
    cluster = Paper()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=17 * 2**20))
    with pytest.raises(CannotHere, match=r"disk is full: 17 MiB are free .* needs 300: .*TIDEGAUGE_HOME"):
        cluster.start()
    assert cluster.actions == []


@pytest.mark.parametrize(
    ("kind", "metadata", "why"),
    [
        ("kafka", Metadata("id", 1, BOTH), ""),
        ("kafka", Metadata("id", 1, {1: "h:1"}), "its Metadata lists 1 of 2 brokers"),
        ("kafka", Metadata("id", -1, BOTH), "it knows of no controller"),
        ("answers", Metadata(None, -1, {}), ""),
    ],
)
def test_a_node_is_ready_when_its_target_says_so(
    monkeypatch: pytest.MonkeyPatch, kind: ReadyKind, metadata: Metadata, why: str
) -> None:
    """`kafka` wants every broker and a controller, `answers` any answer."""
    answering(monkeypatch, lambda _: metadata)
    cluster = Paper(kind)
    assert cluster._why_not_ready(cluster.nodes[0]) == why


def test_waiting_until_ready(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    """All nodes have to be ready, each with its own answer; the id they report is kept."""

    def answer(address: str) -> Metadata:
        if address == "h:2" and len(slept) < 3:
            raise WireError("not yet")
        return Metadata("the-id", 1, BOTH)

    answering(monkeypatch, answer)
    cluster = Paper()
    cluster.wait_until_ready()
    assert cluster.cluster_id == "the-id"
    assert len(slept) == 3


def test_a_cluster_that_is_never_ready(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    """The error names the first node that was not ready, why, and its last log lines."""

    def answer(address: str) -> Metadata:
        if address == "h:2":
            raise WireError("h:2 refuses connections")
        return Metadata("id", 1, BOTH)

    answering(monkeypatch, answer)
    with pytest.raises(ClusterError, match=r"not ready after 5 s \(node 2: h:2 refuses connections\)") as caught:
        Paper().wait_until_ready()
    assert caught.value.log_tail == ("last words of 2",)


@pytest.mark.parametrize("odd", [Metadata("id", 1, {1: "h:1"}), Metadata("id", -1, BOTH)])
def test_nodes_that_answer_oddly_for_long_are_taken_as_they_are(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], odd: Metadata
) -> None:
    """More time would not change what they say; one that does not answer at all is waited for as ever."""
    cluster = Paper(timeout_s=100)
    answering(monkeypatch, lambda address: odd if address == "h:1" else Metadata("id", 1, BOTH))
    cluster.wait_until_ready()
    assert ODD_AT_MOST_S <= sum(slept) < ODD_AT_MOST_S + 1

    def silent(address: str) -> Metadata:
        if address == "h:2":
            raise WireError("h:2 refuses connections")
        return odd

    answering(monkeypatch, silent)
    with pytest.raises(ClusterError, match="not ready after 100 s"):
        cluster.wait_until_ready()


def test_a_node_that_dies_ends_the_wait(slept: list[float]) -> None:
    """With its last log lines, at once."""
    cluster = Paper()
    cluster.dead = {2}
    with pytest.raises(NodeDied, match=r"node 2 of .* died during start-up") as caught:
        cluster.wait_until_ready()
    assert caught.value.log_tail == ("last words of 2",)
    assert slept == []


def test_a_stranger_on_our_ports_is_refused(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    """Where we gave the id, another one, or none, means another cluster: the wait ends at once."""
    cluster = Paper()
    cluster._id_is_ours = True
    ours = cluster.cluster_id
    answering(monkeypatch, lambda _: Metadata(ours, 1, BOTH))
    cluster.wait_until_ready()
    assert cluster.cluster_id == ours
    for found in ("another", ours.lower() + "x", None):
        answers = {"h:1": Metadata(ours, 1, BOTH), "h:2": Metadata(found, 1, BOTH)}
        answering(monkeypatch, answers.__getitem__)
        said = rf"another cluster answers on our ports \(id {found or ''}, ours is {ours}\)"
        with pytest.raises(ClusterError, match=said):
            cluster.wait_until_ready()
        assert cluster.cluster_id == ours
    assert slept == []


def test_an_id_that_is_not_ours_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that takes no id from us has its own, and that one is the cluster's."""
    cluster = Paper()
    assert not cluster._id_is_ours
    answering(monkeypatch, lambda _: Metadata("its-own", 1, BOTH))
    cluster.wait_until_ready()
    assert cluster.cluster_id == "its-own"
    assert cluster.describe().cluster_id == "its-own"


@pytest.mark.parametrize(
    ("process", "ours"),
    [
        ({"command": ["x"]}, False),
        ({"command": ["x", "--id={cluster_id}"]}, True),
        ({"command": ["x"], "env": {"ID": "{cluster_id}"}}, True),
        ({"command": ["x"], "files": {"conf": "id={cluster_id}"}}, True),
        ({"command": ["x"], "files": {"conf": "id={node_id}"}}, False),
    ],
)
def test_who_gives_the_id(process: dict[str, Any], ours: bool) -> None:  # noqa: FBT001
    """The id is ours where the target hands it to its nodes, as a process or in a container."""
    local = parse(Target, {"name": "thing", "process": process}, "thing.toml")
    assert LocalCluster(local)._id_is_ours is ours
    container = parse(Target, {"name": "thing", "container": {"image": "i", **process}}, "thing.toml")
    assert DockerCluster(container, image="i")._id_is_ours is ours
    assert ExternalCluster(("h:1",), Security())._id_is_ours is False


def test_the_id_of_shipped_clusters_is_ours() -> None:
    """Of processes, and of the containers of our compose file."""
    assert LocalCluster(load_target("kafka"))._id_is_ours
    assert DockerCluster(load_target("kafka"), image="apache/kafka:4.3.1")._id_is_ours


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_CACHE_HOME", "TIDEGAUGE_HOME"])
@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b", "a\nb", "ä", "☃"])
def test_a_path_that_brokers_cannot_be_told_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, name: str
) -> None:
    """Settings are lists with commas, class paths have colons: said before anything is made."""
    cluster = Paper()
    monkeypatch.setenv(variable, str(tmp_path / name))
    with pytest.raises(UsageError, match=r"holds letters that broker settings and class paths cannot.*TIDEGAUGE_HOME"):
        cluster.start()
    assert cluster.actions == []
    assert list(tmp_path.iterdir()) == []


def test_other_letters_are_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blanks and signs among them."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "a b-c_d.e+f'g$h"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**40))
    Paper().check_place()


class Reluctant:
    """A guard that cannot undo."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def release(self) -> None:
        """It fails."""
        raise ClusterError("not everything could be removed (netns a: busy)", "mend it")


@pytest.mark.parametrize("error", [NodeDied("it died", "see", ("last words",)), KeyboardInterrupt(), OSError("odd")])
def test_a_failing_undo_does_not_hide_why_the_start_failed(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The first error is raised, and what could not be undone is a note to it."""
    cluster = Paper()

    def fail() -> None:
        raise error

    monkeypatch.setattr(base, "Guard", Reluctant)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**40))
    monkeypatch.setattr(cluster, "_bring_up", fail)
    with pytest.raises(type(error)) as caught:
        cluster.start()
    assert caught.value is error
    assert error.__notes__[-1] == "not everything could be removed (netns a: busy): mend it"
    with pytest.raises(ClusterError, match="is not up"):
        _ = cluster.guard


def test_nodes_that_are_ready_are_given_time_to_settle(slept: list[float]) -> None:
    """As long as the target says, unless one of them dies."""
    cluster = Paper()
    cluster._ready = ReadyCheck("kafka", 5, settle_s=2)
    cluster._settle()
    assert sum(slept) == 2
    cluster.dead = {2}
    with pytest.raises(NodeDied, match="node 2"):
        cluster._settle()


def test_a_start_that_fails_keeps_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of what goes with the cluster; the error shows the last lines of each node and where the rest is."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path))
    for _ in range(KEPT_STARTS + 2):
        cluster = Paper()
        cluster.dead = {1}
        with pytest.raises(NodeDied) as caught:
            cluster.start()
    assert caught.value.log_tail[:3] == ("last words of 1", "node 2:", "last words of 2")
    kept = Path(caught.value.log_tail[-1].partition(" kept in ")[2].rstrip("."))
    assert (kept / "node-2.log").read_text() == "last words of 2\n"
    assert len(list(kept.parent.iterdir())) == KEPT_STARTS
    assert not cluster.directory.exists()
