"""Three small brokers behind real sockets that know little of Kafka's protocol, and misbehave as they are told.

As a process they serve the nodes of a target: `python -m tests.support.strange_broker HOST:PORT,… {"also_listed": …}`.

They share topics and records. What one of them answers is its own: who creates topics, what Metadata lists, and what is
never answered at all. A connection that nobody should make is noticed by `Elsewhere`.
"""

from __future__ import annotations

import json
import signal
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from harness.clusters.node import Node
from harness.foundation.error_codes import NUMBERS
from harness.foundation.protocol import Api
from harness.tap.batches import RecordBatch, join, split, with_base
from tests.support import REPOSITORY
from tests.support.tap_frames import message

LOOPBACK = "127.0.0.1"
NODES = (1, 2, 3)
LEADER_EPOCH = 1
NOT_LEADER, OUT_OF_RANGE = 6, 1
MILLION = 1_000_000
Answer = dict[str, Any]


@dataclass
class Strangeness:
    """How the brokers misbehave."""

    refuse_creation: frozenset[int] = frozenset()  # nodes that say that another one is the controller
    refuse_settings: frozenset[str] = frozenset()  # of topics
    refuse_replicas: bool = False
    auto_create: bool = False
    one_id: int | None = None  # of all brokers, in Metadata
    also_listed: tuple[tuple[int, str, int], ...] = ()  # brokers that there are not: id, host, port
    forget_topics: bool = False  # Metadata lists none
    no_controller: bool = False
    garbled: frozenset[int] = frozenset()  # APIs that are answered with noise
    silent: frozenset[int] = frozenset()  # APIs that are never answered
    unknown: frozenset[int] = frozenset()  # APIs that are not offered, and at which brokers hang up
    million: str = ""  # of what Metadata lists a million: "brokers" or "partitions"
    million_since: str = "start"  # or "load": once there are records


