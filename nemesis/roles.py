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
from nemesis.admin import GROUP, TRANSACTION, coordinators, find_coordinator, quorum_leader
from nemesis.base import Field, Victim

KEY = "tidegauge"  # of a group or transaction that nobody uses, for as long as there is none in use


@dataclass(frozen=True)
class Chosen:
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


def choose(field: Field, view: ClusterView) -> Chosen | None:
    """Who plays the target's role now; None when nobody does."""
    return ROLES[field.target](field, view)


def choose_leader(field: Field, view: ClusterView) -> Victim | None:
    """The leader of one partition of the topics in use; it lives, and so does somebody who could take over."""
    found = leaders(view, field.felled())
    return field.rng.choice(found) if found else None


def leaders(view: ClusterView, felled: Collection[int] = ()) -> list[Victim]:
    """All such leaders, one for each partition that has one; neither they nor who could take over are felled."""
    silent = {*view.silent, *felled}
    return [
        Victim(seen.leader, topic, partition, seen, tuple(sorted(heirs)))
        for (topic, partition), seen in view.partitions.items()
        if seen.leader not in silent | {NO_LEADER} and (heirs := set(seen.isr) - silent - {seen.leader})
    ]


def leaves_a_majority(field: Field, view: ClusterView, nodes: tuple[int, ...]) -> bool:
    """Whether more than half of all nodes answer beside these and the felled, as many as it takes to elect anybody."""
    left = set(view.answers) - set(nodes) - set(field.felled())
    return 2 * len(left) > len(field.cluster.nodes)


def _leader(field: Field, view: ClusterView) -> Chosen | None:
    victim = choose_leader(field, view)
    return Chosen((victim.node,), victim, "leader") if victim else None


def _follower(field: Field, view: ClusterView) -> Chosen | None:
    victim = choose_leader(field, view)
    return Chosen((field.rng.choice(victim.heirs),), victim, "follower") if victim else None


def _all_but_leader(field: Field, view: ClusterView) -> Chosen | None:
    victim = choose_leader(field, view)
    if victim is None:
        return None
    others = tuple(node.id for node in field.cluster.nodes if node.id != victim.node)
    return Chosen(others, victim, "all-but-leader")


def _one(role: str, find: Callable[[Field], int | None]) -> Callable[[Field, ClusterView], Chosen | None]:
    def found(field: Field, view: ClusterView) -> Chosen | None:
        node = find(field)
        return Chosen((node,), role=role) if node is not None and node in _able(field, view) else None

    return found


def _coordinator(field: Field, kind: int) -> int | None:
    busy = coordinators(field.cluster, kind)
    if not busy:
        return find_coordinator(field.cluster, kind, KEY)
    able = [node for node in busy if node not in field.felled()]
    return field.rng.choice(able) if able else None


def _random(field: Field, view: ClusterView) -> Chosen | None:
    able = _able(field, view)
    return Chosen((field.rng.choice(able),), role="random") if able else None


def _able(field: Field, view: ClusterView) -> list[int]:
    """Those that answer, and that no other fault has felled."""
    return sorted(set(view.answers) - set(field.felled()))


def _all(field: Field, view: ClusterView) -> Chosen | None:  # noqa: ARG001 - one signature for all roles
    return Chosen(tuple(node.id for node in field.cluster.nodes), role="all")


ROLES: dict[str, Callable[[Field, ClusterView], Chosen | None]] = {
    "leader": _leader,
    "follower": _follower,
    "all-but-leader": _all_but_leader,
    "controller": _one("controller", lambda field: quorum_leader(field.cluster)),
    "group-coordinator": _one("group-coordinator", lambda field: _coordinator(field, GROUP)),
    "transaction-coordinator": _one("transaction-coordinator", lambda field: _coordinator(field, TRANSACTION)),
    "random": _random,
    "all": _all,
}
NODE_ROLES = ("leader", "follower", "controller", "group-coordinator", "transaction-coordinator", "random")
