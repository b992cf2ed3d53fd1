"""Faults of the network: what passes is lost, late or slow, or the connection goes.

Loss and bandwidth are the kernel's doing, in the nodes' own network namespaces, and hit peers and clients alike. What
is late, and connections that go, are the taps' doing: only clients feel it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from contextlib import suppress
from typing import ClassVar

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

from harness.clusters.base import Capability
from harness.errors import ClusterError
from harness.tap.rules import Rule
from harness.tap.vocabulary import bytes_per_second
from harness.wire import Connection, WireError
from nemesis.base import Aim, Bite, Fault, Field
from nemesis.chains import Chains, Wall, left_on, mend_all
from nemesis.roles import NODE_ROLES, Chosen, choose
from nemesis.tapped import AtTheTap

QUEUE = "400ms"  # what waits longer is dropped
SLICES_PER_S = 100  # the kernel may look no more often than that, and each time lets a burst go
BURST = 'set -- $(ip -o link show dev "$dev"); burst=$(( 2 * $5 > {least} ? 2 * $5 : {least} ))'  # two packets or more
BROKER_SETTINGS = 4  # Kafka's number of that kind of resource
SETTINGS_VERSION = 1
ASK_TIMEOUT_S = 2.0
_COUNTED = re.compile(r"Sent (\d+) bytes (\d+) pkt \(dropped (\d+), overlimits (\d+)")


class OnTheWire(Fault):
    """Something that the kernel does to the packets of the nodes in their role."""

    roles: ClassVar[tuple[str, ...]] = (*NODE_ROLES, "all-but-leader", "all")
    changes_leaders = True

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._chosen: Chosen | None = None

    @property
    def chosen(self) -> Chosen:
        """Whom `aim` chose."""
        if self._chosen is None:
            raise ClusterError(f"{self.name} was injected without a victim", "call aim() first")
        return self._chosen

    def aim(self) -> Aim | None:
        """The nodes in their role."""
        self._chosen = chosen = choose(self.field, self.field.look())
        return Aim(self.intent(chosen), chosen.victim, chosen.node) if chosen else None

    @abstractmethod
    def intent(self, chosen: Chosen) -> str:
        """What will be done, in a sentence."""


class PacketLoss(OnTheWire):
    """Some of the packets do not arrive."""

    name = "packet-loss"
    description = "loses some of the packets that a node gets, from peers and clients"
    needs = frozenset({Capability.PARTITION, Capability.LOSS})
    options = {"probability": 0.3}

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.chains = Chains(field)

    def intent(self, chosen: Chosen) -> str:
        """Who loses how many."""
        return f"{chosen.called} lose{'s' if chosen.node else ''} {self._probability:.0%} of what comes in"

    def inject(self) -> None:
        """Whatever comes from outside may be dropped."""
        match = f"! -i lo -m statistic --mode random --probability {self._probability:.6f}"
        self.chains.put([Wall(node, "in", match) for node in self.chosen.nodes])

    def proof(self) -> Bite | None:
        """Every one of them has lost something."""
        taken = self.chains.taken()
        if not all(taken.values()):
            return None
        lost = ", ".join(f"{count:,} to node {node}" for node, count in taken.items())
        return Bite(f"packets lost: {lost}", self.chosen.node)

    def undo(self) -> None:
        """Everything arrives."""
        self.chains.remove()

    def healed(self) -> str:
        """Where packets may still be lost."""
        return self.chains.left()

    @property
    def _probability(self) -> float:
        return float(self.field.options["probability"])


class Bandwidth(OnTheWire):
    """A node sends slowly."""

    name = "bandwidth"
    description = "limits how fast a node sends, to peers and clients together"
    needs = frozenset({Capability.PARTITION, Capability.SHAPE})
    options = {"rate": "64KiB"}

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._slow: list[int] = []  # from the moment on that they may be

    def intent(self, chosen: Chosen) -> str:
        """Who, and how fast."""
        return f"{chosen.called} send{'s' if chosen.node else ''} {self._rate:,} bytes per second at most"

    def inject(self) -> None:
        """A token bucket in front of what leaves."""
        for node in self.chosen.nodes:
            own = self._interface(node)
            burst = BURST.format(least=self._rate // SLICES_PER_S)
            limit = f'tc qdisc replace dev "$dev" root tbf rate {self._rate}bps burst "$burst" latency {QUEUE}'
            shown = 'case "$(tc qdisc show dev "$dev" root)" in'
            undo = f'set -e\n{own}\n{shown} *" tbf "*) tc qdisc del dev "$dev" root;; esac'
            self._slow.append(node)
            self.field.cluster.break_network(node, self.field.tag, f"set -e\n{own}\n{burst}\n{limit}", undo)

    def proof(self) -> Bite | None:
        """Every one of them had to wait, and still sent something; whoever has not is asked for something large."""
        counted = {node: _COUNTED.search(self._queue(node)) for node in self._slow}
        held = {node: match for node, match in counted.items() if match and int(match[1]) and int(match[4])}
        if idle := set(self.chosen.nodes) - set(held):
            for node in idle:
                self._ask_for_much(node)
            return None
        said = [
            f"node {node} was held back {int(match[4]):,} times while it sent {int(match[1]):,} bytes"
            for node, match in held.items()
        ]
        return Bite("; ".join(said), self.chosen.node)

    def undo(self) -> None:
        """As fast as before."""
        mend_all(self.field, self._slow)

    def healed(self) -> str:
        """Who is still slow."""
        return left_on(self.field, self._slow, self._limit_on)

    def _limit_on(self, node: int) -> str:
        return f"node {node} still has a limit on what it sends" if "tbf" in self._queue(node) else ""

    @property
    def _rate(self) -> int:
        return bytes_per_second(self.field.options["rate"])

    def _ask_for_much(self, node: int) -> None:
        """All settings of the node, which are more than a burst: a load may be too small to feel the limit."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=BROKER_SETTINGS, resource_name=str(node), configuration_keys=None
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        with suppress(WireError), Connection(self.field.cluster.node(node).address, ASK_TIMEOUT_S) as connection:
            connection.ask(request, DescribeConfigsResponse, SETTINGS_VERSION)

    def _interface(self, node: int) -> str:
        """The line that finds the interface which the peers know the node by."""
        address = self.field.cluster.peer_address(node)
        return f'set -- $(ip -o -4 addr show to {address}/32); dev=${{2%%@*}}; [ -n "$dev" ]'

    def _queue(self, node: int) -> str:
        script = f'set -e\n{self._interface(node)}\ntc -s qdisc show dev "$dev" root'
        return self.field.cluster.inside(node, script)


