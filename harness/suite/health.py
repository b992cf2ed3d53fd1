"""Whether a cluster is as good as new: every node runs, lists all nodes, and has all replicas of what is left in sync.

Topics of ours that are still being removed, and nodes that are still catching up, are waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import METADATA_VERSION, observe
from harness.clusters.node import NodeState
from harness.clusters.wire import NodeConnection, WireError, ask_metadata

PATIENCE_S = 20.0
TICK_S = 0.2
TIMEOUT_S = 2.0
OURS = "tg-"  # what the topics of every run begin with


def why_not_whole(
    cluster: Cluster, patience_s: float = PATIENCE_S, look: Callable[[Cluster], str] | None = None
) -> str:
    """What is still wrong after a while; nothing when the cluster can be used again."""
    deadline_s = time.monotonic() + patience_s
    look = look or trouble
    while (found := look(cluster)) and time.monotonic() < deadline_s:
        time.sleep(TICK_S)
    return found


def trouble(cluster: Cluster) -> str:
    """The first thing that is wrong at this moment."""
    for node in cluster.nodes:
        if (state := cluster.state(node.id)) is not NodeState.RUNNING:
            return f"node {node.id} is {state}"
        if cluster.is_held_down(node.id):
            return f"node {node.id} is held down"
    try:
        for node in cluster.nodes:
            if (known := len(ask_metadata(node.address, TIMEOUT_S).brokers)) != len(cluster.nodes):
                return f"node {node.id} lists {known} of {len(cluster.nodes)} brokers"
        topics = sorted({topic for node in cluster.nodes for topic in _topics(node.address)})
    except WireError as error:
        return str(error)
    if left := [topic for topic in topics if topic.startswith(OURS)]:
        return f"the topic {left[0]} is still there"
    return next(iter(observe(cluster.nodes, topics, cluster.security).troubles()), "")


def _topics(address: str) -> list[str]:
    """All topics that this node knows."""
    with NodeConnection(address, TIMEOUT_S) as connection:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = connection.ask(request, MetadataResponse, METADATA_VERSION)
    return [topic.name for topic in answer.topics or () if not topic.error_code]
