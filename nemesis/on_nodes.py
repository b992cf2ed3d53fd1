"""Faults of nodes in a role: they do not answer while it lasts, and others lead in their place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar

from harness.clusters.cluster_view import NO_LEADER, ClusterView, PartitionView, TopicPartition
from harness.clusters.node import NodeState
from nemesis.admin.coordinators import quorum
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence
from nemesis.node_states import bring_to_state, not_running
from nemesis.roles import NODE_ROLES, ChosenNodes, choose, leaves_a_majority


class OnNodes(Fault):
    """What happens to nodes in a role: they do not answer while it lasts, and a majority does."""

    roles: ClassVar[tuple[str, ...]] = NODE_ROLES
    changes_leaders = True
    doing: ClassVar[str]  # for the sentence of the aim
    done: ClassVar[str]  # for that of the proof
    state: ClassVar[NodeState]  # of the nodes, as long as it lasts

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chosen: ChosenNodes | None = None
        self._led: dict[TopicPartition, PartitionView] = {}
        self._quorum: tuple[int, int] | None = None
        self._hit: list[int] = []  # by us, in this order
        self._injected_at = 0.0

    @property
    def chosen(self) -> ChosenNodes:
        """Whom `aim` chose."""
        return self.aimed(self._chosen)

    @property
    def out_of_service(self) -> frozenset[int]:
        """Whoever was chosen."""
        return frozenset(self._chosen.nodes if self._chosen else ())

    @abstractmethod
    def disable(self, node: int) -> None:
        """Make it silent."""

    @abstractmethod
    def restore(self, nodes: Collection[int]) -> None:
        """Let them work again."""

    def aim(self) -> Aim | None:
        """Who plays the role, if the others can do without."""
        view = self.context.look()
        chosen = choose(self.context, view)
        if chosen is None or not self.can_be_spared(view, chosen):
            return None
        if chosen.role == "controller":
            self._quorum = quorum(self.context.cluster)
            if self._quorum is None or self._quorum[0] != chosen.node:
                return None
        gone = {*chosen.nodes, *view.silent}
        self._led = {
            partition: seen
            for partition, seen in view.partitions.items()
            if seen.leader in chosen.nodes and set(seen.isr) - gone
        }
        self._chosen = chosen
        led = chosen.victim if chosen.victim and chosen.victim.node == chosen.node else None
        return Aim(f"{self.doing} {chosen.called}", led, chosen.node)

    def can_be_spared(self, view: ClusterView, chosen: ChosenNodes) -> bool:
        """Whether the effect can be seen by what the others do."""
        return leaves_a_majority(self.context, view, chosen.nodes)

    def inject(self) -> None:
        """One after the other; a node that is dead already is not ours."""
        self._injected_at = self.context.clock()
        for node in self.chosen.nodes:
            if self.context.cluster.state(node) not in (self.state, NodeState.DEAD):
                self._hit.append(node)
                bring_to_state(node, self.context.cluster, self.disable, (self.state, NodeState.DEAD))

    def proof(self) -> FaultEvidence | None:
        """They do not answer, others do, and lead in their place."""
        nodes = self.chosen.nodes
        view = self.context.look_again(self._led)
        if not view.answers or any(node in view.answers for node in nodes) or not self._all_felled():
            return None
        heirs = self._heirs(view)
        crowned = self._crowned()
        if heirs is None or crowned is None:
            return None
        names = ", ".join(map(str, nodes))
        sentence = f"node {names} does not answer while {len(view.answers)} of {len(self.context.cluster.nodes)} do"
        after_s = self.context.clock() - self._injected_at
        sentence = f"{sentence}{crowned}{_succession(self._led, heirs)}, {after_s:.1f} s after the {self.done}"
        if not heirs:
            return FaultEvidence(sentence, self.chosen.node)
        (topic, partition), seen = self._shown(heirs)
        return FaultEvidence(sentence, self.chosen.node, topic, partition, seen.leader, seen.leader_epoch)

    def undo(self) -> None:
        """Those that are down because of us."""
        self.restore(self._hit)

    def healed(self) -> str:
        """They run."""
        return not_running(self._hit, self.context.cluster, self.context.tag)

    def _all_felled(self) -> bool:
        return bool(self._hit) and all(self.context.cluster.state(node) is self.state for node in self._hit)

    def _heirs(self, view: ClusterView) -> dict[TopicPartition, PartitionView] | None:
        """The new leaders of all that they led; None while one is missing."""
        best = view.partitions
        found = {}
        for partition, was in self._led.items():
            seen = best.get(partition)
            if seen is None or seen.leader in (NO_LEADER, *self.chosen.nodes) or seen.leader_epoch <= was.leader_epoch:
                return None
            found[partition] = seen
        return found

    def _crowned(self) -> str | None:
        """The new leader of the quorum, for the sentence; None while one is missing."""
        if self._quorum is None:
            return ""
        old, old_epoch = self._quorum
        now = quorum(self.context.cluster)
        if now is None or now[0] == old or now[1] <= old_epoch:
            return None
        return f", leader of the quorum: {old} → {now[0]} (epoch {old_epoch} → {now[1]})"

    def _shown(self, heirs: dict[TopicPartition, PartitionView]) -> tuple[TopicPartition, PartitionView]:
        """The partition that it was aimed at, or the first."""
        victim = self.chosen.victim
        aimed = (victim.topic, victim.partition) if victim else None
        return (aimed, heirs[aimed]) if aimed in heirs else next(iter(heirs.items()))


def _succession(led: dict[TopicPartition, PartitionView], heirs: dict[TopicPartition, PartitionView]) -> str:
    moves = [
        f"{topic}-{partition}: {led[topic, partition].leader} → {seen.leader} "
        f"(epoch {led[topic, partition].leader_epoch} → {seen.leader_epoch})"
        for (topic, partition), seen in heirs.items()
    ]
    if not moves:
        return ""
    more = f" and {len(moves) - 1} more" if len(moves) > 1 else ""
    return f", leader of {moves[0]}{more}"
