"""What a partition as a whole shows: how far its readers got, how its final reads ended, what nodes said to probes.

readers   topic, partition, process: the highest offset that a reader by itself was handed (`reached`), in which event
          it first was (`event`), and when it was handed anything last (`moved`). Members of groups begin where the
          group is, and are none of them.
ends      topic, partition: of final reads that ended `ok` the latest invocation (`final_invoked`); of all of them the
          last end and the last invocation (`final_time`, `final_begun`), and where those that ended last got
          (`final_offset`) and knew the end to be (`final_end`); whether a raw read ended `ok` (`raw_ok`)
shown     topic, partition: the highest end that a probe was shown (`shown_end`), and of leader epochs the first sight
          of the highest and the last sight of any (`led_since`, `led_until`); of topics that nobody deleted

Readers of a partition may be in several pieces; the other two are whole where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, ints
from checkers.core.node_answers import FETCH, LIST_OFFSETS
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from harness.history.schema import F, OffsetView, Type

PLACE = ["topic", "partition"]
_PLACED = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()


@dataclass(frozen=True)
class Places:
    """What pieces show of partitions."""

    readers: pl.DataFrame
    ends: pl.DataFrame
    shown: pl.DataFrame

    @classmethod
    def of(cls, piece: Piece, run: RunContext) -> Places:
        """In a piece."""
        return cls(_readers(piece.records, run), ends(piece.ops), _shown(piece, run))

    @classmethod
    def together(cls, parts: Sequence[Places], run: RunContext) -> Places:
        """In all of them."""
        nothing = cls.of(Piece({}, run), run)
        return cls(
            _farthest(pl.concat([nothing.readers, *(part.readers for part in parts)])),
            pl.concat([nothing.ends, *(part.ends for part in parts)]),
            pl.concat([nothing.shown, *(part.shown for part in parts)]),
        )

    def table(self, run: RunContext) -> pl.DataFrame:
        """One row for each partition: how far anybody got, and who does not see what is aborted; ends and shown.

        What was read of a topic before it was deleted says nothing about the one of the same name.
        """
        lasting = self.readers.filter(run.deletions.untouched() | by(run.fresh))
        moved = self.readers.filter(by(run.final)).group_by(PLACE).agg(final_moved=pl.col("moved").max())
        parts = [
            _reached(lasting, "any"),
            _reached(lasting.filter(~by(run.sees_aborted)), "committed"),
            moved,
            self.ends,
            self.shown,
        ]
        table = pl.concat([part.select(PLACE) for part in parts]).unique(maintain_order=True)
        for part in parts:
            table = table.join(part, on=PLACE, how="left", maintain_order="left")
        return table


def _readers(records: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Runs of records of one reader and partition first: what a poll brings lies together."""
    keys = [*PLACE, "process"]
    rows = records.select(*keys, "offset", "event", "time").filter(_PLACED & ~by(run.members) & (pl.col("offset") >= 0))
    new = np.ones(len(rows), np.bool_)
    new[1:] = False
    for name in keys:
        column = rows[name].to_numpy()
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    if not len(starts):
        return rows.select(*keys, reached="offset", event="event", moved="time")
    offset = ints(rows, "offset")
    reached = np.maximum.reduceat(offset, starts)
    there = offset == np.repeat(reached, np.diff(starts, append=len(rows)))
    event = np.minimum.reduceat(np.where(there, ints(rows, "event"), NEVER), starts)
    moved = np.maximum.reduceat(ints(rows, "time"), starts)
    return _farthest(rows[starts].select(keys).with_columns(reached=reached, event=event, moved=moved))


def _farthest(readers: pl.DataFrame) -> pl.DataFrame:
    """One row for each reader and partition."""
    keys = [*PLACE, "process"]
    highest = readers.group_by(keys).agg(pl.col("reached").max(), pl.col("moved").max())
    there = readers.drop("moved").join(highest, on=[*keys, "reached"])
    return there.group_by(*keys, "reached", "moved").agg(pl.col("event").min()).select(readers.columns)


def _reached(readers: pl.DataFrame, who: str) -> pl.DataFrame:
    """How far the farthest of them got, and the event that tells."""
    there = readers.filter(pl.col("reached") == pl.col("reached").max().over(PLACE))
    return there.group_by(PLACE).agg(
        pl.col("reached").first().alias(f"{who}_reached"), pl.col("event").min().alias(f"{who}_reached_event")
    )


def ends(ops: pl.DataFrame) -> pl.DataFrame:
    """How final and raw reads of partitions ended; all of a partition are in one piece."""
    final, raw, done = pl.col("f") == F.FINAL, pl.col("f") == F.RAW, pl.col("type") == Type.OK
    last = pl.col("final_time") == pl.col("final_time").max().over(PLACE)
    rows = ops.filter(_PLACED & (final | raw)).select(
        *PLACE,
        "offset",
        "end",
        final_invoked=pl.when(final & done).then("invoked"),
        final_time=pl.when(final).then("time"),
        final_begun=pl.when(final).then("invoked"),
        raw_ok=pl.when(raw).then(done),
    )
    lasts = [pl.when(last).then(name).alias(f"final_{name}") for name in ("offset", "end")]
    return rows.with_columns(lasts).drop("offset", "end").group_by(PLACE).max()


_OF_SHOWN = (
    "time",
    "api",
    "view",
    "topic",
    "partition",
    "invoked",
    "offset",
    "high_watermark",
    "leader_epoch",
    "error",
)


def _shown(piece: Piece, run: RunContext) -> pl.DataFrame:
    """What nodes told probes; all of a partition is in one piece."""
    by_epoch = pl.concat([_shown_by_epoch(rows, run) for rows in piece.parts("probes", _OF_SHOWN)])
    highest = pl.col("epoch") == pl.col("epoch").max().over(PLACE)
    return (
        by_epoch.with_columns(pl.when(highest).then("led_since"))
        .group_by(PLACE)
        .agg(pl.col("shown_end").max(), pl.col("led_since").min(), pl.col("led_until").max())
    )


def _shown_by_epoch(probes: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    latest = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.LATEST)
    end = pl.when(pl.col("api") == FETCH).then("high_watermark").when(latest).then("offset")
    epoch = pl.when(pl.col("leader_epoch") >= 0).then("leader_epoch")
    return (
        probes.filter(_PLACED & (pl.col("error") == 0) & run.deletions.untouched())
        .select(*PLACE, epoch=epoch, shown_end=end, led=pl.when(epoch.is_not_null()).then("time"))
        .group_by(*PLACE, "epoch")
        .agg(pl.col("shown_end").max(), led_since=pl.col("led").min(), led_until=pl.col("led").max())
    )