@dataclass
class StrangeBrokers:
    """What they share, and where they are."""

    strangeness: Strangeness
    ports: dict[int, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    logs: dict[tuple[str, int], list[RecordBatch]] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)  # node and API
    producers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """As a cluster has them."""
        return tuple(Node(node, f"{LOOPBACK}:{port}") for node, port in self.ports.items())

    def leader(self, partition: int) -> int:
        """The node that leads a partition."""
        return NODES[partition % len(NODES)]

    def answer(self, node: int, frame: bytes) -> bytes | None:
        """The response to one request; None where the broker hangs up."""
        api, version, correlation = struct.unpack_from(">hhi", frame)
        with self.lock:
            self.asked.append((node, api))
            if api == Api.METADATA and self._overwhelms():
                return struct.pack(">i", correlation) + a_million(self.strangeness.million, version, self.ports[node])
            if api in self.strangeness.silent:
                return b""
            if api in self.strangeness.garbled:
                return struct.pack(">i", correlation) + b"\x00\x00\x7f\xff\xff\xff"
            found = None if api in self.strangeness.unknown else APIS.get(api)
            if found and api == Api.API_VERSIONS:
                version, wanted = 0, version
                made = message(ApiVersionsResponse, 0, error_code=35 if wanted else 0, api_keys=self._offered())
            elif found is None or not found.oldest <= version <= found.newest:
                return None
            else:
                request = found.request.decode(frame, version=version, header=True)
                made = message(found.response, version, **found.handle(self, node, request, version))
        made.API_VERSION = version
        made.with_header(correlation_id=correlation)
        return bytes(made.encode(header=True, framed=False))

    def _overwhelms(self) -> bool:
        return bool(self.strangeness.million and (self.strangeness.million_since == "start" or self.logs))

    def _offered(self) -> list[Answer]:
        return [
            {"api_key": api, "min_version": known.oldest, "max_version": known.newest}
            for api, known in APIS.items()
            if api not in self.strangeness.unknown
        ]

    def metadata(self, _: int, request: Any, version: int) -> Answer:
        """Who is there, and who leads."""
        strange = self.strangeness
        wanted = [topic.name for topic in request.topics] if request.topics is not None else list(self.topics)
        if strange.auto_create and request.allow_auto_topic_creation:
            for name in wanted:
                self.topics.setdefault(name, 1)
        listed = [(strange.one_id or node, LOOPBACK, port) for node, port in self.ports.items()]
        brokers = [
            {"node_id": node, "host": host, "port": port} for node, host, port in (*listed, *strange.also_listed)
        ]
        topics = [self._topic(name, version) for name in wanted]
        answer: Answer = {"brokers": brokers, "topics": topics}
        if version >= 1:
            answer["controller_id"] = -1 if strange.no_controller else strange.one_id or 1
        if version >= 2:
            answer["cluster_id"] = "strange"
        return answer

    def _topic(self, name: str, version: int) -> Answer:
        known = 0 if self.strangeness.forget_topics else self.topics.get(name, 0)
        epoch = {"leader_epoch": LEADER_EPOCH} if version >= 7 else {}
        partitions = [
            {"partition_index": at, "leader_id": self.strangeness.one_id or self.leader(at),
             "replica_nodes": list(NODES), "isr_nodes": list(NODES), **epoch}
            for at in range(known)
        ]  # fmt: skip
        return {"name": name, "error_code": 0 if known else 3, "partitions": partitions}

    def create(self, node: int, request: Any, _: int) -> Answer:
        """By those that do."""
        only = request.validate_only
        return {"topics": [{"name": each.name, **self._created(node, each, only=only)} for each in request.topics]}

    def _created(self, node: int, topic: Any, *, only: bool) -> Answer:
        refused = sorted(self.strangeness.refuse_settings & {config.name for config in topic.configs})
        if node in self.strangeness.refuse_creation:
            return {"error_code": NUMBERS["NOT_CONTROLLER"]}
        if self.strangeness.refuse_replicas and topic.replication_factor != -1:
            return {"error_code": NUMBERS["INVALID_REPLICATION_FACTOR"], "error_message": "no replicas here"}
        if refused:
            return {"error_code": NUMBERS["INVALID_CONFIG"], "error_message": f"unknown {refused[0]}"}
        if topic.name in self.topics:
            return {"error_code": NUMBERS["TOPIC_ALREADY_EXISTS"]}
        if only:
            return {"error_code": 0}
        self.topics[topic.name] = topic.num_partitions
        self.settings[topic.name] = {config.name: config.value for config in topic.configs}
        return {"error_code": 0}

    def grow(self, _: int, request: Any, __: int) -> Answer:
        """More partitions."""
        results = []
        for topic in request.topics:
            known = topic.name in self.topics
            if known and not request.validate_only:
                self.topics[topic.name] = topic.count
            results.append({"name": topic.name, "error_code": 0 if known else 3})
        return {"results": results}

    def delete(self, _: int, request: Any, __: int) -> Answer:
        """With its records."""
        known = {name: self.topics.pop(name, None) for name in request.topic_names}
        return {"responses": [{"name": name, "error_code": 3 if count is None else 0} for name, count in known.items()]}

    def describe(self, *_: Any) -> Answer:
        """The brokers."""
        brokers = [{"broker_id": node, "host": LOOPBACK, "port": port} for node, port in self.ports.items()]
        return {"cluster_id": "strange", "controller_id": 1, "brokers": brokers}

    def start_producer(self, *_: Any) -> Answer:
        """A new number."""
        self.producers += 1
        return {"producer_id": self.producers, "producer_epoch": 0}

    def produce(self, node: int, request: Any, _: int) -> Answer:
        """Leaders take it."""
        responses = []
        for topic in request.topic_data:
            name = topic.name
            parts = [self.append(name, part.index, part.records, node) for part in topic.partition_data]
            responses.append({"name": name, "partition_responses": parts})
        return {"responses": responses}

    def append(self, name: str, partition: int, records: bytes, node: int = 0) -> Answer:
        """At its end, without a look at who sends."""
        if partition >= self.topics.get(name, 0):
            return {"index": partition, "error_code": 3, "base_offset": -1}
        if node and self.leader(partition) != node:
            return {"index": partition, "error_code": NOT_LEADER, "base_offset": -1}
        log = self.logs.setdefault((name, partition), [])
        base = log[-1].next_offset if log else 0
        for number, batch in enumerate(split(records)):
            log.append(with_base(batch, base if not number else log[-1].next_offset, LEADER_EPOCH))
        return {"index": partition, "error_code": 0, "base_offset": base}

    def fetch(self, node: int, request: Any, version: int) -> Answer:
        """Any node has it, and leaders give it."""
        responses = [
            {
                "topic": topic.topic,
                "partitions": [self._read(node, topic.topic, part, version) for part in topic.partitions],
            }
            for topic in request.topics
        ]
        return {"responses": responses}

    def _read(self, node: int, name: str, part: Any, version: int) -> Answer:
        log = self.logs.get((name, part.partition), [])
        end = log[-1].next_offset if log else 0
        found = [batch for batch in log if batch.next_offset > part.fetch_offset][:50]
        more = {"log_start_offset": 0} if version >= 5 else {}
        beyond = OUT_OF_RANGE if part.fetch_offset > end else 0
        is_leader = self.leader(part.partition) == node
        return {"partition_index": part.partition, "error_code": beyond if is_leader else NOT_LEADER,
                "high_watermark": end, "last_stable_offset": end, "records": join(found), **more}  # fmt: skip

    def list_offsets(self, node: int, request: Any, version: int) -> Answer:
        """The start is 0, the end is the end."""
        epoch = {"leader_epoch": LEADER_EPOCH} if version >= 4 else {}
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                known = part.partition_index < self.topics.get(topic.name, 0)
                log = self.logs.get((topic.name, part.partition_index), [])
                end = log[-1].next_offset if log and part.timestamp == -1 else 0
                error = NOT_LEADER if self.leader(part.partition_index) != node else 0
                told = {"error_code": error if known else 3, "timestamp": -1, "offset": end if known else -1}
                parts.append({"partition_index": part.partition_index, **told, **epoch})
            topics.append({"name": topic.name, "partitions": parts})
        return {"topics": topics}


