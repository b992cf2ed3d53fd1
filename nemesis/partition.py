"""Faults of partition: nodes are cut off from each other, or from clients.

Packets are dropped in the nodes' own network namespaces (`nemesis.iptables`). What goes to clients and to the harness
passes, except where clients are what a node is cut off from. A cut has bitten when packets were taken and those on the
other side of it say what became of it: another leader in a higher epoch, fewer replicas in sync, another controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.clusters.cluster_view import ClusterView
from nemesis.admin.coordinators import quorum
from nemesis.base import Fault, FaultContext, FaultEvidence, RepeatingFault
from nemesis.cuts import BROKER, CONTROLLER, Cut
from nemesis.iptables import BACK, RESET, PacketRule, addresses
from nemesis.roles import ChosenNodes, leaves_a_majority


class Isolate(Cut):
    """A node is cut off from its peers; clients still reach it."""

    name = "isolate"
    description = "cuts a node off from its peers, both ways; clients still reach it"

    side: tuple[int, ...] = ()  # who is cut off from the rest

    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:
        """The rest is a majority, and somebody there is in sync for what shall change."""
        self.side = self.with_company(chosen, view)
        if not leaves_a_majority(self.context, view, self.side):
            return False
        if chosen.role == "controller" and self.quorum_before:
            return True
        aimed_at = [chosen.victim.view] if chosen.role == "leader" and chosen.victim else self.before.values()
        rest = set(view.answers) - set(self.side)
        return any(set(seen.isr) & set(self.side) and set(seen.isr) & rest for seen in aimed_at)

    @property
    def out_of_service(self) -> frozenset[int]:
        """The side that is cut off."""
        return frozenset(self.side if self._chosen else ())

    def with_company(self, chosen: ChosenNodes, view: ClusterView) -> tuple[int, ...]:  # noqa: ARG002 - for those that look
        """Who is on the chosen one's side."""
        return chosen.nodes

    def intent(self) -> str:
        """Who is cut off."""
        return f"{self.chosen.called} is cut off from its peers"

    def packet_rules(self) -> list[PacketRule]:
        """Between each of this side and each of the rest, built on this side."""
        return [wall for node in self.side for wall in self.both_ways(node, self.others)]

    def effect(self) -> FaultEvidence | None:
        """By the word of the rest: another leader, a replica that is no longer in sync, or another controller."""
        views = self.context.look_again(self.before).without(self.side)
        if self.chosen.role == "leader" and self.chosen.victim:
            return self.moved(self.chosen.victim, views, self.side)
        return self.shrunk(views, self.side) or self._controller_moved()

    @property
    def others(self) -> list[int]:
        """The other side."""
        return self.others_than(*self.side)

    def _controller_moved(self) -> FaultEvidence | None:
        now = quorum(self.context.cluster) if self.quorum_before else None
        if self.quorum_before is None or now is None or now[0] in self.side or now[1] <= self.quorum_before[1]:
            return None
        (old, old_epoch), (new, epoch) = self.quorum_before, now
        return FaultEvidence(f"controller: {old} → {new} (epoch {old_epoch} → {epoch})", old)


class Minority(Isolate):
    """The cluster falls into two sides, and the node in its role is on the smaller one."""

    name = "minority"
    description = "splits the cluster in two, with the node on the smaller side"

    def with_company(self, chosen: ChosenNodes, view: ClusterView) -> tuple[int, ...]:
        """As many as can be without a majority, by chance, of those that are well."""
        able = sorted(set(view.answers) - {*chosen.nodes, *self.context.out_of_service()})
        most = (len(self.nodes) - 1) // 2
        company = self.context.rng.sample(able, min(len(able), max(0, most - len(chosen.nodes))))
        return (*chosen.nodes, *sorted(company))

    def intent(self) -> str:
        """Both sides."""
        sides = f"{_numbers(self.side)} from {_numbers(self.others)}"
        return f"{self.chosen.called} is on the smaller side of a split: {sides}"


class OneWay(Isolate):
    """A node does not hear its peers, while they hear it."""

    name = "one-way"
    description = "keeps a node from hearing its peers; what it sends arrives"

    def intent(self) -> str:
        """Who is deaf."""
        return f"{self.chosen.called} does not hear its peers"

    def packet_rules(self) -> list[PacketRule]:
        """Nothing from any of them."""
        return [wall for node in self.side for wall in self.deaf(node, self.others)]


