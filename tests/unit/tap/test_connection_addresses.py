"""What the tap tells clients of brokers, versions and topics, and what it records of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.broken import make_broken
from harness.tap.proxy import UNKNOWN_NODE
from tests.support import tap_frames as frames
from tests.support.tap_wire import LOOPBACK, NODE, OK, TOPIC, Stage, answering, numbered, play, replied, send, until

ELSEWHERE = {"host": LOOPBACK, "port": 1}  # a broker that nobody has heard of
Carrier = tuple[Api, int, dict[str, Any], dict[str, Any], str, str]  # request, response, where it names brokers


def nodes(brokers: Any, field: str = "node_id") -> dict[int, tuple[str, int]]:
    """Addresses by nodes."""
    return {getattr(each, field): (each.host, each.port) for each in brokers}


def naming(field: str, node_field: str, **more: Any) -> dict[str, Any]:
    """A part of an answer that names a known broker, and one that is not."""
    return {field: [{node_field: NODE, "host": "broker-1", "port": 9092, **more}, {node_field: 2, **ELSEWHERE, **more}]}


ENDPOINTS = naming("node_endpoints", "node_id")
NAMED_KEYS = naming("coordinators", "node_id", key="g", error_code=0, error_message=None)
SENT = {version: frames.topics(Api.PRODUCE, version, {"orders": [{"partition": 0}]}) for version in (10, 13)}
CARRIERS: list[Carrier] = [
    (Api.METADATA, 1, {"topics": []}, naming("brokers", "node_id"), "brokers", "node_id"),
    (Api.METADATA, 13, {"topics": []}, naming("brokers", "node_id"), "brokers", "node_id"),
    (Api.FIND_COORDINATOR, 6, {"coordinator_keys": ["g"]}, NAMED_KEYS, "coordinators", "node_id"),
    (Api.DESCRIBE_CLUSTER, 0, {}, naming("brokers", "broker_id"), "brokers", "broker_id"),
    (Api.DESCRIBE_CLUSTER, 2, {}, naming("brokers", "broker_id"), "brokers", "broker_id"),
    (Api.PRODUCE, 10, {"acks": -1, "timeout_ms": 1, **SENT[10]}, ENDPOINTS, "node_endpoints", "node_id"),
    (Api.PRODUCE, 13, {"acks": -1, "timeout_ms": 1, **SENT[13]}, ENDPOINTS, "node_endpoints", "node_id"),
    (Api.FETCH, 16, {"max_wait_ms": 1, "min_bytes": 1}, ENDPOINTS, "node_endpoints", "node_id"),
    (Api.FETCH, 18, {"max_wait_ms": 1, "min_bytes": 1}, ENDPOINTS, "node_endpoints", "node_id"),
]


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda each: f"{each[0].name}-{each[1]}")
def test_addresses_are_those_of_taps(tmp_path: Path, carrier: Carrier) -> None:
    """Also of a broker that nobody knew: it gets a tap, whose upstream is what the answer said."""
    api, version, asked, told, field, node_field = carrier

    async def work(stage: Stage) -> None:
        client = await stage.client()
        for number in (1, 2):
            client.write(numbered(frames.request_frame(api, version, **asked), number))
            await client.heard(*range(1, number + 1))
        first, second = stage.proxy.taps
        assert (second.node, second.upstream, second.discovered) == (2, (LOOPBACK, 1), True)
        for frame in client.frames:
            found = nodes(getattr(codec.decode_response(frame, api, version), field), node_field)
            assert found == {NODE: (LOOPBACK, first.port), 2: (LOOPBACK, second.port)}

    response = frames.response_frame(api, version, **told)
    stage = play(tmp_path, work, reply=lambda frame: answering(frame, response))
    assert {row["type"] for row in stage.rows} == {OK}
    if api == Api.FIND_COORDINATOR:
        assert [row["detail"] for row in stage.rows[:2]] == ["group g at broker-1:9092", f"group g at {LOOPBACK}:1"]


def test_one_coordinator(tmp_path: Path) -> None:
    """Older versions have it in the answer itself; none at all is left alone."""

    async def work(stage: Stage) -> None:
        client = await stage.client()
        asked = frames.request_frame(Api.FIND_COORDINATOR, 1, key="g")
        client.write(numbered(asked, 1), numbered(asked, 2))
        await client.heard(1, 2)
        told = [codec.decode_response(frame, Api.FIND_COORDINATOR, 1) for frame in client.frames]
        assert [(each.host, each.port) for each in told] == [(LOOPBACK, stage.tap.port), ("", -1)]

    def reply(frame: bytes) -> bytes:
        found = {"node_id": NODE, "host": "broker-1", "port": 9092, "error_code": 0}
        nothing = {"node_id": -1, "host": "", "port": -1, "error_code": 15}
        fields = found if codec.read_header(frame).correlation == 1 else nothing
        return answering(frame, frames.response_frame(Api.FIND_COORDINATOR, 1, error_message=None, **fields))

    details = [row["detail"] for row in play(tmp_path, work, reply=reply).rows]
    assert details[0] == "group g at broker-1:9092"


def test_versions_are_limited_to_what_can_be_read(tmp_path: Path) -> None:
    """Where addresses could pass unseen, and where frames end; others are none of the tap's business."""
    offered = {Api.METADATA: (0, 99), Api.PRODUCE: (3, 5), Api.HEARTBEAT: (0, 99), Api.SASL_HANDSHAKE: (0, 1),
               Api.FETCH: (90, 99)}  # fmt: skip
    keys = [{"api_key": api, "min_version": low, "max_version": high} for api, (low, high) in offered.items()]

    async def work(stage: Stage) -> None:
        client = await stage.client()
        client.write(numbered(frames.request_frame(Api.API_VERSIONS, 2), 1))
        await client.heard(1)
        told = codec.decode_response(client.frames[0], Api.API_VERSIONS, 2)
        limits = {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}
        newest = codec.CODECS[Api.METADATA].newest
        assert limits == {**offered, Api.METADATA: (0, newest), Api.SASL_HANDSHAKE: (1, 1)}
        assert stage.proxy.counts.troubles == [
            "brokers speak versions of Fetch that the tap cannot read: clients may pass it"
        ]

    response = frames.response_frame(Api.API_VERSIONS, 2, api_keys=keys)
    play(tmp_path, work, reply=lambda frame: answering(frame, response))


