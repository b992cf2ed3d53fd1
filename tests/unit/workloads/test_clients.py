"""Settings of clients, and both stacks behind their common interface."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, NotLeaderForPartitionError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from harness.foundation.config import parse
from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.foundation.errors import UsageError
from harness.foundation.security import Security
from tests.support import PATIENCE_S
from tests.support.worker_sessions import NOBODY
from workloads.clients import kafka_python, make_producer
from workloads.clients.base import DeliveredMessages, Producer
from workloads.clients.confluent import ConfluentConsumer, ConfluentProducer
from workloads.clients.settings import BLOCK_AT_MOST_S, ClientSettings

PLAIN = Security()
TOO_LARGE = b"x" * 2_000_000


def settings(**given: Any) -> ClientSettings:
    """Client settings."""
    return parse(ClientSettings, given, "here")


@pytest.mark.parametrize(
    ("given", "normal"), [(0, "0"), (1, "1"), ("all", "all"), (-1, "all"), ("-1", "all"), ("0", "0")]
)
def test_acks_may_be_written_as_people_do(given: object, normal: str) -> None:
    """As a number or a text."""
    assert settings(acks=given).acks == normal


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"acks": 2}, "acks"),
        ({"acks": 1, "idempotence": True}, "idempotence needs acks=all"),
        ({"idempotence": True, "max_in_flight": 6}, "max_in_flight up to 5"),
        ({"idempotence": True, "retries": 0}, "retries above 0"),
        ({"client": "kafka-python", "compression": "zstd"}, "take gzip"),
        ({"bootstrap": []}, "bootstrap needs at least one"),
        ({"client": "sarama"}, "client"),
        ({"linger": 5}, "unknown key 'linger'"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given: dict[str, Any], says: str) -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="here") as refused:
        settings(**given)
    assert says in str(refused.value)


@pytest.mark.parametrize("name", list(ClientSettings.model_fields))
def test_every_setting_is_described(name: str) -> None:
    """For the schema and the manual."""
    assert ClientSettings.model_fields[name].description


def test_bootstrap_chooses_addresses() -> None:
    """The first, all, or a list of one's own."""
    assert settings(bootstrap="first").servers(["a:1", "b:2"]) == ["a:1"]
    assert settings().servers(["a:1", "b:2"]) == ["a:1", "b:2"]
    assert settings(bootstrap=["c:3"]).servers(["a:1", "b:2"]) == ["c:3"]


def drained(producer: Producer, count: int) -> DeliveredMessages:
    """What has an outcome, when that many have."""
    deadline = time.monotonic() + PATIENCE_S
    found = DeliveredMessages([], [], {})
    while len(found.payloads) < count and time.monotonic() < deadline:
        more = producer.delivered(0.1)
        errors = {len(found.payloads) + index: error for index, error in more.errors.items()}
        found = DeliveredMessages(
            found.payloads + more.payloads, found.offsets + more.offsets, {**found.errors, **errors}
        )
    return found


def test_confluent_kafka_reports_what_it_refused_and_what_it_gave_up() -> None:
    """Told apart: the one was never sent, nobody knows about the other."""
    producer = make_producer(settings(delivery_timeout_ms=100, linger_ms=0), [NOBODY], PLAIN, "test")
    assert isinstance(producer, ConfluentProducer)
    producer.send("topic", [0, 1], [TOO_LARGE, b"small"])
    found = drained(producer, 2)
    outcomes = {len(found.payloads[index]): error.code for index, error in found.errors.items()}
    assert outcomes[len(TOO_LARGE)] == REFUSED_LOCALLY
    assert outcomes[len(b"small")] < 0
    assert outcomes[len(b"small")] != REFUSED_LOCALLY
    assert producer.outstanding == 0
    producer.close(0)


def test_a_full_queue_of_confluent_kafka_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its manual says: deliveries are served until there is room, and nothing is sent twice."""
    producer = ConfluentProducer(settings(), [NOBODY], PLAIN, "test")
    library = _FullTwice()
    monkeypatch.setattr(producer, "_producer", library)
    producer.send("topic", [0, 1], [b"a", b"b"])
    assert library.taken == [b"a", b"b"]
    assert library.polls == 2


def test_a_queue_of_confluent_kafka_that_stays_full_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the rest of the chunk is refused: it was never sent."""
    producer = ConfluentProducer(settings(), [NOBODY], PLAIN, "test")
    library = _FullTwice()
    clock = itertools.chain([0.0, 1.0], itertools.repeat(BLOCK_AT_MOST_S))
    monkeypatch.setattr(producer, "_producer", library)
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(clock))
        producer.send("topic", [0, 1, 2], [b"a", b"b", b"c"])
    assert library.polls == 1
    found = producer.delivered(0)
    assert found.payloads == [b"a", b"b", b"c"]
    assert {error.code for error in found.errors.values()} == {REFUSED_LOCALLY}
    assert "was full for 10 s" in found.errors[0].text


