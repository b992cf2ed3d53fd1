"""Faults of leadership: the leader of a partition is moved away in good order, or killed.

Both have bitten when another node than the old leader names another leader, in a higher epoch, for the partition that
was aimed at.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.clusters.base import Capability, NodeState
from harness.errors import ClusterError
from harness.observe import NO_LEADER
from nemesis.admin import DONE, PREFERRED_LEADER_NOT_AVAILABLE, election, reassignment, until_done
from nemesis.base import Aim, Bite, Fault, Field, Victim
from nemesis.roles import choose_leader, leaves_a_majority


class Leadership(Fault):
    """What the faults of this family share: the victim leads a partition, and the proof is its successor."""

    changes_leaders = True
    roles = ("leader",)
    done = ""  # what was done, for the sentence of the proof

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._victim: Victim | None = None
        self._injected_at = 0.0

    @property
    def victim(self) -> Victim:
        """Whom `aim` chose."""
        if self._victim is None:
            raise ClusterError(f"{self.name} was injected without a victim", "call aim() first")
        return self._victim

    def successor(self) -> Bite | None:
        """The new leader, by the word of any node but the old one."""
        old = self.victim
        seen = self.field.look_at([old.topic]).without([old.node]).get((old.topic, old.partition))
        if seen is None or seen.leader in (NO_LEADER, old.node) or seen.leader_epoch <= old.view.leader_epoch:
            return None
        after_s = self.field.clock() - self._injected_at
        sentence = (
            f"leader of {old.name}: {old.node} → {seen.leader} (epoch {old.view.leader_epoch} → {seen.leader_epoch}) "
            f"{after_s:.1f} s after the {self.done}"
        )
        return Bite(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)


class LeaderMove(Leadership):
    """Another in-sync replica becomes the preferred one, and is elected."""

    name = "leader-move"
    description = "gives a partition another leader in good order (reassignment and preferred election)"
    needs = frozenset({Capability.ADMIN})
    done = "move"

    def aim(self) -> Aim | None:
        """A partition, and the in-sync replica that will lead it."""
        self._victim = victim = choose_leader(self.field, self.field.look())
        if victim is None:
            return None
        self._heir = self.field.rng.choice(victim.heirs)
        return Aim(f"leadership of {victim.name} moves from {victim.node} to {self._heir}", victim)

    def inject(self) -> None:
        """The same replicas in another order, which needs no copying, and an election of the first of them."""
        self._injected_at = self.field.clock()
        others = [replica for replica in self.victim.view.replicas if replica != self._heir]
        self._order((self._heir, *others), DONE)

    def proof(self) -> Bite | None:
        """Another leader in a higher epoch."""
        return self.successor()

    def undo(self) -> None:
        """The old order, and its first replica elected; while that one is out of sync, the heir goes on leading."""
        self._order(self.victim.view.replicas, {*DONE, PREFERRED_LEADER_NOT_AVAILABLE})

    def _order(self, replicas: tuple[int, ...], elected: Collection[int]) -> None:
        victim, cluster = self.victim, self.field.cluster
        until_done(cluster, f"reassigning {victim.name}", reassignment(victim, replicas), DONE)
        until_done(cluster, f"electing a leader of {victim.name}", election(victim), elected)


class LeaderKill(Leadership):
    """The node that leads a partition is killed, and started again at the end."""

    name = "leader-kill"
    description = "kills the leader of a partition (SIGKILL) and starts it again"
    needs = frozenset({Capability.KILL, Capability.RESTART})
    done = "kill"

    def aim(self) -> Aim | None:
        """A partition whose leader can be spared: without a majority left, nobody would elect another."""
        view = self.field.look()
        victim = choose_leader(self.field, view)
        if victim is None or not leaves_a_majority(self.field, view, (victim.node,)):
            return None
        self._victim = victim
        return Aim(f"SIGKILL of node {victim.node}, leader of {victim.name}", victim)

    def inject(self) -> None:
        """SIGKILL."""
        self._injected_at = self.field.clock()
        self.field.cluster.kill(self.victim.node)

    def proof(self) -> Bite | None:
        """The node is dead and another one leads."""
        if self.field.cluster.state(self.victim.node) is not NodeState.DEAD:
            return None
        return self.successor()

    def undo(self) -> None:
        """Start it on its old data."""
        if self.field.cluster.state(self.victim.node) is NodeState.DEAD:
            self.field.cluster.start_node(self.victim.node)


FAULTS: tuple[type[Fault], ...] = (LeaderMove, LeaderKill)
