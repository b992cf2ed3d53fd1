"""Messages with keys, and tombstones: as libraries are given them, as they are read back, and as they are judged."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kafka import TopicPartition
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from harness.foundation.security import Security
from harness.history.schema import COLUMNS, Kind, Status, Type
from tests.support.worker_sessions import NOBODY, RUN, FakeConsumer, FakeProducer, rows, session, settings_of
from workloads import payload
from workloads.clients import kafka_python, make_consumer, make_producer
from workloads.clients.base import MARK, KeyedMessages, PolledRecords
from workloads.clients.confluent import ConfluentConsumer, ConfluentProducer
from workloads.clients.kafka_python import KafkaPythonProducer, polled_of
from workloads.compacted import CompactedSettings
from workloads.consuming import RecordingConsumer
from workloads.producing import MessageKeys, RecordingProducer
from workloads.stream import StreamSettings

KEYED = KeyedMessages([b"k1", b"k2"], [False, True])
TO_KAFKA_PYTHON = CompactedSettings(client="kafka-python")
TO_CONFLUENT = CompactedSettings(client="confluent-kafka")


class _Confluent:
    """In place of librdkafka's producer: full at first, then every message is delivered at the next poll."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.polls = 0

    def produce(self, *message: Any, headers: Any = None) -> None:
        """Take it, unless full."""
        if not self.polls:
            raise BufferError
        self.taken.append((*message[:4], headers))
        message[4](None, SimpleNamespace(value=lambda: message[1], offset=lambda: len(self.taken)))

    def poll(self, _timeout_s: float) -> int:
        """Room comes with polls."""
        self.polls += 1
        return 0


def test_confluent_kafka_gets_keys_and_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tombstone has no value, and what identifies it in a header; it comes back by that."""
    producer = make_producer(TO_CONFLUENT, [NOBODY], Security(), "test")
    assert isinstance(producer, ConfluentProducer)
    library = _Confluent()
    monkeypatch.setattr(producer, "_producer", library)
    producer.send("topic", [0, 1], [b"one", b"two"], KEYED)
    assert library.taken == [("topic", b"one", b"k1", 0, None), ("topic", None, b"k2", 1, [(MARK, b"two")])]
    found = producer.delivered(0)
    assert found.payloads == [b"one", b"two"]
    assert found.offsets == [1, 2]
    assert producer.outstanding == 0


class _KafkaPython:
    """In place of KafkaProducer."""

    def __init__(self, **_: Any) -> None:
        self.taken: list[dict[str, Any]] = []

    def send(self, topic: str, **message: Any) -> FutureRecordMetadata:
        """Delivered at once."""
        self.taken.append({"topic": topic, **message})
        result = FutureProduceResult((topic, message["partition"]))
        future = FutureRecordMetadata(result, 0, 0, None, -1, 1, -1)
        future._produce_success((len(self.taken), -1, None))
        return future


def test_kafka_python_gets_keys_and_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same."""
    monkeypatch.setattr(kafka_python, "KafkaProducer", _KafkaPython)
    producer = make_producer(TO_KAFKA_PYTHON, [NOBODY], Security(), "test")
    assert isinstance(producer, KafkaPythonProducer)
    producer.send("topic", [0, 1], [b"one", b"two"], KEYED)
    assert producer._producer.taken == [
        {"topic": "topic", "partition": 0, "key": b"k1", "value": b"one"},
        {"topic": "topic", "partition": 1, "key": b"k2", "value": None, "headers": [(MARK, b"two")]},
    ]
    assert producer.delivered(0).payloads == [b"one", b"two"]


class _Message:
    """A record of librdkafka's."""

    def __init__(self, key: bytes, value: bytes | None, headers: list[tuple[str, bytes]] | None) -> None:
        self.key, self.value, self.headers = (lambda: key), (lambda: value), (lambda: headers)
        self.topic, self.partition, self.offset = (lambda: "topic"), (lambda: 0), (lambda: 5)
        self.error = lambda: None


def test_keys_and_marks_are_read_back() -> None:
    """By both; of a record with a value nobody looks at the headers."""
    given: list[tuple[bytes, bytes | None, list[tuple[str, bytes]] | None]] = [
        (b"k", b"v", [(MARK, b"x")]),
        (b"l", None, [("other", b"y"), (MARK, b"z")]),
        (b"m", None, None),
    ]
    consumer = make_consumer(TO_CONFLUENT, [NOBODY], Security(), "test")
    assert isinstance(consumer, ConfluentConsumer)
    consumer._consumer = SimpleNamespace(consume=lambda *_: [_Message(*one) for one in given])
    records = [SimpleNamespace(key=k, value=v, headers=h, offset=5) for k, v, h in given]
    for polled in (consumer.poll(10, 0), polled_of({TopicPartition("topic", 0): records}, keyed=True)):
        assert polled.keys == [b"k", b"l", b"m"]
        assert polled.marks == [None, b"z", None]
        assert polled.payloads == [b"v", None, None]


