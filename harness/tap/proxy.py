"""The taps: one listener in front of each broker, the bends that all of them ask, and what was counted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.foundation import metadata_answer
from harness.foundation.frame_skim import Garbled
from harness.foundation.metadata_answer import BROKERS_AT_MOST
from harness.foundation.protocol import Api
from harness.tap import addresses, codec
from harness.tap.connection import ProxiedConnection
from harness.tap.effects import UNNOTICED, Answer, Close, Drop, Effect
from harness.tap.exchange import Bend, Exchange, TapContext
from harness.tap.exchange_recorder import ExchangeRecorder
from harness.tap.frames import FrameBudget
from harness.tap.resends import ResendCounter

LOOPBACK = "127.0.0.1"
BACKLOG = 512
NAME_CHARACTERS = 253  # there is no longer name of a host
TROUBLES_AT_MOST = 20
UNKNOWN_NODE = -1
TAPS_AT_MOST = BROKERS_AT_MOST
NOWHERE = (LOOPBACK, 1)  # for brokers that nobody shall connect to: nothing listens there


@dataclass(eq=False)
class Tap:
    """A listener in front of one broker."""

    node: int
    upstream: tuple[str, int]
    listener: socket.socket
    discovered: bool = False  # in an answer, not given

    def __post_init__(self) -> None:
        self.port = int(self.listener.getsockname()[1])  # where clients find it


@dataclass(eq=False)
class Counts:
    """What went on so far."""

    connections: int = 0
    exchanges: int = 0
    bent: int = 0
    not_understood: int = 0
    refused: int = 0  # connections ended because of what came over them
    troubles: list[str] = field(default_factory=list)

    def trouble(self, sentence: str) -> None:
        """Something that the verdict has to know of."""
        if sentence not in self.troubles and len(self.troubles) < TROUBLES_AT_MOST:
            self.troubles.append(sentence)


class Proxy:
    """All taps of a process, and what they share."""

    def __init__(
        self,
        seer: ExchangeRecorder,
        world: TapContext,
        tls: ssl.SSLContext | None = None,
        cluster: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        self.seer = seer
        seer.names = world.names
        self.world = world
        self.tls = tls
        self.cluster = cluster  # the addresses of the cluster under test; none: of whatever answers name
        self.counts = Counts()
        self.budget = FrameBudget()
        self.taps: list[Tap] = []
        self._tap_of: dict[int, Tap] = {}  # by node
        self.connections: set[ProxiedConnection] = set()
        self.acted: Counter[str] = Counter()  # exchanges that were bent, by who did it
        self.resends = ResendCounter()
        self._bends: list[Bend] = []
        self._by_api: dict[int, tuple[Bend, ...]] = {}
        self._late: set[str] = set()  # the names of bends that came while it ran
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # taps

    def open(self, node: int, upstream: tuple[str, int], port: int = 0) -> Tap:
        """Listen in front of a broker; clients can connect when this returns."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
        listener.setblocking(False)  # noqa: FBT003 - socket's own interface
        tap = Tap(node, upstream, listener)
        self.taps.append(tap)
        if node != UNKNOWN_NODE:
            self._know(tap, node, upstream)
        self.run(self._serve(tap))
        return tap

    async def _serve(self, tap: Tap) -> None:
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: ProxiedConnection(self, tap).client, sock=tap.listener))

    def locate(self, node: int, host: str, port: int, *, news: bool = True) -> tuple[str, int]:
        """The tap of a broker that an answer names; a new one when there is none. Only news tell that it has moved."""
        tap = self._tap_of.get(node)
        if tap is None:
            tap = next((t for t in self.taps if t.node == UNKNOWN_NODE and t.upstream == (host, port)), None)
            if tap is None:
                tap = self._discover(node, host, port)
                if tap is None:
                    return NOWHERE
            self._know(tap, node, tap.upstream)
        elif news and tap.discovered and tap.upstream != (host, port):
            tap.upstream = self.world.nodes[node] = (host, port)  # it has moved
        return LOOPBACK, tap.port

    def _know(self, tap: Tap, node: int, upstream: tuple[str, int]) -> None:
        tap.node = node
        self._tap_of[node] = tap
        self.world.nodes[node] = upstream

    def _discover(self, node: int, host: str, port: int) -> Tap | None:
        """A tap before a broker that only an answer has named; None where nobody shall connect to it."""
        name = f"node {node} at {host[:NAME_CHARACTERS]}:{port}"
        if self.cluster and (host, port) not in self.cluster:
            self.counts.trouble(
                f"answers name {name}, which is not part of the cluster under test; the tap did not connect"
            )
            return None
        if len(self.taps) >= TAPS_AT_MOST:
            self.counts.trouble(f"answers name more than {TAPS_AT_MOST} brokers; the tap did not connect to the others")
            return None
        try:
            tap = self.open(node, (host, port))
        except OSError as error:
            self.counts.trouble(f"there is no tap before {name} ({error}); the tap did not connect")
            return None
        tap.discovered = True
        return tap

    def pass_unread(self, exchange: Exchange, frame: bytes) -> bytes:
        """A large Metadata answer with the taps' addresses; reading all of it would keep everybody waiting."""
        exchange.leave_unread()
        self.counts.trouble(f"a Metadata answer of {len(frame):,} bytes was passed on, and only its brokers were read")
        return metadata_answer.with_addresses(frame, exchange.version, self.locate)

    def recognise(self, exchange: Exchange, tap: Tap) -> None:
        """Learn from the first Metadata which node a tap of somebody else's cluster stands before."""
        if tap.node == UNKNOWN_NODE and exchange.known and exchange.api == Api.METADATA:
            with suppress(Garbled):
                for broker in exchange.response.brokers or ():
                    if (broker.host, broker.port) == tap.upstream:
                        self.locate(broker.node_id, broker.host, broker.port)
        exchange.node = tap.node

    # bends

    def bend(self, bend: Bend, *, late: bool = False) -> None:
        """From now on this is asked, after those that are there; a late one has come while the taps were at work."""
        self._bends.append(bend)
        self._by_api.clear()
        if late:
            self._late.add(bend.name)

    def unbend(self, name: str) -> None:
        """No longer."""
        self._bends = [bend for bend in self._bends if bend.name != name]
        self._by_api.clear()

    @property
    def bends(self) -> tuple[Bend, ...]:
        """All that are asked."""
        return tuple(self._bends)

    @property
    def idle(self) -> list[str]:
        """Those that have been there from the beginning and not done anything so far."""
        return [bend.name for bend in self._bends if not self.acted[bend.name] and bend.name not in self._late]

    def wanting(self, api: int) -> tuple[Bend, ...]:
        """Those that want to be asked about this API."""
        found = self._by_api.get(api)
        if found is None:
            found = self._by_api[api] = tuple(bend for bend in self._bends if api in bend.apis)
        return found

    def ask(self, exchange: Exchange, when: str) -> list[Effect]:
        """What the bends want done."""
        effects: list[Effect] = []
        if not exchange.known:
            return effects
        for bend in self.wanting(exchange.api):
            try:
                found = getattr(bend, when)(exchange)
            except Garbled:
                continue
            except Exception as error:  # noqa: BLE001 - one bend's mistake must not end everybody's connections
                self.counts.trouble(f"{bend.name} failed: {type(error).__name__}: {error}")
                continue
            if found:
                effects += found
                if bend.name not in exchange.bent and any(effect != UNNOTICED for effect in found):
                    self.counts.bent += not exchange.bent
                    exchange.bent.append(bend.name)
                    self.acted[bend.name] += 1
                    self.resends.bent(exchange, bend.name, found)
                if any(isinstance(effect, Drop | Close | Answer) for effect in found):
                    break  # nothing is left for the others
        return effects

    def answer(self, exchange: Exchange, frame: bytes, *, changed: bool = False) -> bytes:
        """The response for the client, the broker's own bytes where nothing has to change."""
        changed = changed or exchange.answered_parts
        if changed or (exchange.known and addresses.to_be_read(exchange)):
            try:
                return self.encoded(exchange, None if changed else frame)
            except Garbled as error:  # counted when it is recorded
                if changed:
                    self.counts.trouble(f"{', '.join(exchange.bent)} could not be carried out: {error}")
        return frame

    def encoded(self, exchange: Exchange, unchanged: bytes | None = None, *, news: bool = True) -> bytes:
        """The response with the taps' addresses."""
        exchange.put_answers()
        addresses.learn(exchange, self.world.names)
        for name in addresses.unreadable(exchange):
            self.counts.trouble(f"brokers speak versions of {name} that the tap cannot read: clients may pass it")
        with addresses.rewritten(exchange, partial(self.locate, news=news)) as changed:
            if unchanged is not None and not changed:
                return unchanged
            return codec.encode_response(exchange.response, exchange.header.correlation, exchange.api, exchange.version)

    # the rest

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Something that takes time, beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End all connections and listeners; what is open is recorded as such."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.end("the tap was stopped")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for tap in self.taps:
            tap.listener.close()
        self.seer.flush()
