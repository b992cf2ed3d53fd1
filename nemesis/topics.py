"""Faults of topics: their partitions, replicas and settings change while they are in use.

All of it is asked of the cluster and lies in its metadata: it goes with the cluster and leaves nothing on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.clusters.admin_calls import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    REASSIGN,
)
from harness.clusters.cluster_view import NO_LEADER, PartitionView
from harness.clusters.node import Capability
from harness.clusters.waiting import wait_until
from harness.foundation.errors import ClusterError
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import ADMIN_TIMEOUT_S, RETRY_EVERY_S, until_done
from nemesis.admin.replicas import DONE, is_reassigning, reassignment
from nemesis.admin.topics import creation, deletion, more_partitions, setting, setting_by_node, settings_of, topic_ids
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence, LeaderFault
from nemesis.roles import choose_leader

MIN_ISR = "min.insync.replicas"


class OnATopic(Fault):
    """What happens to one of the topics in use."""

    needs = frozenset({Capability.ADMIN})
    roles: ClassVar[tuple[str, ...]] = ("all",)

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self.topic = ""
        self.partitions: dict[int, PartitionView] = {}  # of the topic, when it was chosen
        self._injected_at = 0.0

    def choose_topic(self) -> bool:
        """One of those that have a leader for each partition."""
        view = self.context.look().partitions
        topics = sorted({topic for topic, _ in view})
        headless = {topic for (topic, _), seen in view.items() if seen.leader == NO_LEADER}
        able = [topic for topic in topics if topic not in headless]
        if not able:
            return False
        self.topic = self.context.rng.choice(able)
        self.partitions = {partition: seen for (topic, partition), seen in view.items() if topic == self.topic}
        return True

    def listed_by(self, count: int) -> int:
        """How many nodes list that many partitions of the topic, each with a leader; 0 if one that answers does not."""
        answers = self.context.look_at([self.topic]).answers
        for views in answers.values():
            led = [key for key, seen in views.items() if seen.leader != NO_LEADER]
            if len(led) != count:
                return 0
        return len(answers)

    @property
    def after(self) -> str:
        """Since the injection, for sentences."""
        return f"after {self.context.clock() - self._injected_at:.1f} s"


class AddPartitions(OnATopic):
    """A topic gets more partitions, and keeps them."""

    name = "add-partitions"
    calls = frozenset({CREATE_PARTITIONS})
    description = "adds one partition to a topic, or `count`; this cannot be undone"
    options: ClassVar[Mapping[str, int | None]] = {"to": None}
    tame = False

    def aim(self) -> Aim | None:
        """A topic that does not have that many."""
        if not self.choose_topic() or self.count <= len(self.partitions):
            return None
        return Aim(f"{self.topic} gets {self.count} partitions instead of {len(self.partitions)}", topic=self.topic)

    @property
    def count(self) -> int:
        """How many there will be."""
        return int(self.context.options.get("to") or len(self.partitions) + 1)

    def inject(self) -> None:
        """Ask for them; whoever asks a second time because the first answer was lost is told that they exist."""
        self._injected_at = self.context.clock()
        doing = f"giving {self.topic} {self.count} partitions"
        until_done(
            self.context.cluster,
            doing,
            more_partitions(self.topic, self.count),
            {ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS},
        )

    def proof(self) -> FaultEvidence | None:
        """Every node that answers lists them, with leaders."""
        nodes = self.listed_by(self.count)
        if not nodes:
            return None
        sentence = f"{nodes} nodes list {self.count} partitions of {self.topic} with leaders, {self.after}"
        return FaultEvidence(sentence, topic=self.topic, partition=self.count - 1)

    def undo(self) -> None:
        """Partitions stay."""


class ShrinkReplicas(LeaderFault):
    """A partition is left with fewer replicas for a while."""

    name = "shrink-replicas"
    description = "takes the followers away from a partition (reassignment) and gives them back"
    needs = frozenset({Capability.ADMIN})
    calls = frozenset({REASSIGN})
    roles = ("leader",)
    options: ClassVar[Mapping[str, int]] = {"to": 1}
    blocks = True  # fewer replicas than have to be in sync

    @property
    def kept(self) -> tuple[int, ...]:
        """The leader, and as many others as told."""
        others = [replica for replica in self.victim.view.replicas if replica != self.victim.leader]
        return (self.victim.leader, *others)[: int(self.context.options["to"])]

    def aim(self) -> Aim | None:
        """A partition with more replicas than that."""
        victim = choose_leader(self.context, self.context.look())
        if victim is None or len(victim.view.replicas) <= int(self.context.options["to"]):
            return None
        self._victim = victim
        return Aim(f"{victim.name} keeps {len(self.kept)} of {len(victim.view.replicas)} replicas", victim)

    def inject(self) -> None:
        """Reassign it to those that are kept."""
        self._injected_at = self.context.clock()
        self._reassign(self.kept)

    def proof(self) -> FaultEvidence | None:
        """No others are replicas or in sync."""
        old, kept = self.victim, self.kept
        seen = self.context.look_at([old.topic]).partitions.get(old.key)
        if seen is None or set(seen.replicas) != set(kept) or not set(seen.isr) <= set(kept):
            return None
        names = ", ".join(map(str, kept))
        after_s = self.context.clock() - self._injected_at
        sentence = (
            f"{old.name} has {len(seen.replicas)} of its {len(old.view.replicas)} replicas, and {len(seen.isr)} "
            f"in sync ({names}), {after_s:.1f} s after the reassignment"
        )
        return FaultEvidence(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)

    def undo(self) -> None:
        """Reassign it to all of them, in the old order."""
        self._reassign(self.victim.view.replicas)

    def healed(self) -> str:
        """The replicas are the old ones and nothing is being copied, unless one is down and has to wait for that."""
        old = self.victim
        view = self.context.look_at([old.topic])
        seen = view.partitions.get(old.key)
        if seen is None or seen.replicas != old.view.replicas:
            return f"{old.name} does not have its {len(old.view.replicas)} replicas yet"
        if set(seen.replicas) & set(view.silent):
            return ""
        if is_reassigning(self.context.cluster, old.topic, old.partition) is not False:
            return f"{old.name} is still being reassigned"
        return ""

    def _reassign(self, replicas: tuple[int, ...]) -> None:
        call = reassignment({self.victim.key: replicas})
        until_done(self.context.cluster, f"reassigning {self.victim.name}", call, DONE)


class RecreateTopic(OnATopic):
    """A topic is deleted, with all that is in it, and created again."""

    name = "recreate-topic"
    calls = frozenset({CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS})
    description = "deletes a topic and creates it again with the same partitions and settings, but empty"
    changes_leaders = True
    blocks = True
    deletes = True
    tame = False

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._settings: dict[str, str] | None = None  # its own, from the moment on that it may be deleted
        self._old_ids: set[str | None] = set()

    def aim(self) -> Aim | None:
        """A topic."""
        if not self.choose_topic():
            return None
        return Aim(
            f"{self.topic} with {len(self.partitions)} partitions is deleted and created again", topic=self.topic
        )

    def inject(self) -> None:
        """Delete it, wait until all nodes have forgotten it, and create it."""
        self._injected_at = self.context.clock()
        cluster, topic = self.context.cluster, self.topic
        found = settings_of(cluster, topic)
        self._old_ids = set(topic_ids(cluster, topic).values())
        self._settings = {name: each.value for name, each in found.items() if each.own}
        until_done(
            cluster, f"deleting {topic}", deletion(topic), {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        )
        try:
            wait_until(self._forgotten, ADMIN_TIMEOUT_S, f"{topic} is still known", RETRY_EVERY_S)
        except TimeoutError:
            raise ClusterError(
                f"{topic} was deleted, and {ADMIN_TIMEOUT_S:.0f} s later nodes still knew it",
                "see the logs of the nodes",
            ) from None
        self._create()

    def proof(self) -> FaultEvidence | None:
        """Every node that answers knows it by another id, and leaders of all partitions."""
        ids = topic_ids(self.context.cluster, self.topic)
        new = set(ids.values())
        if len(new) != 1 or None in new or new & self._old_ids or not self.listed_by(len(self.partitions)):
            return None
        sentence = f"{len(ids)} nodes know {self.topic} by another id ({', '.join(map(str, new))}), {self.after}"
        return FaultEvidence(sentence, topic=self.topic)

    def undo(self) -> None:
        """Create it, should that not have been done."""
        self._create()

    def healed(self) -> str:
        """All nodes that answer know it."""
        ids = topic_ids(self.context.cluster, self.topic)
        return "" if ids and None not in ids.values() else f"not every node knows {self.topic}"

    def _forgotten(self) -> bool:
        ids = topic_ids(self.context.cluster, self.topic)
        return bool(ids) and set(ids.values()) == {None}

    def _create(self) -> None:
        if self._settings is None:
            return
        replicas = {partition: seen.replicas for partition, seen in self.partitions.items()}
        call = creation(self.topic, replicas, self._settings)
        until_done(
            self.context.cluster, f"creating {self.topic}", call, {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
        )


class MinIsr(OnATopic):
    """More replicas have to be in sync before a write is acknowledged, for a while."""

    name = "min-isr"
    calls = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS})
    description = "changes min.insync.replicas of a topic, and changes it back"
    options: ClassVar[Mapping[str, int]] = {"to": 3}
    blocks = True  # fewer replicas than that may be in sync, or be there at all

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._old: tuple[str | None] | None = None  # the topic's own value, once it is known

    def aim(self) -> Aim | None:
        """A topic of which no node says that it has this value already."""
        if not self.choose_topic():
            return None
        told = setting_by_node(self.context.cluster, self.topic, MIN_ISR)
        if not told or any(each.value == self.to for each in told.values()):
            return None
        return Aim(f"{MIN_ISR} of {self.topic} becomes {self.to}", topic=self.topic)

    @property
    def to(self) -> str:
        """The new value."""
        return str(self.context.options["to"])

    def inject(self) -> None:
        """Remember the old value, and set the new one."""
        self._injected_at = self.context.clock()
        before = settings_of(self.context.cluster, self.topic).get(MIN_ISR)
        self._old = (before.value if before and before.own else None,)
        self._set(self.to)

    def proof(self) -> FaultEvidence | None:
        """Every node that answers says so."""
        told = setting_by_node(self.context.cluster, self.topic, MIN_ISR)
        if not told or any(each.value != self.to for each in told.values()):
            return None
        sentence = f"{len(told)} nodes say that {MIN_ISR} of {self.topic} is {self.to}, {self.after}"
        return FaultEvidence(sentence, topic=self.topic)

    def undo(self) -> None:
        """The old value, or none of its own."""
        if self._old is not None:
            self._set(self._old[0])

    def healed(self) -> str:
        """No node that answers says anything else."""
        if self._old is None:
            return ""
        told = setting_by_node(self.context.cluster, self.topic, MIN_ISR)
        wrong = [node for node, each in told.items() if (each.value if each.own else None) != self._old[0]]
        return "; ".join(f"{MIN_ISR} of {self.topic} is not back on node {node}" for node in wrong)

    def _set(self, value: str | None) -> None:
        doing = f"changing {MIN_ISR} of {self.topic}"
        until_done(self.context.cluster, doing, setting(self.topic, MIN_ISR, value), {ErrorCode.NONE})


FAULTS: tuple[type[Fault], ...] = (AddPartitions, ShrinkReplicas, RecreateTopic, MinIsr)
