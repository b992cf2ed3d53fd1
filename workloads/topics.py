"""Topics of a run: created with every setting that matters written out, and waited for on every node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters import wire
from harness.clusters.admin import Admin
from harness.foundation.errors import ClusterError
from harness.foundation.security import Security
from workloads.base import TopicSpec

CREATE_TIMEOUT_S = 30.0
CHANGE_TIMEOUT_S = 8.0  # of whoever has to end soon when it is told to
ASK_TIMEOUT_S = 2.0
EVERY_S = 0.05


class Addressed(Protocol):
    """A node, as far as it matters here."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def address(self) -> str:
        """Where clients reach it."""


@dataclass(frozen=True)
class LiveTopic:
    """A topic that there is; another one of the same name has another id."""

    id: str
    partitions: int


class TopicAdmin:
    """Creates topics on a running cluster, over one connection that is kept."""

    def __init__(
        self, addresses: Sequence[str], security: Security, client_id: str, timeout_s: float = CREATE_TIMEOUT_S
    ) -> None:
        self._admin = Admin(
            bootstrap_servers=list(addresses),
            client_id=client_id,
            reconnect_backoff_max_ms=500,
            request_timeout_ms=int(timeout_s * 1000),
            bootstrap_timeout_ms=int(timeout_s * 1000),
            **security.kafka_python(),
        )

    def create(self, topic: TopicSpec, prefix: str) -> None:
        """Create it; that somebody else just did so is as good. KafkaError when it cannot be."""
        with suppress(TopicAlreadyExistsError):
            self.create_anew(topic, prefix)

    def create_anew(self, topic: TopicSpec, prefix: str) -> None:
        """Create it, where there is none. KafkaError when it cannot be, when there is one, or nobody knows."""
        options: dict[str, Any] = {
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": topic.config,
        }
        self._admin.create_topics({topic.full_name(prefix): options})

    def delete(self, name: str) -> None:
        """Delete it. KafkaError when it cannot be, or nobody knows."""
        self._admin.delete_topics([name])

    def grow(self, name: str, partitions: int) -> None:
        """Have it have that many partitions. KafkaError when it cannot, or nobody knows."""
        self._admin.create_partitions({name: partitions})

    def live_topics(self, prefix: str) -> dict[str, LiveTopic]:
        """The topics of a run that there are, by name, as one node of the library's choosing says."""
        return {
            topic["name"]: LiveTopic(str(topic["topic_id"]), len(topic["partitions"]))
            for topic in self._admin.describe_topics()
            if topic["name"].startswith(f"{prefix}-") and not topic["error_code"]
        }

    def close(self) -> None:
        """Let go of the connection."""
        self._admin.close()


def create_topics(nodes: Sequence[Addressed], security: Security, topics: Sequence[TopicSpec], prefix: str) -> None:
    """Create the topics a run begins with, and wait until every node lists them with leaders."""
    names = [topic.full_name(prefix) for topic in topics]
    if security.protocol == "PLAINTEXT":
        _refuse_too_much(nodes, topics, prefix)
    try:
        admin = TopicAdmin([node.address for node in nodes], security, "tidegauge-topics")
        try:
            for topic in topics:
                admin.create(topic, prefix)
            if security.protocol != "PLAINTEXT":  # nodes can be asked one by one over plain connections only
                admin._admin.wait_for_topics(names, timeout_ms=CREATE_TIMEOUT_S * 1000)  # noqa: SLF001
                return
        finally:
            admin.close()
    except KafkaError as error:
        raise ClusterError(
            f"the topics of the run could not be created ({error})",
            "check that there are as many nodes as replication_factor asks for, and that clients may create topics",
        ) from error
    _wait(nodes, topics, prefix)


def delete_topics(nodes: Sequence[Addressed], security: Security, prefix: str) -> None:
    """Remove every topic of a run from a cluster that stays."""
    try:
        admin = Admin(
            bootstrap_servers=[node.address for node in nodes], client_id="tidegauge-topics", **security.kafka_python()
        )
        try:
            names = [name for name in admin.list_topics() if name.startswith(f"{prefix}-")]
            if names:
                admin.delete_topics(names)
        finally:
            admin.close()
    except KafkaError as error:
        raise ClusterError(
            f"the topics of the run could not be removed ({error})", f"delete the topics that begin with {prefix}-"
        ) from error


def _refuse_too_much(nodes: Sequence[Addressed], topics: Sequence[TopicSpec], prefix: str) -> None:
    """Before client libraries read answers that would take all memory, and never come to an end."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: _missing(node.address, topics, prefix), nodes))


def _wait(nodes: Sequence[Addressed], topics: Sequence[TopicSpec], prefix: str) -> None:
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    waiting = {node.id: node for node in nodes}
    reasons: dict[int, str] = {}
    with ThreadPoolExecutor(len(nodes)) as pool:
        while waiting:
            asked = list(waiting.values())
            for node, reason in zip(asked, pool.map(lambda n: _missing(n.address, topics, prefix), asked), strict=True):
                reasons[node.id] = reason
                if not reason:
                    del waiting[node.id]
            if waiting and time.monotonic() > deadline:
                node_id = min(waiting)
                raise ClusterError(
                    f"{CREATE_TIMEOUT_S:.0f} s after its topics were created node {node_id} {reasons[node_id]}",
                    "see the logs of that node",
                )
            if waiting:
                time.sleep(EVERY_S)


def _missing(address: str, topics: Sequence[TopicSpec], prefix: str) -> str:
    """What this node does not know yet of the topics; nothing when it knows all."""
    wanted = {topic.full_name(prefix): topic.partitions for topic in topics}
    try:
        with wire.NodeConnection(address, ASK_TIMEOUT_S) as connection:
            request = MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in wanted],
                allow_auto_topic_creation=False,
            )
            answer = connection.ask(request, MetadataResponse, wire.METADATA_VERSION)
    except wire.TooMuch as error:
        raise ClusterError(str(error), "see what that broker answers to Metadata") from error
    except wire.WireError as error:
        return f"does not answer ({error})"
    led = {
        topic.name: sum(partition.leader_id >= 0 and not partition.error_code for partition in topic.partitions)
        for topic in answer.topics
        if not topic.error_code
    }
    for name, partitions in wanted.items():
        if led.get(name, 0) < partitions:
            return f"lists {led.get(name, 0)} of {partitions} partitions of {name} with a leader"
    return ""
