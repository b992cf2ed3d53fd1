"""Who plays which role, on a cluster that exists on paper only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.clusters.cluster_view import PartitionView
from nemesis.base import FaultContext
from nemesis.process import Kill
from nemesis.roles import NODE_ROLES, ROLES, ChosenNodes, choose, leaders, leaves_a_majority
from tests.support.fake_cluster import WHOLE, Answers, Paper, context_on, paper_answers, paper_cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    return paper_cluster(monkeypatch)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes."""
    return paper_answers(monkeypatch)


def context(cluster: Paper, target: str, seed: int = 0) -> FaultContext:
    """One in which this role is looked for."""
    return context_on(cluster, Kill, target, seed=seed)


def found(cluster: Paper, target: str, seed: int = 0) -> ChosenNodes | None:
    """Who plays it now."""
    where = context(cluster, target, seed)
    return choose(where, where.look())


def nodes(cluster: Paper, target: str) -> set[tuple[int, ...]]:
    """Everybody who may be chosen for it."""
    chosen = [found(cluster, target, seed) for seed in range(20)]
    return {one.nodes for one in chosen if one}


def test_leaders_and_followers(cluster: Paper) -> None:
    """Followers are in sync and alive."""
    assert nodes(cluster, "leader") == {(1,)}
    assert nodes(cluster, "follower") == {(2,), (3,)}
    assert nodes(cluster, "all-but-leader") == {(2, 3)}
    cluster.kill(2)
    assert nodes(cluster, "follower") == {(3,)}
    cluster.views["t", 0] = PartitionView(1, 4, (1, 2, 3), (1,))
    assert nodes(cluster, "follower") == nodes(cluster, "leader") == nodes(cluster, "all-but-leader") == set()


def test_a_dead_leader_leads_nothing(cluster: Paper) -> None:
    """Even if the others have not noticed."""
    cluster.views["t", 1] = PartitionView(2, 4, (1, 2, 3), (1, 2, 3))
    cluster.kill(1)
    assert nodes(cluster, "leader") == {(2,)}
    assert [victim.key for victim in leaders(context(cluster, "leader").look())] == [("t", 1)]


def test_the_controller(cluster: Paper, answers: Answers) -> None:
    """If it is known, and answers."""
    assert found(cluster, "controller") is None
    answers.quorum = {"h:1": (3, 5)}
    chosen = found(cluster, "controller")
    assert chosen is not None
    assert (chosen.node, chosen.called) == (3, "node 3 (controller)")
    cluster.kill(3)
    assert found(cluster, "controller") is None


@pytest.mark.parametrize("role", ["group-coordinator", "transaction-coordinator"])
def test_coordinators(cluster: Paper, answers: Answers, role: str) -> None:
    """Those at work come first; else whoever would be one; None until there is one."""
    assert found(cluster, role) is None
    answers.coordinator = 2
    assert nodes(cluster, role) == {(2,)}
    answers.busy = {"h:1", "h:3"}
    assert nodes(cluster, role) == {(1,), (3,)}
    chosen = found(cluster, role)
    assert chosen is not None
    assert chosen.called == f"node {chosen.node} ({role.replace('-', ' ')})"


def test_anybody_and_everybody(cluster: Paper) -> None:
    """Random ones answer; all are all."""
    cluster.pause(2)
    assert nodes(cluster, "random") == {(1,), (3,)}
    assert nodes(cluster, "all") == {(1, 2, 3)}
    cluster.dead = {1, 3}
    assert nodes(cluster, "random") == set()


def test_how_they_are_called(cluster: Paper) -> None:
    """With the partition by which they were chosen."""
    called = {role: one.called for role in ("leader", "all-but-leader", "all") if (one := found(cluster, role))}
    assert called == {
        "leader": "node 1 (leader of t-0)",
        "all-but-leader": "nodes 2, 3 (followers of t-0)",
        "all": "nodes 1, 2, 3",
    }
    everybody = found(cluster, "all")
    assert everybody is not None
    assert everybody.node is None


def test_a_majority_has_to_answer_beside_the_victims(cluster: Paper) -> None:
    """Two of three."""
    where = context(cluster, "leader")
    assert leaves_a_majority(where, where.look(), (1,))
    assert not leaves_a_majority(where, where.look(), (1, 2))
    cluster.kill(3)
    assert leaves_a_majority(where, where.look(), (3,))
    assert not leaves_a_majority(where, where.look(), (1,))


def test_what_others_felled_plays_no_role(cluster: Paper, answers: Answers) -> None:
    """Nor can it take over, nor does it count for a majority."""
    cluster.views["t", 1] = PartitionView(2, 4, (1, 2, 3), (1, 2, 3))
    answers.quorum, answers.busy = {"h:1": (1, 5)}, {"h:1", "h:3"}

    def chosen(target: str, *out_of_service: int) -> set[tuple[int, ...]]:
        fields = [replace(context(cluster, target, seed), out_of_service=lambda: out_of_service) for seed in range(20)]
        return {one.nodes for where in fields if (one := choose(where, where.look()))}

    assert chosen("leader", 1) == {(2,)}
    assert chosen("follower", 1) == {(3,)}
    assert chosen("leader", 2, 3) == set()
    assert chosen("random", 1) == {(2,), (3,)}
    assert chosen("random", 1, 2, 3) == set()
    assert chosen("controller", 1) == set()
    assert chosen("controller", 2) == {(1,)}
    assert chosen("group-coordinator", 1) == {(3,)}
    assert chosen("group-coordinator", 1, 3) == set()
    assert chosen("all", 1) == {(1, 2, 3)}
    where = context(cluster, "leader")
    assert leaves_a_majority(where, where.look(), (1,))
    assert leaves_a_majority(replace(where, out_of_service=lambda: {1}), where.look(), (1,))
    assert not leaves_a_majority(replace(where, out_of_service=lambda: {2}), where.look(), (1,))


def test_the_seed_decides(cluster: Paper) -> None:
    """And nothing else."""
    for partition in range(5):
        cluster.views["t", partition] = WHOLE
    for role in ("leader", "follower", "random"):
        assert [found(cluster, role, seed) for seed in range(9)] == [found(cluster, role, seed) for seed in range(9)]


def test_every_role_of_a_node_is_a_role() -> None:
    """By name."""
    assert set(NODE_ROLES) < set(ROLES)
