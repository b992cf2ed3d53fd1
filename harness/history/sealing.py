"""Sealing: from the segments of a run to Parquet files in time order, and back to what can be relied on.

`seal` completes every open operation as `info`, merges the segments of all processes by time, a block at a time, and
writes `history/kind=…/part-….parquet` with a manifest that names every file, its rows and its checksum. The directory
appears whole or not at all, and the segments are removed only after that: a seal that was killed is simply repeated.

`open_history` believes the manifest: a file that is missing, cut short or altered is left out and named, as is a file
that does not belong there, and as are the damages that sealing met in the segments. A file that was written anew with
our columns, by somebody who changed the history on purpose, is read as it is now, and named.
"""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.foundation.errors import TidegaugeError
from harness.history.schema import COLUMNS, ID_BITS, KINDS, SCHEMA_VERSION, TEXT, Kind, Type, row_type
from harness.history.segments import Segment
from harness.history.sources import BLOCK_ROWS, SEGMENTS, Rows, Source, in_time_order, segments_of, topic_numbers

HISTORY = "history"
MANIFEST = "manifest.json"
ROW_GROUP_ROWS = 8 * BLOCK_ROWS
FILE_ROWS = 1_000_000
OPEN = "still open when its process ended"
_GLOB = re.compile(r"([\[\]{}*?\\])")  # Hadoop takes these in a path for a pattern
COUNTED = {Kind.COMPLETE: "f", Kind.PROBE: "api", Kind.EXCHANGE: "api"}  # so that nobody looks for what is not there


@dataclass(frozen=True)
class Sealed:
    """A history that can be read: the whole files of each kind, and what is wrong with the rest."""

    directory: Path
    files: dict[Kind, list[Path]]  # absolute, or below `base`
    rows: dict[Kind, int]
    processes: dict[int, dict[str, Any]]
    topics: dict[int, str]
    damage: list[str]
    damaged_processes: frozenset[int]
    has_holes: bool  # something that was written is missing, so that absence proves nothing
    first_time_ns: int
    last_time_ns: int
    contents: dict[Kind, dict[int, int]] = field(default_factory=dict)  # of each f or api; without a kind: not counted
    base: str = ""  # the URL of a history that is not among the files of this machine

    @property
    def events(self) -> int:
        """How many events there are to look at."""
        return sum(self.rows.values())

    @property
    def verified(self) -> bool:
        """Whether checksums were compared; elsewhere only sizes are."""
        return not self.base

    def urls(self, kind: Kind) -> list[str]:
        """The files of a kind as Spark takes them, whatever its own default file system is."""
        return [as_url(f"{self.base}/{path}" if self.base else f"file://{path}") for path in self.files.get(kind, [])]


def as_url(text: str) -> str:
    """A URL in which nothing is taken for a pattern."""
    return _GLOB.sub(r"\\\1", text)


def open_history(run: Path, killed: Collection[int] = ()) -> Sealed:
    """The history of a run, sealed first when its run did not come to that; `killed` as `seal` takes it."""
    if not (run / HISTORY).is_dir():
        if not (run / SEGMENTS).is_dir():
            raise TidegaugeError(f"{run} holds no history", "name a run that recorded something")
        seal(run, killed)
    return _opened((run / HISTORY).absolute())


def seal(run: Path, killed: Collection[int] = ()) -> None:
    """Turn the segments into Parquet; the ends of processes that were killed on purpose are not missed."""
    segments, damage = segments_of(run / SEGMENTS)
    for segment in segments:
        if segment.ends_early and int(segment.path.stem) in killed:
            segment.forgive()
    holes = any(segment.has_holes for segment in segments)
    texts = {OPEN: 0}
    numbers = topic_numbers(segments)
    sources = [Source(segment, texts, numbers) for segment in segments if segment.process is not None]
    open_ops = _open_operations(sources)
    streams = {kind: [source.blocks(kind) for source in sources] for kind in Kind}
    if len(open_ops):
        streams[Kind.COMPLETE].append(iter([open_ops]))
    write_history(
        run,
        streams,
        texts,
        {
            "processes": {str(s.segment.process): s.segment.about for s in sources},
            "topics": {str(number): name for name, number in numbers.items()},
            "damage": [*damage, *(sentence for segment in segments for sentence in segment.damage)],
            "damaged_processes": sorted({process for segment in segments if (process := _owner(segment)) is not None}),
            "has_holes": holes,
        },
    )
    for segment in segments:
        if not segment.damage:
            segment.path.unlink()
    if not any((run / SEGMENTS).iterdir()):
        (run / SEGMENTS).rmdir()


