"""What the nodes say about leaders, each asked on its own."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters import cluster_view as module
from harness.clusters.cluster_view import METADATA_VERSION, ClusterView, PartitionView, ask_partitions, observe
from harness.clusters.node import Node
from harness.foundation.security import Security

Topic = MetadataResponse.MetadataResponseTopic
WHOLE = PartitionView(1, 4, (1, 2, 3), (1, 2, 3))
SECURE = Security(tls=True)


def answer(topics: Sequence[Any]) -> bytes:
    """A node's Metadata, framed."""
    response = MetadataResponse(
        version=METADATA_VERSION, throttle_time_ms=0, brokers=[], cluster_id="c", controller_id=1, topics=list(topics)
    )
    response.with_header(correlation_id=1)
    return bytes(response.encode(header=True, framed=True))


def topic_of(name: str, *views: PartitionView, error: int = 0) -> Any:
    """A topic as Metadata tells it."""
    partitions = [
        Topic.MetadataResponsePartition(
            error_code=view.error,
            partition_index=number,
            leader_id=view.leader,
            leader_epoch=view.leader_epoch,
            replica_nodes=list(view.replicas),
            isr_nodes=list(view.isr),
            offline_replicas=[],
        )
        for number, view in enumerate(views)
    ]
    return Topic(error_code=error, name=name, is_internal=False, partitions=partitions)


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], tuple[str, list[bytes]]]]:
    """Starts a node that answers one request with these bytes; its address, and the requests it got."""
    with contextlib.ExitStack() as stack:

        def start(content: bytes) -> tuple[str, list[bytes]]:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            got: list[bytes] = []

            def handle() -> None:
                connection, _ = server.accept()
                with connection:
                    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    got.append(connection.recv(size, socket.MSG_WAITALL))
                    connection.sendall(content)

            thread = threading.Thread(target=handle)
            thread.start()
            stack.callback(thread.join)
            return f"127.0.0.1:{server.getsockname()[1]}", got

        yield start


Serve = Callable[[bytes], tuple[str, list[bytes]]]


@pytest.fixture
def refused() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_one_node_is_asked(serve: Serve) -> None:
    """Leader, epoch, replicas and in-sync replicas of each partition; a topic that it does not know has none."""
    leaderless = PartitionView(-1, 7, (1, 2), (2,), error=5)
    address, got = serve(answer([topic_of("t", WHOLE, leaderless), topic_of("gone", error=3)]))
    assert ask_partitions(address, ["t", "gone"]) == {("t", 0): WHOLE, ("t", 1): leaderless}
    asked = MetadataRequest.decode(got[0], version=METADATA_VERSION, header=True)
    assert [topic.name for topic in asked.topics] == ["t", "gone"]
    assert not asked.allow_auto_topic_creation


def test_all_nodes_are_asked_and_dead_ones_are_told(serve: Serve, refused: str) -> None:
    """The answers are each node's own."""
    newer = PartitionView(2, 5, (1, 2, 3), (2, 3))
    nodes = [
        Node(1, serve(answer([topic_of("t", WHOLE)]))[0]),
        Node(2, serve(answer([topic_of("t", newer)]))[0]),
        Node(3, refused),
    ]
    view = observe(nodes, ["t"])
    assert view.answers == {1: {("t", 0): WHOLE}, 2: {("t", 0): newer}}
    assert list(view.silent) == [3]
    assert "refuses connections" in view.silent[3]


def test_the_highest_epoch_is_believed() -> None:
    """Whoever tells it; and nodes can be left out."""
    newer = PartitionView(2, 5, (1, 2, 3), (2, 3))
    view = ClusterView(("t",), {1: {("t", 0): WHOLE}, 2: {("t", 0): newer}, 3: {("t", 0): WHOLE, ("t", 1): WHOLE}})
    assert view.partitions == {("t", 0): newer, ("t", 1): WHOLE}
    assert view.without([2]) == {("t", 0): WHOLE, ("t", 1): WHOLE}
    assert view.without([1, 2, 3]) == {}


def test_a_whole_cluster_has_no_troubles() -> None:
    """In whatever order the in-sync replicas are named."""
    turned = PartitionView(1, 4, (1, 2, 3), (3, 1, 2))
    assert ClusterView(("t",), {1: {("t", 0): WHOLE}, 2: {("t", 0): turned}}).troubles() == []


@pytest.mark.parametrize(
    ("view", "trouble"),
    [
        (ClusterView(("t",)), "no node was asked"),
        (ClusterView(("t",), {1: {("t", 0): WHOLE}}, {2: "gone"}), "node 2 does not answer (gone)"),
        (ClusterView(("t", "u"), {1: {("t", 0): WHOLE}}), "node 1 does not know topic u"),
        (ClusterView(("t",), {1: {("t", 0): PartitionView(-1, 4, (1, 2), (1, 2))}}), "t-0 has no leader"),
        (ClusterView(("t",), {1: {("t", 0): PartitionView(1, 4, (1, 2), (1,))}}), "t-0 has 1 of 2 replicas in sync"),
        (
            ClusterView(("t",), {1: {("t", 0): WHOLE}, 2: {("t", 0): PartitionView(3, 3, (1, 2, 3), (1, 2, 3))}}),
            "node 2 has another view of t-0",
        ),
        (ClusterView(("t",), {}, {-1: "no"}), "the cluster does not answer (no)"),
    ],
)
def test_troubles_are_sentences(view: ClusterView, trouble: str) -> None:
    """One for each thing that is not as it should be."""
    assert view.troubles() == [trouble]


class Admin:
    """kafka-python's admin client as far as it is used."""

    settings: dict[str, Any] = {}

    def __init__(self, **settings: Any) -> None:
        Admin.settings = settings

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        """One partition each."""
        return [topic_of(topic, WHOLE).to_dict() for topic in topics]


def test_a_secured_cluster_is_asked_through_the_admin_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its settings; nobody knows which node answered."""
    monkeypatch.setattr(module, "Admin", Admin)
    view = observe([Node(1, "h:1"), Node(2, "h:2")], ["t"], SECURE, timeout_s=7)
    assert view.answers == {module.ANY_NODE: {("t", 0): WHOLE}}
    assert view.troubles() == []
    assert Admin.settings["bootstrap_servers"] == ["h:1", "h:2"]
    assert Admin.settings["security_protocol"] == "SSL"
    assert Admin.settings["request_timeout_ms"] == 7000


def test_a_secured_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is silent as a whole, and the client that got no connection is closed: it has a thread and sockets."""
    closed: list[Any] = []

    def fail(client: object, **_: Any) -> None:
        raise KafkaTimeoutError("nobody there")

    monkeypatch.setattr(KafkaAdminClient, "__init__", fail)
    monkeypatch.setattr(KafkaAdminClient, "close", lambda client: closed.append(client))  # noqa: PLW0108 - a method
    view = observe([Node(1, "h:1")], ["t"], SECURE)
    assert "nobody there" in view.silent[module.ANY_NODE]
    assert len(closed) == 1
    assert not closed[0]._closed
