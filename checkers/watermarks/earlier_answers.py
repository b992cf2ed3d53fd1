"""For each answer of a node, what answers that were over before it was invoked had shown."""

from __future__ import annotations

import numpy as np

from checkers.core.arrays import NONE, Ints, Lanes

_DENSE = 1 << 31
_WIDEST = 1 << 62


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


def different_values(values: Ints) -> Ints:
    """All values once, in order; ten times as fast as `np.unique`, which hashes them first."""
    ordered: Ints = np.sort(values)
    different: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return different


class LaneMoments:
    """Moments of lanes, in the order of lanes and then of time, to count those before another moment."""

    def __init__(self, lane: Ints, at: Ints) -> None:
        self._top = int(lane.max(initial=-1)) + 1
        self._low, high = (int(at.min()), int(at.max())) if len(at) else (0, 0)
        self._width = high - self._low + 2
        self._different: Ints | None = None
        if self._width * (self._top + 1) > _WIDEST:
            self._different = different_values(at)
            self._width = len(self._different) + 1
        keys = self._keys(lane, at)
        self.order = np.argsort(keys)
        self._ordered = keys[self.order]

    def before(self, lane: Ints, moment: Ints) -> Ints:
        """How many moments, those of lower lanes included, come before this one in this lane."""
        keys = self._keys(lane, moment)
        order = np.argsort(keys)  # what is asked in order is answered several times as fast
        count = np.empty(len(keys), np.int64)
        count[order] = np.searchsorted(self._ordered, keys[order])
        return count

    def settle(self, *ties: Ints) -> None:
        """Put those that fall on one instant into the order of something else."""
        same = self._ordered[1:] == self._ordered[:-1]
        if not same.any():
            return
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = self.order[tied]
        self.order[tied] = rows[np.lexsort([*(tie[rows] for tie in reversed(ties)), self._ordered[tied]])]

    def _keys(self, lane: Ints, moment: Ints) -> Ints:
        if self._different is None:
            tick = np.clip(moment - self._low, 0, self._width - 1)
        else:
            tick = np.searchsorted(self._different, moment)
        return np.minimum(lane, self._top) * self._width + tick


class EarlierAnswers:
    """For each answer those of its lane that had ended before it was invoked, and what they had shown."""

    def __init__(self, lane: Ints, invoked: Ints, time: Ints, *ties: Ints) -> None:
        ended = LaneMoments(lane, time)
        if ties:
            ended.settle(*ties)
        self._order = ended.order
        ordered = lane[ended.order]
        self._lanes = Lanes(ordered)
        last = ended.before(lane, invoked) - 1
        self._last = np.where((last >= 0) & (ordered[last] == lane), last, -1)

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
