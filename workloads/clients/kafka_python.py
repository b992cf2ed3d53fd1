"""kafka-python behind the common interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as LibraryPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.producer.future import RecordMetadata

from harness.clusters.kept_connections import connections_to
from harness.foundation.error_codes import NUMBERS, REFUSED_LOCALLY, code_of
from harness.foundation.known_addresses import known_with
from harness.foundation.protocol import NO_OFFSET
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
    one_by_one,
)
from workloads.clients.settings import ClientSettings

BOOTSTRAP_S = 5.0  # a consumer is made by connecting; the library's own 30 s outlast any patience at the end
NOT_CONNECTED = ClientError(NUMBERS["IllegalStateError"], "the library is not set up")
RECONNECT_AT_MOST_MS = 500  # the library's own 30 s would make every fault look that long
NAP_S = 0.002


def _connection(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> dict[str, Any]:
    connection: dict[str, Any] = {
        "bootstrap_servers": list(servers),
        "kafka_client": connections_to(known_with(servers)),
        "client_id": client_id,
        "reconnect_backoff_max_ms": RECONNECT_AT_MOST_MS,
        "allow_auto_create_topics": False,
        "request_timeout_ms": settings.request_timeout_ms,
        "max_in_flight_requests_per_connection": settings.max_in_flight,
        "metadata_max_age_ms": settings.metadata_age_ms,
        **security.kafka_python(),
    }
    return {name: value for name, value in connection.items() if value is not None}


def _error(error: BaseException) -> ClientError:
    return ClientError(code_of(error), str(error))


def open_consumer(**options: Any) -> Any:
    """A `KafkaConsumer`; where it gets no connection, neither its thread nor its sockets are left behind."""
    made = []

    connections = options["kafka_client"]

    def connect(**given: Any) -> KafkaNetClient:
        made.append(connections(**given))
        return made[-1]

    try:
        options |= {"bootstrap_timeout_ms": int(BOOTSTRAP_S * 1000), "kafka_client": connect}
        return KafkaConsumer(**options)
    except BaseException:
        for each in made:
            each.close()
        raise


def seek_each(consumer: Any, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
    """Have it go on at these offsets, which is asked of nobody: where it refused."""
    errors = {}
    for tp, offset in positions.items():
        try:
            consumer.seek(LibraryPartition(*tp), offset)
        except Exception as error:  # noqa: BLE001 - no error of its own: the partition is somebody else's by now
            errors[tp] = _error(error)
    return errors


def _keyed(payload: bytes, key: bytes, tombstone: bool) -> dict[str, Any]:  # noqa: FBT001 - of pairs that are unpacked
    """A message with a key, or the tombstone of that key, as the library takes them."""
    return {"key": key, "value": None, "headers": [(MARK, payload)]} if tombstone else {"key": key, "value": payload}


def _mark(record: Any) -> bytes | None:
    """What the header of a tombstone says; a record with a value needs none."""
    if record.value is not None:
        return None
    return next((value for name, value in record.headers or () if name == MARK), None)


class KafkaPythonProducer(Producer):
    """`KafkaProducer`; its sender thread reports each message, which is only noted down."""

    chunk = 400  # 40 ms of sending at full speed: what is announced earlier costs less

    def __init__(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str, **more: Any
    ) -> None:
        options = {
            "acks": settings.acks if settings.acks == "all" else int(settings.acks),
            "enable_idempotence": settings.idempotent,
            "retries": settings.retries,
            "delivery_timeout_ms": settings.delivery_timeout_ms,
            "linger_ms": settings.linger_ms,
            "batch_size": settings.batch_size,
            "compression_type": None if settings.compression == "none" else settings.compression,
            "max_block_ms": int(settings.block_at_most_s * 1000),
            **more,
        }
        self._producer = KafkaProducer(
            **_connection(settings, servers, security, client_id)
            | {name: value for name, value in options.items() if value is not None}
        )
        self._done: dict[bytes, Any] = {}  # by payload, in the order in which they ended
        self._note = self._done.setdefault  # without a frame of Python's: nothing else runs as often
        self._sent = self._handed_back = 0

    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """One call of the library per message; a message that it refuses is noted as such."""
        send, note = self._producer.send, self._note
        self._sent += len(payloads)
        messages = zip(partitions, payloads, strict=True)
        keys = iter(()) if keyed is None else zip(keyed.keys, keyed.tombstones, strict=True)
        for partition, payload in messages:
            try:
                if keyed is None:
                    future = send(topic, payload, partition=partition)
                else:
                    future = send(topic, partition=partition, **_keyed(payload, *next(keys)))
            except KafkaTimeoutError as error:  # nobody knows the topic: each of the others would wait as long
                self._refused([payload, *(left for _, left in messages)], error)
            except (KafkaError, AssertionError, ValueError) as error:
                self._refused([payload], error)
            else:
                noted = partial(note, payload)
                future._add_cb_eb(noted, noted)  # noqa: SLF001 - add_both() costs twice as much

    def _refused(self, payloads: Sequence[bytes], error: Exception) -> None:
        for payload in payloads:
            self._note(payload, ClientError(REFUSED_LOCALLY, str(error)))

    def delivered(self, wait_s: float) -> DeliveredMessages:
        """Drain what the sender thread noted."""
        # a sleep of nothing lets the sender thread in, which would otherwise wait for the interpreter
        time.sleep(0 if self._done else wait_s)
        payloads = list(self._done)
        results = list(map(self._done.pop, payloads))
        self._handed_back += len(payloads)
        offsets = [result.offset if type(result) is RecordMetadata else NO_OFFSET for result in results]
        errors = {}
        if NO_OFFSET in offsets:
            errors = {
                index: result if isinstance(result, ClientError) else _error(result)
                for index, result in enumerate(results)
                if type(result) is not RecordMetadata
            }
        return DeliveredMessages(payloads, offsets, errors)

    @property
    def outstanding(self) -> int:
        """Sent and not handed back."""
        return self._sent - self._handed_back

    def close(self, timeout_s: float) -> None:
        """Close the library, which may give up on what is outstanding."""
        try:
            self._producer.close(timeout=timeout_s)
        except KafkaError:
            return


def polled_of(batches: Mapping[LibraryPartition, Sequence[Any]], *, keyed: bool = False) -> PolledRecords:
    """What a poll of the library returned."""
    polled = PolledRecords(keys=[], marks=[]) if keyed else PolledRecords()
    for tp, records in batches.items():
        polled.topics.extend([tp.topic] * len(records))
        polled.partitions.extend([tp.partition] * len(records))
        polled.offsets.extend([record.offset for record in records])
        polled.payloads.extend([record.value for record in records])
        if polled.keys is not None and polled.marks is not None:
            polled.keys.extend([record.key for record in records])
            polled.marks.extend([_mark(record) for record in records])
    return polled


class KafkaPythonConsumer(Consumer):
    """`KafkaConsumer`; it is made when it is told what to read, because to make one means to connect."""

    def __init__(self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> None:
        self._options = _connection(settings, servers, security, client_id) | {
            "auto_offset_reset": "earliest",
            "max_poll_records": settings.max_poll_records,
            "isolation_level": settings.isolation_level or "read_uncommitted",
            "client_rack": settings.client_rack or "",
        }
        self._consumer: Any = None
        self._keyed = settings.keyed
        self._has: set[TopicPartition] = set()
        self._again: Callable[[], ClientError | None] = lambda: NOT_CONNECTED  # what a poll without a library tries

    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """The library keeps the positions of partitions that stay."""
        self._again = partial(self.assign, dict(positions))
        try:
            if self._consumer is None:
                self._consumer = open_consumer(**self._options, enable_auto_commit=False)
            self._consumer.assign([LibraryPartition(*tp) for tp in positions])
            for tp in positions.keys() - self._has:
                if positions[tp] == BEGINNING:
                    self._consumer.seek_to_beginning(LibraryPartition(*tp))
                else:
                    self._consumer.seek(LibraryPartition(*tp), positions[tp])
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            return _error(error)
        self._has = set(positions)
        return None

    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """Join, or change what an existing membership asks for."""
        self._again = partial(self.subscribe, topics, group, on_assign)
        try:
            if self._consumer is None:
                self._consumer = open_consumer(**self._options, group_id=group)
            self._consumer.subscribe(list(topics), listener=_Listener(on_assign))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            return _error(error)
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """One poll of the library."""
        if self._consumer is None and (failed := self._again()):
            time.sleep(timeout_s)
            return PolledRecords(errors=[failed])
        try:
            batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        except KafkaError as error:
            time.sleep(NAP_S)  # an error that comes back at once must not make a busy loop
            return PolledRecords(errors=[_error(error)])
        return polled_of(batches, keyed=self._keyed)

    def position(self, tp: TopicPartition) -> int | None:
        """As the library says, without asking anybody."""
        if self._consumer is None:
            return None
        state = self._consumer._subscription.assignment.get(LibraryPartition(*tp))  # noqa: SLF001 - position() may block
        return None if state is None or state.position is None else int(state.position.offset)

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Local."""
        return (
            dict.fromkeys(positions, NOT_CONNECTED) if self._consumer is None else seek_each(self._consumer, positions)
        )

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """ListOffsets(latest); one partition without an answer fails the call for all, so each is then asked alone."""
        if self._consumer is None:
            return {}
        asked = [LibraryPartition(*tp) for tp in partitions]
        try:
            found = self._consumer.end_offsets(asked, timeout_ms=int(timeout_s * 1000))
        except (KafkaError, KeyError):  # the library takes it for granted that an answer names every partition
            return one_by_one(self.end_offsets, partitions, timeout_s)
        return {(tp.topic, tp.partition): end for tp, end in found.items() if end is not None}

    def close(self) -> None:
        """Close the library, without a last commit."""
        if self._consumer is not None:
            try:
                self._consumer.close(autocommit=False, timeout_ms=2000)
            except KafkaError:
                return


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes on what the group gives."""

    def __init__(self, on_assign: Callable[[list[TopicPartition]], None]) -> None:
        self._on_assign = on_assign

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing to do."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Tell."""
        self._on_assign([(tp.topic, tp.partition) for tp in assigned])
