"""Nodes are brought to a state: started, stopped, killed, whoever else does so at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.clusters.base import Cluster
from harness.clusters.node import Capability, NodeState

CAN_KILL = frozenset({Capability.KILL, Capability.RESTART})


def bring_to_state(node: int, cluster: Cluster, act: Callable[[int], None], into: Collection[NodeState]) -> None:
    """Do it unless the node is in such a state already; somebody else may bring it there at the same moment."""
    if cluster.state(node) in into:
        return
    try:
        act(node)
    except Exception:
        if cluster.state(node) not in into:
            raise


def start(nodes: Collection[int], cluster: Cluster) -> None:
    """Start those that are dead and that nobody holds down, all of them, even if one cannot be started."""
    on_each_node(
        nodes,
        lambda node: bring_to_state(node, cluster, cluster.start_unless_held, (NodeState.RUNNING, NodeState.PAUSED)),
    )


def on_each_node(nodes: Collection[int], act: Callable[[int], None]) -> None:
    """Do it to every node, and raise the first error afterwards."""
    errors = []
    for node in nodes:
        try:
            act(node)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise errors[0]


def not_running(nodes: Collection[int], cluster: Cluster, by: str = "") -> str:
    """Which of them do not run, in a few words; one that somebody else holds down is left to them."""
    states = {node: cluster.state(node) for node in nodes if not cluster.is_held_down(node, by)}
    return "; ".join(f"node {node} is {state}" for node, state in states.items() if state is not NodeState.RUNNING)
