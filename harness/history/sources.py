"""Segments as the source of a history: which there are, what their rows say, and one number for each name in them.

Processes number texts and topics by themselves. Here each text and each name of a topic gets one number for the whole
history, so that rows of different processes can be put side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.places import SEGMENTS
from harness.history.schema import COLUMNS, KINDS, TEXT, F, Kind, Type, row_type
from harness.history.segments import SUFFIX, Segment

BLOCK_ROWS = 65_536

Rows = npt.NDArray[Any]


def segment_path(run: Path, process: int) -> Path:
    """Where a process writes."""
    return run / SEGMENTS / f"{process:04}{SUFFIX}"


@dataclass
class Unsealed:
    """What the final read has to know of a history that is still in segments."""

    topics: dict[int, str]  # by their numbers, all that were used
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)  # topic, partition: the highest offset
    deleted: set[str] = field(default_factory=set)  # topics that workers deleted, or may have


def read_unsealed(run: Path) -> Unsealed:
    """Look through the invocations and completions of all processes, once."""
    segments, _ = segments_of(run / SEGMENTS)
    numbers = topic_numbers(segments)
    found = Unsealed({number: name for name, number in numbers.items()})
    for segment in segments:
        source = Source(segment, {}, numbers)
        deletions: dict[int, int] = {}
        for rows in source.blocks(Kind.INVOKE):
            asked = rows[rows["f"] == F.DELETE]
            deletions |= dict(zip(asked["op"].tolist(), asked["topic"].tolist(), strict=True))
        for rows in source.blocks(Kind.COMPLETE):
            _raise(found.acknowledged, rows[(rows["type"] == Type.OK) & (rows["f"] == F.SEND)])
            for op in rows["op"][(rows["f"] == F.DELETE) & (rows["type"] == Type.FAIL)].tolist():
                deletions.pop(op, None)
        found.deleted |= {found.topics[topic] for topic in deletions.values()}
    return found


def _raise(highest: dict[tuple[int, int], int], sends: Rows) -> None:
    """Take the offsets of more acknowledged sends into account."""
    places = sends["topic"].astype(np.int64) << 32 | sends["partition"]
    order = np.argsort(places, kind="stable")
    found, starts = np.unique(places[order], return_index=True)
    offsets = np.maximum.reduceat(sends["offset"][order], starts) if len(starts) else ()
    for place, offset in zip(found, offsets, strict=True):
        key = (int(place) >> 32, int(place) & 0xFFFFFFFF)
        highest[key] = max(highest.get(key, -1), int(offset))


def topic_numbers(segments: list[Segment]) -> dict[str, int]:
    """One number for each name, whatever its processes call it: the smallest, or a new one if that is taken."""
    smallest: dict[str, int] = {}
    for segment in segments:
        for number, name in segment.topics.items():
            smallest[name] = min(number, smallest.get(name, number))
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    free = max((number for segment in segments for number in segment.topics), default=-1) + 1
    for number, name in sorted((number, name) for name, number in smallest.items()):
        if number in taken:
            numbers[name], free = free, free + 1
        else:
            numbers[name] = number
            taken.add(number)
    return numbers


def segments_of(directory: Path) -> tuple[list[Segment], list[str]]:
    """The segments, one for each process, and a sentence for each file that is none."""
    segments: list[Segment] = []
    damage: list[str] = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        number = path.name.removesuffix(SUFFIX)
        if not path.is_file() or path.suffix != SUFFIX or not number.isdecimal():
            damage.append(f"{SEGMENTS}/{path.name} is no segment of this run and was left out")
            continue
        segment = Segment(path)
        if segment.process is not None and segment.process != int(number):
            damage.append(f"{SEGMENTS}/{path.name} is a copy of the segment of process {segment.process}, left out")
            continue
        segments.append(segment)
    return segments, damage


class Source:
    """The rows of one segment, by kind and in blocks; its texts and topics get their numbers of the whole history."""

    def __init__(self, segment: Segment, texts: dict[str, int], topics: dict[str, int]) -> None:
        self.segment = segment
        # the last entry stands for null, and for a text that was lost
        self._renumbered = np.full(max(segment.texts, default=-1) + 2, COLUMNS["detail"].null, np.int32)
        for number, text in segment.texts.items():
            self._renumbered[number] = texts.setdefault(text, len(texts))
        changed = [(own, topics[name]) for own, name in sorted(segment.topics.items()) if topics[name] != own]
        self._topics = np.array(changed, np.int32).reshape(-1, 2)

    def blocks(self, kind: Kind) -> Iterator[Rows]:
        """Rows in the order of time."""
        for block in self.segment.blocks(kind, BLOCK_ROWS):
            yield self._renumber(kind, np.frombuffer(block, row_type(kind)))

    def _renumber(self, kind: Kind, rows: Rows) -> Rows:
        for name in KINDS[kind]:
            if COLUMNS[name].type == TEXT:
                numbers = rows[name]
                lost = (numbers < 0) | (numbers >= len(self._renumbered) - 1)
                rows[name] = self._renumbered[np.where(lost, -1, numbers)]
        if len(self._topics) and "topic" in KINDS[kind]:
            own, common = self._topics.T
            places = np.minimum(np.searchsorted(own, rows["topic"]), len(own) - 1)
            rows["topic"] = np.where(own[places] == rows["topic"], common[places], rows["topic"])
        return in_time_order(rows)


def in_time_order(rows: Rows) -> Rows:
    """The rows sorted by time, themselves where they are."""
    times = rows["time"]
    if (times[:-1] <= times[1:]).all():
        return rows
    return rows[np.argsort(rows["time"], kind="stable")]
