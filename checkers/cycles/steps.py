"""Steps of transactions: what each wrote, which of it was read in others, and how far each read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, ints, is_in
from checkers.core.piece import Piece
from checkers.core.run import by
from checkers.core.tables import place_of
from checkers.shared.fates import Fates
from harness.history.schema import Kind, Status, Type

STEPS = 10_000_000
STEPS_OF_A_PIECE = 500_000  # which it tells, however small its share of the history is


@dataclass(frozen=True)
class Columns:
    """Columns of one length."""

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        if not parts:
            return cls(*(np.zeros(0, np.int64) for _ in fields(cls)))
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def only(self, chosen: Bools | Ints) -> Self:
        """Some of them, by a mask or in an order."""
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True)
class Writes(Columns):
    """Of transactions, as far as they ended ok or info."""

    place: Ints
    offset: Ints
    value: Ints
    txn: Ints
    doubted: Bools  # it ended info
    visible: Bools


@dataclass(frozen=True)
class Reads(Columns):
    """Writes that were read in a transaction."""

    place: Ints
    offset: Ints
    value: Ints
    reader: Ints


@dataclass(frozen=True)
class Ends(Columns):
    """The highest offset of a partition that a transaction read."""

    place: Ints
    offset: Ints
    reader: Ints


@dataclass(frozen=True)
class TransactionSteps:
    """What transactions did; of too many only how many there are."""

    count: int
    writes: Writes
    reads: Reads
    ends: Ends

    @classmethod
    def together(cls, parts: Sequence[TransactionSteps]) -> TransactionSteps:
        """Of values that have nothing to do with each other."""
        return cls(
            sum(part.count for part in parts),
            Writes.together([part.writes for part in parts]),
            Reads.together([part.reads for part in parts]),
            Ends.together([part.ends for part in parts]),
        )

    @property
    def too_many(self) -> bool:
        """Whether there are more than anybody can put in order, or some were not told for that reason."""
        return self.count > STEPS or self.count > len(self.writes) + len(self.reads) + len(self.ends)


def steps_of(fates: Fates, piece: Piece) -> TransactionSteps:
    """Of values of a piece."""
    writes, read = _writes(fates), _polled(fates)
    reads, ends = _reads(writes, read), _how_far(read)
    count = len(writes) + len(reads) + len(ends)
    if count > _most(piece):
        return TransactionSteps(count, Writes.together([]), Reads.together([]), Ends.together([]))
    return TransactionSteps(count, writes, reads, ends)


def _most(piece: Piece) -> int:
    """How many steps a piece may have: if it has far more than its share of STEPS, there are too many in all."""
    in_all = sum(piece.run.rows.get(kind, 0) for kind in (Kind.COMPLETE, Kind.RECORD))
    share = (len(piece.sends) + len(piece.records)) / in_all if in_all and piece.run.many else 1.0
    return STEPS_OF_A_PIECE + int(STEPS * min(1.0, 4 * share))


def _writes(fates: Fates) -> Writes:
    placed = (fates.acknowledged >= 0) & (fates.topic != NONE) & (fates.partition != NONE) & (fates.value != NONE)
    took_place = (fates.type == Type.OK) | (fates.type == Type.INFO)
    untouched = ~is_in(fates.topic, fates.run.deletions.topics)
    chosen = np.flatnonzero((fates.txn != NONE) & placed & took_place & untouched)
    return Writes(
        (fates.topic[chosen] << 32) | fates.partition[chosen],
        fates.acknowledged[chosen],
        fates.value[chosen],
        fates.txn[chosen],
        fates.type[chosen] == Type.INFO,
        fates.seen_committed[chosen],
    )


def _polled(fates: Fates) -> pl.DataFrame:
    """Every read of a transaction."""
    run = fates.run
    placed = pl.all_horizontal(pl.col("txn", "value", "topic", "partition").is_not_null()) & (pl.col("offset") >= 0)
    good = (pl.col("status") == Status.GOOD) & ~by(run.sees_aborted) & run.deletions.untouched()
    mine = fates.told.filter(placed & good)
    return mine.select("value", "offset", pl.Series("place", place_of(mine)), reader="txn")


def _reads(writes: Writes, read: pl.DataFrame) -> Reads:
    """What of these writes was read where it was written."""
    wrote = pl.DataFrame({"value": writes.value, "written_at": writes.offset, "written_to": writes.place})
    both = read.join(wrote, on="value") if len(read) and len(wrote) else read.clear()
    if not len(both):
        return Reads.together([])
    both = both.filter((pl.col("offset") == pl.col("written_at")) & (pl.col("place") == pl.col("written_to")))
    return Reads(*(ints(both, name) for name in ("place", "offset", "value", "reader")))


def _how_far(read: pl.DataFrame) -> Ends:
    last = read.group_by("reader", "place").agg(pl.col("offset").max())
    return Ends(*(ints(last, name) for name in ("place", "offset", "reader")))
