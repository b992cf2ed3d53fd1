"""Reading and recording: one poll is one operation, and its records are written before its completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history import F, Kind, Op, Type, now
from workloads import payload
from workloads.base import Settings
from workloads.clients import make_consumer
from workloads.clients.base import BEGINNING, Consumer, Place, Polled
from workloads.payload import Ints
from workloads.session import Session

POLL_S = 0.1


class Reader:
    """A consumer that records."""

    def __init__(self, session: Session, settings: Settings, consumer: Consumer) -> None:
        self.consumer = consumer
        self._session = session
        self._max_records = settings.max_poll_records
        self._subscribes = settings.consume_by == "subscribe"
        self._numbers: dict[str, int] = {}
        self._places: set[Place] = set()

    def follow(self, numbers: Mapping[str, int], places: Sequence[Place]) -> None:
        """Read these topics: the given partitions of them, from the beginning, or what the group gives."""
        self._numbers.update(numbers)
        if self._subscribes:
            group = f"{self._session.config.prefix}-{self._session.config.workload}"
            self.consumer.subscribe(list(numbers), group, self._assigned)
            return
        new = [place for place in places if place not in self._places]
        op = self._announce(new)
        self.consumer.assign(dict.fromkeys(places, BEGINNING))
        self._answered(new, op)
        self._places = set(places)

    def poll(self, timeout_s: float = POLL_S) -> Polled:
        """One poll, recorded whatever comes of it."""
        recorder = self._session.recorder
        op = recorder.begin(F.POLL)
        polled = self.consumer.poll(self._max_records, timeout_s)
        count = len(polled.payloads)
        write_records(self._session, polled, self._numbers, op.id, op.invoked)
        if polled.errors:
            first = polled.errors[0]
            type_ = Type.OK if count else Type.INFO
            recorder.end(op, type_, count=count, error=first.code, detail=first.text)
        else:
            recorder.end(op, Type.OK, count=count, error=0)
        self._session.status.read += count
        self._session.status.show()
        return polled

    def _assigned(self, places: list[Place]) -> None:
        self._answered(places, self._announce(places))

    def _announce(self, places: Sequence[Place]) -> Op:
        """One operation per partition; the first of them is returned."""
        recorder = self._session.recorder
        first = Op(recorder.new_ops(len(places)), F.ASSIGN, now())
        recorder.write(Kind.INVOKE, len(places), time=first.invoked, **self._columns(places, first))
        return first

    def _answered(self, places: Sequence[Place], first: Op) -> None:
        self._session.recorder.write(
            Kind.COMPLETE, len(places), type=Type.OK, invoked=first.invoked, **self._columns(places, first)
        )

    def _columns(self, places: Sequence[Place], first: Op) -> dict[str, Any]:
        return {
            "f": first.f,
            "op": np.arange(len(places)) + first.id,
            "topic": np.array([self._numbers[topic] for topic, _ in places], np.int32),
            "partition": np.array([partition for _, partition in places], np.int32),
        }


def open_reader(session: Session, settings: Settings) -> Reader:
    """A reader over the client that the settings name."""
    servers = settings.servers(session.addresses)
    return Reader(session, settings, make_consumer(settings, servers, session.security, session.client_id))


def write_records(
    session: Session, polled: Polled, numbers: Mapping[str, int], op: Ints, invoked: Ints, txn: int | None = None
) -> None:
    """The records of a poll, in one write."""
    count = len(polled.payloads)
    if not count:
        return
    topics: int | npt.NDArray[Any]
    if len(numbers) == 1:
        topics = next(iter(numbers.values()))
    else:
        topics = np.fromiter(map(numbers.__getitem__, polled.topics), np.int32, count)
    partitions = np.array(polled.partitions, np.int32)
    parsed = payload.parse(polled.payloads, topics, partitions, session.config.run)
    session.recorder.write(
        Kind.RECORD, count, op=op, invoked=invoked, topic=topics, partition=partitions,
        offset=np.array(polled.offsets, np.int64), value=parsed.value, producer=parsed.producer,
        sequence=parsed.sequence, source=parsed.source, txn=txn, status=parsed.status,
    )  # fmt: skip
