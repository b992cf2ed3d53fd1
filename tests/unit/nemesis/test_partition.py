"""Partitions, on a cluster that exists on paper only: which packets pass, what proves it, and that nothing is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from harness.clusters.cluster_view import ClusterView, PartitionView
from harness.foundation.errors import ClusterError
from nemesis import base, cuts, partition, roles
from nemesis.base import Fault, FaultEvidence, RepeatingFault
from nemesis.cuts import Cut
from nemesis.iptables import taken, tear_down
from nemesis.partition import (
    FAULTS,
    Bridge,
    ClientCut,
    ControllerCut,
    Flapping,
    Isolate,
    Minority,
    OneWay,
    ReplicationCut,
    Ring,
)
from tests.support.fake_cluster import stepped
from tests.support.fake_network import PaperNetwork, Refused, Table, context_on

Make = Callable[..., PaperNetwork]
SIZES = (3, 4, 5, 7)
SEEDS = range(6)
QUORUM = (2, 9)


@pytest.fixture
def quorums() -> list[tuple[int, int] | None]:
    """What is said about the controllers, one after the other; the last one stays."""
    return [QUORUM]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, quorums: list[tuple[int, int] | None]) -> Make:
    """A cluster of some size: every partition has all nodes in sync, partition n is led by node n + 1."""

    def made(count: int = 3) -> PaperNetwork:
        cluster = PaperNetwork(count)
        ids = tuple(node.id for node in cluster.nodes)
        cluster.views = {("t", n): PartitionView(n + 1, 4, ids, ids) for n in range(count)}
        monkeypatch.setattr(base, "observe", cluster.look)
        return cluster

    def said(_: object) -> tuple[int, int] | None:
        return quorums.pop(0) if len(quorums) > 1 else quorums[0]

    monkeypatch.setattr(cuts, "quorum", said)
    monkeypatch.setattr(partition, "quorum", said)
    monkeypatch.setattr(roles, "quorum_leader", lambda cluster: (said(cluster) or (None,))[0])
    monkeypatch.setattr(roles, "_coordinator", lambda *_: 3)
    return made


def cut(kind: type[Cut], cluster: PaperNetwork, target: str = "", seed: int = 0) -> Cut:
    """One that was aimed and injected."""
    fault = kind(context_on(cluster, kind, target, seed))
    assert fault.aim() is not None
    fault.build()
    return fault


def drop_some(cluster: PaperNetwork, packets: int = 21) -> None:
    """As if so many packets had been dropped by each chain there is."""
    for table in cluster.tables.values():
        for chain in table.chains:
            table.taken[chain] = packets


def across(one: set[int], other: set[int]) -> set[tuple[int, int]]:
    """All pairs with a foot on each side."""
    return {*itertools.product(one, other), *itertools.product(other, one)}


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", [Isolate, OneWay, Flapping])
@pytest.mark.parametrize("target", Isolate.roles)
def test_a_node_is_cut_off_from_all_its_peers(make: Make, kind: type[Cut], target: str, count: int) -> None:
    """And nobody else from anybody."""
    for seed in SEEDS:
        cluster = make(count)
        fault = cut(kind, cluster, target, seed)
        victim = set(fault.chosen.nodes)
        assert len(victim) == 1
        assert cluster.cut_pairs() == across(victim, set(fault.nodes) - victim)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_minority_is_cut_off_from_the_majority(make: Make, seed: int, count: int) -> None:
    """With the node in its role on the smaller side, and company by chance."""
    cluster = make(count)
    fault = cut(Minority, cluster, seed=seed)
    assert isinstance(fault, Minority)
    minor, major = set(fault.side), set(fault.others)
    assert set(fault.chosen.nodes) <= minor
    assert len(minor) == (count - 1) // 2
    assert minor | major == set(fault.nodes)
    assert cluster.cut_pairs() == across(minor, major)


def test_chance_decides_about_the_company(make: Make) -> None:
    """The same seed splits the same way, others another."""
    cluster = make(5)

    def sides() -> list[str]:
        return [aim.sentence for seed in range(9) if (aim := Minority(context_on(cluster, Minority, seed=seed)).aim())]

    assert sides() == sides()
    assert len(set(sides())) > 3


@pytest.mark.parametrize("count", SIZES)
def test_in_a_ring_each_hears_a_majority_and_no_two_the_same(make: Make, count: int) -> None:
    """Counting itself; what is heard is one way, so with TCP hardly anybody reaches anybody."""
    cluster = make(count)
    fault = cut(Ring, cluster)
    heard = {
        node: frozenset(
            peer
            for peer in fault.nodes
            if peer == node or cluster.tables[node].passes("INPUT", cluster.peer_address(peer), 1) == "ACCEPT"
        )
        for node in fault.nodes
    }
    assert all(node in peers and len(peers) == count // 2 + 1 for node, peers in heard.items())
    assert len(set(heard.values())) == count
    if count % 2:
        assert len(cluster.cut_pairs()) == count * (count - 1)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("target", Bridge.roles)
def test_only_the_bridge_sees_both_sides(make: Make, target: str, count: int) -> None:
    """Every other node is on one of two sides, which are of the same size or nearly so."""
    for seed in SEEDS:
        cluster = make(count)
        fault = cut(Bridge, cluster, target, seed)
        assert isinstance(fault, Bridge)
        one, other = map(set, fault.sides)
        assert set(fault.nodes) == {*one, *other, *fault.chosen.nodes}
        assert 0 <= len(other) - len(one) <= 1
        assert cluster.cut_pairs() == across(one, other)


@pytest.mark.parametrize("seed", SEEDS)
def test_replication_is_cut_from_the_followers_only(make: Make, seed: int) -> None:
    """Nobody reaches the victim's port for brokers; it reaches theirs, and controllers reach each other."""
    cluster = make(5)
    fault = cut(ReplicationCut, cluster, seed=seed)
    (victim,) = fault.chosen.nodes
    assert cluster.cut_pairs("broker") == {(peer, victim) for peer in fault.nodes if peer != victim}
    assert not cluster.cut_pairs("controller")


