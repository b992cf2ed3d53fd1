"""A connection through the tap: who gets what in which order when something is bent, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tap import codec
from harness.tap.codec import Api
from harness.tap.connection import GHOSTS_BEGIN, SECOND
from tests.tap_frames import bend
from tests.tap_wire import (
    BASE,
    BEHIND,
    FAIL,
    INFO,
    OK,
    UNHEARD,
    Brief,
    Stage,
    beat,
    play,
    send,
    until,
)

NOT_LEADER = 6
STOPPED = "the tap was stopped"


def ok(number: int, name: str | None = None) -> Brief:
    """A send that went well."""
    return Brief(number, OK, BASE + number, name)


def test_answers_of_the_tap_wait_for_their_turn(tmp_path: Path) -> None:
    """What the tap answers itself comes between the answers of the broker, in the order of the requests."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await stage.broker.heard(1, 3)
        assert client.got == []
        stage.broker.answer(0, 1)
        await client.heard(1, 2, 3)
        answer = codec.decode_response(client.frames[1], Api.PRODUCE, 9)
        assert answer.responses[0].partition_responses[0].error_code == NOT_LEADER

    rule = bend(action="answer", nth=2, with_="NOT_LEADER_OR_FOLLOWER")
    stage = play(tmp_path, work, rule, reply=lambda _: None)
    assert stage.briefly == [ok(1), Brief(2, OK, None, rule.name), ok(3)]
    assert [row.get("error") for row in stage.rows] == [0, NOT_LEADER, 0]


def test_an_answered_partition_is_taken_out_of_the_request(tmp_path: Path) -> None:
    """A request of which nothing is left does not reach the broker; the client cannot tell."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await client.heard(1, 2)
        assert stage.broker.got == [2]

    rule = bend(action="answer", partition=1, with_="NOT_LEADER_OR_FOLLOWER")
    assert play(tmp_path, work, rule).briefly == [Brief(1, OK, None, rule.name), ok(2)]


def test_a_delayed_answer_delays_those_behind_it(tmp_path: Path) -> None:
    """All of them come, in order."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await client.heard(1, 2, 3)
        assert stage.broker.got == [1, 2, 3]

    rule = bend(action="delay", by="20ms", side="response", nth=1)
    assert play(tmp_path, work, rule).briefly == [ok(1, rule.name), ok(2), ok(3)]


def test_a_held_answer_holds_those_behind_it(tmp_path: Path) -> None:
    """The broker has answered everything; the client hears of it when the first is let go."""
    rule = bend(action="hold", side="response", nth=1)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        connection = await stage.connection()
        await until(lambda: len(connection._slots) == 2 and connection._slots[1].done)
        assert client.got == []
        rule.release()
        await client.heard(1, 2)

    assert play(tmp_path, work, rule).briefly == [ok(1, rule.name), ok(2)]


def test_a_held_request_holds_those_behind_it(tmp_path: Path) -> None:
    """The broker sees none of them, and then all in order."""
    rule = bend(action="hold", nth=1)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        connection = await stage.connection()
        await until(lambda: len(connection._queue) == 2)
        assert stage.broker.got == []
        rule.release()
        await client.heard(1, 2, 3)
        assert stage.broker.got == [1, 2, 3]

    assert play(tmp_path, work, rule).briefly == [ok(1, rule.name), ok(2), ok(3)]


def test_a_delayed_request_delays_those_behind_it(tmp_path: Path) -> None:
    """The order stays."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await client.heard(1, 2, 3)
        assert stage.broker.got == [1, 2, 3]

    rule = bend(action="delay", by="20ms", nth=2)
    assert play(tmp_path, work, rule).briefly == [ok(1), ok(2, rule.name), ok(3)]


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_dropped_answer_cuts_the_client_off(tmp_path: Path, then: str) -> None:
    """The broker has acted, and on what came behind it too: all that is recorded with its offsets, as not received."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await client.hung_up_on()
        assert client.got == [1]
        assert isinstance(client.error, ConnectionResetError) == (then == "reset")
        await until(lambda: not stage.proxy.connections)
        assert stage.broker.got == [1, 2, 3]

    rule = bend(action="drop-response", nth=2, then=then)
    unheard = [Brief(2, INFO, BASE + 2, rule.name, UNHEARD), Brief(3, INFO, BASE + 3, None, UNHEARD)]
    assert play(tmp_path, work, rule).briefly == [ok(1), *unheard]


def test_an_answer_dropped_in_silence(tmp_path: Path) -> None:
    """Nothing more arrives at the client, which cannot know that the broker goes on."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await stage.broker.heard(1, 2)
        client.write(send(3))
        await stage.broker.heard(1, 2, 3)
        connection = await stage.connection()
        await until(lambda: not connection._slots)
        client.transport.write_eof()
        await client.hung_up_on()
        assert client.got == []

    rule = bend(action="drop-response", nth=1)
    unheard = [Brief(n, INFO, BASE + n, None, UNHEARD) for n in (2, 3)]
    assert play(tmp_path, work, rule).briefly == [Brief(1, INFO, BASE + 1, rule.name, UNHEARD), *unheard]


@pytest.mark.parametrize("action", [{"action": "drop-request", "then": "close"}, {"action": "close"},
                                    {"action": "drop-request", "then": "reset"}, {"action": "reset"}])  # fmt: skip
def test_a_dropped_request_that_ends_the_connection(tmp_path: Path, action: dict[str, str]) -> None:
    """Neither it nor what is behind it reaches the broker; what came before it is answered first."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await stage.broker.heard(1)
        stage.broker.answer(0)
        await client.hung_up_on()
        assert isinstance(client.error, ConnectionResetError) == ("reset" in action.values())
        if client.error is None:
            assert client.got == [1]
        await until(lambda: stage.broker.ends[0].over)
        assert stage.broker.got == [1]

    rule = bend(**action, nth=2)
    stage = play(tmp_path, work, rule, reply=lambda _: None)
    assert sorted(stage.briefly[:2]) == [Brief(2, FAIL, None, rule.name, UNHEARD), Brief(3, FAIL, None, None, BEHIND)]
