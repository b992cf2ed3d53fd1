"""Both client libraries as small as tests of broken brokers need them: many small batches, and little patience."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata

from tests.support import PATIENCE_S

PATIENCE_S = 8
Library = Literal["kafka-python", "confluent-kafka"]
Isolation = Literal["read_uncommitted", "read_committed"]

BATCH_RECORDS = 10
VALUE_BYTES = 100
BATCH_BYTES = BATCH_RECORDS * (VALUE_BYTES + 20)
LINGER_MS = 20
REQUEST_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_MS = 2_500
PATIENT_MS = 30_000
BACKOFF_MS = 50
CALL_S = 10.0  # a call that has to be answered
POLL_S = 0.05
NAP_S = 0.005
NO_OFFSET = -1
FETCH_BYTES = 4_096  # of a partition at a time: some batches


@dataclass(frozen=True)
class Sent:
    """A message, and what the library says became of it."""

    partition: int
    value: bytes
    offset: int | None = None  # as acknowledged
    error: int | None = None  # Kafka's number, or one of the library's own

    @property
    def acked(self) -> bool:
        """Whether the library reports success."""
        return self.offset is not None


@dataclass(frozen=True)
class Read:
    """A record as a consumer got it."""

    partition: int
    offset: int
    value: bytes


class Producer(ABC):
    """Sends, and tells what became of each message, in the order of sending.

    Values say which partition they are for, who sent them, and the how-manieth they are.
    """

    def __init__(self, topic: str, name: str) -> None:
        self.topic = topic
        self._name = name
        self._numbers: dict[int, int] = {}

    def send(self, count: int, *partitions: int) -> None:
        """Hand that many messages for each of the partitions (0 when none is named) to the library, in turn."""
        for _ in range(count):
            for partition in partitions or (0,):
                number = self._numbers[partition] = self._numbers.get(partition, -1) + 1
                self._send(partition, f"{partition}/{self._name}/{number:06d}/".encode().ljust(VALUE_BYTES, b"."))

    def send_all(self, count: int, *partitions: int) -> list[Sent]:
        """Send, and wait for every outcome so far."""
        self.send(count, *partitions)
        return self.outcomes()

    @abstractmethod
    def _send(self, partition: int, value: bytes) -> None:
        """One message."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether everything that was sent has an outcome."""

    @abstractmethod
    def _outcomes(self) -> list[Sent]:
        """Of everything that was sent."""

    def outcomes(self) -> list[Sent]:
        """The same when all are there."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.done:
            assert time.monotonic() < deadline, f"sends without an outcome after {PATIENCE_S} s"
            time.sleep(NAP_S)
        return self._outcomes()

    @abstractmethod
    def begin(self) -> None:
        """A transaction."""

    @abstractmethod
    def commit(self) -> None:
        """The transaction."""

    @abstractmethod
    def abort(self) -> None:
        """The transaction."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the library."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Consumer(ABC):
    """Reads partitions of one topic from their beginning."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.read: list[Read] = []

    def read_until(self, enough: Callable[[], bool], what: str) -> list[Read]:
        """Poll until that is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S} s; {len(self.read)} records were read"
            self.read += self.poll()
        return self.read

    def read_to_end(self) -> list[Read]:
        """Everything up to where the broker says that the partitions end."""
        return self.read_until(lambda: self.at_end, "end")

    @property
    @abstractmethod
    def at_end(self) -> bool:
        """Whether the library came to the end of every partition, as the last answers show it."""

    @abstractmethod
    def poll(self) -> list[Read]:
        """What has come."""

    @abstractmethod
    def assign(self, partitions: Iterable[int]) -> Self:
        """Read these from the beginning."""

    @abstractmethod
    def subscribe(self) -> None:
        """Join the group for the topic."""

    @abstractmethod
    def end_offset(self, partition: int) -> int:
        """Ask for it now."""

    @abstractmethod
    def commit(self, partition: int, offset: int) -> None:
        """For the group; an exception when that fails."""

    @abstractmethod
    def committed(self, partition: int) -> int | None:
        """Of the group, asked now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the library."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _KafkaPythonProducer(Producer):
    def __init__(
        self, bootstrap: str, topic: str, client_id: str, *, transaction: str | None, idempotent: bool, patient: bool
    ) -> None:
        super().__init__(topic, client_id)
        self._producer = KafkaProducer(
            bootstrap_servers=[bootstrap],
            client_id=client_id,
            acks="all",
            enable_idempotence=idempotent,
            transactional_id=transaction,
            batch_size=BATCH_BYTES,
            linger_ms=LINGER_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=PATIENT_MS if patient else DELIVERY_TIMEOUT_MS,
            retry_backoff_ms=BACKOFF_MS,
            reconnect_backoff_max_ms=2 * BACKOFF_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self._sent: list[tuple[Sent, Any]] = []
        if transaction:
            self._producer.init_transactions()

    def _send(self, partition: int, value: bytes) -> None:
        self._sent.append((Sent(partition, value), self._producer.send(self.topic, value, partition=partition)))

    @property
    def done(self) -> bool:
        return all(future.is_done for _, future in self._sent)

    def _outcomes(self) -> list[Sent]:
        return [
            replace(sent, offset=future.value.offset)
            if future.succeeded()
            else replace(sent, error=getattr(future.exception, "errno", None) or -1)
            for sent, future in self._sent
        ]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0.5)


class _KafkaPythonConsumer(Consumer):
    def __init__(self, bootstrap: str, topic: str, client_id: str, *, group: str | None, isolation: Isolation) -> None:
        super().__init__(topic)
        self._consumer = KafkaConsumer(
            bootstrap_servers=[bootstrap],
            client_id=client_id,
            group_id=group,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=FETCH_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            retry_backoff_ms=BACKOFF_MS,
            reconnect_backoff_max_ms=2 * BACKOFF_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )

    @property
    def at_end(self) -> bool:
        states = self._consumer._subscription.assignment.values()  # noqa: SLF001 - position() may ask the broker
        return bool(states) and all(
            state.position is not None and state.highwater is not None and state.position.offset >= state.highwater
            for state in states
        )

    def poll(self) -> list[Read]:
        try:
            found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        except KafkaPythonError:
            time.sleep(POLL_S)
            return []
        return [Read(each.partition, each.offset, each.value) for records in found.values() for each in records]

    def assign(self, partitions: Iterable[int]) -> Self:
        self._consumer.assign([TopicPartition(self.topic, partition) for partition in partitions])
        self._consumer.seek_to_beginning()
        return self

    def subscribe(self) -> None:
        self._consumer.subscribe([self.topic])

    def end_offset(self, partition: int) -> int:
        place = TopicPartition(self.topic, partition)
        return int(self._consumer.end_offsets([place], timeout_ms=int(CALL_S * 1000))[place])

    def commit(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.topic, partition)
        self._consumer.commit({place: OffsetAndMetadata(offset, "", -1)}, timeout_ms=REQUEST_TIMEOUT_MS)

    def committed(self, partition: int) -> int | None:
        found = self._consumer.committed(TopicPartition(self.topic, partition), timeout_ms=int(CALL_S * 1000))
        return None if found is None or found < 0 else int(found)

    def close(self) -> None:
        self._consumer.close(autocommit=False, timeout_ms=500)


def _confluent_options(bootstrap: str, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "reconnect.backoff.ms": BACKOFF_MS,
        "reconnect.backoff.max.ms": 2 * BACKOFF_MS,
        "retry.backoff.ms": BACKOFF_MS,
        "retry.backoff.max.ms": 2 * BACKOFF_MS,
        "allow.auto.create.topics": False,
        "log_level": 0,
    }


class _ConfluentProducer(Producer):
    def __init__(
        self, bootstrap: str, topic: str, client_id: str, *, transaction: str | None, idempotent: bool, patient: bool
    ) -> None:
        super().__init__(topic, client_id)
        options = _confluent_options(bootstrap, client_id) | {
            "acks": "all",
            "enable.idempotence": idempotent,
            "batch.num.messages": BATCH_RECORDS,
            "linger.ms": LINGER_MS,
            "queue.buffering.backpressure.threshold": 1 if idempotent else 5,  # requests that are sent at once
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": PATIENT_MS if patient else DELIVERY_TIMEOUT_MS,
        }
        if transaction:
            options |= {"transactional.id": transaction, "transaction.timeout.ms": PATIENT_MS}
        self._producer = confluent_kafka.Producer(options)
        self._sent: list[Sent] = []
        self._open = 0
        if transaction:
            self._producer.init_transactions(CALL_S)

    def _send(self, partition: int, value: bytes) -> None:
        at = len(self._sent)
        self._sent.append(Sent(partition, value))
        self._open += 1

        def delivered(error: KafkaError | None, message: Any) -> None:
            self._open -= 1
            offset = message.offset()
            known = {"offset": NO_OFFSET if offset is None else offset} if error is None else {"error": error.code()}
            self._sent[at] = replace(self._sent[at], **known)

        self._producer.produce(self.topic, value, partition=partition, on_delivery=delivered)

    @property
    def done(self) -> bool:
        self._producer.poll(0)
        return not self._open

    def _outcomes(self) -> list[Sent]:
        return list(self._sent)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def commit(self) -> None:
        self._producer.commit_transaction(CALL_S)

    def abort(self) -> None:
        self._producer.abort_transaction(CALL_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(0.5)


class _ConfluentConsumer(Consumer):
    def __init__(self, bootstrap: str, topic: str, client_id: str, *, group: str | None, isolation: Isolation) -> None:
        super().__init__(topic)
        self._has: set[int] = set()
        self._at_end: set[int] = set()
        self._consumer = confluent_kafka.Consumer(
            _confluent_options(bootstrap, client_id)
            | {
                "group.id": group or client_id,
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "max.partition.fetch.bytes": FETCH_BYTES,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "fetch.error.backoff.ms": BACKOFF_MS,
            }
        )

    @property
    def at_end(self) -> bool:
        return bool(self._has) and self._at_end == self._has

    def poll(self) -> list[Read]:
        found = []
        for message in self._consumer.consume(1_000, POLL_S):
            partition, offset, value = message.partition(), message.offset(), message.value()
            error = message.error()
            if error is None:
                assert partition is not None
                assert offset is not None
                assert isinstance(value, bytes)
                found.append(Read(partition, offset, value))
                self._at_end.discard(partition)
            elif error.code() == KafkaError._PARTITION_EOF and partition is not None:  # noqa: SLF001 - its public name
                self._at_end.add(partition)
        return found

    def assign(self, partitions: Iterable[int]) -> Self:
        self._has = set(partitions)
        begin = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, each, begin) for each in self._has])
        return self

    def subscribe(self) -> None:
        self._consumer.subscribe([self.topic])

    def end_offset(self, partition: int) -> int:
        place = confluent_kafka.TopicPartition(self.topic, partition, confluent_kafka.OFFSET_END)
        (found,) = self._consumer.offsets_for_times([place], timeout=CALL_S)
        return int(found.offset)

    def commit(self, partition: int, offset: int) -> None:
        place = confluent_kafka.TopicPartition(self.topic, partition, offset)
        for done in self._consumer.commit(offsets=[place], asynchronous=False) or ():
            if done.error is not None:
                raise KafkaException(done.error)

    def committed(self, partition: int) -> int | None:
        place = confluent_kafka.TopicPartition(self.topic, partition)
        (found,) = self._consumer.committed([place], timeout=CALL_S)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


def make_producer(  # noqa: PLR0913 - as many as there are ways to send
    library: Library,
    bootstrap: str,
    topic: str,
    client_id: str,
    *,
    transaction: str | None = None,
    idempotent: bool = True,
    patient: bool = True,
) -> Producer:
    """A producer of that library; a patient one tries for as long as a test waits."""
    made = _KafkaPythonProducer if library == "kafka-python" else _ConfluentProducer
    return made(bootstrap, topic, client_id, transaction=transaction, idempotent=idempotent, patient=patient)


def make_consumer(  # noqa: PLR0913 - as many as there are ways to read
    library: Library,
    bootstrap: str,
    topic: str,
    client_id: str,
    *,
    group: str | None = None,
    isolation: Isolation = "read_uncommitted",
) -> Consumer:
    """A consumer of that library."""
    made = _KafkaPythonConsumer if library == "kafka-python" else _ConfluentConsumer
    return made(bootstrap, topic, client_id, group=group, isolation=isolation)
