"""Brokers outside of the cluster under test, which its nodes name: without taps, clients would connect to them.

A run without taps is refused when a node names one before the load begins, and ends when a node does so during it. What
a client was told in between is seen by nobody: kafka-python connects to the nodes of the cluster all the same
(`harness.clusters.kept_connections`); other libraries connect to where they are sent.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

from harness.clusters.base import Cluster
from harness.clusters.metadata_oddities import Answers, ask_all, strangers
from harness.foundation.errors import ClusterError

LOOK_EVERY_S = 1.0


def refuse_strangers(answers: Answers, known: Collection[str]) -> None:
    """An error where a node names a broker outside of the cluster."""
    for node, address in strangers(answers, known):
        raise ClusterError(
            f"node {node} names a broker at {address}, which is not in the cluster under test",
            "correct what the broker advertises, or run without --no-tap: taps keep clients inside the cluster",
        )


class StrangerWatch:
    """Asks every node again and again, beside the load: a node that is paused answers late."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._found: ClusterError | None = None

    def begin(self, over: threading.Event) -> None:
        """Until then, or until a stranger was named."""
        threading.Thread(target=self._look, args=(over,), name="strangers", daemon=True).start()

    def check(self) -> None:
        """An error if a node has named one."""
        if self._found is not None:
            raise self._found

    def _look(self, over: threading.Event) -> None:
        while self._found is None and not over.wait(LOOK_EVERY_S):
            try:
                refuse_strangers(ask_all(self._cluster.nodes, self._cluster.security), self._cluster.addresses)
            except ClusterError as error:
                self._found = error
