"""A real tap on loopback between raw clients and a broker that does as it is told, and the rows that come of it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from harness.foundation.protocol import Api
from harness.history.recorder import Recorder
from harness.history.segments import Segment
from harness.tap import codec
from harness.tap.connection import ProxiedConnection
from harness.tap.exchange import Bend
from harness.tap.exchange_recorder import ExchangeRecorder
from harness.tap.frames import RESPONSE_AT_MOST, FrameBudget, FrameReader, framed
from harness.tap.proxy import Proxy, Tap
from tests.support import tap_frames as frames
from tests.support.tap_exchanges import batch, rows_of

PATIENCE_S = 60  # a guard against hangs
NODE, PROCESS, TOPIC = 1, 5, 3
LOOPBACK = "127.0.0.1"
BASE = 100  # offsets that the broker gives: this plus the partition
OK, FAIL, INFO = 1, 2, 3
UNHEARD = "the client got no answer"
BEHIND = "not passed on: a request before it was dropped"
STRANGER = 999  # an API that nobody knows
Reply = Callable[[bytes], bytes | None]


def send(number: int, *, acks: int = -1, version: int = 9, records: bytes | None = None) -> bytes:
    """A Produce request to the partition of this number, which is the request's number too."""
    given = {"orders": [{"partition": number, "records": batch(count=1) if records is None else records}]}
    named = frames.topics(Api.PRODUCE, version, given)
    return numbered(frames.request_frame(Api.PRODUCE, version, acks=acks, timeout_ms=1000, **named), number)


