"""A client, its broker, and everything that goes between them.

Whatever is not bent takes the short way: a frame is passed on as soon as it is whole, and looked into afterwards. A
bend that waits makes what comes after it on the same connection wait too, as a broker would. Answers go to the client
in the order of its requests (`_Slot`), whoever gives them.

A client that leaves does not take its requests along: what the tap still holds is delivered, and what the broker
answers within `LINGER_S` is recorded, as not received.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.history import Type, now
from harness.tap import addresses, codec
from harness.tap.codec import Api, Garbled
from harness.tap.exchange import (
    Answer,
    Changed,
    Close,
    Delay,
    Drop,
    Duplicate,
    Effect,
    Exchange,
    Hold,
    Swap,
    Then,
)
from harness.tap.frames import REQUEST_AT_MOST, RESPONSE_AT_MOST
from harness.tap.sides import BrokerSide, ClientSide, Side

if TYPE_CHECKING:
    from harness.tap.proxy import Proxy, Tap

CONNECT_TIMEOUT_S = 10.0
LINGER_S = 5.0
WAITING_AT_MOST = 64 * 1024 * 1024  # bytes of requests that wait for their turn or their answer: then no more are read
WAITING_REQUESTS_AT_MOST = 10_000
GHOSTS_BEGIN = 0x7F000000  # numbers of requests that only the tap knows of


class _Slot:
    """The place of a request's answer in the order of a connection."""

    __slots__ = ("answerable", "done", "exchange", "payload", "sent", "then", "type")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.answerable = _expects_answer(exchange)  # not a send that asks for no acknowledgement
        self.sent = False  # the broker has the request
        self.done = False  # whatever there is to be said is said
        self.payload: bytes | None = None  # what the client gets
        self.type = Type.OK
        self.then: Then | None = None  # what happens to the connection when it is this one's turn


