"""Requests that ask who leads the quorum of controllers, and who coordinates what."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from harness.clusters.base import Cluster
from nemesis.admin.asking import ask_all

QUORUM_VERSION = 0
COORDINATOR_VERSION = 1
GROUPS_VERSION = 2  # known to all since 2.1; before 2.6 they hang up on the one with filters
TRANSACTIONS_VERSION = 0
GROUP, TRANSACTION = 0, 1
METADATA_TOPIC = "__cluster_metadata"


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
        for answer in ask_all(cluster, make, DescribeQuorumResponse, QUORUM_VERSION).values()
        if not answer.error_code
        for each in answer.topics
        for part in each.partitions
        if not part.error_code and part.leader_id >= 0
    ]
    return max(said)[::-1] if said else None


def coordinators(cluster: Cluster, kind: int) -> list[int]:
    """The nodes that coordinate at least one group, or one transactional id."""
    if kind == GROUP:
        answers = ask_all(cluster, ListGroupsRequest, ListGroupsResponse, GROUPS_VERSION)
        return sorted(node for node, answer in answers.items() if not answer.error_code and answer.groups)
    answers = ask_all(
        cluster,
        lambda: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        ListTransactionsResponse,
        TRANSACTIONS_VERSION,
    )
    return sorted(node for node, answer in answers.items() if not answer.error_code and answer.transaction_states)


def find_coordinator(cluster: Cluster, kind: int, key: str) -> int | None:
    """The coordinator of a group or of a transactional id; None while there is none."""
    answers = ask_all(
        cluster,
        lambda: FindCoordinatorRequest(key=key, key_type=kind),
        FindCoordinatorResponse,
        COORDINATOR_VERSION,
    )
    found = [int(answer.node_id) for answer in answers.values() if not answer.error_code and answer.node_id >= 0]
    return found[0] if found else None
