"""Record batches: what their headers say, and batches made anew.

Works on the bytes of a `records` field as on the wire. Only batches of version 2 are understood; what is older,
and the torn batch that a Fetch may end with, stays as it is: one `RecordBatch` at the end that is not `whole`.

Batches are cut and changed record by record, without touching what is not meant: offsets, timestamps, keys, headers and
the producer's numbers stay. The result is not compressed. A batch whose codec is not installed here stays whole.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kafka import codec as compressions
from kafka.record.util import calc_crc32c, decode_varint, encode_varint

from harness.foundation.protocol import MAGIC
from harness.tap.batch_checksum import crc_of_changes

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PLACE = struct.Struct(">qi")  # base offset and length: what every batch begins with
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_CRC_AT = 17
_COVERED_AT = 21  # the checksum is over all that follows it
_COMPRESSION, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_NOBODY = -1
_DECODERS = {
    1: (compressions.has_gzip, compressions.gzip_decode),
    2: (compressions.has_snappy, compressions.snappy_decode),
    3: (compressions.has_lz4, compressions.lz4_decode),
    4: (compressions.has_zstd, compressions.zstd_decode),
}


class Fields(NamedTuple):
    """The header of a batch, in its order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


_NO_FIELDS = Fields(-1, 0, -1, -1, 0, 0, 0, -1, -1, -1, -1, -1, 0)


@dataclass(frozen=True)
class Record:
    """One record of a batch: where it is, and its bytes around its value."""

    offset: int
    value: bytes | None
    before: bytes  # attributes, timestamp, offset and key
    after: bytes  # headers

    def encoded(self) -> bytes:
        """As a batch holds it."""
        body = bytearray(self.before)
        encode_varint(-1 if self.value is None else len(self.value), body.append)
        body += (self.value or b"") + self.after
        record = bytearray()
        encode_varint(len(body), record.append)
        return bytes(record + body)


@dataclass(frozen=True)
class RecordBatch:
    """The bytes of one batch, and what its header says."""

    raw: bytes

    @cached_property
    def fields(self) -> Fields:
        """The header; nothing is known of what is not whole, except where a torn batch begins."""
        if len(self.raw) >= _HEADER.size:
            fields = Fields(*_HEADER.unpack_from(self.raw))
            if fields.magic == MAGIC and fields.length + _PLACE.size == len(self.raw):
                return fields
        if len(self.raw) >= _PLACE.size:
            return _NO_FIELDS._replace(base_offset=_PLACE.unpack_from(self.raw)[0])
        return _NO_FIELDS

    @property
    def whole(self) -> bool:
        """Whether it is one whole batch of version 2."""
        return self.fields.magic == MAGIC

    @property
    def base_offset(self) -> int:
        """The offset that its first record was given."""
        return self.fields.base_offset

    @property
    def last_offset(self) -> int:
        """The offset that its last record was given, whether that record is still there or not."""
        return self.fields.base_offset + self.fields.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the log goes on."""
        return self.last_offset + 1

    @property
    def span(self) -> int:
        """How many offsets it takes."""
        return self.fields.last_offset_delta + 1

    @property
    def count(self) -> int:
        """How many records it holds."""
        return self.fields.records

    @property
    def crc(self) -> int:
        """Its checksum; brokers leave it as the producer made it, so it tells batches apart."""
        return self.fields.crc

    @property
    def producer_id(self) -> int:
        """Of an idempotent producer, else -1."""
        return self.fields.producer_id

    @property
    def producer_epoch(self) -> int:
        """Of an idempotent producer, else -1."""
        return self.fields.producer_epoch

    @property
    def base_sequence(self) -> int:
        """Its producer's number for the first record, else -1."""
        return self.fields.base_sequence

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.fields.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's marker, not data."""
        return bool(self.fields.attributes & _CONTROL)

    @property
    def compression(self) -> int:
        """Kafka's number of its codec; 0 is none."""
        return self.fields.attributes & _COMPRESSION

    @cached_property
    def records(self) -> list[Record] | None:
        """Its records; None when nobody here can read them."""
        body = self._body() if self.whole else None
        if body is None:
            return None
        try:
            return _records(body, self.fields)
        except (IndexError, ValueError):
            return None

    def _body(self) -> bytes | None:
        body = self.raw[_HEADER.size :]
        if not self.compression:
            return body
        installed, decode = _DECODERS.get(self.compression, (lambda: False, None))
        if decode is None or not installed():
            return None
        try:
            return bytes(decode(body))
        except Exception:  # noqa: BLE001 - each codec fails in its own way
            return None


