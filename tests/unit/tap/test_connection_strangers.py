"""Strangers on a connection: what the tap cannot or does not read, garbage among sense, and what is recorded of it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import MODEST_BYTES
from harness.tap.exchange_recorder import NOT_UNDERSTOOD
from tests.support import tap_frames as frames
from tests.support.tap_exchanges import batch
from tests.support.tap_wire import BASE, INFO, OK, STRANGER, Brief, Stage, numbered, play, replied, send, unknown, until


def test_the_old_way_to_authenticate_blinds_the_tap(tmp_path: Path) -> None:
    """What follows is passed on as it is, both ways, and the verdict hears of it."""

    def reply(frame: bytes) -> bytes | None:
        return b"welcome" if frame == b"secret" else b"" if frame == b"" else replied(frame)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(numbered(frames.request_frame(Api.SASL_HANDSHAKE, 0, mechanism="PLAIN"), 1))
        await client.heard(1)
        client.write(b"secret")
        await until(lambda: len(client.frames) == 2)
        client.write(send(3))
        await until(lambda: len(client.frames) == 3)
        assert stage.broker.frames[1:] == [b"secret", send(3)]
        assert client.frames[1:] == [b"welcome", replied(send(3))]
        assert stage.proxy.counts.exchanges == 1
        (trouble,) = stage.proxy.counts.troubles
        assert "SaslHandshake 0" in trouble

    (row,) = play(tmp_path, work, reply=reply).rows
    assert row["api"] == Api.SASL_HANDSHAKE


@pytest.mark.parametrize(("api", "version", "strangers"), [(STRANGER, 0, 1), (Api.METADATA, 99, 0)])
def test_what_nobody_understands_passes(tmp_path: Path, api: int, version: int, strangers: int) -> None:
    """Byte for byte both ways, and is counted."""
    asked = unknown(1, api, version)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(asked, send(2))
        await client.heard(1, 2)
        assert stage.broker.frames == [asked, send(2)]
        assert client.frames == [replied(asked), replied(send(2))]
        assert (stage.proxy.seer.not_understood, stage.proxy.seer.unknown_apis) == (1, strangers)

    stage = play(tmp_path, work)
    assert stage.briefly == [Brief(None, OK, detail=NOT_UNDERSTOOD), Brief(2, OK, BASE + 2)]
    assert (stage.rows[0]["api"], stage.rows[0]["api_version"]) == (api, version)


def test_requests_before_garbage_are_passed_on(tmp_path: Path) -> None:
    """In one piece with it: the broker gets them, and then the connection is refused."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.transport.write(struct.pack(">i", len(send(1))) + send(1) + b"\xff\xff\xff\xff")
        await client.hung_up_on()
        await until(lambda: stage.broker.ends[0].over)
        assert stage.broker.got == [1]
        assert stage.proxy.counts.refused == 1

    why = "refused: a frame of -1 bytes"
    refused, sent = play(tmp_path, work).briefly
    assert refused == Brief(None, None, detail=why)
    assert sent == Brief(1, INFO, detail=f"no answer: {why}")


def test_answers_before_garbage_are_passed_on(tmp_path: Path) -> None:
    """The client gets what was right, and then the end."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await stage.broker.heard(1, 2)
        answer = replied(send(1)) or b""
        stage.broker.ends[0].transport.write(struct.pack(">i", len(answer)) + answer + b"\xff\xff\xff\xff")
        await client.hung_up_on()
        assert client.got == [1]

    why = "refused: a frame of -1 bytes"
    rows = play(tmp_path, work, reply=lambda _: None).briefly
    assert rows == [Brief(1, OK, BASE + 1), Brief(None, None, detail=why), Brief(2, INFO, detail=f"no answer: {why}")]


def test_a_large_request_of_many_names_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes as it is: to look into it would hold up everybody."""
    many = 400_000
    asked = struct.pack(">hhih", Api.METADATA, 1, 1, 2) + b"me" + struct.pack(">i", many) + b"\x00\x01a" * many
    assert len(asked) > MODEST_BYTES

    def never(*_: object) -> None:
        pytest.fail("it was decoded")

    async def work(stage: Stage) -> None:
        monkeypatch.setattr(codec, "decode_request", never)
        client = await stage.client()
        client.write(asked)
        await client.heard(1)
        assert stage.broker.frames == [asked]

    stage = play(tmp_path, work, reply=lambda frame: frame[4:8] + b"whatever")
    assert stage.briefly == [Brief(None, OK, detail=NOT_UNDERSTOOD)]


@pytest.mark.parametrize("version", [3, 9])
def test_a_large_send_is_read(tmp_path: Path, version: int) -> None:
    """Large requests of few parts are what producers send."""
    count = MODEST_BYTES // 5

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1, version=version, records=batch(count=count)))
        await client.heard(1)

    stage = play(tmp_path, work)
    assert stage.briefly == [Brief(1, OK, BASE + 1)]
    assert stage.rows[0]["count"] == count


def test_a_send_of_the_future_without_an_answer(tmp_path: Path) -> None:
    """Whether it asks for one cannot be read: when what came after it is answered, it did not."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(unknown(1, Api.PRODUCE, 99), send(2))
        await stage.broker.heard(1, 2)
        stage.broker.answer(1)
        await client.heard(2)

    (future, sent) = play(tmp_path, work, reply=lambda _: None).briefly
    assert (future.type, sent) == (INFO, Brief(2, OK, BASE + 2))


def test_an_answer_to_nothing_is_passed_on(tmp_path: Path) -> None:
    """Clients shall see what such a broker does to them; there is no exchange to record."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await stage.broker.heard(1)
        stage.broker.ends[0].write(struct.pack(">i", 77) + b"what?", b"no", replied(send(1)) or b"")
        await until(lambda: len(client.frames) == 3)
        assert client.frames == [struct.pack(">i", 77) + b"what?", b"no", replied(send(1))]

    assert play(tmp_path, work, reply=lambda _: None).briefly == [Brief(1, OK, BASE + 1)]
