"""Faults of leadership: the leader of a partition is moved away in good order, or killed.

Both have bitten when another node than the old leader names another leader, in a higher epoch, for the partition that
was aimed at.

Requests go to any node that answers, on a connection of our own: with KRaft every broker passes them on to the
controller. A client library would look for a controller first, and may find the node that was just killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

from harness.clusters.base import Capability, Cluster, NodeState, wait_until
from harness.errors import ClusterError
from harness.observe import NO_LEADER
from harness.wire import Connection, WireError
from nemesis.base import ROLES, Aim, Bite, Fault, Field, Victim

REASSIGN_VERSION = 0
ELECT_VERSION = 1
PREFERRED = 0
REQUEST_TIMEOUT_S = 5.0  # of one request to one node
ADMIN_TIMEOUT_S = 20.0  # of everything that is tried for one change
RETRY_EVERY_S = 0.2
PREFERRED_LEADER_NOT_AVAILABLE = 80
ELECTION_NOT_NEEDED = 84
DONE = 0, ELECTION_NOT_NEEDED

Call = Callable[[Connection], tuple[int, str | None]]  # makes one request; Kafka's error code and its text


class Leadership(Fault):
    """What the faults of this family share: the victim leads a partition, and the proof is its successor."""

    changes_leaders = True
    roles = ("leader",)
    longest_s = 120.0
    done = ""  # what was done, for the sentence of the proof

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._victim: Victim | None = None
        self._injected_at = 0.0

    @property
    def victim(self) -> Victim:
        """Whom `aim` chose."""
        if self._victim is None:
            raise ClusterError(f"{self.name} was injected without a victim", "call aim() first")
        return self._victim

    def successor(self) -> Bite | None:
        """The new leader, by the word of any node but the old one."""
        old = self.victim
        seen = self.field.look_at([old.topic]).without([old.node]).get((old.topic, old.partition))
        if seen is None or seen.leader in (NO_LEADER, old.node) or seen.leader_epoch <= old.view.leader_epoch:
            return None
        after_s = self.field.clock() - self._injected_at
        sentence = (
            f"leader of {old.name}: {old.node} → {seen.leader} (epoch {old.view.leader_epoch} → {seen.leader_epoch}) "
            f"{after_s:.1f} s after the {self.done}"
        )
        return Bite(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)


class LeaderMove(Leadership):
    """Another in-sync replica becomes the preferred one, and is elected."""

    name = "leader-move"
    description = "gives a partition another leader in good order (reassignment and preferred election)"
    needs = frozenset[Capability]()
    done = "move"

    def aim(self) -> Aim | None:
        """A partition, and the in-sync replica that will lead it."""
        self._victim = victim = ROLES[self.field.target](self.field, self.field.look())
        if victim is None:
            return None
        self._heir = self.field.rng.choice(victim.heirs)
        return Aim(f"leadership of {victim.name} moves from {victim.node} to {self._heir}", victim)

    def inject(self) -> None:
        """The same replicas in another order, which needs no copying, and an election of the first of them."""
        self._injected_at = self.field.clock()
        others = [replica for replica in self.victim.view.replicas if replica != self._heir]
        self._order((self._heir, *others), DONE)

    def proof(self) -> Bite | None:
        """Another leader in a higher epoch."""
        return self.successor()

    def undo(self) -> None:
        """The old order, and its first replica elected; while that one is out of sync, the heir goes on leading."""
        self._order(self.victim.view.replicas, {*DONE, PREFERRED_LEADER_NOT_AVAILABLE})

    def _order(self, replicas: tuple[int, ...], elected: Collection[int]) -> None:
        victim, cluster = self.victim, self.field.cluster
        until_done(cluster, f"reassigning {victim.name}", reassignment(victim, replicas), DONE)
        until_done(cluster, f"electing a leader of {victim.name}", election(victim), elected)


class LeaderKill(Leadership):
    """The node that leads a partition is killed, and started again at the end."""

    name = "leader-kill"
    description = "kills the leader of a partition (SIGKILL) and starts it again"
    needs = frozenset({Capability.KILL, Capability.RESTART})
    done = "kill"

    def aim(self) -> Aim | None:
        """A partition whose leader can be spared: without a majority left, nobody would elect another."""
        view = self.field.look()
        left = len(view.answers) - 1
        enough = 2 * left > len(self.field.cluster.nodes)
        self._victim = victim = ROLES[self.field.target](self.field, view) if enough else None
        return Aim(f"SIGKILL of node {victim.node}, leader of {victim.name}", victim) if victim else None

    def inject(self) -> None:
        """SIGKILL."""
        self._injected_at = self.field.clock()
        self.field.cluster.kill(self.victim.node)

    def proof(self) -> Bite | None:
        """The node is dead and another one leads."""
        if self.field.cluster.state(self.victim.node) is not NodeState.DEAD:
            return None
        return self.successor()

    def undo(self) -> None:
        """Start it on its old data."""
        if self.field.cluster.state(self.victim.node) is NodeState.DEAD:
            self.field.cluster.start_node(self.victim.node)


def until_done(cluster: Cluster, doing: str, call: Call, good: Collection[int]) -> None:
    """Ask node after node until one of them answers with a good code; a node that is down is passed over."""
    reasons: list[str] = []

    def done() -> bool:
        reasons.clear()
        for node in cluster.nodes:
            try:
                with Connection(node.address, REQUEST_TIMEOUT_S + 1) as connection:
                    code, text = call(connection)
            except WireError as error:
                reasons.append(str(error))
                continue
            if code in good:
                return True
            reasons.append(f"node {node.id} says {for_code(code).__name__}{f' ({text})' if text else ''}")
        return False

    try:
        wait_until(done, ADMIN_TIMEOUT_S, doing, RETRY_EVERY_S)
    except TimeoutError:
        raise ClusterError(
            f"{doing} was not done within {ADMIN_TIMEOUT_S:.0f} s ({'; '.join(reasons)})",
            "check that a majority of the nodes runs and that the replicas are in sync",
        ) from None


def reassignment(victim: Victim, replicas: tuple[int, ...]) -> Call:
    """The request for this order of replicas."""

    def call(connection: Connection) -> tuple[int, str | None]:
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition = topic.ReassignablePartition(partition_index=victim.partition, replicas=list(replicas))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000), topics=[topic(name=victim.topic, partitions=[partition])]
        )
        answer = connection.ask(request, AlterPartitionReassignmentsResponse, REASSIGN_VERSION)
        if answer.error_code:
            return answer.error_code, answer.error_message
        (result,) = answer.responses[0].partitions
        return result.error_code, result.error_message

    return call


def election(victim: Victim) -> Call:
    """The request to make the first replica the leader."""

    def call(connection: Connection) -> tuple[int, str | None]:
        topic = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[topic(topic=victim.topic, partitions=[victim.partition])],
            timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
        )
        answer = connection.ask(request, ElectLeadersResponse, ELECT_VERSION)
        if answer.error_code:
            return answer.error_code, None
        (result,) = answer.replica_election_results[0].partition_result
        return result.error_code, result.error_message

    return call
