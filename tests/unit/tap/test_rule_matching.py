"""Rules of the tap: which exchanges they match, and how they count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.tap.codec import CODECS
from harness.tap.effects import Delay, Drop
from harness.tap.exchange import Exchange
from harness.tap.rule_bend import RuleBend
from harness.tap.rules import Rule
from tests.support import tap_frames as frames
from tests.support.tap_frames import Clock, acknowledged, bend, read, rule, sent

NOT_LEADER = 6


def pattern(of: RuleBend, exchanges: Iterable[Exchange]) -> str:
    """Which of them it acted on."""
    return "".join("x" if of.on_request(each) else "." for each in exchanges)


def test_api_names_in_any_case_and_several() -> None:
    """The tap asks a rule about its APIs only."""
    assert bend(api="produce").apis == {Api.PRODUCE}
    assert bend(api=["FETCH", "ListOffsets"]).apis == {Api.FETCH, Api.LIST_OFFSETS}
    assert Rule(action="close").bend(1).apis == set(CODECS)


def test_node() -> None:
    """One or several."""
    assert pattern(bend(node=2), [sent(node=1), sent(node=2)]) == ".x"
    assert pattern(bend(node=[1, 2]), [sent(node=1), sent(node=2), sent(node=3)]) == "xx."


def test_client() -> None:
    """By a pattern on its id, in its case."""
    asked = [sent(client="tidegauge-producer-1"), sent(client="other"), sent(client="Tidegauge-producer-1")]
    assert pattern(bend(client="tidegauge-producer-*"), asked) == "x.."


@pytest.mark.parametrize("version", [3, 9, 13])
def test_topic_and_partition_of_a_request(version: int) -> None:
    """Both of one partition; newer versions name topics by ids."""
    both = [sent({"orders": [0]}, version=version), sent({"bills": [1]}, version=version),
            sent({"orders": [1, 2]}, version=version)]  # fmt: skip
    assert pattern(bend(topic="ord*"), both) == "x.x"
    assert pattern(bend(partition=1), both) == ".xx"
    assert pattern(bend(topic="orders", partition=[1, 5]), both) == "..x"
    assert pattern(bend(topic="bills", partition=2), [sent({"bills": [1], "orders": [2]})]) == "."


def test_topic_of_a_metadata_request() -> None:
    """Topics without partitions."""
    asked = frames.exchange(frames.request_frame(Api.METADATA, 9, topics=[{"name": "orders"}]))
    assert bend(api="Metadata", topic="orders").on_request(asked)
    assert not bend(api="Metadata", topic="bills").on_request(asked)


@pytest.mark.parametrize("version", [4, 12, 16])
def test_partitions_of_a_response(version: int) -> None:
    """A rule on responses looks at what the broker tells, and not at what was asked."""
    dropping = bend(api="Fetch", action="drop-response", topic="orders", partition=1)
    told = frames.fetched({"orders": [{"partition": 1}]}, version)
    assert dropping.on_response(frames.exchange(frames.fetch({"bills": [0]}, version), response=told)) == (Drop(),)
    assert not dropping.on_response(read({"orders": [{"partition": 0}]}, version))
    assert not dropping.on_request(read({"orders": [{"partition": 1}]}, version))


def test_error_of_a_matching_partition() -> None:
    """By name or number, in the partitions that the rule is about."""
    failing = {"orders": [{"partition": 0, "error_code": NOT_LEADER}, {"partition": 1}]}
    for error in ("not_leader_or_follower", 6):
        by_error = {"action": "drop-response", "error": error}
        assert bend(**by_error).on_response(acknowledged(failing))
        assert bend(**by_error, partition=0).on_response(acknowledged(failing))
        assert not bend(**by_error, partition=1).on_response(acknowledged(failing))
        assert not bend(**by_error).on_response(acknowledged({"orders": [{"partition": 0}]}))


def test_error_of_a_whole_response() -> None:
    """Where there are no partitions, or a topic has none."""
    asked = frames.request_frame(Api.FIND_COORDINATOR, 1, key="g")
    response = frames.response_frame(Api.FIND_COORDINATOR, 1, error_code=15, node_id=-1, host="", port=-1)
    waiting = bend(api="FindCoordinator", action="delay", by=1, side="response", error="COORDINATOR_NOT_AVAILABLE")
    assert waiting.on_response(frames.exchange(asked, response=response)) == (Delay(1.0),)

    asked = frames.request_frame(Api.METADATA, 9, topics=[{"name": "orders"}])
    told = [{"name": "orders", "error_code": 5, "is_internal": False, "partitions": []}]
    response = frames.response_frame(Api.METADATA, 9, brokers=[], cluster_id="c", controller_id=1, topics=told)
    dropping = {"api": "Metadata", "action": "drop-response", "error": "LEADER_NOT_AVAILABLE"}
    assert bend(**dropping, topic="orders").on_response(frames.exchange(asked, response=response))
    assert not bend(**dropping, topic="bills").on_response(frames.exchange(asked, response=response))


def test_time_window() -> None:
    """From the moment the rule was put to work."""
    clock = Clock()
    timed = rule(after="5s", until="20s").bend(1, clock)
    seen = ""
    for seconds in (0, 4.9, 5, 19.9, 20, 100):
        clock.now = 1000.0 + seconds
        seen += pattern(timed, [sent()])
    assert seen == "..xx.."
    assert timed.over
    assert timed.matched == timed.acted == 2


def test_what_cannot_be_decoded_does_not_match() -> None:
    """And raises nothing."""
    torn = frames.exchange(frames.produce({"orders": [0]})[:30])
    assert pattern(bend(topic="orders"), [torn]) == "."
    assert pattern(bend(action="answer", **{"with": 6}), [torn]) == "."
    assert pattern(bend(node=1), [torn]) == "x"
    answered = frames.exchange(frames.produce({"orders": [0]}), response=b"\x00\x00\x00\x2a\x00\xff\xff")
    assert not bend(action="drop-response", topic="*").on_response(answered)
    assert not bend(action="rewrite", fields={"base_offset": 1}).on_response(answered)
    future = frames.exchange(b"\x00\x00\x7f\x00" + frames.produce({"orders": [0]})[4:])
    for keys in ({"topic": "orders"}, {"node": 1}, {"action": "answer", "with": 6}):
        assert pattern(bend(**keys), [future]) == "."


# counting


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, "xxxxxxxx"),
        ({"nth": 3}, "..x....."),
        ({"every": 3}, "..x..x.."),
        ({"times": 2}, "xx......"),
        ({"times": "once"}, "x......."),
        ({"times": "always"}, "xxxxxxxx"),
        ({"every": 2, "times": 2}, ".x.x...."),
    ],
)
def test_counts(keys: dict[str, Any], expected: str) -> None:
    """How many of those that match it takes."""
    counting = bend(**keys)
    assert pattern(counting, [sent() for _ in range(8)]) == expected
    assert counting.acted == expected.count("x")


def test_only_what_matches_is_counted() -> None:
    """What another key keeps out does not bring the nth nearer."""
    counting = bend(topic="orders", node=1, nth=2)
    seen = pattern(counting, [sent(), sent({"bills": [0]}), sent(node=2), sent(), sent()])
    assert seen == "...x."
    assert (counting.matched, counting.acted) == (2, 1)


def test_probability_comes_from_the_seed_and_the_name() -> None:
    """The same again with the same ones, another with others."""

    def seen(seed: int, name: str) -> str:
        return pattern(rule(probability=0.3, name=name).bend(seed), [sent() for _ in range(200)])

    assert seen(1, "a") == seen(1, "a")
    assert len({seen(1, "a"), seen(2, "a"), seen(1, "b")}) == 3
    assert 30 <= seen(1, "a").count("x") <= 90
    assert pattern(bend(probability=1), [sent() for _ in range(20)]) == "x" * 20
