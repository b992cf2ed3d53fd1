"""Sorting and looking up more than memory holds, in files that are there as long as the import lasts.

`Runs` takes rows of all kinds in any order of time, writes them in sorted runs and merges those into a history.
`Ledger` keeps ids with the lines that they come from, in buckets by a hash, so that what is there twice, or refers to
nothing, is found a bucket at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history import Kind, row_type
from harness.seal import write_history
from harness.sources import Rows

RUN_ROWS = 1 << 18  # of a sorted run
MERGED_ROWS = 1 << 20  # in memory while runs are merged
LEAST_BLOCK = 1 << 10
BUCKET_BITS = 6
_MIX = np.uint64(0x9E3779B97F4A7C15)
ENTRY = np.dtype([("id", "<i8"), ("line", "<i8"), ("tag", "<i4")])

Lines = npt.NDArray[np.int64]


class Runs:
    """Rows on their way into a history."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pending: dict[Kind, list[Rows]] = {kind: [] for kind in Kind}
        self._files: dict[Kind, list[Path]] = {kind: [] for kind in Kind}
        self.rows = dict.fromkeys(Kind, 0)
        self.first_ns: int | None = None
        self.last_ns = 0
        self.processes: set[int] = set()

    def add(self, kind: Kind, rows: Rows) -> None:
        """Take rows, in any order."""
        if not len(rows):
            return
        times = rows["time"]
        earliest = int(times.min())
        self.first_ns = earliest if self.first_ns is None else min(self.first_ns, earliest)
        self.last_ns = max(self.last_ns, int(times.max()))
        self.processes.update(np.unique(rows["process"]).tolist())
        self.rows[kind] += len(rows)
        self._pending[kind].append(rows)
        if sum(map(len, self._pending[kind])) >= RUN_ROWS:
            self._flush(kind)

    def finish(self, run: Path, texts: Mapping[str, int], about: Mapping[str, Any]) -> None:
        """Write the history."""
        for kind in Kind:
            self._flush(kind)
        streams = {kind: [self._blocks(kind, path) for path in self._files[kind]] for kind in Kind}
        write_history(run, streams, texts, about)

    def _flush(self, kind: Kind) -> None:
        if self._pending[kind]:
            rows = np.concatenate(self._pending[kind])
            path = self._directory / f"{kind.name.lower()}-{len(self._files[kind])}.run"
            rows[np.lexsort((rows["event"], rows["time"]))].tofile(path)
            self._files[kind].append(path)
            self._pending[kind] = []

    def _blocks(self, kind: Kind, path: Path) -> Iterator[Rows]:
        dtype = row_type(kind)
        block = max(LEAST_BLOCK, MERGED_ROWS // len(self._files[kind]))
        with path.open("rb") as file:
            while len(rows := np.fromfile(file, dtype, block)):
                yield rows


class Ledger:
    """Ids, each with a tag and a line."""

    def __init__(self, directory: Path, name: str) -> None:
        self._paths = [directory / f"{name}-{number}.ledger" for number in range(1 << BUCKET_BITS)]
        self._pending: list[npt.NDArray[Any]] = []

    def add(self, ids: npt.NDArray[Any], lines: Lines, tags: npt.NDArray[Any] | int = 0) -> None:
        """Keep some."""
        entries = np.empty(len(ids), ENTRY)
        entries["id"], entries["line"], entries["tag"] = ids, lines, tags
        self._pending.append(entries)
        if sum(map(len, self._pending)) >= RUN_ROWS:
            self._flush()

    def buckets(self) -> Iterator[npt.NDArray[Any]]:
        """All of them, those of one id together and in the order of lines."""
        self._flush()
        for path in self._paths:
            entries = np.fromfile(path, ENTRY) if path.exists() else np.empty(0, ENTRY)
            yield entries[np.lexsort((entries["line"], entries["id"]))]

    def lines_of(self, wanted: int) -> list[int]:
        """Where an id is."""
        self._flush()
        path = self._paths[int(_bucket(np.array([wanted], np.int64))[0])]
        entries = np.fromfile(path, ENTRY) if path.exists() else np.empty(0, ENTRY)
        return sorted(entries["line"][entries["id"] == wanted].tolist())

    def first_repeated(self) -> tuple[int, int, int] | None:
        """The earliest line with an id that was there before: line, line before, id."""
        found: list[tuple[int, int, int]] = []
        for entries in self.buckets():
            again = np.flatnonzero(entries["id"][1:] == entries["id"][:-1])
            if len(again):
                place = int(again[np.argmin(entries["line"][again + 1])])
                later, earlier = entries[place + 1], entries[place]
                found.append((int(later["line"]), int(earlier["line"]), int(later["id"])))
        return min(found, default=None)

    def _flush(self) -> None:
        if not self._pending:
            return
        entries = np.concatenate(self._pending)
        self._pending = []
        buckets = _bucket(entries["id"])
        order = np.argsort(buckets, kind="stable")
        entries = entries[order]
        cuts = np.searchsorted(buckets[order], np.arange((1 << BUCKET_BITS) + 1))
        for number, path in enumerate(self._paths):
            part = entries[cuts[number] : cuts[number + 1]]
            if len(part):
                with path.open("ab") as file:
                    part.tofile(file)


def _bucket(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return (ids.astype(np.uint64) * _MIX) >> np.uint64(64 - BUCKET_BITS)
