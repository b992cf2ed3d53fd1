"""Metadata answers made to hurt: a million brokers or partitions, and addresses outside of the cluster under test."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.proxy import NOWHERE, TAPS_AT_MOST
from tests.support import tap_frames as frames
from tests.support.tap_wire import BASE, LOOPBACK, NODE, OK, Brief, Stage, answering, numbered, play, replied, send
from tests.unit.foundation.test_metadata_answer import MILLION, millions_of_partitions

VERSION = 7
ASKED = numbered(frames.request_frame(Api.METADATA, VERSION, topics=[], allow_auto_topic_creation=False), 1)


def millions_of_brokers() -> bytes:
    """By hand."""
    broker = struct.pack(">ih", 1, 1) + b"h" + struct.pack(">ih", 9092, -1)
    return struct.pack(">iii", 1, 0, MILLION) + broker * MILLION


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def attack(answer: bytes) -> object:
    """A broker that answers Metadata with this, and all else honestly."""
    return lambda frame: answer if codec.read_header(frame).api == Api.METADATA else replied(frame)


def test_a_million_brokers_end_the_connection_and_no_other(tmp_path: Path) -> None:
    """No tap is opened for them, nobody waits, and the verdict hears of it."""

    async def work(stage: Stage) -> None:
        victim, other = await stage.client(), await stage.client()
        before = descriptors()
        victim.write(ASKED)
        other.write(send(2))
        await other.heard(2)
        await victim.hung_up_on()
        other.write(send(3))
        await other.heard(2, 3)
        assert descriptors() <= before
        assert stage.proxy.taps == [stage.tap]
        assert stage.proxy.counts.refused == 1
        assert stage.proxy.counts.troubles == [
            "node 1 gave a Metadata answer with 1,000,000 brokers: the connection was ended"
        ]

    stage = play(tmp_path, work, reply=attack(millions_of_brokers()))  # type: ignore[arg-type]
    assert Brief(3, OK, BASE + 3) in stage.briefly


def test_a_million_partitions_are_passed_on_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for them may read them; the tap changes the addresses and looks no further."""
    read = codec.decode_response

    def never(frame: bytes, api: int, version: int) -> object:
        assert api != Api.METADATA, "it was decoded"
        return read(frame, api, version)

    async def work(stage: Stage) -> None:
        monkeypatch.setattr(codec, "decode_response", never)
        victim, other = await stage.client(), await stage.client()
        victim.write(ASKED)
        other.write(send(2))
        await other.heard(2)
        await victim.heard(1)
        assert len(victim.frames[0]) > MILLION

    answer = struct.pack(">i", 1) + millions_of_partitions()[4:]
    stage = play(tmp_path, work, reply=attack(answer))  # type: ignore[arg-type]
    (trouble,) = stage.proxy.counts.troubles
    assert "was passed on, and only its brokers were read" in trouble


def names_brokers(*brokers: tuple[int, str, int]) -> object:
    """A broker that names these."""
    listed = [{"node_id": node, "host": host, "port": port, "rack": None} for node, host, port in brokers]
    response = frames.response_frame(
        Api.METADATA, VERSION, brokers=listed, topics=[], cluster_id=None, controller_id=1, throttle_time_ms=0
    )
    return lambda frame: answering(frame, response)


def test_an_address_outside_of_the_cluster_is_refused_by_name(tmp_path: Path) -> None:
    """Clients are sent nowhere; one inside of it gets its tap, and a known node keeps its own."""
    stranger, friend = (8, "elsewhere.example", 9092), (9, "friend", 9092)

    async def work(stage: Stage) -> None:
        stage.proxy.cluster = frozenset({friend[1:], stage.tap.upstream})
        client = await stage.client()
        client.write(ASKED)
        await client.heard(1)
        told = codec.decode_response(client.frames[0], Api.METADATA, VERSION)
        _, tap = stage.proxy.taps
        assert {each.node_id: (each.host, each.port) for each in told.brokers} == {
            NODE: (LOOPBACK, stage.tap.port), 8: NOWHERE, 9: (LOOPBACK, tap.port)
        }  # fmt: skip
        assert tap.upstream == friend[1:]

    known = (NODE, "elsewhere.example", 9093)
    stage = play(tmp_path, work, reply=names_brokers(stranger, friend, known))  # type: ignore[arg-type]
    (trouble,) = stage.proxy.counts.troubles
    assert trouble.startswith("answers name node 8 at elsewhere.example:9092, which is not part of the cluster")


def test_ever_new_brokers_get_taps_up_to_a_limit(tmp_path: Path) -> None:
    """A broker that names others in each answer takes no descriptors without end."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(ASKED)
        await client.heard(1)
        stage.proxy.taps += [stage.tap] * (TAPS_AT_MOST - 2)
        client.write(numbered(ASKED, 2))
        await client.heard(1, 2)
        told = codec.decode_response(client.frames[1], Api.METADATA, VERSION)
        assert [(each.host, each.port) for each in told.brokers][1:] == [NOWHERE]
        del stage.proxy.taps[2:]

    def reply(frame: bytes) -> bytes:
        number = codec.read_header(frame).correlation
        return names_brokers((2, "b", 9092), (100 * number, "c", 9092))(frame)  # type: ignore[operator,no-any-return]

    def second(frame: bytes) -> bytes:
        if codec.read_header(frame).correlation == 1:
            return names_brokers((2, "b", 9092))(frame)  # type: ignore[operator,no-any-return]
        return reply(frame)

    stage = play(tmp_path, work, reply=second)
    (trouble,) = stage.proxy.counts.troubles
    assert trouble == f"answers name more than {TAPS_AT_MOST} brokers; the tap did not connect to the others"
