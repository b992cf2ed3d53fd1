"""Faults of the network: what passes is lost, late or slow, or the connection goes.

Loss and bandwidth are the kernel's doing, in the nodes' own network namespaces, and hit peers and clients alike. What
is late, and connections that go, are the taps' doing: only clients feel it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from harness.clusters.node import Capability, NodeState
from harness.foundation.errors import ClusterError
from harness.tap.rule_names import bytes_per_second
from harness.tap.rules import Rule
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence
from nemesis.iptables import Chains, PacketRule, addresses, left_on, mend_all
from nemesis.roles import NODE_ROLES, ChosenNodes, choose
from nemesis.tap_rules import AtTheTap

LIMIT = "tbf"  # the kernel's name of what limits how fast it goes
QUEUE = "400ms"  # what waits longer is dropped
SLICES_PER_S = 100  # the kernel may look no more often than that, and each time lets a burst go
BURST = 'set -- $(ip -o link show dev "$dev"); burst=$(( 2 * $5 > {least} ? 2 * $5 : {least} ))'  # two packets or more
LEAST_PROBABILITY = 0.001  # a node that loses fewer packets may lose none for a minute
_COUNTED = re.compile(r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+), overlimits (\d+)")


class OnTheWire(Fault):
    """Something that the kernel does to the packets of the nodes in their role."""

    roles: ClassVar[tuple[str, ...]] = (*NODE_ROLES, "all-but-leader", "all")
    changes_leaders = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chosen: ChosenNodes | None = None

    @property
    def chosen(self) -> ChosenNodes:
        """Whom `aim` chose."""
        return self.aimed(self._chosen)

    def aim(self) -> Aim | None:
        """The nodes in their role, as far as they answer: one that is down sends and gets nothing."""
        view = self.context.look()
        chosen = choose(self.context, view)
        able = tuple(node for node in chosen.nodes if node in view.answers) if chosen else ()
        if chosen is None or not able:
            return None
        self._chosen = chosen = replace(chosen, nodes=able)
        return Aim(self.intent(chosen), chosen.victim, chosen.node)

    @abstractmethod
    def intent(self, chosen: ChosenNodes) -> str:
        """What will be done, in a sentence."""


class PacketLoss(OnTheWire):
    """Some of the packets do not arrive."""

    name = "packet-loss"
    description = "loses some of the packets that a node gets, from peers and clients"
    needs = frozenset({Capability.PARTITION, Capability.LOSS})
    options = {"probability": 0.3}

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self.chains = Chains(context)

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """So seldom that nobody may feel it."""
        probability = options.get("probability")
        if probability is not None and probability < LEAST_PROBABILITY:
            return f"the probability of '{cls.name}' is {LEAST_PROBABILITY:g} at least"
        return ""

    def intent(self, chosen: ChosenNodes) -> str:
        """Who loses how many."""
        return f"{chosen.called} lose{'s' if chosen.node else ''} {self._probability:.0%} of what comes in"

    def inject(self) -> None:
        """Whatever comes from outside may be dropped."""
        match = f"! -i lo -m statistic --mode random --probability {self._probability:.6f}"
        self.chains.put([PacketRule(node, "in", match) for node in self.chosen.nodes])

    def proof(self) -> FaultEvidence | None:
        """Every one of them that has not died since has lost something."""
        taken = self.chains.taken()
        if not taken or not all(taken.values()):
            return None
        lost = ", ".join(f"{count:,} to node {node}" for node, count in taken.items())
        return FaultEvidence(f"packets lost: {lost}", self.chosen.node)

    def undo(self) -> None:
        """Everything arrives."""
        self.chains.remove()

    def healed(self) -> str:
        """Where packets may still be lost."""
        return self.chains.left()

    @property
    def _probability(self) -> float:
        return float(self.context.options["probability"])


class Bandwidth(OnTheWire):
    """A node sends slowly."""

    name = "bandwidth"
    description = "limits how fast a node sends, to peers and clients together"
    needs = frozenset({Capability.PARTITION, Capability.SHAPE})
    options = {"rate": "64KiB"}

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """A rate that is none."""
        try:
            bytes_per_second(options.get("rate", cls.options["rate"]))
        except ValueError as error:
            return f"'{cls.name}': {error}"
        return ""

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._slow: list[int] = []  # from the moment on that they may be

    def intent(self, chosen: ChosenNodes) -> str:
        """Who, and how fast."""
        return f"{chosen.called} send{'s' if chosen.node else ''} {self._rate:,} bytes per second at most"

    def inject(self) -> None:
        """All of them at once."""
        for node in addresses(self.context, self.chosen.nodes):
            self.limit(node)

    def limit(self, node: int) -> None:
        """A token bucket in front of what leaves a node."""
        own = self._interface(node)
        burst = BURST.format(least=self._rate // SLICES_PER_S)
        limit = f'tc qdisc replace dev "$dev" root tbf rate {self._rate}bps burst "$burst" latency {QUEUE}'
        shown = 'case "$(tc qdisc show dev "$dev" root)" in'
        undo = f'set -e\n{own}\n{shown} *" tbf "*) tc qdisc del dev "$dev" root;; esac'
        self._slow.append(node)
        self.context.cluster.break_network(node, self.context.tag, f"set -e\n{own}\n{burst}\n{limit}", undo)

    def proof(self) -> FaultEvidence | None:
        """Every one of them that has not died since had to wait, and still sent something."""
        shown = {node: queue for node in self._slow if LIMIT in (queue := self._queue_if_any(node))}
        counted = {node: _COUNTED.search(queue) for node, queue in shown.items()}
        held = {node: match for node, match in counted.items() if match and int(match[1]) and int(match[4])}
        if not held or len(held) < len(shown):
            return None
        said = [
            f"node {node} was held back {int(match[4]):,} times while it sent {int(match[1]):,} bytes"
            for node, match in held.items()
        ]
        return FaultEvidence("; ".join(said), self.chosen.node)

    def undo(self) -> None:
        """As fast as before."""
        mend_all(self.context, self._slow)

    def healed(self) -> str:
        """Who is still slow."""
        return left_on(self.context, self._slow, self._limit_on)

    def _limit_on(self, node: int) -> str:
        return f"node {node} still has a limit on what it sends" if LIMIT in self._queue(node) else ""

    @property
    def _rate(self) -> int:
        return bytes_per_second(self.context.options["rate"])

    def _interface(self, node: int) -> str:
        """The line that finds the interface which the peers know the node by."""
        address = self.context.cluster.peer_address(node)
        return f'set -- $(ip -o -4 addr show to {address}/32); dev=${{2%%@*}}; [ -n "$dev" ]'

    def _queue(self, node: int) -> str:
        script = f'set -e\n{self._interface(node)}\ntc -s qdisc show dev "$dev" root'
        return self.context.cluster.inside(node, script)

    def _queue_if_any(self, node: int) -> str:
        try:
            return self._queue(node)
        except ClusterError:
            if self.context.cluster.state(node) is not NodeState.DEAD:
                raise
            return ""


class Late(AtTheTap):
    """Something comes later than it would."""

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """Not late at all."""
        by = options.get("by")
        return f"'{cls.name}' by 0 s is no fault" if by is not None and by <= 0 else ""


class Latency(Late):
    """Answers come late."""

    name = "latency"
    description = "delays every response to clients"
    options = {"by": 0.2}
    done = "responses delayed"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """All of them by the same time."""
        by = self.context.options["by"]
        return Rule(name=self.context.tag, node=nodes, client=self.whose, action="delay", by=by, side="response")


class Jitter(Late):
    """Answers come late, some later than others."""

    name = "jitter"
    description = "delays every response to clients, each by another time"
    options = {"by": 0.2, "jitter": None}  # as much as `by`, unless told otherwise
    done = "responses delayed"

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> str:
        """Earlier than it is asked for."""
        by, jitter = options.get("by", cls.options["by"]), options.get("jitter")
        if jitter is not None and jitter > by:
            return f"the jitter of '{cls.name}' is {jitter:g} s, and it cannot be more than the {by:g} s of 'by'"
        return super().refuse(options)

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """Each by so much less or more."""
        by, jitter = self.context.options["by"], self.context.options["jitter"]
        return Rule(
            name=self.context.tag,
            node=nodes,
            client=self.whose,
            action="delay",
            by=by,
            jitter=by if jitter is None else jitter,
            side="response",
        )


class SlowClose(Late):
    """A connection falls silent, and is closed after a while."""

    name = "slow-close"
    description = "lets some connections of clients fall silent, and closes them after a while"
    options = {"by": 2.0, "probability": 0.05}
    done = "connections closed late"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """With some request, by chance."""
        by, probability = self.context.options["by"], self.context.options["probability"]
        return Rule(
            name=self.context.tag, node=nodes, client=self.whose, action="close", by=by, probability=probability
        )


class Reset(AtTheTap):
    """A connection is reset."""

    name = "reset"
    description = "resets some connections of clients"
    options = {"probability": 0.05}
    done = "connections reset"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """With some request, by chance."""
        probability = self.context.options["probability"]
        return Rule(name=self.context.tag, node=nodes, client=self.whose, action="reset", probability=probability)


FAULTS: tuple[type[Fault], ...] = (PacketLoss, Bandwidth, Latency, Jitter, SlowClose, Reset)
