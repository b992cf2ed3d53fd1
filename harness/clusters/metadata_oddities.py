"""What is wrong with the Metadata of a cluster: evidence for the verdict, and mostly no reason to stop.

Every node is asked. Nothing here connects to an address that an answer names: only to those of the nodes. A broker that
is not in the cluster is a *stranger*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafka.errors import KafkaError

from harness.clusters import wire
from harness.clusters.admin import Admin
from harness.clusters.node import Node
from harness.clusters.wire import Metadata, WireError
from harness.foundation.known_addresses import outside, plain
from harness.foundation.security import Security

TIMEOUT_S = 3.0
ADMIN_TIMEOUT_S = 10.0  # for a connection with TLS and SASL
THREADS = 16
SHOWN_AT_MOST = 10
Answers = Mapping[int, Metadata]  # by the node that gave them


@dataclass(frozen=True)
class Oddity:
    """A contradiction; or what a node alone decides if it is stateless: whom it lists, and under which id."""

    sentence: str
    own_choice: bool = False

    def __str__(self) -> str:
        return self.sentence


def ask_all(nodes: Sequence[Node], security: Security, timeout_s: float = TIMEOUT_S) -> Answers:
    """What each node answers to Metadata, by its id; those that do not answer are left out, others see to them."""

    def ask(node: Node) -> Metadata | None:
        try:
            if security.protocol == "PLAINTEXT":
                return wire.ask_metadata(node.address, timeout_s)
            return _ask_securely(node, security, timeout_s)
        except (WireError, KafkaError, OSError, ValueError):
            return None

    with ThreadPoolExecutor(THREADS, thread_name_prefix="metadata") as pool:
        answers = zip((node.id for node in nodes), pool.map(ask, nodes), strict=True)
        return {node: told for node, told in answers if told}


def _ask_securely(node: Node, security: Security, timeout_s: float) -> Metadata:
    """By way of kafka-python, which can do TLS and SASL, and connects to this node alone."""
    timeout_ms = round(max(timeout_s, ADMIN_TIMEOUT_S) * 1000)
    settings = {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms, **security.kafka_python()}
    with Admin(bootstrap_servers=[node.address], client_id="tidegauge", **settings) as admin:
        told: Metadata = admin.first_answer()
    return told


def shared_ids(answers: Answers) -> list[int]:
    """Ids that some node gives to several brokers: whom Metadata means by one of these, nobody can say."""
    counts = [Counter(number for number, _ in told.listed) for told in answers.values()]
    return sorted({number for each in counts for number, count in each.items() if count > 1})


def strangers(answers: Answers, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """Nodes that name a broker outside of the cluster, each with its address."""
    for node, told in sorted(answers.items()):
        for address in outside((address for _, address in told.listed), known):
            yield node, address


def odd_metadata(answers: Answers, nodes: Sequence[Node]) -> list[Oddity]:
    """Each contradiction, of which some are shown."""
    found = list(oddities(answers, nodes))
    left_out = found[SHOWN_AT_MOST:]
    more = Oddity(f"and {len(left_out):,} more contradictions in Metadata", all(each.own_choice for each in left_out))
    return [*found[:SHOWN_AT_MOST], *([more] if left_out else [])]


def oddities(answers: Answers, nodes: Sequence[Node]) -> Iterator[Oddity]:
    """What does not fit in these answers, by the node that gave them."""
    ours = {plain(node.address): node.id for node in nodes}
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
    listed = {plain(address) for _, address in told.listed}
    for address in sorted(listed - ours.keys()):
        said = f"node {node} lists a broker at {address}, which is not in the cluster; nothing of ours connects to it"
        yield Oddity(said)
    for address in sorted(ours.keys() - listed):
        yield Oddity(f"node {node} does not list node {ours[address]} ({address})", own_choice=True)
    for number, address in told.listed:
        known = ours.get(plain(address))
        if known is not None and known != number and ids[number] == 1:
            yield Oddity(f"node {node} lists {address} as node {number}, and it is node {known}", own_choice=True)
    if told.controller_id < 0:
        yield Oddity(f"node {node} knows of no controller")
    elif told.controller_id not in ids:
        yield Oddity(f"node {node} names node {told.controller_id} as controller, and does not list it")
