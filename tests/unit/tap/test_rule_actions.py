"""Rules of the tap: what they do to what they match."""

from __future__ import annotations

from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, UNNOTICED, Answer, Close, Delay, Drop, Duplicate, Effects, Hold, Swap
from tests.support import tap_frames as frames
from tests.support.tap_frames import Clock, acknowledged, bend, read, rule, sent

NOT_LEADER = 6


def the_answer(effects: Effects) -> Any:
    """The response that a bend gives in the broker's place."""
    (effect,) = effects
    assert isinstance(effect, Answer)
    return effect.response


def test_delay() -> None:
    """Fixed, or with jitter on both sides of it; of requests unless said otherwise."""
    assert bend(action="delay", by="300ms").on_request(sent()) == (Delay(0.3),)
    back = bend(action="delay", by="300ms", side="response")
    assert not back.on_request(sent())
    assert back.on_response(acknowledged({"orders": [{"partition": 0}]})) == (Delay(0.3),)
    shaky = bend(action="delay", by="300ms", jitter="100ms")
    waits = [effect.seconds for _ in range(200) for effect in shaky.on_request(sent()) if isinstance(effect, Delay)]
    assert 0.2 <= min(waits) < 0.25
    assert 0.35 < max(waits) <= 0.4


def test_throttle_is_one_line_for_everything_that_matches() -> None:
    """Each waits for those before it; a pause gives nothing back."""
    clock = Clock()
    slow = rule(action="throttle", rate=100, side="request").bend(1, clock)
    size = len(sent().request_frame) + 4

    def wait_s() -> float:
        (effect,) = slow.on_request(sent())
        assert isinstance(effect, Delay)
        return effect.seconds

    assert [wait_s(), wait_s()] == pytest.approx([size / 100, 2 * size / 100])
    clock.now += 1000
    assert wait_s() == pytest.approx(size / 100)


def test_throttled_responses() -> None:
    """By the size of the response."""
    clock = Clock()
    slow = rule(action="throttle", rate="1KiB", side="response").bend(1, clock)
    given = acknowledged({"orders": [{"partition": 0}]})
    assert given.response_frame is not None
    (effect,) = slow.on_response(given)
    assert isinstance(effect, Delay)
    assert effect.seconds == pytest.approx((len(given.response_frame) + 4) / 1024)


def test_hold_and_release() -> None:
    """Held ones share a gate; after it was opened nothing is held."""
    holding = bend(action="hold", at_most="10s")
    (held,) = holding.on_request(sent())
    assert isinstance(held, Hold)
    assert held.at_most_s == 10
    assert not held.gate.is_set()
    holding.release()
    assert held.gate.is_set()
    assert not holding.on_request(sent())
    assert (holding.matched, holding.acted) == (2, 1)


def test_cancel() -> None:
    """Nothing matches any more, and what is held goes on."""
    holding = bend(action="hold")
    (held,) = holding.on_request(sent())
    holding.cancel()
    assert isinstance(held, Hold)
    assert held.gate.is_set()
    dropping = bend()
    dropping.cancel()
    assert not dropping.on_request(sent())
    assert dropping.over
    assert dropping.matched == 0


@pytest.mark.parametrize(
    "keys",
    [{"action": "delay", "by": 9}, {"action": "throttle", "rate": 1, "side": "request"}, {"action": "reset", "by": 9}],
)
def test_waits_end_with_their_rule(keys: dict[str, Any]) -> None:
    """When it is taken back; not when it is released, because it holds nothing."""
    slow = bend(**keys)
    (effect,) = slow.on_request(sent())
    wait = effect.after if isinstance(effect, Close) else effect
    assert isinstance(wait, Delay)
    assert wait.unless is not None
    slow.release()
    assert not wait.unless.is_set()
    slow.cancel()
    assert wait.unless.is_set()


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"action": "drop-request"}, Drop("silence")),
        ({"action": "drop-request", "then": "reset"}, Drop("reset")),
        ({"action": "duplicate-request"}, Duplicate()),
        ({"action": "reorder"}, Swap()),
        ({"action": "reorder", "at_most": "2s"}, Swap(2.0)),
        ({"action": "close"}, Close()),
        ({"action": "reset"}, Close(reset=True)),
        ({"action": "close", "by": "2s"}, Close(after=Delay(2.0))),
        ({"action": "reset", "by": "2s"}, Close(reset=True, after=Delay(2.0))),
    ],
)
def test_actions_on_requests(keys: dict[str, Any], expected: object) -> None:
    """One effect each, and none on the response."""
    acting = bend(**keys)
    assert acting.on_request(sent()) == (expected,)
    assert not acting.on_response(acknowledged({"orders": [{"partition": 0}]}))


def test_drop_response() -> None:
    """After the broker has acted."""
    dropping = bend(action="drop-response", then="close")
    given = acknowledged({"orders": [{"partition": 0}]})
    assert not dropping.on_request(given)
    assert dropping.on_response(given) == (Drop("close"),)


