"""Faults of processes: nodes are killed, paused, stopped and restarted.

A node that is gone has bitten when it does not answer while others do, and somebody else leads what it led. Faults may
overlap: a node that is down already is left to whoever brought it down, and one that somebody else has started is fine.
One that a fault holds down, because of what it did to the data, is started by that fault alone.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.clusters.cluster_view import ClusterView
from harness.clusters.node import Capability, NodeState
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence, RepeatingFault
from nemesis.node_states import CAN_KILL, bring_to_state, not_running, on_each_node, start
from nemesis.on_nodes import OnNodes
from nemesis.roles import ChosenNodes, leaves_a_majority

LOOK_EVERY_S = 0.2


class Kill(OnNodes):
    """SIGKILL, and a start on the old data at the end."""

    name = "kill"
    description = "kills a node (SIGKILL) and starts it again"
    needs = CAN_KILL
    doing = "SIGKILL of"
    done = "kill"
    state = NodeState.DEAD

    def disable(self, node: int) -> None:
        """SIGKILL."""
        self.context.cluster.kill(node)

    def restore(self, nodes: Collection[int]) -> None:
        """Start."""
        start(nodes, self.context.cluster)


class Stop(Kill):
    """SIGTERM: the node hands over its leaderships before it goes."""

    name = "stop"
    description = "stops a node in good order and starts it again"
    needs = frozenset({Capability.RESTART})
    doing = "stop of"
    done = "stop"

    def disable(self, node: int) -> None:
        """SIGTERM, and wait until it is gone."""
        self.context.cluster.stop_node(node)


class Pause(OnNodes):
    """Frozen: connections stay open, and nothing is answered."""

    name = "pause"
    description = "pauses a node (SIGSTOP, or docker pause)"
    needs = frozenset({Capability.PAUSE})
    doing = "pause of"
    done = "pause"
    state = NodeState.PAUSED

    def disable(self, node: int) -> None:
        """Freeze it."""
        self.context.cluster.pause(node)

    def restore(self, nodes: Collection[int]) -> None:
        """Let them go on."""
        cluster = self.context.cluster
        on_each_node(
            nodes, lambda node: bring_to_state(node, cluster, cluster.resume, (NodeState.RUNNING, NodeState.DEAD))
        )

    def healed(self) -> str:
        """None is paused; one that died meanwhile did not die of this."""
        states = {node: self.context.cluster.state(node) for node in self._hit}
        return "; ".join(f"node {node} is {state}" for node, state in states.items() if state is NodeState.PAUSED)


class OnAllNodes(OnNodes):
    """What happens to all nodes at once: it has bitten when none of them answers."""

    roles = ("all",)
    blocks = True

    def can_be_spared(self, view: ClusterView, chosen: ChosenNodes) -> bool:  # noqa: ARG002 - nobody is
        """As long as anybody is there to be hit."""
        return bool(view.answers)

    def proof(self) -> FaultEvidence | None:
        """Silence."""
        if self.context.look().answers or not self._all_felled():
            return None
        count = len(self.context.cluster.nodes)
        after_s = self.context.clock() - self._injected_at
        return FaultEvidence(
            f"none of {count} nodes answers, {after_s:.1f} s after the {self.done} of {len(self._hit)}"
        )


class KillAll(OnAllNodes, Kill):
    """All nodes at once."""

    name = "kill-all"
    description = "kills all nodes (SIGKILL) and starts them again"


class PauseAll(OnAllNodes, Pause):
    """All nodes at once."""

    name = "pause-all"
    description = "pauses all nodes (SIGSTOP, or docker pause)"


class RollingRestart(RepeatingFault):
    """Node after node is restarted in good order, each when everything is in sync; then it does nothing more."""

    name = "rolling-restart"
    description = "restarts node after node in good order, each when all replicas are in sync again"
    needs = frozenset({Capability.RESTART})
    roles = ("all",)
    changes_leaders = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._left = [node.id for node in context.cluster.nodes]
        self._stopped: list[int] = []
        self._under_way: tuple[int, float] | None = None  # who, and when it was gone
        self._first: str = ""  # how it went, once it is back

    @property
    def out_of_service(self) -> frozenset[int]:
        """The last one that was stopped."""
        return frozenset(self._stopped[-1:])

    @property
    def period_s(self) -> float:
        """How often it looks whether the next one may go."""
        return LOOK_EVERY_S

    def aim(self) -> Aim | None:
        """All of them, in order of their numbers."""
        return Aim(f"restart of the nodes {', '.join(map(str, self._left))}, one after the other")

    def step(self) -> None:
        """The next one, when all is well."""
        if self.context.look().troubles():
            return
        if self._under_way is not None:
            node, gone_at = self._under_way
            self._under_way = None
            back_s = self.context.clock() - gone_at
            self._first = (
                self._first or f"node {node} was gone and all replicas were in sync again {back_s:.1f} s later"
            )
        if self._left:
            self._restart(self._left.pop(0))

    def rest(self) -> None:
        """Nobody stays down."""
        start(self._stopped, self.context.cluster)

    def proof(self) -> FaultEvidence | None:
        """The first one went and came."""
        self.fail_if_a_step_failed()
        if not self._first:
            return None
        return FaultEvidence(
            f"{self._first}; {len(self._stopped)} of {len(self.context.cluster.nodes)} were stopped by then"
        )

    def healed(self) -> str:
        """All that were stopped run."""
        return not_running(self._stopped, self.context.cluster)

    def _restart(self, node: int) -> None:
        cluster = self.context.cluster
        self._stopped.append(node)
        bring_to_state(node, cluster, cluster.stop_node, (NodeState.DEAD,))
        if node in self.context.look().silent:
            self._under_way = node, self.context.clock()
        start([node], cluster)


class RestartStorm(RepeatingFault):
    """A random node is killed and started at once, again and again, as long as the others are a majority."""

    name = "restart-storm"
    description = "kills a random node and starts it at once, again and again"
    needs = CAN_KILL
    roles = ("random",)
    options = {"period": 2.0}
    changes_leaders = True
    blocks = True  # a node may have to go before the one before it is in sync again

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._killed: list[int] = []
        self._gone: list[int] = []  # of these, those that were seen to be silent

    @property
    def out_of_service(self) -> frozenset[int]:
        """The last one that was killed."""
        return frozenset(self._killed[-1:])

    @property
    def period_s(self) -> float:
        """As told."""
        return float(self.context.options["period"])

    def aim(self) -> Aim | None:
        """Whoever can be spared, each time anew."""
        if not self._spare():
            return None
        return Aim(f"SIGKILL and start of a random node every {self.period_s:g} s")

    def step(self) -> None:
        """One of those that answer, if the others are a majority; one that is still starting does not answer."""
        spare = self._spare()
        if not spare:
            return
        node, cluster = self.context.rng.choice(spare), self.context.cluster
        self._killed.append(node)
        bring_to_state(node, cluster, cluster.kill, (NodeState.DEAD,))
        if node in self.context.look().silent:
            self._gone.append(node)
        start([node], cluster)

    def rest(self) -> None:
        """Nobody stays down."""
        start(set(self._killed), self.context.cluster)

    def proof(self) -> FaultEvidence | None:
        """The second one is gone; before, it was no storm."""
        self.fail_if_a_step_failed()
        gone = list(self._gone)
        if len(gone) < 2:
            return None
        return FaultEvidence(
            f"{len(gone)} times a node was killed and did not answer ({', '.join(map(str, gone))})", gone[-1]
        )

    def healed(self) -> str:
        """All that were killed run."""
        return not_running(sorted(set(self._killed)), self.context.cluster)

    def _spare(self) -> list[int]:
        view = self.context.look()
        able = sorted(set(view.answers) - set(self.context.out_of_service()))
        return [node for node in able if leaves_a_majority(self.context, view, (node,))]


FAULTS: tuple[type[Fault], ...] = (Kill, KillAll, RollingRestart, Pause, PauseAll, RestartStorm, Stop)
