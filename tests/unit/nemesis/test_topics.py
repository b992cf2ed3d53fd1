"""Faults of topics, on a cluster that exists on paper only."""

from __future__ import annotations

import pytest

from harness.clusters.cluster_view import PartitionView
from harness.foundation.errors import ClusterError
from nemesis.topics import FAULTS, AddPartitions, MinIsr, OnATopic, RecreateTopic, ShrinkReplicas
from tests.support.fake_cluster import WHOLE, Answers, Paper, context_on, paper_answers, paper_cluster

T0 = "t", 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    return paper_cluster(monkeypatch)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes."""
    return paper_answers(monkeypatch)


@pytest.mark.parametrize("kind", [AddPartitions, RecreateTopic, MinIsr])
def test_a_topic_without_leaders_is_no_victim(cluster: Paper, answers: Answers, kind: type[OnATopic]) -> None:
    """Nor is one that is not in use."""
    assert kind(context_on(cluster, kind, topics=("u",))).aim() is None
    cluster.views["t", 1] = PartitionView(-1, 4, (1, 2, 3), ())
    assert kind(context_on(cluster, kind)).aim() is None
    cluster.views["u", 0] = WHOLE
    fault = kind(context_on(cluster, kind, topics=("t", "u")))
    assert fault.aim() is not None
    assert fault.topic == "u"


def test_partitions_are_added(cluster: Paper, answers: Answers) -> None:
    """One more than there are; proven when every node lists it with a leader."""
    cluster.views["t", 1] = WHOLE
    fault = AddPartitions(context_on(cluster, AddPartitions))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "t gets 3 partitions instead of 2"
    fault.inject()
    assert answers.asked == [("h:1", "add", ("t", 3))]
    assert fault.proof() is None
    cluster.views["t", 2] = PartitionView(-1, 0, (1, 2, 3), ())
    assert fault.proof() is None
    cluster.views["t", 2] = WHOLE
    cluster.told[3] = {("t", 2): PartitionView(-1, 0, (1, 2, 3), ())}
    assert fault.proof() is None
    cluster.told.clear()
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "3 nodes list 3 partitions of t with leaders, after 0.0 s"
    assert (bite.topic, bite.partition) == ("t", 2)
    fault.undo()
    assert fault.healed() == ""
    assert answers.requests() == ["add"]


def test_partitions_are_added_up_to_a_number(cluster: Paper, answers: Answers) -> None:
    """A topic that has that many is no victim; an answer that was lost does not count twice."""
    assert AddPartitions(context_on(cluster, AddPartitions, to=1)).aim() is None
    fault = AddPartitions(context_on(cluster, AddPartitions, to=7))
    fault.aim()
    answers.codes = [41, 37]
    fault.inject()
    assert [what for *_, what in answers.asked] == [("t", 7)] * 2


def test_followers_are_taken_away_and_given_back(cluster: Paper, answers: Answers) -> None:
    """Proven when neither replicas nor in-sync ones are left; healed when nothing is being copied."""
    fault = ShrinkReplicas(context_on(cluster, ShrinkReplicas))
    cluster.views[T0] = PartitionView(2, 4, (1, 2, 3), (1, 2, 3))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "t-0 keeps 1 of 3 replicas"
    fault.inject()
    assert answers.asked == [("h:1", "reassign", {T0: (2,)})]
    assert fault.proof() is None
    cluster.views[T0] = PartitionView(2, 5, (2,), (1, 2))
    assert fault.proof() is None
    cluster.views[T0] = PartitionView(2, 6, (2,), (2,))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "t-0 has 1 of its 3 replicas, and 1 in sync (2), 0.0 s after the reassignment"
    assert (bite.node, bite.leader, bite.leader_epoch) == (2, 2, 6)
    fault.undo()
    assert answers.asked[1:] == [("h:1", "reassign", {T0: (1, 2, 3)})]
    assert fault.healed() == "t-0 does not have its 3 replicas yet"
    cluster.views[T0] = PartitionView(2, 6, (1, 2, 3), (2,))
    answers.moving = True
    assert fault.healed() == "t-0 is still being reassigned"
    answers.moving = False
    assert fault.healed() == ""


def test_a_replica_that_is_down_need_not_be_copied_to(cluster: Paper, answers: Answers) -> None:
    """Another fault is to blame; it goes on when the node is back."""
    fault = ShrinkReplicas(context_on(cluster, ShrinkReplicas))
    fault.aim()
    answers.moving = True
    cluster.dead = {3}
    assert fault.healed() == ""


def test_replicas_can_be_two(cluster: Paper, answers: Answers) -> None:
    """The leader is always among them; a partition with as many is no victim."""
    cluster.views[T0] = PartitionView(3, 4, (1, 2, 3), (1, 2, 3))
    fault = ShrinkReplicas(context_on(cluster, ShrinkReplicas, to=2))
    fault.aim()
    assert fault.kept == (3, 1)
    assert ShrinkReplicas(context_on(cluster, ShrinkReplicas, to=3)).aim() is None
    with pytest.raises(ClusterError, match="call aim"):
        ShrinkReplicas(context_on(cluster, ShrinkReplicas)).inject()


def test_a_topic_is_created_as_it_was(cluster: Paper, answers: Answers) -> None:
    """The same replicas and settings of its own; proven by another id on all nodes."""
    answers.settings = {"min.insync.replicas": "2", "retention.ms": "5"}
    cluster.views["t", 1] = PartitionView(2, 4, (2, 3, 1), (1, 2, 3))
    fault = RecreateTopic(context_on(cluster, RecreateTopic))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "t with 2 partitions is deleted and created again"
    fault.inject()
    as_it_was = ("t", {0: (1, 2, 3), 1: (2, 3, 1)}, answers.settings)
    assert answers.asked == [("h:1", "delete", "t"), ("h:1", "create", as_it_was)]
    del cluster.views["t", 1]
    assert fault.proof() is None
    cluster.views["t", 1] = WHOLE
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "3 nodes know t by another id (id-2), after 0.0 s"
    answers.topic_id = "id-1"
    assert fault.proof() is None
    fault.undo()
    assert answers.topic_id == "id-1"
    assert fault.healed() == ""


def test_a_topic_that_was_only_deleted_is_created_by_the_undo(cluster: Paper, answers: Answers) -> None:
    """Whatever kept it from being created."""
    fault = RecreateTopic(context_on(cluster, RecreateTopic))
    fault.aim()
    answers.codes = [0, *[41] * 1000]
    with pytest.raises(ClusterError, match="creating t was not done"):
        fault.inject()
    assert fault.healed() == "not every node knows t"
    answers.codes.clear()
    fault.undo()
    assert answers.topic_id == "id-2"
    assert fault.healed() == ""


def test_a_topic_that_is_not_forgotten_is_an_error(
    cluster: Paper, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there again after the undo."""
    fault = RecreateTopic(context_on(cluster, RecreateTopic))
    fault.aim()
    with monkeypatch.context() as patch:
        patch.setattr("nemesis.topics.topic_ids", lambda _, __: {1: None, 2: "id-1"})
        with pytest.raises(ClusterError, match="20 s later nodes still knew it"):
            fault.inject()
    assert answers.topic_id is None
    fault.undo()
    assert answers.topic_id == "id-2"


