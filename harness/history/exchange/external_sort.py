"""Sorting and looking up more than memory holds, in files that are there as long as the import lasts.

`SortedRuns` takes rows of all kinds in any order of time, writes them in sorted runs and merges those into a history.
What goes on where the last rows ended, as most files do, is written as it comes: only what is out of order is sorted.
`IdIndex` keeps ids with the lines that they come from, in buckets by a hash, so that what is there twice, or refers to
nothing, is found a bucket at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.exchange.columns import Numbers, distinct, joined, taken
from harness.history.schema import Kind, row_type
from harness.history.sealing import write_history
from harness.history.sources import Rows

RUN_ROWS = 1 << 18  # of a sorted run
MERGED_ROWS = 1 << 20  # in memory while runs are merged
LEAST_BLOCK, LARGEST_BLOCK = 1 << 10, 1 << 16  # of them that are of one run
BUCKET_BITS = 6
_MIX = np.uint64(0x9E3779B97F4A7C15)
ENTRY = np.dtype([("id", "<i8"), ("line", "<i8"), ("tag", "<i4")])

Lines = Numbers


@dataclass
class _Pile:
    """The rows of one kind so far."""

    files: list[Path] = field(default_factory=list)
    growing: Path | None = None  # the run that goes on as long as rows come in order
    last: tuple[int, int] = (-1, -1)  # time and event of its last row
    pending: list[Rows] = field(default_factory=list)  # what was out of order


class SortedRuns:
    """Rows on their way into a history."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._piles = {kind: _Pile() for kind in Kind}
        self.rows = dict.fromkeys(Kind, 0)
        self.first_ns: int | None = None
        self.last_ns = 0
        self.processes: set[int] = set()

    def add(self, kind: Kind, rows: Rows) -> None:
        """Take rows, in any order."""
        if not len(rows):
            return
        pile, times, events = self._piles[kind], np.ascontiguousarray(rows["time"]), rows["event"]
        earliest, latest = int(times.min()), int(times.max())
        self.first_ns = earliest if self.first_ns is None else min(self.first_ns, earliest)
        self.last_ns = max(self.last_ns, latest)
        self.processes.update(distinct(rows["process"]).tolist())
        self.rows[kind] += len(rows)
        if (earliest, int(events[0])) > pile.last and _in_order(times, events):
            pile.growing = pile.growing or self._new_run(kind)
            with pile.growing.open("ab") as file:
                rows.tofile(file)
            pile.last = (latest, int(events[-1]))
            return
        pile.pending.append(rows)
        if sum(map(len, pile.pending)) >= RUN_ROWS:
            self._flush(kind)

    def finish(self, run: Path, texts: Mapping[str, int], about: Mapping[str, Any]) -> None:
        """Write the history."""
        for kind in Kind:
            self._flush(kind)
        streams = {kind: [self._blocks(kind, path) for path in self._piles[kind].files] for kind in Kind}
        write_history(run, streams, texts, about)

    def _new_run(self, kind: Kind) -> Path:
        files = self._piles[kind].files
        files.append(self._directory / f"{kind.name.lower()}-{len(files)}.run")
        return files[-1]

    def _flush(self, kind: Kind) -> None:
        pile = self._piles[kind]
        if pile.pending:
            rows = joined(pile.pending)
            pile.pending = []
            taken(rows, np.lexsort((rows["event"], rows["time"]))).tofile(self._new_run(kind))

    def _blocks(self, kind: Kind, path: Path) -> Iterator[Rows]:
        dtype = row_type(kind)
        block = max(LEAST_BLOCK, min(LARGEST_BLOCK, MERGED_ROWS // len(self._piles[kind].files)))
        with path.open("rb") as file:
            while len(rows := np.fromfile(file, dtype, block)):
                yield rows


def _in_order(times: npt.NDArray[Any], events: npt.NDArray[Any]) -> bool:
    """Whether rows come by time, and those of one time by event."""
    rises = times[1:] > times[:-1]
    return bool((rises | ((times[1:] == times[:-1]) & (events[1:] > events[:-1]))).all())


class IdIndex:
    """Ids, each with a tag and a line."""

    def __init__(self, directory: Path, name: str) -> None:
        self._paths = [directory / f"{name}-{number}.ledger" for number in range(1 << BUCKET_BITS)]
        self._pending: list[npt.NDArray[Any]] = []
        self._waiting = 0

    def add(self, ids: npt.NDArray[Any], lines: Lines, tags: npt.NDArray[Any] | int = 0) -> None:
        """Keep some."""
        entries = np.empty(len(ids), ENTRY)
        entries["id"], entries["line"], entries["tag"] = ids, lines, tags
        self._pending.append(entries)
        self._waiting += len(entries)
        if self._waiting >= RUN_ROWS:
            self._flush()

    def add_once(self, ids: npt.NDArray[Any], lines: Lines) -> None:
        """Keep some of which only the first line matters, and many of which are the same as the one before."""
        if len(ids):
            new = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
            self.add(ids[new], lines[new])

    def buckets(self) -> Iterator[npt.NDArray[Any]]:
        """All of them, those of one id together."""
        self._flush()
        for path in self._paths:
            yield _entries(path)

    def lines_of(self, wanted: int) -> list[int]:
        """Where an id is."""
        self._flush()
        entries = _entries(self._paths[int(_bucket(np.array([wanted], np.int64))[0])])
        return sorted(entries["line"][entries["id"] == wanted].tolist())

    def first_repeated(self) -> tuple[int, int, int] | None:
        """The earliest line with an id that was there before: line, line before, id."""
        found: list[tuple[int, int, int]] = []
        for entries in self.buckets():
            ids = np.sort(entries["id"])
            if not (ids[1:] == ids[:-1]).any():
                continue
            ordered = taken(entries, np.lexsort((entries["line"], entries["id"])))
            again = np.flatnonzero(ordered["id"][1:] == ordered["id"][:-1])
            place = int(again[np.argmin(ordered["line"][again + 1])])
            later, earlier = ordered[place + 1], ordered[place]
            found.append((int(later["line"]), int(earlier["line"]), int(later["id"])))
        return min(found, default=None)

    def _flush(self) -> None:
        if not self._pending:
            return
        entries = joined(self._pending)
        self._pending, self._waiting = [], 0
        buckets = _bucket(entries["id"])
        entries = taken(entries, np.argsort(buckets, kind="stable"))
        ends = np.cumsum(np.bincount(buckets, minlength=1 << BUCKET_BITS))
        for path, part in zip(self._paths, np.split(entries, ends[:-1]), strict=True):
            if len(part):
                with path.open("ab") as file:
                    part.tofile(file)


def _entries(path: Path) -> npt.NDArray[Any]:
    return np.fromfile(path, ENTRY) if path.exists() else np.empty(0, ENTRY)


def _bucket(ids: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Which bucket; of a byte, so that numpy sorts by counting."""
    return ((ids.astype(np.uint64) * _MIX) >> np.uint64(64 - BUCKET_BITS)).astype(np.uint8)
