"""Tables that may be longer than memory: what nodes answered about one partition, all of it.

A partition of any length is in one piece, so its rows are never held as a whole: they stay as they came, blobs of
Arrow's format, on disk once they are many. They are read part by part, in the order of time as far as the blobs are,
and each time only the columns that are asked for.
"""

from __future__ import annotations

import io
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE

PORTIONS_AT_MOST = 256  # each is an open file
IN_MEMORY_BYTES = 32 << 20  # of blobs of one table


def blob_of(frame: pl.DataFrame) -> bytes:
    """A frame as it travels."""
    blob = io.BytesIO()
    frame.write_ipc_stream(blob, compression="lz4")
    return blob.getvalue()


class LongTable:
    """Blobs, in any order."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self.rows = 0
        self._columns: list[str] = []
        self._blobs = SpooledTemporaryFile(max_size=in_memory_bytes)  # noqa: SIM115 - closed below
        self._places: list[tuple[int, int, int]] = []  # the first moment of each blob, where it begins, its length
        weakref.finalize(self, self._blobs.close)

    def add(self, blob: bytes | memoryview) -> None:
        """One more."""
        place = self._blobs.seek(0, io.SEEK_END)
        self._blobs.write(blob)
        if not self._columns:
            self._columns = pl.read_ipc_stream(bytes(blob), n_rows=0).columns
        sized = pl.read_ipc_stream(bytes(blob), columns=["time" if "time" in self._columns else self._columns[0]])
        self._places.append((_first(sized), place, len(blob)))
        self.rows += len(sized)

    def whole(self) -> pl.DataFrame:
        """All of it: for tables of which it is known that they are not that long."""
        return pl.concat(self._frames(None, sorted(self._places)))

    def begins(self, rows: int) -> list[int]:
        """Moments that cut it into portions of about so many rows."""
        portions = min(PORTIONS_AT_MOST, -(-self.rows // rows) or 1)
        firsts = sorted(self._places)
        return [firsts[len(firsts) * number // portions][0] for number in range(portions)] if firsts else [NONE]

    def parts(self, columns: Collection[str] | None, rows: int) -> Iterator[pl.DataFrame]:
        """All rows, at most so many at a time; of the columns those that are there, all if none are named."""
        return (part for part, _ in self.in_time(columns, rows))

    def in_time(self, columns: Collection[str] | None, rows: int) -> Iterator[tuple[pl.DataFrame, int]]:
        """The same, each part with the first moment of all that come after it."""
        waiting: list[pl.DataFrame] = []
        count = 0
        places = sorted(self._places)
        after = [first for first, _, _ in places[1:]] + [NEVER]
        for frame, later in zip(self._frames(columns, places), after, strict=True):
            waiting.append(frame)
            count += len(frame)
            if count >= rows or later == NEVER:
                yield from _sliced(pl.concat(waiting), rows, later)
                waiting, count = [], 0

    def _frames(
        self, columns: Collection[str] | None, places: Sequence[tuple[int, int, int]]
    ) -> Iterator[pl.DataFrame]:
        chosen = None if columns is None else [name for name in self._columns if name in columns]
        for _, place, length in places:
            self._blobs.seek(place)
            yield pl.read_ipc_stream(self._blobs.read(length), columns=chosen)


def scattered(frames: Iterable[pl.DataFrame], number: pl.Expr, count: int) -> Iterator[pl.DataFrame]:
    """Rows with the same number, from 0 on, together; all numbers in turn, but for those that no row has.

    Without any row at all it is one table without rows.
    """
    if count == 1:
        yield pl.concat(frames)
        return
    tables = [LongTable(IN_MEMORY_BYTES // count) for _ in range(count)]
    for frame in frames:
        nothing = frame.clear()
        parts = frame.with_columns(number_=number).partition_by("number_", as_dict=True, include_key=False)
        for (each,), part in parts.items():
            tables[each].add(blob_of(part))
    full = [table for table in tables if table.rows]
    yield from (table.whole() for table in full)
    if not full:
        yield nothing


def _first(rows: pl.DataFrame) -> int:
    """The first moment of any; where nobody asked for the time, none."""
    first = rows["time"].min() if "time" in rows.columns else None
    return first if isinstance(first, int) else NONE


def _sliced(frame: pl.DataFrame, rows: int, later: int) -> Iterator[tuple[pl.DataFrame, int]]:
    """So many rows at a time."""
    if len(frame) <= rows:
        yield frame, later
        return
    ordered = frame.sort("time") if "time" in frame.columns else frame
    slices = list(ordered.iter_slices(rows))
    first = [_first(each) for each in slices] + [later]
    soonest = np.minimum.accumulate(first[::-1])[::-1].tolist()
    yield from zip(slices, soonest[1:], strict=True)
