"""Headers of record batches, read without decompressing what is in the batches.

A records field is a row of batches. Only whole ones of the current format (magic 2) are read: reading ends at the first
that is older, torn (a Fetch may end in half a batch) or says something impossible about its length.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.foundation.protocol import MAGIC

_BEFORE_LENGTH = 12  # base offset and length itself, which the length does not count
_WALK = struct.Struct(">8xi4xb")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = (
    ("base_offset", "i8"),
    ("batch_length", "i4"),
    ("leader_epoch", "i4"),
    ("magic", "i1"),
    ("crc", "u4"),
    ("attributes", "i2"),
    ("last_offset_delta", "i4"),
    ("base_timestamp", "i8"),
    ("max_timestamp", "i8"),
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
    ("base_sequence", "i4"),
    ("count", "i4"),
)
_STORED = np.dtype([(name, f">{type_}") for name, type_ in _FIELDS])
HEADERS = np.dtype([(name, f"={type_}") for name, type_ in _FIELDS])
HEADER_BYTES = _HEADER.size
_MAGIC_AT = 16

Records = bytes | bytearray | memoryview | None


class BatchHeader(NamedTuple):
    """The same as a row of `headers_at`."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment] # a tuple has a method of that name, which nobody wants here


def batch_positions(records: Records) -> list[int]:
    """Where whole batches begin."""
    if not records:
        return []
    positions: list[int] = []
    at, end = 0, len(records)
    walk = _WALK.unpack_from
    while at + HEADER_BYTES <= end:
        length, magic = walk(records, at)
        following = at + _BEFORE_LENGTH + length
        if magic != MAGIC or following < at + HEADER_BYTES or following > end:
            break
        positions.append(at)
        at = following
    return positions


def header_at(records: bytes | bytearray | memoryview, position: int) -> BatchHeader:
    """One header; the quicker way for a few."""
    return BatchHeader(*_HEADER.unpack_from(records, position))


def headers_at(records: Records, positions: list[int]) -> npt.NDArray[Any]:
    """The headers at these positions, one row each; the quicker way for many."""
    if not records or not positions:
        return np.empty(0, HEADERS)
    where = np.array(positions, np.int64)[:, np.newaxis] + np.arange(HEADER_BYTES)
    found: npt.NDArray[Any] = np.frombuffer(records, np.uint8)[where].view(_STORED)[:, 0].astype(HEADERS)
    return found


def is_old_format(records: Records) -> bool:
    """Whether these are messages from before there were batches, which nobody counts here."""
    return records is not None and len(records) > _MAGIC_AT and records[_MAGIC_AT] < MAGIC
