"""A connection whose exchanges are bent: who gets what in which order, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec, connection
from harness.tap.connection import GHOSTS_BEGIN, SECOND
from tests.support.tap_frames import bend
from tests.support.tap_wire import BASE, BEHIND, FAIL, INFO, OK, UNHEARD, Brief, Stage, beat, play, send, until

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
        assert isinstance(client.error, ConnectionResetError) == (then == "reset")
        if then == "close":
            assert client.got == [1]
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
        connection = await stage.connection()
        await until(lambda: connection._mute)
        stage.broker.ends[0].write(b"an answer to nothing")
        client.write(send(3))
        await stage.broker.heard(1, 2, 3)
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
    behind = Brief(3, FAIL, None, None, BEHIND)
    assert stage.briefly == [behind, ok(1), Brief(2, FAIL, None, rule.name, UNHEARD)]


@pytest.mark.parametrize("action", ["close", "reset"])
def test_a_slow_close(tmp_path: Path, action: str) -> None:
    """Nothing passes any more, neither what came before nor what comes behind; then the connection ends."""
    rule = bend(action=action, nth=2, by="10m")

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await stage.broker.heard(1)
        connection = await stage.connection()
        stage.broker.answer(0)
        await until(lambda: len(connection._slots) == 1)
        assert (client.got, client.over) == ([], False)
        rule.cancel()
        await client.hung_up_on()
        assert isinstance(client.error, ConnectionResetError) == (action == "reset")
        await until(lambda: not stage.proxy.connections)
        assert (client.got, stage.broker.got) == ([], [1])

    stage = play(tmp_path, work, rule, reply=lambda _: None)
    unheard = [Brief(1, INFO, BASE + 1, None, UNHEARD), Brief(2, FAIL, None, rule.name, UNHEARD)]
    assert stage.briefly == [*unheard, Brief(3, FAIL, None, None, BEHIND)]


def test_a_slow_close_waits_for_no_answer(tmp_path: Path) -> None:
    """When its time is over, the client is cut off even if the broker still thinks about what came before."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await client.hung_up_on()
        stage.broker.answer(0)
        await until(lambda: not stage.proxy.connections)
        assert client.got == []

    rule = bend(action="close", nth=2, by="10ms")
    stage = play(tmp_path, work, rule, reply=lambda _: None)
    unheard = [Brief(1, INFO, BASE + 1, None, UNHEARD), Brief(2, FAIL, None, rule.name, UNHEARD)]
    assert stage.briefly == unheard


def test_a_client_that_leaves_during_a_slow_close(tmp_path: Path) -> None:
    """Nothing of it reaches the broker, and nothing stays behind."""
    rule = bend(action="close", by="10m")

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        connection = await stage.connection()
        await until(lambda: len(connection._queue) == 1)
        client.transport.close()
        await until(lambda: connection.client.gone)
        rule.cancel()
        await until(lambda: not stage.proxy.connections)
        assert stage.broker.got == []

    stage = play(tmp_path, work, rule)
    assert stage.briefly == [Brief(1, FAIL, None, rule.name, UNHEARD), Brief(2, FAIL, None, None, BEHIND)]


def test_a_request_dropped_in_silence(tmp_path: Path) -> None:
    """Nothing behind it arrives, and nobody says so."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2), send(3))
        await client.heard(1)
        await until(lambda: stage.proxy.counts.exchanges == 3)
        client.write(send(4))
        await until(lambda: stage.proxy.counts.exchanges == 4)
        assert stage.broker.got == [1]
        assert not client.over

    rule = bend(action="drop-request", nth=2)
    unheard = [Brief(2, FAIL, None, rule.name, UNHEARD), *(Brief(n, FAIL, None, None, BEHIND) for n in (3, 4))]
    stage = play(tmp_path, work, rule)
    assert sorted(stage.briefly) == [ok(1), *unheard]


@pytest.mark.parametrize("action", [
    {"action": "close"}, {"action": "reset"}, {"action": "drop-request", "then": "close"},
    {"action": "answer", "with_": "NOT_LEADER_OR_FOLLOWER"},
])  # fmt: skip
def test_a_send_that_nobody_acknowledges_ends_the_connection(tmp_path: Path, action: dict[str, str]) -> None:
    """As a broker would refuse it; the send is recorded as one that never arrived."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1, acks=0))
        await client.hung_up_on()
        await until(lambda: not stage.proxy.connections)
        assert stage.broker.got == []

    rule = bend(**action)
    assert play(tmp_path, work, rule).briefly == [Brief(1, FAIL, None, rule.name, UNHEARD)]


def test_a_send_that_nobody_acknowledges_holds_nothing_up(tmp_path: Path) -> None:
    """It is recorded at once, as one of which nobody knows."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1, acks=0))
        connection = await stage.connection()
        await stage.broker.heard(1)
        assert not connection._slots
        client.write(send(2))
        await client.heard(2)

    assert [row[:3] for row in play(tmp_path, work).briefly] == [(1, INFO, None), (2, OK, BASE + 2)]


def test_a_request_sent_twice(tmp_path: Path) -> None:
    """The broker gets two, the client one answer, and the history both exchanges."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await stage.broker.heard(1, GHOSTS_BEGIN, 2)
        await client.heard(1, 2)

    rule = bend(action="duplicate-request", nth=1)
    stage = play(tmp_path, work, rule)
    assert stage.briefly == [ok(1, rule.name), Brief(1, INFO, BASE + 1, rule.name, SECOND), ok(2)]
    assert len({row["op"] for row in stage.rows}) == 3


