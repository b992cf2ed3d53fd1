"""Reading and recording: one poll is one operation, and its records are written before its completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.recorder import Op, Values
from harness.history.schema import F, Kind, Type
from workloads import payload
from workloads.base import Settings
from workloads.clients import make_consumer
from workloads.clients.base import BEGINNING, ClientError, Consumer, PolledRecords, TopicPartition
from workloads.partition_ops import begin_ops, end_ops, end_ops_by_error
from workloads.session import WorkerSession

POLL_S = 0.1
NAP_S = 0.2  # after a library that could not be set up


class RecordingConsumer:
    """A consumer that records."""

    def __init__(self, session: WorkerSession, settings: Settings, consumer: Consumer) -> None:
        self.consumer = consumer
        self._session = session
        self._max_records = settings.max_poll_records
        self._subscribes = settings.consume_by == "subscribe"
        self._numbers: dict[str, int] = {}
        self._partitions: set[TopicPartition] = set()
        self._again: Callable[[], ClientError | None] | None = None  # what did not work, and is tried before each poll

    def follow(self, numbers: Mapping[str, int], partitions: Sequence[TopicPartition]) -> None:
        """Read these topics: the given partitions of them, from the beginning, or what the group gives.

        Where the library cannot be set up, each poll tries it once more before anything else.
        """
        self._numbers.update(numbers)
        take = partial(self._subscribe, list(numbers)) if self._subscribes else partial(self._assign, list(partitions))
        self._again = take if take() else None

    def poll(self, timeout_s: float = POLL_S, txn: int | None = None) -> PolledRecords:
        """One poll, recorded whatever comes of it; `txn` is the transaction that it is a part of."""
        error = self._again() if self._again else None
        self._again = self._again if error else None
        op = self._session.recorder.begin(F.POLL, txn=txn)
        polled = PolledRecords(errors=[error]) if error else self.consumer.poll(self._max_records, timeout_s)
        end_poll(self._session, op, polled, self._numbers, txn=txn)
        if error:
            self._session.control.wait(NAP_S)
        return polled

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets of partitions that it reads."""
        recorder = self._session.recorder
        offsets = np.fromiter(positions.values(), np.int64, len(positions))
        ops = begin_ops(recorder, F.ASSIGN, self._numbers, list(positions), offset=offsets)
        errors = self.consumer.seek(positions)
        end_ops_by_error(recorder, ops, [errors.get(tp) for tp in positions])

    def _subscribe(self, topics: Sequence[str]) -> ClientError | None:
        group = f"{self._session.config.prefix}-{self._session.config.workload}"
        return self.consumer.subscribe(topics, group, self._assigned)

    def _assign(self, partitions: Sequence[TopicPartition]) -> ClientError | None:
        new = [tp for tp in partitions if tp not in self._partitions]
        ops = begin_ops(self._session.recorder, F.ASSIGN, self._numbers, new)
        error = self.consumer.assign(dict.fromkeys(partitions, BEGINNING))
        end_ops_by_error(self._session.recorder, ops, [error] * len(new))
        if error is None:
            self._partitions = set(partitions)
        return error

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        recorder = self._session.recorder
        end_ops(recorder, begin_ops(recorder, F.ASSIGN, self._numbers, partitions), Type.OK)


def open_consumer(session: WorkerSession, settings: Settings) -> RecordingConsumer:
    """A reader over the client that the settings name."""
    servers = settings.servers(session.addresses)
    return RecordingConsumer(session, settings, make_consumer(settings, servers, session.security, session.client_id))


def end_poll(
    session: WorkerSession, op: Op, polled: PolledRecords, numbers: Mapping[str, int], **columns: Values | str | None
) -> None:
    """The records of a poll, and then its completion."""
    count = len(polled.payloads)
    write_records(session, polled, numbers, op=op.id, invoked=op.invoked, txn=columns.get("txn"))
    error, detail, type_ = 0, None, Type.OK
    if polled.errors:
        error, detail = polled.errors[0].code, polled.errors[0].text
        type_ = Type.OK if count else Type.INFO
    session.recorder.end(op, type_, count=count, error=error, detail=detail, **columns)
    session.status.read += count
    session.status.show()


def write_records(
    session: WorkerSession, polled: PolledRecords, numbers: Mapping[str, int], **columns: Values | str | None
) -> None:
    """The records of a poll, in one write; `columns` are those that they have from the poll: op, invoked, txn."""
    count = len(polled.payloads)
    if not count:
        return
    topics: int | npt.NDArray[Any]
    if len(numbers) == 1:
        topics = next(iter(numbers.values()))
    else:
        topics = np.fromiter(map(numbers.__getitem__, polled.topics), np.int32, count)
    partitions = np.array(polled.partitions, np.int32)
    parsed = payload.parse(polled.payloads, topics, partitions, session.config.run, polled.marks)
    keys = None if polled.keys is None else payload.key_numbers(polled.keys)
    session.recorder.write(
        Kind.RECORD, count, topic=topics, partition=partitions, offset=np.array(polled.offsets, np.int64),
        value=parsed.value, producer=parsed.producer, sequence=parsed.sequence, source=parsed.source,
        status=parsed.status, key=keys, **columns,
    )  # fmt: skip
