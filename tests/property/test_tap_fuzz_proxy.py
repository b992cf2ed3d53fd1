"""A real tap on loopback between hostile clients, hostile brokers and one honest pair, which must notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.foundation.protocol import Api
from harness.history.recorder import Recorder
from harness.tap import codec
from harness.tap.codec import TopicNames
from harness.tap.exchange import TapContext
from harness.tap.exchange_recorder import ExchangeRecorder
from harness.tap.frames import REQUEST_AT_MOST, framed
from harness.tap.proxy import Proxy, Tap
from harness.tap.rules import Rule, bends
from tests.support import tap_frames as frames

PATIENCE_S = 60  # a guard against hangs
HONEST, HOSTILE = 1, 2
QUESTION = frames.request_frame(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m")
RULES = (
    Rule(action="answer", api=("Produce", "Fetch"), topic="*", partition=(1,), with_="NOT_LEADER_OR_FOLLOWER"),
    Rule(action="rewrite", api=("Fetch",), fields={"high_watermark": "-5"}),
    Rule(action="duplicate-request", api=("ListOffsets", "Metadata")),
    Rule(action="hold", api=("Produce",), at_most=0.0),
    Rule(action="stale", api=("Metadata", "FindCoordinator", "ApiVersions")),
    Rule(action="close", api=("Produce",), topic="closed", by=0.0),
    Rule(action="delay", api=("FindCoordinator",), by=0.0),
)
REAL = [
    frames.produce({"orders": [0, 1], "bills": [2]}, 3),
    frames.produce({"orders": [0, 1]}, 13),
    frames.produce({"orders": [0]}, acks=0),
    frames.fetch({"orders": [0, 1]}, 4),
    frames.fetch({"orders": [0, 1]}, 16, session=(0, 0)),
    frames.request_frame(Api.METADATA, 9, topics=[{"name": "orders"}]),
    frames.request_frame(Api.API_VERSIONS, 3),
    frames.request_frame(Api.FIND_COORDINATOR, 4, coordinator_keys=["g"]),
    frames.request_frame(Api.LIST_OFFSETS, 7),
    frames.request_frame(Api.SASL_HANDSHAKE, 0, mechanism="PLAIN"),
    QUESTION,
]
CLOSING = frames.produce({"closed": [0]})
BLINDING = [frame for frame in REAL if codec.read_header(frame)[:2] == (Api.SASL_HANDSHAKE, 0)]
NONSENSE = ("could not be carried out", "that the tap cannot read", "SaslHandshake 0")  # all that chance may bring

SEGMENTS = itertools.count()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), signed=True))


def answer_to(frame: bytes) -> bytes:
    """A broker's response, empty and without errors; for what it does not know, the rest of the request."""
    try:
        header = codec.read_header(frame)
        response = codec.CODECS[header.api].response(version=header.version)
        return codec.encode_response(response, header.correlation, header.api, header.version)
    except Exception:  # noqa: BLE001 - whatever it is, something goes back
        return frame[4:]


async def honest_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each frame."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            frame = await read_frame(reader)
            if len(frame) >= 8:
                writer.write(framed(answer_to(frame)))
    writer.close()


def hostile_broker(content: bytes) -> Serve:
    """Answers the first frame with these bytes, and leaves."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await read_frame(reader)
            writer.write(content)
        writer.close()

    return serve


class Bench:
    """A tap in front of an honest broker and one in front of another."""

    def __init__(self, proxy: Proxy, honest: Tap, hostile: Tap) -> None:
        self.proxy = proxy
        self.honest = honest
        self.hostile = hostile

    async def connect(self, tap: Tap) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client of it."""
        return await asyncio.open_connection("127.0.0.1", tap.port)

    async def attack(self, tap: Tap, chunks: list[bytes], end: str = "half-close") -> None:
        """Send this piece by piece, end so, and wait until the tap has had enough."""
        reader, writer = await self.connect(tap)
        with contextlib.suppress(ConnectionError):
            for chunk in chunks:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(0)
            if end == "half-close":
                writer.write_eof()
                await reader.read()
        if end == "reset":
            writer.transport.abort()
        await leave(writer)