def write_history(
    run: Path, streams: Mapping[Kind, list[Iterator[Rows]]], texts: Collection[str], about: Mapping[str, Any]
) -> None:
    """Merge streams of blocks, each in the order of time, into the files of a history, whole or not at all.

    Rows name texts by their number among `texts`; `about` is what the manifest says beside the files.
    """
    unfinished = run / f"{HISTORY}.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _write_all(unfinished, streams, texts, about)
        shutil.rmtree(run / HISTORY, ignore_errors=True)
        unfinished.rename(run / HISTORY)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)  # what it was made from is still there
        raise


def _write_all(
    unfinished: Path, streams: Mapping[Kind, list[Iterator[Rows]]], texts: Collection[str], about: Mapping[str, Any]
) -> None:
    unfinished.mkdir(parents=True)
    strings = pa.array(list(texts), pa.string())
    files = [file for kind in Kind for file in _write(unfinished, kind, _merged(streams[kind]), strings)]
    times = [time for file in files for time in (file["first_time_ns"], file["last_time_ns"]) if time is not None]
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "files": files,
        **about,
        "first_time_ns": min(times, default=0),
        "last_time_ns": max(times, default=0),
    }
    (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1))


def _owner(segment: Segment) -> int | None:
    """Whose damaged segment it is, by its name when its content does not say."""
    return int(segment.path.stem) if segment.damage else None


def _open_operations(sources: list[Source]) -> Rows:
    """A completion as `info` for each operation that was invoked and has none."""
    opened: list[Rows] = []
    last_time = 0
    for source in sources:
        completed = _counters(source, Kind.COMPLETE)
        last_event = 0
        mine: list[Rows] = []
        for kind in Kind:
            for rows in source.blocks(kind):
                last_event = max(last_event, int(rows["event"].max()))
                last_time = max(last_time, int(rows["time"].max()))
                if kind is Kind.INVOKE:
                    counters = rows["op"] & ((1 << ID_BITS) - 1)
                    known = counters < len(completed)
                    is_open = ~known
                    is_open[known] = ~completed[counters[known]]
                    mine.append(rows[is_open])
        invocations = np.concatenate(mine) if mine else np.empty(0, row_type(Kind.INVOKE))
        opened.append(_as_info(invocations, last_event + 1))
    rows = np.concatenate(opened) if opened else np.empty(0, row_type(Kind.COMPLETE))
    rows["time"] = last_time
    return rows


def _counters(source: Source, kind: Kind) -> npt.NDArray[np.bool_]:
    """Which of the process's operations, by their counter, have a row of this kind."""
    seen = np.zeros(0, np.bool_)
    for rows in source.blocks(kind):
        counters = rows["op"] & ((1 << ID_BITS) - 1)
        highest = int(counters.max())
        if highest >= len(seen):
            seen = np.concatenate([seen, np.zeros(max(highest + 1, 2 * len(seen)) - len(seen), np.bool_)])
        seen[counters] = True
    return seen


def _as_info(invocations: Rows, first_event: int) -> Rows:
    rows = np.empty(len(invocations), row_type(Kind.COMPLETE))
    for name in KINDS[Kind.COMPLETE]:
        rows[name] = invocations[name] if name in KINDS[Kind.INVOKE] else COLUMNS[name].null
    rows["event"] = np.arange(first_event, first_event + len(rows))
    rows["invoked"] = invocations["time"]
    rows["type"] = Type.INFO
    rows["detail"] = 0
    return rows


def _merged(streams: list[Iterator[Rows]]) -> Iterator[Rows]:
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


