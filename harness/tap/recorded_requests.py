"""What an exchange says, as rows of the history: a function for each request that the tap understands.

A message is read as it is; numbers below zero that mean "not known" become null. Without an answer the rows are those
of the request, and their error is null. Groups and transactions are in `seen_groups`; `other` is for all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import EARLIEST, LATEST, READ_COMMITTED, Api
from harness.history.schema import COLUMNS, OffsetView
from harness.tap.batch_headers import BatchHeader, batch_positions, header_at, headers_at, is_old_format
from harness.tap.codec import request_parts, response_parts
from harness.tap.exchange import Exchange

NULL_64, NULL_32, NULL_16, NULL_8 = (COLUMNS[name].null for name in ("offset", "topic", "error", "view"))
FEW_BATCHES = 16  # more of them are read at once
SMALL_ANSWER = 4096  # others are not worth decoding for an error code
COORDINATORS = {0: "group", 1: "transaction", 2: "share"}


class ExchangeRow(NamedTuple):
    """The columns of an exchange that differ from row to row, in the order of the schema; texts by their numbers."""

    topic: int = NULL_32
    partition: int = NULL_32
    offset: int = NULL_64
    asked: int = NULL_64
    view: int = NULL_8
    count: int = NULL_32  # type: ignore[assignment] # a tuple has a method of that name, which nobody wants here
    error: int = NULL_16
    high_watermark: int = NULL_64
    last_stable_offset: int = NULL_64
    log_start: int = NULL_64
    leader: int = NULL_32
    leader_epoch: int = NULL_32
    acks: int = NULL_16
    producer_id: int = NULL_64
    producer_epoch: int = NULL_16
    sequence: int = NULL_64
    crc: int = NULL_32
    generation: int = NULL_32
    brokers: int = NULL_32
    isr: int = NULL_32
    detail: int = NULL_32


class BatchRows(NamedTuple):
    """A row for each batch of many, alike but for what their headers say."""

    row: ExchangeRow
    headers: npt.NDArray[Any]


class Numbering(Protocol):
    """Who numbers topics and texts."""

    def topic(self, name: str) -> int:
        """The number of a topic."""

    def text(self, text: str) -> int:
        """The number of a text."""


class RecordedExchange(NamedTuple):
    """An exchange, with its request as the client sent it and its answer, if there is one."""

    exchange: Exchange
    request: Any
    response: Any
    book: Numbering
    remark: str = ""

    def detail(self, text: str | None) -> int:
        """The number of a detail, with the remark behind it."""
        if not text:
            return NULL_32
        return self.book.text(f"{text} ({self.remark})" if self.remark else text)

    @property
    def request_parts(self) -> dict[tuple[str, int], Any]:
        """What the request says of each partition."""
        parts = request_parts(self.exchange.api, self.request, self.exchange.world.names)
        return {(topic, partition): message for topic, partition, message in parts}

    @property
    def response_parts(self) -> dict[tuple[str, int], Any]:
        """What the answer says of each partition."""
        if self.response is None:
            return {}
        parts = response_parts(self.exchange.api, self.response, self.exchange.world.names)
        return {(topic, partition): message for topic, partition, message in parts}

    @property
    def error(self) -> int:
        """The error of the answer as a whole; 0 in an answer that has none, null without one."""
        return NULL_16 if self.response is None else getattr(self.response, "error_code", None) or 0


Rows = Iterator[ExchangeRow | BatchRows]


def error_of(answer: Any) -> int:
    """The error of a part of an answer; null where nothing was answered."""
    return NULL_16 if answer is None else int(answer.error_code)


def known_64(value: int | None) -> int:
    """A number that is not negative, or null."""
    return NULL_64 if value is None or value < 0 else value


def known_32(value: int | None) -> int:
    """The same for a smaller column."""
    return NULL_32 if value is None or value < 0 else value


def known_16(value: int | None) -> int:
    """The same for one that is smaller still."""
    return NULL_16 if value is None or value < 0 else value


def _of_batch(row: ExchangeRow, header: BatchHeader, offset: int) -> ExchangeRow:
    return row._replace(
        offset=offset,
        count=header.count,
        producer_id=known_64(header.producer_id),
        producer_epoch=known_16(header.producer_epoch),
        sequence=known_64(header.base_sequence),
        crc=header.crc - ((header.crc & 0x80000000) << 1),  # as a signed number
    )


def produce(seen: RecordedExchange) -> Rows:
    """A row per partition, or per batch where a partition has several."""
    asked, told = seen.request_parts, seen.response_parts
    detail = seen.detail(seen.request.transactional_id)
    for key in asked | told:
        topic, partition = key
        answer = told.get(key)
        leader = getattr(answer, "current_leader", None)
        row = ExchangeRow(
            topic=seen.book.topic(topic),
            partition=partition,
            offset=NULL_64 if answer is None or answer.error_code else answer.base_offset,
            error=error_of(answer),
            log_start=NULL_64 if answer is None else known_64(answer.log_start_offset),
            leader=NULL_32 if leader is None else known_32(leader.leader_id),
            leader_epoch=NULL_32 if leader is None else known_32(leader.leader_epoch),
            acks=seen.request.acks,
            detail=detail,
        )
        records = asked[key].records if key in asked else b""
        positions = batch_positions(records)
        if not positions:
            yield row
        for number, position in enumerate(positions):
            yield _of_batch(row, header_at(records, position), NULL_64 if number else row.offset)


def fetch(seen: RecordedExchange) -> Rows:
    """A row per batch, and one for a partition that has none."""
    view = OffsetView.LATEST_COMMITTED if seen.request.isolation_level == READ_COMMITTED else OffsetView.LATEST
    asked = seen.request_parts
    parts = asked if seen.response is None else seen.response_parts
    if not parts:
        yield ExchangeRow(error=seen.error, view=view)
    for key, answer in parts.items():
        wanted = asked.get(key)
        row = ExchangeRow(
            topic=seen.book.topic(key[0]),
            partition=key[1],
            asked=NULL_64 if wanted is None else wanted.fetch_offset,
            view=view,
            leader_epoch=NULL_32 if wanted is None else known_32(wanted.current_leader_epoch),
        )
        if seen.response is None:
            yield row
        else:
            yield from _fetched(row, answer)


def _fetched(row: ExchangeRow, answer: Any) -> Rows:
    records = answer.records
    row = row._replace(
        count=NULL_32 if is_old_format(records) else 0,
        error=answer.error_code,
        high_watermark=known_64(answer.high_watermark),
        last_stable_offset=known_64(answer.last_stable_offset),
        log_start=known_64(answer.log_start_offset),
    )
    positions = batch_positions(records)
    if not positions:
        yield row
    elif len(positions) > FEW_BATCHES:
        yield BatchRows(row, headers_at(records, positions))
    else:
        for position in positions:
            header = header_at(records, position)
            yield _of_batch(row, header, header.base_offset)


def list_offsets(seen: RecordedExchange) -> Rows:
    """A row per partition."""
    asked, told = seen.request_parts, seen.response_parts
    latest = OffsetView.LATEST_COMMITTED if seen.request.isolation_level == READ_COMMITTED else OffsetView.LATEST
    views = {EARLIEST: OffsetView.EARLIEST, LATEST: latest}
    for key in asked | told:
        wanted, answer = asked.get(key), told.get(key)
        timestamp = NULL_64 if wanted is None else wanted.timestamp
        offset = None
        if answer is not None:
            offset = answer.offset if seen.exchange.version else next(iter(answer.old_style_offsets or ()), None)
        yield ExchangeRow(
            topic=seen.book.topic(key[0]),
            partition=key[1],
            offset=known_64(offset),
            asked=timestamp,
            view=views.get(timestamp, NULL_8),
            error=error_of(answer),
            leader_epoch=NULL_32 if answer is None else known_32(answer.leader_epoch),
        )
    if not asked and not told:
        yield ExchangeRow(error=seen.error)


def metadata(seen: RecordedExchange) -> Rows:
    """A row per partition, one for a topic that has none, and one if there is no topic."""
    response, names = seen.response, seen.exchange.world.names
    if response is None:
        topics = [seen.book.topic(topic) for topic, _ in seen.request_parts]
        yield from (ExchangeRow(topic=topic) for topic in topics or [NULL_32])
        return
    brokers = _ids(seen.book, [broker.node_id for broker in response.brokers])
    everywhere = ExchangeRow(count=len(response.brokers), brokers=brokers)
    if not response.topics:
        yield everywhere._replace(error=seen.error)
    for topic in response.topics or ():
        row = everywhere._replace(topic=seen.book.topic(names.of(topic, "name")), error=topic.error_code)
        if not topic.partitions:
            yield row
        for at in topic.partitions or ():
            yield row._replace(
                partition=at.partition_index,
                error=at.error_code,
                leader=at.leader_id,
                leader_epoch=known_32(at.leader_epoch),
                isr=_ids(seen.book, at.isr_nodes or ()),
            )


def _ids(book: Numbering, nodes: Any) -> int:
    return book.text(",".join(map(str, sorted(nodes))))


def find_coordinator(seen: RecordedExchange) -> Rows:
    """A row per coordinator."""
    request, response = seen.request, seen.response
    what = COORDINATORS.get(request.key_type, f"type {request.key_type}")
    if response is None:
        for key in request.coordinator_keys or [request.key]:
            yield ExchangeRow(detail=seen.detail(f"{what} {key}"))
        return
    listed = seen.exchange.version >= 4  # keys in a list since then
    for answer in response.coordinators or () if listed else (response,):
        key = answer.key if listed else request.key
        detail = seen.detail(f"{what} {key} at {answer.host}:{answer.port}")
        yield ExchangeRow(error=answer.error_code, leader=answer.node_id, detail=detail)
    if listed and not response.coordinators:
        yield ExchangeRow(error=0)


def other(exchange: Exchange) -> ExchangeRow:
    """One row, with the error of an answer that is small enough to look for it."""
    frame = exchange.response_frame
    if not exchange.answered or (frame is not None and len(frame) > SMALL_ANSWER):
        return ExchangeRow()
    try:
        error = getattr(exchange.response, "error_code", None)
    except Garbled:
        error = None
    return ExchangeRow(error=NULL_16 if error is None else error)


OF_LOGS: dict[int, Callable[[RecordedExchange], Rows]] = {
    Api.PRODUCE: produce,
    Api.FETCH: fetch,
    Api.LIST_OFFSETS: list_offsets,
    Api.METADATA: metadata,
    Api.FIND_COORDINATOR: find_coordinator,
}