def _records(body: bytes, fields: Fields) -> list[Record]:
    records = []
    at = 0
    for _ in range(fields.records):
        size, start = decode_varint(body, at)
        at = start + size
        if not start < at <= len(body):
            raise ValueError("a record that is longer than its batch")
        _, here = decode_varint(body, start + 1)  # after the attributes: its timestamp
        delta, here = decode_varint(body, here)
        key, here = decode_varint(body, here)
        before = here + max(key, 0)
        length, here = decode_varint(body, before)
        end = here + max(length, 0)
        if end > at:
            raise ValueError("a value that is longer than its record")
        value = None if length < 0 else body[here:end]
        records.append(Record(fields.base_offset + delta, value, body[start:before], body[end:at]))
    return records


def split(records: bytes | None) -> list[RecordBatch]:
    """The batches of a records field."""
    data = bytes(records or b"")
    batches = []
    at = 0
    while at < len(data):
        size = _PLACE.unpack_from(data, at)[1] + _PLACE.size if len(data) - at >= _HEADER.size else 0
        batch = RecordBatch(data[at : at + size])
        if not batch.whole:
            batches.append(RecordBatch(data[at:]))
            break
        batches.append(batch)
        at += size
    return batches


def join(batches: Iterable[RecordBatch]) -> bytes:
    """A records field again."""
    return b"".join(batch.raw for batch in batches)


def with_base(batch: RecordBatch, base_offset: int, leader_epoch: int | None = None) -> RecordBatch:
    """The batch at another place of the log, as a broker puts it there; its checksum does not cover that."""
    if not batch.whole:
        return batch
    raw = bytearray(batch.raw)
    _PLACE.pack_into(raw, 0, base_offset, batch.fields.length)
    if leader_epoch is not None:
        _EPOCH.pack_into(raw, _EPOCH_AT, leader_epoch)
    return RecordBatch(bytes(raw))


def without_idempotence(batch: RecordBatch) -> RecordBatch:
    """The batch as a producer without idempotence would have sent it; transactional ones stay as they are."""
    if not batch.whole or batch.is_transactional or batch.producer_id == _NOBODY:
        return batch
    fields = batch.fields._replace(producer_id=_NOBODY, producer_epoch=_NOBODY, base_sequence=_NOBODY)
    raw = _HEADER.pack(*fields) + batch.raw[_HEADER.size :]
    changes = bytes(a ^ b for a, b in zip(batch.raw[_COVERED_AT : _HEADER.size], raw[_COVERED_AT:], strict=False))
    return _with_crc(raw, batch.crc ^ crc_of_changes(changes, len(raw) - _HEADER.size))


def cut(batch: RecordBatch, end_offset: int) -> RecordBatch | None:
    """What is below this offset; None when that is nothing, or when nobody here can take it apart."""
    if not batch.whole:
        return batch if 0 <= batch.base_offset < end_offset else None
    if batch.next_offset <= end_offset:
        return batch
    if batch.base_offset >= end_offset or batch.records is None:
        return None
    kept = [record for record in batch.records if record.offset < end_offset]
    return _rebuilt(batch, kept, end_offset - 1 - batch.base_offset)


def without(batch: RecordBatch, offsets: Collection[int]) -> RecordBatch:
    """Some records left out as compaction does it: the batch still takes the same offsets."""
    if batch.records is None or not any(record.offset in offsets for record in batch.records):
        return batch
    kept = [record for record in batch.records if record.offset not in offsets]
    return _rebuilt(batch, kept, batch.fields.last_offset_delta)


def blank(batch: RecordBatch) -> RecordBatch:
    """The batch without any record, as compaction leaves it, so that readers find the way past it."""
    return _rebuilt(batch, [], batch.fields.last_offset_delta) if batch.whole else batch


def blank_from(base_offset: int, next_offset: int) -> RecordBatch:
    """A batch without records that takes these offsets."""
    fields = Fields(base_offset, 0, 0, MAGIC, 0, 0, next_offset - base_offset - 1, -1, -1, -1, -1, -1, 0)
    return _made(fields, b"")


def with_values(batch: RecordBatch, values: Mapping[int, bytes | None]) -> RecordBatch:
    """Other values at some offsets."""
    if batch.records is None or not any(record.offset in values for record in batch.records):
        return batch
    changed = [
        Record(record.offset, values.get(record.offset, record.value), record.before, record.after)
        for record in batch.records
    ]
    return _rebuilt(batch, changed, batch.fields.last_offset_delta)


def _rebuilt(batch: RecordBatch, records: list[Record], last_offset_delta: int) -> RecordBatch:
    fields = batch.fields._replace(
        attributes=batch.fields.attributes & ~_COMPRESSION, last_offset_delta=last_offset_delta, records=len(records)
    )
    return _made(fields, b"".join(record.encoded() for record in records))


def _made(fields: Fields, body: bytes) -> RecordBatch:
    raw = _HEADER.pack(*fields._replace(length=_HEADER.size - _PLACE.size + len(body))) + body
    return _with_crc(raw, calc_crc32c(memoryview(raw)[_COVERED_AT:]))


def _with_crc(raw: bytes, crc: int) -> RecordBatch:
    return RecordBatch(raw[:_CRC_AT] + struct.pack(">I", crc) + raw[_COVERED_AT:])
