"""confluent-kafka (librdkafka) behind the common interface."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as LibraryPartition

from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.foundation.protocol import LATEST, NO_OFFSET
from harness.foundation.security import Security
from workloads.clients.base import (
    BEGINNING,
    MARK,
    ClientError,
    Consumer,
    DeliveredMessages,
    KeyedMessages,
    PolledRecords,
    Producer,
    TopicPartition,
)
from workloads.clients.settings import ClientSettings

PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - its public name
LOG = logging.getLogger("librdkafka")
RECONNECT_AT_MOST_MS = 500  # the library's own 10 s would make every fault look that long
WAIT_AT_A_FULL_QUEUE_S = 0.05
FULL_QUEUE_BACKOFF_MS = 20  # with the library's own second a fast reader stalls for that long, again and again


def _connection(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(servers),
        "client.id": client_id,
        "reconnect.backoff.max.ms": RECONNECT_AT_MOST_MS,
        "max.in.flight.requests.per.connection": settings.max_in_flight,
        "topic.metadata.refresh.interval.ms": settings.metadata_age_ms,
        **security.confluent_kafka(),
    }


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _error(error: Any) -> ClientError:
    return ClientError(error.code(), error.str())


def _mark(message: Any) -> bytes | None:
    """What the header of a tombstone says; a record with a value needs none."""
    if message.value() is not None:
        return None
    return next((value for name, value in message.headers() or () if name == MARK), None)


class ConfluentProducer(Producer):
    """`confluent_kafka.Producer`; the callback of each message only notes it down."""

    chunk = 1000

    def __init__(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str, **more: Any
    ) -> None:
        options = _connection(settings, servers, security, client_id) | {
            "acks": settings.acks,
            "enable.idempotence": settings.idempotent,
            "retries": settings.retries,
            "delivery.timeout.ms": settings.delivery_timeout_ms,
            "request.timeout.ms": settings.request_timeout_ms,
            "linger.ms": settings.linger_ms,
            "batch.size": settings.batch_size,
            "compression.type": settings.compression,
        }
        self._producer = confluent_kafka.Producer(_given(options | more), logger=LOG)
        self._block_at_most_s = settings.block_at_most_s
        self._payloads: list[bytes] = []
        self._offsets: list[int | None] = []  # None where a broker acknowledged without one
        self._errors: dict[int, ClientError] = {}
        self._finished = self._noting()
        self._sent = self._handed_back = 0

    def _noting(self) -> Callable[[KafkaError | None, Any], None]:
        """The callback of each message; a closure over two lists, because nothing else runs as often."""
        payloads, note_payload, note_offset = self._payloads, self._payloads.append, self._offsets.append

        def finished(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._errors[len(payloads)] = _error(error)
            note_payload(message.value())
            note_offset(message.offset())

        return finished

    def _refused(self, payload: bytes, error: object) -> None:
        self._errors[len(self._payloads)] = ClientError(REFUSED_LOCALLY, str(error))
        self._payloads.append(payload)
        self._offsets.append(-1)

    def _deleted(self, payload: bytes, error: KafkaError | None, message: Any) -> None:
        """The callback of a tombstone: the library hands back neither its value nor its headers."""
        if error is not None:
            self._errors[len(self._payloads)] = _error(error)
        self._payloads.append(payload)
        self._offsets.append(message.offset())

    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """One call of the library per message; a full queue is waited for, as its manual says."""
        if keyed is not None:
            self._send_keyed(topic, partitions, payloads, keyed)
            return
        produce, finished = self._producer.produce, self._finished
        self._sent += len(payloads)
        give_up_at = time.monotonic() + self._block_at_most_s
        for partition, payload in zip(partitions, payloads, strict=True):
            try:
                produce(topic, payload, None, partition, finished)
            except BufferError:
                again = partial(produce, topic, payload, None, partition, finished)
                self._send_when_there_is_room(payload, again, give_up_at)
            except KafkaException as error:
                self._refused(payload, error)

    def _send_keyed(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages
    ) -> None:
        self._sent += len(payloads)
        give_up_at = time.monotonic() + self._block_at_most_s
        for partition, payload, key, tombstone in zip(partitions, payloads, keyed.keys, keyed.tombstones, strict=True):
            if tombstone:
                deleted = partial(self._deleted, payload)
                message = partial(
                    self._producer.produce, topic, None, key, partition, deleted, headers=[(MARK, payload)]
                )
            else:
                message = partial(self._producer.produce, topic, payload, key, partition, self._finished)
            try:
                message()
            except BufferError:
                self._send_when_there_is_room(payload, message, give_up_at)
            except KafkaException as error:
                self._refused(payload, error)

    def _send_when_there_is_room(self, payload: bytes, again: Callable[[], None], give_up_at: float) -> None:
        while time.monotonic() < give_up_at:
            self._call_back(WAIT_AT_A_FULL_QUEUE_S)
            try:
                again()
            except BufferError:
                continue
            except KafkaException as error:
                self._refused(payload, error)
            return
        self._refused(payload, f"the queue of the library was full for {self._block_at_most_s:.0f} s")

    def _call_back(self, wait_s: float) -> None:
        """A fatal error is raised here, once, whoever it is about; the messages and calls that it ends say so too."""
        with suppress(KafkaException):
            self._producer.poll(wait_s)

    def delivered(self, wait_s: float) -> DeliveredMessages:
        """Let the library call back, and drain what was noted."""
        self._call_back(0 if self._payloads else wait_s)
        offsets = [NO_OFFSET if offset is None else offset for offset in self._offsets]
        found = DeliveredMessages(self._payloads[:], offsets, self._errors.copy())
        for noted in (self._payloads, self._offsets, self._errors):
            noted.clear()
        self._handed_back += len(found.payloads)
        return found

    @property
    def outstanding(self) -> int:
        """Sent and not handed back."""
        return self._sent - self._handed_back

    def close(self, timeout_s: float) -> None:
        """The library has no close; what is still queued is dropped with it."""
        with suppress(KafkaException):
            self._producer.flush(timeout_s)


class ConfluentConsumer(Consumer):
    """`confluent_kafka.Consumer`."""

    def __init__(self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> None:
        self._options = _connection(settings, servers, security, client_id) | {
            "auto.offset.reset": "earliest",
            "isolation.level": settings.isolation_level,
            "client.rack": settings.client_rack,
            "fetch.queue.backoff.ms": FULL_QUEUE_BACKOFF_MS,
            "enable.partition.eof": True,  # the only way to learn that a position is past markers at the end
        }
        self._consumer: Any = None
        self._keyed = settings.keyed
        self._has: set[TopicPartition] = set()
        self._only: str | None = None  # the topic of all records, where there is one
        self._ends: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """Add what is new and take away what is gone; the others are not disturbed."""
        gone, new = self._has - positions.keys(), positions.keys() - self._has
        try:
            if self._consumer is None:  # the library wants the name of a group even where there is none
                alone = {"group.id": self._options["client.id"], "enable.auto.commit": False}
                self._consumer = confluent_kafka.Consumer(_given(self._options | alone), logger=LOG)
            if gone:
                self._consumer.incremental_unassign([LibraryPartition(*tp) for tp in gone])
                self._has -= gone
            if new:
                self._consumer.incremental_assign([LibraryPartition(*tp, positions[tp]) for tp in new])
        except KafkaException as error:
            return _error(error.args[0])
        self._has = set(positions)
        names = {topic for topic, _ in positions}
        self._only = names.pop() if len(names) == 1 else None
        return None

    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """Join, or change what an existing membership asks for."""
        try:
            if self._consumer is None:
                self._consumer = confluent_kafka.Consumer(_given(self._options | {"group.id": group}), logger=LOG)
            self._consumer.subscribe(
                list(topics), on_assign=lambda _, given: on_assign([(tp.topic, tp.partition) for tp in given])
            )
        except KafkaException as error:
            return _error(error.args[0])
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """As many messages as are there within the time."""
        try:
            messages = self._consumer.consume(max_records, timeout_s)
        except KafkaException as error:
            return PolledRecords(errors=[_error(error.args[0])])
        errors: list[ClientError] = []
        if any([message.error() for message in messages]):  # noqa: C419 - a list is faster here than a generator
            errors = self._take_out(messages)
            messages = [message for message in messages if not message.error()]
        return PolledRecords(
            [self._only] * len(messages) if self._only else [message.topic() for message in messages],
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.value() for message in messages],
            errors,
            [message.key() for message in messages] if self._keyed else None,
            [_mark(message) for message in messages] if self._keyed else None,
        )

    def _take_out(self, messages: Sequence[Message]) -> list[ClientError]:
        """Errors among the messages; the end of a partition is not one."""
        errors = []
        for message in messages:
            if (error := message.error()) is None:
                continue
            if error.code() == PARTITION_EOF:
                self._ends[str(message.topic()), int(message.partition() or 0)] = int(message.offset() or 0)
            else:
                errors.append(_error(error))
        return errors

    def position(self, tp: TopicPartition) -> int | None:
        """After the last record, or where the library met the end."""
        (found,) = self._consumer.position([LibraryPartition(*tp)])
        position = max(found.offset, self._ends.get(tp, BEGINNING))
        return position if position >= 0 else None

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """By taking them anew: the library refuses to seek where it does not fetch just then."""
        errors = {}
        for tp, offset in positions.items():
            try:
                if tp in self._has:
                    self._consumer.incremental_unassign([LibraryPartition(*tp)])
                    self._has.discard(tp)
                self._consumer.incremental_assign([LibraryPartition(*tp, offset)])
            except KafkaException as error:
                errors[tp] = _error(error.args[0])
            else:
                self._has.add(tp)
                self._ends.pop(tp, None)
        return errors

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """ListOffsets(latest), in one call for all."""
        asked = [LibraryPartition(*tp, LATEST) for tp in partitions]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=timeout_s)
        except KafkaException:
            time.sleep(WAIT_AT_A_FULL_QUEUE_S)
            return {}
        return {(tp.topic, tp.partition): tp.offset for tp in found if tp.error is None and tp.offset >= 0}

    def close(self) -> None:
        """Leave the group and close the library."""
        if self._consumer is not None:
            self._consumer.close()