def _write(directory: Path, kind: Kind, blocks: Iterator[Rows], texts: pa.Array) -> list[dict[str, Any]]:
    """Parquet files of about FILE_ROWS rows; at least one, so that a kind without events can be told from a loss."""
    (directory / kind.directory).mkdir()
    files = [_File(directory, kind, texts, 0)]
    for rows in blocks:
        if files[-1].rows >= FILE_ROWS:
            files.append(_File(directory, kind, texts, len(files)))
        files[-1].append(rows)
    return [file.close() for file in files]


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
        self.writer = pq.ParquetWriter(self.directory / self.name, self.schema, compression="zstd", compression_level=1)

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
        path = self.directory / self.name
        return {
            "path": self.name,
            "kind": self.kind.name.lower(),
            "rows": self.rows,
            "bytes": path.stat().st_size,
            "crc32": _crc32(path),
            "first_time_ns": self.first_time_ns,
            "last_time_ns": self.last_time_ns,
            **({"contents": self.contents} if self.kind in COUNTED else {}),
        }

    def _flush(self) -> None:
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending), row_group_size=ROW_GROUP_ROWS)
            self.pending = []


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _opened(directory: Path) -> Sealed:
    def read() -> Any:
        return json.loads((directory / MANIFEST).read_text())

    def foreign(listed: Collection[str]) -> list[str]:
        found = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir())
        return sorted(name for name in found if name not in listed and name != MANIFEST)

    def look_at(name: str, kind: Kind, entry: Mapping[str, Any]) -> tuple[int | None, str]:
        return _look_at(directory / name, kind, entry)

    return assemble(str(directory), read, look_at, foreign)


# How many rows of a file can be read, None when it cannot be trusted, and what is wrong with it.
Look = Callable[[str, Kind, Mapping[str, Any]], tuple[int | None, str]]


def assemble(
    place: str, read: Callable[[], Any], look_at: Look, foreign: Callable[[Collection[str]], list[str]], base: str = ""
) -> Sealed:
    """A history by its manifest: what it lists is looked at, and what it does not list is named."""
    try:
        manifest = read()
        if manifest["schema_version"] != SCHEMA_VERSION:
            raise TidegaugeError(
                f"{place} was written with schema {manifest['schema_version']}, this is {SCHEMA_VERSION}",
                "check it with the version of Tidegauge that wrote it (see run.json)",
            )
        listed = {entry["path"]: entry for entry in manifest["files"]}
        files: dict[Kind, list[Path]] = {kind: [] for kind in Kind}
        rows = dict.fromkeys(Kind, 0)
        damage = list(manifest["damage"])
        contents: dict[Kind, dict[int, int]] = {kind: {} for kind in COUNTED}
        lost = False
        for name, entry in listed.items():
            kind = Kind[entry["kind"].upper()]
            count, wrong = look_at(name, kind, entry)
            damage += [f"{HISTORY}/{name} {wrong}"] if wrong else []
            lost = lost or count is None
            if count is not None:
                files[kind].append(Path(name) if base else Path(place, name))
                rows[kind] += count
                if kind in contents:
                    _count(contents, kind, None if wrong else entry.get("contents"))
        damage += [f"{HISTORY}/{name} is no file of this run and was left out" for name in foreign(listed)]
        return Sealed(
            directory=Path(place),
            files=files,
            rows=rows,
            processes={int(number): about for number, about in manifest["processes"].items()},
            topics={int(number): name for number, name in manifest["topics"].items()},
            damage=damage,
            damaged_processes=frozenset(manifest["damaged_processes"]),
            has_holes=lost or manifest["has_holes"],
            first_time_ns=manifest["first_time_ns"],
            last_time_ns=manifest["last_time_ns"],
            contents=contents,
            base=base,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TidegaugeError(
            f"{place}/{MANIFEST} cannot be understood ({type(error).__name__}: {error})",
            "restore it; without it nobody can tell what the history should hold",
        ) from error


def _count(contents: dict[Kind, dict[int, int]], kind: Kind, found: Mapping[str, int] | None) -> None:
    """Add what a file holds; one that does not say it leaves the kind uncounted."""
    if found is None:
        del contents[kind]
        return
    for number, count in found.items():
        contents[kind][int(number)] = contents[kind].get(int(number), 0) + count


def _look_at(path: Path, kind: Kind, entry: Mapping[str, Any]) -> tuple[int | None, str]:
    """How many rows can be read, None when the file cannot be trusted, and what is wrong with it."""
    left_out = f"and its {entry['rows']:,} events were left out"
    if not path.is_file():
        return None, f"is missing, {left_out}"
    size = path.stat().st_size
    if size == entry["bytes"]:
        return (entry["rows"], "") if _crc32(path) == entry["crc32"] else (None, f"was altered, {left_out}")
    try:
        footer = pq.ParquetFile(path)
        with footer:
            if not footer.schema_arrow.equals(parquet_schema(kind)):
                return None, f"was written anew with other columns, {left_out}"
            count = footer.metadata.num_rows
    except (OSError, pa.ArrowException):
        return None, f"has {size:,} bytes instead of {entry['bytes']:,}, {left_out}"
    return count, f"was written anew after sealing: it has {count:,} events and had {entry['rows']:,}"
