"""A member of a group, and the record of all it does; the library is one that does as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.history.schema import F, Type, now
from tests.support.group_histories import History, Row
from tests.support.scripted_member import (
    NOT_COORDINATOR,
    ONE,
    TOO_LARGE,
    TOPIC,
    TWO,
    ZERO,
    Library,
    given,
    lost,
    records,
    some,
    taken,
)
from tests.support.worker_sessions import session, settings_of
from workloads import membership
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.member import GroupListener
from workloads.membership import Member
from workloads.session import WorkerSession


class World:
    """A member, its library, and what they leave behind."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.library = Library()
        self.session: WorkerSession = session(directory, "groups", settings=settings)
        self.member = Member(self.session, settings_of(self.session), "run-g", self.library)

    def poll(self, *steps: Callable[[GroupListener], object]) -> PolledRecords:
        """One poll, in which this happens."""
        self.library.steps = list(steps)
        return self.member.poll()

    def rows(self, *kinds: F) -> list[Row]:
        """Completions of these kinds; all that was begun has an outcome."""
        history = History.of_segments([self.session.config.segment])
        assert history.without_outcome() == set()
        return history.ended(*kinds)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A member that has joined."""
    world = World(tmp_path)
    assert world.member.join({TOPIC: 0})
    return world


def test_a_membership_is_an_operation(world: World) -> None:
    """Everything refers to it, and says which group it is."""
    world.poll(given(ZERO, ONE), records((0, 7), (1, 3), (0, 8)))
    world.member.leave()
    (subscribed,) = world.rows(F.SUBSCRIBE)
    others = world.rows(F.ASSIGN, F.POLL, F.REVOKE, F.LEAVE)
    assert subscribed["name"] == "run-g"
    assert {row["member"] for row in [subscribed, *others]} == {subscribed["op"], world.member.id}
    assert [some(row, "partition", "offset", "generation", "detail", "type") for row in world.rows(F.ASSIGN)] == [
        (0, None, 4, "m-1", Type.OK),
        (1, None, 4, "m-1", Type.OK),
    ]
    assert [some(row, "count", "error", "generation") for row in world.rows(F.POLL)] == [(3, 0, 4)]


def test_positions_are_those_after_the_last_record(world: World) -> None:
    """Of what the member has; a record of what was taken in the same poll counts for nothing."""
    assert world.member.positions == {}
    world.poll(given(ZERO, ONE), records((0, 7), (1, 3), (0, 8)))
    assert world.member.owned == {ZERO, ONE}
    assert world.member.positions == {ZERO: 9, ONE: 4}
    world.poll(taken(ONE), records((1, 4)))
    assert world.member.owned == {ZERO}
    assert world.member.positions == {ZERO: 9}
    world.poll(given(ONE))
    assert world.member.positions == {ZERO: 9}


def test_what_is_asked_back_may_still_be_committed(world: World) -> None:
    """The partition is the member's own until the end of that, and no longer."""
    seen: list[set[TopicPartition]] = []

    def commit_them(places: Sequence[TopicPartition]) -> None:
        seen.append(world.member.owned)
        world.member.commit({place: world.member.positions[place] for place in places})

    world.member.on_revoke = commit_them
    world.poll(given(ZERO, ONE), records((0, 7), (1, 3)))
    world.poll(taken(ONE))
    assert seen == [{ZERO, ONE}]
    assert world.library.calls == [("commit", {ONE: 4})]
    (commit,), (revoke,) = world.rows(F.COMMIT), world.rows(F.REVOKE)
    assert some(commit, "partition", "offset", "type", "error", "generation", "name") == (1, 4, Type.OK, 0, 4, "run-g")
    assert some(revoke, "partition", "type") == (1, Type.OK)
    assert revoke["invoked"] <= commit["invoked"] <= commit["time"] <= revoke["time"]


def test_what_was_lost_is_not_let_go_in_order(world: World) -> None:
    """Nobody knows since when it is somebody else's; what was never given is not mentioned."""
    told: list[TopicPartition] = []
    world.member.on_lost = told.extend
    world.poll(given(ZERO))
    world.poll(lost(ZERO, ONE))
    assert told == [ZERO]
    assert [some(row, "partition", "type") for row in world.rows(F.REVOKE)] == [(0, Type.INFO)]


