"""A cluster that exists on paper only: nodes that can be killed and paused, and that answer admin requests."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from harness.clusters import base as clusters
from harness.clusters.base import LOG_TAIL_LINES, Cluster
from harness.clusters.cluster_view import ClusterView, PartitionView
from harness.clusters.node import Capability, Node, NodeState
from harness.clusters.target import ReadyCheck
from harness.clusters.wire import WireError
from harness.foundation.errors import ClusterError
from nemesis import base
from nemesis.admin import asking
from nemesis.base import Fault, FaultContext, RepeatingFault

CAPABLE = frozenset({Capability.KILL, Capability.RESTART, Capability.PAUSE, Capability.ADMIN})
WHOLE = PartitionView(1, 4, (1, 2, 3), (1, 2, 3))
BECAUSE = "because"


class Paper(Cluster):
    """Three nodes; who leads is what the test says."""

    kind = "paper"

    def __init__(self, *able: Capability) -> None:
        super().__init__("product", "1.0", ReadyCheck("kafka", 5))
        self.nodes = tuple(Node(n, f"h:{n}") for n in (1, 2, 3))
        self.able = frozenset(able)
        self.dead: set[int] = set()
        self.paused: set[int] = set()
        self.stubborn: set[int] = set()  # nodes to which nothing can be done
        self.done: list[tuple[str, int]] = []
        self.views: dict[tuple[str, int], PartitionView] = {}
        self.told: dict[int, dict[tuple[str, int], PartitionView]] = {}  # what single nodes say instead
        self.networks: list[tuple[str, int]] = []

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Those it was made with."""
        return self.able

    def _bring_up(self) -> None:
        raise NotImplementedError

    def _do(self, what: str, node_id: int) -> None:
        if node_id in self.stubborn:
            raise ClusterError(f"cannot {what} {node_id}", "none")
        self.done.append((what, node_id))

    def stop_node(self, node_id: int) -> None:
        """Dead, in good order."""
        self._do("stop", node_id)
        self.dead.add(node_id)

    def kill(self, node_id: int) -> None:
        """Dead."""
        self._do("kill", node_id)
        self.dead.add(node_id)
        self.paused.discard(node_id)

    def pause(self, node_id: int) -> None:
        """Paused."""
        self._do("pause", node_id)
        self.paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """No longer."""
        self._do("resume", node_id)
        self.paused.remove(node_id)

    def start_node(self, node_id: int) -> None:
        """Alive again."""
        self._do("start", node_id)
        self.dead.remove(node_id)

    def state(self, node_id: int) -> NodeState:
        """Dead, paused or running."""
        if node_id in self.dead:
            return NodeState.DEAD
        return NodeState.PAUSED if node_id in self.paused else NodeState.RUNNING

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> list[str]:
        """Nothing."""
        return []

    def inner_port(self, node_id: int, listener: str) -> int:
        """By the number of the node."""
        return {"broker": 9000}[listener] + node_id

    def peer_address(self, node_id: int) -> str:
        """By the number of the node."""
        return f"10.0.0.{node_id}"

    def inside(self, node_id: int, script: str) -> str:
        """No rules."""
        return ""

    def break_network(self, node_id: int, name: str, script: str, undo: str) -> None:
        """Noted."""
        self.networks.append((script, node_id))

    def mend_network(self, node_id: int, name: str) -> None:
        """Noted."""
        self.networks.append(("mend", node_id))

    def look(self, nodes: Any, topics: Any, security: Any) -> ClusterView:
        """What `observe` would find."""
        gone = self.dead | self.paused
        alive = [node.id for node in self.nodes if node.id not in gone]
        seen = {node: {**self.views, **self.told.get(node, {})} for node in alive}
        mine = {node: {tp: view for tp, view in views.items() if tp[0] in topics} for node, views in seen.items()}
        return ClusterView(tuple(topics), mine, dict.fromkeys(gone, "refused"))


