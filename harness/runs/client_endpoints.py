"""What clients of a run connect to: the taps before the nodes of its cluster, or the nodes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from harness.clusters.base import Cluster
from harness.foundation.errors import UsageError
from harness.foundation.ports import PortLeases
from harness.foundation.security import SecuritySpec
from harness.foundation.view import View
from harness.history.sources import segment_path
from harness.history.store import Run
from harness.runs.load import ClientEndpoints
from harness.runs.scenario import Scenario, derived_seed
from harness.tap.process import TapConfig, Upstream
from harness.tap.taps import Taps
from workloads import find_workload
from workloads.base import NodeAddress


def start_taps(  # noqa: PLR0913, PLR0917 - a run's cluster, what is run, and where it all goes
    cluster: Cluster, scenario: Scenario, run: Run, prefix: str, environment: Mapping[str, str], undo: ExitStack
) -> Taps:
    """The process of the taps, which loads while the cluster starts."""
    leases = PortLeases()
    undo.callback(leases.release)
    ports: dict[int, int] = {}
    workload = find_workload(scenario.workload)

    def config(process: int) -> TapConfig:
        for node in cluster.nodes:
            if node.id not in ports:
                (ports[node.id],) = leases.take(1)
        return TapConfig(
            process=process,
            segment=segment_path(run.path, process),
            upstreams=tuple(
                Upstream(node=node.id, address=node.address, port=ports[node.id]) for node in cluster.nodes
            ),
            security=SecuritySpec.of(cluster.security),
            cluster=tuple(cluster.addresses),
            topics={topic.full_name(prefix): topic.number for topic in workload.topics(scenario.settings)},
            rules=(*workload.tap_rules(scenario.settings), *scenario.tap.rule),
            broken=scenario.tap.broken,
            seed=derived_seed(scenario.seed, "tap"),
        )

    taps = Taps(config, dict(environment), run.path / "logs", lambda number: run.started(number, "tap"))
    undo.callback(taps.stop, 0)
    taps.prepare()
    return taps


def client_endpoints(cluster: Cluster, scenario: Scenario, taps: Taps | None, view: View) -> ClientEndpoints:
    """The nodes of a cluster that is up, as clients see them; the taps are started for it."""
    asked = scenario.settings.bootstrap
    if taps is None:
        nodes = tuple(NodeAddress(id=node.id, address=node.address) for node in cluster.nodes)
        return ClientEndpoints(nodes, cluster.security, asked)
    view.step("starting the taps")
    taps.start()
    nodes = tuple(NodeAddress(id=node.id, address=taps.address(node.id)) for node in cluster.nodes)
    if isinstance(asked, tuple):
        asked = tuple(_tapped(cluster, taps, address) for address in asked)
    return ClientEndpoints(nodes, cluster.security.without_tls(), asked, taps)


def _tapped(cluster: Cluster, taps: Taps, address: str) -> str:
    """The tap before the node that clients shall begin with."""
    for node in cluster.nodes:
        if node.address == address:
            return taps.address(node.id)
    known = ", ".join(node.address for node in cluster.nodes)
    raise UsageError(
        f"bootstrap={address} is no node of the cluster, and clients would go past the taps",
        f"its nodes are {known}; or run with --no-tap",
    )
