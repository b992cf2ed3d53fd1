"""Faults of leadership, on a cluster that exists on paper only."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import ClusterView, PartitionView
from harness.clusters.external import ExternalCluster
from harness.clusters.local import LocalCluster
from harness.clusters.node import OURS, Capability
from harness.clusters.target import load_target
from harness.foundation.config import parse
from harness.foundation.errors import CannotHere, ClusterError, Exit, UsageError
from harness.foundation.security import Security
from nemesis import FAULTS, base, check_plans, fault_named, faults_on
from nemesis.base import Fault, FaultContext, Victim, refuse_unless_possible
from nemesis.leadership import ControllerKill, LeaderChurn, LeaderKill, LeaderMove, PreferredElection, UncleanElection
from nemesis.schedule import FaultPlan, Slot
from tests.support.fake_cluster import WHOLE, Answers, Paper, context_on, paper_answers, paper_cluster, stepped

T0 = "t", 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    return paper_cluster(monkeypatch)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes."""
    return paper_answers(monkeypatch)


def on(cluster: Cluster, *topics: str, seed: int = 0) -> FaultContext:
    """A field with these topics in use."""
    return context_on(cluster, LeaderMove, topics=topics or ("t",), seed=seed)


def aimed(fault: Fault) -> Victim:
    """Whom it aims at."""
    aim = fault.aim()
    assert aim is not None
    assert aim.victim is not None
    return aim.victim


