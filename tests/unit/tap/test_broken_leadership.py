"""Brokers that are wrong about leaders and coordinators, or do not serve a partition, do what their names say."""

from __future__ import annotations

from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.broken import make_broken
from harness.tap.codec import TopicNames
from harness.tap.effects import CHANGED, Delay, Hold
from harness.tap.exchange import Exchange, TapContext
from tests.support.tap_broker import NEWEST, NOT_LEADER, VERSIONS, Broker, batch_of
from tests.support.tap_frames import message, request_frame, response_frame, topics

every_version = pytest.mark.parametrize("versions", VERSIONS, ids=["old", "middle", "newest"])


def broker_with(name: str, versions: dict[Api, int]) -> Broker:
    """A broker with a bug; partition 1 is led by node 2."""
    return Broker(make_broken(name, 1), versions, {0: 1, 1: 2, 2: 1})


@every_version
def test_metadata_lists_self_only(versions: dict[Api, int]) -> None:
    """Each node knows itself alone, and refuses what it does not lead."""
    broker = broker_with("metadata-lists-self-only", versions)
    for node in (1, 2, 3):
        told = broker.metadata(node=node)
        assert [broker.node_id for broker in told.response.brokers] == [node]
        assert {part.leader_id for part in told.parts.values()} == {node}
        assert told.response.controller_id == node
    assert broker.produce(batch_of(b"a"), partition=1, node=1).part.error_code == NOT_LEADER
    assert broker.produce(batch_of(b"a"), partition=1, node=2).part.error_code == 0
    both = broker.fetch_many({0: 0, 1: 0}).parts
    assert {partition: part.error_code for partition, part in both.items()} == {0: 0, 1: NOT_LEADER}


def test_metadata_lists_self_only_gives_no_hints() -> None:
    """Newer answers would say who leads."""
    broken = make_broken("metadata-lists-self-only", 1)
    parts = topics(Api.PRODUCE, 12, {"orders": [{"partition": 0, "records": batch_of(b"a").raw}]})
    frame = request_frame(Api.PRODUCE, 12, acks=1, timeout_ms=1, **parts)
    answer = codec.CODECS[Api.PRODUCE].response
    leader = answer._struct.fields["responses"].data_class._struct.fields["partition_responses"].data_class
    hint = message(leader._struct.fields["current_leader"].data_class, 12, leader_id=2, leader_epoch=4)
    told = topics(Api.PRODUCE, 12, {"orders": [{"partition": 0, "error_code": 6, "current_leader": hint}]}, answer=True)
    exchange = _exchange(frame)
    endpoints = [{"node_id": 2, "host": "host-2", "port": 9_002}]
    exchange.response_frame = response_frame(Api.PRODUCE, 12, node_endpoints=endpoints, **told)
    assert broken.on_response(exchange) == (CHANGED,)
    assert exchange.response.node_endpoints == []
    assert exchange.response_parts()[0].message.current_leader.leader_id == -1


def test_metadata_lists_self_only_in_describe_cluster() -> None:
    """The other way to ask."""
    for version in range(codec.CODECS[Api.DESCRIBE_CLUSTER].newest + 1):
        exchange = _exchange(request_frame(Api.DESCRIBE_CLUSTER, version), node=2)
        brokers = [{"broker_id": node, "host": "h", "port": node} for node in (1, 2, 3)]
        exchange.response_frame = response_frame(Api.DESCRIBE_CLUSTER, version, brokers=brokers, controller_id=1)
        assert make_broken("metadata-lists-self-only", 1).on_response(exchange) == (CHANGED,)
        answer = _received(exchange)
        assert [broker.broker_id for broker in answer.brokers] == [2]
        assert answer.controller_id == 2


@every_version
def test_not_leader_forever(versions: dict[Api, int]) -> None:
    """One partition is refused by all, the others work in the same request."""
    broker = broker_with("not-leader-forever:2", versions)
    for node in (1, 2, 3):
        assert broker.produce(batch_of(b"a"), partition=2, node=node).part.error_code == NOT_LEADER
    assert broker.end(2) == 0
    assert broker.produce(batch_of(b"a"), partition=0).part.error_code == 0
    both = broker.fetch_many({0: 0, 2: 0}).parts
    assert (both[2].error_code, both[2].records) == (NOT_LEADER, b"")  # null would be too much for librdkafka
    assert (both[0].error_code, broker.values(both[0])) == (0, {0: b"a"})
    assert broker.metadata().parts[2].leader_id == 1


