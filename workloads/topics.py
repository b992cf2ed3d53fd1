"""Topics of a run: created with every setting that matters written out, and waited for on every node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from kafka.errors import InvalidConfigurationError, KafkaError, PolicyViolationError, TopicAlreadyExistsError
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters import wire
from harness.clusters.admin import Admin
from harness.clusters.product_support import by_node
from harness.foundation.errors import ClusterError, one_line
from harness.foundation.security import Security
from workloads.base import TopicSpec
from workloads.topic_creation import (
    Addressed,
    TopicMaker,
    holds_records,
    names_at,
    partitions_at,
    refused_deletion,
)

CREATE_TIMEOUT_S = 30.0
CHANGE_TIMEOUT_S = 8.0  # of whoever has to end soon when it is told to
ASK_TIMEOUT_S = 2.0
EVERY_S = 0.05
OF_SETTINGS = (InvalidConfigurationError, PolicyViolationError)  # what refuses a topic for its settings


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

    def create(self, topic: TopicSpec, prefix: str) -> str:
        """Create it; that somebody else just did so is as good. KafkaError when it cannot be."""
        with suppress(TopicAlreadyExistsError):
            return self.create_anew(topic, prefix)
        return ""

    def create_anew(self, topic: TopicSpec, prefix: str) -> str:
        """Create it, where there is none; what was said against its settings if it was created without them.

        KafkaError when it cannot be, when there is one, or nobody knows.
        """
        options: dict[str, Any] = {
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": topic.config,
        }
        try:
            self._admin.create_topics({topic.full_name(prefix): options})
        except OF_SETTINGS as error:
            self._admin.create_topics({topic.full_name(prefix): {**options, "configs": {}}})
            return one_line(error)
        return ""

    def wait_for(self, names: Sequence[str]) -> None:
        """Until they are there. KafkaError when they are not in time."""
        self._admin.wait_for_topics(list(names), timeout_ms=CREATE_TIMEOUT_S * 1000)

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


@dataclass(frozen=True)
class MadeTopics:
    """How it went, in sentences."""

    given_up: tuple[str, ...] = ()  # of what was wanted
    troubles: tuple[str, ...] = ()  # of nodes that do not know a topic


def create_topics(
    nodes: Sequence[Addressed], security: Security, topics: Sequence[TopicSpec], prefix: str
) -> MadeTopics:
    """Create the topics a run begins with, and wait until every node lists them with leaders, but not for ever."""
    if security.protocol != "PLAINTEXT":  # nodes can be asked one by one over plain connections only
        return MadeTopics(_create_through_admin(nodes, security, topics, prefix))
    maker = TopicMaker(nodes, prefix)
    for topic in topics:
        maker.make(topic)
    return MadeTopics(tuple(maker.given_up), tuple(_wait(nodes, topics, prefix)))


def adopt_topics(nodes: Sequence[Addressed], security: Security, topics: Sequence[TopicSpec], prefix: str) -> None:
    """Make sure that topics which the user has created are there, large enough and empty."""
    for topic in topics if security.protocol == "PLAINTEXT" else ():
        name = topic.full_name(prefix)
        found = max(partitions_at(node.address, name) for node in nodes)
        if found < topic.partitions:
            raise ClusterError(
                f"the topic {name} has {found} partitions, and the run needs {topic.partitions}",
                f"create it with {topic.partitions} partitions, or leave `topic` out",
            )
        if any(holds_records(node.address, name, found) for node in nodes):
            raise ClusterError(
                f"the topic {name} already has records, which could not be told apart from those of the run",
                "create new topics under another name and say that with `topic`",
            )


def _create_through_admin(
    nodes: Sequence[Addressed], security: Security, topics: Sequence[TopicSpec], prefix: str
) -> tuple[str, ...]:
    names = [topic.full_name(prefix) for topic in topics]
    try:
        with closing(TopicAdmin([node.address for node in nodes], security, "tidegauge-topics")) as admin:
            refused = [admin.create(topic, prefix) for topic in topics]
            admin.wait_for(names)
    except KafkaError as error:
        raise ClusterError(
            f"the topics of the run could not be created ({one_line(error)})",
            f"create {', '.join(names)} yourself and say `topic = {prefix}`",
        ) from error
    return tuple(
        f"topic {name}: it has the product's own settings ({why})"
        for name, why in zip(names, refused, strict=True)
        if why
    )


def delete_topics(nodes: Sequence[Addressed], security: Security, prefix: str) -> None:
    """Remove every topic of a run from a cluster that stays."""
    if security.protocol != "PLAINTEXT":
        _delete_through_admin(nodes, security, prefix)
        return
    names = sorted({name for node in nodes for name in names_at(node.address) if name.startswith(f"{prefix}-")})
    said: dict[int, str] = {}
    for node in nodes if names else ():
        said[node.id] = refused_deletion(node.address, names)
        if not said[node.id]:
            return
    if names:
        raise ClusterError(
            f"the topics of the run could not be removed ({by_node(said.items())})",
            f"delete the topics that begin with {prefix}-",
        )


def _delete_through_admin(nodes: Sequence[Addressed], security: Security, prefix: str) -> None:
    try:
        with Admin(
            bootstrap_servers=[node.address for node in nodes], client_id="tidegauge-topics", **security.kafka_python()
        ) as admin:
            names = [name for name in admin.list_topics() if name.startswith(f"{prefix}-")]
            if names:
                admin.delete_topics(names)
    except KafkaError as error:
        raise ClusterError(
            f"the topics of the run could not be removed ({one_line(error)})",
            f"delete the topics that begin with {prefix}-",
        ) from error


def _wait(nodes: Sequence[Addressed], topics: Sequence[TopicSpec], prefix: str) -> list[str]:
    """Until every node lists them; what is missing when that takes too long, which is for the verdict to judge."""
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
                late = f"{CREATE_TIMEOUT_S:.0f} s after the topics were created"
                return [f"{late} node {node_id} {reasons[node_id]}" for node_id in sorted(waiting)]
            if waiting:
                time.sleep(EVERY_S)
    return []


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
