"""A cluster that runs already and that somebody else owns: looked at and used, never broken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from kafka.errors import KafkaError

from harness.clusters.admin import Admin
from harness.clusters.base import LOG_TAIL_LINES, OURS, Capability, Cluster, Node, NodeState, Unavailable
from harness.clusters.target import ReadyCheck
from harness.clusters.wire import TooMuch, WireError, ask_metadata
from harness.foundation.errors import CannotHere, ClusterError, UsageError
from harness.foundation.metadata_answer import BROKERS_AT_MOST
from harness.foundation.progress import Progress
from harness.foundation.security import Security

CONNECT_TIMEOUT_MS = 15_000


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
        self._refuse_too_much()
        self.progress.step(f"connecting to {','.join(self._addresses)} ({self.security.protocol})")
        try:
            admin = Admin(
                bootstrap_servers=list(self._addresses),
                client_id="tidegauge",
                request_timeout_ms=CONNECT_TIMEOUT_MS,
                bootstrap_timeout_ms=CONNECT_TIMEOUT_MS,
                **self.security.kafka_python(),
            )
        except (KafkaError, OSError, ValueError) as error:
            raise self._unreachable(error) from error
        try:
            described = admin.describe_cluster()
        except (KafkaError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            admin.close()
        self.cluster_id = described["cluster_id"]
        if len(described["brokers"]) > BROKERS_AT_MOST:
            count = len(described["brokers"])
            raise ClusterError(
                f"the cluster says it has {count:,} brokers, more than {BROKERS_AT_MOST}", "name a smaller cluster"
            )
        brokers = sorted(described["brokers"], key=lambda broker: broker["broker_id"])
        self.nodes = tuple(Node(b["broker_id"], _address(b["host"], b["port"])) for b in brokers)

    def _refuse_too_much(self) -> None:
        """Before a client library reads an answer that would take all memory."""
        for address in self._addresses if self.security.protocol == "PLAINTEXT" else ():
            with suppress(WireError):
                try:
                    ask_metadata(address, CONNECT_TIMEOUT_MS / 1000)
                except TooMuch as error:
                    raise ClusterError(str(error), "see what that broker answers to Metadata") from error

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

    def _unreachable(self, error: Exception) -> ClusterError:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        return ClusterError(
            f"no broker answers at {','.join(self._addresses)} with {self.security.protocol} ({said})",
            "check the addresses, that the brokers run, and the TLS and SASL settings",
        )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
