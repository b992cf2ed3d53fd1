"""What faults in a row share: packet rules that keep replicas from being copied, and nodes that are killed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from harness.clusters.cluster_view import PartitionView
from harness.clusters.node import NodeState
from nemesis.base import FaultContext
from nemesis.iptables import Chains, PacketRule, addresses
from nemesis.leadership import DisablesLeader
from nemesis.node_states import bring_to_state, not_running, start

BROKER = "broker"  # the listener that replicas are copied over


class Sequence(DisablesLeader):
    """Walls, and nodes that are killed; all of it is undone in the reverse order, whatever became of the steps."""

    done = "kill"
    blocks = True
    tame = False  # made for one purpose

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self.chains = Chains(context)
        self.killed: list[int] = []

    def seen(self, by_others_than: Iterable[int] = ()) -> PartitionView | None:
        """The partition as nodes see it now, without the word of these."""
        return self.context.look_at([self.victim.topic]).without(by_others_than).get(self.victim.key)

    def kill(self, node: int) -> None:
        """From now on it is ours to start again."""
        self.killed.append(node)
        self._injected_at = self.context.clock()
        bring_to_state(node, self.context.cluster, self.context.cluster.kill, (NodeState.DEAD,))

    def cut_off(self, node: int, peers: Iterable[int]) -> None:
        """These peers cannot copy from the node."""
        port = self.context.cluster.inner_port(node, BROKER)
        found = addresses(self.context, peers).values()
        self.chains.put([PacketRule(node, "in", f"-p tcp -s {peer} --dport {port}") for peer in found])

    def others_than(self, *nodes: int) -> list[int]:
        """The rest of the cluster."""
        return [node.id for node in self.context.cluster.nodes if node.id not in nodes]

    def undo(self) -> None:
        """Open networks, and running nodes."""
        with ExitStack() as stack:
            stack.callback(start, self.killed, self.context.cluster)
            stack.callback(self.chains.remove)

    def healed(self) -> str:
        """What is left of either."""
        return "; ".join(filter(None, [self.chains.left(), not_running(self.killed, self.context.cluster)]))
