"""Client libraries as a careful benchmark of them uses them: their own calls, and nothing else.

A callback counts what was acknowledged; reading, place, offset and value of each record are looked at.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import confluent_kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from workloads.clients.confluent import FULL_QUEUE_BACKOFF_MS, ConfluentProducer
from workloads.clients.kafka_python import KafkaPythonProducer


@dataclass(frozen=True)
class BareProducer:
    """What sends to one topic."""

    send: Callable[[Sequence[int], Sequence[bytes]], None]  # payloads, each to its partition
    poll: Callable[[float], object]  # seconds
    acknowledged: list[int]  # how many, so far
    chunk: int  # messages that are sent at once


@dataclass(frozen=True)
class BareConsumer:
    """What reads one topic."""

    poll: Callable[[], int]  # how many records it brought
    close: Callable[[], None]


class BareClient(ABC):
    """A library, and what is measured of it."""

    messages: ClassVar[int]  # of a round
    goal: ClassVar[float]  # the part of its rate that recording may cost

    @abstractmethod
    def producer(self, bootstrap: str, topic: str) -> BareProducer:
        """With acks=1."""

    @abstractmethod
    def consumer(self, bootstrap: str, topic: str, partitions: int, most: int) -> BareConsumer:
        """Of all partitions from their beginning, with so many records a poll at most."""


class BareConfluent(BareClient):
    """confluent-kafka."""

    messages = 300_000
    goal = 0.10

    def producer(self, bootstrap: str, topic: str) -> BareProducer:
        """One call and one callback for each message."""
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "1"})
        acknowledged = [0]

        def counted(error: Any, _: Any) -> None:
            if error is None:
                acknowledged[0] += 1

        def send(partitions: Sequence[int], payloads: Sequence[bytes]) -> None:
            produce = producer.produce
            for partition, value in zip(partitions, payloads, strict=True):
                produce(topic, value, None, partition, counted)

        return BareProducer(send, producer.poll, acknowledged, ConfluentProducer.chunk)

    def consumer(self, bootstrap: str, topic: str, partitions: int, most: int) -> BareConsumer:
        """Batches of messages."""
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "bare",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": FULL_QUEUE_BACKOFF_MS,
        }
        consumer = confluent_kafka.Consumer(options)
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)])

        def poll() -> int:
            used = [
                (message.topic(), message.partition(), message.offset(), len(message.value() or b""))
                for message in consumer.consume(most, 0.1)
                if not message.error()
            ]
            return len(used)

        return BareConsumer(poll, consumer.close)


class BareKafkaPython(BareClient):
    """kafka-python."""

    messages = 20_000
    goal = 0.05

    def producer(self, bootstrap: str, topic: str) -> BareProducer:
        """A future for each message."""
        producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks=1, enable_idempotence=False)
        acknowledged = [0]

        def counted(_: Any) -> None:
            acknowledged[0] += 1

        def send(partitions: Sequence[int], payloads: Sequence[bytes]) -> None:
            for partition, value in zip(partitions, payloads, strict=True):
                producer.send(topic, value, partition=partition).add_callback(counted)

        return BareProducer(send, time.sleep, acknowledged, KafkaPythonProducer.chunk)

    def consumer(self, bootstrap: str, topic: str, partitions: int, most: int) -> BareConsumer:
        """Batches by partition."""
        consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), max_poll_records=most)
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)

        def poll() -> int:
            batches = consumer.poll(timeout_ms=100)
            used = [
                (place, record.offset, len(record.value)) for place, records in batches.items() for record in records
            ]
            return len(used)

        return BareConsumer(poll, consumer.close)


BARE_CLIENTS: dict[str, BareClient] = {"confluent-kafka": BareConfluent(), "kafka-python": BareKafkaPython()}
