"""Admin requests to nodes that exist on paper only."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import ListGroupsResponse

from harness.foundation.errors import ClusterError
from nemesis.admin.asking import try_once, until_done
from nemesis.admin.coordinators import GROUP, TRANSACTION, coordinators, find_coordinator, quorum, quorum_leader
from nemesis.admin.replicas import election, eligible_leaders, is_reassigning, reassignment
from nemesis.admin.topics import (
    TopicSetting,
    creation,
    deletion,
    more_partitions,
    setting,
    setting_by_node,
    settings_of,
    topic_ids,
)
from tests.support.fake_cluster import Answers, Paper, paper_answers, paper_cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    return paper_cluster(monkeypatch)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes."""
    return paper_answers(monkeypatch)


def test_a_change_is_asked_of_the_next_node_when_one_is_down(cluster: Paper, answers: Answers) -> None:
    """And of no other when that one has done it."""
    answers.refusing = {"h:1"}
    until_done(cluster, "adding", more_partitions("t", 5), {0})
    assert answers.asked == [("h:2", "add", ("t", 5))]


def test_a_change_is_asked_for_until_all_parts_of_it_are_done(cluster: Paper, answers: Answers) -> None:
    """One of two partitions is not enough."""
    answers.codes = [0, 41, 0, 0]
    until_done(cluster, "moving", reassignment({("t", 0): (1, 2), ("t", 1): (2, 1)}), {0})
    assert [address for address, *_ in answers.asked] == ["h:1", "h:2"]


def test_a_change_that_is_never_done_is_an_error(cluster: Paper, answers: Answers) -> None:
    """With what each node said."""
    answers.refusing = {"h:3"}
    answers.codes = [41] * 1000
    with pytest.raises(ClusterError, match=r"deleting t was not .*node 1 says NotC.*\(because\).*h:3 refuses"):
        until_done(cluster, "deleting t", deletion("t"), {0})


def test_one_try_says_what_was_in_the_way(cluster: Paper, answers: Answers) -> None:
    """Nothing when nothing was."""
    call = election([("t", 0)], 1)
    answers.top_codes = [41]
    assert "node 1 says NotControllerError" in try_once(cluster.nodes[0], call, {0})
    assert try_once(cluster.nodes[0], call, {0}) == ""
    answers.refusing = {"h:1"}
    assert try_once(cluster.nodes[0], call, {0}) == "h:1 refuses connections"


def test_settings_are_told_apart_from_defaults(cluster: Paper, answers: Answers) -> None:
    """A topic's own are those that were given for it."""
    until_done(cluster, "setting", setting("t", "retention.ms", "5"), {0})
    found = settings_of(cluster, "t")
    assert found["retention.ms"] == TopicSetting("5", own=True)
    assert found["min.insync.replicas"] == TopicSetting("2", own=False)
    until_done(cluster, "setting", setting("t", "retention.ms", None), {0})
    assert settings_of(cluster, "t")["retention.ms"] == TopicSetting("604800000", own=False)


def test_a_setting_is_told_by_each_node_that_answers(cluster: Paper, answers: Answers) -> None:
    """Others are left out, and so is a setting that there is not."""
    answers.refusing = {"h:2"}
    assert setting_by_node(cluster, "t", "min.insync.replicas") == dict.fromkeys((1, 3), TopicSetting("2", own=False))
    assert setting_by_node(cluster, "t", "no.such.thing") == {}


def test_a_topic_has_another_id_when_it_is_made_again(cluster: Paper, answers: Answers) -> None:
    """And none between."""
    answers.refusing = {"h:2"}
    assert topic_ids(cluster, "t") == {1: "id-1", 3: "id-1"}
    until_done(cluster, "deleting", deletion("t"), {0})
    assert topic_ids(cluster, "t") == {1: None, 3: None}
    until_done(cluster, "creating", creation("t", {0: (1, 2), 1: (2, 1)}, {"a": "b"}), {0})
    assert topic_ids(cluster, "t") == {1: "id-2", 3: "id-2"}
    assert answers.asked[-1] == ("h:1", "create", ("t", {0: (1, 2), 1: (2, 1)}, {"a": "b"}))


def test_of_all_quorums_the_highest_epoch_counts(cluster: Paper, answers: Answers) -> None:
    """A node that is cut off tells an old story; nobody knows is None."""
    assert quorum(cluster) is None
    assert quorum_leader(cluster) is None
    answers.quorum = {"h:1": (3, 7), "h:2": (1, 9), "h:3": (2, 8)}
    assert quorum(cluster) == (1, 9)
    assert quorum_leader(cluster) == 1
    answers.quorum["h:2"] = (-1, 10)
    assert quorum(cluster) == (2, 8)


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
def test_coordinators_are_those_that_have_something_to_do(cluster: Paper, answers: Answers, kind: int) -> None:
    """By their own word."""
    answers.busy = {"h:3", "h:2"}
    assert coordinators(cluster, kind) == [2, 3]
    answers.refusing = {"h:2"}
    assert coordinators(cluster, kind) == [3]


def test_old_brokers_say_what_groups_they_coordinate(cluster: Paper, answers: Answers) -> None:
    """2.1 knows the request up to its second version, and closes connections on which it is asked in a newer one."""
    answers.busy = {"h:2"}
    answers.newest = {ListGroupsResponse: 2}
    assert coordinators(cluster, GROUP) == [2]


def test_a_coordinator_may_not_exist_yet(cluster: Paper, answers: Answers) -> None:
    """Its topic is made when it is asked for the first time."""
    assert find_coordinator(cluster, GROUP, "g") is None
    answers.coordinator = 2
    assert find_coordinator(cluster, GROUP, "g") == 2


def test_a_reassignment_under_way_is_told(cluster: Paper, answers: Answers) -> None:
    """None when nobody tells."""
    assert is_reassigning(cluster, "t", 0) is False
    answers.moving = True
    assert is_reassigning(cluster, "t", 0) is True
    answers.refusing = {"h:1", "h:2", "h:3"}
    assert is_reassigning(cluster, "t", 0) is None


def test_eligible_leaders_are_told_by_those_that_know_of_them(cluster: Paper, answers: Answers) -> None:
    """Nobody eligible is something else than not knowing."""
    assert eligible_leaders(cluster, "t", 0) is None
    answers.eligible = []
    assert eligible_leaders(cluster, "t", 0) == ()
    answers.eligible = [3]
    assert eligible_leaders(cluster, "t", 0) == (3,)
    assert eligible_leaders(cluster, "t", 1) is None
