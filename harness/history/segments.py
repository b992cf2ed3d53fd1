"""Segments: what a process appends while a run goes on, and how that is read back whatever happened to it.

A segment is a sequence of frames. A frame is a header of 32 bytes (magic, kind, rows, size of the body, number of the
frame, checksums of body and header; little-endian) and a body. The first frame says whose segment it is, the last one
that nothing came after it; in between are rows of a kind, texts and topic names. Every frame is one `write`: what a
killed process managed to write is in the file, and at most its last frame is torn.

The reader trusts nothing: a frame whose checksum does not hold is left out and reported, and reading goes on at the
next frame that is whole. Numbers that are missing between two frames are reported too.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC = b"TGS1"
SUFFIX = ".segment"
_HEADER = struct.Struct("<4sBxxxIIQI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size
MAX_BODY_BYTES = 64 * 1024 * 1024
# kinds of frames that hold no rows; those of rows are `history.Kind`
FIRST, TEXT, TOPIC, LAST = 100, 101, 102, 103


class SegmentWriter:
    """Appends frames; each one is with the operating system when the call returns."""

    def __init__(self, path: Path, about: Mapping[str, object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._frames = 0
        self._append_json(FIRST, about)

    def append(self, kind: int, rows: int, body: bytes | bytearray) -> None:
        """One frame."""
        header = _HEADER.pack(MAGIC, kind, rows, len(body), self._frames, zlib.crc32(body))
        header += _CHECKSUM.pack(zlib.crc32(header))
        written = os.writev(self._file, (header, body))
        if written < len(header) + len(body):  # a full disk writes a part, and then says so
            frame = header + body
            while written < len(frame):
                written += os.write(self._file, frame[written:])
        self._frames += 1

    def append_text(self, number: int, text: str) -> None:
        """A text that rows name by its number."""
        self._append_json(TEXT, {"number": number, "text": text})

    def append_topic(self, number: int, name: str) -> None:
        """A topic that rows name by its number."""
        self._append_json(TOPIC, {"number": number, "name": name})

    def close(self) -> None:
        """The frame that says that nothing is missing."""
        if self._file >= 0:
            self._append_json(LAST, {})
            os.close(self._file)
            self._file = -1

    def _append_json(self, kind: int, data: Mapping[str, object]) -> None:
        self.append(kind, 0, json.dumps(data).encode())


@dataclass(frozen=True)
class SegmentFrame:
    """A whole frame of rows: where its body lies."""

    kind: int
    rows: int
    start: int
    size: int


@dataclass
class Segment:
    """A segment as far as it could be read."""

    path: Path
    about: dict[str, Any] = field(default_factory=dict)
    frames: list[SegmentFrame] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    whole_frames: int = 0  # of any kind
    has_holes: bool = False  # frames before the last whole one are missing; a torn tail alone loses nothing of worth

    @property
    def process(self) -> int | None:
        """Who wrote it; None when even that is lost."""
        process = self.about.get("process")
        return process if isinstance(process, int) else None

    @property
    def ends_early(self) -> bool:
        """Whether nothing but its end is missing, as a process leaves it that is killed; it may hold nothing at all."""
        return bool(self.damage) and (not self.has_holes or not self.whole_frames)

    def forgive(self) -> None:
        """Call that no damage: its process was killed on purpose."""
        assert self.ends_early, "what was lost before the end stays lost"
        self.damage.clear()
        self.has_holes = False


def read_segment(path: Path) -> Segment:
    """Find every whole frame; what is damaged, torn or missing is in `damage`, one sentence each."""
    segment = Segment(path)
    size = path.stat().st_size
    if not size:
        segment.damage.append(f"{path.name} is empty: its process ended before it wrote anything")
        segment.has_holes = True
        return segment
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        expected = 0
        closed = False
        for kind, rows, start, length, number in _frames(data, size, segment):
            if number != expected:
                segment.damage.append(f"{path.name}: frame {number} stands where frame {expected} should")
                segment.has_holes = True
            expected = number + 1
            segment.whole_frames += 1
            closed = kind == LAST
            if kind < FIRST:
                segment.frames.append(SegmentFrame(kind, rows, start, length))
            else:
                _read_table(kind, bytes(data[start : start + length]), segment)
        if not closed and not segment.damage:
            segment.damage.append(f"{path.name} ends without its last frame: its process was killed")
    if segment.process is None:
        segment.damage.append(f"{path.name} does not say whose it is: nothing of it can be used")
        segment.has_holes = True
        segment.frames.clear()
    return segment


def _frames(data: mmap.mmap, size: int, segment: Segment) -> Iterator[tuple[int, int, int, int, int]]:
    """Whole frames in order: kind, rows, start and size of the body, number."""
    at = 0
    while at < size:
        found = _frame_at(data, at, size)
        if found is not None:
            yield found
            at = found[2] + found[3]
            continue
        again = at
        while found is None and again >= 0:
            again = data.find(MAGIC, again + 1)
            found = _frame_at(data, again, size) if again >= 0 else None
        if found is None:
            torn = size - at
            segment.damage.append(f"{segment.path.name} is torn: its last {torn:,} bytes are no whole frame")
            return
        segment.damage.append(f"{segment.path.name}: {again - at:,} bytes from byte {at:,} are damaged and left out")
        segment.has_holes = True
        at = again


def _frame_at(data: mmap.mmap, at: int, size: int) -> tuple[int, int, int, int, int] | None:
    body = at + HEADER_BYTES
    if body > size:
        return None
    header = data[at : at + _HEADER.size]
    magic, kind, rows, length, number, checksum = _HEADER.unpack(header)
    (header_checksum,) = _CHECKSUM.unpack(data[at + _HEADER.size : body])
    if magic != MAGIC or zlib.crc32(header) != header_checksum or length > MAX_BODY_BYTES or body + length > size:
        return None
    with memoryview(data) as view, view[body : body + length] as part:
        return (kind, rows, body, length, number) if zlib.crc32(part) == checksum else None


def _read_table(kind: int, body: bytes, segment: Segment) -> None:
    content = json.loads(body)
    if kind == FIRST:
        segment.about = content
    elif kind == TEXT:
        segment.texts[content["number"]] = content["text"]
    elif kind == TOPIC:
        segment.topics[content["number"]] = content["name"]
