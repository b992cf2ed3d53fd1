"""Breaking and mending the networks of nodes, with a journal on paper and scripts that do not run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters import networked
from harness.clusters.local import LocalCluster
from harness.clusters.networked import NetworkedCluster
from harness.clusters.node import Capability
from harness.clusters.target import load_target
from harness.foundation.errors import ClusterError
from harness.foundation.namespaces import Namespace


class Guarded:
    """What was recorded, forgotten, run and mended, in this order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.broken = ""

    def record(self, **entry: str) -> None:
        """In place of the guard's."""
        self.events.append(f"record {entry['value']} {entry['script']} {entry['namespace']}")

    def forget(self, kind: str, value: str) -> None:
        """In place of the guard's."""
        self.events.append(f"forget {kind} {value}")

    def run(self, place: Namespace, script: str, token: str = "") -> str:
        """In place of `run_at` and of `mend`."""
        self.events.append(f"{'run' if token else 'mend'} {script} {place.namespace}")
        if script == self.broken:
            raise OSError("bad rule")
        return "said"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """Nothing really happens."""
    made = Guarded()
    monkeypatch.setattr(networked, "run_at", made.run)
    monkeypatch.setattr(networked, "mend", made.run)
    return made


@pytest.fixture
def cluster(seen: Guarded, monkeypatch: pytest.MonkeyPatch) -> NetworkedCluster:
    """A cluster whose nodes have networks called by their numbers."""
    made = LocalCluster(load_target("kafka"))
    monkeypatch.setattr(LocalCluster, "_place", lambda _, node_id: Namespace(f"/{node_id}"))
    guard: Any = seen
    made._guard = guard
    return made


def test_the_undo_is_in_the_journal_before_anything_breaks(cluster: NetworkedCluster, seen: Guarded) -> None:
    """And out of it after it was mended; mending again does nothing."""
    cluster.break_network(1, "tg1", "break", "undo")
    assert seen.events == ["record node-1/tg1 undo /1", "run break /1"]
    cluster.mend_network(1, "tg1")
    assert seen.events[2:] == ["mend undo /1", "forget network node-1/tg1"]
    cluster.mend_network(1, "tg1")
    assert len(seen.events) == 4


def test_what_failed_half_way_can_be_mended(cluster: NetworkedCluster, seen: Guarded) -> None:
    """The error names the reason, and the undo knows where to go."""
    seen.broken = "break"
    with pytest.raises(ClusterError, match=r"a script failed in a node's network \(bad rule\)"):
        cluster.break_network(2, "tg1", "break", "undo")
    cluster.mend_network(2, "tg1")
    assert seen.events[-2:] == ["mend undo /2", "forget network node-2/tg1"]


def test_what_could_not_be_mended_is_tried_again(cluster: NetworkedCluster, seen: Guarded) -> None:
    """It stays in the journal until it could."""
    cluster.break_network(1, "tg1", "break", "undo")
    seen.broken = "undo"
    with pytest.raises(ClusterError, match=r"network of node 1 could not be restored \(bad rule\)"):
        cluster.mend_network(1, "tg1")
    assert not any(event.startswith("forget") for event in seen.events)
    seen.broken = ""
    cluster.mend_network(1, "tg1")
    assert seen.events[-1] == "forget network node-1/tg1"


def test_it_is_mended_where_it_was_broken(
    cluster: NetworkedCluster, seen: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that was started again may have another network, which nobody broke."""
    cluster.break_network(1, "tg1", "break", "undo")
    monkeypatch.setattr(LocalCluster, "_place", lambda _, node_id: Namespace("/another"))
    cluster.mend_network(1, "tg1")
    assert "mend undo /1" in seen.events


def test_nodes_and_names_are_told_apart(cluster: NetworkedCluster, seen: Guarded) -> None:
    """Each goes alone."""
    for node_id, name in ((1, "a"), (2, "a"), (1, "b")):
        cluster.break_network(node_id, name, "break", f"undo-{node_id}{name}")
    cluster.mend_network(1, "a")
    assert [event for event in seen.events if event.startswith("mend")] == ["mend undo-1a /1"]


def test_what_a_script_says(cluster: NetworkedCluster) -> None:
    """Comes back."""
    assert cluster.inside(1, "look") == "said"


def test_nodes_without_networks_of_their_own_say_so() -> None:
    """Plain processes share this machine's, which is never touched."""
    cluster = LocalCluster(load_target("kafka"))
    cluster.nodes = (SimpleNamespace(id=1),)  # type: ignore[assignment]
    for call in (
        lambda: cluster.peer_address(1),
        lambda: cluster.inside(1, "x"),
        lambda: cluster.break_network(1, "a", "x", "y"),
    ):
        with pytest.raises(ClusterError, match=r"node 1 of .* has no network of its own"):
            call()
    cluster.mend_network(1, "a")


@pytest.mark.parametrize("needs", [{Capability.PARTITION}, {Capability.LOSS}, {Capability.SHAPE, Capability.KILL}])
def test_local_nodes_get_networks_when_a_fault_needs_them(
    monkeypatch: pytest.MonkeyPatch, needs: set[Capability]
) -> None:
    """And only then, and once."""
    made: list[str] = []

    def make(name: str) -> SimpleNamespace:
        made.append(name)
        return SimpleNamespace()

    monkeypatch.setattr("harness.clusters.local.Network", make)
    cluster = LocalCluster(load_target("kafka"))
    cluster.equip({Capability.KILL, Capability.TAP})
    assert made == []
    cluster.equip(needs)
    cluster.equip(needs)
    assert made == [cluster.name]
