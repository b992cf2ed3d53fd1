"""Tables that may be longer than memory: what nodes answered about one partition, all of it.

A partition of any length is in one piece, so its rows are never held as a whole: they stay as they came, blobs of
Arrow's format, on disk once they are many, and are read part by part, each time only the columns that are asked for.
"""

from __future__ import annotations

import io
import weakref
from collections.abc import Collection, Iterator
from tempfile import SpooledTemporaryFile

import polars as pl

IN_MEMORY_BYTES = 32 << 20  # of blobs of one table


def blob_of(frame: pl.DataFrame) -> bytes:
    """A frame as it travels."""
    blob = io.BytesIO()
    frame.write_ipc_stream(blob, compression="lz4")
    return blob.getvalue()


class LongTable:
    """Blobs in the order in which they came."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.blobs = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)
        weakref.finalize(self, self.blobs.close)

    def add(self, blob: bytes | memoryview) -> None:
        """One more."""
        self.blobs.seek(0, io.SEEK_END)
        self.blobs.write(blob)
        self.lengths.append(len(blob))

    def parts(self, columns: Collection[str] | None, rows: int) -> Iterator[pl.DataFrame]:
        """All rows, at most so many at a time; of the columns those that are there, all if none are named."""
        waiting: list[pl.DataFrame] = []
        count = 0
        for frame in self._frames(columns):
            waiting.append(frame)
            count += len(frame)
            if count >= rows:
                yield from pl.concat(waiting).iter_slices(rows)
                waiting, count = [], 0
        if waiting:
            yield pl.concat(waiting)

    def _frames(self, columns: Collection[str] | None) -> Iterator[pl.DataFrame]:
        place, chosen = 0, None
        for length in self.lengths:
            self.blobs.seek(place)
            blob = self.blobs.read(length)
            place += length
            if columns is not None and chosen is None:
                there = pl.read_ipc_stream(blob, n_rows=0).columns
                chosen = [name for name in there if name in columns]
            yield pl.read_ipc_stream(blob, columns=chosen)
