"""Log(p): what each offset of a partition holds, as clients know it. One row per offset, which many rules look at.

It is made of every record that anybody was handed and of every acknowledgement with an offset. What a failed send
says of its offset proves nothing. What an `info` send says counts only if the send must have happened, which is known
when all values were judged (`checkers.shared.unknown_sends`); `checkers.linearizability.offsets` adds it.

Rows are in the order of topic, partition, era and offset. A *lane* is one stretch of one life of a partition: rows of
one lane follow each other, and what has to be known of the lanes below comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, GroupBy, Ints, ints
from checkers.core.piece import Piece
from checkers.core.run import ONE_STRETCH
from harness.history.schema import Status, Type

_BITS = 62


@dataclass(frozen=True)
class OffsetKeys:
    """Topic, partition, era and offset as one number whose order is theirs."""

    lowest: tuple[int, ...]
    bits: tuple[int, ...]
    stretch: int

    @classmethod
    def of(cls, frames: Iterable[pl.DataFrame], stretch: int) -> OffsetKeys:
        """Wide enough for all rows of these tables."""
        there = [frame for frame in frames if len(frame)]
        lowest, bits = [], []
        for name in _NAMES:
            low = min((int(least) for frame in there if (least := frame[name].min()) is not None), default=0)  # type: ignore[arg-type]
            high = max((int(most) for frame in there if (most := frame[name].max()) is not None), default=0)  # type: ignore[arg-type]
            low = 0 if name == "offset" else low
            lowest.append(low)
            bits.append(max(1, (max(high, low) - low).bit_length()))
        if sum(bits) > _BITS:
            bits[-1] = _BITS - sum(bits[:-1])  # offsets above that are beyond what any log holds, and are left out
        return cls(tuple(lowest), tuple(bits), stretch)

    def at(self, frame: pl.DataFrame) -> Ints:
        """The number of each row; -1 of one without a place."""
        offset = ints(frame, "offset", -1)
        placed = (offset >= 0) & (offset < 1 << self.bits[-1])
        packed = np.zeros(len(frame), np.int64)
        for name, low, bits in zip(_NAMES, self.lowest, self.bits, strict=True):
            column = ints(frame, name)
            placed &= column != NONE
            packed = (packed << bits) | (column - low)
        return np.where(placed, packed, -1)

    def parts(self, at: Ints) -> dict[str, Ints]:
        """The reverse: topic, partition, era and offset."""
        found: dict[str, Ints] = {}
        for name, low, bits in reversed(list(zip(_NAMES, self.lowest, self.bits, strict=True))):
            found[name] = (at & ((1 << bits) - 1)) + low
            at = at >> bits
        return found

    def lane(self, at: Ints) -> Ints:
        """The lane of each row."""
        whole = self.stretch >= ONE_STRETCH or self.stretch >= 1 << self.bits[-1]
        return at >> (self.bits[-1] if whole else self.stretch.bit_length() - 1)


_NAMES = ("topic", "partition", "era", "offset")


@dataclass(frozen=True)
class PartitionLog:
    """One entry for each offset that is known at all, in order."""

    keys: OffsetKeys
    at: Ints
    lane: Ints
    topic: Ints
    partition: Ints
    era: Ints
    offset: Ints
    acks: Ints  # acknowledgements of this offset
    low: Ints  # lowest and highest value known there (NEVER, NONE)
    high: Ints
    low_ack: Ints  # of the values that were acknowledged there
    high_ack: Ints
    sent: Ints  # the latest invocation of a send that was acknowledged here (NONE)
    acked: Ints  # the earliest of their completions (NEVER)
    read: Ints  # when a record of this offset was first handed to anybody (NEVER)
    reads: Ints  # records handed out

    def __len__(self) -> int:
        return len(self.at)

    def row_of(self, frame: pl.DataFrame) -> Ints:
        """The row of each row of a table; -1 where there is none."""
        at = self.keys.at(frame)
        row = np.searchsorted(self.at, at)
        if not len(self.at):
            return np.full(len(at), -1)
        found = self.at[np.minimum(row, len(self.at) - 1)] == at
        return np.where(found & (at >= 0), row, -1)


def make_log(piece: Piece) -> PartitionLog:
    """From the acknowledgements and the records of a piece."""
    named = piece.sends.filter((pl.col("type") != Type.FAIL) & (pl.col("offset") >= 0))
    sends, records = named.filter(pl.col("type") == Type.OK), piece.records.filter(pl.col("offset") >= 0)
    keys = OffsetKeys.of([named, records, piece.marks, piece.finals], piece.run.stretch)
    sends, of_sends = _placed(sends, keys)
    records, of_records = _placed(records, keys)
    groups = GroupBy(np.concatenate([of_sends, of_records]))
    size, row = len(groups), groups.number()
    sent, read = row[: len(sends)], row[len(sends) :]
    acked, value = ints(sends, "value"), ints(records, "value")
    told = records["status"].is_in([int(Status.GOOD), int(Status.MISROUTED)]).to_numpy() & (value != NONE)
    low_ack, high_ack = _lowest(size, sent, acked), _highest(size, sent, acked)
    low, high = low_ack.copy(), high_ack.copy()
    np.minimum.at(low, read[told], value[told])
    np.maximum.at(high, read[told], value[told])
    return PartitionLog(
        keys=keys,
        at=groups.keys,
        lane=keys.lane(groups.keys),
        **keys.parts(groups.keys),
        acks=np.bincount(sent, minlength=size),
        low=low,
        high=high,
        low_ack=low_ack,
        high_ack=high_ack,
        sent=_highest(size, sent, ints(sends, "invoked")),
        acked=_lowest(size, sent, ints(sends, "time")),
        read=_lowest(size, read, ints(records, "time")),
        reads=np.bincount(read, minlength=size),
    )


def _placed(frame: pl.DataFrame, keys: OffsetKeys) -> tuple[pl.DataFrame, Ints]:
    """The rows that have a place, and where it is."""
    at = keys.at(frame)
    placed = at >= 0
    return (frame, at) if placed.all() else (frame.filter(pl.Series(placed)), at[placed])


def _lowest(size: int, row: Ints, values: Ints) -> Ints:
    found = np.full(size, NEVER)
    np.minimum.at(found, row, values)
    return found


def _highest(size: int, row: Ints, values: Ints) -> Ints:
    found = np.full(size, NONE)
    np.maximum.at(found, row, values)
    return found
