"""The admin requests that the harness makes, each with a harmless example: about a topic that does not exist.

`product_support` sends them to find out what a product can do. The versions are those that the harness really uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
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
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse

from harness.foundation.protocol import CONSUMER_REPLICA, LATEST, READ_UNCOMMITTED

NOBODYS_TOPIC = "tidegauge-no-such-topic"
NOBODYS_GROUP = "tidegauge-no-such-group"
TIMEOUT_MS = 2000
TOPIC_RESOURCE = 2
GROUP = 0

METADATA, LIST_OFFSETS, FIND_COORDINATOR = "Metadata", "ListOffsets", "FindCoordinator"
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = "CreateTopics", "DeleteTopics", "CreatePartitions"
DESCRIBE_CONFIGS, ALTER_CONFIGS = "DescribeConfigs", "IncrementalAlterConfigs"
ELECT_LEADERS, REASSIGN, LIST_REASSIGNMENTS = (
    "ElectLeaders",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
)
DESCRIBE_QUORUM, DESCRIBE_CLUSTER = "DescribeQuorum", "DescribeCluster"
LIST_GROUPS, LIST_TRANSACTIONS = "ListGroups", "ListTransactions"


@dataclass(frozen=True)
class AdminCall:
    """One of them."""

    name: str
    use: str  # what the harness needs it for
    version: int
    make: Callable[[], Any]
    response: Any

    @property
    def api(self) -> int:
        """The number of its API."""
        return int(self.response.API_KEY)


def _create() -> Any:
    topic = CreateTopicsRequest.CreatableTopic(
        name=NOBODYS_TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=True)


def _delete() -> Any:
    return DeleteTopicsRequest(topic_names=[NOBODYS_TOPIC], timeout_ms=TIMEOUT_MS)


def _grow() -> Any:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=NOBODYS_TOPIC, count=2, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=True)


def _describe_configs() -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=NOBODYS_TOPIC, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=False)


def _alter_configs() -> Any:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name="retention.ms", config_operation=0, value="604800000")
    given = resource(resource_type=TOPIC_RESOURCE, resource_name=NOBODYS_TOPIC, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[given], validate_only=True)


def _elect() -> Any:
    topic = ElectLeadersRequest.TopicPartitions(topic=NOBODYS_TOPIC, partitions=[0])
    return ElectLeadersRequest(election_type=0, topic_partitions=[topic], timeout_ms=TIMEOUT_MS)


def _reassign() -> Any:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = topic.ReassignablePartition(partition_index=0, replicas=None)  # None takes a reassignment back
    return AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS, topics=[topic(name=NOBODYS_TOPIC, partitions=[part])]
    )


def _list_offsets() -> Any:
    topic = ListOffsetsRequest.ListOffsetsTopic
    part = topic.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA,
        isolation_level=READ_UNCOMMITTED,
        topics=[topic(name=NOBODYS_TOPIC, partitions=[part])],
    )


def _quorum() -> Any:
    topic = DescribeQuorumRequest.TopicData
    return DescribeQuorumRequest(
        topics=[topic(topic_name="__cluster_metadata", partitions=[topic.PartitionData(partition_index=0)])]
    )


CALLS = (
    AdminCall(METADATA, "everything", 7, lambda: MetadataRequest(topics=[]), MetadataResponse),
    AdminCall(CREATE_TOPICS, "topics of runs; else auto-creation", 4, _create, CreateTopicsResponse),
    AdminCall(DELETE_TOPICS, "removing topics, recreate-topic", 5, _delete, DeleteTopicsResponse),
    AdminCall(CREATE_PARTITIONS, "add-partitions", 2, _grow, CreatePartitionsResponse),
    AdminCall(DESCRIBE_CONFIGS, "recreate-topic, min-isr", 1, _describe_configs, DescribeConfigsResponse),
    AdminCall(ALTER_CONFIGS, "min-isr, unclean-election", 0, _alter_configs, IncrementalAlterConfigsResponse),
    AdminCall(ELECT_LEADERS, "faults that move leaders", 1, _elect, ElectLeadersResponse),
    AdminCall(REASSIGN, "faults that move leaders or replicas", 0, _reassign, AlterPartitionReassignmentsResponse),
    AdminCall(
        LIST_REASSIGNMENTS,
        "faults that move replicas",
        0,
        lambda: ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None),
        ListPartitionReassignmentsResponse,
    ),
    AdminCall(LIST_OFFSETS, "probes of watermarks", 2, _list_offsets, ListOffsetsResponse),
    AdminCall(
        FIND_COORDINATOR,
        "groups, transactions",
        1,
        lambda: FindCoordinatorRequest(key=NOBODYS_GROUP, key_type=GROUP),
        FindCoordinatorResponse,
    ),
    AdminCall(DESCRIBE_QUORUM, "aiming at controllers", 0, _quorum, DescribeQuorumResponse),
    AdminCall(DESCRIBE_CLUSTER, "external clusters; else Metadata", 0, DescribeClusterRequest, DescribeClusterResponse),
    AdminCall(LIST_GROUPS, "aiming at coordinators", 2, ListGroupsRequest, ListGroupsResponse),
    AdminCall(
        LIST_TRANSACTIONS,
        "aiming at coordinators",
        0,
        lambda: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsResponse,
    ),
)