class Connection:
    """A client, its broker, and what goes between them."""

    def __init__(self, proxy: Proxy, tap: Tap) -> None:
        self.proxy = proxy
        self.tap = tap
        proxy.counts.connections += 1
        self.number = proxy.counts.connections
        self.client = ClientSide(self, REQUEST_AT_MOST, proxy.budget)
        self.broker = BrokerSide(self, RESPONSE_AT_MOST, proxy.budget)
        self._slots: deque[_Slot] = deque()
        self._queue: deque[tuple[bytes, int]] = deque()
        self._waiting_bytes = 0
        self._busy = False  # a request is being held: the ones behind it wait in the queue
        self._mute = self._deaf = self._blind = False
        self._overtaken: tuple[_Slot, bytes, asyncio.TimerHandle] | None = None
        self._ghosts: dict[int, Exchange] = {}
        self._ended = False

    def other(self, side: Side) -> Side:
        """The opposite end."""
        return self.broker if side is self.client else self.client

    # beginning and end

    def begin(self) -> None:
        """Find the broker."""
        self.proxy.connections.add(self)
        self._run(self._connect())

    async def _connect(self) -> None:
        host, port = self.tap.upstream
        tls = self.proxy.tls
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().create_connection(
                    lambda: self.broker, host, port, ssl=tls, server_hostname=host if tls else None
                ),
                CONNECT_TIMEOUT_S,
            )
        except (OSError, TimeoutError) as error:
            said = str(error) or f"no answer within {CONNECT_TIMEOUT_S:.0f} s"
            self.proxy.seer.failed_connection(self.tap.node, self.number, said)
            self.client.close(reset=True)
            self.end("the broker cannot be reached")
            return
        if self.client.gone:
            self.end("the client left")
        else:
            self.client.hold("connecting", back=False)

    def refuse(self, why: str) -> None:
        """What came is no Kafka: nothing of this connection goes on."""
        self.proxy.counts.refused += 1
        self.proxy.seer.failed_connection(self.tap.node, self.number, f"refused: {why}")
        self.end(f"refused: {why}")

    def client_left(self) -> None:
        """Deliver what is held, hear what is still to be answered, then end."""
        if not self._ended:
            if self._open:
                asyncio.get_running_loop().call_later(LINGER_S, self._end_when_idle)
            else:
                self.end("the client left")

    @property
    def _open(self) -> bool:
        held = self._busy or bool(self._queue) or self._overtaken is not None
        return held or any(slot.sent and not slot.done for slot in self._slots)

    def _end_when_idle(self) -> None:
        if self._busy or self._queue or self._overtaken:  # a bend still holds a request that was sent in earnest
            asyncio.get_running_loop().call_later(LINGER_S, self._end_when_idle)
        else:
            self.end("the client left")

    def end(self, why: str) -> None:
        """Close both sides, and record what will never be answered."""
        if self._ended:
            return
        self._ended = True
        self.proxy.connections.discard(self)
        self._flush()
        if self._overtaken is not None:
            self._overtaken[2].cancel()
        for slot in self._slots:
            answered = slot.done and slot.exchange.answered
            self._saw(slot.exchange, Type.INFO if slot.sent else Type.FAIL, "" if answered else f"no answer: {why}")
        self._slots.clear()
        for frame, arrived in self._queue:
            with suppress(Garbled):
                exchange = self._exchange(frame, arrived)
                self._saw(exchange, Type.FAIL, f"not passed on: {why}")
        self._queue.clear()
        self.client.close()
        self.broker.close()

    # requests

    def take_request(self, frame: bytes) -> None:
        """A whole request from the client."""
        if self._busy or self._queue:
            self._queue.append((frame, now()))
            self._wait(len(frame))
        else:
            self._request(frame, now())

    def _wait(self, size: int) -> None:
        """So many bytes more, or fewer, wait: read on only as long as they are not too many."""
        self._waiting_bytes += size
        requests = len(self._slots) + len(self._queue)
        self.client.hold("full", back=self._waiting_bytes > WAITING_AT_MOST or requests > WAITING_REQUESTS_AT_MOST)

    def _exchange(self, frame: bytes, arrived: int) -> Exchange:
        exchange = Exchange(self.proxy.world, self.number, self.tap.node, codec.read_header(frame), frame, arrived)
        exchange.number = self.proxy.seer.number()
        return exchange

    def _request(self, frame: bytes, arrived: int) -> None:
        if self._blind:
            self.broker.write(frame)
            return
        try:
            exchange = self._exchange(frame, arrived)
        except Garbled:
            self.proxy.counts.not_understood += 1
            self.broker.write(frame)  # the broker shall say what it thinks of it
            return
        self.proxy.counts.exchanges += 1
        if self._deaf:
            self._saw(exchange, Type.FAIL, "not passed on: a request before it was dropped")
            return
        slot = _Slot(exchange)
        effects = self._asked(exchange, "on_request")
        if slot.answerable:
            self._slots.append(slot)
            self._wait(len(frame))
        if effects:
            self._busy = True
            self._run(self._bent_request(slot, effects))
        else:
            self._pass_on(slot, frame)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.proxy.run(self._safely(work))
        task.add_done_callback(lambda _: work.close())  # the tap may be stopped before it began

    async def _safely(self, work: Coroutine[Any, Any, None]) -> None:
        """Whatever goes wrong in there, nobody waits for it."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the connection ends, and the verdict hears why
            self.proxy.counts.trouble(f"the tap failed at a connection: {type(error).__name__}: {error}")
            self.end("the tap failed")

    def _asked(self, exchange: Exchange, when: str) -> list[Effect]:
        """What the bends want done."""
        effects: list[Effect] = []
        if not exchange.known:
            return effects
        for bend in self.proxy.wanting(exchange.api):
            try:
                found = getattr(bend, when)(exchange)
            except Garbled:
                continue
            except Exception as error:  # noqa: BLE001 - one bend's mistake must not end everybody's connections
                self.proxy.counts.trouble(f"{bend.name} failed: {type(error).__name__}: {error}")
                continue
            if found:
                effects += found
                if bend.name not in exchange.bent:
                    exchange.bent.append(bend.name)
        return effects

    async def _bent_request(self, slot: _Slot, effects: Iterable[Effect]) -> None:
        self.proxy.counts.bent += 1
        try:
            await self._carry_out_request(slot, effects)
        except Garbled as error:
            self.proxy.counts.trouble(f"{', '.join(slot.exchange.bent)} could not be carried out: {error}")
            self._pass_on(slot, slot.exchange.request_frame)
        finally:
            self._busy = False
            self._go_on()

    async def _carry_out_request(self, slot: _Slot, effects: Iterable[Effect]) -> None:
        exchange, frame = slot.exchange, slot.exchange.request_frame
        duplicate: Duplicate | None = None
        swap: Swap | None = None
        for effect in effects:
            if isinstance(effect, Delay | Hold):
                await _wait(effect)
            elif isinstance(effect, Drop | Close):
                self._drop_request(slot, effect)
                return
            elif isinstance(effect, Answer):
                exchange.response = effect.response
                self._answer(slot)
                return
            elif isinstance(effect, Changed):
                frame = b""
            elif isinstance(effect, Duplicate):
                duplicate = effect
            else:
                swap = effect
        if exchange.nothing_left:
            exchange.response = exchange.empty_response()
            exchange.put_answers()
            self._answer(slot)
            return
        frame = frame or codec.encode_request(exchange.request, exchange.request_frame, exchange.header)
        if swap is not None and self._overtaken is None:
            timer = asyncio.get_running_loop().call_later(swap.at_most_s, self._overtake)
            self._overtaken = (slot, frame, timer)
            return
        self._pass_on(slot, frame)
        if duplicate is not None:
            self._duplicate(exchange, duplicate.frame or frame)

    def _go_on(self) -> None:
        """With what waited behind a request that was held."""
        while self._queue and not self._busy:
            frame, arrived = self._queue.popleft()
            self._wait(-len(frame))
            self._request(frame, arrived)
        if self.client.gone and not self._open:
            self.end("the client left")

    def _pass_on(self, slot: _Slot, frame: bytes) -> None:
        """To the broker."""
        slot.sent = True
        self.broker.write(frame)
        if self._overtaken is not None and self._overtaken[0] is not slot:
            self._overtake()
        exchange = slot.exchange
        if exchange.api == Api.SASL_HANDSHAKE and exchange.version == 0:
            self._blind = True  # what follows is not framed as requests are
        if not slot.answerable:
            self._saw(exchange, Type.INFO, "")

    def _overtake(self) -> None:
        """Let the one that was overtaken go on."""
        if self._overtaken is not None:
            (slot, frame, timer), self._overtaken = self._overtaken, None
            timer.cancel()
            self._pass_on(slot, frame)

    def _duplicate(self, exchange: Exchange, frame: bytes) -> None:
        ghost = GHOSTS_BEGIN + len(self._ghosts)
        while ghost in self._ghosts:
            ghost += 1
        self._ghosts[ghost] = self._exchange(exchange.request_frame, now())
        self._ghosts[ghost].bent = list(exchange.bent)
        self.broker.write(codec.with_correlation(frame, ghost))

    def _drop_request(self, slot: _Slot, effect: Drop | Close) -> None:
        slot.done, slot.type = True, Type.FAIL
        slot.then = effect.then if isinstance(effect, Drop) else "reset" if effect.reset else "close"
        if slot.then == "silence":
            self._deaf = True  # nothing behind a lost packet arrives either
        if not slot.answerable:
            self._saw(slot.exchange, Type.FAIL, "dropped")
        self._flush()

    def _answer(self, slot: _Slot) -> None:
        """In the broker's place."""
        slot.payload, slot.done, slot.type = self._encoded(slot.exchange), True, Type.FAIL
        self._flush()

    # responses

    def take_response(self, frame: bytes) -> None:
        """A whole response from the broker."""
        try:
            correlation = codec.correlation_of(frame)
        except Garbled:
            correlation = None
        slot = next((s for s in self._slots if s.sent and not s.done and s.exchange.header.correlation == correlation
                     and s.exchange.response_frame is None), None)  # fmt: skip
        if slot is None:
            self._unasked(correlation, frame)
            return
        exchange = slot.exchange
        exchange.response_frame = frame
        effects = self._asked(exchange, "on_response")
        if effects:
            self._run(self._bent_response(slot, effects))
            return
        slot.payload, slot.done = self._passed_back(exchange, frame), True
        self._flush()

    def _unasked(self, correlation: int | None, frame: bytes) -> None:
        ghost = self._ghosts.pop(correlation, None) if correlation is not None else None
        if ghost is not None:
            ghost.response_frame = frame
            self._saw(ghost, Type.INFO, "the second of two")
        elif not self._mute:
            self.client.write(frame)

    async def _bent_response(self, slot: _Slot, effects: Iterable[Effect]) -> None:
        self.proxy.counts.bent += 1
        changed = False
        for effect in effects:
            if isinstance(effect, Delay | Hold):
                await _wait(effect)
            elif isinstance(effect, Drop):
                slot.type, slot.then = Type.INFO, effect.then
            elif isinstance(effect, Close):
                slot.type, slot.then = Type.INFO, "reset" if effect.reset else "close"
            elif isinstance(effect, Changed):
                changed = True
        exchange, frame = slot.exchange, slot.exchange.response_frame or b""
        if slot.then is None:
            slot.payload = self._passed_back(exchange, frame, changed=changed)
        slot.done = True
        self._flush()

    def _passed_back(self, exchange: Exchange, frame: bytes, *, changed: bool = False) -> bytes:
        """The response for the client, the broker's own bytes where nothing has to change."""
        changed = changed or exchange.answered_parts
        if changed or (exchange.known and addresses.to_be_read(exchange)):
            with suppress(Garbled):  # counted when it is recorded
                return self._encoded(exchange, None if changed else frame)
        return frame

    def _encoded(self, exchange: Exchange, unchanged: bytes | None = None) -> bytes:
        """The response with the taps' addresses."""
        exchange.put_answers()
        addresses.learn(exchange, self.proxy.world.names)
        with addresses.rewritten(exchange, self.proxy.locate) as changed:
            if unchanged is not None and not changed:
                return unchanged
            return codec.encode_response(exchange.response, exchange.header.correlation, exchange.api, exchange.version)

    def _flush(self) -> None:
        """Give the client what is next in its order, then record it."""
        gone: list[tuple[_Slot, Type]] = []
        while self._slots and self._slots[0].done:
            slot = self._slots.popleft()
            self._wait(-len(slot.exchange.request_frame))
            received = slot.payload is not None and not self._mute and not self.client.gone and not slot.then
            if received:
                self.client.write(slot.payload or b"")
            gone.append((slot, slot.type if received or not slot.sent else Type.INFO))
            if slot.then == "silence":
                self._mute = True
            elif slot.then:
                self.client.close(reset=slot.then == "reset")
        for slot, type_ in gone:
            detail = "" if type_ == slot.type and not slot.then else "the client got no answer"
            self._saw(slot.exchange, type_, detail)
        if self.client.gone and not self._ended and not self._open:
            self.end("the client left")

    def _saw(self, exchange: Exchange, type_: Type, detail: str) -> None:
        exchange.node = self.tap.node  # which may have been learnt from this very answer
        self.proxy.seer.saw(exchange, type_, now(), detail)


async def _wait(effect: Delay | Hold) -> None:
    if isinstance(effect, Delay):
        await asyncio.sleep(effect.seconds)
    else:
        with suppress(TimeoutError):
            await asyncio.wait_for(effect.gate.wait(), effect.at_most_s)


def _expects_answer(exchange: Exchange) -> bool:
    try:
        return exchange.expects_response
    except Garbled:
        return True
