"""A broker with two leaders at once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from harness.foundation.protocol import EARLIEST, LATEST, Api, ErrorCode
from harness.tap.batches import RecordBatch, blank_from, split, with_base
from harness.tap.bounded_dict import BoundedDict
from harness.tap.broken.base import (
    Broken,
    Place,
    concerns,
    data_request_parts,
    data_response_parts,
    idle,
    latest_of,
    put_records,
    reads_watermarks_only,
    sent,
)
from harness.tap.broken.leadership import KnownLeaders, is_answered
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Effect, Effects
from harness.tap.exchange import Exchange
from harness.tap.fetch_sessions import sessionless

TORN_PARTITION = 0
BATCHES_AT_MOST = 10_000
BYTES_AT_MOST = 32 * 1024 * 1024  # of one partition
LOGS_AT_MOST = 20
CLIENTS_AT_MOST = 1_000


@dataclass
class _OtherLog:
    """What the other leader took, after the records that both have."""

    start: int
    epoch: int
    next_offset: int
    size: int = 0
    batches: deque[RecordBatch] = field(default_factory=deque)
    places: BoundedDict[int, int] = field(
        default_factory=lambda: BoundedDict(BATCHES_AT_MOST)
    )  # base offsets by checksum

    def append(self, batch: RecordBatch) -> int:
        """Where it is now; a resend is where it was."""
        if batch.crc not in self.places:
            self.places[batch.crc] = self.next_offset
            self.batches.append(with_base(batch, self.next_offset, self.epoch))
            self.next_offset += batch.span
            self.size += len(batch.raw)
            while len(self.batches) > BATCHES_AT_MOST or self.size > BYTES_AT_MOST:
                self.size -= len(self.batches.popleft().raw)
        return self.places[batch.crc]

    def read(self, offset: int, most_bytes: int) -> list[RecordBatch]:
        """Batches from an offset on, at least one when there is one."""
        found: list[RecordBatch] = []
        size = 0
        for batch in self.batches:
            if batch.next_offset <= offset:
                continue
            size += len(batch.raw)
            if found and size > most_bytes:
                break
            found.append(batch)
        if found and found[0].base_offset > offset:  # older ones are no longer remembered
            found.insert(0, blank_from(offset, found[0].base_offset))
        return found


class SplitsBrain(Broken):
    """Two nodes take appends for partition 0 in one epoch, and each serves its own.

    Clients are on the true side and on the other in turn, as they first produce or fetch. Those on the other side are
    told that the first node which does not lead is the leader. What that one takes begins at the end of the true log,
    is acknowledged, and lives in the tap's memory.
    """

    name = "splits-brain"
    apis = frozenset({Api.METADATA, Api.PRODUCE, Api.FETCH, Api.LIST_OFFSETS})

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._leaders = KnownLeaders()
        self._others: BoundedDict[Place, int] = BoundedDict()  # who plays the other leader
        self._epochs: BoundedDict[Place, int] = BoundedDict()
        self._ends: BoundedDict[Place, int] = BoundedDict()
        self._logs: BoundedDict[Place, _OtherLog] = BoundedDict(LOGS_AT_MOST)
        self._on_other_side: BoundedDict[str, bool] = BoundedDict(CLIENTS_AT_MOST)
        self._appeared = {Api.PRODUCE: 0, Api.FETCH: 0}

    def on_request(self, exchange: Exchange) -> Effects:
        """The other leader answers itself; the true one sends clients of the other side away."""
        if exchange.api == Api.METADATA:
            return NOTHING
        effects = sessionless(exchange)
        if is_answered(effects):
            return effects
        changed: list[Effect] = list(effects)
        batches = {place: batch for place, _, batch in sent(exchange)} if exchange.api == Api.PRODUCE else {}
        has_more = False
        for place, part in data_request_parts(exchange).items():
            if place[1] == TORN_PARTITION and self._answers(exchange, place, part, batches.get(place)):
                changed = [CHANGED]
                has_more |= self._has_more(exchange, place, part)
        if has_more:
            exchange.request.max_wait_ms = 0  # what is asked of the broker beside it must not hold it up
        elif exchange.api == Api.FETCH and exchange.nothing_left:
            changed.extend(idle(exchange))
        return changed

    def _answers(self, exchange: Exchange, place: Place, part: PartitionPart, batch: RecordBatch | None) -> bool:
        """Whether this partition was answered here."""
        other = self._other(place, exchange)
        if other is None:
            return False
        elsewhere = self._side(exchange, part)
        if exchange.node == other:
            return self._answers_as_other(exchange, place, part, batch, elsewhere=elsewhere)
        comes_wrong = exchange.api == Api.PRODUCE or (exchange.api == Api.FETCH and not reads_watermarks_only(part))
        if elsewhere and comes_wrong and exchange.node == self._leaders.of(place) and exchange.expects_response:
            exchange.answer_part(part, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        return False

    def _answers_as_other(
        self, exchange: Exchange, place: Place, part: PartitionPart, batch: RecordBatch | None, *, elsewhere: bool
    ) -> bool:
        log = self._logs.get(place)
        if exchange.api == Api.PRODUCE:
            if batch is None or batch.is_transactional:
                return False
            if log is None:
                end = self._ends.get(place, 0)
                log = self._logs[place] = _OtherLog(end, max(self._epochs.get(place, 0), 0), end)
            exchange.answer_part(part, base_offset=log.append(batch), log_start_offset=0)
            return True
        if log is None and not elsewhere:
            return False
        end = self._ends.get(place, 0) if log is None else log.next_offset
        if exchange.api == Api.LIST_OFFSETS:
            offset = {LATEST: end, EARLIEST: 0}.get(part.message.timestamp, -1)
            exchange.answer_part(
                part, offset=offset, old_style_offsets=[offset], leader_epoch=self._epochs.get(place, -1)
            )
            return True
        if part.message.fetch_offset < (end if log is None else log.start):
            return False  # what both have: the broker may know it
        found = [] if log is None else log.read(part.message.fetch_offset, part.message.partition_max_bytes)
        exchange.answer_part(
            part, high_watermark=end, last_stable_offset=end, log_start_offset=0, records=b"".join(b.raw for b in found)
        )
        return True

    def _has_more(self, exchange: Exchange, place: Place, part: PartitionPart) -> bool:
        """Whether a Fetch was given records of the other log."""
        if exchange.api != Api.FETCH or place not in self._logs or exchange.node != self._others[place]:
            return False
        return bool(part.message.fetch_offset < self._logs[place].next_offset)

    def on_response(self, exchange: Exchange) -> Effects:
        """Learn from the true side, and make Metadata and old records right for the other one."""
        if exchange.api == Api.METADATA:
            return self._told_metadata(exchange)
        if exchange.api == Api.FETCH and self._fetched_from_other(exchange):
            return (CHANGED,)
        self._learn(exchange)
        return NOTHING

    def _told_metadata(self, exchange: Exchange) -> Effects:
        self._leaders.learn(exchange)
        effects: Effects = NOTHING
        for part in exchange.response_parts():
            place = (part.topic, part.partition)
            if part.partition != TORN_PARTITION or not concerns(part.topic):
                continue
            self._epochs[place] = getattr(part.message, "leader_epoch", -1)
            other = self._other(place, exchange)
            if other is not None and self._on_other_side.get(exchange.client):
                part.message.leader_id = other
                effects = (CHANGED,)
        return effects

    def _fetched_from_other(self, exchange: Exchange) -> bool:
        """Fetches of what both have: a follower gives it to newer clients; where it does not, readers go past it."""
        changed = False
        questions = data_request_parts(exchange)
        for part in exchange.response_parts():
            place, answer = (part.topic, part.partition), part.message
            question, log = questions.get(place), self._logs.get(place)
            if question is None or exchange.node != self._other(place, exchange) or part.partition != TORN_PARTITION:
                continue
            if log is None and not self._on_other_side.get(exchange.client):
                continue
            start, end = (log.start, log.next_offset) if log else (self._ends.get(place, 0),) * 2
            self._continue(question, answer, start, end, log)
            changed = True
        return changed

    @staticmethod
    def _continue(question: PartitionPart, answer: Any, start: int, end: int, log: _OtherLog | None) -> None:
        offset = question.message.fetch_offset
        found = [batch for batch in split(answer.records) if batch.whole and batch.next_offset <= start]
        if answer.error_code or not found:
            found = [blank_from(offset, start)] if offset < start and log else []
        if found and found[-1].next_offset == start and log:
            found += log.read(start, question.message.partition_max_bytes)
        answer.error_code = 0
        answer.high_watermark = answer.last_stable_offset = end
        answer.log_start_offset = max(answer.log_start_offset, 0)
        put_records(answer, found)

    def _learn(self, exchange: Exchange) -> None:
        """Where the true log ends."""
        if not exchange.answered:
            return
        spans = {place: batch.span for place, _, batch in sent(exchange)} if exchange.api == Api.PRODUCE else {}
        questions = data_request_parts(exchange) if exchange.api == Api.LIST_OFFSETS else {}
        for place, answer in data_response_parts(exchange):
            if place[1] != TORN_PARTITION or exchange.node != self._leaders.of(place):
                continue
            end = -1
            if exchange.api == Api.PRODUCE:
                end = answer.base_offset + spans.get(place, 0)
            elif exchange.api == Api.FETCH:
                end = answer.high_watermark
            elif place in questions and questions[place].message.timestamp == LATEST:
                end = latest_of(exchange, answer)
            self._ends[place] = max(self._ends.get(place, 0), end)

    def _other(self, place: Place, exchange: Exchange) -> int | None:
        """Who plays the other leader; nobody while it is the true one."""
        if place not in self._others:
            other = self._leaders.other(place, exchange)
            if other is None:
                return None
            self._others[place] = other
        return None if self._others[place] == self._leaders.of(place) else self._others[place]

    def _side(self, exchange: Exchange, part: PartitionPart) -> bool:
        """Whether this client is on the other side; producers and readers are counted apart, probes not at all."""
        if exchange.client not in self._on_other_side:
            if exchange.api not in self._appeared or (exchange.api == Api.FETCH and reads_watermarks_only(part)):
                return False
            role = Api(exchange.api)
            self._appeared[role] += 1
            self._on_other_side[exchange.client] = self._appeared[role] % 2 == 0
        return self._on_other_side[exchange.client]
