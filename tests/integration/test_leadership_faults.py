"""Faults of leadership through the conductor on real brokers: proven in the history, and undone.

They need a real quorum, which elects the leaders; they run at night.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import PartitionView, observe
from harness.clusters.node import NodeState
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.history.recorder import Recorder
from harness.history.schema import FaultStage
from harness.history.segments import Segment
from nemesis import check_plans, faults_on
from nemesis.conductor import Conductor
from nemesis.outcome import FaultOutcome
from nemesis.schedule import FaultPlan, slots
from tests.support import eventually, unique

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three processes, for all tests of this module."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Three partitions, three replicas each, all in sync."""
    name = unique("nemesis")
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
        admin.create_topics([NewTopic(name, 3, 3)])
    until_whole(cluster, name)
    return name


def until_whole(cluster: Cluster, topic: str) -> None:
    """Every node answers, and all agree that every replica is in sync."""
    eventually(lambda: not observe(cluster.nodes, [topic]).troubles(), f"{topic} is not whole")


def play(cluster: Cluster, topic: str, fault: str, directory: Path) -> tuple[FaultOutcome, list[FaultStage]]:
    """One slot of one fault, from its injection to its end."""
    plan = FaultPlan.model_validate({"fault": fault, "after": 0, "for": 0, "times": 1})
    check_plans([plan], cluster)
    stages: list[FaultStage] = []
    segment = directory / "faults.segment"
    with Recorder(segment, 1) as recorder:
        conductor = Conductor(
            slots([plan], 60, seed=7),
            faults_on(cluster, lambda: [topic]),
            recorder,
            {topic: 0}.get,
            lambda stage, _, __: stages.append(stage),
        )
        conductor.run()
        assert conductor.heal() == []
    assert conductor.errors == []
    assert conductor.outcomes[0].sentence in Segment(segment).texts.values()
    return conductor.outcomes[0], stages


def best(cluster: Cluster, topic: str, partition: int) -> PartitionView:
    """The partition as it is now."""
    return observe(cluster.nodes, [topic]).partitions[topic, partition]


@pytest.mark.parametrize("fault", ["leader-move", "leader-kill"])
def test_a_fault_bites_and_heals(cluster: Cluster, topic: str, tmp_path: Path, fault: str) -> None:
    """Another leader in a higher epoch, and afterwards every replica in sync on the old order of replicas."""
    before = observe(cluster.nodes, [topic]).partitions
    outcome, stages = play(cluster, topic, fault, tmp_path)
    assert stages == [FaultStage.INJECTED, FaultStage.BIT, FaultStage.UNDONE]
    bite = outcome.evidence
    assert bite is not None
    assert bite.partition is not None
    assert bite.leader_epoch is not None
    was = before[topic, bite.partition]
    assert bite.node == was.leader
    assert bite.leader in set(was.isr) - {was.leader}
    assert bite.leader_epoch > was.leader_epoch
    until_whole(cluster, topic)
    now = best(cluster, topic, bite.partition)
    assert now.replicas == was.replicas
    assert now.leader_epoch >= bite.leader_epoch
    assert all(cluster.state(node.id) is NodeState.RUNNING for node in cluster.nodes)


def test_a_move_works_while_a_node_is_down(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """Requests find a node that answers, and the victim is one of those that live."""
    cluster.kill(1)
    try:
        outcome, _ = play(cluster, topic, "leader-move", tmp_path)
    finally:
        cluster.start_node(1)
    assert outcome.evidence is not None
    assert outcome.evidence.node != 1
    until_whole(cluster, topic)
