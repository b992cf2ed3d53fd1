"""Cuts: packet rules that separate nodes, and come and go while a fault lasts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from harness.clusters.cluster_view import NO_LEADER, ClusterView, Views
from harness.clusters.node import Capability
from nemesis.admin.coordinators import quorum
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence, Victim
from nemesis.iptables import Chains, PacketRule, addresses
from nemesis.roles import NODE_ROLES, ChosenNodes, choose

BROKER, CONTROLLER = "broker", "controller"  # names of listeners


class Cut(Fault):
    """What all of them share: packet rules that come and go, and an effect that the others see."""

    needs = frozenset({Capability.PARTITION})
    roles: ClassVar[tuple[str, ...]] = NODE_ROLES
    changes_leaders = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chosen: ChosenNodes | None = None
        self._injected_at = 0.0
        self.chains = Chains(context)
        self.before: Views = {}
        self.quorum_before: tuple[int, int] | None = None

    @property
    def chosen(self) -> ChosenNodes:
        """Whom `aim` chose."""
        assert self._chosen is not None
        return self._chosen

    def aim(self) -> Aim | None:
        """The nodes in their role, when what would become of them could be seen."""
        view = self.context.look()
        chosen = choose(self.context, view)
        if chosen is None:
            return None
        self.before = view.partitions
        if chosen.role in {"controller", "all"}:
            self.quorum_before = quorum(self.context.cluster)
        if not self.fits(chosen, view):
            return None
        self._chosen = chosen
        return Aim(self.intent(), chosen.victim, chosen.node)

    def inject(self) -> None:
        """All rules at once."""
        self._injected_at = self.context.clock()
        self.build()

    def proof(self) -> FaultEvidence | None:
        """The effect, once packets were taken, too."""
        seen = self.effect()
        taken = sum(self.chains.taken().values()) if seen else 0
        if seen is None or not taken:
            return None
        after_s = self.context.clock() - self._injected_at
        return replace(seen, sentence=f"{seen.sentence} {after_s:.1f} s after the cut, packets dropped: {taken:,}")

    def undo(self) -> None:
        """No rules."""
        self.chains.remove()

    def healed(self) -> str:
        """Where rules are left."""
        return self.chains.left()

    @abstractmethod
    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:
        """Whether the effect would be seen, with these chosen; what else has to be chosen is chosen here."""

    @abstractmethod
    def intent(self) -> str:
        """What will be done, in a sentence."""

    @abstractmethod
    def packet_rules(self) -> list[PacketRule]:
        """What does not pass, and where."""

    @abstractmethod
    def effect(self) -> FaultEvidence | None:
        """What the others say became of it."""

    def build(self) -> None:
        """All rules, for those that were chosen."""
        self.aimed(self._chosen)
        self.chains.put(self.packet_rules())

    @property
    def nodes(self) -> list[int]:
        """All of the cluster."""
        return [node.id for node in self.context.cluster.nodes]

    def both_ways(self, node: int, peers: Iterable[int]) -> list[PacketRule]:
        """Neither hears the other; built on the first of them."""
        found = addresses(self.context, peers).values()
        return [
            wall
            for each in found
            for wall in (PacketRule(node, "in", f"-s {each}"), PacketRule(node, "out", f"-d {each}"))
        ]

    def deaf(self, node: int, peers: Iterable[int]) -> list[PacketRule]:
        """A node does not hear these peers."""
        return [PacketRule(node, "in", f"-s {address}") for address in addresses(self.context, peers).values()]

    def others_than(self, *nodes: int) -> list[int]:
        """The rest of the cluster."""
        return [node for node in self.nodes if node not in nodes]

    def moved(self, victim: Victim, views: Views, away_from: Iterable[int]) -> FaultEvidence | None:
        """Another leader of a partition, in a higher epoch, and none of these nodes."""
        now = views.get((victim.topic, victim.partition))
        if now is None or now.leader in {NO_LEADER, *away_from} or now.leader_epoch <= victim.leader_epoch:
            return None
        epochs = f"epoch {victim.leader_epoch} → {now.leader_epoch}"
        sentence = f"leader of {victim.name}: {victim.leader} → {now.leader} ({epochs})"
        return FaultEvidence(sentence, victim.leader, victim.topic, victim.partition, now.leader, now.leader_epoch)

    def shrunk(self, views: Views, gone: Iterable[int]) -> FaultEvidence | None:
        """The first partition of which one of these nodes is no longer in sync."""
        for (topic, partition), now in views.items():
            before = self.before.get((topic, partition))
            if before is not None and (lost := sorted((set(before.isr) - set(now.isr)) & set(gone))):
                sentence = f"ISR of {topic}-{partition}: {sorted(before.isr)} → {sorted(now.isr)}"
                return FaultEvidence(sentence, lost[0], topic, partition, now.leader, now.leader_epoch)
        return None
