"""Kafka's Java clients: what crosses over into the JVM and back, and what their exceptions mean.

The JVM, the classes and `MockProducer`, which is a part of Kafka's clients, are real; there is no broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype
import pytest

from harness.foundation.error_codes import NUMBERS, REFUSED_LOCALLY
from harness.foundation.errors import CannotHere
from harness.foundation.java import Java
from harness.foundation.progress import SilentProgress
from harness.foundation.security import Security
from harness.history.outcomes import is_classified
from harness.history.schema import F
from tests.support.worker_sessions import silent_broker
from workloads.base import TransactingSettings
from workloads.clients import make_consumer, make_producer, make_transactional_producer
from workloads.clients.base import MARK, KeyedMessages
from workloads.clients.java import consumer, failures, producer, settings
from workloads.clients.java.machine import java_class, library_of, options, partition_of
from workloads.clients.settings import ClientSettings, GroupSettings
from workloads.clients.stacks import find_stack

SOON_S = 0.2
SERVERS = ["127.0.0.1:1"]


class Impatient(ClientSettings):
    """Settings of a client that waits for nobody."""

    block_at_most_s = SOON_S


@pytest.fixture
def library() -> Any:
    """A producer of Kafka's that answers when it is told to."""
    serializer = java_class("common.serialization.ByteArraySerializer")
    node = java_class("common.Node")(1, "localhost", 1)
    replicas = jpype.JArray(java_class("common.Node"))([node])
    parts = java_class("java.util.ArrayList")(
        [java_class("common.PartitionInfo")("topic", each, node, replicas, replicas) for each in range(3)]
    )
    empty = java_class("java.util.Collections").emptySet()
    cluster = java_class("common.Cluster")("id", java_class("java.util.ArrayList")([node]), parts, empty, empty)
    return java_class("clients.producer.MockProducer")(
        cluster,
        False,  # noqa: FBT003 - Java has no names
        None,
        serializer(),
        serializer(),
    )


@pytest.fixture
def sending(library: Any) -> Iterator[producer.JavaProducer]:
    """The stack's producer over it."""
    made = producer.JavaProducer(ClientSettings(client="java"), SERVERS, Security(), "test")
    real, made._producer = made._producer, library
    yield made
    real.close()


def test_messages_come_back_with_their_offsets(library: Any, sending: producer.JavaProducer) -> None:
    """Each when it is done, and what is not stays."""
    sending.send("topic", [0, 1, 0], [b"a", b"b", b"c"])
    assert sending.delivered(0).payloads == []
    assert library.completeNext()
    assert library.completeNext()
    first = sending.delivered(SOON_S)
    assert (first.payloads, first.offsets, first.errors) == ([b"a", b"b"], [0, 0], {})
    assert sending.outstanding == 1
    assert library.completeNext()
    second = sending.delivered(SOON_S)
    assert (second.payloads, second.offsets, sending.outstanding) == ([b"c"], [1], 0)
    sent = [(int(each.partition()), bytes(each.value()), each.key()) for each in library.history()]
    assert sent == [(0, b"a", None), (1, b"b", None), (0, b"c", None)]


def test_a_message_that_failed_says_why(library: Any, sending: producer.JavaProducer) -> None:
    """By Kafka's number, in the place of its offset."""
    sending.send("topic", [0, 0], [b"a", b"b"])
    assert library.errorNext(java_class("common.errors.NotEnoughReplicasException")("two are missing"))
    assert library.completeNext()
    found = sending.delivered(SOON_S)
    assert (found.payloads, found.offsets) == ([b"a", b"b"], [-1, 1])
    assert [(index, each.code) for index, each in found.errors.items()] == [(0, NUMBERS["NOT_ENOUGH_REPLICAS"])]


def test_what_the_library_throws_at_is_refused_and_the_rest_goes_on(
    library: Any, sending: producer.JavaProducer
) -> None:
    """The broken message alone, wherever it stands among the others."""
    sending.send("topic", [0, 7, 1], [b"a", b"b", b"c"])  # there is no partition 7
    found = sending.delivered(0)
    assert found.payloads == [b"b"]
    assert found.errors[0].code == REFUSED_LOCALLY
    assert [bytes(each.value()) for each in library.history()] == [b"a", b"c"]


def test_tombstones_carry_the_message_in_a_header(library: Any, sending: producer.JavaProducer) -> None:
    """And keys go with values as they are."""
    sending.send("topic", [0, 0], [b"a", b"b"], KeyedMessages([b"1", b"2"], [False, True]))
    value, tombstone = library.history()
    assert (bytes(value.key()), bytes(value.value())) == (b"1", b"a")
    assert (bytes(tombstone.key()), tombstone.value()) == (b"2", None)
    assert bytes(tombstone.headers().lastHeader(MARK).value()) == b"b"


