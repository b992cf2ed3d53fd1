"""What is wrong with the Metadata of a cluster that just came up: evidence for the verdict, and no reason to stop.

Every node is asked. Nothing here connects to an address that an answer names: only to those of the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.clusters import wire
from harness.clusters.node import Node
from harness.clusters.wire import Metadata, WireError

TIMEOUT_S = 3.0
THREADS = 16
SHOWN_AT_MOST = 10
LOCAL = {"localhost": "127.0.0.1", "[::1]": "127.0.0.1"}


def odd_metadata(nodes: Sequence[Node], timeout_s: float = TIMEOUT_S) -> list[str]:
    """A sentence for each contradiction, of which some are shown."""

    def ask(node: Node) -> Metadata | None:
        try:
            return wire.ask_metadata(node.address, timeout_s)
        except WireError:
            return None  # that it does not answer is seen by others

    with ThreadPoolExecutor(THREADS, thread_name_prefix="metadata") as pool:
        answers = dict(zip((node.id for node in nodes), pool.map(ask, nodes), strict=True))
    found = list(oddities({node: told for node, told in answers.items() if told}, nodes))
    more = len(found) - SHOWN_AT_MOST
    return [*found[:SHOWN_AT_MOST], *([f"and {more:,} more contradictions in Metadata"] if more > 0 else [])]


def oddities(answers: Mapping[int, Metadata], nodes: Sequence[Node]) -> Iterator[str]:
    """What does not fit in these answers, by the node that gave them."""
    ours = {_plain(node.address): node.id for node in nodes}
    for node, told in sorted(answers.items()):
        yield from _of_one(node, told, ours)
    clusters = sorted({told.cluster_id or "" for told in answers.values()})
    if len(clusters) > 1:
        yield f"nodes name different clusters: {', '.join(each or 'none' for each in clusters)}"


def _of_one(node: int, told: Metadata, ours: Mapping[str, int]) -> Iterator[str]:
    ids = Counter(number for number, _ in told.listed)
    for number, count in sorted(ids.items()):
        if count > 1:
            yield f"node {node} lists {count} brokers with the id {number}"
    listed = {_plain(address) for _, address in told.listed}
    for address in sorted(listed - ours.keys()):
        yield f"node {node} lists a broker at {address}, which is not in the cluster; nothing of ours connects to it"
    for address in sorted(ours.keys() - listed):
        yield f"node {node} does not list node {ours[address]} ({address})"
    for number, address in told.listed:
        known = ours.get(_plain(address))
        if known is not None and known != number and ids[number] == 1:
            yield f"node {node} lists {address} as node {number}, and it is node {known}"
    if told.controller_id < 0:
        yield f"node {node} knows of no controller"
    elif told.controller_id not in ids:
        yield f"node {node} names node {told.controller_id} as controller, and does not list it"


def _plain(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{LOCAL.get(host, host)}:{port}"
