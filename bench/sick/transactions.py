"""Very many transactions, half of them aborted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bench.history_plan import (
    FINAL_POLL,
    FIRST_FINAL,
    LEAST_NS,
    MS,
    PACE_NS,
    START_NS,
    TOPIC,
    Numbers,
    blocks,
    make_rows,
)
from bench.sick.rows import FIRST_MEMBER, TEXT, TXN_PRODUCERS, Story, Streams, phases
from harness.history.schema import ID_BITS, F, Kind, Status, Type
from harness.history.sources import Rows


@dataclass(frozen=True)
class Transactions:
    """Transaction t sends a message to each partition; twenty of them are open at any time, and half are aborted.

    Its reader is given some of what was aborted, and of some that were committed one message is missing. Every fourth
    one polls, and is handed what the fourth one after it, or before it, has not committed yet, or has.
    """

    EVENTS_OF_ONE: ClassVar[float] = 13.65
    PARTITIONS: ClassVar[int] = 4
    OPERATIONS: ClassVar[int] = 1 + PARTITIONS + 1  # the transaction, its sends and a poll
    EVENTS: ClassVar[int] = 2 * OPERATIONS + PARTITIONS

    count: int

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        made = cls(max(2 * TXN_PRODUCERS, int(events / cls.EVENTS_OF_ONE)))
        committed = {"isolation": "read_committed"}
        processes: dict[int, dict[str, Any]] = {
            0: {"role": "runner"},
            **{FIRST_MEMBER + n: {"role": "consumer", "idempotent": True, **committed} for n in range(TXN_PRODUCERS)},
            FIRST_FINAL: {"role": "final", **committed},
        }
        return Story(made.streams(), processes, {TOPIC: "transfers"})

    def streams(self) -> Streams:
        """All that is recorded."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [iter([self._inits(kind)]), self._txns(kind), self._sends(kind), self._polls(kind)]
            streams[kind].append(self._finals(kind))
        streams[Kind.RECORD] += [self._polled(), self._final_reads()]
        streams[Kind.PHASE].append(iter([phases(self.end_ns, self.final_ns)]))
        return streams

    @property
    def pace_ns(self) -> int:
        """From the beginning of one to that of the next."""
        return max(10 * PACE_NS, LEAST_NS // self.count)

    @property
    def end_ns(self) -> int:
        """When all have ended."""
        return START_NS + (self.count + TXN_PRODUCERS) * self.pace_ns + 10 * MS

    @property
    def final_ns(self) -> int:
        """When the final read begins."""
        return self.end_ns + 1_000 * MS

    @staticmethod
    def _process(txns: Numbers) -> Numbers:
        return FIRST_MEMBER + txns % TXN_PRODUCERS

    @staticmethod
    def _name(txns: Numbers) -> Numbers:
        return TEXT["transaction-0"] + txns % TXN_PRODUCERS

    def _op(self, txns: Numbers) -> Numbers:
        """Its own; those of its parts follow."""
        return (self._process(txns) << ID_BITS) + 1 + txns // TXN_PRODUCERS * self.OPERATIONS

    def _counter(self, txns: Numbers) -> Numbers:
        return 2 + txns // TXN_PRODUCERS * self.EVENTS

    def _at(self, txns: Numbers, paces: float) -> Numbers:
        """So many paces after its beginning."""
        return START_NS + 10 * MS + txns * self.pace_ns + int(paces * self.pace_ns)

    @staticmethod
    def _offset(txns: Numbers) -> Numbers:
        """In each partition: before it lie all messages before it, and the markers of those that have ended."""
        return txns + np.maximum(0, txns - TXN_PRODUCERS + 1)

    @staticmethod
    def _aborted(txns: Numbers) -> Any:
        return (txns + txns // TXN_PRODUCERS) % 2 == 1

    def _end(self, txns: Numbers) -> Numbers:
        return np.where(self._aborted(txns), Type.FAIL, Type.OK)

    def _inits(self, kind: Kind) -> Rows:
        producers = np.arange(TXN_PRODUCERS)
        return make_rows(
            kind, TXN_PRODUCERS, process=FIRST_MEMBER + producers, counter=0 + (kind is Kind.COMPLETE), f=F.INIT,
            op=(FIRST_MEMBER + producers) << ID_BITS, type=Type.OK, invoked=START_NS, time=START_NS + MS, error=0,
            name=self._name(producers),
        )  # fmt: skip

    def _txns(self, kind: Kind) -> Iterator[Rows]:
        for txns in blocks(self.count):
            counter = self._counter(txns) + (kind is Kind.COMPLETE) * (self.EVENTS - 1)
            yield make_rows(
                kind, len(txns), process=self._process(txns), counter=counter, op=self._op(txns), f=F.TXN,
                count=self.PARTITIONS, type=self._end(txns), invoked=self._at(txns, 0), time=self._at(txns, 15),
                error=0, name=self._name(txns),
            )  # fmt: skip

    def _sends(self, kind: Kind) -> Iterator[Rows]:
        first = 1 + (kind is Kind.COMPLETE) * (self.EVENTS // 2 + 2)
        for numbers in blocks(self.count * self.PARTITIONS):
            txns, partitions = numbers // self.PARTITIONS, numbers % self.PARTITIONS
            yield make_rows(
                kind, len(numbers), process=self._process(txns), counter=self._counter(txns) + first + partitions,
                f=F.SEND, op=self._op(txns) + 1 + partitions, txn=self._op(txns), type=self._end(txns), error=0,
                invoked=self._at(txns, 7), time=self._at(txns, 15), **self._message(txns, partitions),
            )  # fmt: skip

    def _message(self, txns: Numbers, partitions: Numbers) -> dict[str, Any]:
        return {"topic": TOPIC, "partition": partitions, "offset": self._offset(txns),
                "value": self._op(txns) + 1 + partitions, "sequence": txns // TXN_PRODUCERS}  # fmt: skip

    def _read(self, txns: Numbers, partitions: Numbers) -> dict[str, Any]:
        return self._message(txns, partitions) | {"producer": self._process(txns), "status": Status.GOOD}

    def _poll(self, txns: Numbers) -> dict[str, Any]:
        op = self._op(txns)
        return {"process": self._process(txns), "op": op + self.OPERATIONS - 1, "txn": op,
                "invoked": self._at(txns, 13), "time": self._at(txns, 14)}  # fmt: skip

    def _polls(self, kind: Kind) -> Iterator[Rows]:
        first = 1 + self.PARTITIONS + (kind is Kind.COMPLETE) * (self.PARTITIONS + 1)
        for txns in (4 * quarters for quarters in blocks(self.count // 4)):
            yield make_rows(kind, len(txns), counter=self._counter(txns) + first, f=F.POLL, type=Type.OK, error=0,
                            count=self.PARTITIONS, **self._poll(txns))  # fmt: skip

    def _polled(self) -> Iterator[Rows]:
        for numbers in blocks(self.count // 4 * self.PARTITIONS):
            txns, partitions = 4 * (numbers // self.PARTITIONS), numbers % self.PARTITIONS
            others = np.minimum(np.where(txns % 8 == 0, txns + 4, txns - 4), self.count - 1)
            yield make_rows(
                Kind.RECORD, len(numbers), counter=self._counter(txns) + 2 + self.PARTITIONS + partitions,
                **self._poll(txns), **self._read(others, partitions),
            )  # fmt: skip

    def _final(self, partitions: Numbers) -> dict[str, Any]:
        lasts = (self.count // FINAL_POLL + 3) * MS
        began = self.final_ns + partitions * lasts
        return {"process": np.full(len(partitions), FIRST_FINAL), "op": (FIRST_FINAL << ID_BITS) + partitions,
                "invoked": began, "time": began + lasts}  # fmt: skip

    def _finals(self, kind: Kind) -> Iterator[Rows]:
        partitions, end = np.arange(self.PARTITIONS), 2 * self.count
        yield make_rows(
            kind, len(partitions), counter=partitions * (self.count + 2) + (kind is Kind.COMPLETE) * (self.count + 1),
            f=F.FINAL, type=Type.OK, topic=TOPIC, partition=partitions, offset=end, end=end, count=self.count // 2,
            error=0, **self._final(partitions),
        )  # fmt: skip

    def _final_reads(self) -> Iterator[Rows]:
        for partition in range(self.PARTITIONS):
            for txns in blocks(self.count):
                partitions = np.full(len(txns), partition)
                handed = np.where(self._aborted(txns), txns % 10 == 3, (txns % 50 != 8) | (partitions != 1))
                columns = self._final(partitions)
                columns |= {
                    "time": columns["invoked"] + (txns // FINAL_POLL + 1) * MS,
                    "counter": partitions * (self.count + 2) + 1 + txns,
                }
                yield make_rows(Kind.RECORD, len(txns), **columns, **self._read(txns, partitions))[handed]
