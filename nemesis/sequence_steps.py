"""What faults in a row share: walls that keep replicas from being copied, and nodes that are killed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from harness.clusters.base import NodeState
from harness.clusters.cluster_view import PartitionView
from nemesis.base import Field
from nemesis.iptables import Chains, Wall, addresses
from nemesis.leadership import Felling
from nemesis.process import bring, start, still

BROKER = "broker"  # the listener that replicas are copied over


class Sequence(Felling):
    """Walls, and nodes that are killed; all of it is undone in the reverse order, whatever became of the steps."""

    done = "kill"
    blocks = True
    tame = False  # made for one purpose

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.chains = Chains(field)
        self.killed: list[int] = []

    def seen(self, by_others_than: Iterable[int] = ()) -> PartitionView | None:
        """The partition as nodes see it now, without the word of these."""
        return self.field.look_at([self.victim.topic]).without(by_others_than).get(self.victim.key)

    def kill(self, node: int) -> None:
        """From now on it is ours to start again."""
        self.killed.append(node)
        self._injected_at = self.field.clock()
        bring(node, self.field.cluster, self.field.cluster.kill, (NodeState.DEAD,))

    def wall_before(self, node: int, peers: Iterable[int]) -> None:
        """These peers cannot copy from the node."""
        port = self.field.cluster.inner_port(node, BROKER)
        found = addresses(self.field, peers).values()
        self.chains.put([Wall(node, "in", f"-p tcp -s {peer} --dport {port}") for peer in found])

    def others_than(self, *nodes: int) -> list[int]:
        """The rest of the cluster."""
        return [node.id for node in self.field.cluster.nodes if node.id not in nodes]

    def undo(self) -> None:
        """Open networks, and running nodes."""
        with ExitStack() as stack:
            stack.callback(start, self.killed, self.field.cluster)
            stack.callback(self.chains.remove)

    def healed(self) -> str:
        """What is left of either."""
        return "; ".join(filter(None, [self.chains.left(), still(self.killed, self.field.cluster)]))