def test_answer_the_whole_request() -> None:
    """Every partition of it."""
    response = the_answer(bend(action="answer", **{"with": "NOT_LEADER_OR_FOLLOWER"}).on_request(
        sent({"orders": [0, 1]})
    ))  # fmt: skip
    assert [(p.index, p.error_code) for p in response.responses[0].partition_responses] == [(0, 6), (1, 6)]
    asked = frames.exchange(frames.request_frame(Api.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m"))
    response = the_answer(bend(api="Heartbeat", action="answer", **{"with": 27}).on_request(asked))
    assert response.error_code == 27


@pytest.mark.parametrize("version", [3, 9, 13])
def test_answer_some_partitions(version: int) -> None:
    """The broker gets the others, and the response has all."""
    refusing = bend(action="answer", partition=1, **{"with": "NOT_LEADER_OR_FOLLOWER"})
    asked = sent({"orders": [0, 1], "bills": [1]}, version=version)
    assert refusing.on_request(asked) == (CHANGED,)
    assert [(part.topic, part.partition) for part in asked.request_parts()] == [("orders", 0)]
    asked.response_frame = frames.produced({"orders": [{"partition": 0}]}, version)
    asked.put_answers()
    told = {(part.topic, part.partition): part.message.error_code for part in asked.response_parts()}
    assert told == {("orders", 0): 0, ("orders", 1): 6, ("bills", 1): 6}


def test_answer_a_send_that_nobody_waits_for() -> None:
    """Brokers close the connection then."""
    assert bend(action="answer", **{"with": 6}).on_request(sent(acks=0)) == (Drop("close"),)


def test_rewrite_partitions() -> None:
    """Absolute, relative, and only where the rule says."""
    lying = bend(api="Fetch", action="rewrite", partition=1, fields={"high_watermark": "-5", "last_stable_offset": 7})
    given = read({"orders": [{"partition": 0}, {"partition": 1}]})
    assert lying.on_response(given) == (CHANGED,)
    seen = {
        part.partition: (part.message.high_watermark, part.message.last_stable_offset)
        for part in given.response_parts()
    }
    assert seen == {0: (100, 100), 1: (95, 7)}
    everywhere = bend(api="Fetch", action="rewrite", fields={"high_watermark": "+1"})
    assert everywhere.on_response(given) == (CHANGED,)
    assert [part.message.high_watermark for part in given.response_parts()] == [101, 96]


def test_rewrite_where_an_error_is() -> None:
    """Other partitions stay as they are."""
    given = acknowledged({"orders": [{"partition": 0, "error_code": NOT_LEADER}, {"partition": 1}]})
    healing = bend(action="rewrite", error="NOT_LEADER_OR_FOLLOWER", fields={"error_code": "NONE", "base_offset": 9})
    assert healing.on_response(given) == (CHANGED,)
    assert [(part.message.error_code, part.message.base_offset) for part in given.response_parts()] == [(0, 9), (0, 50)]


def test_rewrite_a_whole_response() -> None:
    """A field that partitions do not have."""
    slowing = bend(action="rewrite", fields={"throttle_time_ms": 500})
    given = acknowledged({"orders": [{"partition": 0}]})
    assert slowing.on_response(given) == (CHANGED,)
    assert given.response.throttle_time_ms == 500


def test_rewrite_stays_within_the_field() -> None:
    """A step beyond the largest number ends there."""
    growing = bend(api="Fetch", action="rewrite", fields={"high_watermark": "+9223372036854775807"})
    given = read({"orders": [{"partition": 0}]})
    assert growing.on_response(given) == (CHANGED,)
    assert given.response_parts()[0].message.high_watermark == 2**63 - 1


def test_a_field_that_the_version_lacks() -> None:
    """Nothing to do, so it did not act."""
    old = read({"orders": [{"partition": 0}]}, version=4)
    lying = bend(api="Fetch", action="rewrite", fields={"log_start_offset": 5})
    assert not lying.on_response(old)
    assert (lying.matched, lying.acted) == (1, 0)


# fetch sessions


def test_a_fetch_that_opens_a_session_gets_none() -> None:
    """So that the next one lists its partitions again; whether this one matches or not."""
    for topic, expected in (("orders", (UNNOTICED, Delay(1.0))), ("bills", (UNNOTICED,))):
        asked = frames.exchange(frames.fetch({"orders": [0]}, session=(0, 0)))
        assert bend(api="Fetch", topic=topic, action="delay", by=1).on_request(asked) == expected
        assert (asked.request.session_id, asked.request.session_epoch) == (0, -1)


def test_a_fetch_in_the_middle_of_a_session_begins_anew() -> None:
    """It leaves out partitions that nobody here knows, so it is told that its session is gone."""
    holding = bend(api="Fetch", topic="orders", action="hold")
    response = the_answer(holding.on_request(frames.exchange(frames.fetch({}, session=(99, 4)))))
    assert (response.error_code, response.session_id) == (70, 0)
    assert holding.matched == 0


def test_sessions_are_left_alone_otherwise() -> None:
    """Without partitions to look at, in old versions, and when the rule is over."""
    opening = frames.fetch({"orders": [0]}, session=(0, 0))
    assert bend(api="Fetch", action="delay", by=1).on_request(frames.exchange(opening)) == (Delay(1.0),)
    picky = bend(api="Fetch", topic="orders", action="delay", by=1, times=1)
    assert picky.on_request(frames.exchange(frames.fetch({"orders": [0]}, version=4))) == (Delay(1.0),)
    assert not picky.on_request(frames.exchange(opening))


def test_answered_fetch_partitions_need_one_encoding() -> None:
    """No session and an answer: changed once."""
    asked = frames.exchange(frames.fetch({"orders": [0, 1]}, session=(0, 0)))
    assert bend(api="Fetch", action="answer", partition=0, **{"with": 6}).on_request(asked) == (CHANGED,)
    assert asked.request_parts() == [PartitionPart("orders", 1, asked.request.topics[0].partitions[0])]
