"""A sealed history: the files that its manifest names, as far as they can be relied on.

The manifest is believed: a file that is missing, cut short or altered is left out and named, as is a file
that does not belong there, and as are the damages that sealing met in the segments. A file that was written anew with
our columns, by somebody who changed the history on purpose, is read as it is now, and named.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.foundation.errors import TidegaugeError
from harness.history.parquet import COUNTED, parquet_schema
from harness.history.places import HISTORY
from harness.history.schema import SCHEMA_VERSION, Kind

MANIFEST = "manifest.json"
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


def _crc32(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def read_sealed(directory: Path) -> Sealed:
    """What a directory holds, by its manifest."""

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
