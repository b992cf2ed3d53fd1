"""What a message carries: who sent what where, as how-manieth, when, and a checksum over all of it.

A message is a header of 60 bytes (`HEADER`, little-endian), padding, and in its last four bytes the CRC-32 of all that
comes before, with a register that starts at zero and is not inverted at the end. That register is then zero again after
every message that is whole, and after any number of them one after the other: a batch without damage is checked by a
single call. Only in a batch that fails is each message looked at. (Zeros alone would pass as well; the magic does not.)

Batches are built and parsed as arrays. The only loops are those over `zlib.crc32` and over slices of one buffer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.schema import COLUMNS, Status

MAGIC = 0x32474454  # "TDG2"
CHECKSUM_BYTES = 4
NO_SOURCE = COLUMNS["source"].null
TOMBSTONE = 1  # of the flags: the message deletes its key, and travels in a header of a record without a value
ZERO = 0xFFFFFFFF  # what zlib calls a register of zero, before and after
HEADER = np.dtype(
    [
        ("magic", "<u4"),
        ("topic", "<i4"),
        ("partition", "<i4"),
        ("producer", "<i4"),
        ("value", "<i8"),
        ("run", "<i8"),
        ("sequence", "<i8"),
        ("invoked", "<i8"),
        ("source", "<i8"),
        ("flags", "<u4"),
    ]
)
KEY = np.dtype(">i8")
NO_KEY = np.array(COLUMNS["key"].null, KEY).tobytes()
Ints = npt.NDArray[Any] | int


@cache
def _message(size_bytes: int) -> np.dtype[Any]:
    """A message of this size as one row."""
    padding = size_bytes - HEADER.itemsize - CHECKSUM_BYTES
    return np.dtype([*HEADER.descr, ("padding", f"V{padding}"), ("checksum", "<u4")] if padding else
                    [*HEADER.descr, ("checksum", "<u4")])  # fmt: skip


class PayloadBuilder:
    """Builds the messages of one producer."""

    def __init__(self, run: int, producer: int, size_bytes: int) -> None:
        self._size = size_bytes
        self._type = _message(size_bytes)
        blank = np.zeros((), self._type)
        blank["magic"], blank["run"], blank["producer"], blank["source"] = MAGIC, run, producer, NO_SOURCE
        self._blank = blank.tobytes()

    def build(self, count: int, **columns: Ints) -> list[bytes]:
        """That many messages: topic, partition, value, sequence, invoked, source, flags; arrays, or one for all."""
        body = bytearray(self._blank * count)
        table = np.frombuffer(body, self._type)
        for name, values in columns.items():
            table[name] = values
        size, checked = self._size, self._size - CHECKSUM_BYTES
        starts = range(0, count * size, size)
        with memoryview(body) as view:
            table["checksum"] = [zlib.crc32(view[start : start + checked], ZERO) for start in starts]
            table["checksum"] ^= ZERO
            data = bytes(view)
        return [data[start : start + size] for start in starts]


def keys_of(numbers: npt.NDArray[Any]) -> list[bytes]:
    """Numbers as keys of records: eight bytes, big-endian."""
    data = numbers.astype(KEY).tobytes()
    return [data[start : start + KEY.itemsize] for start in range(0, len(data), KEY.itemsize)]


def key_numbers(keys: Sequence[bytes | None]) -> npt.NDArray[Any]:
    """The numbers that keys of records stand for; null for a key that is none of ours."""
    size = KEY.itemsize
    data = b"".join([key if key is not None and len(key) == size else NO_KEY for key in keys])
    return np.frombuffer(data, KEY).astype(np.int64)


def headers(payloads: Sequence[bytes]) -> npt.NDArray[Any]:
    """The headers of messages of our own making, all of one size."""
    return np.frombuffer(b"".join(payloads), _message(len(payloads[0])))


@dataclass(frozen=True)
class ParsedPayloads:
    """What messages say, in parallel arrays; null where they say nothing."""

    value: npt.NDArray[Any]
    producer: npt.NDArray[Any]
    sequence: npt.NDArray[Any]
    source: npt.NDArray[Any]
    status: npt.NDArray[Any]


def parse(
    payloads: Sequence[bytes | None],
    topic: Ints,
    partition: Ints,
    run: int,
    marks: Sequence[bytes | None] | None = None,
) -> ParsedPayloads:
    """What was read at these places, and whether it is what this run wrote there; `marks` has headers of tombstones.

    A record without a value is what its header says, if that is a tombstone; a tombstone with a value is damaged.
    """
    bare: npt.NDArray[Any] | bool = False
    if marks is not None:
        bare = np.array([value is None for value in payloads], bool)
        payloads = [mark if value is None else value for value, mark in zip(payloads, marks, strict=True)]
    head, whole = _heads(payloads)
    whole &= (head["flags"] & TOMBSTONE > 0) == bare
    marked = (head["magic"] == MAGIC) & (head["run"] == run)
    good = marked & whole
    elsewhere = (head["topic"] != topic) | (head["partition"] != partition)
    if good.all():
        status = elsewhere * np.int8(Status.MISROUTED)
        return ParsedPayloads(head["value"], head["producer"], head["sequence"], head["source"], status)
    ours = (head["magic"] == MAGIC) | (head["run"] == run)
    status = np.full(len(payloads), Status.FOREIGN, np.int8)
    status[ours & ~whole] = Status.CORRUPT
    status[good] = np.where(elsewhere[good], Status.MISROUTED, Status.GOOD)
    return ParsedPayloads(
        value=np.where(good, head["value"], COLUMNS["value"].null),
        producer=np.where(good, head["producer"], COLUMNS["producer"].null),
        sequence=np.where(good, head["sequence"], COLUMNS["sequence"].null),
        source=np.where(good, head["source"], NO_SOURCE),
        status=status,
    )


def _heads(payloads: Sequence[bytes | None]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The header of each message, whatever it really is, and whether the message is long enough and whole."""
    least = HEADER.itemsize + CHECKSUM_BYTES
    sizes = set(map(len, payloads)) if None not in payloads else set()  # type: ignore[arg-type]
    if len(sizes) == 1 and (size := sizes.pop()) >= least:
        joined = b"".join(payloads)  # type: ignore[arg-type]  # no None among them
        if zlib.crc32(joined, ZERO) == ZERO:
            return np.frombuffer(joined, _message(size)), np.ones(len(payloads), bool)
    given = [payload or b"" for payload in payloads]
    width = HEADER.itemsize
    whole = [len(payload) >= least and zlib.crc32(payload, ZERO) == ZERO for payload in given]
    beginnings = b"".join([payload[:width].ljust(width, b"\0") for payload in given])
    return np.frombuffer(beginnings, HEADER), np.array(whole, bool)