async def leave(writer: asyncio.StreamWriter) -> None:
    """Hang up."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the tap tells nobody
            await asyncio.sleep(0.001)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An honest question and its answer."""
    writer.write(framed(QUESTION))
    answer = codec.decode_response(await read_frame(reader), Api.HEARTBEAT, 3)
    assert answer.error_code == 0


@contextlib.asynccontextmanager
async def bench(directory: Path, broker: Serve = honest_broker, troubles: Sequence[str] = ()) -> AsyncIterator[Bench]:
    """Taps with rules, and honest clients that are served before and after whatever happens; these troubles at most."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    honest_server = await asyncio.start_server(honest_broker, "127.0.0.1", 0)
    other_server = await asyncio.start_server(broker, "127.0.0.1", 0)
    with Recorder(directory / f"segment-{next(SEGMENTS)}", 5) as recorder:
        proxy = Proxy(ExchangeRecorder(recorder, {}), TapContext(TopicNames(), {}))
        for bend in bends(RULES, 1):
            proxy.bend(bend)
        honest = proxy.open(HONEST, ("127.0.0.1", honest_server.sockets[0].getsockname()[1]))
        hostile = proxy.open(HOSTILE, ("127.0.0.1", other_server.sockets[0].getsockname()[1]))
        made = Bench(proxy, honest, hostile)
        try:
            reader, writer = await made.connect(honest)
            await ask(reader, writer)
            yield made
            await ask(reader, writer)
            late_reader, late_writer = await made.connect(honest)
            await ask(late_reader, late_writer)
            await leave(writer)
            await leave(late_writer)
        finally:
            await proxy.close()
            for server in (honest_server, other_server):
                server.close()
            await asyncio.sleep(0.01)  # for the brokers' sides of connections, which nobody waits for
    assert not failures, failures
    assert all(any(part in trouble for part in troubles) for trouble in proxy.counts.troubles)
    assert proxy.budget.held == 0


def run(work: Coroutine[Any, Any, None]) -> None:
    """To its end."""
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


WHOLE = st.sampled_from([*REAL, CLOSING])
FLIPPED = st.builds(frames.flip, WHOLE, st.lists(st.integers(0, 8 * 300), min_size=1, max_size=4))
TORN = st.builds(lambda frame, at: framed(frame)[: at % len(frame)], WHOLE, st.integers(1, 300))
LENGTHS = st.sampled_from([-1, -(2**31), 2**31 - 1, REQUEST_AT_MOST + 1, REQUEST_AT_MOST, 3])
OVERSIZED = st.builds(lambda length, rest: length.to_bytes(4, signed=True) + rest, LENGTHS, st.binary(max_size=50))
HOSTILE_BYTES = st.one_of(st.binary(max_size=200), FLIPPED.map(framed), WHOLE.map(framed), TORN, OVERSIZED)
ENDS = st.sampled_from(["half-close", "close", "reset"])
FEW = settings(max_examples=60)


@FEW
@given(st.lists(HOSTILE_BYTES, min_size=1, max_size=5), ENDS)
def test_hostile_clients(tmp_path: Path, chunks: list[bytes], end: str) -> None:
    """Other connections are served, nothing fails inside, and nothing stays behind."""

    async def work() -> None:
        async with bench(tmp_path, troubles=NONSENSE) as made:
            await made.attack(made.hostile, chunks, end)
            assert 0 <= made.proxy.budget.held <= sum(map(len, chunks))

    run(work())


@FEW
@given(st.lists(HOSTILE_BYTES, min_size=1, max_size=3), WHOLE)
def test_hostile_brokers(tmp_path: Path, answers: list[bytes], question: bytes) -> None:
    """The same, when it is the broker that sends what it likes."""

    async def work() -> None:
        async with bench(tmp_path, hostile_broker(b"".join(answers)), troubles=NONSENSE) as made:
            await made.attack(made.hostile, [framed(question)])

    run(work())


ENDPOINTS = [{"node_id": 2, "host": "127.0.0.1", "port": 1, "rack": None}]
TWO = {"orders": [0, 1]}
PAIRS = [
    (frames.request_frame(Api.METADATA, 9, topics=[{"name": "orders"}]), frames.metadata(9)),
    (frames.request_frame(Api.METADATA, 1, topics=[{"name": "orders"}]), frames.metadata(1)),
    (frames.produce(TWO, 9), frames.produced(frames.response_parts(TWO), 9)),
    (frames.produce(TWO, 13), frames.produced(frames.response_parts(TWO, error_code=6), 13)),
    (frames.fetch(TWO, 4), frames.fetched(frames.response_parts(TWO), 4)),
    (frames.fetch(TWO, 16), frames.fetched(frames.response_parts(TWO, error_code=6, records=bytes(70)), 16)),
    (
        frames.request_frame(Api.FIND_COORDINATOR, 1, key="g"),
        frames.response_frame(Api.FIND_COORDINATOR, 1, error_code=0, node_id=2, host="127.0.0.1", port=1),
    ),
    (
        frames.request_frame(Api.API_VERSIONS, 2),
        frames.response_frame(Api.API_VERSIONS, 2, api_keys=[{"api_key": 3, "min_version": 0, "max_version": 99}]),
    ),
    (
        frames.request_frame(Api.FETCH, 16, max_wait_ms=1, min_bytes=1),
        frames.response_frame(Api.FETCH, 16, node_endpoints=ENDPOINTS),
    ),
]


@FEW
@given(st.sampled_from(PAIRS), st.lists(st.integers(0, 8 * 200), max_size=4))
def test_brokers_that_answer_nearly_right(tmp_path: Path, pair: tuple[bytes, bytes], bits: list[int]) -> None:
    """Responses with some bits turned behind their number."""

    async def work() -> None:
        question, response = pair
        async with bench(
            tmp_path, hostile_broker(framed(response[:4] + frames.flip(response[4:], bits))), troubles=NONSENSE
        ) as made:
            await made.attack(made.hostile, [framed(question)])

    run(work())


def test_claims_of_many_clients(tmp_path: Path) -> None:
    """Fifty frames of 100 MiB that never come cost what came of them."""

    async def work() -> None:
        async with bench(tmp_path) as made:
            claim = REQUEST_AT_MOST.to_bytes(4) + bytes(10)
            tracemalloc.start()
            clients = [await made.connect(made.hostile) for _ in range(50)]
            for _, writer in clients:
                writer.write(claim)
            await until(lambda: made.proxy.budget.held >= 50 * len(claim))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert made.proxy.budget.held == 50 * len(claim)
            assert peak < 50 * 1024 * 1024
            for _, writer in clients:
                await leave(writer)
            await until(lambda: made.proxy.budget.held == 0)

    run(work())


def test_more_than_there_is_room_for(tmp_path: Path) -> None:
    """Who goes beyond what all may hold together is refused; others are not."""

    async def work() -> None:
        async with bench(tmp_path) as made:
            made.proxy.budget.at_most, made.proxy.budget.spared = 10_000, 1_000
            await made.attack(made.hostile, [REQUEST_AT_MOST.to_bytes(4), bytes(9_000), bytes(9_000)])
            assert made.proxy.counts.refused == 1

    run(work())


def test_a_client_that_sends_byte_by_byte(tmp_path: Path) -> None:
    """Is answered like any other."""

    async def work() -> None:
        async with bench(tmp_path) as made:
            reader, writer = await made.connect(made.hostile)
            for byte in framed(QUESTION):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            answer = codec.decode_response(await read_frame(reader), Api.HEARTBEAT, 3)
            assert answer.error_code == 0
            await leave(writer)

    run(work())


@pytest.mark.parametrize("question", REAL, ids=lambda frame: f"{codec.read_header(frame).api}")
def test_each_real_request_gets_through(tmp_path: Path, question: bytes) -> None:
    """The bench is no desert: what is right is answered, and what comes behind it too."""

    async def work() -> None:
        async with bench(tmp_path, troubles=NONSENSE[2:] if question in BLINDING else ()) as made:
            reader, writer = await made.connect(made.hostile)
            writer.write(framed(question) + framed(QUESTION))
            answers = [await read_frame(reader), await read_frame(reader)]
            assert all(codec.correlation_of(answer) == frames.CORRELATION for answer in answers)
            await leave(writer)

    run(work())
