"""Rules of the tap as they are written: names, forms, and how mistakes in them are told."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from harness.foundation.config import Model, parse
from harness.foundation.errors import UsageError
from harness.tap.codec import API_NAMES
from harness.tap.rule_names import bytes_per_second, error_code, error_name
from harness.tap.rules import ACTIONS, Rule, Rules, bends
from tests.support import REPOSITORY
from tests.support.tap_frames import bend, rule


class File(Model):
    """What holds rules, as a scenario does."""

    rule: Rules = ()


def refused(**keys: Any) -> str:
    """What is said about a rule that makes no sense."""
    with pytest.raises(UsageError) as caught:
        parse(Rule, keys, "a.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"action": "dropp", "api": "Produce"}, "'action' cannot be 'dropp': use delay,"),
        ({"api": "Produce"}, "the key 'action' is missing"),
        ({"action": "close", "topik": "t"}, "unknown key 'topik': did you mean 'topic'"),
        ({"action": "close", "api": "Prodce"}, "there is no API 'Prodce': did you mean 'Produce'"),
        ({"action": "close", "api": 3}, "3 is no API"),
        ({"action": "drop-request"}, "'drop-request' needs an 'api'"),
        ({"action": "stale"}, "'stale' needs an 'api'"),
        ({"action": "stale", "api": "Metadata", "error": 3}, "acts on requests"),
        ({"action": "hold", "by": 1}, "'by' does not belong to the action 'hold': leave it out (it belongs to delay, "),
        ({"action": "close", "topic": "t"}, "need an 'api'"),
        ({"action": "drop-request", "api": "Produce", "error": 6}, "acts on requests: choose an action on responses"),
        ({"action": "delay", "by": 1, "api": "Produce", "error": 6}, "acts on requests: add side = 'response'"),
        (
            {"action": "drop-response", "api": "Produce", "error": "NOT_LEADR_OR_FOLLOWER"},
            "did you mean 'NOT_LEADER_OR",
        ),
        ({"action": "drop-response", "api": "Produce", "error": "what"}, "or write its number"),
        ({"action": "drop-response", "api": "Produce", "error": 99999}, "99999 is no error code"),
        ({"action": "drop-response", "api": "Produce", "error": True}, "True is no error"),
        ({"action": "delay", "by": 1, "then": "close"}, "'then' does not belong to the action 'delay'"),
        ({"action": "close", "side": "response"}, "'side' does not belong to the action 'close'"),
        ({"action": "close", "with": 6}, "'with' does not belong to the action 'close'"),
        ({"action": "delay"}, "needs 'by': write for example by = '300ms'"),
        ({"action": "delay", "by": "1s", "jitter": "2s"}, "'jitter' is larger than 'by'"),
        ({"action": "throttle", "side": "request"}, "needs 'rate'"),
        ({"action": "throttle", "rate": 5}, "needs 'side': write 'request' for what clients send"),
        ({"action": "throttle", "rate": "fast", "side": "request"}, "'fast' is no rate"),
        ({"action": "throttle", "rate": 0, "side": "request"}, "not between one byte"),
        ({"action": "answer", "api": "Produce"}, "needs 'with'"),
        ({"action": "answer", "api": "CreateTopics", "with": 6}, "CreateTopics cannot be answered with an error"),
        ({"action": "rewrite", "api": "Fetch"}, "needs 'fields'"),
        ({"action": "rewrite", "api": "Fetch", "fields": {}}, "'fields' is empty"),
        ({"action": "rewrite", "api": "Fetch", "fields": {"hw": 1}}, "there are error_code, high_watermark"),
        (
            {"action": "rewrite", "api": ["Fetch", "Produce"], "fields": {"high_watermark": 1}},
            "response of Produce has",
        ),
        ({"action": "rewrite", "api": "Fetch", "fields": {"high_watermark": "5"}}, "'high_watermark' is a number"),
        ({"action": "rewrite", "api": "Fetch", "fields": {"high_watermark": True}}, "'high_watermark' is a number"),
        ({"action": "rewrite", "api": "Fetch", "fields": {"error_code": 2**15}}, "too large for 'error_code'"),
        ({"action": "rewrite", "api": "Fetch", "fields": {"error_code": "OOPS"}}, "there is no error 'OOPS'"),
        ({"action": "rewrite", "api": "Produce", "fields": {"error_message": 5}}, "'error_message' is a text"),
        ({"action": "close", "api": "Heartbeat", "partition": 0}, "the request of Heartbeat names no partition"),
        ({"action": "close", "api": "Metadata", "partition": 0}, "the request of Metadata names no partition"),
        ({"action": "drop-response", "api": "EndTxn", "topic": "t"}, "the response of EndTxn names no topic"),
        ({"action": "hold", "side": "response", "then": "close"}, "'then' of hold is about requests"),
        ({"action": "close", "nth": 2, "every": 2}, "leave one of them out"),
        ({"action": "close", "nth": 2, "times": 3}, "write every = 2"),
        ({"action": "close", "nth": 0}, "'nth' cannot be 0"),
        ({"action": "close", "times": "twice"}, "cannot be 'twice'"),
        ({"action": "close", "probability": 0}, "'probability' cannot be 0"),
        ({"action": "close", "after": "5s", "until": "5s"}, "'until' (5 s) must be later than 'after' (5 s)"),
        ({"action": "close", "after": "soon"}, "'soon' is not a valid duration"),
        ({"action": "close", "node": -1}, "cannot be -1"),
        ({"action": "close", "name": "a,b"}, "'name' cannot be 'a,b'"),
    ],
)
def test_rules_that_make_no_sense(keys: dict[str, Any], said: str) -> None:
    """Each is refused with a sentence that says what to do."""
    assert said in refused(**keys)


def test_names() -> None:
    """Given, or made from the action and the APIs."""
    assert bend(name="lost acks").name == "lost acks"
    assert bend(api=["Fetch", "Produce"]).name == "drop-request Fetch+Produce"
    assert Rule(action="reset").bend(1).name == "reset everything"


def test_two_rules_of_one_name() -> None:
    """Are refused in a file, and in Python."""
    with pytest.raises(UsageError, match="two rules are named 'close everything': give each a 'name'"):
        parse(File, {"rule": [{"action": "close"}, {"action": "close", "node": 1}]}, "a.toml")
    with pytest.raises(UsageError, match="two rules are named 'drop-request Produce'"):
        bends([rule(), rule(node=2)], 1)
    assert [each.name for each in bends([rule(), rule(name="b")], 1)] == ["drop-request Produce", "b"]


# forms


def test_the_python_form() -> None:
    """The same model."""
    made = Rule(api="Produce", action="drop-response", then="close", times=1)
    assert made == rule(action="drop-response", then="close", times=1)
    assert Rule(api="Produce", action="answer", with_="NOT_LEADER_OR_FOLLOWER") == rule(action="answer", **{"with": 6})


EVERY_ACTION = """
rule = [
    { action = "delay", by = "300ms", jitter = "100ms", side = "response", error = "NOT_LEADER_OR_FOLLOWER" },
    { action = "throttle", rate = "64KiB", side = "request" },
    { action = "hold", at_most = "10s" },
    { action = "drop-request", then = "reset", probability = 0.1 },
    { action = "drop-response", then = "close", nth = 5 },
    { action = "duplicate-request", every = 5, times = 3 },
    { action = "reorder", at_most = "1s" },
    { action = "close", by = "2s", after = "5s", until = "20s" },
    { action = "reset", times = "once" },
    { action = "answer", with = "NOT_LEADER_OR_FOLLOWER" },
    { action = "rewrite", fields = { base_offset = "-5", error_code = 3, error_message = "+1" } },
    { action = "stale" },
]
"""


def test_through_toml_and_back() -> None:
    """What a run stores of its rules reads as the same rules."""
    shared = {"api": "produce", "node": 1, "client": "c*", "topic": "t-*", "partition": [0, 1]}
    written = [{**shared, **keys} for keys in tomllib.loads(EVERY_ACTION)["rule"]]
    assert {keys["action"] for keys in written} == set(ACTIONS)
    read_back = parse(File, {"rule": written}, "a.toml")
    dumped = read_back.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    assert parse(File, dumped, "b.toml") == read_back
    assert dumped["rule"][9]["with"] == "NOT_LEADER_OR_FOLLOWER"


def test_a_schema_for_editors() -> None:
    """Can be made, with Kafka's short forms in it."""
    properties = Rule.model_json_schema(by_alias=True)["properties"]
    assert {"type": "string"} in properties["api"]["anyOf"]
    assert "with" in properties


