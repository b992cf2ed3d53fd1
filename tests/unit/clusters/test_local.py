"""Local nodes: how their processes end, all of them, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from harness.clusters.base import Node, NodeState
from harness.clusters.local import LocalCluster
from harness.clusters.target import load_target
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