def said(code: int) -> SimpleNamespace:
    """What a node says about one thing."""
    return SimpleNamespace(error_code=code, error_message=BECAUSE if code else None)


class Answers:
    """Nodes that answer admin requests: `refusing` do not, `codes` are their errors before they agree."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()
        self.codes: list[int] = []
        self.top_codes: list[int] = []
        self.asked: list[tuple[str, str, Any]] = []
        self.settings: dict[str, str] = {}  # a topic's own
        self.topic_id: str | None = "id-1"
        self.moving = False
        self.eligible: list[int] | None = None
        self.quorum: dict[str, tuple[int, int]] = {}  # leader and epoch, by the address of who says so
        self.busy: set[str] = set()  # addresses of nodes that coordinate something
        self.coordinator = -1
        self.newest: dict[Any, int] = {}  # the newest version of an answer that nodes know, unless they know all
        self.lock = threading.Lock()
        self.answering: dict[Any, Callable[[str, Any], Any]] = {
            AlterPartitionReassignmentsResponse: self._reassign,
            ElectLeadersResponse: self._elect,
            IncrementalAlterConfigsResponse: self._set,
            DescribeConfigsResponse: self._describe,
            CreatePartitionsResponse: self._add,
            DeleteTopicsResponse: self._delete,
            CreateTopicsResponse: self._create,
            MetadataResponse: self._metadata,
            ListPartitionReassignmentsResponse: self._list_moving,
            DescribeTopicPartitionsResponse: self._list_eligible,
            DescribeQuorumResponse: self._quorum,
            ListGroupsResponse: self._groups,
            ListTransactionsResponse: self._transactions,
            FindCoordinatorResponse: lambda _, __: SimpleNamespace(error_code=0, node_id=self.coordinator),
        }

    def connect(self, address: str, timeout_s: float) -> Connected:
        """To one node."""
        if address in self.refusing:
            raise WireError(f"{address} refuses connections")
        return Connected(self, address)

    def requests(self) -> list[str]:
        """What was asked for, without the details."""
        return [kind for _, kind, _ in self.asked]

    def _code(self) -> int:
        return self.codes.pop(0) if self.codes else 0

    def _note(self, address: str, kind: str, what: Any) -> None:
        self.asked.append((address, kind, what))

    def _reassign(self, address: str, request: Any) -> Any:
        orders = {(t.name, p.partition_index): tuple(p.replicas) for t in request.topics for p in t.partitions}
        self._note(address, "reassign", orders)
        top = self.top_codes.pop(0) if self.top_codes else 0
        parts = [said(0 if top else self._code()) for _ in orders]
        return SimpleNamespace(error_code=top, error_message="no", responses=[SimpleNamespace(partitions=parts)])

    def _elect(self, address: str, request: Any) -> Any:
        partitions = [(t.topic, p) for t in request.topic_partitions for p in t.partitions]
        self._note(address, f"elect {request.election_type}", partitions)
        top = self.top_codes.pop(0) if self.top_codes else 0
        parts = [said(0 if top else self._code()) for _ in partitions]
        return SimpleNamespace(error_code=top, replica_election_results=[SimpleNamespace(partition_result=parts)])

    def _set(self, address: str, request: Any) -> Any:
        (config,) = request.resources[0].configs
        code = self._code()
        self._note(address, "set", (request.resources[0].resource_name, config.name, config.value))
        if not code and config.config_operation == 0:
            self.settings[config.name] = config.value
        elif not code:
            self.settings.pop(config.name, None)
        return SimpleNamespace(responses=[said(code)])

    def _describe(self, address: str, request: Any) -> Any:
        defaults = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "retention.ms": "604800000"}
        wanted = request.resources[0].configuration_keys
        configs = [
            SimpleNamespace(name=name, value=value, config_source=1 if name in self.settings else 5)
            for name, value in {**defaults, **self.settings}.items()
            if wanted is None or name in wanted
        ]
        return SimpleNamespace(results=[SimpleNamespace(**vars(said(0)), configs=configs)])

    def _add(self, address: str, request: Any) -> Any:
        self._note(address, "add", (request.topics[0].name, request.topics[0].count))
        return SimpleNamespace(results=[said(self._code())])

    def _delete(self, address: str, request: Any) -> Any:
        code = self._code()
        self._note(address, "delete", request.topic_names[0])
        if not code:
            self.topic_id = None
        return SimpleNamespace(responses=[said(code)])

    def _create(self, address: str, request: Any) -> Any:
        (topic,) = request.topics
        code = self._code() or (36 if self.topic_id else 0)
        replicas = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
        self._note(address, "create", (topic.name, replicas, {each.name: each.value for each in topic.configs}))
        if not code:
            self.topic_id = "id-2"
        return SimpleNamespace(topics=[said(code)])

    def _metadata(self, address: str, request: Any) -> Any:
        known = self.topic_id is not None
        return SimpleNamespace(topics=[SimpleNamespace(error_code=0 if known else 3, topic_id=self.topic_id)])

    def _list_moving(self, address: str, request: Any) -> Any:
        return SimpleNamespace(error_code=0, topics=["t"] if self.moving else [])

    def _list_eligible(self, address: str, request: Any) -> Any:
        part = SimpleNamespace(partition_index=0, leader_epoch=4, eligible_leader_replicas=self.eligible)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])

    def _quorum(self, address: str, request: Any) -> Any:
        if address not in self.quorum:
            return SimpleNamespace(error_code=41, topics=[])
        leader, epoch = self.quorum[address]
        part = SimpleNamespace(error_code=0, leader_id=leader, leader_epoch=epoch)
        return SimpleNamespace(error_code=0, topics=[SimpleNamespace(partitions=[part])])

    def _groups(self, address: str, request: Any) -> Any:
        return SimpleNamespace(error_code=0, groups=["g"] if address in self.busy else [])

    def _transactions(self, address: str, request: Any) -> Any:
        return SimpleNamespace(error_code=0, transaction_states=["x"] if address in self.busy else [])


class Connected:
    """A connection to one of them."""

    def __init__(self, answers: Answers, address: str) -> None:
        self.answers, self.address = answers, address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, response_class: Any, version: int) -> Any:
        """By the kind of request; it has to be one that can be sent."""
        request.API_VERSION = version
        request.with_header(correlation_id=1, client_id="test")
        assert request.encode(header=True, framed=True)
        if version > self.answers.newest.get(response_class, version):
            raise WireError(f"{self.address} closed the connection")
        with self.answers.lock:
            return self.answers.answering[response_class](self.address, request)


def context_on(
    cluster: Cluster, fault: type[Fault], target: str = "", topics: tuple[str, ...] = ("t",), seed: int = 0, **told: Any
) -> FaultContext:
    """The context of a fault, with these topics in use, on which no time passes."""
    chance = random.Random(seed)
    options = {**fault.options, **told}
    return FaultContext(cluster, lambda: topics, chance, target or fault.roles[0], lambda: 100.0, options)


def stepped(fault: RepeatingFault) -> None:
    """Until its first step is done, or has failed."""
    thread = fault._thread
    assert thread is not None
    while not fault.steps and thread.is_alive():
        time.sleep(0.001)


def paper_cluster(patch: pytest.MonkeyPatch) -> Paper:
    """One partition, led by node 1, all in sync."""
    made = Paper(*CAPABLE)
    made.views["t", 0] = WHOLE
    patch.setattr(base, "observe", made.look)
    return made


def paper_answers(patch: pytest.MonkeyPatch) -> Answers:
    """Nodes that say yes, and time that passes only by sleeping."""
    made, naps = Answers(), list[float]()
    patch.setattr(asking, "NodeConnection", made.connect)
    patch.setattr(clusters, "time", SimpleNamespace(monotonic=lambda: sum(naps), sleep=naps.append))
    return made
