"""The Parquet files of a history: rows of a kind in the order of time, in files and row groups of a size Spark likes.

A file is written once, front to back; its checksum, its times and what it holds are known when it is closed.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.schema import COLUMNS, KINDS, TEXT, Kind
from harness.history.sources import BLOCK_ROWS, Rows, in_time_order

ROW_GROUP_ROWS = 8 * BLOCK_ROWS
FILE_ROWS = 1_000_000
COUNTED = {Kind.COMPLETE: "f", Kind.PROBE: "api", Kind.EXCHANGE: "api"}  # so that nobody looks for what is not there


class KindFiles:
    """The files of one kind, of about FILE_ROWS rows; at least one, so that no events can be told from a loss."""

    def __init__(self, directory: Path, kind: Kind, texts: pa.Array) -> None:
        (directory / kind.directory).mkdir()
        self._open = partial(_File, directory, kind, texts)
        self._closed: list[dict[str, Any]] = []
        self._file = self._open(0)

    def write(self, blocks: Iterable[Rows]) -> None:
        """Add rows, block after block in the order of time."""
        for rows in blocks:
            if self._file.rows >= FILE_ROWS:
                self._closed.append(self._file.close())
                self._file = self._open(len(self._closed))
            self._file.append(rows)

    def close(self) -> list[dict[str, Any]]:
        """Finish them, and say what each of them holds."""
        return [*self._closed, self._file.close()]

    def abandon(self) -> None:
        """Let go of the one that is open; what is in it is of no use."""
        self._file.abandon()


def merged(streams: list[Iterator[Rows]]) -> Iterator[Rows]:
    """Blocks of all streams as one, in the order of time; holds a block of each stream, however long they are.

    What is at or before the earliest of the streams' last times in hand can be passed on: no stream has more of it.
    """
    alive = dict(enumerate(streams))
    buffers: dict[int, Rows] = {}
    while True:
        for number in [number for number in alive if not len(buffers.get(number, ()))]:
            block = next(alive[number], None)
            if block is None:
                del alive[number]
                buffers.pop(number, None)
            else:
                buffers[number] = block
        if not buffers:
            return
        horizon = min(int(rows["time"][-1]) for rows in buffers.values())
        cuts = {number: int(np.searchsorted(rows["time"], horizon, "right")) for number, rows in buffers.items()}
        yield in_time_order(np.concatenate([rows[: cuts[number]] for number, rows in buffers.items()]))
        buffers = {number: rows[cuts[number] :] for number, rows in buffers.items()}


def parquet_schema(kind: Kind) -> pa.Schema:
    """The columns of this kind's files."""
    types = {"<i8": pa.int64(), "<i4": pa.int32(), "<i2": pa.int16(), "i1": pa.int8(), TEXT: pa.string()}
    return pa.schema([(name, types[COLUMNS[name].type]) for name in KINDS[kind]])


@dataclass
class _File:
    """One Parquet file in the making; small blocks are gathered, so that row groups are large."""

    directory: Path
    kind: Kind
    texts: pa.Array
    number: int
    rows: int = 0
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    pending: list[pa.RecordBatch] = field(default_factory=list)
    contents: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"{self.kind.directory}/part-{self.number:05}.parquet"
        self.schema = parquet_schema(self.kind)
        self.sink = _Sink(self.directory / self.name, "wb")
        self.writer = pq.ParquetWriter(self.sink, self.schema, compression="zstd", compression_level=1)

    def abandon(self) -> None:
        """Close it, on a disk that takes no more as well."""
        with suppress(OSError, pa.ArrowException):
            self.writer.close()
        self.writer.is_open = False  # else it would try once more when it is forgotten
        with suppress(OSError):
            self.sink.close()

    def append(self, rows: Rows) -> None:
        """Add rows in the order of time."""
        self.pending.append(
            pa.RecordBatch.from_arrays([self._column(name, rows) for name in KINDS[self.kind]], schema=self.schema)
        )
        self.rows += len(rows)
        if self.kind in COUNTED:
            for number, count in zip(*np.unique(rows[COUNTED[self.kind]], return_counts=True), strict=True):
                self.contents[int(number)] = self.contents.get(int(number), 0) + int(count)
        self.first_time_ns = int(rows["time"][0]) if self.first_time_ns is None else self.first_time_ns
        self.last_time_ns = int(rows["time"][-1])
        if sum(batch.num_rows for batch in self.pending) >= ROW_GROUP_ROWS:
            self._flush()

    def _column(self, name: str, rows: Rows) -> pa.Array:
        column = np.ascontiguousarray(rows[name])
        numbers = pa.array(column, mask=column == COLUMNS[name].null)
        return self.texts.take(numbers) if COLUMNS[name].type == TEXT else numbers

    def close(self) -> dict[str, Any]:
        """Finish it and say what it holds."""
        self._flush()
        self.writer.close()
        self.sink.close()
        return {
            "path": self.name,
            "kind": self.kind.name.lower(),
            "rows": self.rows,
            "bytes": self.sink.bytes,
            "crc32": self.sink.crc32,
            "first_time_ns": self.first_time_ns,
            "last_time_ns": self.last_time_ns,
            **({"contents": self.contents} if self.kind in COUNTED else {}),
        }

    def _flush(self) -> None:
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending), row_group_size=ROW_GROUP_ROWS)
            self.pending = []


class _Sink(io.FileIO):
    """A file that knows its size and checksum when it is written."""

    bytes = 0
    crc32 = 0

    def write(self, data: Any) -> int:
        """All of it: a full disk takes a part, and then says so."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += super().write(view[written:]) or 0
            self.crc32 = zlib.crc32(view, self.crc32)
        self.bytes += written
        return written
