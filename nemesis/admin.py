"""Requests to the cluster under test that change something, or that ask who is who.

They go to any node that answers, on a connection of our own: with KRaft every broker passes them on to the controller.
A client library would look for a controller first, and may find the node that was just killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse

from harness.clusters.base import Cluster, Node, wait_until
from harness.clusters.cluster_view import TopicPartition
from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.errors import ClusterError
from harness.foundation.protocol import ErrorCode

REASSIGN_VERSION = 0
REASSIGNING_VERSION = 0
ELECT_VERSION = 1
QUORUM_VERSION = 0
COORDINATOR_VERSION = 1
GROUPS_VERSION = 2  # known to all since 2.1; before 2.6 they hang up on the one with filters
TRANSACTIONS_VERSION = 0
ALTER_SETTINGS_VERSION = 0
SETTINGS_VERSION = 1
CREATE_VERSION = 5
DELETE_VERSION = 5
PARTITIONS_VERSION = 2
TOPIC_ID_VERSION = 12
ELIGIBLE_VERSION = 0

PREFERRED, UNCLEAN = 0, 1
GROUP, TRANSACTION = 0, 1
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
OF_THE_TOPIC = 1  # where a setting comes from: it was given for this topic, while the cluster runs or at its creation
METADATA_TOPIC = "__cluster_metadata"
REQUEST_TIMEOUT_S = 5.0  # of one request to one node
REQUEST_TIMEOUT_MS = int(REQUEST_TIMEOUT_S * 1000)
ADMIN_TIMEOUT_S = 20.0  # of everything that is tried for one change
ASK_TIMEOUT_S = 2.0
RETRY_EVERY_S = 0.2

DONE = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED

Said = tuple[int, str | None]  # Kafka's error code and its text
Call = Callable[[NodeConnection], list[Said]]  # makes one request; what was said about each thing that was asked for


def until_done(cluster: Cluster, doing: str, call: Call, good: Collection[int]) -> None:
    """Ask node after node until one of them answers with good codes only; a node that is down is passed over."""
    reasons: list[str] = []

    def done() -> bool:
        reasons.clear()
        for node in cluster.nodes:
            bad = try_once(node, call, good)
            if not bad:
                return True
            reasons.append(bad)
        return False

    try:
        wait_until(done, ADMIN_TIMEOUT_S, doing, RETRY_EVERY_S)
    except TimeoutError:
        raise ClusterError(
            f"{doing} was not done within {ADMIN_TIMEOUT_S:.0f} s ({'; '.join(reasons)})",
            "check that a majority of the nodes runs and that the replicas are in sync",
        ) from None


def try_once(node: Node, call: Call, good: Collection[int]) -> str:
    """Ask one node, once; nothing when all codes were good, else what was in the way."""
    try:
        with NodeConnection(node.address, REQUEST_TIMEOUT_S + 1) as connection:
            said = call(connection)
    except WireError as error:
        return str(error)
    for code, text in said:
        if code not in good:
            return f"node {node.id} says {for_code(code).__name__}{f' ({text})' if text else ''}"
    return ""


# replicas and leaders


def reassignment(orders: Mapping[TopicPartition, tuple[int, ...]]) -> Call:
    """The request for these replicas, in this order, all partitions at once."""

    def call(connection: NodeConnection) -> list[Said]:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        topics = [
            topic(
                name=name,
                partitions=[
                    topic.ReassignablePartition(partition_index=each, replicas=list(orders[name, each])) for each in own
                ],
            )
            for name, own in _by_topic(orders)
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=REQUEST_TIMEOUT_MS, topics=topics)
        answer = connection.ask(request, AlterPartitionReassignmentsResponse, REASSIGN_VERSION)
        if answer.error_code:
            return [(answer.error_code, answer.error_message)]
        return [(each.error_code, each.error_message) for topic in answer.responses for each in topic.partitions]

    return call


def election(partitions: Iterable[TopicPartition], kind: int = PREFERRED) -> Call:
    """The request to make the first replicas the leaders, all at once; or, uncleanly, whoever is left."""
    wanted = list(partitions)

    def call(connection: NodeConnection) -> list[Said]:
        topic = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=[topic(topic=name, partitions=own) for name, own in _by_topic(wanted)],
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        answer = connection.ask(request, ElectLeadersResponse, ELECT_VERSION)
        if answer.error_code:
            return [(answer.error_code, None)]
        results = answer.replica_election_results
        return [(each.error_code, each.error_message) for topic in results for each in topic.partition_result]

    return call


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    grouped = groupby(sorted(partitions), key=lambda each: each[0])
    return [(name, [partition for _, partition in own]) for name, own in grouped]


def is_reassigning(cluster: Cluster, topic: str, partition: int) -> bool | None:
    """Whether replicas of the partition are being added or removed; None when nobody says."""

    def make() -> Any:
        one = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        return ListPartitionReassignmentsRequest(
            timeout_ms=int(ASK_TIMEOUT_S * 1000), topics=[one(name=topic, partition_indexes=[partition])]
        )

    answers = _ask_all(cluster, make, ListPartitionReassignmentsResponse, REASSIGNING_VERSION)
    said = [bool(answer.topics) for answer in answers.values() if not answer.error_code]
    return any(said) if said else None


def eligible_leaders(cluster: Cluster, topic: str, partition: int) -> tuple[int, ...] | None:
    """Replicas that are not in sync and yet miss nothing (KIP-966); None when no node knows of such a thing."""

    def make() -> Any:
        return DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic)], response_partition_limit=2000, cursor=None
        )

    found = [
        (part.leader_epoch, tuple(part.eligible_leader_replicas))
        for answer in _ask_all(cluster, make, DescribeTopicPartitionsResponse, ELIGIBLE_VERSION).values()
        for each in answer.topics
        for part in each.partitions
        if part.partition_index == partition and part.eligible_leader_replicas is not None
    ]
    return max(found)[1] if found else None


# topics and their settings


@dataclass(frozen=True)
class TopicSetting:
    """A setting of a topic, as one node tells it."""

    value: str
    own: bool  # given for this topic, and not a default


def settings_of(cluster: Cluster, topic: str) -> dict[str, TopicSetting]:
    """All settings of a topic, by the word of the first node that answers."""
    found: dict[str, TopicSetting] = {}

    def call(connection: NodeConnection) -> list[Said]:
        answer = connection.ask(_describe(topic, None), DescribeConfigsResponse, SETTINGS_VERSION)
        found.update(_settings(answer))
        return [(result.error_code, result.error_message) for result in answer.results]

    until_done(cluster, f"asking for the settings of {topic}", call, {ErrorCode.NONE})
    return found


def setting_by_node(cluster: Cluster, topic: str, name: str) -> dict[int, TopicSetting]:
    """One setting of a topic, by the word of each node that answers."""
    answers = _ask_all(cluster, lambda: _describe(topic, [name]), DescribeConfigsResponse, SETTINGS_VERSION)
    told = {node: _settings(answer) for node, answer in answers.items()}
    return {node: settings[name] for node, settings in told.items() if name in settings}


def setting(topic: str, name: str, value: str | None) -> Call:
    """The request to give a topic a setting of its own; or, without a value, to take it back."""

    def call(connection: NodeConnection) -> list[Said]:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        config = resource.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])],
            validate_only=False,
        )
        answer = connection.ask(request, IncrementalAlterConfigsResponse, ALTER_SETTINGS_VERSION)
        return [(each.error_code, each.error_message) for each in answer.responses]

    return call


def more_partitions(topic: str, count: int) -> Call:
    """The request for that many partitions in all."""

    def call(connection: NodeConnection) -> list[Said]:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        answer = connection.ask(request, CreatePartitionsResponse, PARTITIONS_VERSION)
        return [(each.error_code, each.error_message) for each in answer.results]

    return call


def deletion(topic: str) -> Call:
    """The request to delete a topic."""

    def call(connection: NodeConnection) -> list[Said]:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        answer = connection.ask(request, DeleteTopicsResponse, DELETE_VERSION)
        return [(each.error_code, each.error_message) for each in answer.responses]

    return call


def creation(topic: str, replicas: Mapping[int, tuple[int, ...]], settings: Mapping[str, str]) -> Call:
    """The request to create a topic with these replicas of each partition, and with settings of its own."""

    def call(connection: NodeConnection) -> list[Said]:
        one = CreateTopicsRequest.CreatableTopic
        wanted = one(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                one.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
                for index, nodes in sorted(replicas.items())
            ],
            configs=[one.CreatableTopicConfig(name=name, value=value) for name, value in sorted(settings.items())],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        answer = connection.ask(request, CreateTopicsResponse, CREATE_VERSION)
        return [(each.error_code, each.error_message) for each in answer.topics]

    return call


def topic_ids(cluster: Cluster, topic: str) -> dict[int, str | None]:
    """The id of the topic by each node that answers; None from a node that does not know the topic."""

    def make() -> Any:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )

    answers = _ask_all(cluster, make, MetadataResponse, TOPIC_ID_VERSION)
    return {
        node: next((str(each.topic_id) for each in answer.topics if not each.error_code), None)
        for node, answer in answers.items()
    }


def _describe(topic: str, names: list[str] | None) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=names
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False)


def _settings(answer: Any) -> dict[str, TopicSetting]:
    return {
        config.name: TopicSetting(config.value or "", config.config_source == OF_THE_TOPIC)
        for result in answer.results
        if not result.error_code
        for config in result.configs
    }


# who is who


def quorum_leader(cluster: Cluster) -> int | None:
    """The node that leads the quorum of controllers; None when nobody knows of one."""
    found = quorum(cluster)
    return found[0] if found else None


def quorum(cluster: Cluster) -> tuple[int, int] | None:
    """The leader of the quorum of controllers and its epoch: of all that nodes say, the highest epoch."""

    def make() -> Any:
        topic = DescribeQuorumRequest.TopicData
        return DescribeQuorumRequest(
            topics=[topic(topic_name=METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])]
        )

    said = [
        (part.leader_epoch, part.leader_id)
        for answer in _ask_all(cluster, make, DescribeQuorumResponse, QUORUM_VERSION).values()
        if not answer.error_code
        for each in answer.topics
        for part in each.partitions
        if not part.error_code and part.leader_id >= 0
    ]
    return max(said)[::-1] if said else None


def coordinators(cluster: Cluster, kind: int) -> list[int]:
    """The nodes that coordinate at least one group, or one transactional id."""
    if kind == GROUP:
        answers = _ask_all(cluster, ListGroupsRequest, ListGroupsResponse, GROUPS_VERSION)
        return sorted(node for node, answer in answers.items() if not answer.error_code and answer.groups)
    answers = _ask_all(
        cluster,
        lambda: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsResponse,
        TRANSACTIONS_VERSION,
    )
    return sorted(node for node, answer in answers.items() if not answer.error_code and answer.transaction_states)


def find_coordinator(cluster: Cluster, kind: int, key: str) -> int | None:
    """The coordinator of a group or of a transactional id; None while there is none."""
    answers = _ask_all(
        cluster,
        lambda: FindCoordinatorRequest(key=key, key_type=kind),
        FindCoordinatorResponse,
        COORDINATOR_VERSION,
    )
    found = [int(answer.node_id) for answer in answers.values() if not answer.error_code and answer.node_id >= 0]
    return found[0] if found else None


def _ask_all(cluster: Cluster, make: Callable[[], Any], response: Any, version: int) -> dict[int, Any]:
    """What each node answers, all asked at once; nothing of a node that does not."""

    def ask(node: Node) -> Any | None:
        try:
            with NodeConnection(node.address, ASK_TIMEOUT_S) as connection:
                return connection.ask(make(), response, version)
        except WireError:
            return None

    with ThreadPoolExecutor(max(1, len(cluster.nodes)), thread_name_prefix="admin") as pool:
        answers = zip(cluster.nodes, pool.map(ask, cluster.nodes), strict=True)
        return {node.id: answer for node, answer in answers if answer is not None}
