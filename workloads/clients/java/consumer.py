"""`KafkaConsumer`: the records of a poll cross over partition by partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jpype

from harness.foundation.error_codes import NUMBERS
from harness.foundation.security import Security
from workloads.clients.base import BEGINNING, MARK, ClientError, Consumer, PolledRecords, TopicPartition, one_by_one
from workloads.clients.java.failures import failure
from workloads.clients.java.loops import loops
from workloads.clients.java.machine import java_class, options, partition_of, seconds
from workloads.clients.java.settings import consumer_options
from workloads.clients.settings import ClientSettings

NOT_SET_UP = ClientError(NUMBERS["IllegalStateError"], "the library is not set up")
CLOSE_S = 2.0
NAP_S = 0.002


def partitions_of(partitions: Sequence[TopicPartition]) -> Any:
    """As the library takes them."""
    return java_class("java.util.ArrayList")([partition_of(*tp) for tp in partitions])


def pairs_of(partitions: Any) -> list[TopicPartition]:
    """The inverse, in order."""
    return sorted((str(tp.topic()), int(tp.partition())) for tp in partitions)


def offsets_of(offsets: Mapping[TopicPartition, int]) -> Any:
    """Offsets to commit."""
    given = java_class("java.util.HashMap")()
    for tp, offset in offsets.items():
        given.put(partition_of(*tp), java_class("clients.consumer.OffsetAndMetadata")(jpype.JLong(offset)))
    return given


def polled_of(batches: Any, *, keyed: bool = False) -> PolledRecords:
    """What a poll returned."""
    polled = PolledRecords(keys=[], marks=[]) if keyed else PolledRecords()
    for tp in batches.partitions():
        records = batches.records(tp).toArray()
        count = len(records)
        values = loops().contents(records, "value", loops().numbers(records, "serializedValueSize"))
        polled.topics.extend([str(tp.topic())] * count)
        polled.partitions.extend([int(tp.partition())] * count)
        polled.offsets.extend(loops().numbers(records, "offset").tolist())
        polled.payloads.extend(values)
        if polled.keys is not None and polled.marks is not None:
            polled.keys.extend(loops().contents(records, "key", loops().numbers(records, "serializedKeySize")))
            polled.marks.extend(
                None if value is not None else _mark(record) for record, value in zip(records, values, strict=True)
            )
    return polled


def _mark(record: Any) -> bytes | None:
    """What the header of a tombstone says."""
    header = java_class("clients.consumer.ConsumerRecord").headers(record).lastHeader(MARK)
    return None if header is None else bytes(header.value())


def seek_each(consumer: Any, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
    """Have it continue at these offsets, which asks nobody: where it refused."""
    errors = {}
    for tp, offset in positions.items():
        try:
            consumer.seek(partition_of(*tp), jpype.JLong(offset))
        except jpype.JException as error:  # the partition is somebody else's by now
            errors[tp] = failure(error)
    return errors


class JavaConsumer(Consumer):
    """Made when it is told what to read, because with a group it needs to know which."""

    def __init__(self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> None:
        self._options = consumer_options(settings, servers, security, client_id)
        self._consumer: Any = None
        self._keyed = settings.keyed
        self._has: set[TopicPartition] = set()
        self._again: Callable[[], ClientError | None] = lambda: NOT_SET_UP  # what a poll without a library tries
        self._listener: Any = None  # Java has it, and does not keep it alive

    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """The library keeps the positions of partitions that stay."""
        self._again = partial(self.assign, dict(positions))
        try:
            self._open()
            self._consumer.assign(partitions_of(list(positions)))
            for tp in positions.keys() - self._has:
                if positions[tp] == BEGINNING:
                    self._consumer.seekToBeginning(partitions_of([tp]))
                else:
                    self._consumer.seek(partition_of(*tp), jpype.JLong(positions[tp]))
        except jpype.JException as error:
            return failure(error)
        self._has = set(positions)
        return None

    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """Join, or change what an existing membership asks for."""
        self._again = partial(self.subscribe, topics, group, on_assign)
        try:
            self._open(**{"group.id": group, "enable.auto.commit": True})
            self._listener = rebalance_listener(assigned=on_assign)
            self._consumer.subscribe(java_class("java.util.ArrayList")(list(topics)), self._listener)
        except jpype.JException as error:
            return failure(error)
        return None

    def _open(self, **more: Any) -> None:
        if self._consumer is None:
            self._consumer = java_class("clients.consumer.KafkaConsumer")(options(self._options | more))

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:  # noqa: ARG002 - `max.poll.records` says so
        """One poll of the library."""
        if self._consumer is None and (failed := self._again()):
            time.sleep(timeout_s)
            return PolledRecords(errors=[failed])
        try:
            return polled_of(self._consumer.poll(seconds(timeout_s)), keyed=self._keyed)
        except jpype.JException as error:
            time.sleep(NAP_S)  # an error that comes back at once must not make a busy loop
            return PolledRecords(errors=[failure(error)])

    def position(self, tp: TopicPartition) -> int | None:
        """As the library has it, without waiting for anybody."""
        try:
            return None if self._consumer is None else int(self._consumer.position(partition_of(*tp), seconds(0)))
        except jpype.JException:
            return None

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Local."""
        return dict.fromkeys(positions, NOT_SET_UP) if self._consumer is None else seek_each(self._consumer, positions)

    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """ListOffsets(latest); one partition without an answer fails the call for all, so each is then asked alone."""
        if self._consumer is None:
            return {}
        try:
            found = self._consumer.endOffsets(partitions_of(partitions), seconds(timeout_s))
        except jpype.JException:
            return one_by_one(self.end_offsets, partitions, timeout_s)
        ends = {tp: found.get(partition_of(*tp)) for tp in partitions}
        return {tp: int(end) for tp, end in ends.items() if end is not None}

    def close(self) -> None:
        """Close the library."""
        if self._consumer is not None:
            close(self._consumer, CLOSE_S)


def close(consumer: Any, timeout_s: float, membership: str = "DEFAULT") -> ClientError | None:
    """Close the library; `membership` says whether it leaves its group."""
    how = java_class("clients.consumer.CloseOptions")
    operation = getattr(java_class("clients.consumer.CloseOptions$GroupMembershipOperation"), membership)
    try:
        consumer.close(how.timeout(seconds(timeout_s)).withGroupMembershipOperation(operation))
    except jpype.JException as error:
        return failure(error)
    return None


def rebalance_listener(
    assigned: Callable[[list[TopicPartition]], None],
    revoked: Callable[[list[TopicPartition]], None] | None = None,
    lost: Callable[[list[TopicPartition]], None] | None = None,
) -> Any:
    """A `ConsumerRebalanceListener`, which the library calls on the thread that polls."""
    calls = {"onPartitionsAssigned": assigned, "onPartitionsRevoked": revoked, "onPartitionsLost": lost}

    def passing_on(call: Callable[[list[TopicPartition]], None] | None) -> Callable[[Any], None]:
        def passed_on(partitions: Any) -> None:
            if call is not None and len(partitions):
                call(pairs_of(partitions))

        return passed_on

    java_class("clients.consumer.ConsumerRebalanceListener")
    methods = {name: passing_on(call) for name, call in calls.items()}
    return jpype.JProxy("org.apache.kafka.clients.consumer.ConsumerRebalanceListener", dict=methods)