def test_error_names() -> None:
    """Kafka's own, and those that kafka-python has instead; numbers too new for a name."""
    assert error_code("NOT_LEADER_OR_FOLLOWER") == error_code("not_leader_for_partition") == error_code(6) == 6
    assert error_code("NONE") == 0
    assert error_code("UNKNOWN_SERVER_ERROR") == -1
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(10) == "MESSAGE_TOO_LARGE"
    assert error_name(500) == 500


def test_rates() -> None:
    """As people write them."""
    written = (100, "100", "64KiB", "1.5MB/s", "2 MiB")
    assert [bytes_per_second(each) for each in written] == [100, 100, 65536, 1_500_000, 2 * 2**20]


@pytest.mark.parametrize("name", sorted(API_NAMES))
def test_every_api_can_be_named(name: str) -> None:
    """And bent in ways that need no look inside."""
    assert bend(api=name, action="delay", by=1).apis == {API_NAMES[name]}


def test_the_examples_of_the_manual() -> None:
    """Are rules."""
    text = (REPOSITORY / "docs" / "tap.md").read_text(encoding="utf-8")
    examples = [tomllib.loads(block.partition("```")[0])["tap"] for block in text.split("```toml\n")[1:]]
    assert [len(parse(File, example, "docs/tap.md").rule) for example in examples] == [1, 1, 2]


def test_the_manual_has_all_actions_and_keys() -> None:
    """Each by its name."""
    text = (REPOSITORY / "docs" / "tap.md").read_text(encoding="utf-8")
    keys = [key.removesuffix("_") for key in Rule.model_fields if key != "action"]
    missing = [word for word in (*ACTIONS, *keys) if f"`{word}" not in text]
    assert not missing
