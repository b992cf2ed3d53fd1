"""Columns and packed rows in numpy, where its plain way is a slow one.

numpy takes and joins packed rows column by column; `taken` and `joined` move them whole. It finds the different numbers
of a column by looking at each in a table, or by sorting; those of processes are small enough to be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.sources import Rows

COUNTED_AT_MOST = 1 << 16  # such numbers fit into two bytes, which numpy sorts by counting

Numbers = npt.NDArray[np.int64]


def taken(rows: Rows, places: npt.NDArray[Any]) -> Rows:
    """Some rows: those at these places, or those for which it is true."""
    return rows.take(np.flatnonzero(places) if places.dtype == np.bool_ else places)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one type, one after the other."""
    if len(parts) == 1:
        return parts[0]
    whole = np.dtype((np.void, parts[0].dtype.itemsize))
    return np.concatenate([part.view(whole) for part in parts]).view(parts[0].dtype)


def grouped(numbers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The different numbers, rising, and for each number its place among them."""
    if not _small(numbers):
        found, places = np.unique(numbers, return_inverse=True)
        return found, places
    there = np.bincount(numbers) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1).astype(np.uint16)[numbers]


def distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different numbers, rising."""
    return np.flatnonzero(np.bincount(numbers)) if _small(numbers) else np.unique(numbers)


def first_places(numbers: npt.NDArray[Any], below: int) -> tuple[Numbers, Numbers]:
    """The different numbers, all smaller than `below`, in the order in which they come, and where each comes first."""
    places = np.full(below, -1, np.int64)
    places[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several the last one stays
    found = np.flatnonzero(places >= 0)
    found = found[np.argsort(places[found])]
    return found, places[found]


def absent(numbers: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those of the numbers that are not known, rising and perhaps several times."""
    wanted, known = np.sort(numbers), np.sort(known)
    places = np.searchsorted(known, wanted)
    there = places < len(known)
    there[there] = known[places[there]] == wanted[there]
    return wanted[~there]


def _small(numbers: npt.NDArray[Any]) -> bool:
    return bool(len(numbers)) and bool(numbers.min() >= 0) and bool(numbers.max() < COUNTED_AT_MOST)


def before_each(counts: npt.NDArray[Any]) -> Numbers:
    """How many come before each of them."""
    numbers: Numbers = np.cumsum(counts, dtype=np.int64) - counts
    return numbers


def runs_of(starts: npt.NDArray[Any], counts: npt.NDArray[Any]) -> Numbers:
    """For each start as many numbers, rising from it, as are counted."""
    return np.repeat(starts - before_each(counts), counts) + np.arange(int(counts.sum()))
