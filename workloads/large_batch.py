"""The large batch: 5,000 messages as fast as possible into three partitions, then everything read back.

This is the test of the investigation notes, with their settings as defaults: acks=1, a consumer that gives up after
60 s without a message, 500 records a poll. Its outcome is their table: per partition how many messages arrived, their
share, how far that is from what was sent there, the range of offsets and the gaps in it; and stalls of 5 s or more.

Each message carries its own number and goes to partition `number % partitions`, so that what should have arrived where
is known exactly and not estimated.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from harness.errors import ClusterError
from harness.progress import Progress
from harness.security import Security

STALL_S = 5.0
IMBALANCE = 0.10
POLL_MS = 200
FLUSH_TIMEOUT_S = 120


@dataclass(frozen=True)
class Settings:
    """The notes' own."""

    messages: int = 5000
    partitions: int = 3
    replication_factor: int = 3
    acks: int | str = 1
    consumer_timeout_ms: int = 60_000
    max_poll_records: int = 500


@dataclass(frozen=True)
class PartitionRow:
    """One line of the table."""

    partition: int
    expected: int
    messages: int
    share: float
    first_offset: int | None
    last_offset: int | None
    gaps: int

    @property
    def deviation(self) -> int:
        """Messages more or fewer than were sent here."""
        return self.messages - self.expected

    @property
    def low(self) -> bool:
        """More than a tenth of what was sent here did not arrive."""
        return self.deviation < -IMBALANCE * self.expected


@dataclass
class Outcome:
    """What was sent and what came back."""

    settings: Settings
    acknowledged: int = 0
    send_errors: Counter[str] = field(default_factory=Counter)
    produce_s: float = 0.0
    consume_s: float = 0.0
    stalls_s: list[float] = field(default_factory=list)
    received: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def distinct(self) -> int:
        """Different messages that arrived, of those that were sent."""
        return len(set(self._ours()))

    @property
    def duplicates(self) -> int:
        """Records beyond the first with the same number."""
        ours = self._ours()
        return len(ours) - len(set(ours))

    @property
    def foreign(self) -> int:
        """Records that nobody sent."""
        return sum(map(len, self.received.values())) - len(self._ours())

    @property
    def complete(self) -> bool:
        """Everything was acknowledged and arrived once, and nothing else did."""
        exact = not self.duplicates and not self.foreign
        return exact and self.acknowledged == self.distinct == self.settings.messages

    def rows(self) -> list[PartitionRow]:
        """The table."""
        return [self._row(partition) for partition in range(self.settings.partitions)]

    def imbalance(self) -> int:
        """The fullest partition minus the emptiest."""
        counts = [row.messages for row in self.rows()]
        return max(counts) - min(counts)

    def _ours(self) -> list[int]:
        numbers = (number for records in self.received.values() for _, number in records)
        return [number for number in numbers if 0 <= number < self.settings.messages]

    def _row(self, partition: int) -> PartitionRow:
        offsets = {offset for offset, _ in self.received.get(partition, [])}
        expected = len(range(partition, self.settings.messages, self.settings.partitions))
        total = self.settings.messages or 1
        if not offsets:
            return PartitionRow(partition, expected, 0, 0.0, None, None, 0)
        first, last = min(offsets), max(offsets)
        count = len(self.received[partition])
        gaps = last - first + 1 - len(offsets)
        return PartitionRow(partition, expected, count, count / total, first, last, gaps)


def run(bootstrap: str, security: Security, topic: str, settings: Settings, progress: Progress) -> Outcome:
    """Create the topic, produce, consume; client errors are part of the outcome, a dead cluster is an error."""
    connection: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), **security.kafka_python()}
    outcome = Outcome(settings)
    try:
        _create_topic(connection, topic, settings)
        progress.step(f"producing {settings.messages:,} messages, acks={settings.acks}")
        _produce(connection, topic, outcome)
        progress.step(f"consuming {settings.messages:,} messages")
        _consume(connection, topic, outcome, progress)
    except KafkaError as error:
        raise ClusterError(f"the cluster did not do what clients ask of it ({error})", "see its logs") from error
    return outcome


def _create_topic(connection: dict[str, Any], topic: str, settings: Settings) -> None:
    admin = KafkaAdminClient(**connection)
    try:
        admin.create_topics([NewTopic(topic, settings.partitions, settings.replication_factor)])
        admin.wait_for_topics([topic])
    finally:
        admin.close()


def _produce(connection: dict[str, Any], topic: str, outcome: Outcome) -> None:
    settings = outcome.settings
    producer = KafkaProducer(**connection, acks=settings.acks)
    began_at = time.monotonic()
    try:
        futures = [
            producer.send(topic, value=str(number).encode(), partition=number % settings.partitions)
            for number in range(settings.messages)
        ]
        producer.flush(timeout=FLUSH_TIMEOUT_S)
    finally:
        producer.close(timeout=10)
    outcome.produce_s = time.monotonic() - began_at
    outcome.send_errors = Counter(type(f.exception).__name__ for f in futures if not f.succeeded())
    outcome.acknowledged = sum(1 for f in futures if f.succeeded())


def _consume(connection: dict[str, Any], topic: str, outcome: Outcome, progress: Progress) -> None:
    settings = outcome.settings
    consumer = KafkaConsumer(**connection, enable_auto_commit=False, max_poll_records=settings.max_poll_records)
    partitions = [TopicPartition(topic, partition) for partition in range(settings.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    began_at = last_at = time.monotonic()
    ends = consumer.end_offsets(partitions)
    try:
        # to the end of every partition, and beyond an end that the broker showed too early
        while outcome.distinct < outcome.acknowledged or any(consumer.position(p) < ends[p] for p in partitions):
            batches = consumer.poll(timeout_ms=POLL_MS)
            now = time.monotonic()
            silent_s = now - last_at
            if batches:
                if silent_s >= STALL_S:
                    outcome.stalls_s.append(silent_s)
                last_at = now
            elif silent_s * 1000 >= settings.consumer_timeout_ms:
                outcome.stalls_s.append(silent_s)
                break
            for tp, records in batches.items():
                arrived = outcome.received.setdefault(tp.partition, [])
                arrived.extend((record.offset, _number(record.value)) for record in records)
            progress.detail(f"{outcome.distinct:,} of {settings.messages:,}")
    finally:
        outcome.consume_s = last_at - began_at
        consumer.close(autocommit=False)


def _number(value: bytes | None) -> int:
    """The number a message carries; what we did not write has none."""
    return int(value) if value is not None and value.isdigit() else -1