class ControllerCut(Isolate):
    """A node is cut off from the other controllers; brokers and clients still reach each other."""

    name = "controller-cut"
    description = "cuts a node off from the controllers of the others; brokers still reach each other"
    ports = (CONTROLLER,)

    def intent(self) -> str:
        """Who is cut off."""
        return f"{self.chosen.called} is cut off from the controllers of the others"

    def packet_rules(self) -> list[PacketRule]:
        """It does not reach theirs, and they do not reach its own: it may be the one that leads them."""
        cluster = self.context.cluster
        found = []
        for node in self.side:
            own = cluster.inner_port(node, CONTROLLER)
            for peer, address in addresses(self.context, self.others).items():
                port = cluster.inner_port(peer, CONTROLLER)
                found.append(PacketRule(node, "out", f"-d {address} -p tcp --dport {port}"))
                found.append(PacketRule(node, "in", f"-s {address} -p tcp --dport {own}"))
        return found


class Ring(Cut):
    """Each node hears a majority, and no two the same one."""

    name = "ring"
    description = "lets every node hear only itself and the next ones, up to a majority: no two hear the same"
    roles = ("all",)
    blocks = True

    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:  # noqa: ARG002 - it is always about all
        """All of them answer, and none is kept from the others by another fault."""
        return not view.silent and not self.context.out_of_service()

    @property
    def out_of_service(self) -> frozenset[int]:
        """All of them: no two agree."""
        return frozenset(self.nodes if self._chosen else ())

    def intent(self) -> str:
        """Who hears whom."""
        heard = [f"{node} hears {_numbers(self._heard(node))}" for node in self.nodes]
        return f"a ring: {'; '.join(heard)}"

    def packet_rules(self) -> list[PacketRule]:
        """Each node is deaf to the ones that are not next."""
        return [wall for node in self.nodes for wall in self.deaf(node, self._not_heard(node))]

    def effect(self) -> FaultEvidence | None:
        """Every node missed something, and the controllers have no leader or some replica is no longer in sync."""
        taken = self.chains.taken()
        if not taken or not all(taken.values()):
            return None
        for views in self.context.look_again(self.before).answers.values():
            if seen := self.shrunk(views, self.nodes):
                return seen
        if self.quorum_before and quorum(self.context.cluster) is None:
            leader, epoch = self.quorum_before
            return FaultEvidence(f"the controllers have no leader any more (it was {leader} in epoch {epoch})")
        return None

    def _heard(self, node: int) -> list[int]:
        at = self.nodes.index(node)
        return [self.nodes[(at + step) % len(self.nodes)] for step in range(1, len(self.nodes) // 2 + 1)]

    def _not_heard(self, node: int) -> list[int]:
        return [peer for peer in self.nodes if peer != node and peer not in self._heard(node)]


class Bridge(Cut):
    """Two sides do not see each other, and one node sees all."""

    name = "bridge"
    description = "splits the others into two sides that do not see each other, while the node sees all"
    roles = ("follower", "leader", "controller", "group-coordinator", "transaction-coordinator", "random")

    sides: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:
        """A leader is on one side, and somebody in sync with it on the other."""
        others = self.others_than(*chosen.nodes)
        self.context.rng.shuffle(others)
        half = len(others) // 2
        self.sides = tuple(sorted(others[:half])), tuple(sorted(others[half:]))
        answering = set(view.answers)
        return any(
            seen.leader in one and answering & set(seen.isr) & set(other)
            for seen in self.before.values()
            for one, other in (self.sides, self.sides[::-1])
        )

    def intent(self) -> str:
        """The sides and the bridge."""
        one, other = self.sides
        return f"{self.chosen.called} is the only bridge between {_numbers(one)} and {_numbers(other)}"

    def packet_rules(self) -> list[PacketRule]:
        """Between each of one side and each of the other."""
        one, other = self.sides
        return [wall for node in one for wall in self.both_ways(node, other)]

    def effect(self) -> FaultEvidence | None:
        """By the word of the bridge, a node of one side is no longer in sync."""
        cut = {node for side in self.sides for node in side}
        return self.shrunk(self.context.look_again(self.before).without(cut), cut)


class ReplicationCut(Cut):
    """Followers cannot copy from a node, while controllers and clients reach it."""

    name = "replication-cut"
    description = "keeps followers from copying from a node that leads; controllers and clients still reach it"
    ports = (BROKER,)
    changes_leaders = False
    blocks = True

    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:
        """It leads something that somebody else is in sync for."""
        alive = set(view.answers) - set(chosen.nodes)
        return any(seen.leader in chosen.nodes and set(seen.isr) & alive for seen in self.before.values())

    def intent(self) -> str:
        """From whom replication is blocked."""
        return f"no node can replicate from {self.chosen.called}"

    def packet_rules(self) -> list[PacketRule]:
        """Nothing from its peers to the port that brokers use."""
        cluster = self.context.cluster
        return [
            replace(wall, match=f"{wall.match} -p tcp --dport {cluster.inner_port(node, BROKER)}")
            for node in self.chosen.nodes
            for wall in self.deaf(node, self.others_than(node))
        ]

    def effect(self) -> FaultEvidence | None:
        """Fewer are in sync, and the node leads on."""
        own = {
            partition: now
            for partition, now in self.context.look_again(self.before).partitions.items()
            if now.leader in self.chosen.nodes and self.before.get(partition, now).leader == now.leader
        }
        seen = self.shrunk(own, set(self.nodes) - set(self.chosen.nodes))
        if seen is None:
            return None
        return replace(
            seen, sentence=f"{seen.sentence} with {seen.leader} still its leader in epoch {seen.leader_epoch},"
        )


class ClientCut(Cut):
    """Clients are refused by a node, while its peers reach it."""

    name = "client-cut"
    description = "has a node refuse and reset connections of clients; its peers still reach it"
    changes_leaders = False
    blocks = True

    def fits(self, chosen: ChosenNodes, view: ClusterView) -> bool:
        """It answers now."""
        return set(chosen.nodes) <= set(view.answers)

    def intent(self) -> str:
        """Whom clients do not reach."""
        return f"clients do not reach {self.chosen.called}"

    def packet_rules(self) -> list[PacketRule]:
        """Everything to the port for clients is answered with a reset, except from peers: some have no other port."""
        cluster = self.context.cluster
        found = []
        for node in self.chosen.nodes:
            found += [replace(wall, verdict=BACK) for wall in self.deaf(node, self.others_than(node))]
            port = cluster.inner_port(node, self._listener(node))
            found.append(PacketRule(node, "in", f"! -i lo -p tcp --dport {port}", RESET))
        return found

    def effect(self) -> FaultEvidence | None:
        """We are refused as well, and others answer."""
        view = self.context.look()
        node = self.chosen.nodes[0]
        if node not in view.silent or not view.answers:
            return None
        return FaultEvidence(f"node {node} does not answer us any more: {view.silent[node]},", node)

    def _listener(self, node: int) -> str:
        known = self.context.cluster.node(node)
        return next(name for name, address in known.listeners.items() if address == known.address)


class Flapping(RepeatingFault, Isolate):
    """A node is cut off from its peers and reaches them again, in turn."""

    name = "flapping"
    description = "cuts a node off from its peers and lets it back, in turn"
    options = {"period": 1.0}

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._open = True

    @property
    def period_s(self) -> float:
        """As asked for."""
        return float(self.context.options["period"])

    def intent(self) -> str:
        """Who flaps, and how fast."""
        return f"{self.chosen.called} is cut off from its peers and let back every {self.period_s:g} s"

    def step(self) -> None:
        """The other way round; the first one installs the rules."""
        if not self.steps:
            self.build()
        elif self._open:
            self.chains.resume()
        else:
            self.chains.suspend()
        self._open = not self._open

    def rest(self) -> None:
        """No rules."""
        self.chains.remove()

    def proof(self) -> FaultEvidence | None:
        """It was cut off and let back twice, and packets were dropped."""
        self.fail_if_a_step_failed()
        turns = self.steps // 2
        taken = sum(self.chains.taken().values()) if turns > 1 else 0
        return (
            FaultEvidence(f"cut off and let back {turns} times, packets dropped: {taken:,}", self.chosen.node)
            if taken
            else None
        )


def _numbers(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


FAULTS: tuple[type[Fault], ...] = (
    Isolate,
    Minority,
    Ring,
    Bridge,
    OneWay,
    ReplicationCut,
    ControllerCut,
    ClientCut,
    Flapping,
)