def test_a_kill_is_proven_by_a_new_leader(cluster: Paper) -> None:
    """Not before another node names another leader in a higher epoch."""
    fault = LeaderKill(on(cluster))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "SIGKILL of node 1, leader of t-0"
    assert aim.victim is not None
    assert (aim.victim.node, aim.victim.leader_epoch) == (1, 4)
    fault.inject()
    assert cluster.dead == {1}
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(-1, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(3, 5, (1, 2, 3), (2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "leader of t-0: 1 → 3 (epoch 4 → 5) 0.0 s after the kill"
    assert (bite.node, bite.topic, bite.partition, bite.leader, bite.leader_epoch) == (1, "t", 0, 3, 5)


def test_a_kill_is_undone_by_a_start(cluster: Paper) -> None:
    """Once: a node that runs is left alone."""
    fault = LeaderKill(on(cluster))
    fault.aim()
    fault.inject()
    fault.undo()
    assert not cluster.dead
    fault.undo()


def test_a_kill_of_a_node_that_was_dead_is_nobodys(cluster: Paper) -> None:
    """Another fault killed it after the aim: that one proves it, and starts it again."""
    fault = LeaderKill(on(cluster))
    fault.aim()
    cluster.kill(1)
    fault.inject()
    cluster.views[("t", 0)] = PartitionView(3, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None
    fault.undo()
    assert cluster.done == [("kill", 1)]
    assert fault.healed() == ""


@pytest.mark.parametrize("kind", [LeaderKill, UncleanElection])
def test_a_leader_that_is_killed_is_felled(cluster: Paper, kind: type[Fault]) -> None:
    """From the aim on; with another one felled, nobody could elect a successor."""
    fault = kind(context_on(cluster, kind))
    assert fault.out_of_service == frozenset()
    fault.aim()
    assert fault.out_of_service == {1}
    assert kind(replace(context_on(cluster, kind), out_of_service=lambda: {3})).aim() is None


def test_a_kill_of_a_node_that_lives_is_no_bite(cluster: Paper) -> None:
    """A leader that moved for another reason proves nothing about the kill."""
    fault = LeaderKill(on(cluster))
    fault.aim()
    fault.inject()
    cluster.start_node(1)
    cluster.views[("t", 0)] = PartitionView(3, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None


def test_the_last_majority_is_spared(cluster: Paper) -> None:
    """With one node down already, nobody could elect another leader."""
    cluster.kill(3)
    assert LeaderKill(on(cluster)).aim() is None
    assert LeaderMove(on(cluster)).aim() is not None


@pytest.mark.parametrize("fault", [LeaderMove, LeaderKill, LeaderChurn, PreferredElection, UncleanElection])
@pytest.mark.parametrize(
    "view",
    [
        PartitionView(-1, 4, (1, 2, 3), (1, 2)),
        PartitionView(1, 4, (1, 2, 3), (1,)),
        PartitionView(1, 4, (1,), (1,)),
    ],
    ids=["no leader", "nobody else in sync", "one replica"],
)
def test_a_leader_without_an_heir_is_no_victim(cluster: Paper, fault: type[Fault], view: PartitionView) -> None:
    """Another leader could not be proven."""
    cluster.views[("t", 0)] = view
    assert fault(context_on(cluster, fault)).aim() is None


@pytest.mark.parametrize("fault", [LeaderMove, LeaderKill, LeaderChurn, PreferredElection, UncleanElection])
def test_only_topics_in_use_are_aimed_at(cluster: Paper, fault: type[Fault]) -> None:
    """Other topics of the cluster are nobody's business."""
    assert fault(context_on(cluster, fault, topics=("another",))).aim() is None


def test_the_seed_decides_whom(cluster: Paper) -> None:
    """The same one chooses the same victim; different ones do not all choose the same."""
    for partition in range(9):
        cluster.views[("t", partition)] = PartitionView(1 + partition % 3, 4, (1, 2, 3), (1, 2, 3))
    chosen = [[LeaderKill(on(cluster, seed=seed)).aim() for seed in range(20)] for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len({aim.victim.partition for aim in chosen[0] if aim and aim.victim}) > 3


def test_a_move_reorders_the_replicas_and_elects_the_first(cluster: Paper, answers: Answers) -> None:
    """The replicas stay the same, so nothing has to be copied."""
    fault = LeaderMove(on(cluster))
    aim = fault.aim()
    assert aim is not None
    heir = int(aim.sentence[-1])
    assert heir in (2, 3)
    assert aim.sentence == f"leadership of t-0 moves from 1 to {heir}"
    fault.inject()
    rest = tuple(node for node in (1, 2, 3) if node != heir)
    assert answers.asked == [("h:1", "reassign", {T0: (heir, *rest)}), ("h:1", "elect 0", [T0])]
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(heir, 5, (heir, *rest), (1, 2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == f"leader of t-0: 1 → {heir} (epoch 4 → 5) 0.0 s after the move"


def test_a_move_is_undone_by_the_old_order(cluster: Paper, answers: Answers) -> None:
    """And an election of its first replica; a second time does no harm."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    fault.undo()
    assert answers.asked == [("h:1", "reassign", {T0: (1, 2, 3)}), ("h:1", "elect 0", [T0])] * 2


def test_the_old_leader_alone_proves_nothing(cluster: Paper, answers: Answers) -> None:
    """Others have to say so."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    cluster.told[1] = {("t", 0): PartitionView(2, 5, (2, 1, 3), (1, 2, 3))}
    assert fault.proof() is None
    cluster.told[3] = cluster.told[1]
    assert fault.proof() is not None


def test_only_nodes_that_are_in_sync_inherit(cluster: Paper) -> None:
    """Whatever the seed."""
    cluster.views[("t", 0)] = PartitionView(1, 4, (1, 2, 3), (1, 3))
    aims = [LeaderMove(on(cluster, seed=seed)).aim() for seed in range(10)]
    assert {aim.sentence for aim in aims if aim} == {"leadership of t-0 moves from 1 to 3"}


def test_the_dead_do_not_inherit(cluster: Paper) -> None:
    """A node that was just killed is in sync by everybody's account, for some seconds."""
    cluster.kill(2)
    aims = [LeaderMove(on(cluster, seed=seed)).aim() for seed in range(10)]
    assert {aim.sentence for aim in aims if aim} == {"leadership of t-0 moves from 1 to 3"}
    cluster.kill(3)
    assert LeaderMove(on(cluster)).aim() is None


def test_requests_pass_over_nodes_that_are_down(cluster: Paper, answers: Answers) -> None:
    """The next one is asked."""
    answers.refusing = {"h:1"}
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    assert [address for address, *_ in answers.asked] == ["h:2", "h:2"]


def test_requests_are_repeated_until_they_are_done(cluster: Paper, answers: Answers) -> None:
    """Errors pass: a replica gets in sync, a controller is elected; ELECTION_NOT_NEEDED is as good as done."""
    answers.top_codes = [41]
    answers.codes = [0, 80, 80, 80, 80, 84]
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.inject()
    assert len(answers.asked) == 7


def test_a_move_is_undone_even_if_the_old_leader_is_gone(cluster: Paper, answers: Answers) -> None:
    """The old order is back; the heir goes on leading."""
    answers.codes = [0, 80]
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    assert len(answers.asked) == 2


def test_requests_that_never_get_done_are_an_error(cluster: Paper, answers: Answers) -> None:
    """Which says what each node said."""
    answers.refusing = {"h:1"}
    answers.codes = [39] * 1000
    fault = LeaderMove(on(cluster))
    fault.aim()
    with pytest.raises(ClusterError, match=r"reassigning t-0 was not done.*h:1 refuses.*node 2 says Inv.*\(because\)"):
        fault.inject()


def test_a_fault_without_a_victim_is_not_injected(cluster: Paper) -> None:
    """Aim comes first."""
    with pytest.raises(ClusterError, match="call aim"):
        LeaderKill(on(cluster)).inject()


def test_a_move_is_healed_when_the_order_is_the_old_one(cluster: Paper, answers: Answers) -> None:
    """Before, it says whose is not."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    cluster.views[T0] = PartitionView(2, 5, (2, 1, 3), (1, 2, 3))
    assert fault.healed() == "the replicas of t-0 are not 1, 2, 3"
    cluster.views[T0] = PartitionView(2, 5, (1, 2, 3), (1, 2, 3))
    assert fault.healed() == ""


@pytest.mark.parametrize("kind", [LeaderMove, PreferredElection, LeaderChurn])
def test_other_replicas_are_somebody_elses_business(cluster: Paper, answers: Answers, kind: type[Fault]) -> None:
    """Only the order is put back: of those that are left, and of those that have come."""
    fault = kind(context_on(cluster, kind))
    fault.aim()
    cluster.views[T0] = PartitionView(3, 5, (3, 2), (2, 3))
    assert fault.healed() == "the replicas of t-0 are not 2, 3"
    fault.undo()
    assert answers.asked == [("h:1", "reassign", {T0: (2, 3)}), ("h:1", "elect 0", [T0])]
    cluster.views[T0] = PartitionView(2, 5, (2, 3), (2, 3))
    assert fault.healed() == ""
    cluster.views[T0] = PartitionView(4, 5, (4, 3, 1), (1, 3, 4))
    fault.undo()
    assert answers.asked[2][2] == {T0: (1, 3, 4)}


@pytest.mark.parametrize("kind", [LeaderMove, PreferredElection, LeaderChurn])
def test_a_topic_that_is_gone_has_no_order(cluster: Paper, answers: Answers, kind: type[Fault]) -> None:
    """Unlike one about which nobody says anything."""
    fault = kind(context_on(cluster, kind))
    fault.aim()
    del cluster.views[T0]
    fault.undo()
    assert (answers.asked, fault.healed()) == ([], "")
    cluster.dead = {1, 2, 3}
    assert fault.healed() == "no node says in which order the replicas are"
    with pytest.raises(ClusterError, match="no node answers"):
        fault.undo()


def test_whoever_moves_replicas_is_waited_for(
    cluster: Paper, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it goes on, nodes name the replicas of before and after: to order those would be to end it."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    seen = [PartitionView(1, 5, (1, 2, 3), (1,)), PartitionView(1, 5, (1,), (1,))]
    look = cluster.look

    def looks(*about: Any) -> ClusterView:
        cluster.views[T0] = seen.pop(0) if len(seen) > 1 else seen[0]
        answers.moving = len(cluster.views[T0].replicas) > 1
        return look(*about)

    monkeypatch.setattr(base, "observe", looks)
    fault.undo()
    assert answers.asked[0][2] == {T0: (1,)}


def test_churn_lets_somebody_else_move_replicas(cluster: Paper, answers: Answers) -> None:
    """Neither does it move leadership to a node that is felled."""
    fault = LeaderChurn(replace(context_on(cluster, LeaderChurn), out_of_service=lambda: {2}))
    fault.aim()
    answers.moving = True
    fault.step()
    assert answers.asked == []
    answers.moving = False
    fault.step()
    assert answers.asked[0][2] == {T0: (3, 1, 2)}


def test_one_election_moves_all_leaders(cluster: Paper, answers: Answers) -> None:
    """Of all topics in use, but for partitions that nobody else could lead."""
    cluster.views |= {
        ("t", 1): PartitionView(2, 7, (2, 3, 1), (1, 2, 3)),
        ("t", 2): PartitionView(3, 7, (3, 1), (3,)),
        ("u", 0): PartitionView(3, 2, (3, 2), (3, 2)),
        ("x", 0): WHOLE,
    }
    fault = PreferredElection(context_on(cluster, PreferredElection, topics=("t", "u")))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "the leaders of 3 partitions move to other replicas, all at once"
    fault.inject()
    assert answers.requests() == ["reassign", "elect 0"]
    orders = answers.asked[0][2]
    assert set(orders) == {("t", 0), ("t", 1), ("u", 0)}
    assert all(set(order) == set(cluster.views[key].replicas) for key, order in orders.items())
    assert all(order[0] != cluster.views[key].leader for key, order in orders.items())
    assert answers.asked[1][2] == sorted(orders)


def test_most_leaders_have_to_have_moved(cluster: Paper, answers: Answers) -> None:
    """One of three is no mass move; the same leader in a higher epoch is none at all."""
    cluster.views |= {("t", 1): WHOLE, ("t", 2): WHOLE}
    fault = PreferredElection(context_on(cluster, PreferredElection))
    fault.aim()
    fault.inject()
    cluster.views[T0] = PartitionView(2, 5, (2, 1, 3), (1, 2, 3))
    cluster.views["t", 1] = PartitionView(1, 5, (2, 1, 3), (1, 2, 3))
    assert fault.proof() is None
    cluster.views["t", 1] = PartitionView(3, 5, (3, 1, 2), (1, 2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        "2 of 3 partitions have a new leader, such as t-0: 1 → 2 (epoch 4 → 5), 0.0 s after the election"
    )
    assert (bite.node, bite.topic, bite.partition, bite.leader, bite.leader_epoch) == (1, "t", 0, 2, 5)
    assert fault.healed() == "the replicas of t-0 are not 1, 2, 3; the replicas of t-1 are not 1, 2, 3"


def test_all_orders_are_put_back(cluster: Paper, answers: Answers) -> None:
    """Even if not every first replica can lead."""
    cluster.views["t", 1] = PartitionView(2, 7, (2, 3, 1), (1, 2, 3))
    fault = PreferredElection(context_on(cluster, PreferredElection))
    fault.aim()
    answers.codes = [0, 0, 80, 84]
    fault.undo()
    assert answers.asked == [
        ("h:1", "reassign", {T0: (1, 2, 3), ("t", 1): (2, 3, 1)}),
        ("h:1", "elect 0", [T0, ("t", 1)]),
    ]


def test_one_partition_that_is_refused_is_enough_to_ask_again(cluster: Paper, answers: Answers) -> None:
    """The others have been moved by then, which does no harm; an heir that is out of sync is not waited for."""
    cluster.views["t", 1] = WHOLE
    fault = PreferredElection(context_on(cluster, PreferredElection))
    fault.aim()
    answers.codes = [0, 0, 0, 41, 84, 80]
    fault.inject()
    assert answers.requests() == ["reassign", "elect 0", "elect 0"]


def test_churn_goes_round(cluster: Paper, answers: Answers) -> None:
    """From each leader to the next that is in sync and alive, by number."""
    fault = LeaderChurn(context_on(cluster, LeaderChurn))
    assert aimed(fault).key == T0
    firsts = []
    for leader in (1, 2, 3):
        cluster.views[T0] = PartitionView(leader, 4, (1, 2, 3), (1, 2, 3))
        fault.step()
        firsts.append(answers.asked[-2][2][T0][0])
    assert firsts == [2, 3, 1]
    cluster.kill(2)
    cluster.views[T0] = WHOLE
    fault.step()
    assert answers.asked[-2][2] == {T0: (3, 1, 2)}


@pytest.mark.parametrize("view", [PartitionView(1, 4, (1, 2, 3), (1,)), PartitionView(-1, 4, (1, 2, 3), (1, 2)), None])
def test_churn_waits_while_there_is_nobody_to_move_to(
    cluster: Paper, answers: Answers, view: PartitionView | None
) -> None:
    """Another fault may be at work."""
    fault = LeaderChurn(context_on(cluster, LeaderChurn))
    fault.aim()
    if view is None:
        del cluster.views[T0]
    else:
        cluster.views[T0] = view
    fault.step()
    assert not answers.asked


def test_churn_is_proven_by_the_second_move(cluster: Paper, answers: Answers) -> None:
    """One move is no churn."""
    fault = LeaderChurn(context_on(cluster, LeaderChurn, period=1000.0))
    fault.aim()
    fault.inject()
    stepped(fault)
    cluster.views[T0] = PartitionView(2, 5, (2, 1, 3), (1, 2, 3))
    assert fault.proof() is None
    cluster.views[T0] = PartitionView(3, 6, (3, 1, 2), (1, 2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "leader of t-0 moved again: 1 → … → 3 (epoch 4 → 6) 0.0 s after the first move"
    assert fault.healed()
    fault.undo()
    assert answers.asked[-2:] == [("h:1", "reassign", {T0: (1, 2, 3)}), ("h:1", "elect 0", [T0])]


def test_a_killed_controller_is_proven_by_another(cluster: Paper, answers: Answers) -> None:
    """In a higher epoch; the partitions it led have new leaders, too."""
    answers.quorum = {"h:1": (2, 10), "h:2": (2, 10), "h:3": (1, 9)}
    fault = ControllerKill(context_on(cluster, ControllerKill))
    aim = fault.aim()
    assert aim is not None
    assert (aim.sentence, aim.node, aim.victim) == ("SIGKILL of node 2 (controller)", 2, None)
    fault.inject()
    assert cluster.dead == {2}
    assert fault.proof() is None
    answers.quorum = {"h:3": (2, 11)}
    assert fault.proof() is None
    answers.quorum = {"h:3": (3, 11)}
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        "node 2 does not answer while 2 of 3 do, leader of the quorum: 2 → 3 (epoch 10 → 11), 0.0 s after the kill"
    )
    assert bite.node == 2
    fault.undo()
    assert not cluster.dead


@pytest.mark.parametrize(
    ("eligible", "how"),
    [
        ([2], "may have missed messages: an unclean election"),
        ([2, 3], "was cleanly elected all the same: it was eligible and missed nothing"),
        (None, "may have missed messages: an unclean election"),
    ],
)
def test_an_unclean_election_takes_its_time(
    cluster: Paper, answers: Answers, eligible: list[int] | None, how: str
) -> None:
    """The leader is killed when it is alone in sync, and the cut is mended; the proof is a leader that was not."""
    answers.eligible = eligible
    fault = UncleanElection(context_on(cluster, UncleanElection))
    fault.aim()
    fault.inject()
    assert answers.settings == {"unclean.leader.election.enable": "true"}
    ((script, cut),) = cluster.networks
    assert cut == 1
    assert all(f"-s 10.0.0.{peer} --dport 9001" in script for peer in (2, 3))
    cluster.views[T0] = PartitionView(1, 5, (1, 2, 3), (1, 3))
    assert fault.proof() is None
    assert not cluster.dead
    cluster.views[T0] = PartitionView(1, 6, (1, 2, 3), (1,))
    assert fault.proof() is None
    assert cluster.dead == {1}
    assert cluster.networks[1:] == [("mend", 1)]
    cluster.views[T0] = PartitionView(-1, 7, (1, 2, 3), (1,))
    assert fault.proof() is None
    assert answers.asked[-1] == ("h:2", "elect 1", [T0])
    cluster.views[T0] = PartitionView(3, 8, (1, 2, 3), (3,))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == (
        f"leader of t-0: 1 → 3 (epoch 4 → 8) 0.0 s after the kill; only 1 was in sync then, and 3 {how}"
    )
    assert bite.unclean == (3 not in (eligible or ()))


@pytest.mark.parametrize("own", [{}, {"unclean.leader.election.enable": "false"}], ids=["default", "own value"])
def test_an_unclean_election_leaves_nothing(cluster: Paper, answers: Answers, own: dict[str, str]) -> None:
    """The node runs and the setting is what it was, however far it had come."""
    answers.settings = dict(own)
    fault = UncleanElection(context_on(cluster, UncleanElection))
    fault.aim()
    fault.undo()
    assert not answers.asked
    fault.inject()
    assert fault.healed()
    cluster.views[T0] = PartitionView(1, 6, (1, 2, 3), (1,))
    fault.proof()
    assert "node 1 is dead" in fault.healed()
    fault.undo()
    assert answers.settings == own
    assert not cluster.dead
    assert fault.healed() == ""
    fault.undo()


def test_an_undo_that_fails_in_one_thing_does_the_others(cluster: Paper, answers: Answers) -> None:
    """A node that does not start keeps no setting changed."""
    fault = UncleanElection(context_on(cluster, UncleanElection))
    fault.aim()
    fault.inject()
    cluster.views[T0] = PartitionView(1, 6, (1, 2, 3), (1,))
    fault.proof()
    cluster.stubborn = {1}
    with pytest.raises(ClusterError, match="cannot start 1"):
        fault.undo()
    assert not answers.settings
    assert fault.healed() == "node 1 is dead"


def test_every_fault_of_the_family_changes_leaders() -> None:
    """By its nature."""
    family = [LeaderMove, PreferredElection, LeaderChurn, LeaderKill, ControllerKill, UncleanElection]
    assert [fault.name for fault in family] == [
        "leader-move",
        "preferred-election",
        "leader-churn",
        "leader-kill",
        "controller-kill",
        "unclean-election",
    ]
    assert all(fault.changes_leaders for fault in family)
    assert [fault.name for fault in family if fault.unclean or not fault.tame] == ["unclean-election"]


@pytest.mark.parametrize("fault", FAULTS.values())
def test_every_fault_has_a_name_and_a_description(fault: type[Fault]) -> None:
    """For `tidegauge list nemeses`."""
    assert fault.description[0].islower()
    assert fault.longest_s > 0
    assert fault.roles


def test_an_unknown_fault_is_refused_with_a_suggestion() -> None:
    """Exit code 4."""
    with pytest.raises(UsageError, match="no nemesis 'leader-kil': did you mean 'leader-kill'"):
        fault_named("leader-kil")


def test_a_fault_is_made_from_its_slot(cluster: Paper) -> None:
    """With the slot's own seed and role."""
    fault = faults_on(cluster, lambda: ["t"])(Slot(1, "leader-move", "leader", 5, 15, 77))
    assert isinstance(fault, LeaderMove)
    assert fault.context.rng.random() == random.Random(77).random()
    assert fault.context.target == "leader"


def plan(**settings: Any) -> FaultPlan:
    """A plan as a file would give it."""
    return parse(FaultPlan, {"fault": "leader-kill", **settings}, "a.toml")


def test_plans_are_checked_before_the_cluster_is_up() -> None:
    """Local clusters can have both faults."""
    local = LocalCluster(load_target("kafka", None))
    check_plans([plan(), plan(fault="leader-move")], local)


def test_plans_that_make_no_sense_are_refused(cluster: Paper) -> None:
    """A fault there is not, a role it cannot be aimed at, too long a time."""
    with pytest.raises(UsageError, match="no nemesis 'flood'"):
        check_plans([plan(), plan(fault="flood")], cluster)
    with pytest.raises(UsageError, match="cannot be aimed at 'moon'"):
        check_plans([plan(target="moon")], cluster)
    with pytest.raises(UsageError, match="for 300 s is too long: it lasts 120 s at most"):
        check_plans([plan(times=1, **{"for": "5m"})], cluster)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS.values() if not fault.needs <= OURS])
def test_an_external_cluster_is_never_broken(fault: type[Fault]) -> None:
    """Not even by a fault that needs nothing but requests."""
    with pytest.raises(CannotHere, match="somebody else's and is never broken") as refused:
        refuse_unless_possible(fault, ExternalCluster(("h:1",), Security()))
    assert refused.value.exit_code is Exit.CANNOT_HERE


def test_a_fault_is_refused_where_its_means_are_missing() -> None:
    """With what is missing, and where it can be had."""
    with pytest.raises(
        CannotHere, match=r"'leader-kill' is not possible here: .* cannot do that \(restart\): use --cl"
    ):
        refuse_unless_possible(LeaderKill, Paper(Capability.KILL))
    refuse_unless_possible(LeaderMove, Paper(Capability.ADMIN))