@dataclass(frozen=True)
class KnownApi:
    """An API that the brokers know."""

    request: Any
    response: Any
    oldest: int
    newest: int
    handle: Callable[[StrangeBrokers, int, Any, int], Answer]


APIS: Mapping[int, KnownApi] = {
    each.response.API_KEY: each
    for each in (
        KnownApi(ApiVersionsRequest, ApiVersionsResponse, 0, 0, lambda *_: {}),
        KnownApi(MetadataRequest, MetadataResponse, 0, 8, StrangeBrokers.metadata),
        KnownApi(CreateTopicsRequest, CreateTopicsResponse, 2, 4, StrangeBrokers.create),
        KnownApi(CreatePartitionsRequest, CreatePartitionsResponse, 0, 2, StrangeBrokers.grow),
        KnownApi(DeleteTopicsRequest, DeleteTopicsResponse, 0, 5, StrangeBrokers.delete),
        KnownApi(DescribeClusterRequest, DescribeClusterResponse, 0, 0, StrangeBrokers.describe),
        KnownApi(InitProducerIdRequest, InitProducerIdResponse, 0, 1, StrangeBrokers.start_producer),
        KnownApi(ProduceRequest, ProduceResponse, 3, 7, StrangeBrokers.produce),
        KnownApi(FetchRequest, FetchResponse, 4, 11, StrangeBrokers.fetch),
        KnownApi(ListOffsetsRequest, ListOffsetsResponse, 1, 5, StrangeBrokers.list_offsets),
    )
}


