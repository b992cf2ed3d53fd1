"""Exchanges for tests of the tap, made of real bytes, and what a seer wrote of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from harness.foundation.protocol import Api
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, KINDS, TEXT, Kind, Type, row_type
from harness.history.segments import Segment
from harness.tap import codec
from harness.tap.codec import CODECS, TopicNames
from harness.tap.exchange import Exchange, TapContext
from harness.tap.exchange_recorder import ExchangeRecorder

ORDERS_ID = UUID(int=7)
PROCESS = 5
INVOKED, ENDED = 1000, 2000
BATCH = {"count": 3, "producer_id": 77, "producer_epoch": 2, "sequence": 10, "crc": 0xFFFF_0000 - 2**32}
PLACE = {"topic": 3, "partition": 1}


class Wire:
    """Makes exchanges of real bytes, and reads back what a seer wrote of them."""

    def __init__(self, directory: Path, **arguments: Any) -> None:
        self.path = directory / "0005.segment"
        self.recorder = Recorder(self.path, PROCESS)
        self.seer = ExchangeRecorder(self.recorder, {"orders": 3}, **arguments)
        names = TopicNames()
        names.learn(ORDERS_ID, "orders")
        self.world = TapContext(names, {1: ("one", 9092)})

    def exchange(self, api: int, version: int, request: bytes, response: bytes | None) -> Exchange:
        """Of bytes without headers."""
        known = codec.codec_of(api, version)
        tags = b"\x00" if known and known.request.flexible_version_q(version) else b""
        frame = struct.pack(">hhih", api, version, 42, 3) + b"app" + tags + request
        exchange = Exchange(self.world, 9, 1, codec.read_header(frame), frame, INVOKED)
        if response is not None:
            tagged = known and api != Api.API_VERSIONS and known.response.flexible_version_q(version)
            exchange.response_frame = struct.pack(">i", 42) + (b"\x00" if tagged else b"") + response
        exchange.number = self.seer.number()
        return exchange

    def of(self, api: int, version: int, request: Any, response: Any = None) -> Exchange:
        """Of fields, as nested dictionaries; those that the version does not have are left out."""
        messages = (made(CODECS[api].request, version, request), made(CODECS[api].response, version, response))
        encoded = [None if each is None else bytes(each.encode(version=version)) for each in messages]
        assert encoded[0] is not None
        return self.exchange(api, version, encoded[0], encoded[1])

    def rows(self, exchange: Exchange, type_: Type = Type.OK, detail: str = "") -> list[dict[str, Any]]:
        """What is written of one exchange: columns that are not null, without those that all rows have."""
        self.seer.saw(exchange, type_, ENDED, detail)
        self.seer.close()
        self.recorder.close()
        shared = ("event", "time", "process", "op", "invoked", "type", "connection", "client", "node", "api")
        return [
            {name: value for name, value in row.items() if name not in {*shared, "api_version"}}
            for row in self.everything()
        ]

    def everything(self) -> list[dict[str, Any]]:
        """All rows as they are on disk."""
        return rows_of(Segment(self.path))


def rows_of(segment: Segment) -> list[dict[str, Any]]:
    """The exchanges of a segment, without nulls."""
    found = []
    for block in segment.blocks(Kind.EXCHANGE, 1):
        for row in np.frombuffer(block, row_type(Kind.EXCHANGE)):
            values = {name: int(row[name]) for name in KINDS[Kind.EXCHANGE] if row[name] != COLUMNS[name].null}
            found.append(
                {name: segment.texts[v] if COLUMNS[name].type == TEXT else v for name, v in values.items()}
            )  # fmt: skip
    return found


def made(cls: Any, version: int, fields: Any) -> Any:
    """A message of this class in this version."""
    if fields is None:
        return None
    message = cls(version=version)
    for name, value in fields.items():
        field = cls._struct.fields[name]
        if field.for_version_q(version):
            inner = getattr(field, "data_class", None)
            if inner is not None and isinstance(value, list):
                setattr(message, name, [made(inner, version, each) for each in value])
            else:
                setattr(message, name, made(inner, version, value) if inner is not None else value)
    return message


def batch(base: int = 0, count: int = 3, producer: Sequence[int] = (77, 2, 10), crc: int = 0xFFFF_0000) -> bytes:
    """A record batch; what would be its records are no records, which nobody looks at."""
    rest = struct.pack(">ibIhiqqqhii", 4, 2, crc, 0, count - 1, 1, 2, *producer, count) + b"records" * count
    return struct.pack(">qi", base, len(rest)) + rest


def on_orders(topics: str, name: str, partitions: str, *parts: Any) -> dict[str, Any]:
    """The part of a message that is about one topic, by name and by id."""
    return {topics: [{name: "orders", "topic_id": ORDERS_ID, partitions: list(parts)}]}


def without_id(fields: dict[str, Any]) -> dict[str, Any]:
    """The same for a message that never has ids."""
    for topics in fields.values():
        for topic in topics:
            topic.pop("topic_id", None)
    return fields


def produce(*records: bytes, error: int = 0, offset: int = 40, acks: int = -1, **fields: Any) -> tuple[Any, Any]:
    """A send to partition 1, and its answer."""
    data = on_orders("topic_data", "name", "partition_data", {"index": 1, "records": b"".join(records)})
    part = {"index": 1, "error_code": error, "base_offset": offset, "log_start_offset": 2, **fields}
    return (
        {"transactional_id": "pay", "acks": acks, "timeout_ms": 1, **data},
        on_orders("responses", "name", "partition_responses", part),
    )


def fetch(records: bytes, *, isolation: int = 1, error: int = 0) -> tuple[Any, Any]:
    """A read of partition 1, and its answer."""
    part = {"partition": 1, "current_leader_epoch": 4, "fetch_offset": 30}
    answer = {"partition_index": 1, "error_code": error, "high_watermark": 50, "last_stable_offset": 45,
              "log_start_offset": 2, "records": records, "aborted_transactions": []}  # fmt: skip
    request = {"isolation_level": isolation, **on_orders("topics", "topic", "partitions", part)}
    return request, on_orders("responses", "topic", "partitions", answer)
