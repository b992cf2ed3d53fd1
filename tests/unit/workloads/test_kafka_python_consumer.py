"""kafka-python as a consumer that finds nobody: errors are answers, nothing is left behind, and it is tried again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from harness.foundation.error_codes import UNNUMBERED, code_of
from harness.foundation.security import Security
from harness.history.outcomes import is_classified, outcome
from harness.history.schema import F, Type
from tests.support import eventually
from tests.support.worker_sessions import silent_broker
from workloads.clients import kafka_python
from workloads.clients.base import BEGINNING, Consumer, PolledRecords
from workloads.clients.kafka_python import NOT_CONNECTED, KafkaPythonConsumer
from workloads.clients.settings import ClientSettings

ZERO, ONE = ("t", 0), ("t", 1)
LATE = code_of(KafkaTimeoutError())


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """One that has not been told what to read."""
    with silent_broker() as address:
        yield KafkaPythonConsumer(ClientSettings(client="kafka-python"), [address], Security(), "test")


class Library:
    """A `KafkaConsumer` that takes what it is given."""

    made: list[Library]

    def __init__(self, **options: Any) -> None:
        assert options["bootstrap_timeout_ms"] == kafka_python.BOOTSTRAP_S * 1000
        Library.made.append(self)
        self.took: list[TopicPartition] = []

    def assign(self, places: list[TopicPartition]) -> None:
        """All of it."""
        self.took = places

    def seek_to_beginning(self, place: TopicPartition) -> None:
        """Done."""

    def seek(self, place: TopicPartition, _offset: int) -> None:
        """Where it is assigned."""
        if place not in self.took:
            raise ValueError("Unassigned partition")

    def poll(self, **_: Any) -> dict[TopicPartition, Any]:
        """Nothing."""
        return {}


def test_a_cluster_that_is_not_there_is_an_answer(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time-out of ours, which the table knows; no thread of the library outlives the attempt."""
    monkeypatch.setattr(kafka_python, "BOOTSTRAP_S", 0.1)
    before = set(threading.enumerate())
    for error in (consumer.assign({ZERO: BEGINNING}), consumer.subscribe(["t"], "g", lambda _: None)):
        assert error is not None
        assert is_classified(F.ASSIGN, error.code)
        assert outcome(F.ASSIGN, error.code) is Type.INFO
    assert consumer.position(ZERO) is None
    assert consumer.end_offsets([ZERO], 1) == {}
    assert consumer.seek({ZERO: 5}) == {ZERO: NOT_CONNECTED}
    consumer.close()
    eventually(lambda: set(threading.enumerate()) <= before, "the threads of the library are gone")


def test_nobody_is_polled_who_was_told_nothing(consumer: Consumer) -> None:
    """An error, and not an empty answer."""
    assert consumer.poll(10, 0) == PolledRecords(errors=[NOT_CONNECTED])


def test_a_poll_tries_again(consumer: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be taken is taken then."""
    Library.made = []

    def fail(**_: Any) -> None:
        raise KafkaTimeoutError("nobody there")

    monkeypatch.setattr(kafka_python, "KafkaConsumer", fail)
    assert consumer.assign({ZERO: BEGINNING}) is not None
    assert [error.code for error in consumer.poll(10, 0).errors] == [LATE]
    monkeypatch.setattr(kafka_python, "KafkaConsumer", Library)
    assert consumer.poll(10, 0) == PolledRecords()
    (library,) = Library.made
    assert library.took == [TopicPartition(*ZERO)]
    errors = consumer.seek({ZERO: 1, ONE: 2})
    assert {place: error.code for place, error in errors.items()} == {ONE: UNNUMBERED}
