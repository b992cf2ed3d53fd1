"""A client, its broker, and everything that goes between them.

Whatever is not bent takes the short way: a frame is passed on as soon as it is whole, and looked into afterwards. A
bend that waits makes what comes after it on the same connection wait too, as a broker would. Answers go to the client
in the order of its requests (`ResponseSlot`), whoever gives them.

A client that leaves does not take its requests along: what the tap still holds is delivered, and what the broker
answers within `LINGER_S` is recorded, as not received.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from harness.foundation import metadata_answer
from harness.foundation.frame_skim import Garbled
from harness.foundation.protocol import Api
from harness.history.schema import Type, now
from harness.tap import codec
from harness.tap.effects import Answer, Changed, Close, Delay, Drop, Duplicate, Effect, Hold, Swap
from harness.tap.exchange import Exchange
from harness.tap.frames import REQUEST_AT_MOST, RESPONSE_AT_MOST
from harness.tap.response_order import Overtaken, ResponseSlot, find, wait_for
from harness.tap.streams import BrokerSide, ClientSide, Side

if TYPE_CHECKING:
    from harness.tap.proxy import Proxy, Tap

CONNECT_TIMEOUT_S = 10.0
LINGER_S = 5.0
WAITING_AT_MOST = 64 * 1024 * 1024  # bytes of requests that wait for their turn or their answer: then no more are read
WAITING_REQUESTS_AT_MOST = 10_000
GHOSTS_BEGIN = 0x7F000000  # numbers of requests that only the tap knows of
SECOND = "the second of two"


class ProxiedConnection:
    """A client, its broker, and what goes between them."""

    def __init__(self, proxy: Proxy, tap: Tap) -> None:
        self.proxy = proxy
        self.tap = tap
        proxy.counts.connections += 1
        self.number = proxy.counts.connections
        self.client = ClientSide(self, REQUEST_AT_MOST, proxy.budget)
        self.broker = BrokerSide(self, RESPONSE_AT_MOST, proxy.budget)
        self._slots: deque[ResponseSlot] = deque()
        self._queue: deque[tuple[bytes, int]] = deque()
        self._waiting_bytes = 0
        self._busy = False  # a request is being held: the ones behind it wait in the queue
        self._mute = self._deaf = self._blind = False
        self._overtaken: Overtaken | None = None
        self._ghosts: dict[int, Exchange] = {}  # second copies of requests, which the client knows nothing of
        self._tasks: set[asyncio.Task[None]] = set()
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

    def broker_left(self, error: Exception | None) -> None:
        """Nothing more will be answered."""
        if error is not None and not self._ended:
            self.proxy.seer.failed_connection(self.tap.node, self.number, f"the broker hung up: {error}")
        self.end(f"the broker closed the connection{f' ({error})' if error else ''}")

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
        return held or bool(self._ghosts) or any(slot.sent and not slot.done for slot in self._slots)

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
            self._overtaken.timer.cancel()
        for slot in self._slots:
            answered = slot.done and slot.exchange.answered
            self._saw(slot.exchange, Type.INFO if slot.sent else Type.FAIL, "" if answered else f"no answer: {why}")
        self._slots.clear()
        for ghost in self._ghosts.values():
            self._saw(ghost, Type.INFO, f"{SECOND}; no answer: {why}")
        self._ghosts.clear()
        for frame, arrived in self._queue:
            with suppress(Garbled):
                exchange = self._exchange(frame, arrived)
                self._saw(exchange, Type.FAIL, f"not passed on: {why}")
        self._queue.clear()
        self.client.close()
        self.broker.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

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
        header = codec.read_header(frame)
        if not codec.is_modest(frame, header):
            header = header._replace(body=0)  # nobody sends that in earnest, and reading it would hold up everybody
        exchange = Exchange(self.proxy.world, self.number, self.tap.node, header, frame, arrived)
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
        slot = ResponseSlot(exchange)
        self.proxy.resends.saw(exchange)
        effects = self.proxy.ask(exchange, "on_request")
        self._slots.append(slot)
        self._wait(len(frame))
        if effects:
            self._busy = True
            self._run(self._bent_request(slot, effects))
        else:
            self._pass_on(slot, frame)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.proxy.run(self._safely(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # the tap may be stopped before it began

    async def _safely(self, work: Coroutine[Any, Any, None]) -> None:
        """Whatever goes wrong in there, nobody waits for it."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the connection ends, and the verdict hears why
            self.proxy.counts.trouble(f"the tap failed at a connection: {type(error).__name__}: {error}")
            self.end("the tap failed")

    async def _bent_request(self, slot: ResponseSlot, effects: Iterable[Effect]) -> None:
        try:
            await self._carry_out_request(slot, effects)
        except Garbled as error:
            self.proxy.counts.trouble(f"{', '.join(slot.exchange.bent)} could not be carried out: {error}")
            self._pass_on(slot, slot.exchange.request_frame)
        finally:
            self._busy = False
            self._go_on()

    async def _carry_out_request(self, slot: ResponseSlot, effects: Iterable[Effect]) -> None:
        exchange, frame = slot.exchange, slot.exchange.request_frame
        duplicate: Duplicate | None = None
        swap: Swap | None = None
        for effect in effects:
            if isinstance(effect, Delay | Hold):
                self._let_client_go(effect)
                await wait_for(effect)
            elif isinstance(effect, Drop | Close):
                if isinstance(effect, Close) and effect.after is not None:
                    await self._stall(effect.after, reset=effect.reset)
                self._drop_request(slot, effect)
                return
            elif isinstance(effect, Answer):
                exchange.response = effect.response
                self._answer(slot, news=not effect.is_old)
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
        second = (duplicate.frame or frame) if duplicate else None
        if swap is not None and self._overtaken is None and not self._ended:
            timer = asyncio.get_running_loop().call_later(swap.at_most_s, self._overtake)
            self._overtaken = Overtaken(slot, frame, second, timer)
            return
        self._pass_on(slot, frame, second)

    def _let_client_go(self, effect: Delay | Hold) -> None:
        """Cut the client off from a request that is on its way, if that shall be: it arrives all the same."""
        if isinstance(effect, Hold) and effect.then != "silence":
            self.client.close(reset=effect.then == "reset")

    def _go_on(self) -> None:
        """With what waited behind a request that was held."""
        while self._queue and not self._busy:
            frame, arrived = self._queue.popleft()
            self._wait(-len(frame))
            self._request(frame, arrived)
        if self.client.gone and not self._open:
            self.end("the client left")

    def _pass_on(self, slot: ResponseSlot, frame: bytes, second: bytes | None = None) -> None:
        """To the broker, twice if there is a second."""
        if self._ended:
            return
        slot.sent = True
        self.broker.write(frame)
        if second is not None:
            self._duplicate(slot, second)
        if self._overtaken is not None and self._overtaken.slot is not slot:
            self._overtake()
        exchange = slot.exchange
        if exchange.api == Api.SASL_HANDSHAKE and exchange.version == 0:
            self._blind = True  # what follows is not framed as requests are
            self.proxy.counts.trouble("a client authenticates in the old way (SaslHandshake 0) and was not seen")
        if not slot.answerable:
            slot.done, slot.type = True, Type.INFO
            self._flush()

    def _overtake(self) -> None:
        """Let the one that was overtaken go on."""
        if self._overtaken is not None:
            overtaken, self._overtaken = self._overtaken, None
            overtaken.timer.cancel()
            self._pass_on(overtaken.slot, overtaken.frame, overtaken.second)

    def _duplicate(self, slot: ResponseSlot, frame: bytes) -> None:
        number = GHOSTS_BEGIN + len(self._ghosts)
        in_use = {each.exchange.header.correlation for each in self._slots}
        while number in self._ghosts or number in in_use:
            number += 1
        ghost = self._exchange(slot.exchange.request_frame, now())
        ghost.bent = list(slot.exchange.bent)
        self.broker.write(codec.with_correlation(frame, number))
        if slot.answerable:
            self._ghosts[number] = ghost
        else:
            self._saw(ghost, Type.INFO, SECOND)

    async def _stall(self, wait: Delay, *, reset: bool) -> None:
        """Let nothing pass for a while, then cut the client off."""
        self._mute = True
        await wait_for(wait)
        self.client.close(reset=reset)

    def _drop_request(self, slot: ResponseSlot, effect: Drop | Close) -> None:
        slot.done, slot.type = True, Type.FAIL
        slot.then = effect.then if isinstance(effect, Drop) else "reset" if effect.reset else "close"
        self._deaf = True  # nothing behind a lost packet arrives either, nor over a connection that is closed
        self._flush()

    def _answer(self, slot: ResponseSlot, *, news: bool = True) -> None:
        """In the broker's place."""
        if slot.answerable:
            slot.payload = self.proxy.encoded(slot.exchange, news=news)
        else:  # nobody waits for it, and a client would take it for the answer to something else
            slot.exchange.response, slot.type = None, Type.INFO
        slot.done = True
        self._flush()

    # responses

    def take_response(self, frame: bytes) -> None:
        """A whole response from the broker."""
        try:
            correlation = codec.correlation_of(frame)
        except Garbled:
            correlation = None
        slot, passed = find(self._slots, correlation)
        if slot is None:
            self._unasked(correlation, frame)
            return
        for earlier in passed:
            if earlier.exchange.api == Api.PRODUCE and not earlier.exchange.known:
                earlier.done, earlier.type = True, Type.INFO  # a version of the future: it asked for no answer
        exchange = slot.exchange
        exchange.response_frame = frame
        if exchange.api == Api.METADATA and exchange.known and self._is_large(slot, frame):
            return
        self.proxy.recognise(exchange, self.tap)
        effects = self.proxy.ask(exchange, "on_response")
        if effects:
            self._run(self._bent_response(slot, effects))
            return
        slot.payload, slot.done = self.proxy.answer(exchange, frame), True
        self._flush()

    def _is_large(self, slot: ResponseSlot, frame: bytes) -> bool:
        """Whether a Metadata answer is too large to be read; then it was passed on as far as that is possible."""
        exchange = slot.exchange
        try:
            if brokers := metadata_answer.too_many_brokers(frame, exchange.version):
                said = f"a Metadata answer with {brokers:,} brokers"
                self.proxy.counts.trouble(f"node {self.tap.node} gave {said}: the connection was ended")
                self.refuse(said)
                return True
            if len(frame) <= codec.MODEST_BYTES:
                return False
            slot.payload, slot.done = self.proxy.pass_unread(exchange, frame), True
        except Garbled:
            return False
        self._flush()
        return True

    def _unasked(self, correlation: int | None, frame: bytes) -> None:
        ghost = self._ghosts.pop(correlation, None) if correlation is not None else None
        if ghost is not None:
            ghost.response_frame = frame
            self._saw(ghost, Type.INFO, SECOND)
        elif not self._mute:
            self.client.write(frame)

    async def _bent_response(self, slot: ResponseSlot, effects: Iterable[Effect]) -> None:
        changed = False
        for effect in effects:
            if isinstance(effect, Delay | Hold):
                await wait_for(effect)
            elif isinstance(effect, Drop):
                slot.type, slot.then = Type.INFO, effect.then
            elif isinstance(effect, Close):
                slot.type, slot.then = Type.INFO, "reset" if effect.reset else "close"
            elif isinstance(effect, Changed):
                changed = True
        exchange, frame = slot.exchange, slot.exchange.response_frame or b""
        if slot.then is None:
            slot.payload = self.proxy.answer(exchange, frame, changed=changed)
        slot.done = True
        self._flush()

    def _flush(self) -> None:
        """Give the client what is next in its order, then record it."""
        gone: list[tuple[ResponseSlot, Type]] = []
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
            heard = type_ == slot.type and not slot.then
            self._saw(slot.exchange, type_, "" if heard else "the client got no answer")
        if self.client.gone and not self._ended and not self._open:
            self.end("the client left")

    def _saw(self, exchange: Exchange, type_: Type, detail: str) -> None:
        exchange.node = self.tap.node  # which may have been learnt from this very answer
        self.proxy.seer.saw(exchange, type_, now(), detail)
