"""For each answer of a node, what answers that were over before it was invoked had shown."""

from __future__ import annotations

import numpy as np

from checkers.core.arrays import NONE, Ints, Lanes
from checkers.core.moments import MomentIndex

_DENSE = 1 << 31


def numbered(*columns: Ints) -> Ints:
    """Of each row a number, from 0 on, that it shares with those alone that are the same in all columns."""
    number, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        other, width = (column - low, high - low + 1) if high - low < _DENSE else dense_ranks(column)
        if size * width > _DENSE:
            (number, size), (other, width) = dense_ranks(number), dense_ranks(other)
        number, size = number * width + other, size * width
    return number if size <= 2 * len(number) else dense_ranks(number)[0]


def dense_ranks(column: Ints) -> tuple[Ints, int]:
    """The rank of each value among the different ones, and how many of these there are."""
    different, number = np.unique(column, return_inverse=True)
    return number.astype(np.int64, copy=False), len(different)


class EarlierAnswers:
    """For each answer those of its lane that had ended before it was invoked, and what they had shown."""

    def __init__(self, lane: Ints, invoked: Ints, time: Ints, *ties: Ints) -> None:
        ended = MomentIndex(lane, time)
        if ties:
            ended.settle(*ties)
        self._order = ended.order
        self._lanes = Lanes(lane[ended.order])
        self._last = ended.last(lane, invoked)

    def highest(self, values: Ints) -> Ints:
        """The highest of them; NONE where there is none."""
        running = self._lanes.upto(values[self._order])
        return np.where(self._last >= 0, running[self._last], NONE)

    def who(self, values: Ints) -> Ints:
        """Who had shown the highest, and of several the last in order; -1 where there is none."""
        ordered = values[self._order]
        running = self._lanes.upto(ordered)
        raises = np.where((ordered == running) & (ordered != NONE), np.arange(len(ordered)), -1)
        latest = np.maximum.accumulate(raises)
        return np.where((self._last >= 0) & (running[self._last] != NONE), self._order[latest[self._last]], -1)
