"""Faults that damage a node's data or disk: the node dies, and is started when the damage is repaired."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

from harness.clusters.cluster_view import NO_LEADER, ClusterView, TopicPartition
from harness.clusters.node import Capability, NodeState
from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError
from nemesis.base import Aim, FaultContext, FaultEvidence
from nemesis.log_files import INTERNAL_TOPICS, PARTITION_DIR
from nemesis.node_states import bring_to_state, start
from nemesis.on_nodes import OnNodes
from nemesis.roles import ChosenNodes, leaves_a_majority

LEFT_OUT_TIMEOUT_S = 60.0  # ten of the sessions after which a dead node is left out; each undo waits anew


class OnDisk(OnNodes):
    """The node dies of it, or is killed for it; its data or disk is repaired before anybody starts it."""

    state = NodeState.DEAD
    loses_data: ClassVar[bool] = True  # that was acknowledged, perhaps, and that only other nodes have now

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._damaged: set[int] = set()
        self._replicated: set[TopicPartition] = set()  # what the victims had a replica of

    @abstractmethod
    def damage(self, node: int) -> None:
        """Do it to the node's data or disk."""

    def repair(self, node: int) -> None:
        """Take back what was done, as far as that is possible; the node is dead."""

    @abstractmethod
    def damage_seen(self, node: int) -> str:
        """What is wrong with the data or disk, with figures; nothing when it is not."""

    def can_be_spared(self, view: ClusterView, chosen: ChosenNodes) -> bool:
        """Nor may it be the last one that has everything, the cluster's own topics included; notes what it has."""
        gone = {*chosen.nodes, *view.silent}
        partitions = {**view.partitions, **self.context.look_at(INTERNAL_TOPICS).partitions}
        alone = [seen for seen in partitions.values() if set(seen.isr) & set(chosen.nodes) and set(seen.isr) <= gone]
        self._replicated = {key for key, seen in partitions.items() if set(seen.replicas) & set(chosen.nodes)}
        return super().can_be_spared(view, chosen) and not alone

    def aim(self) -> Aim | None:
        """One whose data really lies on the disk that is about to be broken."""
        aim = super().aim()
        on_disk = Capability.DISK not in self.needs or lies_on_its_disk(self.context, self.chosen) if aim else False
        return aim if on_disk else None

    def disable(self, node: int) -> None:
        """Damage, and the end of the node with it."""
        self.context.cluster.hold_down(node, self.context.tag)
        self._damaged.add(node)
        self.damage(node)

    def proof(self) -> FaultEvidence | None:
        """The damage itself, and what others make of it."""
        seen = [self.damage_seen(node) for node in self._damaged]
        bite = super().proof() if seen and all(seen) else None
        return replace(bite, sentence=f"{'; '.join(seen)}; {bite.sentence}") if bite else None

    def restore(self, nodes: Collection[int]) -> None:
        """Repair what is damaged, and start the node."""
        cluster = self.context.cluster
        for node in sorted(self._damaged & set(nodes)):
            bring_to_state(node, cluster, cluster.kill, (NodeState.DEAD,))
            self.repair(node)
            if self.loses_data:
                self._until_left_out(node)
            cluster.let_up(node, self.context.tag)
            self._damaged.discard(node)
        start(nodes, cluster)

    def _until_left_out(self, node: int) -> None:
        """Until the others do without it; as long as they do not, it stays down."""
        try:
            wait_until(lambda: self._is_left_out(node), LEFT_OUT_TIMEOUT_S, f"node {node} is in sync")
        except TimeoutError:
            raise ClusterError(
                f"the others still count on node {node}, which lost data, after {LEFT_OUT_TIMEOUT_S:.0f} s",
                "it stays down until they do not; see the logs of the other nodes",
            ) from None

    def _is_left_out(self, node: int) -> bool:
        """By a majority that answers, and the newest word of each of them on every partition that the node had."""
        topics = {*self.context.topics(), *INTERNAL_TOPICS}
        view = self.context.look_at(sorted(topics))
        newest = view.without([node])
        had = {key for key in self._replicated if key[0] in topics}
        if not leaves_a_majority(self.context, view, (node,)) or had - set(newest):
            return False
        said = [
            seen
            for other, views in view.answers.items()
            for key, seen in views.items()
            if other != node and seen.leader_epoch == newest[key].leader_epoch and node in seen.replicas
        ]
        return not any(node in seen.isr or seen.leader in (node, NO_LEADER) for seen in said)


def lies_on_its_disk(context: FaultContext, chosen: ChosenNodes) -> bool:
    """Whether each node has the partition it was chosen by on the disk that we know of; any partition, without one."""
    found = [context.cluster.disk(node).names() for node in chosen.nodes]
    if chosen.victim is not None:
        return all(chosen.victim.name in names for names in found)
    return all(any(PARTITION_DIR.fullmatch(name) for name in names) for names in found)
