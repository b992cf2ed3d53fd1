"""Nodes: what they are, how they are, and what can be done to them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Capability(StrEnum):
    """What can be done to a cluster's nodes."""

    KILL = "kill"
    PAUSE = "pause"
    RESTART = "restart"
    PARTITION = "partition"  # each node has a network stack of its own, so traffic between nodes can be cut
    LOSS = "loss"  # and packets can be dropped by chance
    SHAPE = "shape"  # and the kernel can limit how fast it goes
    FILES = "files"  # the nodes' data lies where the harness can change it
    DISK = "disk"  # and on a file system of its own for each node, which can be filled, stalled and broken
    CLOCK = "clock"  # the nodes' clocks can be set, each on its own
    ADMIN = "admin"  # topics, replicas and leaders may be changed
    LOGS = "logs"
    TAP = "tap"  # there are taps between clients and nodes
    CLIENTS = "clients"  # the load's own processes can be killed and paused


OURS = frozenset({Capability.TAP, Capability.CLIENTS})  # whatever the cluster: taps and clients are the harness's own


@dataclass(frozen=True)
class Unavailable:
    """Why something cannot be done here, and what would make it possible."""

    what: str
    remedy: str


class NodeState(StrEnum):
    """How a node is, from the outside."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Node:
    """One broker: its number and where it is reached, by listener."""

    id: int
    address: str
    listeners: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """A cluster that is up, as other programs see it (`--json`)."""

    name: str
    kind: str
    product: str
    version: str
    security: str
    cluster_id: str
    bootstrap: str
    nodes: list[Node]
    capabilities: list[str]
    directory: str
    harness_pid: int
    held_by_tidegauge: bool
    stateless: bool
    ready_after_s: float

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def new_uuid() -> str:
    """A random id as Kafka writes them: 22 characters of URL-safe base64, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
