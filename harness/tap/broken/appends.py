"""Brokers that append, acknowledge or keep records wrongly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.foundation.protocol import Api
from harness.tap.batches import blank, split, without_idempotence
from harness.tap.bounded_dict import BoundedDict
from harness.tap.broken.base import (
    Broken,
    Counters,
    EndBend,
    Place,
    data_response_parts,
    put_records,
    sent,
)
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Drop, Effect, Effects, Swap
from harness.tap.exchange import Exchange

HIDDEN_AT_MOST = 10_000  # of one partition


@dataclass
class _Forgotten:
    """What is known of a partition that loses batches."""

    crcs: BoundedDict[int, bool] = field(default_factory=lambda: BoundedDict(HIDDEN_AT_MOST))
    starts: BoundedDict[int, int] = field(
        default_factory=lambda: BoundedDict(HIDDEN_AT_MOST)
    )  # of lost batches, by their ends
    on_their_way: BoundedDict[int, float] = field(default_factory=lambda: BoundedDict(HIDDEN_AT_MOST))
    known_end: int = 0

    def trimmed(self, end: int) -> int:
        """The end without the lost batches before it."""
        while end in self.starts:
            end = self.starts[end]
        return end


class AcksThenForgets(EndBend):
    """Every 5th batch of a partition is acknowledged and then gone."""

    name = "acks-then-forgets"
    apis = EndBend.apis | {Api.PRODUCE}
    every = 5
    on_its_way_s = 2.0  # an append takes no longer, or has failed

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._sent: BoundedDict[tuple[Place, int], bool] = BoundedDict()
        self._forgotten: BoundedDict[Place, _Forgotten] = BoundedDict()

    def _at(self, place: Place) -> _Forgotten:
        if place not in self._forgotten:
            self._forgotten[place] = _Forgotten()
        return self._forgotten[place]

    def on_request(self, exchange: Exchange) -> Effects:
        """Choose what will be forgotten before the broker has it, so that nobody ever sees it."""
        if exchange.api != Api.PRODUCE:
            return super().on_request(exchange)
        if not exchange.expects_response:
            return NOTHING
        for place, _, batch in sent(exchange):
            if (place, batch.crc) not in self._sent:  # else it is a resend
                self._sent[place, batch.crc] = True
                if self._counters.is_nth(place, self.every):
                    self._at(place).crcs[batch.crc] = True
                    self._at(place).on_their_way[batch.crc] = self.clock() + self.on_its_way_s
        return NOTHING

    def on_response(self, exchange: Exchange) -> Effects:
        """Learn from acknowledgements where the lost ones would be."""
        if exchange.api != Api.PRODUCE:
            return super().on_response(exchange)
        if not exchange.answered:
            return NOTHING
        batches = {place: batch for place, _, batch in sent(exchange)}
        for place, batch in batches.items():
            self._at(place).on_their_way.pop(batch.crc, None)
        for place, answer in data_response_parts(exchange):
            if place in batches and answer.base_offset >= 0:
                self._learn(place, batches[place].crc, answer.base_offset, answer.base_offset + batches[place].span)
        return NOTHING

    def _learn(self, place: Place, crc: int, start: int, end: int) -> None:
        forgotten = self._at(place)
        forgotten.known_end = max(forgotten.known_end, end)
        if crc in forgotten.crcs:
            forgotten.starts[end] = start

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:
        """Without the lost batches; readers find blank ones in their place."""
        forgotten = self._at(place)
        batches = split(answer.records)
        kept = [blank(batch) if batch.whole and batch.crc in forgotten.crcs else batch for batch in batches]
        for batch, now in zip(batches, kept, strict=True):
            if now is not batch:
                self._learn(place, batch.crc, batch.base_offset, batch.next_offset)
        if kept != batches:
            put_records(answer, kept)
        return super().fetched(exchange, place, question, answer) or kept != batches

    def end(self, exchange: Exchange, place: Place, end: int) -> int:  # noqa: ARG002 - the same for all
        """Before the lost batches that are last; while one is on its way, where acknowledgements end."""
        forgotten = self._at(place)
        now = self.clock()
        if any(until > now for until in forgotten.on_their_way.values()):
            end = min(end, forgotten.known_end)
        else:
            forgotten.on_their_way.clear()
            forgotten.known_end = max(forgotten.known_end, end)
        return forgotten.trimmed(end)


class AppendsRetriesTwice(Broken):
    """A batch that is sent again is appended again, whatever the producer's numbers say.

    The acknowledgement of every 5th batch of a partition is lost with its connection, so that the client resends it.
    """

    name = "appends-retries-twice"
    apis = frozenset({Api.PRODUCE})
    every = 5

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._lost: BoundedDict[tuple[Place, int], bool] = BoundedDict()

    def on_request(self, exchange: Exchange) -> Effects:
        """The broker cannot know that it has a resend already."""
        effects: Effects = NOTHING
        for place, part, batch in sent(exchange):
            if self._lost.get((place, batch.crc)) and batch.producer_id >= 0:
                part.message.records = without_idempotence(batch).raw
                self._lost[place, batch.crc] = False
                effects = (CHANGED,)
        return effects

    def on_response(self, exchange: Exchange) -> Effects:
        """Lose acknowledgements."""
        batches = {place: batch for place, _, batch in _as_sent(exchange)}
        if any((place, batch.crc) in self._lost for place, batch in batches.items()):
            return NOTHING  # resends are answered
        effects: Effects = NOTHING
        for place, _ in data_response_parts(exchange):
            batch = batches.get(place)
            if batch is None or batch.is_transactional:
                continue
            if self._counters.is_nth(place, self.every):
                self._lost[place, batch.crc] = True
                effects = (Drop("close"),)
        return effects


def _as_sent(exchange: Exchange) -> Any:
    """The batches as the client sent them."""
    return sent(
        Exchange(exchange.world, exchange.connection, exchange.node, exchange.header, exchange.request_frame, 0)
    )


class Reorders(Broken):
    """Batches of one producer are appended out of order: every 4th is overtaken by the next one."""

    name = "reorders"
    apis = frozenset({Api.PRODUCE})
    every = 4
    at_most_s = 0.5

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()

    def on_request(self, exchange: Exchange) -> Effects:
        """Without the numbers by which the broker would notice."""
        effects: list[Effect] = []
        movable = False
        for _, part, batch in sent(exchange):
            movable |= not batch.is_transactional
            plain = without_idempotence(batch)
            if plain is not batch:
                part.message.records = plain.raw
                effects = [CHANGED]
        if movable and self._counters.is_nth(exchange.connection, self.every):
            effects.append(Swap(self.at_most_s))
        return effects


class ReusesOffsets(Broken):
    """Every 5th batch of a partition is acknowledged with the offset of the batch acknowledged before it."""

    name = "reuses-offsets"
    apis = frozenset({Api.PRODUCE})
    every = 5

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._before: BoundedDict[Place, int] = BoundedDict()

    def on_response(self, exchange: Exchange) -> Effects:
        """What is on disk is right."""
        effects: Effects = NOTHING
        for place, answer in data_response_parts(exchange):
            if answer.base_offset < 0:
                continue
            before = self._before.get(place)
            if self._counters.is_nth(place, self.every) and before is not None:
                answer.base_offset = before
                effects = (CHANGED,)
            else:
                self._before[place] = answer.base_offset
        return effects


class AcksWithoutOffset(Broken):
    """Every 5th batch of a partition is acknowledged without an error and without an offset (-1)."""

    name = "acks-without-offset"
    apis = frozenset({Api.PRODUCE})
    every = 5

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()

    def on_response(self, exchange: Exchange) -> Effects:
        """What is on disk is right."""
        effects: Effects = NOTHING
        for place, answer in data_response_parts(exchange):
            if self._counters.is_nth(place, self.every):
                answer.base_offset = -1
                effects = (CHANGED,)
        return effects