@every_version
def test_fetch_hangs(versions: dict[Api, int]) -> None:
    """From offset 100 on, when there is something to answer."""
    broker = broker_with("fetch-hangs", versions)
    for start in range(0, 120, 20):
        values = [b"%d" % (start + number) for number in range(20)]
        broker.produce(batch_of(*values))
        broker.produce(batch_of(*values), partition=2)
    before = broker.fetch(75)
    assert not _held(before.on_response)
    assert (max(broker.values(before.part)), before.part.high_watermark) == (99, 120)
    assert max(broker.values(broker.fetch(75, partition=2).part)) == 119
    assert _held(broker.fetch(100).on_response)
    assert _held(broker.fetch_many({2: 0, 0: 110}).on_response)
    assert not _held(broker.fetch(120).on_response)
    assert not _held(broker.fetch(110, partition=2).on_response)


def _held(effects: list[Any]) -> bool:
    return any(isinstance(effect, Hold) and not effect.gate.is_set() for effect in effects)


@every_version
def test_slow_partition(versions: dict[Api, int]) -> None:
    """One batch a second to a client."""
    broker = broker_with("slow-partition", versions)
    broken: Any = broker.bend
    now = 50.0
    broken.clock = lambda: now
    for number in range(3):
        broker.produce(batch_of(b"%d" % number), partition=2)
        broker.produce(batch_of(b"%d" % number), partition=0)
    first = broker.fetch(0, partition=2)
    assert (set(broker.values(first.part)), first.part.high_watermark) == ({0}, 3)
    both = broker.fetch_many({0: 0, 2: 1})
    assert (len(broker.values(both.parts[0])), broker.values(both.parts[2])) == (3, {})
    assert not any(isinstance(effect, Delay) for effect in both.on_response)
    assert Delay(0.1) in broker.fetch(1, partition=2).on_response
    assert set(broker.values(broker.fetch(0, partition=2, client="another").part)) == {0}
    now += 1.0
    assert set(broker.values(broker.fetch(1, partition=2).part)) == {1}


@every_version
def test_answers_as_leader(versions: dict[Api, int]) -> None:
    """The first node that does not lead says that it does, and has nothing."""
    broker = broker_with("answers-as-leader", versions)
    broker.produce(batch_of(b"a", b"b"))
    broker.produce(batch_of(b"a", b"b"), partition=1, node=2)
    leaders = {node: [part.leader_id for part in broker.metadata(node=node).parts.values()] for node in (3, 2, 1)}
    assert leaders == {1: [1, 1, 1], 2: [2, 2, 2], 3: [1, 2, 1]}
    assert (broker.latest(0, node=1), broker.latest(0, node=2)) == (2, 0)
    assert (broker.latest(1, node=1), broker.latest(1, node=2)) == (0, 2)
    lie = broker.fetch(1, node=2)
    assert (lie.part.error_code, lie.part.high_watermark, lie.part.records or b"") == (0, 0, b"")
    assert Delay(0.1) in lie.on_request
    both = broker.fetch_many({0: 0, 1: 0}, node=2).parts
    assert (both[0].high_watermark, both[1].high_watermark, len(broker.values(both[1]))) == (0, 2, 2)
    assert broker.fetch(0, node=1).part.high_watermark == 2
    assert broker.produce(batch_of(b"c"), node=2).part.error_code == NOT_LEADER


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinator_lies(version: int) -> None:
    """Whoever is asked names itself."""
    keys: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
    exchange = _exchange(request_frame(Api.FIND_COORDINATOR, version, **keys), node=3)
    named = {"node_id": 1, "host": "host-1", "port": 9_001}
    answer: dict[str, Any] = {"coordinators": [{"key": "g", **named}]} if version >= 4 else named
    exchange.response_frame = response_frame(Api.FIND_COORDINATOR, version, **answer)
    assert make_broken("coordinator-lies", 1).on_response(exchange) == (CHANGED,)
    response = _received(exchange)
    found = response.coordinators[0] if version >= 4 else response
    assert (found.node_id, found.host, found.port) == (3, "host-3", 9_003)