def test_whoever_has_slept_lets_go_of_what_may_be_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library may not know; what came after the sleep is not in doubt."""
    ahead = 0
    monkeypatch.setattr(membership, "now", lambda: now() + ahead)
    world.poll(given(ZERO))
    ahead = 4_000_000_000  # of a session of six seconds
    world.poll(given(ONE))
    world.poll(taken(ZERO, ONE))
    assert [some(row, "partition", "type") for row in world.rows(F.REVOKE)] == [(0, Type.INFO), (1, Type.OK)]


def test_commits_end_one_by_one(world: World) -> None:
    """As the table of errors says."""
    world.library.refuses = {ONE: NOT_COORDINATOR, TWO: TOO_LARGE}
    errors = world.member.commit({ZERO: 5, ONE: 6, TWO: 7})
    assert errors == world.library.refuses
    assert world.member.commit({}) == {}
    assert [some(row, "partition", "offset", "type", "error") for row in world.rows(F.COMMIT)] == [
        (0, 5, Type.OK, 0),
        (1, 6, Type.INFO, 16),
        (2, 7, Type.FAIL, 12),
    ]


def test_what_the_group_has_committed(world: World) -> None:
    """One operation per partition; -1 for nothing."""
    world.library.answer = {ZERO: 5}
    assert world.member.committed([ZERO, ONE]) == {ZERO: 5}
    world.library.answer = NOT_COORDINATOR
    assert world.member.committed([ONE]) == NOT_COORDINATOR
    assert world.member.committed([]) == {}
    assert [some(row, "partition", "offset", "type", "error") for row in world.rows(F.COMMITTED)] == [
        (0, 5, Type.OK, 0),
        (1, -1, Type.OK, 0),
        (1, None, Type.INFO, 16),
    ]


def test_commits_of_the_library_itself(world: World) -> None:
    """They were begun at the earliest when the position was reached, unless the library knows better."""
    world.poll(given(ZERO), records((0, 7)))
    world.poll(records((0, 8)))
    world.poll(lambda listener: listener.committed({ZERO: 8}, None, None))
    world.poll(taken(ZERO), lambda listener: listener.committed({ZERO: 9}, NOT_COORDINATOR, None))
    world.poll(lambda listener: listener.committed({ZERO: 3}, None, 123))
    polls, commits = world.rows(F.POLL), world.rows(F.COMMIT)
    assert [some(row, "offset", "type", "error") for row in commits] == [
        (8, Type.OK, 0),
        (9, Type.INFO, 16),
        (3, Type.OK, 0),
    ]
    assert [row["invoked"] for row in commits] == [polls[0]["invoked"], polls[1]["invoked"], 123]


def test_a_commit_of_a_position_that_nobody_read(world: World) -> None:
    """A library that has skipped markers: at the earliest when the partition was given."""
    world.poll(given(ZERO))
    world.poll(lambda listener: listener.committed({ZERO: 50}, None, None))
    (assign,), (commit,), (poll, _) = world.rows(F.ASSIGN), world.rows(F.COMMIT), world.rows(F.POLL)
    assert assign["time"] <= commit["invoked"] <= poll["time"]


def test_going_back(world: World) -> None:
    """An assignment with an offset, of what the member still has."""
    world.poll(given(ZERO, ONE), records((0, 7), (1, 3)))
    assert world.member.seek_back({ZERO: 2, TWO: 9}) == {}
    assert world.member.positions == {ZERO: 2, ONE: 4}
    world.library.refuses = {ONE: NOT_COORDINATOR}
    assert world.member.seek_back({ONE: 1, ZERO: 1}) == {ONE: NOT_COORDINATOR}
    assert world.member.positions == {ZERO: 1, ONE: 4}
    assert world.member.seek_back({TWO: 1}) == {}
    assert world.library.calls == [("seek", {ZERO: 2}), ("seek", {ONE: 1, ZERO: 1})]
    columns = ("partition", "offset", "type", "error", "detail")
    back = [some(row, *columns) for row in world.rows(F.ASSIGN) if row["offset"] is not None]
    assert back == [
        (0, 2, Type.OK, 0, None),
        (1, 1, Type.INFO, 16, "not the coordinator"),
        (0, 1, Type.OK, 0, None),
    ]


@pytest.mark.parametrize("error", [None, NOT_COORDINATOR])
def test_leaving(world: World, error: ClientError | None) -> None:
    """Partitions that the library mentions, and those that it forgets."""
    world.poll(given(ZERO, ONE))
    world.library.error, world.library.at_the_end = error, taken(ZERO)
    world.member.leave()
    type_ = Type.INFO if error else Type.OK
    assert [some(row, "partition", "type") for row in world.rows(F.REVOKE)] == [(0, Type.OK), (1, type_)]
    assert [some(row, "type", "error") for row in world.rows(F.LEAVE)] == [(type_, 16 if error else 0)]
    assert world.member.owned == set()


def test_dropping(world: World) -> None:
    """Nothing is let go, and nothing is the member's own any more."""
    world.poll(given(ZERO))
    world.member.drop()
    assert world.library.calls == ["drop"]
    assert [row["member"] for row in world.rows(F.CRASH)] == [world.member.id]
    assert world.rows(F.REVOKE) == []
    assert world.member.owned == set()


def test_a_join_that_is_refused(tmp_path: Path) -> None:
    """The record has the reason."""
    world = World(tmp_path)
    world.library.error = NOT_COORDINATOR
    assert not world.member.join({TOPIC: 0})
    assert [some(row, "type", "error", "detail") for row in world.rows(F.SUBSCRIBE)] == [
        (Type.INFO, 16, "not the coordinator")
    ]


def test_polls_in_a_transaction(world: World) -> None:
    """The poll and its records say so."""
    world.library.steps = [given(ZERO), records((0, 7))]
    world.member.poll(txn=99)
    history = History.of_segments([world.session.config.segment])
    assert [row["txn"] for row in world.rows(F.POLL)] == [99]
    assert [row["txn"] for row in history.records] == [99]
    assert [row["txn"] for row in history.invokes if row["f"] == F.POLL] == [99]
