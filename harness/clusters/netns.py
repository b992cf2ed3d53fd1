"""A network namespace for every node, joined by a switch, as if each were a host.

The switch is a bridge in a namespace of its own and not on the host: packets between nodes then never cross the host's
FORWARD chain, which Docker closes on many machines, and nothing host-wide has to be opened. The host itself is plugged
in through one veth, so clients on the host reach every node.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import subprocess

from harness.clusters import network_support
from harness.clusters.cleanup.guard import Guard
from harness.foundation.errors import CannotHere, ClusterError
from harness.foundation.namespaces import Namespace, with_system_path

HOST_END = 254
SWITCH = "br0"
# set aside for testing networks, so neither a company's routes nor Docker's own subnets lie in it
RANGE = ipaddress.IPv4Network("198.18.0.0/15")
SUBNETS = list(RANGE.subnets(new_prefix=24))


class Network:
    """The namespaces of one cluster."""

    def __init__(self, cluster_name: str) -> None:
        self._tag = f"tg{cluster_name.rpartition('-')[2]}"  # an interface name has at most 15 characters
        missing = network_support.why_no_namespaces()
        if missing:
            raise CannotHere(f"nodes cannot have networks of their own here ({missing.what})", missing.remedy)
        self._subnet = _free_subnet()

    def namespace(self, node_id: int) -> str:
        """The namespace of a node."""
        return f"{self._tag}-{node_id}"

    def address(self, node_id: int) -> str:
        """The address of a node, on the host as among the nodes."""
        return str(self._subnet[node_id])

    @property
    def host_address(self) -> str:
        """The address of the host, as nodes reach it."""
        return str(self._subnet[HOST_END])

    def inside(self, node_id: int, command: list[str]) -> list[str]:
        """The command, run in the node's namespace and in no other: `ip netns exec` would keep copies of all mounts."""
        return [network_support.which("nsenter") or "nsenter", f"--net={self.place(node_id).namespace}", *command]

    def place(self, node_id: int) -> Namespace:
        """The node's namespace, for scripts."""
        return Namespace(f"/run/netns/{self.namespace(node_id)}")

    def create(self, guard: Guard, count: int) -> None:
        """A switch, `count` namespaces plugged into it, and the host."""
        switch = f"{self._tag}-sw"
        for name in (switch, *(self.namespace(node_id) for node_id in range(1, count + 1))):
            guard.record(kind="netns", value=name)
            _ip(f"netns add {name}")
            _ip(f"-n {name} link set lo up")
        _ip(f"-n {switch} link add {SWITCH} type bridge forward_delay 0")
        _ip(f"-n {switch} link set {SWITCH} up")
        guard.record(kind="link", value=self._tag)
        self._plug(self._tag, None, switch, "host", HOST_END)
        for node_id in range(1, count + 1):
            self._plug("eth0", self.namespace(node_id), switch, f"n{node_id}", node_id)

    def _plug(self, end: str, namespace: str | None, switch: str, port: str, number: int) -> None:
        where = f"netns {namespace}" if namespace else f"netns {os.getpid()}"
        inside = f"-n {namespace} " if namespace else ""
        _ip(f"-n {switch} link add {port} type veth peer name {end} {where}")
        _ip(f"-n {switch} link set {port} master {SWITCH} up")
        _ip(f"{inside}addr add {self._subnet[number]}/24 dev {end}")
        _ip(f"{inside}link set {end} up")


def _free_subnet() -> ipaddress.IPv4Network:
    """A subnet that no route of this machine leads into."""
    routes = json.loads(_ip("-j -4 route show table all") or "[]")
    used = [ipaddress.IPv4Network(r["dst"], strict=False) for r in routes if r.get("dst", "default") != "default"]
    candidates = [subnet for subnet in SUBNETS if not any(subnet.overlaps(other) for other in used)]
    if not candidates:
        raise CannotHere(f"no subnet of {RANGE} is free for network namespaces", f"remove a route into {RANGE}")
    return random.SystemRandom().choice(candidates)


def _ip(arguments: str) -> str:
    ran = subprocess.run(
        ["ip", *arguments.split()], env=with_system_path(), capture_output=True, text=True, timeout=10, check=False
    )
    if ran.returncode != 0:
        raise ClusterError(f"`ip {arguments}` failed ({ran.stderr.strip()})", "see `tidegauge doctor`")
    return ran.stdout