@cache
def a_million(of_what: str, version: int, port: int) -> bytes:
    """The body of a Metadata answer with a million brokers, or a million partitions of one topic; made by hand."""
    rack = struct.pack(">h", -1) if version >= 1 else b""
    listed = MILLION if of_what == "brokers" else 1
    host = struct.pack(">h", len(LOOPBACK)) + LOOPBACK.encode()
    brokers = b"".join(struct.pack(">i", 1 + each) + host + struct.pack(">i", port) + rack for each in range(listed))
    head = (b"" if version < 3 else bytes(4)) + struct.pack(">i", listed) + brokers
    head += (struct.pack(">h", -1) if version >= 2 else b"") + (struct.pack(">i", 1) if version >= 1 else b"")
    operations = bytes(4) if version >= 8 else b""  # that are allowed: none is said
    if of_what == "brokers":
        return head + bytes(4) + operations
    none, epoch = bytes(4), bytes(4) if version >= 7 else b""
    lists = none * (3 if version >= 5 else 2)
    parts = b"".join(struct.pack(">hii", 0, each, 1) + epoch + lists for each in range(MILLION))
    topic = struct.pack(">hh", 0, 1) + b"t" + (b"\0" if version >= 1 else b"") + struct.pack(">i", MILLION)
    return head + struct.pack(">i", 1) + topic + parts + operations + operations


class _Server(socketserver.ThreadingTCPServer):
    """One broker."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, node: int, brokers: StrangeBrokers, port: int = 0) -> None:
        self.node, self.brokers = node, brokers
        super().__init__((LOOPBACK, port), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    """Answers one request after the other."""

    def handle(self) -> None:
        """Until either side hangs up."""
        assert isinstance(self.server, _Server)
        with suppress(OSError):
            while frame := self._frame():
                answer = self.server.brokers.answer(self.server.node, frame)
                if answer is None:
                    return
                if answer:
                    self.request.sendall(struct.pack(">i", len(answer)) + answer)

    def _frame(self) -> bytes:
        start = self._read(4)
        return self._read(int.from_bytes(start, "big")) if start else b""

    def _read(self, size: int) -> bytes:
        chunks = b""
        while len(chunks) < size:
            chunk = self.request.recv(size - len(chunks))
            if not chunk:
                return b""
            chunks += chunk
        return chunks


def strange_brokers(**strange: Any) -> AbstractContextManager[StrangeBrokers]:
    """Three of them, which misbehave so."""
    return _serving(Strangeness(**strange), (0, 0, 0))


@contextmanager
def _serving(strangeness: Strangeness, ports: Sequence[int]) -> Iterator[StrangeBrokers]:
    brokers = StrangeBrokers(strangeness)
    with ExitStack() as undo:
        for node, port in zip(NODES, ports, strict=True):
            server = undo.enter_context(_Server(node, brokers, port))
            brokers.ports[node] = server.server_address[1]
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            undo.callback(server.shutdown)
        yield brokers


class Elsewhere:
    """An address outside of the cluster, which notices whoever connects to it."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self._listener.setblocking(False)  # noqa: FBT003 - socket's own interface
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def was_visited(self) -> bool:
        """Whether somebody has connected."""
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def target(file: Path, **strange: Any) -> Path:
    """A target whose nodes they are: a cluster of its own, which is known to end at them."""
    command = [sys.executable, "-m", "tests.support.strange_broker", "{nodes.kafka:csv}", json.dumps(strange)]
    lines = (
        'name = "strange"',
        'version = "1"',
        'ports = ["kafka"]',
        'ready = "kafka"',
        "[process]",
        f"command = {json.dumps(command)}",
        f"env = {{ PYTHONPATH = {json.dumps(str(REPOSITORY))} }}",
        "serves_all_nodes = true",
    )
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def _main(addresses: str, strange: str) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    ports = [int(address.rpartition(":")[2]) for address in addresses.split(",")]
    with _serving(Strangeness(**json.loads(strange)), ports):
        stop.wait()


if __name__ == "__main__":
    _main(*sys.argv[1:])
