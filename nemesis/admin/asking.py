"""How requests that change something are asked: of any node that answers, again and again, or of all nodes at once.

They go to any node that answers, on a connection of our own: with KRaft every broker passes them on to the controller.
A client library would look for a controller first, and may find the node that was just killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka.errors import for_code

from harness.clusters.base import Cluster
from harness.clusters.node import Node
from harness.clusters.waiting import wait_until
from harness.clusters.wire import NodeConnection, WireError
from harness.foundation.errors import ClusterError

REQUEST_TIMEOUT_S = 5.0  # of one request to one node
REQUEST_TIMEOUT_MS = int(REQUEST_TIMEOUT_S * 1000)
ADMIN_TIMEOUT_S = 20.0  # of everything that is tried for one change
ASK_TIMEOUT_S = 2.0
RETRY_EVERY_S = 0.2
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


def ask_all(cluster: Cluster, make: Callable[[], Any], response: Any, version: int) -> dict[int, Any]:
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
