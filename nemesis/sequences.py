"""Faults in a row: what it takes when one fault alone does no harm, each step when the one before has had its effect.

Each of them is a way in which clusters have lost what they had acknowledged, or shown less than before. The steps are
taken by `proof`, which is asked again and again, so that they rest on what nodes say and not on luck:

    cut-kill       no node can replicate from a leader for a while; it is killed while the others still count as in sync
    pause-kill     the same, with followers that are frozen
    stale-heir     a leader is killed, and no node can replicate from the node that takes its place
    double-kill    a leader is killed, then the one that takes its place, before anybody could copy much from it
    last-standing  the only replica in sync loses power, and with it what it had not flushed
    late-rejoin    a follower loses its disk while a request to count it as in sync is under way (nemesis.rejoin)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from harness.clusters.cluster_view import NO_LEADER
from harness.clusters.node import Capability, NodeState
from harness.foundation.errors import ClusterError
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence
from nemesis.log_files import batches, last_segment, recovery_points
from nemesis.network import Bandwidth
from nemesis.node_states import CAN_KILL, bring_to_state, not_running, start
from nemesis.rejoin import LateRejoin
from nemesis.sequence_steps import BROKER, Sequence

FOLLOWED_S = 1.0  # the time that a follower is given to follow a new leader


class Lagging(Sequence):
    """Followers fall behind for `by` seconds, which is too short for them to be missed, and the leader is killed."""

    options: ClassVar[Mapping[str, Any]] = {"by": 3.0}
    doing: ClassVar[str]  # to the followers

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._behind_since_s = 0.0

    @property
    def _lag_s(self) -> float:
        return float(self.context.options["by"])

    @abstractmethod
    def hold_back(self) -> None:
        """Keep followers from copying."""

    @abstractmethod
    def let_go(self) -> None:
        """Take that back."""

    def aim(self) -> Aim | None:
        """A leader with followers that are in sync."""
        victim = self.choose()
        if victim is None or set(victim.view.isr) != set(victim.view.replicas):
            return None
        return Aim(
            f"{self.doing} for {self._lag_s:g} s, then node {victim.node}, leader of {victim.name}, dies", victim
        )

    def inject(self) -> None:
        """The others fall behind from now on."""
        self.hold_back()
        self._behind_since_s = self.context.clock()

    def proof(self) -> FaultEvidence | None:
        """Another leader, which had missed what was written meanwhile."""
        if self.killed:
            return self.successor()
        lag_s = self.context.clock() - self._behind_since_s
        if lag_s >= self._lag_s:
            heirs = self._counted_in_sync()
            self.kill(self.victim.node)
            self.let_go()
            if not heirs:
                raise ClusterError(
                    f"the followers of {self.victim.name} were left out of the replicas in sync after {lag_s:.1f} s",
                    "give it a shorter `by`, or brokers a longer replica.lag.time.max.ms",
                )
        return None

    def _counted_in_sync(self) -> set[int]:
        seen = self.seen()
        return set(seen.isr) - {self.victim.node} if seen else set()


class CutKill(Lagging):
    """Followers cannot copy from the leader."""

    name = "cut-kill"
    description = "blocks replication from a leader for a while (by), then kills it while the others count as in sync"
    needs = frozenset({Capability.PARTITION, *CAN_KILL})
    ports = (BROKER,)
    doing = "replication is blocked"

    def hold_back(self) -> None:
        """A wall before the leader."""
        self.cut_off(self.victim.node, self.others_than(self.victim.node))

    def let_go(self) -> None:
        """No wall."""
        self.chains.remove()


class PauseKill(Lagging):
    """Followers are frozen."""

    name = "pause-kill"
    description = "freezes the followers of a leader for a while (by), then kills it while they count as in sync"
    needs = frozenset({Capability.PAUSE, *CAN_KILL})
    doing = "the followers are frozen"

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._paused: list[int] = []

    def hold_back(self) -> None:
        """SIGSTOP."""
        for node in self.others_than(self.victim.node):
            self._paused.append(node)
            bring_to_state(node, self.context.cluster, self.context.cluster.pause, (NodeState.PAUSED, NodeState.DEAD))

    def let_go(self) -> None:
        """SIGCONT."""
        for node in self._paused:
            bring_to_state(node, self.context.cluster, self.context.cluster.resume, (NodeState.RUNNING, NodeState.DEAD))

    def undo(self) -> None:
        """Nobody is frozen, and the leader runs."""
        with ExitStack() as stack:
            stack.callback(super().undo)
            stack.callback(self.let_go)

    def healed(self) -> str:
        """Whether all run."""
        return not_running([*self._paused, *self.killed], self.context.cluster)


class StaleHeir(Sequence):
    """The new leader hears of no other replica how far it has come, and knows the watermark by hearsay only."""

    name = "stale-heir"
    description = (
        "kills a leader, and blocks replication from its successor, so that the old leader's view stays behind"
    )
    needs = frozenset({Capability.PARTITION, *CAN_KILL})
    ports = (BROKER,)

    def aim(self) -> Aim | None:
        """A leader with two followers in sync; whoever comes first among the replicas takes its place."""
        victim = self.choose()
        if victim is None or len(victim.heirs) < 2:
            return None
        return Aim(
            f"SIGKILL of node {victim.node}, leader of {victim.name}, whose heir replication is blocked from", victim
        )

    def inject(self) -> None:
        """A wall before the heir, which is of no consequence as long as it does not lead; then the kill."""
        heir = next(replica for replica in self.victim.view.replicas if replica in self.victim.heirs)
        self.cut_off(heir, self.others_than(heir))
        self.kill(self.victim.node)

    def proof(self) -> FaultEvidence | None:
        """Another leader."""
        return self.successor()


class DoubleKill(Sequence):
    """A leader and its heir die one after the other; a third that was in sync has all that was acknowledged, and leads.

    The heir sends slowly: whoever threw away what it had, to copy it anew from the heir, does not get it.
    """

    name = "double-kill"
    description = (
        "kills a leader, then the one that takes its place (which sends slowly, at `rate`), so that a third leads"
    )
    needs = frozenset({Capability.PARTITION, Capability.SHAPE, *CAN_KILL})
    options: ClassVar[Mapping[str, Any]] = {"rate": "64KiB"}

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._slow = Bandwidth(context)
        self._heir: int | None = None
        self._led_at_s: float | None = None

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """A rate that is none."""
        return Bandwidth.refuse(options)

    @property
    def out_of_service(self) -> frozenset[int]:
        """Both."""
        return super().out_of_service | (frozenset() if self._heir is None else {self._heir})

    def aim(self) -> Aim | None:
        """A leader with two followers in sync."""
        victim = self.choose()
        if victim is None or len(victim.heirs) < 2:
            return None
        self._heir = next(replica for replica in victim.view.replicas if replica in victim.heirs)
        return Aim(f"SIGKILL of node {victim.node}, leader of {victim.name}, and then of node {self._heir}", victim)

    def inject(self) -> None:
        """The heir sends slowly from now on, which matters when it leads; then the first kill."""
        heir = self.aimed(self._heir)
        self._slow.limit(heir)
        self.kill(self.victim.node)

    def proof(self) -> FaultEvidence | None:
        """The third leads."""
        heir, cluster = self.aimed(self._heir), self.context.cluster
        if heir in self.killed:
            seen = self.seen([heir, self.victim.node])
            bite = self.successor()
            return bite if seen and bite and bite.leader != heir else None
        seen = self.seen([self.victim.node])
        if seen is None or seen.leader != heir:
            return None
        if self._led_at_s is None:
            self._led_at_s = self.context.clock()
        elif self.context.clock() - self._led_at_s >= FOLLOWED_S:
            self.kill(heir)
            self._slow.undo()
            start([self.victim.node], cluster)
        return None

    def undo(self) -> None:
        """Both run, and as fast as before."""
        with ExitStack() as stack:
            stack.callback(super().undo)
            stack.callback(self._slow.undo)

    def healed(self) -> str:
        """Who is still slow, or down."""
        return "; ".join(filter(None, [self._slow.healed(), super().healed()]))


class LastStanding(Sequence):
    """All others are out of sync, which is not their fault; the last one loses power, and comes back with less."""

    name = "last-standing"
    description = (
        "makes a leader the only in-sync replica, then cuts its power: it is killed and loses what was not flushed"
    )
    needs = frozenset({Capability.PARTITION, Capability.FILES, *CAN_KILL})
    ports = (BROKER,)

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._lost = 0  # records
        self._restarted = False

    def aim(self) -> Aim | None:
        """A partition, and its leader."""
        victim = self.choose()
        if victim is None:
            return None
        return Aim(f"node {victim.node}, leader of {victim.name}, loses its followers, and then its power", victim)

    def inject(self) -> None:
        """Nobody can copy."""
        self.cut_off(self.victim.node, self.others_than(self.victim.node))

    def proof(self) -> FaultEvidence | None:
        """Somebody leads again: the one that lost records, or one that had missed nothing."""
        if not self.killed:
            self._lose_power_if_alone()
            return None
        if not self._restarted:
            self._restart_if_missed()
            return None
        seen = self.seen()
        old = self.victim
        if seen is None or seen.leader == NO_LEADER or seen.leader_epoch <= old.leader_epoch:
            return None
        who = "it leads again" if seen.leader == old.node else f"{seen.leader} leads, which had missed nothing"
        sentence = f"node {old.node} alone was in sync, lost {self._lost} records of {old.name} with its power; {who}"
        return FaultEvidence(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)

    def _lose_power_if_alone(self) -> None:
        seen = self.seen()
        if seen is None or seen.leader != self.victim.node or set(seen.isr) != {self.victim.node}:
            return
        self.kill(self.victim.node)
        directory = self.context.cluster.data_dir(self.victim.node) / self.victim.name
        flushed = recovery_points(directory.parent).get(directory.name, 0)
        log = last_segment(directory)
        lost = [tail for offset, tail in batches(log) if offset >= flushed]
        self._lost = sum(tail.records for tail in lost)
        if lost:
            with log.open("r+b") as file:
                file.truncate(lost[0].position)
        self.chains.remove()

    def _restart_if_missed(self) -> None:
        """A machine comes back later than a process: when the others know that it is gone."""
        seen = self.seen([self.victim.node])
        if seen is not None and (seen.leader != self.victim.node or self.victim.node not in seen.isr):
            start(self.killed, self.context.cluster)
            self._restarted = True


FAULTS: tuple[type[Fault], ...] = (CutKill, PauseKill, StaleHeir, DoubleKill, LastStanding, LateRejoin)
