"""Giving a history out: all kinds merged by time, in bounded memory, always in the same order.

Files of a history are sorted by time but for a few rows, so the order is made anew: what is before the earliest time
in all row groups that were not read yet can be given out.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.foundation.errors import CannotHere, UsageError, from_os_error
from harness.foundation.view import View
from harness.history.exchange import parquet
from harness.history.exchange.file_format import WORDS, FileHeader, about_of
from harness.history.exchange.parquet import is_worded
from harness.history.opening import failures_of, open_run, read_facts
from harness.history.schema import KINDS, Kind
from harness.history.sealed import Sealed
from harness.history.store import Run

PIECE_ROWS = 1 << 16
_NOT_OF_A_PROCESS = {"schema_version", "process"}


@dataclass(frozen=True)
class Exported:
    """What was given out."""

    run: Path
    file: Path
    format: str
    events: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {**vars(self), "run": str(self.run), "file": str(self.file)}


def export_run(run: Run, file: Path, form: str | None, view: View) -> Exported:
    """Write the history of a run into a new file."""
    form = form or _form_of(file)
    if file.exists():
        raise UsageError(f"{file} is there already", "name a new file: nothing is overwritten")
    with run.held():
        view.phase("open")
        sealed = open_run(run)
        if sealed.has_holes:
            raise CannotHere(
                f"the history of {run.path} has holes ({sealed.damage[0]})",
                "other programs could not know what is missing",
            )
        header = _header(run, sealed)
        view.phase("export")
        unfinished = file.with_name(f"{file.name}.unfinished")
        try:
            written = (_write_parquet if form == "parquet" else _write_lines)(unfinished, sealed, header)
            for events in written:
                view.detail(f"{events:,} of {sealed.events:,} events")
            unfinished.replace(file)
        except OSError as error:
            raise from_os_error(error, "writing the file") from error
        finally:
            with suppress(OSError):
                unfinished.unlink()
    return Exported(run.path, file, form, sealed.events, file.stat().st_size)


def _form_of(file: Path) -> str:
    suffix = file.with_suffix("").suffix if file.suffix == ".gz" else file.suffix
    if suffix == ".parquet" and file.suffix != ".gz":
        return "parquet"
    if suffix in {".jsonl", ".ndjson"}:
        return "jsonl"
    raise UsageError(f"{file} does not say which format is wanted", "end it with .jsonl or .parquet, or give --format")


def _header(run: Run, sealed: Sealed) -> FileHeader:
    facts = read_facts(run)
    damaged = {"damage": tuple(sealed.damage), "damaged_processes": tuple(sorted(sealed.damaged_processes))}
    processes = {
        str(number): {key: value for key, value in about.items() if key not in _NOT_OF_A_PROCESS}
        for number, about in sorted(sealed.processes.items())
    }
    return FileHeader(
        about=about_of(facts, failures_of(facts), damaged),
        processes=processes,
        topics=tuple(sealed.topics[number] for number in sorted(sealed.topics)),
        events=sealed.events,
    )


def _write_lines(path: Path, sealed: Sealed, header: FileHeader) -> Iterator[int]:
    with path.open("wb") as raw, closing(_packed(path, raw)) as file:
        file.write(f"{header.as_text()}\n".encode())
        events = 0
        for piece, order in _pieces(sealed):
            lines = [line for kind, table in piece for line in _lines(kind, table, sealed.topics)]
            file.write("".join([lines[place] for place in order]).encode())
            events += len(lines)
            yield events


def _packed(path: Path, raw: IO[bytes]) -> IO[bytes]:
    if path.with_suffix("").suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0))
    return raw


def _write_parquet(path: Path, sealed: Sealed, header: FileHeader) -> Iterator[int]:
    schema = parquet.schema(header)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        events = 0
        for piece, order in _pieces(sealed):
            table = pa.concat_tables([_wide(kind, table, sealed.topics, schema) for kind, table in piece])
            writer.write_table(table.take(pa.array(order)))
            events += len(order)
            yield events


Piece = list[tuple[Kind, pa.Table]]


def _pieces(sealed: Sealed) -> Iterator[tuple[Piece, list[int]]]:
    """Rows of each kind, and the order in which they come when their tables are laid end to end."""
    for tables in _merged(sealed):
        kinds = list(tables)
        times, events = (
            np.concatenate([tables[kind][name].to_numpy() for kind in kinds]) for name in ("time", "event")
        )
        which = np.repeat(np.arange(len(kinds)), [tables[kind].num_rows for kind in kinds])
        rows = np.concatenate([np.arange(tables[kind].num_rows) for kind in kinds])
        order = np.lexsort((events, times))
        for start in range(0, len(order), PIECE_ROWS):
            chosen = order[start : start + PIECE_ROWS]
            by_kind = np.argsort(which[chosen], kind="stable")
            piece = [
                (kind, tables[kind].take(pa.array(rows[chosen[which[chosen] == number]])))
                for number, kind in enumerate(kinds)
            ]
            yield piece, np.argsort(by_kind).tolist()


def _merged(sealed: Sealed) -> Iterator[dict[Kind, pa.Table]]:
    """What lies between two instants, of all kinds; one part after the other."""
    groups = sorted(
        (*_bounds(path, number), kind.value, path, number)
        for kind in Kind
        for path in sealed.files[kind]
        for number in range(pq.read_metadata(path).num_row_groups)
    )
    held: dict[Kind, pa.Table] = {}
    for place, (_, _, value, path, number) in enumerate(groups):
        kind = Kind(value)
        with pq.ParquetFile(path) as file:
            table = file.read_row_group(number)
        held[kind] = pa.concat_tables([held[kind], table]) if kind in held else table
        horizon = groups[place + 1][0] if place + 1 < len(groups) else None
        ready = {}
        for each, rows in list(held.items()):
            early = pc.less(rows["time"], horizon) if horizon is not None else None
            ready[each] = rows if early is None else rows.filter(early)
            held[each] = rows.slice(0, 0) if early is None else rows.filter(pc.invert(early))
        ready = {each: rows for each, rows in ready.items() if rows.num_rows}
        if ready:
            yield ready


def _bounds(path: Path, number: int) -> tuple[int, int]:
    """The first and the last time in a row group."""
    group = pq.read_metadata(path).row_group(number)
    column = next(
        group.column(place) for place in range(group.num_columns) if group.column(place).path_in_schema == "time"
    )
    return column.statistics.min, column.statistics.max


def _spelled(name: str, column: pa.ChunkedArray, topics: dict[int, str]) -> list[Any]:
    """A column with words for the numbers that stand for some."""
    values: list[Any] = column.to_pylist()
    if name in WORDS:
        words: dict[int | None, str | None] = {number: word for word, number in WORDS[name].items()}
        return [words.get(value) for value in values]
    if name == "topic":
        return [None if value is None else topics.get(value, f"#{value}") for value in values]
    return values


def _lines(kind: Kind, table: pa.Table, topics: dict[int, str]) -> Iterator[str]:
    fragments = []
    for name in KINDS[kind]:
        values = _spelled(name, table[name], topics)
        if is_worded(name):
            texts = {value: f',"{name}":{json.dumps(value)}' for value in set(values) - {None}}
            fragments.append([texts.get(value, "") for value in values])
        else:
            fragments.append(["" if value is None else f',"{name}":{value}' for value in values])
    begin = f'{{"kind":"{kind.name.lower()}"'
    return (f"{begin}{''.join(row)}}}\n" for row in zip(*fragments, strict=True))


def _wide(kind: Kind, table: pa.Table, topics: dict[int, str], schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name == "kind":
            columns.append(pa.array([kind.name.lower()] * table.num_rows, pa.string()))
        elif field.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, field.type))
        elif is_worded(field.name):
            columns.append(pa.array(_spelled(field.name, table[field.name], topics), pa.string()))
        else:
            columns.append(table[field.name])
    return pa.table(columns, schema=schema)
