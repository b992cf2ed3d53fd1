"""kafka-python as a member of a group: what can be seen of it without a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import OffsetAndMetadata
from kafka import TopicPartition as LibraryPartition
from kafka.errors import CommitFailedError, IllegalGenerationError, KafkaTimeoutError, NotCoordinatorError
from kafka.net.selector import NetworkSelector

from harness.foundation.error_codes import UNNUMBERED, code_of
from harness.history.outcomes import is_classified
from harness.history.schema import F
from tests.support.worker_sessions import session, settings_of
from workloads.clients import kafka_python
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.kafka_python import NOT_CONNECTED
from workloads.clients.kafka_python_group import KafkaPythonMember, _commit_error, _Listener
from workloads.clients.member import Joining


class Notes:
    """A listener that writes down what it is told, and on which thread."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.threads: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def assigned(self, places: Sequence[TopicPartition]) -> None:
        """Note."""
        self._note("assigned", places)

    def revoked(self, places: Sequence[TopicPartition]) -> None:
        """Note."""
        self._note("revoked", places)

    def lost(self, places: Sequence[TopicPartition]) -> None:
        """Note."""
        self._note("lost", places)

    def committed(self, offsets: Mapping[TopicPartition, int], error: ClientError | None, began: int | None) -> None:
        """Note."""
        self._note("committed", (dict(offsets), error, began is not None))

    def _note(self, what: str, value: Any) -> None:
        self.told.append((what, value))
        self.threads.append(threading.current_thread().name)
        self.meanwhile()


@pytest.fixture
def net() -> Iterator[Any]:
    """The thread of the library."""
    net = NetworkSelector()
    net.start()
    yield net
    net.stop()
    net.close()


PLACES = {LibraryPartition("t", 2), LibraryPartition("t", 0)}


def test_a_listener_may_block(net: Any) -> None:
    """It is not on the library's thread, which goes on meanwhile and can be asked."""
    notes = Notes()
    answers = []
    notes.meanwhile = lambda: answers.append(net.run(lambda: 7))
    listener = _Listener(notes, net)
    net.run(listener.on_partitions_revoked, PLACES)
    assert answers == [7]


def test_what_a_listener_is_told(net: Any) -> None:
    """In order, and nothing of nothing."""
    notes = Notes()
    listener = _Listener(notes, net)
    for tell in (listener.on_partitions_assigned, listener.on_partitions_revoked, listener.on_partitions_lost):
        net.run(tell, PLACES)
        net.run(tell, set())
    places = [("t", 0), ("t", 2)]
    assert notes.told == [("assigned", places), ("revoked", places), ("lost", places)]
    assert set(notes.threads) == {"listener"}


def test_what_a_listener_raises_comes_out(net: Any) -> None:
    """Where the library waits for it."""
    notes = Notes()

    def fail() -> None:
        raise LookupError("no such thing")

    notes.meanwhile = fail
    with pytest.raises(LookupError, match="no such thing"):
        net.run(_Listener(notes, net).on_partitions_lost, PLACES)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommitFailedError(IllegalGenerationError("g")), 22),
        (NotCoordinatorError("g"), 16),
        (CommitFailedError("not part of an active group"), code_of(CommitFailedError())),
    ],
)
def test_commit_errors_are_those_of_the_broker(error: Any, code: int) -> None:
    """Unwrapped, where there is something inside."""
    assert _commit_error(error).code == code


def member_of(directory: Path) -> KafkaPythonMember:
    """A member of a cluster that nobody listens at, which commits by itself."""
    at = session(directory, "groups", settings={"client": "kafka-python"})
    return KafkaPythonMember(settings_of(at), at.addresses, at.security, at.client_id, Joining("g", automatic=True))


def test_a_cluster_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, nothing left open, and a member that can still be polled and left."""
    closed: list[bool] = []

    def connect(**_: Any) -> Any:
        return type("Connections", (), {"close": lambda _: closed.append(True)})()

    def fail(**options: Any) -> None:
        options["kafka_client"](**options)
        raise KafkaTimeoutError

    monkeypatch.setattr(kafka_python, "connections_to", lambda _: connect)
    monkeypatch.setattr(kafka_python, "KafkaConsumer", fail)
    member = member_of(tmp_path)
    assert isinstance(member.join(["t"], Notes()), ClientError)
    assert closed == [True]
    assert member.poll(10, 0.01) == PolledRecords(errors=[NOT_CONNECTED])
    assert is_classified(F.POLL, NOT_CONNECTED.code)
    assert member.commit({("t", 0): 5}) == member.seek({("t", 0): 5}) == {("t", 0): NOT_CONNECTED}
    assert member.committed([("t", 0)], 1) == NOT_CONNECTED
    assert member.leave() is None
    member.drop()


class Broken:
    """A library that raises what is no error of its own."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(f"no {name}")


def test_whatever_the_library_raises_is_an_answer(tmp_path: Path) -> None:
    """One that nobody has thought about."""
    member = member_of(tmp_path)
    member._consumer = Broken()
    errors = [
        *member.poll(10, 0.01).errors,
        *member.commit({("t", 0): 5}).values(),
        member.committed([("t", 0)], 1),
        member.leave(),
    ]
    assert [error.code for error in errors if isinstance(error, ClientError)] == [UNNUMBERED] * 4


def test_going_back_fails_where_the_partition_is_somebody_elses(tmp_path: Path) -> None:
    """And there alone."""
    member, sought = member_of(tmp_path), []

    def seek(_: Any, place: LibraryPartition, offset: int) -> None:
        if place.partition == 1:
            raise ValueError("Unassigned partition")
        sought.append((place.partition, offset))

    member._consumer = type("Consumer", (), {"seek": seek})()
    errors = member.seek({("t", 0): 5, ("t", 1): 6, ("t", 2): 7})
    assert errors == {("t", 1): ClientError(UNNUMBERED, "Unassigned partition")}
    assert sought == [(0, 5), (2, 7)]


class Coordinator:
    """Sends commits, or fails to."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def _send_offset_commit_request(self, offsets: Any) -> None:
        if self.error:
            raise self.error


def test_commits_of_the_library_itself(tmp_path: Path, net: Any) -> None:
    """Every request is told of, in order, by the thread that polls; the library still sees its errors."""
    member, notes, coordinator = member_of(tmp_path), Notes(), Coordinator()
    member._listener = notes
    member._consumer = type("Consumer", (), {"_coordinator": coordinator})
    member._watch_commits()
    net.run(coordinator._send_offset_commit_request, {LibraryPartition("t", 1): OffsetAndMetadata(5, "", -1)})
    coordinator.error = NotCoordinatorError("g")
    with pytest.raises(NotCoordinatorError):
        net.run(coordinator._send_offset_commit_request, {LibraryPartition("t", 1): OffsetAndMetadata(6, "", -1)})
    assert notes.told == []
    member._tell_commits()
    (_, first), (_, second) = notes.told
    assert first == ({("t", 1): 5}, None, True)
    assert second[0] == {("t", 1): 6}
    assert second[1].code == 16
    assert set(notes.threads) == {threading.current_thread().name}