def test_nothing_is_created_that_was_not_deleted(cluster: Paper, answers: Answers) -> None:
    """An undo after an injection that could not begin."""
    fault = RecreateTopic(context_on(cluster, RecreateTopic))
    fault.aim()
    answers.refusing = {"h:1", "h:2", "h:3"}
    with pytest.raises(ClusterError, match="asking for the settings of t"):
        fault.inject()
    answers.refusing = set()
    fault.undo()
    assert answers.asked == []


@pytest.mark.parametrize("own", [{}, {"min.insync.replicas": "1"}], ids=["default", "own value"])
def test_min_isr_is_changed_and_changed_back(cluster: Paper, answers: Answers, own: dict[str, str]) -> None:
    """To what it was: a value of its own, or none."""
    answers.settings = dict(own)
    fault = MinIsr(context_on(cluster, MinIsr))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "min.insync.replicas of t becomes 3"
    fault.undo()
    assert fault.healed() == ""
    assert answers.asked == []
    fault.inject()
    assert answers.settings == {"min.insync.replicas": "3"}
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "3 nodes say that min.insync.replicas of t is 3, after 0.0 s"
    assert fault.healed().startswith("min.insync.replicas of t is not back on node 1; ")
    fault.undo()
    assert answers.settings == own
    assert fault.healed() == ""
    assert fault.proof() is None


def test_min_isr_that_is_so_already_is_no_fault(cluster: Paper, answers: Answers) -> None:
    """Nothing would change; nor is it known whether, when nobody says what it is."""
    assert MinIsr(context_on(cluster, MinIsr, to=2)).aim() is None
    assert MinIsr(context_on(cluster, MinIsr, to=1)).aim() is not None
    answers.refusing = {"h:1", "h:2", "h:3"}
    assert MinIsr(context_on(cluster, MinIsr, to=1)).aim() is None


def test_the_family() -> None:
    """Their names; which of them let nothing through, delete, and are drawn by chance."""
    assert [fault.name for fault in FAULTS] == ["add-partitions", "shrink-replicas", "recreate-topic", "min-isr"]
    assert [fault.name for fault in FAULTS if fault.blocks] == ["shrink-replicas", "recreate-topic", "min-isr"]
    assert [fault.name for fault in FAULTS if fault.deletes] == ["recreate-topic"]
    assert [fault.name for fault in FAULTS if fault.tame] == ["shrink-replicas", "min-isr"]