def test_nobody_pays_for_keys_that_are_not_asked_for() -> None:
    """Other workloads have none."""
    assert polled_of({}).keys is None
    assert ConfluentConsumer(StreamSettings(), [NOBODY], Security(), "test")._keyed is False


def test_numbers_become_keys_and_come_back() -> None:
    """Eight bytes, big-endian; what is none of ours has no number."""
    numbers = np.array([0, 1, -1, 2**40])
    keys = payload.keys_of(numbers)
    assert keys[1] == b"\0" * 7 + b"\1"
    assert payload.key_numbers(keys).tolist() == numbers.tolist()
    null = COLUMNS["key"].null
    assert payload.key_numbers([None, b"", b"short", b"much too long"]).tolist() == [null] * 4


def test_a_record_without_a_value_is_what_its_header_says_if_that_is_a_tombstone() -> None:
    """A tombstone with a value, and a header that is no tombstone's, are damaged; neither is foreign."""
    builder = payload.PayloadBuilder(RUN, 9, 100)
    flags = np.array([payload.TOMBSTONE, 0])
    grave, live = builder.build(2, topic=0, partition=0, value=np.array([7, 8]), sequence=0, invoked=1, flags=flags)
    found = payload.parse(
        [live, None, None, grave, None, None], 0, 0, RUN, [None, grave, live, None, None, b"somebody else's"]
    )
    assert found.status.tolist() == [
        Status.GOOD, Status.GOOD, Status.CORRUPT, Status.CORRUPT, Status.FOREIGN, Status.FOREIGN,
    ]  # fmt: skip
    assert found.value.tolist()[:2] == [8, 7]
    assert set(found.value.tolist()[2:]) == {COLUMNS["value"].null}
    assert payload.parse([None], 0, 1, RUN, [grave]).status.tolist() == [Status.MISROUTED]
    assert payload.parse([grave], 0, 0, RUN).status.tolist() == [Status.CORRUPT]


def test_keys_are_in_invocations_and_completions(tmp_path: Path) -> None:
    """Also when sends end in another order, and nothing of them is kept."""
    at = session(tmp_path, "compacted")
    library = FakeProducer()
    sender = RecordingProducer(at, settings_of(at), library)
    keys = MessageKeys(np.array([5, 6, 5]), np.array([False, True, False]))
    sender.send(0, "run-compacted", np.array([2, 0, 2]), keys=keys)
    library._waiting.reverse()
    sender.drain(0)
    found = rows(at)[1]
    assert found[Kind.INVOKE]["key"].tolist() == [5, 6, 5]
    by_op = dict(zip(found[Kind.COMPLETE]["op"].tolist(), found[Kind.COMPLETE]["key"].tolist(), strict=True))
    assert [by_op[op] for op in found[Kind.INVOKE]["op"].tolist()] == [5, 6, 5]
    assert set(found[Kind.COMPLETE]["type"].tolist()) == {Type.OK}
    assert sender._keys == {}
    (keyed,) = library.keyed
    assert keyed == KeyedMessages(payload.keys_of(keys.numbers), [False, True, False])
    flags = payload.headers([one for _, _, one in library.sent])["flags"]
    assert flags.tolist() == [0, payload.TOMBSTONE, 0]


def test_keys_of_records_are_recorded(tmp_path: Path) -> None:
    """Null for a record whose key is none of ours."""
    at = session(tmp_path, "compacted")
    sender = RecordingProducer(at, settings_of(at), library := FakeProducer())
    sender.send(0, "run-compacted", np.array([1, 1]), keys=MessageKeys(np.array([7, 8]), np.array([False, True])))
    (_, _, live), (_, _, grave) = library.sent
    keys: list[bytes | None] = [*payload.keys_of(np.array([7, 8])), b"foreign"]
    answer = PolledRecords(["run-compacted"] * 3, [1] * 3, [0, 1, 2], [live, None, b"?"], [], keys, [None, grave, None])
    reader = RecordingConsumer(at, settings_of(at), FakeConsumer([answer]))
    reader.follow({"run-compacted": 0}, [("run-compacted", 1)])
    reader.poll()
    read = rows(at)[1][Kind.RECORD]
    assert read["key"].tolist() == [7, 8, COLUMNS["key"].null]
    assert read["status"].tolist() == [Status.GOOD, Status.GOOD, Status.FOREIGN]
    assert read["value"].tolist()[:2] == rows(at)[1][Kind.INVOKE]["value"].tolist()[:2]
