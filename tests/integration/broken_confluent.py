"""confluent-kafka before broken brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from tests.integration.broken_clients import (
    BACKOFF_MS,
    BATCH_RECORDS,
    CALL_S,
    DELIVERY_TIMEOUT_MS,
    FETCH_BYTES,
    LINGER_MS,
    NO_OFFSET,
    PATIENT_MS,
    POLL_S,
    REQUEST_TIMEOUT_MS,
    Consumer,
    Isolation,
    Producer,
    Read,
    Sent,
)


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


class ConfluentProducer(Producer):
    """`confluent_kafka.Producer`."""

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
        """Note what its callback says."""
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
        """Let the library call back."""
        self._producer.poll(0)
        return not self._open

    def _outcomes(self) -> list[Sent]:
        """As the callbacks said."""
        return list(self._sent)

    def begin(self) -> None:
        """As the library does it."""
        self._producer.begin_transaction()

    def commit(self) -> None:
        """As the library does it."""
        self._producer.commit_transaction(CALL_S)

    def abort(self) -> None:
        """As the library does it."""
        self._producer.abort_transaction(CALL_S)

    def close(self) -> None:
        """As the library does it."""
        self._producer.purge()
        self._producer.flush(0.5)


class ConfluentConsumer(Consumer):
    """`confluent_kafka.Consumer`."""

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
        """The library said so of each."""
        return bool(self._has) and self._at_end == self._has

    def poll(self) -> list[Read]:
        """Records, and ends that the library tells."""
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
            elif error.code() == KafkaError._PARTITION_EOF and partition is not None:
                self._at_end.add(partition)
        return found

    def assign(self, partitions: Iterable[int]) -> Self:
        """From the beginning."""
        self._has = set(partitions)
        begin = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, each, begin) for each in self._has])
        return self

    def subscribe(self) -> None:
        """As the library does it."""
        self._consumer.subscribe([self.topic])

    def end_offset(self, partition: int) -> int:
        """ListOffsets(latest)."""
        place = confluent_kafka.TopicPartition(self.topic, partition, confluent_kafka.OFFSET_END)
        (found,) = self._consumer.offsets_for_times([place], timeout=CALL_S)
        return int(found.offset)

    def commit(self, partition: int, offset: int) -> None:
        """As the library does it."""
        place = confluent_kafka.TopicPartition(self.topic, partition, offset)
        for done in self._consumer.commit(offsets=[place], asynchronous=False) or ():
            if done.error is not None:
                raise KafkaException(done.error)

    def committed(self, partition: int) -> int | None:
        """OffsetFetch."""
        place = confluent_kafka.TopicPartition(self.topic, partition)
        (found,) = self._consumer.committed([place], timeout=CALL_S)
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        """As the library does it."""
        self._consumer.close()
