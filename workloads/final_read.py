"""The final read: a fresh consumer reads every partition from its start to its end, on a cluster that was healed.

A partition is done when its end, asked of its leader again after it was reached, is no further and lies beyond the last
acknowledged offset. An end at or below that offset is believed only after the reader waited in vain: it is a lost tail
then. The reader gives up on what is left when nothing at all has come for `final_read_timeout_s`, without the time in
which it did not run itself; a partition whose end was not reached, or could not be believed because the reader was
stopped, is `info`, with the reason.

Where there are transactions it is made twice: of what was committed, and (role `raw`) of everything in the logs. What
was committed ends at the last stable offset, before the first transaction that is open. So that reader asks also where
the log itself ends, and waits in the same way while that is further; then the partition is `info`, for nobody knows
what is behind a transaction that is still open.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from harness.history.recorder import Op
from harness.history.schema import F, Type
from workloads.base import RAW, FinalTarget, Settings
from workloads.clients import make_consumer
from workloads.clients.base import BEGINNING, Consumer, PolledRecords, TopicPartition
from workloads.consuming import write_records
from workloads.session import WorkerSession

MAX_RECORDS = 10_000
POLL_S = 0.2
ASK_S = 5.0
LOOK_EVERY_S = 0.2
LONGEST_TURN_S = POLL_S + 2 * ASK_S  # of a reader that waits for answers; whatever takes longer did not run


class Patience:
    """For how long a reader that runs has waited in vain."""

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self._timeout_s, self._at_s, self._waited_s = timeout_s, now_s, 0.0

    def is_over(self, now_s: float, *, moved: bool) -> bool:
        """After each turn, in which something came or not."""
        self._waited_s = 0.0 if moved else self._waited_s + min(now_s - self._at_s, LONGEST_TURN_S)
        self._at_s = now_s
        return self._waited_s > self._timeout_s


@dataclass
class PartitionReading:
    """One partition on its way."""

    target: FinalTarget
    op: Op
    committed: bool = False  # its end is that of what was committed
    position: int = 0
    end: int | None = None
    log_end: int | None = None  # of everything, when the end was reached
    count: int = 0

    @property
    def reached(self) -> bool:
        """Whether all up to the known end was read."""
        return self.end is not None and self.position >= self.end

    @property
    def short(self) -> bool:
        """Whether the known end lies at or before the last acknowledged offset."""
        return self.end is not None and self.end <= self.target.last_acked

    @property
    def blocked(self) -> bool:
        """Whether more may come when a transaction ends."""
        return self.committed and (self.log_end is None or self.end is None or self.log_end > self.end)


def final_read(session: WorkerSession, settings: Settings) -> None:
    """Read everything, record it, and say for each partition whether its end was reached."""
    with ExitStack() as stack:

        def open_consumer(chosen: Settings) -> Consumer:
            servers = chosen.servers(session.addresses)
            consumer = make_consumer(chosen, servers, session.security, session.client_id)
            stack.callback(consumer.close)
            return consumer

        consumer, uncommitted = open_consumer(settings), None
        if settings.isolation_level == "read_committed":
            uncommitted = open_consumer(settings.model_copy(update={"isolation_level": "read_uncommitted"}))
            uncommitted.assign({})
        FinalRead(session, settings, consumer, uncommitted).run()


class FinalRead:
    """All partitions at once, over one consumer; `uncommitted` is asked for ends, where that one sees less."""

    def __init__(
        self, session: WorkerSession, settings: Settings, consumer: Consumer, uncommitted: Consumer | None = None
    ) -> None:
        self._session = session
        self._f = F.RAW if session.config.role == RAW else F.FINAL
        self._timeout_s = settings.final_read_timeout_s
        self._consumer, self._uncommitted = consumer, uncommitted
        self._open: dict[TopicPartition, PartitionReading] = {}
        self._ops: dict[TopicPartition, int] = {}
        self._numbers = {target.name: target.topic for target in session.config.targets}

    def run(self) -> None:
        """Until every partition is done, nothing comes any more, or the runner says stop."""
        self._begin()
        looked_at = time.monotonic()
        patience = Patience(self._timeout_s, looked_at)
        while self._open and not self._session.control.stopped:
            polled = self._consumer.poll(MAX_RECORDS, POLL_S)
            self._take(polled)
            moved = bool(polled.payloads)
            if not moved or time.monotonic() - looked_at > LOOK_EVERY_S:
                moved |= self._look()
                looked_at = time.monotonic()
            if patience.is_over(time.monotonic(), moved=moved):
                break
        for tp in list(self._open):
            self._end(tp)

    def _begin(self) -> None:
        recorder = self._session.recorder
        for number, name in {target.topic: target.name for target in self._session.config.targets}.items():
            recorder.topic(number, name)
        for target in self._session.config.targets:
            op = recorder.begin(self._f, topic=target.topic, partition=target.partition)
            self._open[target.name, target.partition] = PartitionReading(target, op, self._uncommitted is not None)
        self._ops = {tp: reading.op.id for tp, reading in self._open.items()}
        self._invoked = {reading.op.id: reading.op.invoked for reading in self._open.values()}
        self._consumer.assign(dict.fromkeys(self._open, BEGINNING))

    def _take(self, polled: PolledRecords) -> None:
        """Record what came."""
        if not polled.payloads:
            return
        partitions = list(zip(polled.topics, polled.partitions, strict=True))
        ops = np.fromiter(map(self._ops.__getitem__, partitions), np.int64, len(partitions))
        distinct, counts = np.unique(ops, return_counts=True)
        invoked = np.fromiter(map(self._invoked.__getitem__, ops.tolist()), np.int64, len(partitions))
        write_records(self._session, polled, self._numbers, op=ops, invoked=invoked)
        by_op = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        for tp in set(partitions):
            if tp in self._open:
                self._open[tp].count += by_op[self._ops[tp]]
        self._session.status.read += len(partitions)
        self._session.status.detail = f"{len(self._open)} of {len(self._ops)} partitions to go"
        self._session.status.show()

    def _look(self) -> bool:
        """Bring positions and ends up to date and end what is done; whether anything moved."""
        moved = False
        for tp, reading in self._open.items():
            position = self._consumer.position(tp)
            if position is not None and position > reading.position:
                reading.position, moved = position, True
        arrived = [tp for tp, reading in self._open.items() if reading.end is None or reading.reached]
        ends = self._consumer.end_offsets(arrived, ASK_S) if arrived else {}
        seen_before = {tp for tp in arrived if self._open[tp].end is not None}
        for tp in arrived:
            self._open[tp].end = ends.get(tp)
        self._ask_for_log_ends([tp for tp in arrived if self._open[tp].reached])
        for tp in arrived:
            reading = self._open[tp]
            if tp in seen_before and reading.reached and not reading.short and not reading.blocked:
                self._end(tp)
                moved = True
        return moved

    def _ask_for_log_ends(self, partitions: list[TopicPartition]) -> None:
        """After the ends of what was committed: in between a transaction may end, and never begin."""
        if self._uncommitted is not None and partitions:
            ends = self._uncommitted.end_offsets(partitions, ASK_S)
            for tp in partitions:
                self._open[tp].log_end = ends.get(tp)

    def _end(self, tp: TopicPartition) -> None:
        reading = self._open.pop(tp)
        target = reading.target
        detail = self._doubt(reading)
        self._session.recorder.end(
            reading.op, Type.INFO if detail else Type.OK, topic=target.topic, partition=target.partition,
            offset=reading.position, end=reading.end, count=reading.count, detail=detail,
        )  # fmt: skip
        self._session.status.show()

    def _doubt(self, reading: PartitionReading) -> str | None:
        """Why nobody knows whether all was read."""
        name = f"{reading.target.name}-{reading.target.partition}"
        if reading.end is None:
            return f"nobody says where {name} ends; read to {reading.position}"
        if not reading.reached:
            return f"{name} ends at {reading.end} and was read to {reading.position}"
        if (reading.short or reading.blocked) and self._session.control.stopped:
            return f"the reader of {name} was stopped before its end could be believed"
        if reading.blocked and reading.log_end is None:
            return f"nobody says where the log of {name} ends; what is committed ends at {reading.end}"
        if reading.blocked:
            return f"a transaction is still open at {reading.end}, the log ends at {reading.log_end}"
        return None
