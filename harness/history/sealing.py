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
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.foundation.errors import TidegaugeError
from harness.history.parquet import COUNTED, KindFiles, merged, parquet_schema
from harness.history.places import HISTORY, SEGMENTS
from harness.history.schema import COLUMNS, ID_BITS, KINDS, SCHEMA_VERSION, Kind, Type, row_type
from harness.history.segments import Damage, Segment
from harness.history.sources import Rows, Source, segments_of, topic_numbers

MANIFEST = "manifest.json"
OPEN = "still open when its process ended"
_COUNTER = (1 << ID_BITS) - 1  # the part of an operation's number that its process counts
_GLOB = re.compile(r"([\[\]{}*?\\])")  # Hadoop takes these in a path for a pattern


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
    segments, strays = segments_of(run / SEGMENTS)
    texts = {OPEN: 0}
    numbers = topic_numbers(segments)
    processes = [_Process(Source(segment, texts, numbers)) for segment in segments if segment.process is not None]
    with _Unfinished(run, texts) as history:
        completions = history.files(Kind.COMPLETE)  # first, and open to the end: they say which operations have none
        completions.write(merged([process.blocks(Kind.COMPLETE) for process in processes]))
        for kind in Kind:
            if kind is not Kind.COMPLETE:
                history.write(kind, [process.blocks(kind) for process in processes])
        completions.write(_open_operations(processes))
        history.keep(completions)
        damage = [(segment, _damage(segment, killed)) for segment in segments]  # of what has been read, which is all
        history.finish(
            {
                "processes": {
                    str(process.source.segment.process): process.source.segment.about for process in processes
                },
                "topics": {str(number): name for name, number in numbers.items()},
                "damage": [*strays, *(sentence for _, found in damage for sentence in found.sentences)],
                "damaged_processes": sorted({int(segment.path.stem) for segment, found in damage if found.sentences}),
                "has_holes": any(found.has_holes for _, found in damage),
            }
        )
    for segment, found in damage:
        if not found.sentences:
            segment.path.unlink()
    if not any((run / SEGMENTS).iterdir()):
        (run / SEGMENTS).rmdir()


def write_history(
    run: Path, streams: Mapping[Kind, list[Iterator[Rows]]], texts: Collection[str], about: Mapping[str, Any]
) -> None:
    """Merge streams of blocks, each in the order of time, into the files of a history, whole or not at all.

    Rows name texts by their number among `texts`; `about` is what the manifest says beside the files.
    """
    with _Unfinished(run, texts) as history:
        for kind in Kind:
            history.write(kind, streams[kind])
        history.finish(about)


class _Unfinished:
    """A history in the making."""

    def __init__(self, run: Path, texts: Collection[str]) -> None:
        self._run, self._directory = run, run / f"{HISTORY}.new"
        self._texts = pa.array(list(texts), pa.string())
        self._entries: list[dict[str, Any]] = []
        self._open: list[KindFiles] = []
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is not None:  # what it was to be made from is still there
            for files in self._open:
                files.abandon()
            shutil.rmtree(self._directory, ignore_errors=True)

    def files(self, kind: Kind) -> KindFiles:
        """Begin the files of a kind."""
        files = KindFiles(self._directory, kind, self._texts)
        self._open.append(files)
        return files

    def write(self, kind: Kind, streams: list[Iterator[Rows]]) -> None:
        """All of a kind."""
        files = self.files(kind)
        files.write(merged(streams))
        self.keep(files)

    def keep(self, files: KindFiles) -> None:
        """Finish the files of a kind."""
        self._entries += files.close()
        self._open.remove(files)

    def finish(self, about: Mapping[str, Any]) -> None:
        """Write the manifest, and put everything in place."""
        entries = sorted(self._entries, key=lambda entry: Kind[entry["kind"].upper()])
        times = [entry[end] for entry in entries if entry["rows"] for end in ("first_time_ns", "last_time_ns")]
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "files": entries,
            **about,
            "first_time_ns": min(times, default=0),
            "last_time_ns": max(times, default=0),
        }
        (self._directory / MANIFEST).write_text(json.dumps(manifest, indent=1))
        shutil.rmtree(self._run / HISTORY, ignore_errors=True)
        self._directory.rename(self._run / HISTORY)


def _damage(segment: Segment, killed: Collection[int]) -> Damage:
    """What counts as damage: not the end that a process lacks which was killed on purpose."""
    forgiven = segment.damage.ends_early and int(segment.path.stem) in killed
    return Damage() if forgiven else segment.damage


@dataclass
class _Process:
    """The rows of a process on their way, and what they say of operations that were never completed."""

    source: Source
    last_event: int = 0
    last_time_ns: int = 0
    completed: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))  # by their counters
    open: list[Rows] = field(default_factory=list)  # invocations; known when completions have passed

    def blocks(self, kind: Kind) -> Iterator[Rows]:
        """Rows in the order of time."""
        for rows in self.source.blocks(kind):
            self.last_event = max(self.last_event, int(rows["event"].max()))
            self.last_time_ns = max(self.last_time_ns, int(rows["time"].max()))
            if kind is Kind.COMPLETE:
                self._complete(rows["op"] & _COUNTER)
            elif kind is Kind.INVOKE:
                counters = rows["op"] & _COUNTER
                is_open = counters >= len(self.completed)
                is_open[~is_open] = ~self.completed[counters[~is_open]]
                self.open.append(rows[is_open])
            yield rows

    def _complete(self, counters: npt.NDArray[np.int64]) -> None:
        missing = int(counters.max()) + 1 - len(self.completed)
        if missing > 0:
            more = np.zeros(max(missing, len(self.completed)), np.bool_)
            self.completed = np.concatenate([self.completed, more])
        self.completed[counters] = True


def _open_operations(processes: list[_Process]) -> Iterator[Rows]:
    """A completion as `info` for each operation that was invoked and has none, at the end of everything."""
    last_time_ns = max((process.last_time_ns for process in processes), default=0)
    for process in processes:
        if any(map(len, process.open)):
            rows = _as_info(np.concatenate(process.open), process.last_event + 1)
            rows["time"] = last_time_ns
            yield rows


def _as_info(invocations: Rows, first_event: int) -> Rows:
    rows = np.empty(len(invocations), row_type(Kind.COMPLETE))
    for name in KINDS[Kind.COMPLETE]:
        rows[name] = invocations[name] if name in KINDS[Kind.INVOKE] else COLUMNS[name].null
    rows["event"] = np.arange(first_event, first_event + len(rows))
    rows["invoked"] = invocations["time"]
    rows["type"] = Type.INFO
    rows["detail"] = 0
    return rows


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
            "restore it; without it, the contents of the history are unknown",
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
                return None, f"was rewritten with other columns, {left_out}"
            count = footer.metadata.num_rows
    except (OSError, pa.ArrowException):
        return None, f"has {size:,} bytes instead of {entry['bytes']:,}, {left_out}"
    return count, f"was rewritten after sealing: it has {count:,} events and had {entry['rows']:,}"