def test_a_topic_that_is_made_again(tmp_path: Path) -> None:
    """It has another number in the history from the answer on that tells of its new id."""
    ids = iter([frames.TOPIC_IDS["orders"], UUID(int=99)])

    def reply(frame: bytes) -> bytes | None:
        if codec.read_header(frame).api != Api.METADATA:
            return replied(frame)
        topic = {"name": "orders", "topic_id": next(ids), "error_code": 0, "is_internal": False, "partitions": []}
        return answering(frame, frames.response_frame(Api.METADATA, 12, topics=[topic], brokers=[], controller_id=1))

    async def work(stage: Stage) -> None:
        client = await stage.client()
        asked = frames.request_frame(Api.METADATA, 12, topics=[{"name": "orders"}])
        for number in (1, 3):
            client.write(numbered(asked, number), send(number + 1))
            await until(lambda number=number: len(client.got) == number + 1)  # type: ignore[misc]

    stage = play(tmp_path, work, reply=reply)
    numbers = [row["topic"] for row in stage.rows]
    assert numbers == [TOPIC, TOPIC, numbers[2], numbers[2]]
    assert [stage.segment.topics[number] for number in (TOPIC, numbers[2])] == ["orders", "orders (2)"]


def test_a_tap_before_somebody_elses_broker_learns_who_that_is(tmp_path: Path) -> None:
    """From the first Metadata, and before bends are asked: a broken broker has to know which node it plays."""
    where: list[tuple[str, int]] = []

    def reply(frame: bytes) -> bytes:
        host, port = where[0]
        brokers = [{"node_id": 7, "host": host, "port": port}, {"node_id": 8, **ELSEWHERE}]
        response = frames.response_frame(Api.METADATA, 13, brokers=brokers, topics=[])
        return answering(frame, response)

    async def work(stage: Stage) -> None:
        stage.tap.node = UNKNOWN_NODE
        stage.proxy.world.nodes.clear()
        where.append(stage.tap.upstream)
        client = await stage.client()
        client.write(numbered(frames.request_frame(Api.METADATA, 13, topics=[]), 1))
        await client.heard(1)
        found = nodes(codec.decode_response(client.frames[0], Api.METADATA, 13).brokers)
        assert found == {7: (LOOPBACK, stage.tap.port)}
        assert stage.proxy.world.nodes[7] == stage.tap.upstream

    stage = play(tmp_path, work, make_broken("metadata-lists-self-only", 0), reply=reply)
    (row,) = stage.rows
    assert (row["node"], row["brokers"], row["name"]) == (7, "7", "metadata-lists-self-only")
