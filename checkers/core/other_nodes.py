"""The best of all others: of another node, or of another node and another leader, among the rows up to one of them.

To compare every row with every other takes the square of their number. What is asked here are only extremes, and of
these there is one for each row: a running maximum, and beside it that of all rows with another key than its holder.
A row is its number, and -1 stands for none.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from checkers.core.arrays import NONE, Bools, GroupBy, Ints, Lanes


def pair_of(one: Ints, two: Ints) -> Ints:
    """Two 32-bit numbers as one."""
    return (one << 32) + two


def taken(values: Ints, rows: Ints) -> Ints:
    """What these rows have; NONE for no row."""
    return np.append(values, NONE)[rows]


def inverse(order: Ints) -> Ints:
    """The place of each row in an order."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def first_of_each(groups: GroupBy, *keys: Ints) -> Ints:
    """Of each group the row that comes first by the first key; of those with the same one by the second; and so on."""
    number, left = groups.number(), np.ones(len(groups.order), np.bool_)
    for key in keys:
        left &= key == groups.min(key, left)[number]
    return groups.min(np.arange(len(left)), left)


class RunningBest:
    """Rows of lanes, one lane after the other: which is the best of its lane up to a row.

    `order` has all rows, the best last.
    """

    def __init__(self, lane: Ints, order: Ints) -> None:
        self.lane, self.order, self.rank = lane, order, inverse(order)

    def best(self, upto: Ints) -> Ints:
        """The best of all up to these rows."""
        return self._rows(taken(self._best, upto))

    def best_of_others(self, upto: Ints, key: Ints, own: Ints) -> Ints:
        """The best of those whose key is not own."""
        return self._rows(self._others(upto, key, own))

    def best_of_strangers(self, upto: Ints, keys: tuple[Ints, Ints], own: tuple[Ints, Ints]) -> Ints:
        """The best of those of which neither key is own: two numbers differ if they differ in any bit.

        It takes a look for each bit in which any of the first keys differ; so these should be few, and small.
        """
        found = np.full(len(upto), -1)
        for bit in _bits(np.append(keys[0], own[0])):
            for side in (0, 1):
                asked = np.flatnonzero((own[0] >> bit) & 1 != side)
                best = self._among((keys[0] >> bit) & 1 == side, upto[asked], keys[1], own[1][asked])
                better = taken(self.rank, best) > taken(self.rank, found[asked])
                found[asked[better]] = best[better]
        return found

    def _among(self, counts: Bools, upto: Ints, key: Ints, own: Ints) -> Ints:
        """The best of those whose key is not own, and that count."""
        rows, number = np.flatnonzero(counts), np.cumsum(counts) - 1
        some = RunningBest(self.lane[rows], number[self.order[counts[self.order]]])
        last = np.maximum(taken(number, upto), -1)
        last = np.where(taken(some.lane, last) == taken(self.lane, upto), last, -1)
        return np.append(rows, -1)[some.best_of_others(last, key[rows], own)]

    def _rows(self, rank: Ints) -> Ints:
        return np.append(self.order, -1)[np.maximum(rank, -1)]

    @cached_property
    def _best(self) -> Ints:
        return Lanes(self.lane).upto(self.rank)

    def _others(self, upto: Ints, key: Ints, own: Ints) -> Ints:
        held = taken(key, self._rows(self._best))
        beside = self._best_beside(key, held)
        return np.where(taken(held, upto) == own, taken(beside, upto), taken(self._best, upto))

    def _best_beside(self, key: Ints, held: Ints) -> Ints:
        """Up to each row the best of those with another key than the best of all, which is `held`.

        As long as that is the same, it is the best of what came since; or else what was the best of all before.
        """
        changes = (held[1:] != held[:-1]) | (self.lane[1:] != self.lane[:-1])
        stretch = np.cumsum(np.concatenate([[False], changes])[: len(key)])
        stretches = Lanes(stretch)
        since = stretches.upto(np.where(key == held, NONE, self.rank))
        before = Lanes(self.lane).shifted(self._best)[stretches.starts]
        beside: Ints = np.maximum(since, before[stretch])
        return beside


def _bits(numbers: Ints) -> list[int]:
    """In which they differ."""
    differ = int(np.bitwise_or.reduce(numbers ^ numbers[0])) if len(numbers) else 0
    return [bit for bit in range(63) if differ >> bit & 1]
