"""Faults of processes, on a cluster that exists on paper only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.foundation.errors import ClusterError
from nemesis.base import Fault
from nemesis.on_nodes import OnNodes
from nemesis.process import FAULTS, Kill, KillAll, Pause, PauseAll, RestartStorm, RollingRestart, Stop
from tests.support.fake_cluster import Paper, context_on, paper_cluster, stepped

T0 = "t", 0
ONE_NODE = [Kill, Stop, Pause]
TAKEN_OVER = PartitionView(3, 5, (1, 2, 3), (2, 3))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    return paper_cluster(monkeypatch)


def begun(fault: Fault) -> str:
    """Aimed and injected; the sentence of the aim."""
    aim = fault.aim()
    assert aim is not None
    fault.inject()
    return aim.sentence


@pytest.mark.parametrize(
    ("kind", "done", "back"),
    [(Kill, "kill", "start"), (Stop, "stop", "start"), (Pause, "pause", "resume")],
    ids=["kill", "stop", "pause"],
)
def test_a_leader_that_is_gone_is_proven_by_its_heir(cluster: Paper, kind: type[OnNodes], done: str, back: str) -> None:
    """It does not answer, and another one leads in a higher epoch."""
    fault = kind(context_on(cluster, kind))
    assert begun(fault).endswith(" of node 1 (leader of t-0)")
    assert cluster.done == [(done, 1)]
    assert fault.proof() is None
    cluster.views[T0] = PartitionView(-1, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None
    cluster.views[T0] = TAKEN_OVER
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        f"node 1 does not answer while 2 of 3 do, leader of t-0: 1 → 3 (epoch 4 → 5), 0.0 s after the {done}"
    )
    assert (bite.node, bite.topic, bite.partition, bite.leader, bite.leader_epoch) == (1, "t", 0, 3, 5)
    assert fault.healed()
    fault.undo()
    fault.undo()
    assert cluster.done[1:] == [(back, 1)]
    assert fault.healed() == ""


@pytest.mark.parametrize("kind", ONE_NODE)
def test_a_follower_that_is_gone_does_not_answer(cluster: Paper, kind: type[OnNodes]) -> None:
    """It led nothing, so nobody takes over; the event is about the follower and not about the leader."""
    fault = kind(context_on(cluster, kind, "follower"))
    aim = fault.aim()
    assert aim is not None
    assert aim.victim is None
    assert aim.node in (2, 3)
    fault.inject()
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith(f"node {aim.node} does not answer while 2 of 3 do, 0.0 s after")
    assert (bite.node, bite.leader) == (aim.node, None)


def test_all_that_a_node_led_has_to_be_taken_over(cluster: Paper) -> None:
    """But not what nobody could take over."""
    cluster.views["t", 1] = PartitionView(1, 2, (1, 2), (1, 2))
    cluster.views["t", 2] = PartitionView(1, 2, (1,), (1,))
    fault = Kill(context_on(cluster, Kill, seed=1))
    begun(fault)
    cluster.views[T0] = TAKEN_OVER
    assert fault.proof() is None
    cluster.views["t", 1] = PartitionView(2, 3, (1, 2), (2,))
    bite = fault.proof()
    assert bite is not None
    assert "leader of t-0: 1 → 3 (epoch 4 → 5) and 1 more, " in bite.sentence
    assert fault.chosen.victim is not None
    assert bite.partition == fault.chosen.victim.partition


@pytest.mark.parametrize("kind", ONE_NODE)
def test_the_last_majority_is_spared(cluster: Paper, kind: type[OnNodes]) -> None:
    """Without it nobody would elect another leader."""
    cluster.dead = {3}
    assert kind(context_on(cluster, kind)).aim() is None


@pytest.mark.parametrize("kind", ONE_NODE)
def test_a_node_that_somebody_else_killed_is_not_ours(cluster: Paper, kind: type[OnNodes]) -> None:
    """Between the aim and the injection: it is neither killed nor started."""
    fault = kind(context_on(cluster, kind))
    fault.aim()
    cluster.dead = {1}
    fault.inject()
    cluster.views[T0] = TAKEN_OVER
    assert fault.proof() is None
    fault.undo()
    assert cluster.done == []
    assert fault.healed() == ""


def test_a_node_that_somebody_else_started_is_fine(cluster: Paper) -> None:
    """Undo has nothing to do."""
    fault = Kill(context_on(cluster, Kill))
    begun(fault)
    cluster.dead.clear()
    assert fault.proof() is None
    fault.undo()
    assert cluster.done == [("kill", 1)]


def test_a_paused_node_that_somebody_else_killed_is_not_resumed(cluster: Paper) -> None:
    """Nor started: that is up to them."""
    fault = Pause(context_on(cluster, Pause))
    begun(fault)
    cluster.kill(1)
    fault.undo()
    assert cluster.done == [("pause", 1), ("kill", 1)]
    assert fault.healed() == ""


def test_a_race_with_somebody_else_is_no_error(cluster: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the node is in the wanted state afterwards."""
    fault = Kill(context_on(cluster, Kill))
    begun(fault)

    def start(node: int) -> None:
        cluster.dead.remove(node)
        raise ClusterError("runs already", "none")

    monkeypatch.setattr(cluster, "start_node", start)
    fault.undo()
    assert fault.healed() == ""


