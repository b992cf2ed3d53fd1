"""Sending and recording: invocations are written before the first message of a chunk leaves, completions per drain.

Nothing is kept per message, except the key of one that has a key, until its outcome is known. What became of a message
is told by the library with the message itself, whose payload carries all else that a completion needs: so memory stays
flat however many are sent. Large messages are sent in smaller chunks, and fewer of them are outstanding.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.outcomes import outcome
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, F, Kind, Type, now
from workloads import payload
from workloads.base import Settings
from workloads.clients import make_producer
from workloads.clients.base import DeliveredMessages, KeyedMessages, Producer
from workloads.session import WorkerSession

OUTSTANDING_AT_MOST = 50_000  # kafka-python has no limit of its own
OUTSTANDING_AT_MOST_BYTES = 256_000_000
CHUNK_AT_MOST_BYTES = 8_000_000
DRAIN_S = 0.02
FLUSH_TIMEOUT_S = 120.0  # what has no outcome by then stays open, and sealing makes it info
CLOSE_S = 1.0


@dataclass(frozen=True)
class MessageKeys:
    """The keys of messages as numbers, and which of the messages are tombstones."""

    numbers: npt.NDArray[Any]
    tombstones: npt.NDArray[Any]

    @property
    def flags(self) -> npt.NDArray[Any]:
        """What the payloads say of themselves."""
        return np.where(self.tombstones, payload.TOMBSTONE, 0)

    def keyed(self) -> KeyedMessages:
        """As a library takes them."""
        return KeyedMessages(payload.keys_of(self.numbers), self.tombstones.tolist())


class Sequences:
    """How many messages each partition of a topic was sent so far."""

    def __init__(self, partitions: int) -> None:
        self._next = np.zeros(partitions, np.int64)

    def take(self, partitions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The next number for each of these messages."""
        numbers = np.empty(len(partitions), np.int64)
        counts = np.bincount(partitions, minlength=len(self._next))
        self._next = np.pad(self._next, (0, len(counts) - len(self._next)))  # the topic has grown
        for partition in np.flatnonzero(counts):
            first = self._next[partition]
            numbers[partitions == partition] = np.arange(first, first + counts[partition])
        self._next += counts
        return numbers


class RecordingProducer:
    """A producer that records."""

    def __init__(self, session: WorkerSession, settings: Settings, producer: Producer) -> None:
        self.producer = producer
        self._recorder = session.recorder
        self._control = session.control
        self._status = session.status
        self._builder = payload.PayloadBuilder(session.config.run, session.config.process, settings.value_bytes)
        self._sequences: dict[int, Sequences] = {}
        self._keys: dict[int, int] = {}  # by value, of those that are outstanding
        self._partitions = settings.partitions
        self.chunk = max(1, min(producer.chunk, CHUNK_AT_MOST_BYTES // settings.value_bytes))
        self.outstanding_at_most = max(
            self.chunk, min(OUTSTANDING_AT_MOST, OUTSTANDING_AT_MOST_BYTES // settings.value_bytes)
        )

    def send(  # noqa: PLR0913 - what messages can have beside their partition
        self,
        topic: int,
        name: str,
        partitions: npt.NDArray[Any],
        *,
        sources: npt.NDArray[Any] | None = None,
        txn: int | None = None,
        keys: MessageKeys | None = None,
    ) -> list[bytes]:
        """Announce messages to these partitions of a topic, then hand them to the library; the messages."""
        count = len(partitions)
        values = np.arange(count) + self._recorder.new_ops(count)
        sequences = self._sequences.setdefault(topic, Sequences(self._partitions)).take(partitions)
        invoked = now()
        payloads = self._builder.build(
            count, topic=topic, partition=partitions, value=values, sequence=sequences, invoked=invoked,
            source=payload.NO_SOURCE if sources is None else sources, flags=0 if keys is None else keys.flags,
        )  # fmt: skip
        self._recorder.write(
            Kind.INVOKE, count, time=invoked, op=values, f=F.SEND, topic=topic, partition=partitions, value=values,
            sequence=sequences, source=sources, txn=txn, key=None if keys is None else keys.numbers,
        )  # fmt: skip
        self._status.sent += count
        if keys is None:
            self.producer.send(name, partitions.tolist(), payloads)
        else:
            self._keys.update(zip(values.tolist(), keys.numbers.tolist(), strict=True))
            self.producer.send(name, partitions.tolist(), payloads, keys.keyed())
        return payloads

    def drain(self, wait_s: float) -> None:
        """Record what has an outcome now."""
        record_delivered(self._recorder, self.producer.delivered(wait_s), self._status, self._keys)
        self._status.show()

    def make_room(self) -> None:
        """Wait while too many are outstanding."""
        while self.producer.outstanding > self.outstanding_at_most and not self._control.stopped:
            self.drain(DRAIN_S)

    def finish(self) -> None:
        """Wait for what is outstanding as long as anybody is there to wait with, then close."""
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while self.producer.outstanding and time.monotonic() < deadline and not self._control.gone:
            self.drain(DRAIN_S)
        self.producer.close(CLOSE_S)
        self.drain(0)
        self._status.detail = f"{self.producer.outstanding:,} without an answer" if self.producer.outstanding else ""


def open_producer(session: WorkerSession, settings: Settings) -> RecordingProducer:
    """A sender over the client that the settings name."""
    servers = settings.servers(session.addresses)
    return RecordingProducer(session, settings, make_producer(settings, servers, session.security, session.client_id))


def record_delivered(recorder: Recorder, delivered: DeliveredMessages, status: Any, keys: dict[int, int]) -> None:
    """Completions of sends, in one write; `keys` lets go of those of them."""
    count = len(delivered.payloads)
    if not count:
        return
    head = payload.headers(delivered.payloads)
    columns: dict[str, Any] = {"type": Type.OK, "offset": np.array(delivered.offsets, np.int64)}
    if delivered.errors:
        columns = _with_errors(recorder, delivered, columns["offset"])
    if keys:
        columns["key"] = np.fromiter(map(keys.pop, head["value"].tolist()), np.int64, count)
    types = columns["type"]
    recorder.write(
        Kind.COMPLETE, count, op=head["value"], value=head["value"], invoked=head["invoked"], f=F.SEND,
        topic=head["topic"], partition=head["partition"], sequence=head["sequence"], error=columns.pop("error", 0),
        **columns,
    )  # fmt: skip
    failed = int(np.count_nonzero(types == Type.FAIL)) if delivered.errors else 0
    unknown = int(np.count_nonzero(types == Type.INFO)) if delivered.errors else 0
    status.fail += failed
    status.info += unknown
    status.ok += count - failed - unknown


def _with_errors(recorder: Recorder, delivered: DeliveredMessages, offsets: npt.NDArray[Any]) -> dict[str, Any]:
    """Columns that differ between messages that were acknowledged and those that were not."""
    count = len(delivered.payloads)
    at = np.fromiter(delivered.errors, np.int64, len(delivered.errors))
    errors = list(delivered.errors.values())
    types = np.full(count, Type.OK, np.int8)
    types[at] = [outcome(F.SEND, error.code) for error in errors]
    codes = np.zeros(count, np.int16)
    codes[at] = [error.code for error in errors]
    details = np.full(count, COLUMNS["detail"].null, np.int32)
    details[at] = [recorder.text(error.text) for error in errors]
    offsets[at] = COLUMNS["offset"].null
    return {"type": types, "error": codes, "detail": details, "offset": offsets}
