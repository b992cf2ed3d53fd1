"""A connection through the tap that nobody bends: ends, addresses, strangers, crowds, and what is recorded of them."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.history.recorder import Recorder
from harness.tap.connection import WAITING_REQUESTS_AT_MOST
from harness.tap.effects import CHANGED, Answer, Effects
from harness.tap.exchange import Bend, Exchange
from tests.support.tap_frames import bend
from tests.support.tap_wire import (
    BASE,
    INFO,
    LOOPBACK,
    NODE,
    OK,
    Brief,
    Stage,
    beat,
    numbered,
    play,
    replied,
    send,
    unknown,
    until,
)


def test_a_broker_that_closes_the_connection(tmp_path: Path) -> None:
    """Nobody knows what became of the requests; the client is told by the end of its own connection."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await stage.broker.heard(1, 2, 3)
        stage.broker.answer(0)
        stage.broker.ends[0].transport.close()
        await client.hung_up_on()
        assert client.got == [1]

    why = "no answer: the broker closed the connection"
    open_ones = [Brief(n, INFO, detail=why) for n in (2, 3)]
    assert play(tmp_path, work, reply=lambda _: None).briefly == [Brief(1, OK, BASE + 1), *open_ones]


def test_a_broker_that_resets_the_connection(tmp_path: Path) -> None:
    """That is a row of its own, without an operation."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await stage.broker.heard(1)
        transport = stage.broker.ends[0].transport
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
        await client.hung_up_on()
        assert client.got == []

    broken, sent = play(tmp_path, work, reply=lambda _: None).rows
    assert broken["error"] == -1
    assert broken["detail"].startswith("the broker hung up: ")
    assert "op" not in broken
    assert sent["type"] == INFO
    assert sent["detail"].startswith("no answer: the broker closed the connection (")


def test_a_broker_that_cannot_be_reached(tmp_path: Path) -> None:
    """The client is reset, and the row says which node it was and why."""

    async def work(stage: Stage) -> None:
        with socket.socket() as unused:
            unused.bind((LOOPBACK, 0))
            stage.tap.upstream = unused.getsockname()
            client = await stage.client()
            await client.hung_up_on()
        assert isinstance(client.error, ConnectionResetError)
        assert not stage.proxy.connections

    (row,) = play(tmp_path, work).rows
    assert (row["error"], row["node"], row["connection"]) == (-1, NODE, 1)
    assert "Connect call failed" in row["detail"]
    assert "type" not in row


def test_a_client_that_does_not_read(tmp_path: Path) -> None:
    """The broker is not read either until the client is ready; nothing is lost, and the order stays."""
    large, many = bytes(1024 * 1024), 24

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.transport.pause_reading()
        client.write(*(unknown(number) for number in range(many)))
        connection = await stage.connection()
        await until(lambda: connection.broker._reasons == {"writing"})
        assert connection.broker.transport is not None
        assert not connection.broker.transport.is_reading()
        client.transport.resume_reading()
        await client.heard(*range(many))
        assert {len(frame) for frame in client.frames} == {4 + len(large)}
        assert connection.broker.transport.is_reading()

    stage = play(tmp_path, work, reply=lambda frame: frame[4:8] + large)
    assert [row["type"] for row in stage.rows] == [OK] * many


def test_a_broker_that_does_not_read(tmp_path: Path) -> None:
    """The same the other way."""
    large, many = unknown(0) + bytes(1024 * 1024), 24

    async def work(stage: Stage) -> None:
        client = await stage.client()
        connection = await stage.connection()
        stage.broker.ends[0].transport.pause_reading()
        client.write(*(numbered(large, number) for number in range(many)))
        await until(lambda: connection.client._reasons == {"writing"})
        stage.broker.ends[0].transport.resume_reading()
        await client.heard(*range(many))
        assert stage.broker.got == list(range(many))
        assert not connection.client._reasons

    play(tmp_path, work)


def test_requests_that_nobody_answers_are_not_taken_without_end(tmp_path: Path) -> None:
    """The client is not read until some are answered; what it sent meanwhile stays with it."""
    first = WAITING_REQUESTS_AT_MOST + 1

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(*(unknown(number) for number in range(first)))
        connection = await stage.connection()
        await until(lambda: connection.client._reasons == {"full"})
        await until(lambda: len(stage.broker.frames) == first)
        client.write(unknown(first))
        assert connection.client.transport is not None
        assert not connection.client.transport.is_reading()
        assert len(connection._slots) == first
        assert connection._waiting_bytes == sum(map(len, stage.broker.frames))
        stage.broker.answer(*range(first))
        await until(lambda: len(stage.broker.frames) == first + 1)
        stage.broker.answer(first)
        await client.heard(*range(first + 1))
        assert connection._waiting_bytes == 0
        assert not connection.client._reasons

    stage = play(tmp_path, work, reply=lambda _: None)
    assert sum(frame.rows for frame in stage.segment.frames()) == first + 1


class Clumsy(Bend):
    """Fails whatever it is asked."""

    name = "clumsy"
    apis = frozenset({Api.PRODUCE})

    def __init__(self, when: str) -> None:
        self.when = when

    def on_request(self, exchange: Exchange) -> tuple[()]:
        """At the request."""
        return self._fail("request")

    def on_response(self, exchange: Exchange) -> tuple[()]:
        """At the response."""
        return self._fail("response")

    def _fail(self, when: str) -> tuple[()]:
        if when == self.when:
            raise RuntimeError("oh dear")
        return ()


@pytest.mark.parametrize("when", ["request", "response"])
def test_a_bend_that_fails(tmp_path: Path, when: str) -> None:
    """What it was asked about passes untouched, and the verdict hears of it."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), beat(2))
        await client.heard(1, 2)
        assert stage.broker.frames[0] == send(1)
        assert client.frames[0] == replied(send(1))
        assert stage.proxy.counts.troubles == ["clumsy failed: RuntimeError: oh dear"]

    assert play(tmp_path, work, Clumsy(when)).briefly[0] == Brief(1, OK, BASE + 1)


