"""Headers of record batches, read many at once: equal to reading them one by one, whatever the bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tap.batch_headers import HEADERS, batch_positions, header_at, headers_at, is_old_format
from tests.support.tap_exchanges import batch


def test_headers_are_those_of_the_batches() -> None:
    """In one table, and one by one."""
    records = batch(5, 2, (1, 2, 3), 4) + batch(7, 1, (-1, -1, -1), 0x8000_0000)
    headers = headers_at(records, batch_positions(records))
    assert headers.dtype == HEADERS
    assert headers["base_offset"].tolist() == [5, 7]
    assert headers["crc"].tolist() == [4, 0x8000_0000]
    assert headers["leader_epoch"].tolist() == [4, 4]
    assert headers["last_offset_delta"].tolist() == [1, 0]
    assert [tuple(row) for row in headers.tolist()] == [header_at(records, at) for at in batch_positions(records)]


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48, 2**31 - 1])
def test_an_impossible_length_ends_the_reading(length: int) -> None:
    """What came before it counts."""
    wrong = bytearray(batch(9))
    wrong[8:12] = struct.pack(">i", length)
    assert batch_positions(batch(5) + wrong + batch(12)) == [0]


def test_older_messages_are_not_read() -> None:
    """They have another shape."""
    old = bytearray(batch(9))
    old[16] = 1
    assert is_old_format(old)
    assert not is_old_format(batch())
    assert batch_positions(batch(5) + old) == [0]
    assert not len(headers_at(None, batch_positions(None)))


@given(st.binary(max_size=400), st.integers(0, 3), st.integers(0, 400))
def test_any_bytes_have_headers(noise: bytes, whole: int, cut: int) -> None:
    """Whole batches before the noise are found, and reading ends."""
    records = b"".join(batch(n) for n in range(whole)) + noise
    assert len(batch_positions(records)) >= whole
    assert len(batch_positions(records[: len(records) - cut])) <= len(batch_positions(records))
    assert len(batch_positions(memoryview(records))) == len(batch_positions(records))
