"""The recorder: every process of a run writes its events with one.

Rows are written in batches, as columns: the recorder takes numpy arrays (or one value for all rows) and never loops.
Who makes rows one by one packs them (`row_struct`) and appends many at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.history.schema import COLUMNS, ID_BITS, KINDS, SCHEMA_VERSION, F, Kind, Type, now, row_type
from harness.history.segments import SegmentWriter

TEXTS_AT_MOST = 10_000
TOO_MANY_TEXTS = "(too many different texts: this one was not kept)"

Values = int | npt.NDArray[Any]


@dataclass(frozen=True)
class Op:
    """An operation under way."""

    id: int
    f: F
    invoked: int


class Recorder:
    """Writes the events of one process. Not for several threads at once: give each a recorder of its own."""

    def __init__(self, segment: Path, process: int, about: Mapping[str, object] | None = None) -> None:
        self.process = process
        self._next_event = self._next_op = process << ID_BITS
        self._texts: dict[str, int] = {}
        self._types = {kind: row_type(kind) for kind in Kind}
        self._blank = {kind: _blank_row(kind, process) for kind in Kind}
        self._writer = SegmentWriter(segment, {"schema_version": SCHEMA_VERSION, "process": process, **(about or {})})

    def write(self, kind: Kind, rows: int = 1, /, **columns: Values | str | None) -> None:
        """Append rows; a column is an array of that many values or one value for all, and null when left out."""
        if not rows:
            return
        first = bytearray(self._blank[kind])
        row = np.frombuffer(first, self._types[kind])
        row["time"] = now()
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, value in columns.items():
            if isinstance(value, np.ndarray):
                arrays[name] = value
            elif value is not None:
                row[name] = self.text(value) if isinstance(value, str) else value
        body = first * rows  # many times as fast as to assign what all rows share, column by column
        table = np.frombuffer(body, self._types[kind])
        table["event"] = np.arange(self._next_event, self._next_event + rows)
        for name, values in arrays.items():
            table[name] = values
        self._next_event += rows
        self._writer.append(kind, rows, body)

    def append(self, kind: Kind, rows: int, body: bytes | bytearray) -> None:
        """Append rows that are packed already, with events from `new_events` in them."""
        if rows:
            self._writer.append(kind, rows, body)

    def new_events(self, count: int) -> int:
        """The first of that many new event ids."""
        first = self._next_event
        self._next_event += count
        return first

    def new_ops(self, count: int) -> int:
        """The first of that many new operation ids."""
        first = self._next_op
        self._next_op += count
        return first

    def begin(self, f: F, **columns: Values | str | None) -> Op:
        """Record one invocation; make the call after this returns."""
        op = Op(self.new_ops(1), f, now())
        self.write(Kind.INVOKE, time=op.invoked, op=op.id, f=f, **columns)
        return op

    def end(self, op: Op, type_: Type, **columns: Values | str | None) -> None:
        """Record how an operation ended."""
        self.write(Kind.COMPLETE, op=op.id, invoked=op.invoked, f=op.f, type=type_, **columns)

    def text(self, text: str) -> int:
        """The number of a text in this segment; the text itself is written the first time only."""
        number = self._texts.get(text)
        if number is None:
            if len(self._texts) >= TEXTS_AT_MOST:
                text = TOO_MANY_TEXTS
            number = self._texts.get(text, len(self._texts))
            if number == len(self._texts):
                self._writer.append_text(number, text)
                self._texts[text] = number
        return number

    def topic(self, number: int, name: str) -> None:
        """Say what a topic's number stands for."""
        self._writer.append_topic(number, name)

    def close(self) -> None:
        """Mark the segment as complete: nothing was lost after its last row."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _blank_row(kind: Kind, process: int) -> bytes:
    row = np.empty((), row_type(kind))
    for name in KINDS[kind]:
        row[name] = COLUMNS[name].null
    row["process"] = process
    return row.tobytes()
