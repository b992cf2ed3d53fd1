"""kafka-python before broken brokers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.integration.broken_clients import (
    BACKOFF_MS,
    BATCH_BYTES,
    CALL_S,
    DELIVERY_TIMEOUT_MS,
    FETCH_BYTES,
    LINGER_MS,
    PATIENT_MS,
    POLL_S,
    REQUEST_TIMEOUT_MS,
    Consumer,
    Isolation,
    Producer,
    Read,
    Sent,
)


class KafkaPythonProducer(Producer):
    """`KafkaProducer`."""

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
        """Note its future."""
        self._sent.append((Sent(partition, value), self._producer.send(self.topic, value, partition=partition)))

    @property
    def done(self) -> bool:
        """Whether the futures are."""
        return all(future.is_done for _, future in self._sent)

    def _outcomes(self) -> list[Sent]:
        """As the futures say."""
        return [
            replace(sent, offset=future.value.offset)
            if future.succeeded()
            else replace(sent, error=getattr(future.exception, "errno", None) or -1)
            for sent, future in self._sent
        ]

    def begin(self) -> None:
        """As the library does it."""
        self._producer.begin_transaction()

    def commit(self) -> None:
        """As the library does it."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """As the library does it."""
        self._producer.abort_transaction()

    def close(self) -> None:
        """Without much patience."""
        self._producer.close(timeout=0.5)


class KafkaPythonConsumer(Consumer):
    """`KafkaConsumer`."""

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
        """Positions are at the watermarks."""
        states = self._consumer._subscription.assignment.values()
        return bool(states) and all(
            state.position is not None and state.highwater is not None and state.position.offset >= state.highwater
            for state in states
        )

    def poll(self) -> list[Read]:
        """One poll of the library."""
        try:
            found = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        except KafkaError:
            time.sleep(POLL_S)
            return []
        return [Read(each.partition, each.offset, each.value) for records in found.values() for each in records]

    def assign(self, partitions: Iterable[int]) -> Self:
        """From the beginning."""
        self._consumer.assign([TopicPartition(self.topic, partition) for partition in partitions])
        self._consumer.seek_to_beginning()
        return self

    def subscribe(self) -> None:
        """As the library does it."""
        self._consumer.subscribe([self.topic])

    def end_offset(self, partition: int) -> int:
        """ListOffsets(latest)."""
        place = TopicPartition(self.topic, partition)
        return int(self._consumer.end_offsets([place], timeout_ms=int(CALL_S * 1000))[place])

    def commit(self, partition: int, offset: int) -> None:
        """As the library does it."""
        place = TopicPartition(self.topic, partition)
        self._consumer.commit({place: OffsetAndMetadata(offset, "", -1)}, timeout_ms=REQUEST_TIMEOUT_MS)

    def committed(self, partition: int) -> int | None:
        """OffsetFetch."""
        found = self._consumer.committed(TopicPartition(self.topic, partition), timeout_ms=int(CALL_S * 1000))
        return None if found is None or found < 0 else int(found)

    def close(self) -> None:
        """Without much patience."""
        self._consumer.close(autocommit=False, timeout_ms=500)
