"""The view of each node on who leads what: each is asked on a connection of its own.

So an answer is that node's and nobody else's. Nodes disagree while leadership moves, and one that is cut off tells an
old story for ever. The best view of a partition is the one with the highest leader epoch among the nodes that answered.

A connection of our own speaks plain text only. A cluster that wants TLS or SASL is asked through kafka-python's admin
client, which asks one node of its choosing: then the answers are under `ANY_NODE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters.admin import Admin
from harness.clusters.node import Node
from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.security import Security

METADATA_VERSION = 7  # the first with leader epochs
TIMEOUT_S = 2.0
ADMIN_TIMEOUT_S = 5.0  # handshakes take their time
NO_LEADER = -1
ANY_NODE = -1
PLAIN = Security()

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class PartitionView:
    """What one node says about one partition."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: int = 0

    def agrees_with(self, other: PartitionView) -> bool:
        """Whether the two tell the same, in whatever order they name the in-sync replicas."""
        mine, theirs = (self.leader, self.leader_epoch), (other.leader, other.leader_epoch)
        return mine == theirs and set(self.isr) == set(other.isr)


Views = Mapping[TopicPartition, PartitionView]


@dataclass(frozen=True)
class ClusterView:
    """What all nodes say; `silent` holds the nodes that did not answer, with the reason."""

    topics: tuple[str, ...]
    answers: Mapping[int, Views] = field(default_factory=dict)
    silent: Mapping[int, str] = field(default_factory=dict)

    @property
    def partitions(self) -> dict[TopicPartition, PartitionView]:
        """The best view of every partition, in order of topic and partition."""
        return self.without(())

    def without(self, nodes: Iterable[int]) -> dict[TopicPartition, PartitionView]:
        """The best views when these nodes are not asked."""
        best: dict[TopicPartition, PartitionView] = {}
        left_out = set(nodes)
        for node, views in sorted(self.answers.items()):
            for partition, view in views.items() if node not in left_out else ():
                known = best.get(partition)
                if known is None or view.leader_epoch > known.leader_epoch:
                    best[partition] = view
        return dict(sorted(best.items()))

    def troubles(self) -> list[str]:
        """What keeps the cluster from being whole, by every node's own account; empty when all is well."""
        found = [f"{_who(node)} does not answer ({why})" for node, why in sorted(self.silent.items())]
        if not self.answers and not self.silent:
            found.append("no node was asked")
        best = self.partitions
        for node, views in sorted(self.answers.items()):
            known = {topic for topic, _ in views}
            found += [f"{_who(node)} does not know topic {topic}" for topic in self.topics if topic not in known]
        for (topic, partition), view in best.items():
            name = f"{topic}-{partition}"
            if view.leader == NO_LEADER:
                found.append(f"{name} has no leader")
            elif set(view.isr) != set(view.replicas):
                found.append(f"{name} has {len(view.isr)} of {len(view.replicas)} replicas in sync")
            found += [
                f"{_who(node)} has another view of {name}"
                for node, views in sorted(self.answers.items())
                if not view.agrees_with(views.get((topic, partition), view))
            ]
        return found


def ask_partitions(
    address: str, topics: Sequence[str], timeout_s: float = TIMEOUT_S
) -> dict[TopicPartition, PartitionView]:
    """The partitions of these topics as the node at this address sees them; a topic that it does not know has none."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
    )
    with NodeConnection(address, timeout_s) as connection:
        answer = connection.ask(request, MetadataResponse, METADATA_VERSION)
    return {
        (topic.name, partition.partition_index): PartitionView(
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            partition.error_code,
        )
        for topic in answer.topics or ()
        for partition in topic.partitions or ()
    }


def observe(
    nodes: Sequence[Node], topics: Sequence[str], security: Security = PLAIN, timeout_s: float = TIMEOUT_S
) -> ClusterView:
    """All nodes asked at once; one that does not answer is told as such."""
    if security.protocol != "PLAINTEXT":
        return _observe_through_admin(nodes, topics, security, timeout_s)
    answers: dict[int, Views] = {}
    silent: dict[int, str] = {}

    def ask(node: Node) -> None:
        try:
            answers[node.id] = ask_partitions(node.address, topics, timeout_s)
        except WireError as error:
            silent[node.id] = str(error)

    with ThreadPoolExecutor(max(1, len(nodes)), thread_name_prefix="observe") as pool:
        list(pool.map(ask, nodes))
    return ClusterView(tuple(topics), answers, silent)


def _observe_through_admin(
    nodes: Sequence[Node], topics: Sequence[str], security: Security, timeout_s: float
) -> ClusterView:
    timeout_ms = round(max(timeout_s, ADMIN_TIMEOUT_S) * 1000)
    try:
        with Admin(
            bootstrap_servers=[node.address for node in nodes],
            client_id="tidegauge",
            request_timeout_ms=timeout_ms,
            bootstrap_timeout_ms=timeout_ms,
            **security.kafka_python(),
        ) as admin:
            described = admin.describe_topics(list(topics))
    except (KafkaError, OSError, ValueError) as error:
        return ClusterView(tuple(topics), silent={ANY_NODE: str(error) or type(error).__name__})
    views = {
        (topic["name"], partition["partition_index"]): PartitionView(
            partition["leader_id"],
            partition.get("leader_epoch", -1),
            tuple(partition["replica_nodes"]),
            tuple(partition["isr_nodes"]),
            partition["error_code"],
        )
        for topic in described
        for partition in topic["partitions"]
    }
    return ClusterView(tuple(topics), {ANY_NODE: views})


def _who(node: int) -> str:
    return "the cluster" if node == ANY_NODE else f"node {node}"
