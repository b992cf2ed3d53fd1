"""Sealing: from the segments of a run to Parquet files in time order.

`seal` completes every open operation as `info`, merges the segments of all processes by time, a block at a time, and
writes `history/kind=…/part-….parquet` with a manifest that names every file, its rows and its checksum. The directory
appears whole or not at all, and the segments are removed only after that: a seal that was killed is simply repeated.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.foundation.errors import TidegaugeError
from harness.history.parquet import KindFiles, merged
from harness.history.places import HISTORY, SEGMENTS
from harness.history.schema import COLUMNS, ID_BITS, KINDS, SCHEMA_VERSION, Kind, Type, row_type
from harness.history.sealed import MANIFEST, Sealed, read_sealed
from harness.history.segments import Damage, Segment
from harness.history.sources import Rows, Source, segments_of, topic_numbers

OPEN = "still open when its process ended"
_COUNTER = (1 << ID_BITS) - 1  # the part of an operation's number that its process counts


def open_history(run: Path, killed: Collection[int] = ()) -> Sealed:
    """The history of a run, sealed first when its run did not come to that; `killed` as `seal` takes it."""
    if not (run / HISTORY).is_dir():
        if not (run / SEGMENTS).is_dir():
            raise TidegaugeError(f"{run} holds no history", "name a run that recorded something")
        seal(run, killed)
    return read_sealed((run / HISTORY).absolute())


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
