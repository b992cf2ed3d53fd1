"""Processes of this machine."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from harness.clusters import network_support
from harness.clusters.base import Cluster
from harness.clusters.kinds.base import OF_A_PRODUCT, ClusterKind, KindSettings
from harness.clusters.local import LOG_FILE, LocalCluster
from harness.clusters.node import Capability
from harness.clusters.requirements import Requirement, RequirementMissing, fail_if
from harness.clusters.target import load_target
from harness.foundation.namespaces import run_command
from harness.foundation.progress import Progress

if TYPE_CHECKING:
    from harness.clusters.spec import ClusterSpec


class Local(ClusterKind):
    """A network namespace for each node, if somebody wants that."""

    cluster = LocalCluster
    about = "processes on loopback"
    start_s = 10.0
    takes = OF_A_PRODUCT | {"netns"}
    extra_settings = (KindSettings(("netns",), "--netns does", "use it with --cluster local"),)

    def why_unfit(self, spec: ClusterSpec) -> str:
        """A target has to say how it runs as a process."""
        target = load_target(spec.target, spec.version)
        if target.process:
            return ""
        return f"the target '{target.name}' cannot run as local processes: use --cluster docker"

    def make(self, spec: ClusterSpec, progress: Progress) -> Cluster:
        """Of the target."""
        target = load_target(spec.target, spec.version)
        return LocalCluster(target, netns=spec.netns, ports=spec.ports, progress=progress)

    def log_lines(self, directory: Path, node_id: int, lines: int) -> list[str]:
        """From a file, which a node has that is a process."""
        if not (directory / f"node-{node_id}" / LOG_FILE).exists():
            return []
        with (directory / f"node-{node_id}" / LOG_FILE).open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]

    def unstarted(self) -> Cluster:
        """Of Apache Kafka."""
        return LocalCluster(load_target("kafka"))

    def requirements(self) -> tuple[Requirement, ...]:
        """What is needed to change networks."""
        return (
            Requirement("root", "no --netns, and no network faults on local clusters", _root),
            Requirement("netns", "no --netns: local nodes share one network stack", _netns),
            Requirement("iptables", "no partitions and no packet loss on local clusters", _iptables),
            Requirement("tc", "no limited bandwidth on local clusters", _tc),
        )


def _root() -> str:
    if os.geteuid() != 0:
        raise RequirementMissing(
            f"user id {os.geteuid()}", "run as root for network faults on local clusters, or use docker"
        )
    return "root"


def _netns() -> str:
    fail_if(network_support.why_no_namespaces())
    return "network namespaces can be made"


def _iptables() -> str:
    fail_if(network_support.missing(Capability.PARTITION))
    fail_if(network_support.missing(Capability.LOSS))
    return run_command(["iptables", "--version"]).strip()


def _tc() -> str:
    fail_if(network_support.missing(Capability.SHAPE))
    return "bandwidth can be limited (tbf)"


KIND = Local()