@pytest.mark.parametrize("seed", SEEDS)
def test_controllers_are_cut_from_the_victim(make: Make, seed: int) -> None:
    """Both ways, for it may lead them; brokers reach each other."""
    cluster = make(5)
    fault = cut(ControllerCut, cluster, seed=seed)
    victim = set(fault.chosen.nodes)
    assert cluster.cut_pairs("controller") == across(victim, set(fault.nodes) - victim)
    assert not cluster.cut_pairs("broker")


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_are_cut_from_one_node(make: Make, seed: int) -> None:
    """With a reset; peers reach it even on the port for clients."""
    cluster = make()
    fault = cut(ClientCut, cluster, seed=seed)
    (victim,) = fault.chosen.nodes
    assert [node for node in fault.nodes if not cluster.client_reaches(node)] == [victim]
    port = cluster.inner_port(victim, "client")
    assert cluster.tables[victim].passes("INPUT", "10.0.0.254", port) == "REJECT"
    for listener in ("client", "broker", "controller"):
        assert not cluster.cut_pairs(listener)


@pytest.mark.parametrize("kind", FAULTS)
def test_the_way_of_the_harness_and_the_loopback_stay_open(make: Make, kind: type[Cut]) -> None:
    """Except where clients are what is cut off."""
    cluster = make()
    fault = cut(kind, cluster)
    for node in fault.nodes:
        assert cluster.reaches_itself(node)
        assert kind is ClientCut or cluster.client_reaches(node)


@pytest.mark.parametrize("kind", FAULTS)
def test_nothing_is_left(make: Make, kind: type[Cut]) -> None:
    """Undone twice, and told before as not healed."""
    cluster = make()
    fault = cut(kind, cluster)
    assert "still has chains of tg1" in fault.healed()
    fault.undo()
    assert cluster.untouched()
    fault.undo()
    assert not fault.healed()
    assert not cluster.journal


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_fails_half_way_is_undone(make: Make, kind: type[Cut], failing: int) -> None:
    """Whichever node it is that fails."""
    cluster = make()
    cluster.failing = {failing}
    fault = kind(context_on(cluster, kind))
    assert fault.aim() is not None
    with suppress(ClusterError):
        fault.inject()
        fault.undo()
    fault.undo()
    assert cluster.untouched()
    assert not fault.healed()


def test_one_node_that_is_gone_keeps_no_other_from_being_mended(make: Make) -> None:
    """The error is told, and a node without a network has nothing to heal."""
    cluster = make()
    fault = cut(Ring, cluster)
    cluster.dead = {1}
    with pytest.raises(ClusterError, match="there is no network"):
        fault.undo()
    assert {node for node, table in cluster.tables.items() if len(table.chains) > 2} == {1}
    assert not fault.healed()