class Latency(AtTheTap):
    """Answers come late."""

    name = "latency"
    description = "delays every response to clients"
    options = {"by": 0.2}
    done = "responses delayed"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """All of them by the same time."""
        return Rule(name=self.field.tag, node=nodes, action="delay", by=self.field.options["by"], side="response")


class Jitter(AtTheTap):
    """Answers come late, some later than others."""

    name = "jitter"
    description = "delays every response to clients, each by another time"
    options = {"by": 0.2, "jitter": 0.2}
    done = "responses delayed"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """Each by so much less or more, but never by less than nothing."""
        by = self.field.options["by"]
        jitter = min(by, self.field.options["jitter"])
        return Rule(name=self.field.tag, node=nodes, action="delay", by=by, jitter=jitter, side="response")


class SlowClose(AtTheTap):
    """A connection falls silent, and is closed after a while."""

    name = "slow-close"
    description = "lets some connections of clients fall silent, and closes them after a while"
    options = {"by": 2.0, "probability": 0.05}
    done = "connections closed late"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """With some request, by chance."""
        by, probability = self.field.options["by"], self.field.options["probability"]
        return Rule(name=self.field.tag, node=nodes, action="close", by=by, probability=probability)


class Reset(AtTheTap):
    """A connection is reset."""

    name = "reset"
    description = "resets some connections of clients"
    options = {"probability": 0.05}
    done = "connections reset"

    def rule(self, nodes: tuple[int, ...]) -> Rule:
        """With some request, by chance."""
        probability = self.field.options["probability"]
        return Rule(name=self.field.tag, node=nodes, action="reset", probability=probability)


FAULTS: tuple[type[Fault], ...] = (PacketLoss, Bandwidth, Latency, Jitter, SlowClose, Reset)
