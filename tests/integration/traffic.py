"""Messages through a cluster and back, with both clients, as any user would send them."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from harness.foundation.security import Security
from tests.support import PATIENCE_S, unique

COUNT = 100
PLAIN = Security()


def kafka_python_round_trip(bootstrap: str, security: Security = PLAIN) -> list[bytes]:
    """What comes back of COUNT messages sent with acks=all to three replicas."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), **security.kafka_python()}
    return _read(settings, _send(settings, NewTopic(unique("kafka-python"), 1, 3), acks="all"))


def send_to_one_node(bootstrap: str, node_id: int) -> str:
    """COUNT messages into a topic whose only replica is on one node; the topic."""
    only_there = NewTopic(unique("one-node"), replica_assignments={0: [node_id]})
    return _send({"bootstrap_servers": bootstrap.split(",")}, only_there, acks=1)


def read_back(bootstrap: str, topic: str) -> list[bytes]:
    """What a topic of COUNT messages holds."""
    return _read({"bootstrap_servers": bootstrap.split(",")}, topic)


def _send(settings: dict[str, Any], new: NewTopic, acks: int | str) -> str:
    topic: str = new.name
    admin = KafkaAdminClient(**settings)
    admin.create_topics([new])
    admin.wait_for_topics([topic])
    admin.close()
    producer = KafkaProducer(**settings, acks=acks)
    sent = [producer.send(topic, value=b"%d" % number) for number in range(COUNT)]
    producer.flush(timeout=PATIENCE_S)
    producer.close(timeout=10)
    assert all(future.succeeded() for future in sent)
    return topic


def _read(settings: dict[str, Any], topic: str) -> list[bytes]:
    consumer = KafkaConsumer(**settings, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    received: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(received) < COUNT and time.monotonic() < deadline:
        received += [record.value for records in consumer.poll(timeout_ms=500).values() for record in records]
    consumer.close(autocommit=False)
    return received


def confluent_round_trip(bootstrap: str, security: Security = PLAIN) -> list[bytes]:
    """The same with confluent-kafka."""
    settings = {"bootstrap.servers": bootstrap, **security.confluent_kafka()}
    topic = unique("confluent-kafka")
    admin = AdminClient(settings)
    for future in admin.create_topics([ConfluentTopic(topic, 1, 3)]).values():
        future.result(timeout=PATIENCE_S)
    errors: list[confluent_kafka.KafkaError] = []

    def delivered(error: confluent_kafka.KafkaError | None, _: object) -> None:
        if error is not None:
            errors.append(error)

    producer = confluent_kafka.Producer({**settings, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, value=b"%d" % number, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not errors
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    received: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(received) < COUNT and time.monotonic() < deadline:
        messages = consumer.consume(COUNT, timeout=0.5)
        received += [value for message in messages if not message.error() and (value := message.value()) is not None]
    consumer.close()
    return received


EXPECTED = [b"%d" % number for number in range(COUNT)]
