"""What a fault is: it takes aim, breaks one thing, proves that the cluster felt it, and takes it back.

A fault is made for one slot of the schedule and used by one thread, in this order:

    aim()      looks for a victim by its role and says what will be done; changes nothing. None: there is no victim yet.
    inject()   does it. An error may leave it half done, so `undo` is called after an error, too.
    proof()    asked again and again: None until the effect has been seen from outside, then the evidence.
    undo()     takes it back. May be called at any time after `inject` began, and again: done twice, it does no harm.

Victims are named by role and not by number (`ROLES`), and chosen with the slot's own random numbers.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.clusters.base import Capability, Cluster
from harness.errors import CannotHere
from harness.observe import NO_LEADER, ClusterView, PartitionView, observe


@dataclass(frozen=True)
class Field:
    """Where a fault happens, and with whom."""

    cluster: Cluster
    topics: Callable[[], Sequence[str]]  # those in use at this moment
    rng: random.Random
    target: str = "leader"
    clock: Callable[[], float] = time.monotonic

    def look(self) -> ClusterView:
        """What the nodes say now about the topics in use."""
        return self.look_at(sorted(self.topics()))

    def look_at(self, topics: Sequence[str]) -> ClusterView:
        """What the nodes say now about these topics."""
        return observe(self.cluster.nodes, topics, self.cluster.security)


@dataclass(frozen=True)
class Victim:
    """A node in its role, at the moment it was chosen."""

    node: int
    topic: str
    partition: int
    view: PartitionView
    heirs: tuple[int, ...] = ()  # other replicas that are alive and in sync

    @property
    def leader(self) -> int:
        """Who led the partition."""
        return self.view.leader

    @property
    def leader_epoch(self) -> int:
        """The epoch of that leader."""
        return self.view.leader_epoch

    @property
    def name(self) -> str:
        """The partition as logs name it."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Aim:
    """What a fault is about to do, and to whom."""

    sentence: str
    victim: Victim


@dataclass(frozen=True)
class Bite:
    """The evidence that a fault was felt."""

    sentence: str
    node: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int


class Fault(ABC):
    """One injection of one kind of fault."""

    name: ClassVar[str]
    description: ClassVar[str]
    needs: ClassVar[frozenset[Capability]]
    longest_s: ClassVar[float]  # from the injection on; whatever has not bitten by then is undone
    changes_leaders: ClassVar[bool]
    roles: ClassVar[tuple[str, ...]]  # what it can be aimed at

    def __init__(self, field: Field) -> None:
        self.field = field

    @abstractmethod
    def aim(self) -> Aim | None:
        """Choose the victim; None when there is none at the moment."""

    @abstractmethod
    def inject(self) -> None:
        """Break it."""

    @abstractmethod
    def proof(self) -> Bite | None:
        """The effect as seen from outside; None as long as there is none."""

    @abstractmethod
    def undo(self) -> None:
        """Take it back."""


def refuse_unless_possible(fault: type[Fault], cluster: Cluster) -> None:
    """An error for a fault that this cluster cannot have; the cluster need not be up."""
    if cluster.kind == "external":
        raise CannotHere(
            f"the fault '{fault.name}' is not possible: an external cluster is somebody else's and is never broken",
            "use --cluster local or --cluster docker, or leave --nemesis out",
        )
    missing = sorted(fault.needs - cluster.capabilities)
    if missing:
        raise CannotHere(
            f"the fault '{fault.name}' needs what this {cluster.kind} cluster cannot do ({', '.join(missing)})",
            "use --cluster docker, which can do everything, or --cluster local --netns (Linux, as root)",
        )


def choose_leader(field: Field, view: ClusterView) -> Victim | None:
    """The leader of one partition of the topics in use; it lives, and so does somebody who could take over."""
    silent = set(view.silent)
    found = [
        Victim(seen.leader, topic, partition, seen, tuple(sorted(heirs)))
        for (topic, partition), seen in view.partitions.items()
        if seen.leader not in silent | {NO_LEADER} and (heirs := set(seen.isr) - silent - {seen.leader})
    ]
    return field.rng.choice(found) if found else None


ROLES: dict[str, Callable[[Field, ClusterView], Victim | None]] = {"leader": choose_leader}
