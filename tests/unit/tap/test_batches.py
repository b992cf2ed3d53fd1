"""Record batches are read and made anew without touching what is not meant."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from harness.tap.batches import (
    RecordBatch,
    blank,
    blank_from,
    cut,
    join,
    split,
    with_base,
    with_values,
    without,
    without_idempotence,
)

HEADERS = [("trace", b"\x00\x01"), ("none", None)]


def made(
    values: list[bytes | None], *, base: int = 0, producer: int = -1, compression: int = 0, transactional: bool = False
) -> RecordBatch:
    """A batch as kafka-python makes it, at an offset."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=compression, is_transactional=transactional, producer_id=producer,
        producer_epoch=3 if producer >= 0 else -1, base_sequence=17 if producer >= 0 else -1, batch_size=1 << 20,
    )  # fmt: skip
    for number, value in enumerate(values):
        assert builder.append(number, 1_000 + number, b"key-%d" % number, value, HEADERS) is not None
    return with_base(RecordBatch(bytes(builder.build())), base, 5)


def read(batch: RecordBatch) -> list[Any]:
    """What kafka-python reads in it, checksum and all."""
    assert DefaultRecordBatch(batch.raw).validate_crc()
    return list(DefaultRecordBatch(batch.raw))


VALUES: list[bytes | None] = [b"a" * 300, b"", None, b"d" * 70, b"e" * 200]


def test_headers_are_read() -> None:
    """What the header says, and nothing more is decoded."""
    batch = made(VALUES, base=40, producer=9, transactional=True)
    (found,) = split(batch.raw)
    assert (found.base_offset, found.last_offset, found.next_offset, found.count, found.span) == (40, 44, 45, 5, 5)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (9, 3, 17)
    assert found.is_transactional
    assert not found.is_control
    assert found.compression == 0
    assert found.crc == calc_crc32c(memoryview(found.raw)[21:])
    assert found.fields.leader_epoch == 5


def test_split_and_join_are_inverse() -> None:
    """Whatever the field ends with."""
    whole = made([b"x"]).raw + made([b"y", b"z"], base=1).raw
    for tail in (b"", b"\x00", made([b"t"], base=3).raw[:-1], made([b"t"], base=3).raw[:30], b"\xff" * 100):
        batches = split(whole + tail)
        assert [batch.base_offset for batch in batches][:2] == [0, 1]
        assert [batch.whole for batch in batches] == [True, True, False][: 2 + bool(tail)]
        assert join(batches) == whole + tail
    assert split(None) == split(b"") == []


def test_older_batches_stay_as_they_are() -> None:
    """Nothing is done to what is not understood."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 14)
    builder.append(0, timestamp=1, key=None, value=b"old" * 40)
    (old,) = split(bytes(builder.build()))
    assert not old.whole
    assert old.records is None
    assert without_idempotence(old) is old
    assert with_base(old, 7) is old
    assert without(old, {0}) is old
    assert with_values(old, {0: b"new"}) is old
    assert blank(old) is old


@pytest.mark.parametrize("size", [0, 1, 100, 1_000, 20_000])
def test_idempotence_is_taken_out(size: int) -> None:
    """Producer's numbers go, records and checksum stay right, whatever follows the header."""
    batch = made([b"v" * size], base=6, producer=12)
    plain = without_idempotence(batch)
    assert (plain.producer_id, plain.producer_epoch, plain.base_sequence) == (-1, -1, -1)
    assert plain.crc != batch.crc
    assert [str(record) for record in read(plain)] == [str(record) for record in read(batch)]
    assert without_idempotence(plain) is plain


def test_transactions_keep_their_numbers() -> None:
    """A broker would refuse them otherwise."""
    batch = made([b"v"], producer=12, transactional=True)
    assert without_idempotence(batch) is batch


@pytest.mark.parametrize("compression", [0, 1])
def test_cut(compression: int) -> None:
    """Only what is below an offset; the batch ends there."""
    batch = made(VALUES, base=100, producer=4, compression=compression)
    assert cut(batch, 105) is batch
    assert cut(batch, 100) is None
    short = cut(batch, 103)
    assert short is not None
    assert (short.next_offset, short.count, short.producer_id, short.base_sequence) == (103, 3, 4, 17)
    assert [str(record) for record in read(short)] == [str(record) for record in read(batch)[:3]]


def test_torn_tails_are_cut_by_where_they_begin() -> None:
    """And what has no beginning goes."""
    torn = RecordBatch(made([b"t"], base=3).raw[:30])
    assert cut(torn, 4) is torn
    assert cut(torn, 3) is None
    assert cut(RecordBatch(b"\x00" * 5), 100) is None


@pytest.mark.parametrize("compression", [0, 1])
def test_records_are_left_out(compression: int) -> None:
    """As compaction does it."""
    batch = made(VALUES, base=100, compression=compression)
    rest = without(batch, {101, 104, 999})
    assert rest.next_offset == 105
    assert [record.offset for record in read(rest)] == [100, 102, 103]
    assert [record.timestamp for record in read(rest)] == [1_000, 1_002, 1_003]
    assert without(batch, {7}) is batch


@pytest.mark.parametrize("compression", [0, 1])
def test_values_are_changed(compression: int) -> None:
    """Keys, headers and timestamps stay."""
    batch = made(VALUES, base=100, compression=compression, producer=3, transactional=True)
    other = with_values(batch, {100: b"new", 102: b"was none", 103: None})
    assert [record.value for record in read(other)] == [b"new", b"", b"was none", None, b"e" * 200]
    assert [(r.offset, r.key, r.timestamp, r.headers) for r in read(other)] == [
        (r.offset, r.key, r.timestamp, r.headers) for r in read(batch)
    ]
    assert other.is_transactional
    assert (other.producer_id, other.fields.leader_epoch) == (3, 5)
    assert with_values(batch, {}) is batch


def test_blank_batches_take_their_offsets() -> None:
    """So that readers go on behind them."""
    batch = made(VALUES, base=100, producer=3)
    assert read(blank(batch)) == []
    assert (blank(batch).base_offset, blank(batch).next_offset, blank(batch).count) == (100, 105, 0)
    assert read(blank_from(7, 9)) == []
    assert (blank_from(7, 9).base_offset, blank_from(7, 9).next_offset) == (7, 9)


def test_codecs_that_are_not_installed() -> None:
    """The batch stays whole, or goes whole."""
    raw = bytearray(made(VALUES, base=100).raw)
    raw[22] |= 7  # a codec that nobody has
    (batch,) = split(bytes(raw))
    assert batch.compression == 7
    assert batch.records is None
    assert without(batch, {100}) is batch
    assert with_values(batch, {100: b"x"}) is batch
    assert cut(batch, 105) is batch
    assert cut(batch, 103) is None
    assert blank(batch).count == 0


def test_garbage_in_a_batch_is_no_records() -> None:
    """A body that lies about its lengths is left alone."""
    batch = made([b"abc"], base=0)
    for at in range(61, len(batch.raw)):
        broken = RecordBatch(batch.raw[:at] + b"\xff" + batch.raw[at + 1 :])
        assert broken.records is None or len(broken.records) == 1
