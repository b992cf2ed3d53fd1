"""Faults of leadership, on a cluster that exists on paper only."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsResponse, ElectLeadersResponse

from harness.clusters import base as clusters
from harness.clusters.base import LOG_TAIL_LINES, Capability, Cluster, Node, NodeState
from harness.clusters.external import ExternalCluster
from harness.clusters.local import LocalCluster
from harness.clusters.target import ReadyCheck, load_target
from harness.config import parse
from harness.errors import CannotHere, ClusterError, Exit, UsageError
from harness.observe import ClusterView, PartitionView
from harness.security import Security
from harness.wire import WireError
from nemesis import FAULTS, base, check_plans, fault_named, faults_on, leadership
from nemesis.base import Fault, Field, refuse_unless_possible
from nemesis.leadership import LeaderKill, LeaderMove
from nemesis.schedule import Plan, Slot

CAPABLE = frozenset({Capability.KILL, Capability.RESTART})


class Paper(Cluster):
    """Three nodes; who leads is what the test says."""

    kind = "paper"

    def __init__(self, *able: Capability) -> None:
        super().__init__("product", "1.0", ReadyCheck("kafka", 5))
        self.nodes = tuple(Node(n, f"h:{n}") for n in (1, 2, 3))
        self.able = frozenset(able)
        self.dead: set[int] = set()
        self.views: dict[tuple[str, int], PartitionView] = {}
        self.told: dict[int, dict[tuple[str, int], PartitionView]] = {}  # what single nodes say instead

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those it was made with."""
        return self.able

    def _bring_up(self) -> None:
        raise NotImplementedError

    def stop_node(self, node_id: int) -> None:
        """Not used."""

    def kill(self, node_id: int) -> None:
        """Dead."""
        self.dead.add(node_id)

    def pause(self, node_id: int) -> None:
        """Not used."""

    def resume(self, node_id: int) -> None:
        """Not used."""

    def start_node(self, node_id: int) -> None:
        """Alive again."""
        self.dead.remove(node_id)

    def state(self, node_id: int) -> NodeState:
        """Dead or running."""
        return NodeState.DEAD if node_id in self.dead else NodeState.RUNNING

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """Nothing."""
        return []

    def look(self, nodes: Any, topics: Any, security: Any) -> ClusterView:
        """What `observe` would find."""
        alive = [node.id for node in self.nodes if node.id not in self.dead]
        seen = {node: {**self.views, **self.told.get(node, {})} for node in alive}
        mine = {node: {tp: view for tp, view in views.items() if tp[0] in topics} for node, views in seen.items()}
        return ClusterView(tuple(topics), mine, dict.fromkeys(self.dead, "refused"))


class Answers:
    """Nodes that answer admin requests: `refusing` do not, `codes` are their errors before they agree."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.codes: list[int] = []
        self.top_codes: list[int] = []
        self.asked: list[tuple[str, str, Any]] = []

    def connect(self, address: str, timeout_s: float) -> Connected:
        """To one node."""
        if address in self.refusing:
            raise WireError(f"{address} refuses connections")
        return Connected(self, address)


class Connected:
    """A connection to one of them."""

    def __init__(self, answers: Answers, address: str) -> None:
        self.answers, self.address = answers, address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, response_class: Any, version: int) -> Any:
        """The next answer in the queue, or that it is done."""
        top = self.answers.top_codes.pop(0) if self.answers.top_codes else 0
        code = self.answers.codes.pop(0) if self.answers.codes and not top else 0
        if response_class is AlterPartitionReassignmentsResponse:
            topic = request.topics[0]
            self.answers.asked.append((self.address, topic.name, tuple(topic.partitions[0].replicas)))
            part = SimpleNamespace(error_code=code, error_message="because" if code else None)
            return SimpleNamespace(error_code=top, error_message="no", responses=[SimpleNamespace(partitions=[part])])
        assert response_class is ElectLeadersResponse
        topic = request.topic_partitions[0]
        self.answers.asked.append((self.address, topic.topic, "elect"))
        part = SimpleNamespace(error_code=code, error_message=None)
        result = SimpleNamespace(partition_result=[part])
        return SimpleNamespace(error_code=top, replica_election_results=[result])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    made = Paper(*CAPABLE)
    made.views[("t", 0)] = PartitionView(1, 4, (1, 2, 3), (1, 2, 3))
    monkeypatch.setattr(base, "observe", made.look)
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes, and time that passes only by sleeping."""
    made, naps = Answers(), list[float]()
    monkeypatch.setattr(leadership, "Connection", made.connect)
    monkeypatch.setattr(clusters, "time", SimpleNamespace(monotonic=lambda: sum(naps), sleep=naps.append))
    return made


def on(cluster: Cluster, *topics: str, seed: int = 0) -> Field:
    """A field with these topics in use."""
    return Field(cluster, lambda: topics or ("t",), random.Random(seed), clock=lambda: 100.0)