def beat(number: int) -> bytes:
    """A Heartbeat request."""
    return numbered(frames.request_frame(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m"), number)


def unknown(number: int, api: int = STRANGER, version: int = 0) -> bytes:
    """A request that nobody understands."""
    return struct.pack(">hhih", api, version, number, 2) + b"me" + b"something"


def numbered(frame: bytes, number: int) -> bytes:
    """The request with this correlation id."""
    return codec.with_correlation(frame, number)


def replied(frame: bytes) -> bytes | None:
    """What an honest broker answers: an offset for each send that asks for one, and no errors for all others."""
    header = codec.read_header(frame)
    api, version = header.api, header.version
    if not header.body:
        return frame[4:8] + b"whatever"
    if api == Api.PRODUCE:
        request = codec.decode_request(frame, header)
        if request.acks == 0:
            return None
        parts = codec.request_parts(api, request, frames.world().names)
        told = {"orders": [{"partition": part.partition, "base_offset": BASE + part.partition} for part in parts]}
        return answering(frame, frames.produced(told, version))
    response = codec.CODECS[api].response(version=version)
    return codec.encode_response(response, header.correlation, api, version)


def answering(frame: bytes, response: bytes) -> bytes:
    """A response with the number of the request."""
    return frame[4:8] + response[4:]


class End(asyncio.Protocol):
    """One end of a connection: gathers frames, and remembers how it ended."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.over = False
        self.error: Exception | None = None
        self.transport: asyncio.Transport
        self._reader = FrameReader(RESPONSE_AT_MOST, FrameBudget())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio's interface."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Gather."""
        for frame in self._reader.feed(data):
            self.frames.append(frame)
            self.came(frame)

    def came(self, frame: bytes) -> None:
        """A frame is whole."""

    def connection_lost(self, error: Exception | None) -> None:
        """The tap hung up, or we did."""
        self.over, self.error = True, error

    def write(self, *those: bytes) -> None:
        """Send frames, all in one piece."""
        self.transport.write(b"".join(map(framed, those)))


class Client(End):
    """Sends requests whenever a test wants to."""

    @property
    def got(self) -> list[int]:
        """Which requests were answered, in the order of their answers."""
        return [codec.correlation_of(frame) for frame in self.frames]

    async def heard(self, *numbers: int) -> None:
        """Wait for as many answers, which have to be these."""
        await until(lambda: self.over or len(self.frames) >= len(numbers))
        assert self.got == list(numbers)

    async def hung_up_on(self) -> None:
        """Wait for the end."""
        await until(lambda: self.over)


class BrokerEnd(End):
    """The broker's end of one connection."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Only now there is something to write to."""
        super().connection_made(transport)
        self.broker.ends.append(self)

    def came(self, frame: bytes) -> None:
        """Answer as the test says."""
        self.broker.frames.append(frame)
        answer = self.broker.reply(frame)
        if answer is not None and not self.over:
            self.write(answer)


class Broker:
    """Answers as it is told to, and honestly unless told."""

    def __init__(self, reply: Reply = replied) -> None:
        self.reply = reply
        self.frames: list[bytes] = []
        self.ends: list[BrokerEnd] = []

    @property
    def got(self) -> list[int]:
        """The numbers of the requests, in the order in which they came."""
        return [codec.read_header(frame).correlation for frame in self.frames]

    async def heard(self, *numbers: int) -> None:
        """Wait for as many requests, which have to be these."""
        await until(lambda: len(self.frames) >= len(numbers))
        assert self.got == list(numbers)

    def answer(self, *at: int) -> None:
        """The requests that came so-manieth, honestly."""
        self.ends[-1].write(*(replied(self.frames[each]) or b"" for each in at))


class Brief(NamedTuple):
    """What a row says of one send."""

    partition: int | None
    type: int | None
    offset: int | None = None
    name: str | None = None
    detail: str | None = None


class Stage:
    """A tap in front of a broker, while a test plays."""

    def __init__(self, proxy: Proxy, tap: Tap, broker: Broker) -> None:
        self.proxy = proxy
        self.tap = tap
        self.broker = broker
        self.clients: list[Client] = []
        self.segment: Segment  # when it is over

    async def client(self) -> Client:
        """A client that has just connected."""
        _, client = await asyncio.get_running_loop().create_connection(Client, LOOPBACK, self.tap.port)
        self.clients.append(client)
        return client

    async def connection(self) -> ProxiedConnection:
        """The tap's side of the only client, with its broker."""
        await until(lambda: bool(self.broker.ends) and bool(self.proxy.connections))
        (connection,) = self.proxy.connections
        return connection

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """What was recorded."""
        return rows_of(self.segment)

    @property
    def briefly(self) -> list[Brief]:
        """The rows, in short."""
        return [Brief(*(row.get(field) for field in Brief._fields)) for row in self.rows]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the tap tells nobody
            await asyncio.sleep(0.0005)


def play(directory: Path, work: Callable[[Stage], Awaitable[None]], *those: Bend, reply: Reply = replied,
         recorder: type[Recorder] = Recorder) -> Stage:  # fmt: skip
    """Have it happen with these bends, stop the tap, and read what was recorded; nothing may fail or stay behind."""
    path = directory / "0005.segment"

    async def whole() -> Stage:
        failures: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        broker = Broker(reply)
        server = await loop.create_server(lambda: BrokerEnd(broker), LOOPBACK, 0)
        with recorder(path, PROCESS) as recording:
            proxy = Proxy(ExchangeRecorder(recording, {"orders": TOPIC}), frames.world())
            proxy.world.nodes.clear()
            for bend in those:
                proxy.bend(bend)
            stage = Stage(proxy, proxy.open(NODE, (LOOPBACK, server.sockets[0].getsockname()[1])), broker)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await work(stage)
            finally:
                server.close()
                await proxy.close()
                for client in stage.clients:
                    client.transport.abort()
                await until(lambda: all(end.over for end in (*broker.ends, *stage.clients)))
        assert not failures, failures
        assert not asyncio.all_tasks() - {asyncio.current_task()}
        assert proxy.budget.held == 0
        return stage

    stage = asyncio.run(whole())
    stage.segment = Segment(path)
    return stage