class Eager(Bend):
    """Answers sends in the broker's place, as a whole or partition by partition."""

    name = "eager"
    apis = frozenset({Api.PRODUCE})

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole

    def on_request(self, exchange: Exchange) -> Effects:
        """Whatever it asks for."""
        if self.whole:
            return (Answer(exchange.error_response(6)),)
        for part in exchange.request_parts():
            exchange.answer_part(part, base_offset=7)
        return (CHANGED,)


@pytest.mark.parametrize("whole", [True, False])
def test_an_answer_that_nobody_asked_for(tmp_path: Path, whole: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    """A bend may answer a send that asks for no acknowledgement: the client does not hear of it, nor of its offset."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1, acks=0), beat(2))
        await client.heard(2)
        assert stage.broker.got == [2]

    assert play(tmp_path, work, Eager(whole=whole)).briefly[0] == Brief(1, INFO, name="eager")


class FullDisk(Recorder):
    """Has no room for a while, for rows and for texts that are new."""

    full = False

    def append(self, kind: Any, rows: int, body: bytes | bytearray) -> None:
        """Part of the recorder."""
        self._fail()
        super().append(kind, rows, body)

    def text(self, text: str) -> int:
        """Part of the recorder."""
        if text not in self._texts:
            self._fail()
        return super().text(text)

    def _fail(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "no room")


@contextmanager
def full_disk(stage: Stage) -> Iterator[None]:
    """No room inside the block, for a tap that writes each row at once."""
    stage.proxy.seer._flush_rows = 1
    recorder = stage.proxy.seer._recorder
    assert isinstance(recorder, FullDisk)
    recorder.full = True
    try:
        yield
    finally:
        recorder.full = False


def test_a_full_disk_does_not_stop_the_traffic(tmp_path: Path) -> None:
    """It is remembered for whoever asks, and what could not be written is written when there is room again."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await client.heard(1)
        with full_disk(stage):
            client.write(send(2))
            await client.heard(1, 2)
            assert isinstance(stage.proxy.seer.disk_error, OSError)
        client.write(send(3))
        await client.heard(1, 2, 3)

    assert play(tmp_path, work, recorder=FullDisk).briefly == [Brief(n, OK, BASE + n) for n in (1, 2, 3)]


def test_a_full_disk_and_a_client_of_a_new_name(tmp_path: Path) -> None:
    """Its name cannot be written: that is the same."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        with full_disk(stage):
            client.write(send(1))
            await client.heard(1)
            assert isinstance(stage.proxy.seer.disk_error, OSError)
            assert not client.over

    play(tmp_path, work, recorder=FullDisk)


def test_a_full_disk_and_a_connection_that_fails(tmp_path: Path) -> None:
    """The client is told all the same."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        await stage.connection()
        with full_disk(stage):
            client.transport.write(b"\xff\xff\xff\xff")
            await client.hung_up_on()
            await until(lambda: not stage.proxy.connections)
            assert isinstance(stage.proxy.seer.disk_error, OSError)

    play(tmp_path, work, recorder=FullDisk)


def test_who_bent_something_is_known(tmp_path: Path) -> None:
    """An exchange counts once, however many bend it on both ways; who never had anything to do is named."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await client.heard(1, 2)

    there = bend(name="there", action="delay", by=0.001, nth=1)
    back = bend(name="back", action="delay", by=0.001, side="response", nth=1)
    stage = play(tmp_path, work, there, back, bend(name="idle", action="close", client="nobody"))
    assert (stage.proxy.counts.bent, stage.proxy.idle) == (1, ["idle"])
    assert stage.proxy.acted == {"there": 1, "back": 1}
    assert [row.get("name") for row in stage.rows] == ["there,back", None]
