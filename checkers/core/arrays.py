"""Sums over rows of one key, and running maxima, with numpy: for tables of millions of rows.

A *moment* is a time in nanoseconds; NEVER stands for a minimum over nothing (later than everything), NONE for a maximum
over nothing (earlier than everything). So conditions such as `acked < sent_below` need no nulls: where one side is not
there, it does not hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER = (1 << 63) - 1
NONE = -(1 << 63)


def ints(frame: pl.DataFrame, name: str, missing: int = NONE) -> Ints:
    """A column as 64-bit numbers; what is null is `missing`."""
    column = frame[name]
    if column.null_count():
        column = column.cast(pl.Int64).fill_null(missing)
    return column.to_numpy().astype(np.int64, copy=False)


def nullable(values: Ints, missing: int = NONE) -> pl.Series:
    """Numbers as a column; what is `missing` becomes null."""
    series = pl.Series(values)
    return series if not (values == missing).any() else pl.select(pl.when(series != missing).then(series)).to_series()


def is_in(values: npt.NDArray[Any], chosen: Any) -> Bools:
    """Which values are among these few numbers."""
    if len(chosen) == 0:
        return np.zeros(len(values), np.bool_)
    return np.isin(values, np.fromiter(chosen, np.int64))


def distinct(values: Ints) -> Ints:
    """The different ones, in rising order; `np.unique` hashes, which takes long where they are many."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(values) else ordered


class GroupBy:
    """Rows put together by a key: one sort, and then any number of questions about each key.

    Answers have one entry for each different key, in rising order (`keys`).
    """

    def __init__(self, key: Ints, order: Ints | None = None) -> None:
        self.order = np.argsort(key, kind="stable") if order is None else order
        ordered = key[self.order]
        self.starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(key) else _EMPTY
        self.keys: Ints = ordered[self.starts]

    def __len__(self) -> int:
        return len(self.starts)

    def min(self, values: Ints, where: Bools | None = None) -> Ints:
        """The lowest of each; NEVER where no row counts."""
        return self._reduced(np.minimum, values, where, NEVER)

    def max(self, values: Ints, where: Bools | None = None) -> Ints:
        """The highest of each; NONE where no row counts."""
        return self._reduced(np.maximum, values, where, NONE)

    def count(self, where: Bools | None = None) -> Ints:
        """How many rows count."""
        if where is None:
            return np.diff(np.append(self.starts, len(self.order)))
        return self._reduced(np.add, where.astype(np.int64), None, 0)

    def sum(self, values: Ints) -> Ints:
        """The total of each."""
        return self._reduced(np.add, values, None, 0)

    def any(self, where: Bools) -> Bools:
        """Whether any row of it counts."""
        return self.count(where) > 0

    def number(self) -> Ints:
        """Of each row, in its own place, the number of its key."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self)), self.count())
        return numbers

    def _reduced(self, how: Any, values: Ints, where: Bools | None, missing: int) -> Ints:
        if not len(self.starts):
            return _EMPTY
        counted = values if where is None else np.where(where, values, missing)
        reduced: Ints = how.reduceat(counted[self.order], self.starts)
        return reduced


_EMPTY = np.zeros(0, np.int64)


class Lanes:
    """Rows in order, one lane after the other: maxima of what comes before each row in its lane."""

    def __init__(self, lane: Ints) -> None:
        self.lane = lane
        new = np.concatenate([[True], lane[1:] != lane[:-1]]) if len(lane) else np.zeros(0, np.bool_)
        self.starts = np.flatnonzero(new)
        self._number = np.cumsum(new) - 1

    def upto(self, values: Ints) -> Ints:
        """The running maximum of each lane, this row included."""
        there = values != NONE
        if not there.any():
            return np.full(len(values), NONE)
        low, high = int(values[there].min()), int(values[there].max())
        span = high - low + 2
        if span * (len(self.starts) + 1) < 1 << 62:
            moved = np.where(there, values - low + 1, 0) + self._number * span
            running = np.maximum.accumulate(moved) - self._number * span
            return np.where(running > 0, running + (low - 1), NONE)
        ends = np.append(self.starts[1:], len(values))
        return np.concatenate([np.maximum.accumulate(values[a:b]) for a, b in zip(self.starts, ends, strict=True)])

    def below(self, values: Ints) -> Ints:
        """The same without this row."""
        return self.shifted(self.upto(values))

    def shifted(self, values: Ints) -> Ints:
        """What the row before has; NONE for the first of a lane."""
        moved = np.concatenate([[NONE], values[:-1]]) if len(values) else values.copy()
        moved[self.starts] = NONE
        return moved


class RangeMaximum:
    """Where the highest number of any range of places is; of equals, the one with the lowest rank, else the first.

    A sparse table: level n has the best of each 2^n neighbours, so that two of them cover any range.
    """

    def __init__(self, numbers: Ints, rank: Ints | None = None) -> None:
        self._numbers = numbers
        standing = np.empty(len(numbers), np.int64)
        standing[np.lexsort((-np.arange(len(numbers)) if rank is None else -rank, numbers))] = np.arange(len(numbers))
        self._standing = standing
        self._levels = [np.arange(len(numbers))]
        while (1 << len(self._levels)) <= len(numbers):
            half = 1 << (len(self._levels) - 1)
            below = self._levels[-1]
            self._levels.append(self._better(below[:-half], below[half:]))

    def best(self, first: Ints, beyond: Ints) -> Ints:
        """The place in each range from `first` to before `beyond`; -1 of an empty one."""
        found = np.full(len(first), -1)
        size = beyond - first
        for level, table in enumerate(self._levels):
            here = np.flatnonzero((size >> level) == 1)
            found[here] = self._better(table[first[here]], table[beyond[here] - (1 << level)])
        return found

    def next_above(self, first: Ints, least: Ints) -> Ints:
        """The first place from `first` on with a number above `least`; how many places there are if there is none."""
        place = first.copy()
        for level in range(len(self._levels) - 1, -1, -1):
            table = self._levels[level]
            inside = np.flatnonzero(place < len(table))
            lower = inside[self._numbers[table[place[inside]]] <= least[inside]]
            place[lower] += 1 << level
        return np.minimum(place, len(self._numbers))

    def _better(self, one: Ints, other: Ints) -> Ints:
        return np.where(self._standing[one] >= self._standing[other], one, other)