def test_a_copy_that_is_never_answered(tmp_path: Path) -> None:
    """It is in the history all the same."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await stage.broker.heard(1, GHOSTS_BEGIN)
        stage.broker.answer(0)
        await client.heard(1)

    rule = bend(action="duplicate-request")
    copy = Brief(1, INFO, None, rule.name, f"{SECOND}; no answer: {STOPPED}")
    assert play(tmp_path, work, rule, reply=lambda _: None).briefly == [ok(1, rule.name), copy]


def test_copies_of_what_nobody_acknowledges(tmp_path: Path) -> None:
    """They wait for nothing: each is two rows, and nothing is kept."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(*(send(n, acks=0) for n in range(20)))
        await until(lambda: len(stage.broker.frames) == 40)
        connection = await stage.connection()
        assert not connection._ghosts
        assert not connection._slots
        assert connection._waiting_bytes == 0

    rule = bend(action="duplicate-request")
    stage = play(tmp_path, work, rule)
    assert [row.partition for row in stage.briefly] == [n for n in range(20) for _ in range(2)]
    assert {row.type for row in stage.briefly} == {INFO}
    assert sum(row.detail == SECOND for row in stage.briefly) == 20


@pytest.mark.parametrize("twice", [False, True])
def test_a_request_that_is_overtaken(tmp_path: Path, twice: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    """The broker sees the second first; the client gets its answers in its own order."""
    swap, copy = bend(action="reorder", nth=1, at_most="1m"), bend(action="duplicate-request", nth=1)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        await stage.broker.heard(2, 1, *([GHOSTS_BEGIN] if twice else []))
        await client.heard(1, 2)

    stage = play(tmp_path, work, swap, *([copy] if twice else []))
    names = f"{swap.name},{copy.name}" if twice else swap.name
    copies = [Brief(1, INFO, BASE + 1, names, SECOND)] if twice else []
    assert stage.briefly == [ok(1, names), ok(2), *copies]


def test_a_request_that_nothing_overtakes(tmp_path: Path) -> None:
    """It goes on alone when it has waited long enough."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await client.heard(1)

    rule = bend(action="reorder", at_most="1ms")
    assert play(tmp_path, work, rule).briefly == [ok(1, rule.name)]


def test_a_client_that_leaves_while_its_request_is_held(tmp_path: Path) -> None:
    """What it sent reaches the broker all the same, and the answer is recorded as not received."""
    rule = bend(action="hold", nth=1)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1), send(2))
        connection = await stage.connection()
        await until(lambda: len(connection._queue) == 1)
        client.transport.close()
        await until(lambda: connection.client.gone)
        assert stage.broker.got == []
        rule.release()
        await until(lambda: not stage.proxy.connections)
        assert stage.broker.got == [1, 2]

    unheard = [Brief(1, INFO, BASE + 1, rule.name, UNHEARD), Brief(2, INFO, BASE + 2, None, UNHEARD)]
    assert play(tmp_path, work, rule).briefly == unheard


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_client_that_is_cut_off_from_a_request_on_its_way(tmp_path: Path, then: str) -> None:
    """It can send again over another connection, and that arrives first."""
    rule = bend(action="hold", nth=1, then=then)

    async def work(stage: Stage) -> None:
        first = await stage.client()
        first.write(send(1))
        connection = await stage.connection()
        await until(lambda: connection.client.gone)
        second = await stage.client()
        second.write(send(2))
        await second.heard(2)
        assert stage.broker.got == [2]
        rule.release()
        await until(lambda: stage.broker.got == [2, 1])
        await until(lambda: len(stage.proxy.connections) == 1)

    assert play(tmp_path, work, rule).briefly == [ok(2), Brief(1, INFO, BASE + 1, rule.name, UNHEARD)]


def test_what_is_held_when_the_tap_is_stopped(tmp_path: Path) -> None:
    """It never reached the broker, and neither did what waited behind it."""
    rule = bend(action="hold", nth=1)

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1, acks=0), send(2))
        connection = await stage.connection()
        await until(lambda: len(connection._queue) == 1)

    held = Brief(1, FAIL, None, rule.name, f"no answer: {STOPPED}")
    stage = play(tmp_path, work, rule)
    assert stage.briefly == [held, Brief(2, FAIL, None, None, f"not passed on: {STOPPED}")]
    assert stage.broker.got == []


def test_a_held_answer_when_the_tap_is_stopped(tmp_path: Path) -> None:
    """The broker's answer is recorded as not received, and nothing waits any longer."""
    rule = bend(action="hold", side="response")

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        connection = await stage.connection()
        await until(lambda: bool(rule.acted))
        connection.end("enough")
        await until(lambda: not connection._tasks)
        assert client.got == []

    (row,) = play(tmp_path, work, rule).briefly
    assert row == Brief(1, INFO, BASE + 1, rule.name, "no answer: enough")


def test_a_client_that_leaves_while_its_answer_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker has acted: there is nothing to wait for but a while."""
    monkeypatch.setattr(connection, "LINGER_S", 0.0)
    rule = bend(action="hold", side="response")

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(send(1))
        await until(lambda: bool(rule.acted))
        client.transport.close()
        await until(lambda: not stage.proxy.connections)

    (row,) = play(tmp_path, work, rule).briefly
    assert row[:4] == (1, INFO, BASE + 1, rule.name)


def test_numbers_that_a_client_uses_again(tmp_path: Path) -> None:
    """Answers belong to the oldest request of that number that waits."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(codec.with_correlation(send(1), 7), codec.with_correlation(send(2), 7), beat(7))
        await client.heard(7, 7, 7)
        told = [codec.decode_response(frame, Api.PRODUCE, 9).responses[0] for frame in client.frames[:2]]
        assert [topic.partition_responses[0].index for topic in told] == [1, 2]

    assert play(tmp_path, work).briefly == [ok(1), ok(2), Brief(None, OK, detail="g/m")]