def test_a_node_that_runs_and_cannot_be_looked_into_is_not_healed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, and no silence."""
    cluster = make()
    fault = cut(Isolate, cluster)

    def broken(*_: object) -> str:
        raise ClusterError("no", "none")

    monkeypatch.setattr(cluster, "inside", broken)
    with pytest.raises(ClusterError, match="no"):
        fault.healed()


def test_other_chains_stay() -> None:
    """Those of another injection, and those of strangers."""
    table = Table()
    table.run("iptables -w 5 -N tg10-in\niptables -w 5 -N theirs\niptables -w 5 -A INPUT -j theirs")
    before = {chain: list(rules) for chain, rules in table.chains.items()}
    table.run(tear_down("tg1"))
    assert table.chains == before


def test_an_undo_that_leaves_something_fails() -> None:
    """So that the journal keeps it."""
    table = Table()
    table.run("iptables -w 5 -N tg1-in\niptables -w 5 -A OUTPUT -j tg1-in")
    with pytest.raises(Refused):
        table.run(tear_down("tg1"))


def test_only_what_was_taken_is_counted() -> None:
    """As iptables lists it."""
    listing = """Chain tg1-in (1 references)
    pkts      bytes target     prot opt in     out     source               destination
      12      720 DROP       0    --  *      *       10.0.0.2             0.0.0.0/0
      40     2720 RETURN     0    --  *      *       10.0.0.2             0.0.0.0/0
       3      180 REJECT     6    --  !lo    *       0.0.0.0/0            0.0.0.0/0   tcp dpt:9092 reject-with tcp-reset
