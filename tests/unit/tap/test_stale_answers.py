"""Nodes that go on telling what they told before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec, stale_answers
from harness.tap.effects import Answer, Effects
from harness.tap.exchange import Exchange
from harness.tap.rule_bend import RuleBend
from tests.support import tap_frames as frames
from tests.support.tap_frames import bend
from tests.support.tap_wire import LOOPBACK, NODE, OK, Client, Stage, answering, numbered, play, replied, send

VERSION = 9


def asking(topic: str = "orders", *, client: str = "me", version: int = VERSION) -> bytes:
    """A question for Metadata."""
    return frames.request_frame(Api.METADATA, version, client, topics=[{"name": topic}])


def leader_is(leader: int, port: int = 1, version: int = VERSION) -> bytes:
    """An answer to it; a second node is at this port."""
    partition = {"partition_index": 0, "leader_id": leader, "replica_nodes": [1], "isr_nodes": [1], "error_code": 0}
    topic = {"name": "orders", "error_code": 0, "is_internal": False, "partitions": [partition]}
    brokers = [{"node_id": NODE, "host": "broker", "port": 9}, {"node_id": 2, "host": LOOPBACK, "port": port}]
    return frames.response_frame(Api.METADATA, version, brokers=brokers, topics=[topic])


def leader_in(response: Any) -> int:
    """Who leads, according to an answer."""
    return int(response.topics[0].partitions[0].leader_id)


def leaders(client: Client, *at: int) -> list[int]:
    """Who leads, according to the answers that came so-manieth."""
    return [leader_in(codec.decode_response(client.frames[each], Api.METADATA, VERSION)) for each in at]


def ask(rule: RuleBend, frame: bytes, leader: int, node: int = 1) -> int:
    """Who leads in the answer that the client gets, when the node would say that it is this one."""
    exchange = frames.exchange(frame, node)
    if effects := rule.on_request(exchange):
        return leader_in(the_answer(effects))
    exchange.response_frame = leader_is(leader, version=exchange.version)
    assert not rule.on_response(exchange)
    return leader


def the_answer(effects: Effects) -> Any:
    """Ours, which is no news."""
    (effect,) = effects
    assert isinstance(effect, Answer)
    assert effect.is_old
    return effect.response


def test_the_first_answer_is_given_again(tmp_path: Path) -> None:
    """With the number of the new request and the taps' addresses, to other clients too; the broker is not asked."""
    told = [1, 2, 3]
    ports = [1, 1, 99]

    def reply(frame: bytes) -> bytes | None:
        if codec.read_header(frame).api != Api.METADATA:
            return replied(frame)
        return answering(frame, leader_is(told.pop(0), ports.pop(0)))

    rule = bend(api="Metadata", action="stale")

    async def work(stage: Stage) -> None:
        first, second = await stage.client(), await stage.client()
        first.write(numbered(asking(), 1))
        await first.heard(1)
        first.write(numbered(asking(), 2), send(3), numbered(asking(), 4))
        await first.heard(1, 2, 3, 4)
        assert leaders(first, 0, 1, 3) == [1, 1, 1]
        second.write(numbered(asking(client="another"), 9))
        await second.heard(9)
        assert leaders(second, 0) == [1]
        assert stage.broker.got == [1, 3]
        brokers = codec.decode_response(second.frames[0], Api.METADATA, VERSION).brokers
        assert {(each.node_id, each.host, each.port) for each in brokers} == {
            (tap.node, LOOPBACK, tap.port) for tap in stage.proxy.taps
        }
        second.write(numbered(asking("bills"), 10))
        await second.heard(9, 10)
        assert leaders(second, 1) == [2], "another question"
        rule.cancel()
        second.write(numbered(asking(), 11))
        await second.heard(9, 10, 11)
        assert leaders(second, 2) == [3]

    stage = play(tmp_path, work, rule, reply=reply)
    assert stage.proxy.acted == {rule.name: 3}
    rows = [row for row in stage.rows if row["api"] == Api.METADATA]
    assert {row["type"] for row in rows} == {OK}
    assert [row.get("name") for row in rows].count(rule.name) == 3


def test_an_old_answer_does_not_move_a_tap(tmp_path: Path) -> None:
    """A broker that has moved since is still found where it is."""
    ports = [1, 99]
    rule = bend(api="Metadata", action="stale", topic="orders")

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(numbered(asking(), 1), numbered(asking("bills"), 2))
        await client.heard(1, 2)
        client.write(numbered(asking(), 3))
        await client.heard(1, 2, 3)
        assert stage.broker.got == [1, 2]
        (other,) = [tap for tap in stage.proxy.taps if tap.node == 2]
        assert other.upstream == (LOOPBACK, 99)

    play(tmp_path, work, rule, reply=lambda frame: answering(frame, leader_is(1, ports.pop(0))))


def test_questions_are_told_apart() -> None:
    """By node, version and body; not by client."""
    rule = bend(api="Metadata", action="stale")
    assert ask(rule, asking(), 1) == 1
    assert ask(rule, asking(client="another"), 2) == 1
    assert ask(rule, asking(), 2, node=2) == 2
    assert ask(rule, asking(version=8), 3) == 3
    assert ask(rule, asking("bills"), 4) == 4
    assert ask(rule, asking(), 5) == 1
    assert (rule.matched, rule.acted) == (6, 2)


def test_only_what_the_rule_is_about() -> None:
    """Other topics, nodes and clients hear what is true now."""
    for keys in ({"topic": "bills"}, {"node": 2}, {"client": "another"}):
        rule = bend(api="Metadata", action="stale", **keys)
        assert [ask(rule, asking(), leader) for leader in (1, 2)] == [1, 2]
        assert rule.acted == 0


def test_so_many_times() -> None:
    """And no more."""
    rule = bend(api="Metadata", action="stale", times=2)
    assert [ask(rule, asking(), leader) for leader in (1, 2, 3, 4)] == [1, 1, 1, 4]


def test_any_api_that_is_named() -> None:
    """A group's offsets, for example."""
    rule = bend(api="Heartbeat", action="stale")
    asked = frames.exchange(frames.request_frame(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m"))
    assert not rule.on_request(asked)
    asked.response_frame = frames.response_frame(Api.HEARTBEAT, 3, error_code=27)
    rule.on_response(asked)
    assert the_answer(rule.on_request(asked)).error_code == 27


def test_what_is_no_answer_is_not_remembered() -> None:
    """It was passed on as it was, and the next one may be better."""
    rule = bend(api="Metadata", action="stale")
    asked: Exchange = frames.exchange(asking(), response=b"\x00\x00\x00\x2a\xff\xff")
    assert not rule.on_response(asked)
    assert [ask(rule, asking(), leader) for leader in (1, 2)] == [1, 1]


@pytest.mark.parametrize(("limit", "value"), [("ANSWERS_AT_MOST", 1), ("BYTES_AT_MOST", 200)])
def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """What it has it keeps; later questions are asked every time."""
    monkeypatch.setattr(stale_answers, limit, value)
    rule = bend(api="Metadata", action="stale")
    assert [ask(rule, asking(), leader) for leader in (1, 2)] == [1, 1]
    assert [ask(rule, asking("bills"), leader) for leader in (1, 2)] == [1, 2]
    assert ask(rule, asking(), 3) == 1
