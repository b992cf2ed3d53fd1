"""Local nodes: how their processes end, all of them, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import psutil
import pytest

from harness.clusters.local import LocalCluster
from harness.clusters.node import OURS, Capability, Node, NodeState
from harness.clusters.target import Target, load_target
from harness.clusters.template import NodePlan
from harness.foundation.config import parse
from harness.foundation.errors import CannotHere, UsageError
from tests.support import PATIENCE_S

NODE = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"], stdout=-1)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """One node, which has started a process of its own."""
    made = LocalCluster(load_target("kafka"))
    made.nodes = (Node(1, "h:1"),)
    with subprocess.Popen([sys.executable, "-c", NODE], stdout=subprocess.PIPE) as child:
        made._children[1] = child
        yield made
        if child.poll() is None:
            made.kill(1)


def grandchild(cluster: LocalCluster) -> psutil.Process:
    """What the node started."""
    out = cluster._children[1].stdout
    assert out
    return psutil.Process(int(out.readline()))


def is_alive(process: psutil.Process) -> bool:
    """Whether it does anything any more."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_kill_ends_with_the_last_process(cluster: LocalCluster) -> None:
    """What still writes would write into data that somebody changes; twice does no harm."""
    below = grandchild(cluster)
    cluster.kill(1)
    assert not is_alive(below)
    assert cluster.state(1) is NodeState.DEAD
    cluster.kill(1)


def test_a_kill_waits_for_all(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the node's first process alone."""
    below = grandchild(cluster)
    looks: list[bool] = []
    gone = psutil.Process.is_running

    def is_running(process: psutil.Process) -> bool:
        if process.pid == below.pid:
            looks.append(True)
            return len(looks) < 3
        return bool(gone(process))

    monkeypatch.setattr(psutil.Process, "is_running", is_running)
    monkeypatch.setattr(psutil.Process, "status", lambda _: psutil.STATUS_RUNNING)
    cluster.kill(1)
    assert len(looks) == 3


def test_who_ends_meanwhile_is_no_error(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for processes and the signal."""
    below = grandchild(cluster)
    tree = LocalCluster._tree

    def and_then_it_ended(self: LocalCluster, child: subprocess.Popen[bytes]) -> list[psutil.Process]:
        found = tree(self, child)
        below.kill()
        child.wait(PATIENCE_S)
        return found

    monkeypatch.setattr(LocalCluster, "_tree", and_then_it_ended)
    cluster.kill(1)
    assert cluster.state(1) is NodeState.DEAD


def test_a_number_that_is_free_again_is_nobody_of_ours(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have it by now, and must not be killed for it."""
    cluster.kill(1)
    monkeypatch.setattr(psutil, "Process", lambda _: pytest.fail("looked for the process of a stranger"))
    assert cluster._tree(cluster._children[1]) == []
    cluster.kill(1)


ONE_PROCESS: dict[str, Any] = {"name": "thing", "process": {"command": ["thing"], "serves_all_nodes": True}}


@pytest.mark.parametrize("capability", sorted(set(Capability) - OURS - {Capability.ADMIN, Capability.LOGS}))
def test_nodes_of_one_process_cannot_be_broken_alone(capability: Capability) -> None:
    """A fault that breaks single nodes is refused by name, and equipping for it changes nothing."""
    cluster = LocalCluster(parse(Target, ONE_PROCESS, "x"))
    missing = cluster.cannot(capability)
    assert missing
    assert f"all nodes of the target 'thing' are one process, and this fault breaks single nodes ({capability})" in (
        missing.what
    )
    cluster.equip({capability})
    assert cluster.capabilities == OURS | {Capability.ADMIN, Capability.LOGS}


def test_nodes_of_one_process_have_one_network() -> None:
    """Nothing lies between them that could be cut."""
    with pytest.raises(UsageError, match="one process, which has one network: leave --netns out"):
        LocalCluster(parse(Target, ONE_PROCESS, "x"), netns=True)


def test_nodes_of_one_process_live_and_end_together(cluster: LocalCluster) -> None:
    """Each is as the process is, and none of them can be killed alone."""
    cluster._process = cluster._process.model_copy(update={"serves_all_nodes": True})
    cluster.nodes = (Node(1, "h:1"), Node(2, "h:2"))
    cluster._plans = [NodePlan(n, "h", "h", "h", {}) for n in (1, 2)]
    assert cluster.state(2) is NodeState.RUNNING
    for act in (cluster.kill, cluster.stop_node, cluster.pause, cluster.resume, cluster.start_node):
        with pytest.raises(CannotHere, match="all nodes are one process"):
            act(2)
    assert cluster.state(2) is NodeState.RUNNING
    cluster._process = cluster._process.model_copy(update={"serves_all_nodes": False})


@pytest.mark.parametrize(("together", "spawned"), [(False, [1, "2 s", 2, "2 s", 3]), (True, [1])])
def test_nodes_start_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
    together: bool,  # noqa: FBT001 - a parameter of the test
    spawned: list[int | str],
) -> None:
    """With the target's delay in between, where each is a process of its own."""
    process = {"command": ["thing"], "serves_all_nodes": together}
    cluster = LocalCluster(parse(Target, {"name": "thing", "start_delay_s": 2, "process": process}, "x"))
    done: list[int | str] = []

    def spawn(node_id: int) -> None:
        done.append(node_id)
        cluster._children[node_id] = cast("subprocess.Popen[bytes]", None)

    monkeypatch.setattr("harness.clusters.local.time.sleep", lambda delay_s: done.append(f"{delay_s:g} s"))
    monkeypatch.setattr(cluster, "_spawn", spawn)
    monkeypatch.setattr(cluster, "_write_files", lambda _: None)
    cluster._plans = [NodePlan(n, "h", "h", "h", {}) for n in (1, 2, 3)]
    cluster._start_nodes()
    assert done == spawned