"""
    assert taken(listing) == 15
    assert taken("") == 0


@pytest.mark.parametrize("kind", [Isolate, Minority, OneWay, ControllerCut])
def test_an_isolated_leader_is_proven_by_its_successor(make: Make, kind: type[Cut]) -> None:
    """By the word of others, in a higher epoch, and not before packets were dropped."""
    cluster = make()
    fault = cut(kind, cluster)
    victim = fault.chosen.victim
    assert victim is not None
    spot, ids, heir = (victim.topic, victim.partition), (1, 2, 3), victim.heirs[0]
    moved = {spot: PartitionView(heir, 6, ids, (heir,))}
    drop_some(cluster)
    assert fault.proof() is None
    cluster.told[victim.node] = moved
    assert fault.proof() is None, "the victim's own word"
    cluster.told[heir] = {spot: PartitionView(-1, 6, ids, (heir,))}
    assert fault.proof() is None, "nobody leads"
    cluster.told[heir] = {spot: PartitionView(heir, 4, ids, ids)}
    assert fault.proof() is None, "the same epoch"
    cluster.told[heir] = moved
    drop_some(cluster, 0)
    assert fault.proof() is None, "nothing was dropped"
    drop_some(cluster, 21)
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith(f"leader of {victim.name}: {victim.node} → {heir} (epoch 4 → 6) ")
    assert " s after the cut, " in bite.sentence
    assert bite.sentence.endswith(f"packets dropped: {21 if kind is OneWay else 42}")
    assert (bite.topic, bite.partition, bite.leader, bite.leader_epoch) == (*spot, heir, 6)


def test_an_isolated_follower_is_proven_by_the_replicas_in_sync(make: Make) -> None:
    """By the word of others; that another one fell out proves nothing."""
    cluster = make()
    fault = cut(Isolate, cluster, "follower")
    drop_some(cluster)
    (victim,) = fault.chosen.nodes
    one, other = (node for node in fault.nodes if node != victim)
    cluster.views["t", 2] = PartitionView(one, 4, (1, 2, 3), (one, victim))
    assert fault.proof() is None
    cluster.views["t", 2] = PartitionView(one, 4, (1, 2, 3), (other, one))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith(f"ISR of t-2: [1, 2, 3] → [{one}, {other}] ")
    assert (bite.node, bite.partition) == (victim, 2)


def test_an_isolated_controller_is_proven_by_another_one(make: Make, quorums: list[tuple[int, int] | None]) -> None:
    """In a higher epoch."""
    cluster = make()
    fault = cut(Isolate, cluster, "controller")
    drop_some(cluster)
    assert fault.chosen.nodes == (2,)
    for no_proof in (QUORUM, (2, 10), (3, 9), None):
        quorums[:] = [no_proof]
        assert fault.proof() is None
    quorums[:] = [(3, 10)]
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith("controller: 2 → 3 (epoch 9 → 10) ")


def test_a_ring_is_proven_by_controllers_without_a_leader(make: Make, quorums: list[tuple[int, int] | None]) -> None:
    """When every node has missed something."""
    cluster = make()
    fault = cut(Ring, cluster)
    drop_some(cluster)
    assert fault.proof() is None
    quorums[:] = [None]
    cluster.tables[3].taken["tg1-in"] = 0
    assert fault.proof() is None
    cluster.tables[3].taken["tg1-in"] = 2
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith("the controllers have no leader any more (it was 2 in epoch 9) ")
    assert bite.sentence.endswith("packets dropped: 44")


def test_a_ring_is_proven_by_the_replicas_in_sync(make: Make) -> None:
    """As any node sees them."""
    cluster = make()
    fault = cut(Ring, cluster)
    drop_some(cluster)
    cluster.told[3] = {("t", 1): PartitionView(2, 4, (1, 2, 3), (2,))}
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith("ISR of t-1: [1, 2, 3] → [2] ")


def test_a_bridge_is_proven_by_its_own_word(make: Make) -> None:
    """One side has lost somebody of the other."""
    cluster = make()
    fault = cut(Bridge, cluster)
    assert isinstance(fault, Bridge)
    drop_some(cluster)
    (bridge,), ((one,), (other,)) = fault.chosen.nodes, fault.sides
    cluster.told[one] = cluster.told[other] = {("t", 0): PartitionView(one, 4, (1, 2, 3), (one, bridge))}
    assert fault.proof() is None
    cluster.told[bridge] = cluster.told[one]
    bite = fault.proof()
    assert bite is not None
    assert bite.node == other


def test_a_bridge_needs_a_leader_on_one_side_and_a_follower_on_the_other(make: Make) -> None:
    """A single partition led by the bridge itself would feel nothing."""
    cluster = make()
    cluster.views = {("t", 0): PartitionView(1, 4, (1, 2, 3), (1, 2, 3))}
    assert Bridge(context_on(cluster, Bridge, "leader")).aim() is None
    assert Bridge(context_on(cluster, Bridge, "follower")).aim() is not None


def test_a_replication_cut_is_proven_while_the_leader_stays(make: Make) -> None:
    """A new leader would be another fault."""
    cluster = make()
    fault = cut(ReplicationCut, cluster)
    drop_some(cluster)
    victim = fault.chosen.victim
    assert victim is not None
    spot, heir = (victim.topic, victim.partition), victim.heirs[0]
    cluster.views[spot] = PartitionView(heir, 5, (1, 2, 3), (heir,))
    assert fault.proof() is None
    cluster.views[spot] = PartitionView(victim.node, 4, (1, 2, 3), (victim.node,))
    bite = fault.proof()
    assert bite is not None
    begins = f"ISR of {victim.name}: [1, 2, 3] → [{victim.node}] with {victim.node} still its leader in epoch 4, "
    assert bite.sentence.startswith(begins)


def test_a_client_cut_is_proven_by_our_own_connection(make: Make) -> None:
    """Refused by this node, while others answer."""
    cluster = make()
    fault = cut(ClientCut, cluster)
    drop_some(cluster)
    (victim,) = fault.chosen.nodes
    assert fault.proof() is None
    cluster.silent = {1, 2, 3}
    assert fault.proof() is None
    cluster.silent = {victim}
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence.startswith(f"node {victim} does not answer us any more: refused, ")


def test_flapping_cuts_and_mends_in_turn(make: Make) -> None:
    """Proven when that happened twice and packets were dropped; the counts outlive a turn."""
    cluster = make()
    fault = Flapping(context_on(cluster, Flapping, period=1000))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence.endswith("and let back every 1000 s")
    fault.inject()
    stepped(fault)
    for closed in (True, False, True, False):
        assert bool(cluster.cut_pairs()) is closed
        if fault.steps < 4:
            assert fault.proof() is None
            fault.step()
            fault.steps += 1
    drop_some(cluster, 0)
    assert fault.proof() is None
    drop_some(cluster)
    assert fault.proof() == FaultEvidence("cut off and let back 2 times, packets dropped: 42", fault.chosen.node)
    fault.undo()
    assert cluster.untouched()


@pytest.mark.parametrize("kind", [Isolate, Minority, OneWay, ControllerCut, Flapping])
def test_the_last_majority_is_spared(make: Make, kind: type[Cut]) -> None:
    """With one node down already, nobody could elect another leader."""
    cluster = make()
    cluster.silent = {3}
    for seed in SEEDS:
        assert kind(context_on(cluster, kind, seed=seed)).aim() is None


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_without_a_victim_is_not_injected(make: Make, kind: type[Fault]) -> None:
    """Aim comes first."""
    cluster = make()
    cluster.silent = {1, 2, 3}
    fault = kind(context_on(cluster, kind))
    assert fault.aim() is None
    with pytest.raises(ClusterError, match="call aim"):
        inject(fault)
    fault.undo()
    assert cluster.untouched()
    assert not fault.healed()


@pytest.mark.parametrize("kind", [Isolate, Minority, OneWay, ControllerCut, Flapping])
def test_whoever_is_cut_off_is_felled(make: Make, kind: type[Cut]) -> None:
    """From the aim on, and nobody before it."""
    cluster = make(5)
    fault = kind(context_on(cluster, kind))
    assert fault.out_of_service == frozenset()
    assert fault.aim() is not None
    assert isinstance(fault, Isolate)
    assert fault.out_of_service == set(fault.side) >= set(fault.chosen.nodes)


def test_a_ring_fells_everybody(make: Make) -> None:
    """And does not begin beside somebody who is felled."""
    cluster = make()
    fault = cut(Ring, cluster)
    assert fault.out_of_service == {1, 2, 3}
    assert Ring(replace(context_on(cluster, Ring), out_of_service=lambda: {2})).aim() is None


@pytest.mark.parametrize("kind", [Isolate, Minority, OneWay, ControllerCut, Flapping])
def test_what_others_felled_is_neither_cut_off_nor_counted(make: Make, kind: type[Cut]) -> None:
    """Of three nodes, one is the limit; of seven, three."""
    cluster = make()
    assert kind(replace(context_on(cluster, kind), out_of_service=lambda: {3})).aim() is None
    cluster = make(7)
    for seed in SEEDS:
        fault = kind(replace(context_on(cluster, kind, seed=seed), out_of_service=lambda: {3}))
        if fault.aim() is not None:
            assert 3 not in fault.out_of_service


def test_a_dead_node_without_an_address_is_left_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers have none; the others are cut off all the same."""
    cluster = make(5)
    usual = cluster.peer_address
    gone = {5}

    def address(node: int) -> str:
        if node in gone:
            raise ClusterError("it does not run", "none")
        return usual(node)

    monkeypatch.setattr(cluster, "peer_address", address)
    cluster.dead = {5}
    for kind in (Isolate, OneWay, ControllerCut, ReplicationCut, ClientCut):
        fault = cut(kind, cluster)
        assert not cluster.untouched()
        fault.undo()
    gone = {1, 2, 3, 4, 5}
    with pytest.raises(ClusterError, match="does not run"):
        cut(Isolate, cluster)


