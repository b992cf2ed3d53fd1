"""A few queries about many rows, without comparing each row with each query.

`RowsByKey` finds the rows of a key that are nearest to a moment; `SortedQueries` finds the queries whose number lies
between two others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from checkers.core.arrays import Bools, Ints

Pairs = tuple[Ints, Ints]  # numbers of rows, and of the queries that they may answer


def in_sorted(values: Ints, chosen: Ints) -> Bools:
    """Which values are among these, which are in rising order."""
    if not len(chosen):
        return np.zeros(len(values), np.bool_)
    found: Bools = chosen[rank_in_sorted(values, chosen)] == values
    return found


def rank_in_sorted(values: Ints, chosen: Ints) -> Ints:
    """The number of each value among the chosen ones; of one that is not there, any number."""
    return np.minimum(np.searchsorted(chosen, values), len(chosen) - 1)


@dataclass(frozen=True)
class RowsByKey:
    """Rows with a key, a time and an event."""

    key: Ints
    time: Ints
    event: Ints

    def nearest(self, asked: Ints, moment: Ints, most: int) -> Pairs:
        """For each query, a key and a moment, so many rows of its key before the moment and as many after it.

        Of rows at one time those with the lowest events are taken. A row at the moment itself may be there twice.
        """
        row, query = self.following(asked, moment, most)
        earlier, of = RowsByKey(self.key, -self.time, self.event).following(asked, -moment, most)
        return np.concatenate([row, earlier]), np.concatenate([query, of])

    def following(self, asked: Ints, moment: Ints, most: int) -> Pairs:
        """Only those that come at the moment or after it."""
        times = np.sort(self.time)
        width = len(times) + 1
        at = self.key * width + np.searchsorted(times, self.time)
        order = np.lexsort((self.event, at))
        at = at[order]
        first = np.searchsorted(at, asked * width + np.searchsorted(times, moment))
        count = np.minimum(np.searchsorted(at, (asked + 1) * width) - first, most)
        return order[consecutive(first, count)], np.repeat(np.arange(len(asked)), count)


def consecutive(first: Ints, count: Ints) -> Ints:
    """So many numbers from each first one on."""
    began = np.cumsum(count) - count
    return np.arange(int(count.sum())) - np.repeat(began - first, count)


@dataclass(frozen=True)
class SortedQueries:
    """Queries for a number in a place, in the order of place and number."""

    place: Ints
    number: Ints
    query: Ints

    @classmethod
    def of(cls, place: Ints, number: Ints, query: Ints) -> Self:
        """In any order."""
        order = np.lexsort((number, place))
        return cls(place[order], number[order], query[order])

    def between(self, place: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """For each row the queries about its place from one number up to another: the first, and the one after."""
        places, numbers = np.unique(self.place), np.unique(self.number)
        if not len(places):
            return np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)
        width = len(numbers) + 1
        here = in_sorted(place, places)
        mine = rank_in_sorted(place, places) * width
        at = rank_in_sorted(self.place, places) * width + np.searchsorted(numbers, self.number)
        first = np.searchsorted(at, mine + np.searchsorted(numbers, low))
        end = np.searchsorted(at, mine + np.searchsorted(numbers, high, side="right"))
        return np.where(here, first, 0), np.where(here, np.maximum(first, end), 0)
