"""confluent-kafka as a member of a group: what can be seen of it without a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibraryPartition

from harness.history.outcomes import is_classified, outcome
from harness.history.schema import F, Type
from tests.support import PATIENCE_S
from tests.support.worker_sessions import session, settings_of
from workloads.clients import confluent_group
from workloads.clients.base import ClientError, TopicPartition
from workloads.clients.confluent_group import TIMED_OUT, WRONG_STATE, ConfluentMember
from workloads.clients.member import Joining

ZERO, ONE = ("t", 0), ("t", 1)


class Library:
    """A consumer whose commits wait until they may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.threads: list[threading.Thread] = []
        self.wrong: dict[int, int] = {}  # errors of seeks, by partition
        self.closed = False

    def commit(self, offsets: list[LibraryPartition], *, asynchronous: bool) -> list[LibraryPartition]:
        """All of it, in the end."""
        assert not asynchronous
        self.threads.append(threading.current_thread())
        assert self.go_on.wait(PATIENCE_S)
        return offsets

    def seek(self, place: LibraryPartition) -> None:
        """As told."""
        if place.partition in self.wrong:
            raise KafkaException(KafkaError(self.wrong[place.partition]))

    def close(self) -> None:
        """Remember."""
        self.closed = True


@pytest.fixture
def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ConfluentMember, Library]:
    """One over that library."""
    at = session(tmp_path, "groups")
    made = ConfluentMember(settings_of(at), at.addresses, at.security, at.client_id, Joining("g"))
    made._consumer = library = Library()
    monkeypatch.setattr(confluent_group, "SEEK_S", 0)
    return made, library


def within(member: ConfluentMember, call: Callable[[], Any]) -> Any:
    """What a call says that is made in a callback of the library."""
    said: list[Any] = []
    member._tell(lambda _: said.append(call()), [LibraryPartition(*ZERO)])
    return said[0]


def test_a_commit_is_waited_for(member: tuple[ConfluentMember, Library]) -> None:
    """And then there is nothing to say."""
    made, library = member
    assert made.commit({ZERO: 5, ONE: 6}) == {}
    assert made.leave() is None
    assert library.closed


def test_a_commit_is_waited_for_no_longer_than_a_member_may_stand_still(
    member: tuple[ConfluentMember, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what becomes of it; and the library is not closed while it is at it."""
    made, library = member
    monkeypatch.setattr(confluent_group, "COMMIT_S", 0.05)
    library.go_on.clear()
    errors = made.commit({ZERO: 5, ONE: 6})
    assert {place: error.code for place, error in errors.items()} == {ZERO: TIMED_OUT, ONE: TIMED_OUT}
    assert is_classified(F.COMMIT, TIMED_OUT)
    assert outcome(F.COMMIT, TIMED_OUT) is Type.INFO
    left = made.leave()
    assert left is not None
    assert outcome(F.LEAVE, left.code) is Type.INFO
    assert not library.closed
    library.go_on.set()
    library.threads[0].join(PATIENCE_S)


def test_a_commit_that_came_through_late_does_not_keep_the_member(
    member: tuple[ConfluentMember, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves in order."""
    made, library = member
    monkeypatch.setattr(confluent_group, "COMMIT_S", 0.05)
    library.go_on.clear()
    assert made.commit({ZERO: 5})
    library.go_on.set()
    library.threads[0].join(PATIENCE_S)
    assert made.leave() is None
    assert library.closed


def test_within_a_callback_a_commit_is_made_at_once_or_not_at_all(
    member: tuple[ConfluentMember, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library answers no other thread there; while one is without an answer, nothing is asked."""
    made, library = member
    assert within(made, lambda: made.commit({ZERO: 5})) == {}
    assert library.threads == [threading.current_thread()]
    monkeypatch.setattr(confluent_group, "COMMIT_S", 0.05)
    library.go_on.clear()
    assert made.commit({ZERO: 6})
    errors: dict[TopicPartition, ClientError] = within(made, lambda: made.commit({ZERO: 6, ONE: 6}))
    assert {place: error.code for place, error in errors.items()} == {ZERO: TIMED_OUT, ONE: TIMED_OUT}
    library.go_on.set()
    library.threads[1].join(PATIENCE_S)
    assert library.threads[1] is not threading.current_thread()
    assert within(made, lambda: made.commit({ZERO: 6})) == {}
    assert len(library.threads) == 3


def test_going_back_may_work_in_some_partitions_alone(member: tuple[ConfluentMember, Library]) -> None:
    """One that is refused does not keep the others."""
    made, library = member
    library.wrong = {0: WRONG_STATE}
    errors = made.seek({ZERO: 5, ONE: 6})
    assert {place: error.code for place, error in errors.items()} == {ZERO: WRONG_STATE}
