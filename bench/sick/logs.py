"""Logs with everything twice, lost or shared, marks that fall, and batches that come again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.history_plan import (
    EVENTS_OF_100,
    MS,
    PROBE,
    PROBES_OF_100,
    RUN,
    START_NS,
    TOPIC,
    blocks,
    make_rows,
)
from bench.sick.load import SickLoad
from bench.sick.rows import SECOND_TAP, STRANGE_TOPIC, TEXT, only
from harness.foundation.protocol import Api
from harness.history.schema import ID_BITS, Kind, OffsetView
from harness.history.sources import Rows


class TwiceLostAndShared(SickLoad):
    """Of two messages that follow each other the log has the first one twice, and both were acknowledged there."""

    PARTITIONS = 3
    OF_100 = EVENTS_OF_100 + 100

    def sends(self, kind: Kind) -> Iterator[Rows]:
        """The second one has the offset of the first."""
        for rows in super().sends(kind):
            if kind is Kind.COMPLETE:
                rows["offset"] -= rows["offset"] % 2
            yield rows

    def polls(self, kind: Kind) -> Iterator[Rows]:
        """With twice as many records."""
        for rows in super().polls(kind):
            self._apart(rows)
            if kind is Kind.COMPLETE:
                rows["count"] *= 2
            yield rows

    def reads(self) -> Iterator[Rows]:
        """Each record is handed out, and then again."""
        for rows in super().reads():
            self._apart(rows)
            twice = np.repeat(self._first(rows), 2)
            twice["event"][1::2] += 1
            yield twice

    def final_reads(self) -> Iterator[Rows]:
        """They find what is in the log."""
        return map(self._first, super().final_reads())

    @staticmethod
    def _first(rows: Rows) -> Rows:
        second = rows["offset"] % 2
        rows["value"] -= second
        rows["sequence"] -= second
        return rows

    @staticmethod
    def _apart(rows: Rows) -> None:
        """Leave an event free after each."""
        rows["event"] += rows["event"] - (rows["process"].astype(np.int64) << ID_BITS)


class FallingWatermarks(SickLoad):
    """Half of the events are answers to probes, and each shows less than all before it."""

    PARTITIONS = 3
    SHARE = 0.5
    OF_100 = EVENTS_OF_100 - PROBES_OF_100

    def probes(self) -> Iterator[Rows]:
        """Instead of the healthy ones."""
        plan, pace = self.plan, self.pace(self.extra)
        for numbers in blocks(self.extra):
            partitions = numbers // 4 % plan.partitions
            api = np.array([Api.FETCH, Api.LIST_OFFSETS, Api.METADATA, Api.LIST_OFFSETS])[numbers % 4]
            invoked, mark = START_NS + numbers * pace, self.extra - numbers
            leader, epoch = plan.leader(partitions, invoked)
            start, view = (
                np.maximum(0, mark - 100),
                np.where(numbers % 4 == 1, OffsetView.LATEST, OffsetView.LATEST_COMMITTED),
            )
            yield make_rows(
                Kind.PROBE, len(numbers), process=PROBE, counter=numbers, invoked=invoked,
                time=invoked + min(MS, pace // 2), api=api, node=leader, topic=TOPIC, partition=partitions,
                leader_epoch=epoch, error=0,
                **only(api == Api.FETCH, high_watermark=mark, last_stable_offset=mark, log_start=start),
                **only(api == Api.LIST_OFFSETS, offset=mark, view=view),
                **only(api == Api.METADATA, leader=leader, brokers=TEXT["1,2,3"], isr=TEXT["1,2,3"], count=3),
            )  # fmt: skip

    def fetches(self) -> Iterator[Rows]:
        """They are shown marks that fall as well."""
        for rows in super().fetches():
            rows["high_watermark"] = 2 * self.plan.runs - rows["op"] % (1 << ID_BITS)
            rows["last_stable_offset"] = rows["high_watermark"]
            yield rows


class Resends(SickLoad):
    """Half of the events are batches of others, in another topic."""

    SHARE = 0.5

    def topics(self) -> dict[int, str]:
        """And that one."""
        return super().topics() | {STRANGE_TOPIC: "strange"}

    def beside(self) -> Iterator[Rows]:
        """A batch is sent, read, sent again, and read again behind it; then the watermark falls."""
        plan, pace = self.plan, self.pace(self.extra)
        for numbers in blocks(self.extra):
            batch, turn = numbers // 4, numbers % 4
            partitions, base = batch % plan.partitions, batch // plan.partitions * 2 * RUN
            sends, again = turn % 2 == 0, turn // 2
            invoked, mark = START_NS + numbers * pace, base + np.where(again == 1, RUN, 2 * RUN)
            leader, epoch = plan.leader(partitions, invoked)
            common = self._exchange(batch, invoked) | {
                "process": SECOND_TAP, "topic": STRANGE_TOPIC, "partition": partitions, "offset": base + again * RUN,
                "sequence": batch // plan.partitions * RUN, "node": leader, "connection": partitions,
            }  # fmt: skip
            yield make_rows(
                Kind.EXCHANGE, len(numbers), counter=numbers, op=(SECOND_TAP << ID_BITS) + numbers, invoked=invoked,
                time=invoked + pace // 2, api=np.where(sends, Api.PRODUCE, Api.FETCH), api_version=10,
                client=TEXT["stranger"], producer_id=1_000 + partitions, producer_epoch=0, **only(sends, acks=-1),
                **only(~sends, asked=base, view=OffsetView.LATEST, high_watermark=mark, last_stable_offset=mark),
                **only(~sends, leader_epoch=epoch), **common,
            )  # fmt: skip
