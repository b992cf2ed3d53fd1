"""A cluster that runs already and that somebody else owns: looked at and used, never broken."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import NoReturn

from kafka.errors import KafkaError

from harness.clusters import wire
from harness.clusters.admin import Admin
from harness.clusters.base import LOG_TAIL_LINES, Cluster
from harness.clusters.node import OURS, Capability, Node, NodeState, Unavailable
from harness.clusters.target import ReadyCheck
from harness.foundation.errors import CannotHere, ClusterError, UsageError, one_line
from harness.foundation.metadata_answer import BROKERS_AT_MOST
from harness.foundation.progress import Progress
from harness.foundation.security import Security

CONNECT_TIMEOUT_MS = 15_000
UNREADABLE = (KafkaError, ValueError, TypeError, LookupError, struct.error)  # what kafka-python raises for answers
PLAIN = "without TLS and SASL; if they have those, say so (--tls, --sasl)"
SECURED = "with these TLS and SASL settings"


def checked_addresses(addresses: Sequence[str]) -> list[tuple[str, int]]:
    """Hosts and ports; an error for what is none."""
    found = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or "/" in host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"'{address}' is not an address", "write it as HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


class ExternalCluster(Cluster):
    """Known by its bootstrap addresses."""

    kind = "external"
    nodes_are_ours = False
    stays = True

    def __init__(self, bootstrap: tuple[str, ...], security: Security, progress: Progress | None = None) -> None:
        super().__init__("external", "unknown", ReadyCheck("kafka", CONNECT_TIMEOUT_MS / 1000), progress)
        if not bootstrap:
            raise UsageError("an external cluster needs its addresses", "give --bootstrap HOST:PORT,HOST:PORT")
        checked_addresses(bootstrap)
        self.security = security
        self._addresses = bootstrap

    @property
    def capabilities(self) -> frozenset[Capability]:
        """None: the harness breaks only what it started."""
        return frozenset()

    def cannot(self, capability: Capability) -> Unavailable | None:
        """Everything that happens to the cluster itself: it is somebody else's."""
        if capability in OURS:
            return None
        return Unavailable(
            "an external cluster is somebody else's and is never broken",
            "use --cluster local or --cluster docker, or a fault of the client or the taps",
        )

    @property
    def addresses(self) -> frozenset[str]:
        """Also those that were given: what is asked there need not name all of them."""
        return super().addresses | set(self._addresses)

    def _bring_up(self) -> None:
        self.progress.step(f"connecting to {','.join(self._addresses)} ({self.security.protocol})")
        cluster_id, listed = self._ask_nodes() if self.security.protocol == "PLAINTEXT" else self._ask_through_admin()
        if not listed:
            raise self._unreachable("it lists no broker")
        if len(listed) > BROKERS_AT_MOST:
            raise self._unreachable(f"it lists {len(listed):,} brokers, and {BROKERS_AT_MOST:,} are the most")
        self.cluster_id = cluster_id or ""
        self.nodes = numbered(listed)

    def _ask_nodes(self) -> tuple[str | None, list[tuple[int, str]]]:
        """The brokers, by the word of the first address that gives one; Metadata is known to every product."""
        said = []
        for address in self._addresses:
            try:
                told = wire.ask_metadata(address, CONNECT_TIMEOUT_MS / 1000)
            except wire.TooMuch as error:
                raise ClusterError(one_line(error), "see what that broker answers to Metadata") from error
            except wire.WireError as error:
                said.append(one_line(error))
            else:
                return told.cluster_id, list(told.listed)
        raise self._unreachable("; ".join(said))

    def _ask_through_admin(self) -> tuple[str | None, list[tuple[int, str]]]:
        """DescribeCluster, and where that fails or cannot be read, Metadata."""
        try:
            with Admin(
                bootstrap_servers=self._addresses,
                anywhere=True,  # the cluster is what these addresses name
                client_id="tidegauge",
                request_timeout_ms=CONNECT_TIMEOUT_MS,
                bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                **self.security.kafka_python(),
            ) as admin:
                try:
                    told = admin.describe_cluster()
                except UNREADABLE as error:
                    self.progress.detail(f"DescribeCluster failed ({one_line(error)}), asking for Metadata")
                    told = admin.metadata()
        except (*UNREADABLE, OSError) as error:
            raise self._unreachable(one_line(error)) from error
        listed = [(each["broker_id"], wire.address_of(each["host"], each["port"])) for each in told["brokers"]]
        return told["cluster_id"], listed

    def wait_until_ready(self) -> None:
        """It answered, and whether it is well is for the run to find out."""

    def stop_node(self, node_id: int) -> None:
        """Refused."""
        self._refuse(node_id, "stopped")

    def kill(self, node_id: int) -> None:
        """Refused."""
        self._refuse(node_id, "killed")

    def pause(self, node_id: int) -> None:
        """Refused."""
        self._refuse(node_id, "paused")

    def resume(self, node_id: int) -> None:
        """Refused."""
        self._refuse(node_id, "resumed")

    def start_node(self, node_id: int) -> None:
        """Refused."""
        self._refuse(node_id, "started")

    def state(self, node_id: int) -> NodeState:
        """Not ours to know."""
        self.node(node_id)
        return NodeState.UNKNOWN

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:  # noqa: ARG002 - one interface
        """Its logs are not ours to read."""
        self.node(node_id)
        return []

    def _refuse(self, node_id: int, what: str) -> NoReturn:
        raise CannotHere(
            f"node {node_id} of the external cluster is not {what}: the harness did not start it",
            "use --cluster local or docker for faults",
        )

    def _unreachable(self, said: str) -> ClusterError:
        secured = self.security.protocol != "PLAINTEXT"
        return ClusterError(
            f"no broker answers at {','.join(self._addresses)} over {self.security.protocol} ({said})",
            f"check the addresses, and that they are listeners of brokers {SECURED if secured else PLAIN}",
        )


def numbered(listed: Sequence[tuple[int, str]]) -> tuple[Node, ...]:
    """The brokers, each with an id of its own: where several have the same one, the later ones get free numbers."""
    claimed = {address: number for number, address in sorted(listed, reverse=True)}
    free = itertools.filterfalse(set(claimed.values()).__contains__, itertools.count(1))
    taken: set[int] = set()
    nodes = []
    for address, wanted in sorted(claimed.items(), key=lambda each: (each[1], each[0])):
        number = wanted if wanted not in taken else next(free)
        taken.add(number)
        nodes.append(Node(number, address))
    return tuple(nodes)
