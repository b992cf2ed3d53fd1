"""What is wrong with the Metadata of a cluster that just came up: evidence for the verdict, and no reason to stop.

Every node is asked. Nothing here connects to an address that an answer names: only to those of the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.clusters import wire
from harness.clusters.base import Node
from harness.clusters.wire import Metadata, WireError

TIMEOUT_S = 3.0
THREADS = 16
SHOWN_AT_MOST = 10
LOCAL = {"localhost": "127.0.0.1", "[::1]": "127.0.0.1"}


@dataclass(frozen=True)
class Oddity:
    """A contradiction; or what a node alone decides if it is stateless: whom it lists, and under which id."""

    sentence: str
    own_choice: bool = False

    def __str__(self) -> str:
        return self.sentence


def odd_metadata(nodes: Sequence[Node], timeout_s: float = TIMEOUT_S) -> list[Oddity]:
    """Each contradiction, of which some are shown."""

    def ask(node: Node) -> Metadata | None:
        try:
            return wire.ask_metadata(node.address, timeout_s)
        except WireError:
            return None  # that it does not answer is seen by others

    with ThreadPoolExecutor(THREADS, thread_name_prefix="metadata") as pool:
        answers = dict(zip((node.id for node in nodes), pool.map(ask, nodes), strict=True))
    found = list(oddities({node: told for node, told in answers.items() if told}, nodes))
    left_out = found[SHOWN_AT_MOST:]
    more = f"and {len(left_out):,} more contradictions in Metadata"
    own_choice = all(each.own_choice for each in left_out)
    return [*found[:SHOWN_AT_MOST], *([Oddity(more, own_choice)] if left_out else [])]


def oddities(answers: Mapping[int, Metadata], nodes: Sequence[Node]) -> Iterator[Oddity]:
    """What does not fit in these answers, by the node that gave them."""
    ours = {_plain(node.address): node.id for node in nodes}
    for node, told in sorted(answers.items()):
        yield from _of_one(node, told, ours)
    clusters = sorted({told.cluster_id or "" for told in answers.values()})
    if len(clusters) > 1:
        yield Oddity(f"nodes name different clusters: {', '.join(each or 'none' for each in clusters)}")


def _of_one(node: int, told: Metadata, ours: Mapping[str, int]) -> Iterator[Oddity]:
    ids = Counter(number for number, _ in told.listed)
    for number, count in sorted(ids.items()):
        if count > 1:
            yield Oddity(f"node {node} lists {count} brokers with the id {number}")
    listed = {_plain(address) for _, address in told.listed}
    for address in sorted(listed - ours.keys()):
        said = f"node {node} lists a broker at {address}, which is not in the cluster; nothing of ours connects to it"
        yield Oddity(said)
    for address in sorted(ours.keys() - listed):
        yield Oddity(f"node {node} does not list node {ours[address]} ({address})", own_choice=True)
    for number, address in told.listed:
        known = ours.get(_plain(address))
        if known is not None and known != number and ids[number] == 1:
            yield Oddity(f"node {node} lists {address} as node {number}, and it is node {known}", own_choice=True)
    if told.controller_id < 0:
        yield Oddity(f"node {node} knows of no controller")
    elif told.controller_id not in ids:
        yield Oddity(f"node {node} names node {told.controller_id} as controller, and does not list it")


def _plain(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{LOCAL.get(host, host)}:{port}"
