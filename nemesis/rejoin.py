"""A follower that lost its disk rejoins the replicas in sync, because a request to count it as one was late (KIP-903).

A is the leader, C leads the quorum of controllers, B is the third replica:

    1  no node can replicate from A until it alone is in sync
    2  C is frozen, and the others elect another controller
    3  B may copy again and catches up. A asks C, which does not hear it, to count B as in sync, and waits for an answer
       as long as controller.socket.timeout.ms says before it asks another one
    4  no node can replicate from A; B is killed, wiped and started. It is fenced, registers and is unfenced. It was in
       sync nowhere that matters, so the partition and its epoch stay as they are
    5  C goes on, and says that it is no controller. A asks the new one, which up to 3.4 takes it: B counts as in sync
    6  A is killed. B, which has nothing, leads; where the request was refused nobody does before A is back
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from harness.clusters.cluster_view import NO_LEADER
from harness.clusters.node import Capability, NodeState
from harness.clusters.wire import WireError, ask_metadata
from nemesis.admin.coordinators import quorum_leader
from nemesis.base import Aim, FaultContext, FaultEvidence
from nemesis.log_files import INTERNAL_TOPICS, KEPT, batches, last_segment
from nemesis.node_states import CAN_KILL, bring_to_state, not_running, start
from nemesis.roles import leaders
from nemesis.sequence_steps import BROKER, Sequence

ELECTED_S = 5.0  # the quorum misses its leader after two seconds, and elects another within three more
ASKED_S = 2.0  # after the last record was copied, until the leader has heard so and has asked for the follower
REFUSED_S = 10.0  # after the frozen one goes on, until nobody will add the follower any more


class LateRejoin(Sequence):
    """A replica that has nothing is counted as in sync, because it had everything when that was asked for."""

    name = "late-rejoin"
    description = "wipes a follower while a request to count it as in sync is on its way, then kills the leader"
    needs = frozenset({Capability.PARTITION, Capability.FILES, Capability.PAUSE, *CAN_KILL})
    ports = (BROKER,)

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._controller = self._follower = 0
        self._frozen: list[int] = []
        self._since_s: float | None = None
        self._counted = False  # the follower, as in sync, without anything
        self._steps: list[Callable[[], bool]] = [
            self._freeze_if_alone,
            self._let_copy_when_elected,
            self._wipe_when_asked,
            self._thaw_when_back,
            self._kill_leader,
            self._restart_if_missed,
        ]

    @property
    def out_of_service(self) -> frozenset[int]:
        """All three."""
        return super().out_of_service | frozenset(filter(None, (self._controller, self._follower)))

    def aim(self) -> Aim | None:
        """A leader that is not the controller, with all its followers, and one of these that is not either."""
        controller = quorum_leader(self.context.cluster)
        if controller is None:
            return None
        kept = {controller, *self._last_copies(controller)}  # their disks are not to be wiped
        found = [
            (victim, heirs)
            for victim in leaders(self.context.look(), self.context.out_of_service())
            if victim.node != controller and set(victim.view.isr) == set(victim.view.replicas)
            if (heirs := [heir for heir in victim.heirs if heir not in kept])
        ]
        if not found:
            return None
        victim, heirs = self.context.rng.choice(found)
        self._victim, self._controller, self._follower = victim, controller, self.context.rng.choice(heirs)
        return Aim(
            f"node {self._follower}, follower of {victim.name}, loses its disk while node {victim.node}, its leader,"
            f" asks node {controller}, which stands still, to count it as in sync; then node {victim.node} dies",
            victim,
        )

    def inject(self) -> None:
        """Nobody can copy."""
        self._wall()

    def proof(self) -> FaultEvidence | None:
        """Somebody leads in a higher epoch than before."""
        while self._steps and self._steps[0]():
            self._steps.pop(0)
            self._since_s = None
        if self._steps:
            return None
        seen, old = self.seen(), self.victim
        if seen is None or seen.leader == NO_LEADER or seen.leader_epoch <= old.leader_epoch:
            return None
        how = "was counted as in sync with nothing" if self._counted else "was not counted as in sync before it had all"
        return FaultEvidence(
            f"node {self._follower} lost its disk and {how}; node {old.node}, leader of {old.name}, died, and"
            f" {seen.leader} leads",
            old.node,
            old.topic,
            old.partition,
            seen.leader,
            seen.leader_epoch,
        )

    def undo(self) -> None:
        """Nobody is frozen, walled or down."""
        with ExitStack() as stack:
            stack.callback(super().undo)
            stack.callback(self._thaw)

    def healed(self) -> str:
        """What is left of any of it."""
        return "; ".join(filter(None, [super().healed(), not_running(self._frozen, self.context.cluster)]))

    # the steps: each says whether it is done

    def _freeze_if_alone(self) -> bool:
        seen, leader = self.seen(), self.victim.node
        if seen is None or seen.leader != leader or set(seen.isr) != {leader}:
            return False
        self._frozen.append(self._controller)
        bring_to_state(
            self._controller, self.context.cluster, self.context.cluster.pause, (NodeState.PAUSED, NodeState.DEAD)
        )
        return True

    def _let_copy_when_elected(self) -> bool:
        """Nodes cannot be asked who leads the quorum: they pass that question on to the one that stands still."""
        if not self._lasted(ELECTED_S):
            return False
        self.chains.remove()
        return True

    def _wipe_when_asked(self) -> bool:
        if self._end_of(self._follower) < self._end_of(self.victim.node):
            self._since_s = None
            return False
        if not self._lasted(ASKED_S) or self._follower in self._last_copies(self._controller):
            return False
        self._wall()
        self.kill(self._follower)
        for path in self.context.cluster.data_dir(self._follower).iterdir():
            if path.name not in KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        start([self._follower], self.context.cluster)
        return True

    def _thaw_when_back(self) -> bool:
        """It answers when it knows of its registration, and lists itself when it is no longer fenced."""
        try:
            known = ask_metadata(self.context.cluster.node(self._follower).address, 1.0).brokers
        except WireError:
            return False
        if self._follower not in known:
            return False
        self._thaw()
        return True

    def _kill_leader(self) -> bool:
        """At once when the follower counts as in sync: its leader finds out within seconds that it is not."""
        views = self.context.look_at([self.victim.topic]).answers.values()
        self._counted = any(self._follower in view[self.victim.key].isr for view in views if self.victim.key in view)
        if not self._counted and not self._lasted(REFUSED_S):
            return False
        self.kill(self.victim.node)
        self.chains.remove()
        return True

    def _restart_if_missed(self) -> bool:
        """When another leads, or nobody may."""
        seen = self.seen([self.victim.node])
        if seen is None or seen.leader == self.victim.node:
            return False
        if seen.leader == NO_LEADER:
            start([self.victim.node], self.context.cluster)
        return True

    def _last_copies(self, controller: int) -> set[int]:
        """Nodes that alone have everything of a partition while the controller stands still: its loss would be ours."""
        seen = self.context.look_at([*self.context.topics(), *INTERNAL_TOPICS]).partitions.values()
        others = (set(each.isr) - {controller} for each in seen)
        return {node for nodes in others if len(nodes) == 1 for node in nodes}

    def _lasted(self, for_s: float) -> bool:
        if self._since_s is None:
            self._since_s = self.context.clock()
        return self.context.clock() - self._since_s >= for_s

    def _wall(self) -> None:
        self.cut_off(self.victim.node, self.others_than(self.victim.node))

    def _thaw(self) -> None:
        for node in self._frozen:
            bring_to_state(node, self.context.cluster, self.context.cluster.resume, (NodeState.RUNNING, NodeState.DEAD))

    def _end_of(self, node: int) -> int:
        """The offset after the last record that the node's log has on disk; -1 while there is none."""
        directory: Path = self.context.cluster.data_dir(node) / self.victim.name
        try:
            return max((offset + tail.records for offset, tail in batches(last_segment(directory))), default=-1)
        except FileNotFoundError:
            return -1
