"""Faults of leadership: leaders are moved away in good order, or killed; of partitions, and of the controllers.

Most have bitten when another node than the old leader names another leader, in a higher epoch, for the partition that
was aimed at.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from harness.clusters.admin_calls import ALTER_CONFIGS, DESCRIBE_CONFIGS, ELECT_LEADERS, REASSIGN
from harness.clusters.cluster_view import NO_LEADER, TopicPartition
from harness.clusters.node import Capability, NodeState
from harness.foundation.protocol import ErrorCode
from nemesis.admin.asking import try_once, until_done
from nemesis.admin.replicas import DONE, UNCLEAN, election, eligible_leaders, is_reassigning
from nemesis.admin.topics import setting, setting_by_node, settings_of
from nemesis.base import Aim, Fault, FaultContext, FaultEvidence, LeaderFault, RepeatingFault, Victim
from nemesis.iptables import Chains, PacketRule, addresses
from nemesis.node_states import CAN_KILL, bring_to_state, not_running, start
from nemesis.process import Kill
from nemesis.replica_order import MAYBE_LATER, Orders, out_of_order, put_back_in_order, put_first, put_in_order
from nemesis.roles import choose_leader, leaders, leaves_a_majority

UNCLEAN_SETTING = "unclean.leader.election.enable"
HOW = {  # somebody was elected, by whether that was unclean
    True: "may have missed messages: an unclean election",
    False: "was cleanly elected all the same: it was eligible and missed nothing",
}


class Leadership(LeaderFault):
    """What the faults of this family share: the victim leads a partition, and the proof is its successor."""

    changes_leaders = True
    roles = ("leader",)
    done = ""  # what was done, for the sentence of the proof

    def successor(self) -> FaultEvidence | None:
        """The new leader, by the word of any node but the old one."""
        old = self.victim
        seen = self.context.look_at([old.topic]).without([old.node]).get(old.key)
        if seen is None or seen.leader in (NO_LEADER, old.node) or seen.leader_epoch <= old.view.leader_epoch:
            return None
        after_s = self.context.clock() - self._injected_at
        sentence = (
            f"leader of {old.name}: {old.node} → {seen.leader} (epoch {old.view.leader_epoch} → {seen.leader_epoch}) "
            f"{after_s:.1f} s after the {self.done}"
        )
        return FaultEvidence(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)


class LeaderMove(Leadership):
    """Another in-sync replica becomes the preferred one, and is elected."""

    name = "leader-move"
    description = "gives a partition another leader in good order (reassignment and preferred election)"
    needs = frozenset({Capability.ADMIN})
    calls = frozenset({REASSIGN, ELECT_LEADERS})
    done = "move"

    def aim(self) -> Aim | None:
        """A partition, and the in-sync replica that will lead it."""
        self._victim = victim = choose_leader(self.context, self.context.look())
        if victim is None:
            return None
        self._heir = self.context.rng.choice(victim.heirs)
        return Aim(f"leadership of {victim.name} moves from {victim.node} to {self._heir}", victim)

    def inject(self) -> None:
        """The heir first."""
        self._injected_at = self.context.clock()
        put_in_order(self.context, {self.victim.key: put_first(self._heir, self.victim.view.replicas)}, DONE)

    def proof(self) -> FaultEvidence | None:
        """Another leader in a higher epoch."""
        return self.successor()

    def undo(self) -> None:
        """The old order."""
        put_back_in_order(self.context, {self.victim.key: self.victim.view.replicas})

    def healed(self) -> str:
        """The order is the old one."""
        return out_of_order(self.context, {self.victim.key: self.victim.view.replicas})


class PreferredElection(Fault):
    """Every partition of the topics in use gets another preferred replica, and one election moves all leaders."""

    name = "preferred-election"
    description = "moves the leaders of all partitions at once (reassignment and one preferred election)"
    needs = frozenset({Capability.ADMIN})
    calls = frozenset({REASSIGN, ELECT_LEADERS})
    roles = ("all",)
    changes_leaders = True

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._victims: dict[TopicPartition, Victim] = {}
        self._heirs: dict[TopicPartition, int] = {}
        self._injected_at = 0.0

    def aim(self) -> Aim | None:
        """All partitions that somebody else could lead."""
        self._victims = {victim.key: victim for victim in leaders(self.context.look(), self.context.out_of_service())}
        self._heirs = {key: self.context.rng.choice(victim.heirs) for key, victim in self._victims.items()}
        if not self._victims:
            return None
        return Aim(f"the leaders of {len(self._victims)} partitions move to other replicas, all at once")

    def inject(self) -> None:
        """Another first replica everywhere, and one election."""
        self._injected_at = self.context.clock()
        orders = {key: put_first(self._heirs[key], victim.view.replicas) for key, victim in self._victims.items()}
        put_in_order(self.context, orders, MAYBE_LATER)

    def proof(self) -> FaultEvidence | None:
        """Most of them have another leader in a higher epoch."""
        seen = self.context.look_again(self._victims).partitions
        moved = [
            (key, now)
            for key, was in self._victims.items()
            if (now := seen.get(key))
            and now.leader not in (NO_LEADER, was.leader)
            and now.leader_epoch > was.leader_epoch
        ]
        if 2 * len(moved) <= len(self._victims):
            return None
        after_s = self.context.clock() - self._injected_at
        (topic, partition), now = moved[0]
        was = self._victims[topic, partition]
        sentence = (
            f"{len(moved)} of {len(self._victims)} partitions have a new leader, such as {was.name}: {was.leader} → "
            f"{now.leader} (epoch {was.leader_epoch} → {now.leader_epoch}), {after_s:.1f} s after the election"
        )
        return FaultEvidence(sentence, was.node, topic, partition, now.leader, now.leader_epoch)

    def undo(self) -> None:
        """The old orders, and one election again."""
        put_back_in_order(self.context, self._old)

    def healed(self) -> str:
        """The orders are the old ones."""
        return out_of_order(self.context, self._old)

    @property
    def _old(self) -> Orders:
        return {key: victim.view.replicas for key, victim in self._victims.items()}


class LeaderChurn(Leadership, RepeatingFault):
    """Leadership of one partition goes round its in-sync replicas."""

    name = "leader-churn"
    description = "moves leadership of a partition from replica to replica, again and again"
    needs = frozenset({Capability.ADMIN})
    calls = frozenset({REASSIGN, ELECT_LEADERS})
    options = {"period": 0.5}

    @property
    def period_s(self) -> float:
        """As told."""
        return float(self.context.options["period"])

    def aim(self) -> Aim | None:
        """A partition that somebody else could lead."""
        self._victim = victim = choose_leader(self.context, self.context.look())
        if victim is None:
            return None
        return Aim(f"leadership of {victim.name} moves on from {victim.node} every {self.period_s:g} s", victim)

    def inject(self) -> None:
        """The first move."""
        self._injected_at = self.context.clock()
        super().inject()

    def step(self) -> None:
        """On to the next that lives and is in sync, by number; nothing when there is none at the moment."""
        view = self.context.look_at([self.victim.topic])
        seen = view.partitions.get(self.victim.key)
        if seen is None or seen.leader == NO_LEADER:
            return
        heirs = set(seen.isr) - set(view.silent) - {seen.leader, *self.context.out_of_service()}
        if heirs and not is_reassigning(self.context.cluster, *self.victim.key):
            heir = min(heirs, key=lambda replica: (replica < seen.leader, replica))
            put_in_order(self.context, {self.victim.key: put_first(heir, seen.replicas)}, MAYBE_LATER)

    def proof(self) -> FaultEvidence | None:
        """The epoch rose by two or more."""
        self.fail_if_a_step_failed()
        old = self.victim
        seen = self.context.look_at([old.topic]).partitions.get(old.key)
        if seen is None or seen.leader_epoch < old.leader_epoch + 2:
            return None
        after_s = self.context.clock() - self._injected_at
        sentence = (
            f"leader of {old.name} moved again: {old.node} → … → {seen.leader} (epoch {old.leader_epoch} → "
            f"{seen.leader_epoch}) {after_s:.1f} s after the first move"
        )
        return FaultEvidence(sentence, old.node, old.topic, old.partition, seen.leader, seen.leader_epoch)

    def rest(self) -> None:
        """The old order."""
        put_back_in_order(self.context, {self.victim.key: self.victim.view.replicas})

    def healed(self) -> str:
        """The order is the old one."""
        return out_of_order(self.context, {self.victim.key: self.victim.view.replicas})


class DisablesLeader(Leadership):
    """The leader is put out of service, and so has to be one that can be spared."""

    @property
    def out_of_service(self) -> frozenset[int]:
        """The victim."""
        return frozenset({self._victim.node} if self._victim else ())

    def choose(self) -> Victim | None:
        """A leader without which there is a majority: else nobody would elect another."""
        view = self.context.look()
        victim = choose_leader(self.context, view)
        if victim is not None and leaves_a_majority(self.context, view, (victim.node,)):
            self._victim = victim
            return victim
        return None


class LeaderKill(DisablesLeader):
    """The node that leads a partition is killed, and started again at the end."""

    name = "leader-kill"
    description = "kills the leader of a partition (SIGKILL) and starts it again"
    needs = CAN_KILL
    done = "kill"

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._hit: list[int] = []  # by us: a node that is dead already is left to whoever killed it

    def aim(self) -> Aim | None:
        """A partition, and its leader."""
        victim = self.choose()
        if victim is None:
            return None
        return Aim(f"SIGKILL of node {victim.node}, leader of {victim.name}", victim)

    def inject(self) -> None:
        """SIGKILL."""
        self._injected_at = self.context.clock()
        node, cluster = self.victim.node, self.context.cluster
        if cluster.state(node) is not NodeState.DEAD:
            self._hit.append(node)
            bring_to_state(node, cluster, cluster.kill, (NodeState.DEAD,))

    def proof(self) -> FaultEvidence | None:
        """The node is dead by our hand, and another one leads."""
        if not self._hit or self.context.cluster.state(self.victim.node) is not NodeState.DEAD:
            return None
        return self.successor()

    def undo(self) -> None:
        """Start it on its old data."""
        start(self._hit, self.context.cluster)

    def healed(self) -> str:
        """It runs."""
        return not_running(self._hit, self.context.cluster)


class ControllerKill(Kill):
    """The node that leads the quorum of controllers is killed, and started again at the end."""

    name = "controller-kill"
    description = "kills the leader of the quorum of controllers (SIGKILL) and starts it again"
    roles = ("controller",)


class UncleanElection(DisablesLeader):
    """A leader that nobody could keep up with is killed, and a replica that lags may take its place.

    What takes long is done by `proof`, step by step: the leader is killed when it is the only one in sync.
    """

    name = "unclean-election"
    description = "kills a leader that is the only one in sync, and lets a replica that lags become leader"
    needs = frozenset({Capability.ADMIN, Capability.PARTITION, *CAN_KILL})
    calls = frozenset({DESCRIBE_CONFIGS, ALTER_CONFIGS, ELECT_LEADERS})
    ports = ("broker",)
    blocks = True
    unclean = True
    tame = False
    done = "kill"

    def __init__(self, context: FaultContext) -> None:
        super().__init__(context)
        self._chains = Chains(context)
        self._old: tuple[str | None] | None = None  # the topic's own value of the setting, once it is known
        self._killed = False
        self._isr: tuple[int, ...] = ()  # when it was killed
        self._eligible: tuple[int, ...] | None = None  # at the same moment

    def aim(self) -> Aim | None:
        """A partition, and its leader."""
        victim = self.choose()
        if victim is None:
            return None
        return Aim(f"node {victim.node}, leader of {victim.name}, loses its followers and is killed", victim)

    def inject(self) -> None:
        """Allow it, and cut replication off."""
        cluster, victim = self.context.cluster, self.victim
        before = settings_of(cluster, victim.topic).get(UNCLEAN_SETTING)
        self._old = (before.value if before and before.own else None,)
        call = setting(victim.topic, UNCLEAN_SETTING, "true")
        until_done(cluster, f"allowing unclean elections in {victim.topic}", call, {ErrorCode.NONE})
        port = cluster.inner_port(victim.node, "broker")
        peers = addresses(self.context, (node.id for node in cluster.nodes if node.id != victim.node))
        self._chains.put([PacketRule(victim.node, "in", f"-p tcp -s {peer} --dport {port}") for peer in peers.values()])

    def proof(self) -> FaultEvidence | None:
        """A new leader that was not in sync when the old one was killed; whether it was eligible is in the sentence."""
        if not self._killed:
            self._kill_if_alone()
            return None
        bite = self.successor()
        if bite is None or bite.leader is None:
            self._elect_if_nobody_leads()
            return None
        alone = ", ".join(map(str, self._isr))
        unclean = bite.leader not in (self._eligible or ())
        how = f"{bite.leader} {HOW[unclean]}"
        return replace(bite, sentence=f"{bite.sentence}; only {alone} was in sync then, and {how}", unclean=unclean)

    def undo(self) -> None:
        """All three things, whatever becomes of each."""
        with ExitStack() as stack:
            stack.callback(self._forbid)
            if self._killed:
                stack.callback(start, [self.victim.node], self.context.cluster)
            stack.callback(self._chains.remove)

    def healed(self) -> str:
        """The node runs, its network is open and the topic has its old setting."""
        left = [self._chains.left()]
        if self._killed:
            left.append(not_running([self.victim.node], self.context.cluster))
        if self._old is not None:
            told = setting_by_node(self.context.cluster, self.victim.topic, UNCLEAN_SETTING)
            wrong = [node for node, now in told.items() if (now.value if now.own else None) != self._old[0]]
            left += [f"node {node} still has {UNCLEAN_SETTING} changed" for node in wrong]
        return "; ".join(filter(None, left))

    def _kill_if_alone(self) -> None:
        victim, cluster = self.victim, self.context.cluster
        seen = self.context.look_at([victim.topic]).partitions.get(victim.key)
        if seen is None or seen.leader != victim.node or set(seen.isr) != {victim.node}:
            return
        self._isr = seen.isr
        self._eligible = eligible_leaders(cluster, victim.topic, victim.partition)
        self._killed = True
        self._injected_at = self.context.clock()
        bring_to_state(victim.node, cluster, cluster.kill, (NodeState.DEAD,))
        self._chains.remove()

    def _elect_if_nobody_leads(self) -> None:
        """Kafka does it by itself as a rule, as soon as it takes the old leader for dead."""
        seen = self.context.look_at([self.victim.topic]).partitions.get(self.victim.key)
        if seen is None or seen.leader != NO_LEADER:
            return
        for node in self.context.cluster.nodes:
            if node.id != self.victim.node and not try_once(node, election([self.victim.key], UNCLEAN), DONE):
                return

    def _forbid(self) -> None:
        if self._old is not None:
            call = setting(self.victim.topic, UNCLEAN_SETTING, self._old[0])
            until_done(
                self.context.cluster, f"taking back {UNCLEAN_SETTING} of {self.victim.topic}", call, {ErrorCode.NONE}
            )


FAULTS: tuple[type[Fault], ...] = (
    LeaderMove,
    PreferredElection,
    LeaderChurn,
    LeaderKill,
    ControllerKill,
    UncleanElection,
)
