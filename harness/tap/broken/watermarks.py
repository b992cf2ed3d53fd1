"""Brokers whose watermarks and end offsets are wrong."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from harness.foundation.protocol import EARLIEST, Api, ErrorCode
from harness.tap.batches import RecordBatch, split, with_base, without_idempotence
from harness.tap.bounded_dict import BoundedDict
from harness.tap.broken.base import (
    Counters,
    EndBend,
    FetchBend,
    Place,
    data_request_parts,
    data_response_parts,
    idle,
    latest_of,
    put_records,
    reads_watermarks_only,
    sent,
    set_latest,
)
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Answer, Drop, Effect, Effects, Hold
from harness.tap.exchange import Exchange

NAMES_ITSELF_SINCE = 3  # version of ApiVersions
GIVES_UP = frozenset({"kafka-python"})  # clients, by what they call themselves, that stop at most errors if idempotent


@dataclass
class _Withheld:
    """A batch that readers see and the broker does not."""

    batch: RecordBatch
    gate: asyncio.Event  # opens when it was shown
    until: float


class WatermarkIsNextOffset(FetchBend):
    """The next offset is taken for the high watermark: records are shown before they are replicated, then lost.

    Every 5th batch of a partition never reaches the broker. Readers see it at the end of the log, with watermarks past
    it; then its producer gets an error, and other records take its offsets.
    """

    name = "watermark-is-next-offset"
    apis = FetchBend.apis | {Api.PRODUCE, Api.API_VERSIONS}
    every = 5
    shown_for_s = 0.5
    wait_ms = 100  # a Fetch that waits at the broker sees nothing

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._withheld: BoundedDict[Place, _Withheld] = BoundedDict()
        self._ends: BoundedDict[Place, int] = BoundedDict()
        self._shown: BoundedDict[Place, int] = BoundedDict()  # the highest end that anybody read up to
        self._software: BoundedDict[int, str] = BoundedDict()  # by connection

    def on_request(self, exchange: Exchange) -> Effects:
        """Withhold batches; let fetches come back soon."""
        if exchange.api == Api.PRODUCE:
            return self._produced(exchange) if exchange.expects_response else NOTHING
        if exchange.api == Api.API_VERSIONS:
            if exchange.version >= NAMES_ITSELF_SINCE:
                self._software[exchange.connection] = exchange.request.client_software_name
            return NOTHING
        effects = super().on_request(exchange)
        if exchange.api == Api.FETCH and exchange.request.max_wait_ms > self.wait_ms:
            exchange.request.max_wait_ms = self.wait_ms
            return effects if any(isinstance(effect, Answer) for effect in effects) else (CHANGED,)
        return effects

    def _produced(self, exchange: Exchange) -> Effects:
        effects: list[Effect] = []
        for place, part, batch in list(sent(exchange)):
            if batch.is_transactional:
                continue
            before = self._now_withheld(place)
            if before is not None:
                effects.append(Hold(before.gate, self.shown_for_s))
            elif self._counters.is_nth(place, self.every):
                gate = asyncio.Event()
                self._withheld[place] = _Withheld(batch, gate, self.clock() + self.shown_for_s)
                error = self._error(exchange, batch)
                exchange.answer_part(part, error_code=error, error_message="lost before it was replicated")
                effects += [CHANGED, Hold(gate, self.shown_for_s)]
                continue
            if batch.producer_id >= 0:  # the broker would miss the numbers of what was withheld
                part.message.records = without_idempotence(batch).raw
                effects.append(CHANGED)
        return effects

    def _error(self, exchange: Exchange, batch: RecordBatch) -> int:
        """One that costs a producer this batch, and only this one."""
        gives_up = batch.producer_id >= 0 and self._software.get(exchange.connection) in GIVES_UP
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if gives_up else ErrorCode.INVALID_RECORD

    def on_response(self, exchange: Exchange) -> Effects:
        """Readers that went past the end with us are not told so."""
        forgiven = False
        questions = data_request_parts(exchange) if exchange.api == Api.FETCH else {}
        for place, answer in list(data_response_parts(exchange, ErrorCode.OFFSET_OUT_OF_RANGE)) if questions else ():
            if place in questions and questions[place].message.fetch_offset <= self._shown.get(place, -1):
                forgiven = True
                answer.error_code = answer.log_start_offset = 0
                answer.high_watermark = answer.last_stable_offset = self._ends.get(place, 0)
                answer.records = b""
        return super().on_response(exchange) or ((CHANGED, *idle(exchange)) if forgiven else NOTHING)

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:  # noqa: ARG002
        """Show what is withheld at the end."""
        end = self._ends[place] = answer.high_watermark
        withheld = self._now_withheld(place)
        if withheld is None:
            return False
        shown_end = end + withheld.batch.span
        answer.high_watermark = shown_end
        if answer.last_stable_offset == end:
            answer.last_stable_offset = shown_end
        batches = split(answer.records)
        if (batches[-1].next_offset if batches else question.message.fetch_offset) == end:
            epoch = max(getattr(question.message, "current_leader_epoch", 0), 0)
            put_records(answer, [*batches, with_base(withheld.batch, end, epoch)])
            if not reads_watermarks_only(question):
                self._shown[place] = shown_end
                self._release(place)
        return True

    def listed(self, exchange: Exchange, place: Place, answer: Any) -> bool:
        """The end is past what is withheld."""
        end = self._ends[place] = latest_of(exchange, answer)
        withheld = self._now_withheld(place)
        if withheld is None:
            return False
        set_latest(exchange, answer, end + withheld.batch.span)
        return True

    def _now_withheld(self, place: Place) -> _Withheld | None:
        withheld = self._withheld.get(place)
        if withheld is not None and self.clock() >= withheld.until:
            self._release(place)
            return None
        return withheld

    def _release(self, place: Place) -> None:
        self._withheld.pop(place).gate.set()


@dataclass(frozen=True)
class _Lost:
    """An answer that its client never got."""

    client: str
    connection: int
    end_before: int
    until: float  # a client that has not sent it again by then never will


@dataclass
class _Fallen:
    """A watermark that fell."""

    end: int
    until: float
    answers_left: int


class WatermarkOverwrittenByRetry(EndBend):
    """A retried produce stores an older watermark over a newer one, and records disappear for a while.

    The answer to every 5th batch of a partition is lost with its connection, so that the client sends it again. When
    that was answered, the watermark is what it was before the first attempt, for a second or 20 answers.
    """

    name = "watermark-overwritten-by-retry"
    apis = EndBend.apis | {Api.PRODUCE}
    every = 5
    falls_for_s = 1.0
    falls_for_answers = 20
    resent_within_s = 30.0

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._lost: BoundedDict[Place, _Lost] = BoundedDict()
        self._fallen: BoundedDict[Place, _Fallen] = BoundedDict()

    def on_response(self, exchange: Exchange) -> Effects:
        """Lose acknowledgements, and let watermarks fall after the resend."""
        if exchange.api != Api.PRODUCE:
            return super().on_response(exchange)
        effects: Effects = NOTHING
        places = {place for place, _, _ in sent(exchange)}
        for place, answer in data_response_parts(exchange):
            lost = self._lost.get(place)
            if lost is not None and lost.client == exchange.client and lost.connection != exchange.connection:
                del self._lost[place]
                self._fallen[place] = _Fallen(lost.end_before, self.clock() + self.falls_for_s, self.falls_for_answers)
                continue
            can_be_lost = place in places and self._now_fallen(place) is None
            if lost is not None and self.clock() < lost.until:
                can_be_lost = False  # its resend comes first
            if can_be_lost and self._counters.is_nth(place, self.every):
                until = self.clock() + self.resent_within_s
                self._lost[place] = _Lost(exchange.client, exchange.connection, answer.base_offset, until)
                effects = (Drop("close"),)
        return effects

    def end(self, exchange: Exchange, place: Place, end: int) -> int:  # noqa: ARG002 - the same for all
        """Where it was before, for a while."""
        fallen = self._now_fallen(place)
        if fallen is None:
            return end
        fallen.answers_left -= 1
        return min(end, fallen.end)

    def _now_fallen(self, place: Place) -> _Fallen | None:
        fallen = self._fallen.get(place)
        if fallen is not None and (fallen.answers_left <= 0 or self.clock() >= fallen.until):
            del self._fallen[place]
            return None
        return fallen


class WatermarkFrozen(EndBend):
    """The high watermark of each partition stops at an offset, while acknowledgements go on."""

    name = "watermark-frozen"
    argument = "offset"
    default = 1_700

    def end(self, exchange: Exchange, place: Place, end: int) -> int:  # noqa: ARG002 - the same for all
        """Never beyond the offset."""
        return min(end, self.number)


class ServesStaleReads(EndBend):
    """Every 4th answer of Fetch or ListOffsets about a partition shows how it was a second ago or more."""

    name = "serves-stale-reads"
    every = 4
    old_s = 1.0
    step_s = 0.05
    steps = 200

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._seen: BoundedDict[Place, deque[tuple[float, int]]] = BoundedDict()

    def end(self, exchange: Exchange, place: Place, end: int) -> int:  # noqa: ARG002 - the same for all
        """Now and then an old one."""
        seen = self._seen.setdefault(place, deque(maxlen=self.steps))
        now = self.clock()
        if not seen or now - seen[-1][0] >= self.step_s:
            seen.append((now, end))
        old = next((then for time, then in reversed(seen) if now - time >= self.old_s), None)
        if not self._counters.is_nth(place, self.every) or old is None:
            return end
        return min(end, old)


class EndOffsetGoesBack(FetchBend):
    """Every 4th answer of ListOffsets for the end of a partition is 10 lower than the truth."""

    name = "end-offset-goes-back"
    apis = frozenset({Api.LIST_OFFSETS})
    every = 4
    back = 10

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._starts: BoundedDict[Place, int] = BoundedDict()

    def on_response(self, exchange: Exchange) -> Effects:
        """Remember where logs start."""
        questions = data_request_parts(exchange)
        for place, answer in data_response_parts(exchange):
            if place in questions and questions[place].message.timestamp == EARLIEST:
                self._starts[place] = latest_of(exchange, answer)
        return super().on_response(exchange)

    def listed(self, exchange: Exchange, place: Place, answer: Any) -> bool:
        """Now and then too low, but not before the start."""
        end = latest_of(exchange, answer)
        lower = max(end - self.back, self._starts.get(place, 0), 0)
        if not self._counters.is_nth(place, self.every) or lower >= end:
            return False
        set_latest(exchange, answer, lower)
        return True