def test_what_cannot_be_done_is_an_error(cluster: Paper) -> None:
    """Half done, it is undone."""
    fault = KillAll(context_on(cluster, KillAll))
    fault.aim()
    cluster.stubborn = {2}
    with pytest.raises(ClusterError, match="cannot kill 2"):
        fault.inject()
    cluster.stubborn = set()
    fault.undo()
    assert cluster.done == [("kill", 1), ("start", 1)]


def test_one_node_that_does_not_start_keeps_no_other_down(cluster: Paper) -> None:
    """The error comes afterwards, and the undo can be tried again."""
    fault = KillAll(context_on(cluster, KillAll))
    begun(fault)
    cluster.stubborn = {1}
    with pytest.raises(ClusterError, match="cannot start 1"):
        fault.undo()
    assert cluster.dead == {1}
    assert fault.healed() == "node 1 is dead"
    cluster.stubborn = set()
    fault.undo()
    assert fault.healed() == ""


@pytest.mark.parametrize(("kind", "done"), [(KillAll, "kill"), (PauseAll, "pause")])
def test_all_nodes_at_once(cluster: Paper, kind: type[OnNodes], done: str) -> None:
    """It has bitten when nobody answers."""
    fault = kind(context_on(cluster, kind))
    assert begun(fault).endswith("nodes 1, 2, 3")
    assert cluster.done == [(done, node) for node in (1, 2, 3)]
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == f"none of 3 nodes answers, 0.0 s after the {done} of 3"
    fault.undo()
    assert not cluster.dead | cluster.paused
    assert fault.proof() is None


def test_all_nodes_but_those_that_were_dead(cluster: Paper) -> None:
    """They stay dead afterwards; with all of them dead there is nothing to aim at."""
    cluster.dead = {2}
    fault = KillAll(context_on(cluster, KillAll))
    begun(fault)
    fault.undo()
    assert cluster.dead == {2}
    cluster.dead = {1, 2, 3}
    assert KillAll(context_on(cluster, KillAll)).aim() is None


def test_a_fault_without_a_victim_is_not_injected(cluster: Paper) -> None:
    """Aim comes first."""
    with pytest.raises(ClusterError, match="call aim"):
        Kill(context_on(cluster, Kill)).inject()


def test_a_rolling_restart_goes_on_when_all_is_well(cluster: Paper) -> None:
    """Node after node, each stopped and started; no further one while a replica is out of sync."""
    fault = RollingRestart(context_on(cluster, RollingRestart))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "restart of the nodes 1, 2, 3, one after the other"
    fault.step()
    cluster.views[T0] = TAKEN_OVER
    fault.step()
    assert cluster.done == [("stop", 1), ("start", 1)]
    assert fault.proof() is None
    cluster.views[T0] = PartitionView(3, 5, (1, 2, 3), (1, 2, 3))
    fault.step()
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        "node 1 was gone and all replicas were in sync again 0.0 s later; 2 of 3 were stopped by then"
    )
    fault.step()
    fault.step()
    assert cluster.done == [(what, node) for node in (1, 2, 3) for what in ("stop", "start")]


def test_a_rolling_restart_waits_for_others_to_be_done(cluster: Paper) -> None:
    """A node is down because of another fault."""
    cluster.dead = {2}
    fault = RollingRestart(context_on(cluster, RollingRestart))
    begun(fault)
    stepped(fault)
    fault.undo()
    assert cluster.done == []
    assert cluster.dead == {2}