def test_records_cross_over_whole() -> None:
    """Values of every length, none at all, keys, and the headers of tombstones."""
    record = java_class("clients.consumer.ConsumerRecord")
    contents = [(b"", b"k"), (b"\x00\xff" * 700, None), (None, b"key")]
    records = java_class("java.util.ArrayList")()
    for offset, (value, key) in enumerate(contents, start=2**40):
        sizes = (-1 if key is None else len(key), -1 if value is None else len(value))
        headers = java_class("common.header.internals.RecordHeaders")()
        headers.add(MARK, jpype.JArray(jpype.JByte)(b"the message"))
        kind = java_class("common.record.TimestampType").CREATE_TIME
        given = [None if each is None else jpype.JArray(jpype.JByte)(each) for each in (key, value)]
        none = java_class("java.util.Optional").empty()
        records.add(record("topic", 5, offset, jpype.JLong(0), kind, *sizes, *given, headers, none))
    batches = java_class("java.util.HashMap")()
    batches.put(partition_of("topic", 5), records)
    empty = java_class("java.util.HashMap")()
    polled = consumer.polled_of(java_class("clients.consumer.ConsumerRecords")(batches, empty), keyed=True)
    assert polled.payloads == [value for value, _ in contents]
    assert polled.keys == [key for _, key in contents]
    assert polled.marks == [None, None, b"the message"]
    assert (polled.topics, polled.partitions) == (["topic"] * 3, [5] * 3)
    assert polled.offsets == [2**40, 2**40 + 1, 2**40 + 2]
    assert all(type(each) is int for each in polled.offsets)


@pytest.mark.parametrize(
    ("exception", "name"),
    [
        ("common.errors.TimeoutException", "REQUEST_TIMED_OUT"),
        ("clients.producer.BufferExhaustedException", "REQUEST_TIMED_OUT"),
        ("common.errors.RecordTooLargeException", "MESSAGE_TOO_LARGE"),
        ("common.errors.ProducerFencedException", "PRODUCER_FENCED"),
        ("common.errors.TransactionAbortedException", "TransactionAbortedError"),
        ("clients.consumer.CommitFailedException", "CommitFailedError"),
        ("common.errors.DisconnectException", "KafkaConnectionError"),
        ("common.KafkaException", "KafkaError"),
        ("java.lang.IllegalStateException", "IllegalStateError"),
        ("java.lang.IllegalArgumentException", "IllegalArgumentError"),
    ],
)
def test_exceptions_have_the_codes_that_the_table_knows(exception: str, name: str) -> None:
    """Also within another one."""
    thrown = java_class(exception)("why")
    for each in (thrown, java_class("java.util.concurrent.ExecutionException")(thrown)):
        found = failures.failure(each)
        assert found.code == NUMBERS[name]
        assert found.text.endswith(": why")
        assert found.fenced is (name == "PRODUCER_FENCED")
        assert is_classified(F.COMMIT if "Commit" in name else F.SEND, found.code)


def test_the_library_takes_every_setting() -> None:
    """Its own validation accepts what scenarios may say; the newer protocol takes no setting of the classic one."""
    full = {
        "client": "java", "acks": "1", "idempotence": False, "retries": 3, "delivery_timeout_ms": 6000,
        "max_in_flight": 1, "linger_ms": 10, "batch_size": 1000, "compression": "zstd",
        "isolation_level": "read_committed", "client_rack": "a", "max_poll_records": 7,
    }  # fmt: skip
    sender = settings.producer_options(ClientSettings.model_validate(full), SERVERS, Security(), "id")
    assert sender["request.timeout.ms"] == 5990
    java_class("clients.producer.ProducerConfig")(options(sender))
    for protocol, assignor in (("classic", "cooperative-sticky"), ("consumer", "uniform")):
        group = GroupSettings.model_validate(full | {"group_protocol": protocol, "assignor": assignor})
        given = options(settings.member_options(group, SERVERS, Security(), "id") | {"group.id": "group"})
        java_class("clients.consumer.ConsumerConfig")(given)
        java_class("clients.consumer.KafkaConsumer")(given).close()


def test_a_java_that_cannot_be_loaded_is_found_out_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a worker that dies."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CannotHere, match="JAVA_HOME has no working Java"):
        find_stack("java").prepare(SilentProgress())
    incomplete = Java(tmp_path / "bin" / "java", 17, "PATH")
    with pytest.raises(CannotHere, match=r"has no .*jvm"):
        library_of(incomplete)


def test_passwords_are_quoted() -> None:
    """Whatever is in them."""
    given = Security(mechanism="PLAIN", username="me", password='a"b\\c').java()  # type: ignore[arg-type]
    assert given["sasl.jaas.config"].endswith('required username="me" password="a\\"b\\\\c";')
    java_class("common.security.JaasContext").loadClientContext(
        java_class("java.util.Map").of(
            "sasl.jaas.config", java_class("common.config.types.Password")(given["sasl.jaas.config"])
        )
    )


def test_every_call_ends_where_nobody_answers() -> None:
    """With an answer that the table knows."""
    with silent_broker() as address:
        waiting = Impatient(client="java")
        sender = make_producer(waiting, [address], Security(), "id")
        sender.send("topic", [0], [b"a"])
        assert sender.delivered(0).errors[0].code == REFUSED_LOCALLY
        reader = make_consumer(waiting, [address], Security(), "id")
        assert reader.poll(10, SOON_S).errors
        assert reader.assign({("topic", 0): 5}) is None
        assert reader.poll(10, SOON_S).payloads == []
        assert reader.position(("topic", 0)) == 5
        assert reader.end_offsets([("topic", 0)], SOON_S) == {}
        reader.close()
        sender.close(SOON_S)
        transacting = TransactingSettings.model_validate({"client": "java", "transaction_timeout_ms": 1000})
        instance = make_transactional_producer(transacting, [address], Security(), "id", "transactional")
        error = instance.init(1.0)
        assert error is not None
        assert (error.code, error.fenced) == (NUMBERS["REQUEST_TIMED_OUT"], False)
        instance.close(SOON_S)
