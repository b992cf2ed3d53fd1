"""Requests to the cluster under test that change something, or that ask who is who.

They go to any node that answers, on a connection of our own: with KRaft every broker passes them on to the controller.
A client library would look for a controller first, and may find the node that was just killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from harness.clusters.base import Cluster, wait_until
from harness.errors import ClusterError
from harness.wire import Connection, WireError
from nemesis.base import Victim

REASSIGN_VERSION = 0
ELECT_VERSION = 1
QUORUM_VERSION = 0
COORDINATOR_VERSION = 1
PREFERRED, UNCLEAN = 0, 1
GROUP, TRANSACTION = 0, 1
METADATA_TOPIC = "__cluster_metadata"
REQUEST_TIMEOUT_S = 5.0  # of one request to one node
ADMIN_TIMEOUT_S = 20.0  # of everything that is tried for one change
ASK_TIMEOUT_S = 2.0
RETRY_EVERY_S = 0.2
PREFERRED_LEADER_NOT_AVAILABLE = 80
ELECTION_NOT_NEEDED = 84
DONE = 0, ELECTION_NOT_NEEDED

Call = Callable[[Connection], tuple[int, str | None]]  # makes one request; Kafka's error code and its text


def until_done(cluster: Cluster, doing: str, call: Call, good: Collection[int]) -> None:
    """Ask node after node until one of them answers with a good code; a node that is down is passed over."""
    reasons: list[str] = []

    def done() -> bool:
        reasons.clear()
        for node in cluster.nodes:
            try:
                with Connection(node.address, REQUEST_TIMEOUT_S + 1) as connection:
                    code, text = call(connection)
            except WireError as error:
                reasons.append(str(error))
                continue
            if code in good:
                return True
            reasons.append(f"node {node.id} says {for_code(code).__name__}{f' ({text})' if text else ''}")
        return False

    try:
        wait_until(done, ADMIN_TIMEOUT_S, doing, RETRY_EVERY_S)
    except TimeoutError:
        raise ClusterError(
            f"{doing} was not done within {ADMIN_TIMEOUT_S:.0f} s ({'; '.join(reasons)})",
            "check that a majority of the nodes runs and that the replicas are in sync",
        ) from None


def reassignment(victim: Victim, replicas: tuple[int, ...]) -> Call:
    """The request for this order of replicas."""

    def call(connection: Connection) -> tuple[int, str | None]:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition = topic.ReassignablePartition(partition_index=victim.partition, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000), topics=[topic(name=victim.topic, partitions=[partition])]
        )
        answer = connection.ask(request, AlterPartitionReassignmentsResponse, REASSIGN_VERSION)
        if answer.error_code:
            return answer.error_code, answer.error_message
        (result,) = answer.responses[0].partitions
        return result.error_code, result.error_message

    return call


def election(victim: Victim) -> Call:
    """The request to make the first replica the leader."""

    def call(connection: Connection) -> tuple[int, str | None]:
        topic = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[topic(topic=victim.topic, partitions=[victim.partition])],
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        )
        answer = connection.ask(request, ElectLeadersResponse, ELECT_VERSION)
        if answer.error_code:
            return answer.error_code, None
        (result,) = answer.replica_election_results[0].partition_result
        return result.error_code, result.error_message

    return call


def quorum_leader(cluster: Cluster) -> int | None:
    """The node that leads the quorum of controllers, by the word of the first that knows; None when nobody does."""
    found = quorum(cluster)
    return found[0] if found else None


def quorum(cluster: Cluster) -> tuple[int, int] | None:
    """The leader of the quorum of controllers and its epoch: of all that nodes say, the highest epoch."""
    topic = DescribeQuorumRequest.TopicData
    said = []
    for node in cluster.nodes:
        request = DescribeQuorumRequest(
            topics=[topic(topic_name=METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])]
        )
        answer = _ask(node.address, request, DescribeQuorumResponse, QUORUM_VERSION)
        if answer is None or answer.error_code:
            continue
        for each in answer.topics:
            said += [(p.leader_epoch, p.leader_id) for p in each.partitions if not p.error_code and p.leader_id >= 0]
    return max(said)[::-1] if said else None


def find_coordinator(cluster: Cluster, kind: int, key: str) -> int | None:
    """The coordinator of a group or of a transactional id; None while there is none."""
    for node in cluster.nodes:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = _ask(node.address, request, FindCoordinatorResponse, COORDINATOR_VERSION)
        if answer is not None and not answer.error_code and answer.node_id >= 0:
            return int(answer.node_id)
    return None


def _ask(address: str, request: Any, response: Any, version: int) -> Any | None:
    """An answer, or nothing from a node that gives none."""
    try:
        with Connection(address, ASK_TIMEOUT_S) as connection:
            return connection.ask(request, response, version)
    except WireError:
        return None
