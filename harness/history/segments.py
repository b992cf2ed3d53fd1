"""Segments: what a process appends while a run goes on, and how that is read back whatever happened to it.

A segment is a sequence of frames. A frame is a header of 32 bytes (magic, kind, rows, size of the body, number of the
frame, checksums of body and header; little-endian) and a body. The first frame says whose segment it is, the last one
that nothing came after it; in between are rows of a kind, texts and topic names. Every frame is one `write`: what a
killed process managed to write is in the file, and at most its last frame is torn.

The reader trusts nothing: a frame whose checksum does not hold is left out and reported, and reading goes on at the
next frame that is whole. Numbers that are missing between two frames are reported too. It reads a body once: opening a
segment walks its headers, and the rows of a frame are checked when they are taken.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAGIC = b"TGS1"
SUFFIX = ".segment"
_HEADER = struct.Struct("<4sBxxxIIQI")
_CHECKSUM = struct.Struct("<I")
_BOTH = struct.Struct(f"{_HEADER.format}{_CHECKSUM.format[1:]}")
HEADER_BYTES = _BOTH.size
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


class SegmentFrame(NamedTuple):
    """A frame: what its header says, and where its body lies."""

    kind: int
    rows: int
    size: int
    number: int
    checksum: int
    start: int

    @property
    def begin(self) -> int:
        """Where its header lies."""
        return self.start - HEADER_BYTES

    @property
    def end(self) -> int:
        """What comes after it."""
        return self.start + self.size


# Frames are many where operations come one by one: they are kept packed.
_ENTRY = struct.Struct("<BIIQIq")
_ENTRIES = np.dtype(
    [("kind", "u1"), ("rows", "<u4"), ("size", "<u4"), ("number", "<u8"), ("checksum", "<u4"), ("start", "<i8")]
)


@dataclass(frozen=True)
class Damage:
    """What is wrong with a segment, as far as it was read."""

    sentences: tuple[str, ...] = ()
    has_holes: bool = False  # frames before the last whole one are missing; a torn tail alone loses nothing of worth
    ends_early: bool = False  # nothing but its end is missing, as a killed process leaves it, or everything is


class Segment:
    """A segment as far as it can be read; what is not whole is found when it is wanted, and is in `damage` then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about: dict[str, Any] = {}
        self.texts: dict[int, str] = {}
        self.topics: dict[int, str] = {}
        self._size = path.stat().st_size
        self._lost: list[int] = []  # frames, by where their bodies begin
        self._index = bytearray()
        self._walk()
        if self.process is None:
            self.check()

    @property
    def process(self) -> int | None:
        """Who wrote it; None when even that is lost, and nothing of it can be used."""
        process = self.about.get("process")
        return process if isinstance(process, int) else None

    def frames(self, kind: int | None = None) -> Iterator[SegmentFrame]:
        """The frames of rows, of one kind or of all, that are whole as far as anybody has looked."""
        if self.process is not None:
            entries = self._whole()
            wanted = entries["kind"] < FIRST if kind is None else entries["kind"] == kind
            yield from map(SegmentFrame._make, _ENTRY.iter_unpack(entries[wanted].tobytes()))

    def blocks(self, kind: int, rows: int) -> Iterator[bytearray]:
        """The rows of a kind, packed, in blocks of at least that many but for the last."""
        block, count = bytearray(), 0
        for frame in self.frames(kind):
            if not self._is_whole(frame):
                self._lost.append(frame.start)
                continue
            block += self._view[frame.start : frame.end]
            count += frame.rows
            if count >= rows:
                yield block
                block, count = bytearray(), 0
        if block:
            yield block

    def check(self) -> None:
        """Look at all rows now, whether anybody takes them or not."""
        entries = self._whole()
        frames = map(SegmentFrame._make, _ENTRY.iter_unpack(entries[entries["kind"] < FIRST].tobytes()))
        self._lost += [frame.start for frame in frames if not self._is_whole(frame)]

    @property
    def damage(self) -> Damage:
        """A sentence for whatever is damaged, torn or missing, as far as it was read."""
        name = self.path.name
        if not self._size:
            sentence = f"{name} is empty: its process ended before it wrote anything"
            return Damage((sentence,), has_holes=True, ends_early=True)
        entries = self._whole()
        ends = np.concatenate([[0], entries["start"] + entries["size"]])
        begins, numbers = entries["start"] - HEADER_BYTES, entries["number"]
        expected = np.concatenate([np.zeros(1, np.uint64), numbers + np.uint64(1)])[:-1]
        sentences = []
        for place in np.flatnonzero((begins != ends[:-1]) | (numbers != expected)).tolist():
            if lost := int(begins[place] - ends[place]):
                sentences.append(f"{name}: {lost:,} bytes from byte {ends[place]:,} are damaged and left out")
            if numbers[place] != expected[place]:
                sentences.append(f"{name}: frame {numbers[place]} stands where frame {expected[place]} should")
        has_holes = bool(sentences)
        if torn := self._size - int(ends[-1]):
            sentences.append(f"{name} is torn: its last {torn:,} bytes are no whole frame")
        elif not sentences and entries["kind"][-1] != LAST:
            sentences.append(f"{name} ends without its last frame: its process was killed")
        if self.process is None:
            sentences.append(f"{name} does not say whose it is: nothing of it can be used")
            has_holes = True
        return Damage(tuple(sentences), has_holes, bool(sentences) and not (has_holes and len(entries)))

    @cached_property
    def _data(self) -> mmap.mmap | bytes:
        if not self._size:
            return b""
        with self.path.open("rb") as file:
            return mmap.mmap(file.fileno(), self._size, access=mmap.ACCESS_READ)

    @cached_property
    def _view(self) -> memoryview:
        return memoryview(self._data)

    def _whole(self) -> Any:
        """The frames of any kind that are whole as far as anybody has looked, packed."""
        entries = np.frombuffer(self._index, _ENTRIES)
        return entries[~np.isin(entries["start"], self._lost)] if self._lost else entries

    def _walk(self) -> None:
        """Find every frame by its header; a body of rows is looked at where the next header is not behind it."""
        at, before = 0, None
        while at < self._size:
            frame = self._frame_at(at)
            if frame is None or (frame.kind >= FIRST and not self._is_whole(frame)):
                if before is not None and not self._is_whole(before):
                    del self._index[-_ENTRY.size :]
                    at = before.begin
                frame = self._next_whole(at)
                if frame is None:
                    return
            if frame.kind >= FIRST:
                self._read_table(frame)
            self._index += _ENTRY.pack(*frame)
            at, before = frame.end, frame

    def _next_whole(self, at: int) -> SegmentFrame | None:
        """The first frame behind what is none, or is not whole."""
        while (at := self._data.find(MAGIC, at + 1)) >= 0:
            frame = self._frame_at(at)
            if frame is not None and self._is_whole(frame):
                return frame
        return None

    def _frame_at(self, at: int) -> SegmentFrame | None:
        start = at + HEADER_BYTES
        if start > self._size:
            return None
        magic, kind, rows, size, number, checksum, header_checksum = _BOTH.unpack_from(self._view, at)
        if magic != MAGIC or zlib.crc32(self._view[at : at + _HEADER.size]) != header_checksum:
            return None
        fits = size <= MAX_BODY_BYTES and start + size <= self._size
        return SegmentFrame(kind, rows, size, number, checksum, start) if fits else None

    def _is_whole(self, frame: SegmentFrame) -> bool:
        return zlib.crc32(self._view[frame.start : frame.end]) == frame.checksum

    def _read_table(self, frame: SegmentFrame) -> None:
        content = json.loads(bytes(self._view[frame.start : frame.end]))
        if frame.kind == FIRST:
            self.about = content
        elif frame.kind == TEXT:
            self.texts[content["number"]] = content["text"]
        elif frame.kind == TOPIC:
            self.topics[content["number"]] = content["name"]