def test_a_rolling_restart_leaves_nobody_down(cluster: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a start failed."""
    fault = RollingRestart(context_on(cluster, RollingRestart))
    stop = cluster.stop_node

    def stop_and_stick(node: int) -> None:
        stop(node)
        cluster.stubborn = {node}

    monkeypatch.setattr(cluster, "stop_node", stop_and_stick)
    fault.inject()
    stepped(fault)
    with pytest.raises(ClusterError, match="cannot start 1"):
        fault.proof()
    assert fault.healed() == "node 1 is dead"
    cluster.stubborn = set()
    fault.undo()
    assert fault.healed() == ""


def test_a_storm_kills_and_starts(cluster: Paper) -> None:
    """Each step one node, at random; two make a storm."""
    fault = RestartStorm(context_on(cluster, RestartStorm))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "SIGKILL and start of a random node every 2 s"
    fault.step()
    assert fault.proof() is None
    fault.step()
    bite = fault.proof()
    assert bite is not None
    killed = [node for what, node in cluster.done if what == "kill"]
    assert bite.sentence == f"2 times a node was killed and did not answer ({killed[0]}, {killed[1]})"
    for _ in range(20):
        fault.step()
    assert {node for what, node in cluster.done if what == "kill"} == {1, 2, 3}
    assert [what for what, _ in cluster.done] == ["kill", "start"] * 22
    fault.undo()
    assert fault.healed() == ""


def test_a_storm_spares_the_last_majority(cluster: Paper) -> None:
    """A node that is still starting does not answer and counts as down."""
    fault = RestartStorm(context_on(cluster, RestartStorm))
    fault.aim()
    cluster.paused = {3}
    fault.step()
    assert cluster.done == []
    assert RestartStorm(context_on(cluster, RestartStorm)).aim() is None


def test_a_storm_leaves_nobody_down(cluster: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a start failed; the error is told."""
    fault = RestartStorm(context_on(cluster, RestartStorm, period=1000.0))
    fault.aim()
    kill = cluster.kill

    def kill_and_stick(node: int) -> None:
        kill(node)
        cluster.stubborn = {node}

    monkeypatch.setattr(cluster, "kill", kill_and_stick)
    fault.inject()
    stepped(fault)
    cluster.stubborn = set()
    with pytest.raises(ClusterError, match="cannot start"):
        fault.undo()
    assert not cluster.dead
    fault.undo()


@pytest.mark.parametrize("kind", [Kill, Stop, Pause])
def test_topics_that_are_no_longer_in_use_prove_it_all_the_same(cluster: Paper, kind: type[OnNodes]) -> None:
    """The load went on to another topic after the aim."""
    topics = ["t"]
    fault = kind(replace(context_on(cluster, kind), topics=lambda: topics))
    begun(fault)
    topics[:] = ["u"]
    cluster.views[T0] = TAKEN_OVER
    bite = fault.proof()
    assert bite is not None
    assert (bite.topic, bite.leader) == ("t", TAKEN_OVER.leader)


@pytest.mark.parametrize("kind", [Kill, Stop, Pause])
def test_what_others_felled_is_neither_chosen_nor_counted(cluster: Paper, kind: type[OnNodes]) -> None:
    """A node that is cut off still answers us."""
    assert kind(context_on(cluster, kind)).out_of_service == frozenset()
    for target in ("leader", "random"):
        where = replace(context_on(cluster, kind, target), out_of_service=lambda: {2})
        assert kind(where).aim() is None
    fault = kind(context_on(cluster, kind))
    begun(fault)
    assert fault.out_of_service == {1}


def test_a_storm_goes_round_what_others_felled(cluster: Paper) -> None:
    """Two of three are felled, then: the storm waits."""
    fault = RestartStorm(replace(context_on(cluster, RestartStorm), out_of_service=lambda: {3}))
    assert fault.aim() is None
    fault.step()
    assert cluster.done == []
    fault = RestartStorm(context_on(cluster, RestartStorm))
    fault.step()
    assert fault.out_of_service == {cluster.done[-1][1]}


def test_the_family() -> None:
    """Their names, and which of them let nothing through."""
    names = ["kill", "kill-all", "rolling-restart", "pause", "pause-all", "restart-storm", "stop"]
    assert [fault.name for fault in FAULTS] == names
    assert [fault.name for fault in FAULTS if fault.blocks] == ["kill-all", "pause-all", "restart-storm"]
    assert all(fault.tame and fault.changes_leaders for fault in FAULTS)
