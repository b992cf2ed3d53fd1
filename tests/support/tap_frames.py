"""For tests of the tap: real requests and responses as clients and brokers send them, and rules about them."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from harness.foundation.config import parse
from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.codec import REQUESTS, RESPONSES, TopicNames
from harness.tap.exchange import Exchange, TapContext
from harness.tap.rule_bend import RuleBend
from harness.tap.rules import Rule

TOPIC_IDS = {"orders": UUID(int=7), "bills": UUID(int=8)}
CORRELATION = 42


def world() -> TapContext:
    """Two nodes, and topics whose ids are known."""
    names = TopicNames()
    for name, topic_id in TOPIC_IDS.items():
        names.learn(topic_id, name)
    return TapContext(names, {1: ("h", 1), 2: ("h", 2)})


def message(cls: Any, version: int, **values: Any) -> Any:
    """A message of kafka-python, its inner structures given as dicts."""
    made = cls(version=version)
    for name, value in values.items():
        inner = getattr(cls._struct.fields[name], "data_class", None)
        if inner is not None and isinstance(value, list):
            setattr(made, name, [message(inner, version, **each) for each in value])
        else:
            setattr(made, name, value)
    return made


def request_frame(api: int, version: int, client: str = "me", **values: Any) -> bytes:
    """A request without its length."""
    cls = codec.CODECS[api].request
    tags = b"\x00" if cls.flexible_version_q(version) else b""
    start = struct.pack(">hhih", api, version, CORRELATION, len(client.encode())) + client.encode() + tags
    return start + bytes(message(cls, version, **values).encode(version=version))


def response_frame(api: int, version: int, **values: Any) -> bytes:
    """A response without its length."""
    made = message(codec.CODECS[api].response, version, **values)
    return codec.encode_response(made, CORRELATION, api, version)


def exchange(frame: bytes, node: int = 1, response: bytes | None = None) -> Exchange:
    """An exchange whose request arrived, and whose response too if there is one."""
    made = Exchange(world(), 1, node, codec.read_header(frame), frame, 0)
    made.response_frame = response
    return made


def topics(api: int, version: int, parts: dict[str, list[dict[str, Any]]], *, answer: bool = False) -> dict[str, Any]:
    """The topics of a request or response: by topic, the partitions' fields, of which `partition` is the number."""
    layout = (RESPONSES if answer else REQUESTS)[Api(api)]
    cls = codec.CODECS[api].response if answer else codec.CODECS[api].request
    fields = cls._struct.fields[layout.topics].data_class._struct.fields
    has_ids = "topic_id" in fields and fields["topic_id"].for_version_q(version)
    has_names = fields[layout.name].for_version_q(version)
    return {
        layout.topics: [
            {
                **({"topic_id": TOPIC_IDS[topic]} if has_ids else {}),
                **({layout.name: topic} if has_names else {}),
                layout.partitions: [
                    {layout.index: each["partition"], **{k: v for k, v in each.items() if k != "partition"}}
                    for each in partitions
                ],
            }
            for topic, partitions in parts.items()
        ]
    }


def produce(parts: dict[str, list[int]], version: int = 9, *, acks: int = -1, client: str = "me") -> bytes:
    """A Produce request to these partitions."""
    named = {topic: [{"partition": p, "records": b"xyz"} for p in numbers] for topic, numbers in parts.items()}
    given = topics(Api.PRODUCE, version, named)
    return request_frame(Api.PRODUCE, version, client, acks=acks, timeout_ms=1000, **given)


def fetch(parts: dict[str, list[int]], version: int = 12, *, session: tuple[int, int] = (0, -1)) -> bytes:
    """A Fetch request for these partitions, in a session of this id and epoch."""
    named = {
        topic: [{"partition": p, "fetch_offset": 3, "partition_max_bytes": 100} for p in numbers]
        for topic, numbers in parts.items()
    }
    extra: dict[str, Any] = {"session_id": session[0], "session_epoch": session[1]} if version >= 7 else {}
    given = topics(Api.FETCH, version, named)
    return request_frame(Api.FETCH, version, max_wait_ms=10, min_bytes=1, **given, **extra)


def fetched(parts: dict[str, list[dict[str, Any]]], version: int = 12) -> bytes:
    """A Fetch response with these partitions."""
    named = {
        topic: [{"high_watermark": 100, "last_stable_offset": 100, "log_start_offset": 0, "records": b"", **each}
                for each in several]
        for topic, several in parts.items()
    }  # fmt: skip
    return response_frame(Api.FETCH, version, **topics(Api.FETCH, version, named, answer=True))


def produced(parts: dict[str, list[dict[str, Any]]], version: int = 9) -> bytes:
    """A Produce response with these partitions."""
    named = {topic: [{"base_offset": 50, **each} for each in several] for topic, several in parts.items()}
    return response_frame(Api.PRODUCE, version, **topics(Api.PRODUCE, version, named, answer=True))


def response_parts(parts: dict[str, list[int]], **fields: Any) -> dict[str, list[dict[str, Any]]]:
    """Partitions of a response, all with these fields."""
    return {topic: [{"partition": number, **fields} for number in numbers] for topic, numbers in parts.items()}


def flip(frame: bytes, bits: list[int]) -> bytes:
    """The frame with these bits turned, counted round and round."""
    turned = bytearray(frame)
    for bit in bits:
        turned[bit // 8 % len(turned)] ^= 1 << bit % 8
    return bytes(turned)


def metadata(version: int) -> bytes:
    """A Metadata response with two brokers and a topic."""
    partition = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [1], "error_code": 0}
    topic = {"name": "orders", "error_code": 0, "is_internal": False, "partitions": [partition]}
    brokers = [{"node_id": node, "host": "127.0.0.1", "port": 1, "rack": None} for node in (1, 2)]
    return response_frame(Api.METADATA, version, brokers=brokers, controller_id=1, topics=[topic])


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """What a rule sees."""
        return self.now


def rule(**keys: Any) -> Rule:
    """A rule as a file would give it."""
    return parse(Rule, {"api": "Produce", "action": "drop-request", **keys}, "a.toml")


def bend(**keys: Any) -> RuleBend:
    """A rule at work."""
    return rule(**keys).bend(1)


def sent(parts: dict[str, list[int]] | None = None, node: int = 1, version: int = 9, **more: Any) -> Exchange:
    """A Produce request on its way."""
    return exchange(produce(parts or {"orders": [0]}, version, **more), node)


def acknowledged(parts: dict[str, list[dict[str, Any]]], version: int = 9) -> Exchange:
    """A Produce request with its response."""
    asked = {topic: [each["partition"] for each in several] for topic, several in parts.items()}
    return exchange(produce(asked, version), response=produced(parts, version))


def read(parts: dict[str, list[dict[str, Any]]], version: int = 12) -> Exchange:
    """A Fetch request with its response."""
    asked = {topic: [each["partition"] for each in several] for topic, several in parts.items()}
    return exchange(fetch(asked, version), response=fetched(parts, version))
