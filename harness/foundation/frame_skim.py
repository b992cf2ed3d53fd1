"""Going through the bytes of a message from length to length, without making anything of them.

That is how to find out how much a message holds before it is read: reading is slow, and its sender may be hostile.
"""

from __future__ import annotations

TAGS_AT_MOST = 100


class Garbled(Exception):
    """Bytes that are no request or response of the API and version they claim."""


class FrameSkim:
    """A place in a frame that moves on."""

    def __init__(self, frame: bytes, at: int, *, compact: bool) -> None:
        self.parts = 0
        self.at = at
        self._frame = frame
        self._compact = compact

    def length(self, size: int) -> int:
        """A length or a count, which takes that many bytes where it is not compact; none is 0."""
        if self._compact:
            value, self.at = _varint(self._frame, self.at)
            return max(value - 1, 0)
        value = int.from_bytes(self._frame[self.at : self.at + size], signed=True)
        self.skip(size)
        return max(value, 0)

    def count(self, least_bytes: int) -> int:
        """How many there are of what takes so many bytes each, or more; `Garbled` if those cannot be there."""
        found = self.length(4)
        if found * least_bytes > len(self._frame) - self.at:
            raise Garbled(f"{found} of something, where there is no room for them")
        return found

    def skip(self, size: int) -> None:
        """Go on."""
        self.at += size
        if self.at > len(self._frame):
            raise Garbled("a length beyond its frame")

    def tags(self) -> None:
        """Go past tagged fields."""
        if self._compact:
            self.at = skip_tags(self._frame, self.at)

    def text(self) -> str:
        """A string, or nothing where it is null."""
        size = self.length(2)
        self.skip(size)
        return self._frame[self.at - size : self.at].decode("utf-8", "replace")

    def number(self) -> int:
        """A number of four bytes."""
        self.skip(4)
        return int.from_bytes(self._frame[self.at - 4 : self.at], signed=True)


def skip_tags(frame: bytes, at: int) -> int:
    """The end of the tagged fields that begin here."""
    count, at = _varint(frame, at)
    if count > TAGS_AT_MOST:
        raise Garbled(f"{count} tagged fields")
    for _ in range(count):
        _, at = _varint(frame, at)
        size, at = _varint(frame, at)
        at += size
    if at > len(frame):
        raise Garbled("tagged fields that are longer than their frame")
    return at


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(frame) or shift > 28:
            raise Garbled("a number without an end")
        byte = frame[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