def test_a_node_that_dies_takes_its_counts_along(make: Make) -> None:
    """Neither the count, nor the walls, nor turns of flapping are an error then, whether it came back or not."""
    cluster = make()
    fault = cut(Ring, cluster)
    drop_some(cluster)
    cluster.dead = {2}
    assert fault.chains.taken() == {1: 21, 3: 21}
    fault.chains.suspend()
    cluster.dead = set()
    cluster.tables[2] = Table()
    assert fault.chains.taken() == {1: 21, 3: 21}
    fault.chains.resume()
    assert cluster.tables[2].chains == Table().chains


def test_a_node_that_dies_before_the_walls_are_built_needs_none(make: Make) -> None:
    """The others get theirs."""
    cluster = make()
    fault = Ring(context_on(cluster, Ring))
    assert fault.aim() is not None
    cluster.dead = {1}
    fault.inject()
    assert [node for node, table in cluster.tables.items() if len(table.chains) > 2] == [2, 3]


@pytest.mark.parametrize("kind", [Isolate, Ring, Bridge, ReplicationCut])
def test_the_proof_is_about_the_topics_of_the_aim(make: Make, monkeypatch: pytest.MonkeyPatch, kind: type[Cut]) -> None:
    """Even if the load goes on to another one."""
    cluster = make()
    topics, asked = ["t"], list[list[str]]()
    fault = kind(replace(context_on(cluster, kind), topics=lambda: topics))
    assert fault.aim() is not None
    fault.build()
    drop_some(cluster)

    def look(nodes: object, of: list[str], security: object) -> ClusterView:
        asked.append(list(of))
        return cluster.look(nodes, of, security)

    monkeypatch.setattr(base, "observe", look)
    topics[:] = ["later"]
    fault.effect()
    assert asked == [["t"]]


def inject(fault: Fault) -> None:
    """And the first step, where there are steps."""
    fault.inject()
    if isinstance(fault, RepeatingFault):
        stepped(fault)
        fault.fail_if_a_step_failed()
