"""What broken brokers share: names and arguments, counters, and a way to change what Fetch and ListOffsets say."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar

from harness.foundation.errors import UsageError
from harness.foundation.protocol import LATEST, Api
from harness.tap.batches import RecordBatch, cut, join, split
from harness.tap.bounded_dict import BoundedDict
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Delay, Effect, Effects
from harness.tap.exchange import Bend, Exchange
from harness.tap.fetch_sessions import sessionless

Place = tuple[str, int]  # topic and partition

IDLE_S = 0.1  # between empty answers to a client that would wait


class Counters(BoundedDict[Hashable, int]):
    """How often something happened, by key."""

    def is_nth(self, key: Hashable, n: int) -> bool:
        """Count it; whether it is an nth one."""
        self[key] = self.get(key, 0) + 1
        return self[key] % n == 0


class Broken(Bend):
    """A broker with a bug."""

    argument: ClassVar[str] = ""  # what NAME:ARGUMENT means, always a number
    default: ClassVar[int] = 0  # the number when none is given

    def __init__(self, argument: str | None, seed: int) -> None:
        if argument is not None and not self.argument:
            raise UsageError(f"the broken broker '{self.name}' takes no argument", f"write '{self.name}'")
        if argument is not None and not (argument.isascii() and argument.isdecimal()):
            raise UsageError(
                f"'{argument}' is no argument of the broken broker '{self.name}'",
                f"give the {self.argument} as a number: '{self.name}:{self.default}'",
            )
        self.number = self.default if argument is None else int(argument)
        self.seed = seed
        self.clock: Callable[[], float] = time.monotonic


def concerns(topic: str) -> bool:
    """Whether a topic is somebody's data, and not Kafka's own."""
    return not topic.startswith("__")


def data_request_parts(exchange: Exchange) -> dict[Place, PartitionPart]:
    """The partitions of the request that broken brokers act on."""
    return {(part.topic, part.partition): part for part in exchange.request_parts() if concerns(part.topic)}


def data_response_parts(exchange: Exchange, error: int = 0) -> Iterator[tuple[Place, Any]]:
    """The partitions of the answer that broken brokers act on, with this error."""
    for part in exchange.response_parts():
        if concerns(part.topic) and part.message.error_code == error:
            yield (part.topic, part.partition), part.message


def sent(exchange: Exchange) -> Iterator[tuple[Place, PartitionPart, RecordBatch]]:
    """What a Produce request appends; today's clients send one batch for each partition."""
    for place, part in data_request_parts(exchange).items():
        batches = split(part.message.records)
        if len(batches) == 1 and batches[0].whole:
            yield place, part, batches[0]


def reads_watermarks_only(part: PartitionPart) -> bool:
    """Whether a Fetch is after watermarks, not records, as those of probes are."""
    return bool(part.message.partition_max_bytes <= 1)


def idle(exchange: Exchange) -> Effects:
    """A pause for a client that got nothing and was ready to wait; else it would ask again at once, for ever."""
    seconds = min(exchange.request.max_wait_ms / 1_000, IDLE_S)
    return (Delay(seconds),) if seconds > 0 else NOTHING


def latest_of(exchange: Exchange, answer: Any) -> int:
    """The offset that a ListOffsets answer gives, -1 when it gives none."""
    if exchange.version > 0:
        return int(answer.offset)
    return int(answer.old_style_offsets[0]) if answer.old_style_offsets else -1


def set_latest(exchange: Exchange, answer: Any, offset: int) -> None:
    """Give another offset."""
    if exchange.version > 0:
        answer.offset = offset
    else:
        answer.old_style_offsets = [offset, *(each for each in answer.old_style_offsets[1:] if each < offset)]


def put_records(answer: Any, batches: list[RecordBatch]) -> None:
    """Give these batches; a torn one alone would make clients believe that they ask for too little."""
    answer.records = join(batches) if any(batch.whole for batch in batches) else b""


def show_end(question: PartitionPart, answer: Any, end: int) -> bool:
    """Let a Fetch answer end there; whether that changes it."""
    if answer.high_watermark <= end:
        return False
    answer.high_watermark = end
    answer.last_stable_offset = min(answer.last_stable_offset, end)
    if answer.records:
        kept = [cut(batch, end) for batch in split(answer.records)]
        put_records(answer, [batch for batch in kept if batch and batch.next_offset > question.message.fetch_offset])
    return True


class FetchBend(Broken):
    """Changes what Fetch and ListOffsets say about a partition."""

    apis = frozenset({Api.FETCH, Api.LIST_OFFSETS})

    def on_request(self, exchange: Exchange) -> Effects:
        """No sessions, so that every answer is about every partition."""
        return sessionless(exchange)

    def on_response(self, exchange: Exchange) -> Effects:
        """Ask the hooks below about each partition that was answered without an error."""
        if exchange.api not in {Api.FETCH, Api.LIST_OFFSETS}:
            return NOTHING
        questions = data_request_parts(exchange)
        changed = False
        for place, answer in data_response_parts(exchange):
            question = questions.get(place)
            if question is None:
                continue
            if exchange.api == Api.FETCH:
                changed |= self.fetched(exchange, place, question, answer)
            elif question.message.timestamp == LATEST:
                changed |= self.listed(exchange, place, answer)
        if not changed:
            return NOTHING
        effects: list[Effect] = [CHANGED]
        if exchange.api == Api.FETCH and not any(part.message.records for part in exchange.response_parts()):
            effects.extend(idle(exchange))
        return effects

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:  # noqa: ARG002
        """A Fetch answer; whether it was changed."""
        return False

    def listed(self, exchange: Exchange, place: Place, answer: Any) -> bool:  # noqa: ARG002 - for those who want to
        """An answer of ListOffsets to the question for the latest offset; whether it was changed."""
        return False


class EndBend(FetchBend):
    """Shows partitions shorter than they are."""

    def end(self, exchange: Exchange, place: Place, end: int) -> int:  # noqa: ARG002 - for those who want to
        """Where the partition seems to end, when it is asked and really ends there."""
        return end

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:
        """Lower watermarks, and nothing above."""
        return show_end(question, answer, self.end(exchange, place, answer.high_watermark))

    def listed(self, exchange: Exchange, place: Place, answer: Any) -> bool:
        """A lower end."""
        true_end = latest_of(exchange, answer)
        end = self.end(exchange, place, true_end)
        if end >= true_end:
            return False
        set_latest(exchange, answer, end)
        return True
