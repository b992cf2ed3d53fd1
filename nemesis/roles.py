"""Who a fault is aimed at: roles, and not numbers, because what matters is what a node does at that moment.

leader                   of one partition of the topics in use, with somebody alive and in sync who could take over
follower                 a living replica of such a partition that does not lead it
all-but-leader           all of them
controller               the leader of the quorum of controllers
group-coordinator        of a group; of one that could be, as long as there is none
transaction-coordinator  of a transactional id; the same
random                   any node that answers
all                      every node

A node that another fault keeps from the cluster at the moment plays no role of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from harness.clusters.cluster_view import NO_LEADER, ClusterView
from nemesis.admin.coordinators import GROUP, TRANSACTION, coordinators, find_coordinator, quorum_leader
from nemesis.base import FaultContext, Victim

KEY = "tidegauge"  # of a group or transaction that nobody uses, for as long as there is none in use


@dataclass(frozen=True)
class ChosenNodes:
    """The nodes in a role, at the moment they were chosen."""

    nodes: tuple[int, ...]
    victim: Victim | None = None  # the partition by which they were chosen
    role: str = ""

    @property
    def called(self) -> str:
        """How sentences call them: `node 1 (leader of t-0)`."""
        names = f"node {self.nodes[0]}" if len(self.nodes) == 1 else f"nodes {', '.join(map(str, self.nodes))}"
        if self.victim is not None:
            of = {"leader": "leader of", "follower": "follower of", "all-but-leader": "followers of"}[self.role]
            return f"{names} ({of} {self.victim.name})"
        return f"{names} ({self.role.replace('-', ' ')})" if self.role not in {"random", "all"} else names

    @property
    def node(self) -> int | None:
        """The one node it is about, if it is one."""
        return self.nodes[0] if len(self.nodes) == 1 else None


def choose(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
    """Who plays the target's role now; None when nobody does."""
    return ROLES[context.target](context, view)


def choose_leader(context: FaultContext, view: ClusterView) -> Victim | None:
    """The leader of one partition of the topics in use; it lives, and so does somebody who could take over."""
    found = leaders(view, context.out_of_service())
    return context.rng.choice(found) if found else None


def leaders(view: ClusterView, out_of_service: Collection[int] = ()) -> list[Victim]:
    """All such leaders, one for each partition that has one; they and who could take over are in service."""
    silent = {*view.silent, *out_of_service}
    return [
        Victim(seen.leader, topic, partition, seen, tuple(sorted(heirs)))
        for (topic, partition), seen in view.partitions.items()
        if seen.leader not in silent | {NO_LEADER} and (heirs := set(seen.isr) - silent - {seen.leader})
    ]


def leaves_a_majority(context: FaultContext, view: ClusterView, nodes: tuple[int, ...]) -> bool:
    """Whether a majority of all nodes, enough to elect anybody, answers without these and those out of service."""
    left = set(view.answers) - set(nodes) - set(context.out_of_service())
    return 2 * len(left) > len(context.cluster.nodes)


def _leader(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
    victim = choose_leader(context, view)
    return ChosenNodes((victim.node,), victim, "leader") if victim else None


def _follower(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
    victim = choose_leader(context, view)
    return ChosenNodes((context.rng.choice(victim.heirs),), victim, "follower") if victim else None


def _all_but_leader(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
    victim = choose_leader(context, view)
    if victim is None:
        return None
    others = tuple(node.id for node in context.cluster.nodes if node.id != victim.node)
    return ChosenNodes(others, victim, "all-but-leader")


def _one(
    role: str, find: Callable[[FaultContext], int | None]
) -> Callable[[FaultContext, ClusterView], ChosenNodes | None]:
    def found(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
        node = find(context)
        return ChosenNodes((node,), role=role) if node is not None and node in _able(context, view) else None

    return found


def _coordinator(context: FaultContext, kind: int) -> int | None:
    busy = coordinators(context.cluster, kind)
    if not busy:
        return find_coordinator(context.cluster, kind, KEY)
    able = [node for node in busy if node not in context.out_of_service()]
    return context.rng.choice(able) if able else None


def _random(context: FaultContext, view: ClusterView) -> ChosenNodes | None:
    able = _able(context, view)
    return ChosenNodes((context.rng.choice(able),), role="random") if able else None


def _able(context: FaultContext, view: ClusterView) -> list[int]:
    """Those that answer, and that no other fault keeps out of service."""
    return sorted(set(view.answers) - set(context.out_of_service()))


def _all(context: FaultContext, view: ClusterView) -> ChosenNodes | None:  # noqa: ARG001 - one signature for all roles
    return ChosenNodes(tuple(node.id for node in context.cluster.nodes), role="all")


ROLES: dict[str, Callable[[FaultContext, ClusterView], ChosenNodes | None]] = {
    "leader": _leader,
    "follower": _follower,
    "all-but-leader": _all_but_leader,
    "controller": _one("controller", lambda context: quorum_leader(context.cluster)),
    "group-coordinator": _one("group-coordinator", lambda context: _coordinator(context, GROUP)),
    "transaction-coordinator": _one("transaction-coordinator", lambda context: _coordinator(context, TRANSACTION)),
    "random": _random,
    "all": _all,
}
NODE_ROLES = ("leader", "follower", "controller", "group-coordinator", "transaction-coordinator", "random")
