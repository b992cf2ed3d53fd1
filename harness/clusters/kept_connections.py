"""Connections of kafka-python, kept to the addresses of the cluster under test.

A client of Kafka connects to whatever address an answer names. One made with `kafka_client=connections_to(…)` connects
to the given addresses alone: any other is refused by name before a socket is opened. The library takes that as it takes
a node that does not listen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from harness.clusters.wire import address_of
from harness.foundation.known_addresses import outside

log = logging.getLogger(__name__)


class KeptConnections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python has no types
    """A manager of connections that knows where it may connect to."""

    def __init__(self, net: Any, known: Collection[str], **settings: Any) -> None:
        self._known = known
        super().__init__(net, **settings)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Where the library opens a socket."""
        address = address_of(node.host, node.port)
        if outside([address], self._known):
            said = f"{address}, given as node {node.node_id}, is not in the cluster under test: refused"
            log.warning(said)
            raise KafkaConnectionError(said)
        return await super()._build_transport(node, timeout_at=timeout_at)


def connections_to(known: Collection[str]) -> Callable[..., KafkaNetClient]:
    """What kafka-python's clients take as `kafka_client`; with nothing known, they connect to whatever is named."""
    if not known:
        return KafkaNetClient  # type: ignore[no-any-return]

    def connect(**settings: Any) -> KafkaNetClient:
        net = NetworkSelector(**settings)
        return KafkaNetClient(net, KeptConnections(net, frozenset(known), **settings), **settings)

    return connect
