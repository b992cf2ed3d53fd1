"""The places of answers in the order of a connection, and waiting for one's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from harness.foundation.frame_skim import Garbled
from harness.history.schema import Type
from harness.tap.effects import Delay, Hold, Then
from harness.tap.exchange import Exchange


class ResponseSlot:
    """The place of a request's answer in the order of a connection."""

    __slots__ = ("answerable", "done", "exchange", "payload", "sent", "then", "type")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.answerable = expects_answer(exchange)  # not a send that asks for no acknowledgement
        self.sent = False  # the broker has the request
        self.done = False  # whatever there is to be said is said
        self.payload: bytes | None = None  # what the client gets
        self.type = Type.OK
        self.then: Then | None = None  # what happens to the connection when it is this one's turn

    @property
    def waits(self) -> bool:
        """Whether the broker has the request and has not answered it."""
        return self.sent and not self.done and self.exchange.response_frame is None


@dataclass(frozen=True)
class Overtaken:
    """A request that lets the next one pass."""

    slot: ResponseSlot
    frame: bytes
    second: bytes | None  # its copy, if it has one
    timer: asyncio.TimerHandle


def find(slots: Iterable[ResponseSlot], correlation: int | None) -> tuple[ResponseSlot | None, list[ResponseSlot]]:
    """Whose answer has come, nearly always the first one's, and those before it that still wait for theirs."""
    passed: list[ResponseSlot] = []
    for slot in slots:
        if slot.waits:
            if slot.exchange.header.correlation == correlation:
                return slot, passed
            passed.append(slot)
    return None, passed


async def wait_for(effect: Delay | Hold) -> None:
    """As long as it says."""
    gate, seconds = (effect.unless, effect.seconds) if isinstance(effect, Delay) else (effect.gate, effect.at_most_s)
    if gate is None:
        await asyncio.sleep(seconds)
    else:
        with suppress(TimeoutError):
            await asyncio.wait_for(gate.wait(), seconds)


def expects_answer(exchange: Exchange) -> bool:
    """Whether the broker will answer, as far as anybody knows."""
    try:
        return exchange.expects_response
    except Garbled:
        return True