class _FullTwice:
    """Has room after two polls."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.polls = 0

    def produce(self, _topic: str, value: bytes, *_: object) -> None:
        """Refuse as long as it is full."""
        if self.polls < 2:
            raise BufferError
        self.taken.append(value)

    def poll(self, _timeout_s: float) -> int:
        """Room comes with polls."""
        self.polls += 1
        return 0


class _Library:
    """In place of KafkaProducer: futures that a test completes."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.futures: list[FutureRecordMetadata] = []

    def send(self, topic: str, value: bytes, partition: int) -> FutureRecordMetadata:
        """A future, or what the library raises."""
        if len(value) > 1000:
            raise MessageSizeTooLargeError("too large")
        if value == b"no metadata":
            raise KafkaTimeoutError("no metadata")
        future = FutureRecordMetadata(FutureProduceResult((topic, partition)), 0, 0, None, -1, len(value), -1)
        self.futures.append(future)
        return future

    def close(self, timeout: float) -> None:
        """Nothing to do."""


@pytest.fixture
def kafka_python_producer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Producer, _Library]]:
    """A producer over futures that the test completes, and the library."""

    def make(**given: Any) -> tuple[Producer, _Library]:
        monkeypatch.setattr(kafka_python, "KafkaProducer", _Library)
        producer = make_producer(settings(client="kafka-python", **given), [NOBODY], PLAIN, "test")
        assert isinstance(producer, kafka_python.KafkaPythonProducer)
        return producer, producer._producer

    return make


def test_kafka_python_hands_back_what_its_futures_say(
    kafka_python_producer: Callable[..., tuple[Producer, _Library]],
) -> None:
    """In the order in which they end, each with its own payload."""
    producer, library = kafka_python_producer()
    producer.send("topic", [0, 1, 2], [b"a", b"b", b"c"])
    assert producer.outstanding == 3
    assert producer.delivered(0).payloads == []
    library.futures[2]._produce_success((40, -1, None))
    library.futures[0].failure(NotLeaderForPartitionError("moved"))
    found = producer.delivered(0)
    assert found.payloads == [b"c", b"a"]
    assert found.offsets[0] == 40
    assert {index: error.code for index, error in found.errors.items()} == {1: 6}
    assert producer.outstanding == 1


@pytest.mark.parametrize("value", [b"x" * 1001, b"no metadata"])
def test_what_kafka_python_refuses_was_never_sent(
    kafka_python_producer: Callable[..., tuple[Producer, _Library]], value: bytes
) -> None:
    """It turns up among the delivered, as refused."""
    producer, _ = kafka_python_producer()
    producer.send("topic", [0], [value])
    found = producer.delivered(0)
    assert [error.code for error in found.errors.values()] == [REFUSED_LOCALLY]
    assert producer.outstanding == 0


def test_kafka_python_waits_for_metadata_once_in_a_chunk(
    kafka_python_producer: Callable[..., tuple[Producer, _Library]],
) -> None:
    """What comes after the first time-out is refused at once."""
    producer, library = kafka_python_producer()
    producer.send("topic", [0, 1, 2, 0], [b"a", b"no metadata", b"b", b"c"])
    assert len(library.futures) == 1
    found = producer.delivered(0)
    assert found.payloads == [b"no metadata", b"b", b"c"]
    assert [error.code for error in found.errors.values()] == [REFUSED_LOCALLY] * 3
    assert found.offsets == [-1] * 3
    assert producer.outstanding == 1


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"idempotence": False}, False),
        ({"acks": 1}, False),
        ({"retries": 0}, False),
        ({"max_in_flight": 6}, False),
        ({"max_in_flight": 5, "retries": 3}, True),
        ({"client": "confluent-kafka"}, False),
        ({"client": "confluent-kafka", "idempotence": True}, True),
    ],
)
def test_idempotence_is_known_whoever_decides(given: dict[str, Any], idempotent: bool) -> None:  # noqa: FBT001
    """As given, or as the library does by itself."""
    assert settings(**{"client": "kafka-python", **given}).idempotent is idempotent


@pytest.mark.parametrize("given", [{}, {"retries": 0}, {"idempotence": False}])
def test_idempotence_is_never_left_to_kafka_python(
    kafka_python_producer: Callable[..., tuple[Producer, _Library]], given: dict[str, Any]
) -> None:
    """What runs is what the verdict believes."""
    _, library = kafka_python_producer(**given)
    assert library.options["enable_idempotence"] is (not given)


def test_kafka_python_is_told_what_was_set_and_nothing_else(
    kafka_python_producer: Callable[..., tuple[Producer, _Library]],
) -> None:
    """What is None is left to the library."""
    _, library = kafka_python_producer(acks=1, linger_ms=7, compression="gzip")
    assert library.options["acks"] == 1
    assert library.options["linger_ms"] == 7
    assert library.options["compression_type"] == "gzip"
    assert library.options["enable_idempotence"] is False
    assert "retries" not in library.options
    assert "batch_size" not in library.options


def test_consumers_say_which_rack_they_are_in() -> None:
    """In both libraries."""
    given = settings(client_rack="rack-1")
    assert ConfluentConsumer(given, [NOBODY], PLAIN, "test")._options["client.rack"] == "rack-1"
    assert kafka_python.KafkaPythonConsumer(given, [NOBODY], PLAIN, "test")._options["client_rack"] == "rack-1"
