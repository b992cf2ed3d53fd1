"""What a product can do: it is started, asked for everything that the harness may need of it, and stopped."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.clusters.base import Cluster
from harness.clusters.metadata_oddities import ask_all, odd_metadata
from harness.clusters.product_support import CallOutcome, by_node, find_out
from harness.foundation.errors import CannotHere, TidegaugeError
from workloads.base import Settings
from workloads.topics import create_topics, delete_topics


@dataclass(frozen=True)
class ProductReport:
    """What was found out."""

    product: str
    calls: Mapping[str, Mapping[int, CallOutcome]]
    topic: str  # how making a topic went
    topic_is_made: bool
    odd_metadata: list[str]

    @property
    def can_run(self) -> bool:
        """Whether a run gets as far as its load."""
        return self.topic_is_made

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        calls = {
            call: {str(node): outcome.as_json() for node, outcome in found.items()}
            for call, found in self.calls.items()
        }
        topic = {"made": self.topic_is_made, "detail": self.topic}
        return {"product": self.product, "calls": calls, "topic": topic, "odd_metadata": self.odd_metadata}


def examine_product(cluster: Cluster) -> ProductReport:
    """Ask a cluster that is up, node by node; the topic that is made for it is removed."""
    if cluster.security.protocol != "PLAINTEXT":
        raise CannotHere(
            f"nodes cannot be asked one by one over {cluster.security.protocol}", "use a listener without TLS and SASL"
        )
    odd = [str(each) for each in odd_metadata(ask_all(cluster.nodes, cluster.security), cluster.nodes)]
    calls = find_out(cluster.nodes).outcomes
    made, said = _try_topic(cluster)
    return ProductReport(f"{cluster.product} {cluster.version}", calls, said, made, odd)


def _try_topic(cluster: Cluster) -> tuple[bool, str]:
    """Whether a topic can be made as runs make them, and what was given up for it."""
    prefix = f"tidegauge-doctor-{secrets.token_hex(4)}"
    try:
        made = create_topics(cluster.nodes, cluster.security, [Settings().topic_spec(0, "topic")], prefix)
    except TidegaugeError as error:
        return False, str(error)
    try:
        delete_topics(cluster.nodes, cluster.security, prefix)
    except TidegaugeError as error:
        return True, "; ".join([*made.given_up, *made.troubles, str(error)])
    return True, "; ".join([*made.given_up, *made.troubles]) or "made as asked for, and deleted"


def in_words(found: Mapping[int, CallOutcome]) -> str:
    """One row of the table."""
    said = {outcome.detail for outcome in found.values()}
    return said.pop() if len(said) == 1 else by_node((node, outcome.detail) for node, outcome in found.items())