def test_a_kill_is_proven_by_a_new_leader(cluster: Paper) -> None:
    """Not before another node names another leader in a higher epoch."""
    fault = LeaderKill(on(cluster))
    aim = fault.aim()
    assert aim is not None
    assert aim.sentence == "SIGKILL of node 1, leader of t-0"
    assert (aim.victim.node, aim.victim.leader_epoch) == (1, 4)
    fault.inject()
    assert cluster.dead == {1}
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(-1, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(3, 5, (1, 2, 3), (2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == "leader of t-0: 1 → 3 (epoch 4 → 5) 0.0 s after the kill"
    assert (bite.node, bite.topic, bite.partition, bite.leader, bite.leader_epoch) == (1, "t", 0, 3, 5)


def test_a_kill_is_undone_by_a_start(cluster: Paper) -> None:
    """Once: a node that runs is left alone."""
    fault = LeaderKill(on(cluster))
    fault.aim()
    fault.inject()
    fault.undo()
    assert not cluster.dead
    fault.undo()


def test_a_kill_of_a_node_that_lives_is_no_bite(cluster: Paper) -> None:
    """A leader that moved for another reason proves nothing about the kill."""
    fault = LeaderKill(on(cluster))
    fault.aim()
    fault.inject()
    cluster.start_node(1)
    cluster.views[("t", 0)] = PartitionView(3, 5, (1, 2, 3), (2, 3))
    assert fault.proof() is None


def test_the_last_majority_is_spared(cluster: Paper) -> None:
    """With one node down already, nobody could elect another leader."""
    cluster.kill(3)
    assert LeaderKill(on(cluster)).aim() is None
    assert LeaderMove(on(cluster)).aim() is not None


@pytest.mark.parametrize("fault", FAULTS.values())
@pytest.mark.parametrize(
    "view",
    [
        PartitionView(-1, 4, (1, 2, 3), (1, 2)),
        PartitionView(1, 4, (1, 2, 3), (1,)),
        PartitionView(1, 4, (1,), (1,)),
    ],
    ids=["no leader", "nobody else in sync", "one replica"],
)
def test_a_leader_without_an_heir_is_no_victim(cluster: Paper, fault: type[Fault], view: PartitionView) -> None:
    """Another leader could not be proven."""
    cluster.views[("t", 0)] = view
    assert fault(on(cluster)).aim() is None


@pytest.mark.parametrize("fault", FAULTS.values())
def test_only_topics_in_use_are_aimed_at(cluster: Paper, fault: type[Fault]) -> None:
    """Other topics of the cluster are nobody's business."""
    assert fault(on(cluster, "another")).aim() is None


def test_the_seed_decides_whom(cluster: Paper) -> None:
    """The same one chooses the same victim; different ones do not all choose the same."""
    for partition in range(9):
        cluster.views[("t", partition)] = PartitionView(1 + partition % 3, 4, (1, 2, 3), (1, 2, 3))
    chosen = [[LeaderKill(on(cluster, seed=seed)).aim() for seed in range(20)] for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert len({aim.victim.partition for aim in chosen[0] if aim}) > 3


def test_a_move_reorders_the_replicas_and_elects_the_first(cluster: Paper, answers: Answers) -> None:
    """The replicas stay the same, so nothing has to be copied."""
    fault = LeaderMove(on(cluster))
    aim = fault.aim()
    assert aim is not None
    heir = int(aim.sentence[-1])
    assert heir in (2, 3)
    assert aim.sentence == f"leadership of t-0 moves from 1 to {heir}"
    fault.inject()
    rest = tuple(node for node in (1, 2, 3) if node != heir)
    assert answers.asked == [("h:1", "t", (heir, *rest)), ("h:1", "t", "elect")]
    assert fault.proof() is None
    cluster.views[("t", 0)] = PartitionView(heir, 5, (heir, *rest), (1, 2, 3))
    bite = fault.proof()
    assert bite is not None
    assert bite.sentence == f"leader of t-0: 1 → {heir} (epoch 4 → 5) 0.0 s after the move"


def test_a_move_is_undone_by_the_old_order(cluster: Paper, answers: Answers) -> None:
    """And an election of its first replica; a second time does no harm."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    fault.undo()
    assert answers.asked == [("h:1", "t", (1, 2, 3)), ("h:1", "t", "elect")] * 2


def test_the_old_leader_alone_proves_nothing(cluster: Paper, answers: Answers) -> None:
    """Others have to say so."""
    fault = LeaderMove(on(cluster))
    fault.aim()
    cluster.told[1] = {("t", 0): PartitionView(2, 5, (2, 1, 3), (1, 2, 3))}
    assert fault.proof() is None
    cluster.told[3] = cluster.told[1]
    assert fault.proof() is not None


def test_only_nodes_that_are_in_sync_inherit(cluster: Paper) -> None:
    """Whatever the seed."""
    cluster.views[("t", 0)] = PartitionView(1, 4, (1, 2, 3), (1, 3))
    aims = [LeaderMove(on(cluster, seed=seed)).aim() for seed in range(10)]
    assert {aim.sentence for aim in aims if aim} == {"leadership of t-0 moves from 1 to 3"}


def test_the_dead_do_not_inherit(cluster: Paper) -> None:
    """A node that was just killed is in sync by everybody's account, for some seconds."""
    cluster.kill(2)
    aims = [LeaderMove(on(cluster, seed=seed)).aim() for seed in range(10)]
    assert {aim.sentence for aim in aims if aim} == {"leadership of t-0 moves from 1 to 3"}
    cluster.kill(3)
    assert LeaderMove(on(cluster)).aim() is None


def test_requests_pass_over_nodes_that_are_down(cluster: Paper, answers: Answers) -> None:
    """The next one is asked."""
    answers.refusing = {"h:1"}
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    assert [address for address, *_ in answers.asked] == ["h:2", "h:2"]


def test_requests_are_repeated_until_they_are_done(cluster: Paper, answers: Answers) -> None:
    """Errors pass: a replica gets in sync, a controller is elected; ELECTION_NOT_NEEDED is as good as done."""
    answers.top_codes = [41]
    answers.codes = [0, 80, 80, 80, 80, 84]
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.inject()
    assert len(answers.asked) == 7


def test_a_move_is_undone_even_if_the_old_leader_is_gone(cluster: Paper, answers: Answers) -> None:
    """The old order is back; the heir goes on leading."""
    answers.codes = [0, 80]
    fault = LeaderMove(on(cluster))
    fault.aim()
    fault.undo()
    assert len(answers.asked) == 2


def test_requests_that_never_get_done_are_an_error(cluster: Paper, answers: Answers) -> None:
    """Which says what each node said."""
    answers.refusing = {"h:1"}
    answers.codes = [39] * 1000
    fault = LeaderMove(on(cluster))
    fault.aim()
    with pytest.raises(ClusterError, match=r"reassigning t-0 was not done.*h:1 refuses.*node 2 says Inv.*\(because\)"):
        fault.inject()


def test_a_fault_without_a_victim_is_not_injected(cluster: Paper) -> None:
    """Aim comes first."""
    with pytest.raises(ClusterError, match="call aim"):
        LeaderKill(on(cluster)).inject()


def test_every_fault_has_a_name_and_a_description() -> None:
    """For `tidegauge list nemeses`."""
    assert sorted(FAULTS) == ["leader-kill", "leader-move"]
    for fault in FAULTS.values():
        assert fault.description
        assert fault.longest_s > 0
        assert fault.changes_leaders


def test_an_unknown_fault_is_refused_with_a_suggestion() -> None:
    """Exit code 4."""
    with pytest.raises(UsageError, match="no nemesis 'leader-kil': did you mean 'leader-kill'"):
        fault_named("leader-kil")


def test_a_fault_is_made_from_its_slot(cluster: Paper) -> None:
    """With the slot's own seed and role."""
    fault = faults_on(cluster, lambda: ["t"])(Slot(1, "leader-move", "leader", 5, 15, 77))
    assert isinstance(fault, LeaderMove)
    assert fault.field.rng.random() == random.Random(77).random()
    assert fault.field.target == "leader"


def plan(**settings: Any) -> Plan:
    """A plan as a file would give it."""
    return parse(Plan, {"fault": "leader-kill", **settings}, "a.toml")


def test_plans_are_checked_before_the_cluster_is_up() -> None:
    """Local clusters can have both faults."""
    local = LocalCluster(load_target("kafka", None))
    check_plans([plan(), plan(fault="leader-move")], local)


def test_plans_that_make_no_sense_are_refused(cluster: Paper) -> None:
    """A fault there is not, a role it cannot be aimed at, too long a time."""
    with pytest.raises(UsageError, match="no nemesis 'flood'"):
        check_plans([plan(), plan(fault="flood")], cluster)
    with pytest.raises(UsageError, match="cannot be aimed at 'moon'"):
        check_plans([plan(target="moon")], cluster)
    with pytest.raises(UsageError, match="for 300 s is too long: it lasts 120 s at most"):
        check_plans([plan(times=1, **{"for": "5m"})], cluster)


@pytest.mark.parametrize("fault", FAULTS.values())
def test_an_external_cluster_is_never_broken(fault: type[Fault]) -> None:
    """Not even by a fault that needs nothing but requests."""
    with pytest.raises(CannotHere, match="somebody else's and is never broken") as refused:
        refuse_unless_possible(fault, ExternalCluster(("h:1",), Security()))
    assert refused.value.exit_code is Exit.CANNOT_HERE


def test_a_fault_is_refused_where_its_means_are_missing() -> None:
    """With what is missing, and where it can be had."""
    with pytest.raises(CannotHere, match=r"'leader-kill' needs .* this paper cluster cannot do \(restart\): use --cl"):
        refuse_unless_possible(LeaderKill, Paper(Capability.KILL))
    refuse_unless_possible(LeaderMove, Paper())
