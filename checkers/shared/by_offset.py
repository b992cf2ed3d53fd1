"""What was done to a partition in the order of offsets, each with what lies below it.

A row per offset: that of the log (`checkers.core.partition_log`), with what was answered about this offset. An answer
that shows an end or a high watermark e has its place right before the append at e: below what was not there, above all
that was.

sent              latest invocation of a send that was acknowledged with this offset
acked             earliest of their completions
read              when a record of this offset was first handed to anybody: the end of that poll
late              latest invocation of an `info` send to this partition whose value a good record at this offset has
ended, end_shown  of answers to ListOffsets(latest) that show this offset: latest invocation, earliest end
led               latest invocation of all led answers (`checkers.core.node_answers`) that show it: marks and ends
shown             earliest end of any answer that shows this offset as high watermark or end
final             latest invocation of a final read (`ok`) that found the end of its partition here

and the maxima over all rows below, or up to and including this one. Answers without a mark, or with a negative one, are
left out. Rows of an era that is UNSURE are there and prove nothing.

Answers are told apart by the leader epoch that they told, or else the highest that Metadata had shown when they were
invoked: of a *deposed* leader, for a higher one may have begun (`since`, `checkers.core.node_answers`) SETTLING_NS
after their invocation at the latest (`old_ended`, `old_led`); of a *new* one, for that epoch is above the lowest that
Metadata ever showed of the partition, and SETTLING_NS before nobody had been shown it or a higher one (`new_led`); or
neither: with an epoch that was new once (`own_led`), one that never was (`first_led`) or none (`unknown_led`). Of two
events at one moment that with the higher number is later.

`OffsetTimes` has moments as times: enough to see whether anything contradicts anything. `Proofs` has them as ranks
among all moments, by time and then event, so that each leads back to what happened then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, Lanes, distinct, ints
from checkers.core.deletions import UNSURE
from checkers.core.node_answers import LIST_OFFSETS, SETTLING_NS, Epochs
from checkers.core.partition_log import PartitionLog
from checkers.core.piece import Piece
from harness.history.schema import Status, Type


@dataclass(frozen=True)
class OffsetTimes:
    """One entry for each offset that anything is known of, in the order of lanes."""

    log: PartitionLog
    at: Ints
    lanes: Lanes
    of_log: Ints  # the row of each entry of the log
    acks: Ints
    sent: Ints
    acked: Ints
    read: Ints
    ended: Ints
    end_shown: Ints
    led: Ints
    shown: Ints
    final: Ints

    def __len__(self) -> int:
        return len(self.at)

    @property
    def done(self) -> Ints:
        """When an append was certainly over."""
        return np.minimum(self.acked, self.read)


def make_offset_times(piece: Piece) -> OffsetTimes:
    """From the log of a piece and from what was answered about it."""
    log, marks, finals = piece.log, piece.marks, piece.finals
    of_marks, of_finals = log.keys.at(marks), log.keys.at(finals)
    marked, ended = GroupBy(of_marks), GroupBy(of_finals)
    at = _with(log.at, np.concatenate([marked.keys, ended.keys]))
    row = np.searchsorted(at, log.at)

    def of_log(values: Ints, missing: int) -> Ints:
        placed = np.full(len(at), missing)
        placed[row] = values
        return placed

    def of_marks_too(groups: GroupBy, values: Ints, missing: int) -> Ints:
        placed = np.full(len(at), missing)
        placed[np.searchsorted(at, groups.keys)] = values
        return placed

    invoked, time = ints(marks, "invoked"), ints(marks, "time")
    is_end, is_led = (
        ints(marks, "api") == LIST_OFFSETS,
        marks["led"].to_numpy() if len(marks) else np.zeros(0, np.bool_),
    )
    return OffsetTimes(
        log=log,
        at=at,
        lanes=Lanes(log.keys.lane(at)),
        of_log=row,
        acks=of_log(log.acks, 0),
        sent=of_log(log.sent, NONE),
        acked=of_log(log.acked, NEVER),
        read=of_log(log.read, NEVER),
        ended=of_marks_too(marked, marked.max(invoked, is_end), NONE),
        end_shown=of_marks_too(marked, marked.min(time, is_end), NEVER),
        led=of_marks_too(marked, marked.max(invoked, is_led), NONE),
        shown=of_marks_too(marked, marked.min(time), NEVER),
        final=of_marks_too(ended, ended.max(ints(finals, "invoked")), NONE),
    )


def _with(sorted_keys: Ints, more: Ints) -> Ints:
    """All keys, in order."""
    more = distinct(more[more >= 0])
    new = more[~_among(sorted_keys, more)]
    if not len(new):
        return sorted_keys
    return np.insert(sorted_keys, np.searchsorted(sorted_keys, new), new)


def _among(sorted_keys: Ints, wanted: Ints) -> Bools:
    if not len(sorted_keys):
        return np.zeros(len(wanted), np.bool_)
    found: Bools = sorted_keys[np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)] == wanted
    return found


# what an answer says of its leader, as `sorted_marks` tells it
FIRST_LED, UNKNOWN_LED, OWN_LED, NEW_LED, OLD_LED, NOT_LED = 0, 1, 2, 3, 4, 5


def sorted_marks(marks: pl.DataFrame, epochs: Epochs) -> pl.DataFrame:
    """Answers with their `epoch`, whether it was `old`, until when it was `fresh`, and the sort of their leader."""
    marks = marks.with_columns(epoch=pl.coalesce("told", epochs.highest(marks, pl.col("invoked"))).cast(pl.Int32))
    soon = epochs.possible(marks, pl.col("invoked") + SETTLING_NS)
    marks = marks.with_columns(epochs.fresh_until(marks, "epoch").alias("fresh"), soon=soon)
    old = (pl.col("soon") > pl.col("epoch")).fill_null(value=False)
    new = (pl.col("invoked") <= pl.col("fresh")).fill_null(value=False)
    sort = (
        pl.when(~pl.col("led")).then(NOT_LED)
        .when(pl.col("epoch").is_null()).then(UNKNOWN_LED)
        .when(pl.col("old")).then(OLD_LED)
        .when(new).then(NEW_LED)
        .when(pl.col("fresh").is_null()).then(FIRST_LED)
        .otherwise(OWN_LED)
    )  # fmt: skip
    return marks.with_columns(old=old).with_columns(sort=sort.cast(pl.Int8)).drop("soon")


MOMENT = ("at", "event", "other", "value", "node")


class RankedMoments:
    """Begins and ends of operations, by rank: what comes later, or at one moment with a higher event, is higher."""

    def __init__(self, parts: Sequence[pl.DataFrame]) -> None:
        table = pl.concat([part.select(MOMENT) for part in parts])
        order = np.lexsort((ints(table, "event"), ints(table, "at")))
        self.table = table[order]
        self.times = ints(self.table, "at")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        ends = np.cumsum([len(part) for part in parts])
        self.ranks = np.split(ranks, ends[:-1])  # of each part

    def late(self, rank: Ints) -> Ints:
        """The time of a maximum; NONE where there is none."""
        return (
            np.where(rank < 0, NONE, self.times[np.maximum(rank, 0)]) if len(self.times) else np.full(len(rank), NONE)
        )

    def early(self, rank: Ints) -> Ints:
        """The time of a minimum; NEVER where there is none."""
        last = max(0, len(self.times) - 1)
        if not len(self.times):
            return np.full(len(rank), NEVER)
        return np.where(rank > last, NEVER, self.times[np.clip(rank, 0, last)])

    def of(self, rank: Ints, prefix: str) -> pl.DataFrame:
        """What happened at these ranks, which are all there."""
        return self.table[rank].rename({name: f"{prefix}_{name}" for name in MOMENT})


def moment_rows(frame: pl.DataFrame, at: str, other: str) -> pl.DataFrame:
    """Rows as moments."""

    def column(name: str, type_: pl.DataType | type[pl.DataType]) -> pl.Expr:
        return pl.col(name).cast(type_) if name in frame.columns else pl.lit(None, type_).alias(name)

    return frame.select(
        pl.col(at).cast(pl.Int64).alias("at"), pl.col("event").cast(pl.Int64),
        pl.col(other).cast(pl.Int64).alias("other"), column("value", pl.Int64), column("node", pl.Int32),
    )  # fmt: skip


@dataclass(frozen=True)
class LowerMoments:
    """What lies below the lanes of a piece: the last moments of lower stretches, each at the lane that needs it."""

    lane: Ints
    what: Ints  # one of the names below, by its number
    epoch: Ints
    moments: pl.DataFrame


SENT, LATE, ENDED, OLD_ENDED, FINAL = 10, 11, 12, 13, 14


class Proofs:
    """Points with moments as ranks: everything that a proof names."""

    def __init__(
        self, piece: Piece, epochs: Epochs, late: pl.DataFrame, carried: LowerMoments | None, chosen: Bools | None
    ) -> None:
        offset_times = piece.offset_times
        self.offset_times = offset_times
        keys = offset_times.log.keys
        at = offset_times.at
        late_at = keys.at(late)
        late = late.filter(pl.Series(late_at >= 0))
        late_at = late_at[late_at >= 0]
        self.at = _with(at, late_at)
        lane = keys.lane(self.at)
        if chosen is not None:  # lanes in which something may be wrong
            of_points = keys.lane(offset_times.at)
            wanted = distinct(of_points[chosen])
            self.at = self.at[np.isin(lane, wanted)]
            lane = keys.lane(self.at)
        sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
        records = piece.records.filter(pl.col("offset") >= 0)
        marks = sorted_marks(piece.marks, epochs)
        parts = {"sends": sends, "records": records, "marks": marks, "finals": piece.finals, "late": late}
        rows = {name: self._row(keys.at(frame)) for name, frame in parts.items()}
        parts = {name: frame.filter(pl.Series(rows[name] >= 0)) for name, frame in parts.items()}
        rows = {name: row[row >= 0] for name, row in rows.items()}
        self.marks, self.mark_rows = parts["marks"], rows["marks"]
        self.moments = RankedMoments([
            moment_rows(parts["sends"], "invoked", "time"), moment_rows(parts["sends"], "time", "invoked"),
            moment_rows(parts["records"], "time", "time"), moment_rows(parts["late"], "invoked", "time"),
            moment_rows(self.marks, "invoked", "time"), moment_rows(self.marks, "time", "invoked"),
            moment_rows(parts["finals"], "invoked", "time"),
            *([carried.moments] if carried is not None else []),
        ])  # fmt: skip
        begun, over, read, late_begun, asked, answered, final, *below = self.moments.ranks
        self.asked = asked
        self._carried = (carried, below[0]) if carried is not None else None
        is_end = ints(self.marks, "api") == LIST_OFFSETS
        old = self.marks["old"].to_numpy() if len(self.marks) else np.zeros(0, np.bool_)
        self.sort = ints(self.marks, "sort")
        self.sent = self._highest(rows["sends"], begun)
        self.acked = self._lowest(rows["sends"], over)
        self.read = self._lowest(rows["records"], read)
        self.late = self._highest(rows["late"], late_begun)
        self.ended = self._highest(self.mark_rows[is_end & ~old], asked[is_end & ~old])
        self.old_ended = self._highest(self.mark_rows[is_end & old], asked[is_end & old])
        self.end_shown = self._lowest(self.mark_rows[is_end], answered[is_end])
        self.shown = self._lowest(self.mark_rows, answered)
        self.final = self._highest(rows["finals"], final)
        self.lane = lane
        self.parts = keys.parts(self.at)
        self.sure = self.parts["era"] != UNSURE

    def _row(self, at: Ints) -> Ints:
        if not len(self.at):
            return np.full(len(at), -1)
        row = np.minimum(np.searchsorted(self.at, at), len(self.at) - 1)
        return np.where(self.at[row] == at, row, -1)

    def _highest(self, row: Ints, rank: Ints) -> Ints:
        best = np.full(len(self.at), NONE)
        np.maximum.at(best, row, rank)
        return best

    def _lowest(self, row: Ints, rank: Ints) -> Ints:
        best = np.full(len(self.at), NEVER)
        np.minimum.at(best, row, rank)
        return best

    @property
    def done(self) -> Ints:
        """The rank at which an append was certainly over."""
        return np.minimum(self.acked, self.read)

    def upto(self, values: Ints, *what: int) -> Ints:
        """Running maxima, with what is carried of these into each lane."""
        return self._running(values, what, below=False)

    def below(self, values: Ints, *what: int) -> Ints:
        """The same without the row itself."""
        return self._running(values, what, below=True)

    def _running(self, values: Ints, what: Sequence[int], *, below: bool) -> Ints:
        lanes = Lanes(self.lane)
        running = lanes.below(values) if below else lanes.upto(values)
        if self._carried is None:
            return running
        carried, rank = self._carried
        mine = np.isin(carried.what, what)
        entering = np.full(len(lanes.starts), NONE)
        of_lane = self.lane[lanes.starts]
        place = np.searchsorted(of_lane, carried.lane[mine])
        there = (
            (place < len(of_lane)) & (of_lane[np.minimum(place, max(0, len(of_lane) - 1))] == carried.lane[mine])
            if len(of_lane)
            else np.zeros(int(mine.sum()), np.bool_)
        )
        np.maximum.at(entering, place[there], rank[mine][there])
        count = np.diff(np.append(lanes.starts, len(self.lane)))
        carried_in: Ints = np.maximum(running, np.repeat(entering, count))
        return carried_in

    def of_sort(self, sort: int) -> Ints:
        """The highest rank of answers of one sort that show each offset."""
        mine = self.sort == sort
        return self._highest(self.mark_rows[mine], self.asked[mine])

    def own_upto(self, rows: Ints, epoch: Ints) -> Ints:
        """For these rows the last answer, up to each, of a leader that was new once, in the epoch the row asks for."""
        mine = self.sort == OWN_LED
        lane = [self.lane[self.mark_rows[mine]], self.lane[rows]]
        of_epoch = [ints(self.marks, "epoch")[mine], epoch]
        at = [2 * self.at[self.mark_rows[mine]], 2 * self.at[rows] + 1]
        rank = [self.asked[mine], np.full(len(rows), NONE)]
        if self._carried is not None:
            carried, ranks = self._carried
            own = carried.what == OWN_LED
            lane.insert(0, carried.lane[own])
            of_epoch.insert(0, carried.epoch[own])
            at.insert(0, np.full(int(own.sum()), -1))
            rank.insert(0, ranks[own])
        lanes, epochs, ats, values = (np.concatenate(each) for each in (lane, of_epoch, at, rank))
        order = np.lexsort((ats, epochs, lanes))
        changes = np.flatnonzero(np.diff(lanes[order]) | np.diff(epochs[order])) + 1
        key = np.zeros(len(order), np.int64)
        key[changes] = 1
        running = np.empty(len(order), np.int64)
        running[order] = Lanes(np.cumsum(key)).upto(values[order])
        return running[len(running) - len(rows) :]

    def place(self, rows: Ints) -> pl.DataFrame:
        """Topic, partition, era and offset of these rows."""
        return pl.DataFrame({name: pl.Series(values[rows]) for name, values in self.parts.items()}).with_columns(
            pl.col("topic", "partition", "era").cast(pl.Int32)
        )


def good_records(records: pl.DataFrame) -> pl.DataFrame:
    """Those that say what they are."""
    return records.filter(pl.col("status").is_in([int(Status.GOOD), int(Status.MISROUTED)]))
