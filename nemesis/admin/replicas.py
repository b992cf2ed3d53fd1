"""Requests about replicas and leaders: reassignments, elections, and who may lead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import TopicPartition
from harness.clusters.wire import NodeConnection
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import ASK_TIMEOUT_S, REQUEST_TIMEOUT_MS, Call, Said, ask_all

REASSIGN_VERSION = 0
REASSIGNING_VERSION = 0
ELECT_VERSION = 1
ELIGIBLE_VERSION = 0

PREFERRED, UNCLEAN = 0, 1
DONE = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED


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

    answers = ask_all(cluster, make, ListPartitionReassignmentsResponse, REASSIGNING_VERSION)
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
        for answer in ask_all(cluster, make, DescribeTopicPartitionsResponse, ELIGIBLE_VERSION).values()
        for each in answer.topics
        for part in each.partitions
        if part.partition_index == partition and part.eligible_leader_replicas is not None
    ]
    return max(found)[1] if found else None
