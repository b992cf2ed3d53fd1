"""Which runs share a cluster, and which get a fresh one."""

from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.node import Capability, Node, NodeState
from harness.clusters.spec import ClusterSpec
from harness.foundation.errors import ClusterError
from harness.suite import health, resource_pool
from harness.suite.feasibility import PlannedCase
from harness.suite.resource_pool import ResourcePool
from tests.support.scripted_suites import STREAM, NoView, suite

PARTITION = frozenset({Capability.PARTITION})
DISK = frozenset({Capability.DISK})
LOCAL, OLD = ClusterSpec(), ClusterSpec(version="3.9.2")


class PaperCluster:
    """Can do what it was equipped with."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec, self.capabilities, self.progress = spec, frozenset({Capability.KILL}), None
        self.is_up, self.fails = False, False

    def equip(self, needs: Collection[Capability]) -> None:
        """All of it."""
        self.capabilities |= frozenset(needs)

    def start(self) -> None:
        """Unless it fails."""
        if self.fails:
            raise ClusterError("it did not start", "try again")
        self.is_up = True

    def stop(self) -> None:
        """Down."""
        self.is_up = False


class Made:
    """All clusters that were made, and what is wrong with them."""

    def __init__(self) -> None:
        self.clusters: list[PaperCluster] = []
        self.trouble = ""
        self.fails = False

    def make(self, spec: ClusterSpec, _: object) -> PaperCluster:
        """One more."""
        self.clusters.append(PaperCluster(spec))
        self.clusters[-1].fails = self.fails
        return self.clusters[-1]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Clusters on paper, and no Spark."""
    found = Made()
    monkeypatch.setattr(resource_pool, "make_cluster", found.make)
    monkeypatch.setattr(resource_pool, "why_not_whole", lambda _: found.trouble)
    monkeypatch.setattr(ResourcePool, "session", lambda _: None)
    return found


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """Makes a case with these needs on such a cluster."""
    (case,) = suite(tmp_path, STREAM).cases
    return lambda spec=LOCAL, needs=frozenset(): PlannedCase(case, spec, needs)


def shared(made: Made, *steps: PlannedCase, upcoming: Sequence[PlannedCase] = ()) -> list[int]:
    """On the how-manieth cluster each of these runs."""
    found = []
    with closing(ResourcePool()) as kept:
        for step in steps:
            cluster: Any = kept.resources_for(step, [step, *upcoming], NoView()).cluster
            found.append(next(at for at, each in enumerate(made.clusters) if each is cluster))
            assert [each.is_up for each in made.clusters] == [each is cluster for each in made.clusters]
    assert not any(each.is_up for each in made.clusters)
    return found


def test_runs_that_ask_for_the_same_cluster_share_it(made: Made, plan: Any) -> None:
    """One that asks for another version gets a fresh one, and the old one ends."""
    assert shared(made, plan(), plan(), plan(OLD), plan(OLD), plan()) == [0, 0, 1, 1, 2]


def test_a_cluster_is_equipped_for_networks_of_what_is_to_come(made: Made, plan: Any) -> None:
    """And for nothing dear that it does not need yet."""
    later = [plan(needs=PARTITION | DISK), plan(OLD, needs=frozenset({Capability.SHAPE}))]
    assert shared(made, plan(), plan(needs=PARTITION), upcoming=later) == [0, 0]
    assert made.clusters[0].capabilities == {Capability.KILL, *PARTITION}


def test_what_a_cluster_was_not_equipped_with_needs_another(made: Made, plan: Any) -> None:
    """It cannot be had later."""
    assert shared(made, plan(), plan(needs=DISK), plan(needs=DISK)) == [0, 1, 1]


def test_a_cluster_that_is_not_whole_or_was_spoiled_is_replaced(made: Made, plan: Any) -> None:
    """Whatever was wrong with it is wrong with that one alone."""
    with closing(ResourcePool()) as kept:
        kept.resources_for(plan(), [], NoView())
        made.trouble = "node 2 is dead"
        kept.resources_for(plan(), [], NoView())
        made.trouble = ""
        kept.spoil("clocks were set")
        kept.resources_for(plan(), [], NoView())
        kept.renew("trouble")
        kept.resources_for(plan(), [], NoView())
        kept.resources_for(plan(), [], NoView())
        assert len(made.clusters) == 4


def test_one_that_does_not_start_is_forgotten(made: Made, plan: Any) -> None:
    """The next run makes another."""
    with closing(ResourcePool()) as kept:
        made.fails = True
        with pytest.raises(ClusterError):
            kept.resources_for(plan(), [], NoView())
        made.fails = False
        second: Any = kept.resources_for(plan(), [], NoView()).cluster
        assert second is made.clusters[1]


def test_somebody_elses_cluster_is_not_kept(made: Made, plan: Any) -> None:
    """Every run looks at it anew."""
    with closing(ResourcePool()) as kept:
        assert kept.resources_for(plan(ClusterSpec(kind="external", bootstrap=("a:1",))), [], NoView()).cluster is None


def test_a_cluster_is_waited_for_until_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not for ever."""
    monkeypatch.setattr(health, "TICK_S", 0)
    troubles = iter(["node 1 is dead", "the topic tg-1 is still there", ""])
    cluster: Any = SimpleNamespace()
    assert not health.why_not_whole(cluster, 60, lambda _: next(troubles))
    assert health.why_not_whole(cluster, 0, lambda _: "node 1 is dead") == "node 1 is dead"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, ""),
        ({"state": NodeState.PAUSED}, "node 1 is paused"),
        ({"held": True}, "node 1 is held down"),
        ({"brokers": 1}, "node 1 lists 1 of 2 brokers"),
        ({"topics": ["tg-12-x"]}, "the topic tg-12-x is still there"),
        ({"topics": ["__consumer_offsets"]}, "replicas of __consumer_offsets"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_said(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], said: str
) -> None:
    """The first thing: nodes, their view of each other, what is left, what is not in sync."""
    is_so = {"state": NodeState.RUNNING, "held": False, "brokers": 2, "topics": [], **wrong}
    nodes = tuple(Node(number, f"127.0.0.1:{number}") for number in (1, 2))
    cluster: Any = SimpleNamespace(
        nodes=nodes, state=lambda _: is_so["state"], is_held_down=lambda _: is_so["held"], security=None
    )
    brokers = dict.fromkeys(range(is_so["brokers"]))
    monkeypatch.setattr(health, "ask_metadata", lambda *_: SimpleNamespace(brokers=brokers))
    monkeypatch.setattr(health, "_topics", lambda _: is_so["topics"])
    monkeypatch.setattr(
        health, "observe", lambda *asked: SimpleNamespace(troubles=lambda: [f"replicas of {each}" for each in asked[1]])
    )
    assert health.trouble(cluster) == said
