"""Bytes into frames: four bytes of length, then that many bytes; whatever arrives, and however it is cut.

A length is believed only up to a limit, and nothing is set aside for what has not arrived: a frame costs the bytes that
were really sent. A `FrameBudget` bounds those of all connections together.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

LENGTH_BYTES = 4
REQUEST_AT_MOST = 100 * 1024 * 1024  # what brokers take unless told otherwise
RESPONSE_AT_MOST = 512 * 1024 * 1024
BUDGET_BYTES = 512 * 1024 * 1024
SPARED_BYTES = 1024 * 1024
_LENGTH = struct.Struct(">i")


class BadFrame(Exception):
    """No frame of the Kafka protocol begins here, or there is no room for it; `frames` came before it."""

    def __init__(self, why: str, frames: Sequence[bytes] = ()) -> None:
        super().__init__(why)
        self.frames = list(frames)


class FrameBudget:
    """How many bytes of unfinished frames all connections may hold together."""

    def __init__(self, at_most: int = BUDGET_BYTES, spared: int = SPARED_BYTES) -> None:
        self.at_most = at_most
        self.spared = spared  # whoever holds no more than that does not pay for those who do
        self.held = 0


class FrameReader:
    """The frames of one direction of one connection."""

    def __init__(self, at_most: int, budget: FrameBudget) -> None:
        self._at_most = at_most
        self._budget = budget
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now, without their lengths; `BadFrame` ends the connection."""
        if not self._pending and len(data) > LENGTH_BYTES and self._length(data, 0) == len(data) - LENGTH_BYTES:
            return [data[LENGTH_BYTES:]]
        self._pending += data
        self._budget.held += len(data)
        frames: list[bytes] = []
        at = 0
        while len(self._pending) - at >= LENGTH_BYTES:
            try:
                end = at + LENGTH_BYTES + self._length(self._pending, at)
            except BadFrame as error:
                raise BadFrame(str(error), frames) from None
            if end > len(self._pending):
                break
            frames.append(bytes(self._pending[at + LENGTH_BYTES : end]))
            at = end
        del self._pending[:at]
        self._budget.held -= at
        if self._budget.held > self._budget.at_most and len(self._pending) > self._budget.spared:
            raise BadFrame(f"unfinished frames of all connections take more than {self._budget.at_most} bytes", frames)
        return frames

    def close(self) -> int:
        """Forget what is unfinished; how many bytes that was."""
        left = len(self._pending)
        self._budget.held -= left
        self._pending = bytearray()
        return left

    def _length(self, data: bytes | bytearray, at: int) -> int:
        (length,) = _LENGTH.unpack_from(data, at)
        if not 0 <= length <= self._at_most:
            raise BadFrame(f"a frame of {length} bytes")
        return int(length)


def framed(frame: bytes) -> bytes:
    """A frame with its length, as it goes over the wire."""
    return _LENGTH.pack(len(frame)) + frame