@every_version
def test_splits_brain(versions: dict[Api, int]) -> None:
    """Two nodes acknowledge, each its own, from the same offset on."""
    broker = broker_with("splits-brain", versions)
    broker.followers_serve = versions[Api.FETCH] >= 11
    broker.metadata(client="a")
    assert broker.produce(batch_of(b"both"), client="a").part.base_offset == 0
    sent_away = broker.produce(batch_of(b"b0"), client="b")
    assert sent_away.part.error_code == NOT_LEADER
    assert broker.metadata(client="a").parts[0].leader_id == 1
    told = broker.metadata(client="b").parts
    assert (told[0].leader_id, told[1].leader_id) == (2, 2)
    first = broker.produce(batch_of(b"b0"), client="b", node=2)
    assert (first.part.error_code, first.part.base_offset) == (0, 1)
    assert broker.produce(batch_of(b"b0"), client="b", node=2).part.base_offset == 1  # a resend
    assert broker.produce(batch_of(b"b1", b"b2"), client="b", node=2).part.base_offset == 2
    assert broker.produce(batch_of(b"a1"), client="a").part.base_offset == 1
    assert (broker.latest(node=1), broker.latest(node=2)) == (2, 4)
    assert broker.latest(node=2, timestamp=-2) == 0
    assert broker.values(broker.fetch(0, client="reader").part) == {0: b"both", 1: b"a1"}
    assert broker.fetch(0, client="second").part.error_code == NOT_LEADER
    other = broker.fetch(0, client="second", node=2).part
    shared = {0: b"both"} if broker.followers_serve else {}
    assert broker.values(other) == {**shared, 1: b"b0", 2: b"b1", 3: b"b2"}
    assert (other.error_code, other.high_watermark) == (0, 4)
    assert broker.values(broker.fetch(2, client="second", node=2).part) == {2: b"b1", 3: b"b2"}
    beside = broker.fetch_many({0: 2, 1: 0}, client="second", node=2)
    assert (set(broker.values(beside.parts[0])), beside.exchange.request.max_wait_ms) == ({2, 3}, 0)
    at_end = broker.fetch(4, client="second", node=2)
    assert (at_end.part.error_code, at_end.part.high_watermark) == (0, 4)
    assert Delay(0.1) in at_end.on_request
    assert broker.end() == 2


@every_version
def test_splits_brain_for_probes(versions: dict[Api, int]) -> None:
    """Who asks every node for watermarks is sent away by nobody, and is not counted as a client."""
    broker = broker_with("splits-brain", versions)
    broker.metadata(client="probe")
    broker.produce(batch_of(b"x"), client="a")
    broker.produce(batch_of(b"y"), client="b")
    broker.produce(batch_of(b"y", b"z"), client="b", node=2)
    for _ in range(2):
        assert broker.fetch(1, client="probe", most=1).part.high_watermark == 1
        assert broker.fetch(1, client="probe", most=1, node=2).part.high_watermark == 3
    assert broker.metadata(client="probe").parts[0].leader_id == 1


def test_splits_brain_remembers_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten is skipped."""
    monkeypatch.setattr("harness.tap.broken.split_brain.BATCHES_AT_MOST", 2)
    broker = broker_with("splits-brain", NEWEST)
    broker.metadata()
    broker.produce(batch_of(b"a"), client="a")
    for number in range(4):
        broker.produce(batch_of(b"b%d" % number), client="b", node=2)
    assert broker.values(broker.fetch(1, client="probe", node=2).part) == {3: b"b2", 4: b"b3"}


def test_splits_brain_reads_before_anything_was_written() -> None:
    """The other leader has what there is."""
    broker = broker_with("splits-brain", NEWEST)
    broker.metadata()
    broker.produce(batch_of(b"x"))
    broker.fetch(0, client="first")
    assert broker.fetch(0, client="second").part.error_code == NOT_LEADER
    assert broker.metadata(client="second").parts[0].leader_id == 2
    assert broker.latest(client="second", node=2) == 1
    assert broker.values(broker.fetch(0, client="second", node=2).part) == {0: b"x"}
    assert broker.fetch(1, client="second", node=2).part.high_watermark == 1


def _exchange(frame: bytes, node: int = 1) -> Exchange:
    names = TopicNames()
    world = TapContext(names, {each: (f"host-{each}", 9_000 + each) for each in (1, 2, 3)})
    return Exchange(world, 1, node, codec.read_header(frame), frame, 0)


def _received(exchange: Exchange) -> Any:
    frame = codec.encode_response(exchange.response, 42, exchange.api, exchange.version)
    return codec.decode_response(frame, exchange.api, exchange.version)
