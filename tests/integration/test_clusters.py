"""Every kind of cluster that the harness starts, with real brokers and real clients.

They start what they are about.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient

from harness.clusters import wire
from harness.clusters.base import Cluster
from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability, NodeState
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.class_archive import CLASSES
from harness.foundation.errors import UsageError
from harness.foundation.progress import SilentProgress
from tests.integration.traffic import (
    EXPECTED,
    confluent_round_trip,
    kafka_python_round_trip,
    read_back,
    send_to_one_node,
)
from tests.support import docker_or_skip

pytestmark = pytest.mark.cluster


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(ClusterSpec(kind="local"), id="local"),
        pytest.param(ClusterSpec(kind="local", netns=True), id="netns", marks=pytest.mark.nightly),
        pytest.param(ClusterSpec(kind="docker"), id="docker", marks=pytest.mark.docker),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One cluster of each kind, for all tests of this module."""
    spec: ClusterSpec = request.param
    if spec.kind == "docker":
        docker_or_skip()
    if spec.netns and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    with make_cluster(spec.with_image(lambda _: True, SilentProgress()), SilentProgress()) as running:
        yield running


def test_messages_sent_with_kafka_python_come_back(cluster: Cluster) -> None:
    """What was acknowledged is read, in order."""
    assert kafka_python_round_trip(cluster.bootstrap) == EXPECTED


def test_messages_sent_with_confluent_kafka_come_back(cluster: Cluster) -> None:
    """The same with the other client."""
    assert confluent_round_trip(cluster.bootstrap) == EXPECTED


def test_any_single_address_leads_to_the_whole_cluster(cluster: Cluster) -> None:
    """Each node lists all three, at the addresses that we give to clients."""
    expected = {node.id: node.address for node in cluster.nodes}
    for node in cluster.nodes:
        metadata = wire.ask_metadata(node.address)
        assert metadata.brokers == expected
        assert metadata.cluster_id == cluster.cluster_id


def test_a_new_cluster_has_the_features_of_its_version(cluster: Cluster) -> None:
    """Transactions, groups and eligible leader replicas are at the level that `format` gives, not at zero."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    features = admin.describe_features()
    admin.close()
    for name in ("transaction.version", "group.version", "eligible.leader.replicas.version"):
        assert features[name]["finalized"] == features[name]["supported"][1:] * 2, name


def test_a_jvm_takes_the_archive_of_its_classes(cluster: Cluster) -> None:
    """The one of an earlier cluster, which is in its memory then, or the order to write one."""
    if not isinstance(cluster, LocalCluster):
        pytest.skip("only processes have one")
    (_, node) = cluster._tree(cluster._child(1))[::-1]
    (option,) = (word for word in node.cmdline() if CLASSES in word)
    how, _, file = option.partition("=")
    mapped = {part.path for part in node.memory_maps()}
    assert how == "-XX:ArchiveClassesAtExit" or file.split(":")[-1] in mapped
    assert not [line for line in cluster.log_tail(1, 10_000) if "[cds" in line]


def test_a_killed_node_is_dead_and_comes_back_with_its_data(cluster: Cluster) -> None:
    """SIGKILL, then a start: what only this node holds is read back, and everybody lists the node again."""
    topic = send_to_one_node(cluster.bootstrap, 3)
    cluster.kill(3)
    assert cluster.state(3) is NodeState.DEAD
    with pytest.raises(wire.WireError):
        wire.ask_metadata(cluster.node(3).address, timeout_s=2)
    cluster.start_node(3)
    cluster.wait_until_ready()
    assert cluster.state(3) is NodeState.RUNNING
    assert read_back(cluster.bootstrap, topic) == EXPECTED
    assert kafka_python_round_trip(cluster.bootstrap) == EXPECTED


def test_a_paused_node_does_not_answer_and_goes_on_afterwards(cluster: Cluster) -> None:
    """Its connections are accepted by the kernel, and nothing comes back until it is resumed."""
    cluster.pause(2)
    assert cluster.state(2) is NodeState.PAUSED
    with pytest.raises(wire.WireError):
        wire.ask_metadata(cluster.node(2).address, timeout_s=1)
    cluster.resume(2)
    assert cluster.state(2) is NodeState.RUNNING
    cluster.wait_until_ready()


def test_a_node_can_be_restarted_in_good_order(cluster: Cluster) -> None:
    """Stop and start: the log goes on in the same place, and says that the shutdown was orderly."""

    def orderly() -> int:
        return sum("shut down completed" in line for line in cluster.log_tail(1, lines=20_000))

    before = orderly()
    cluster.stop_node(1)
    cluster.start_node(1)
    cluster.wait_until_ready()
    assert orderly() > before


def test_a_running_node_is_not_started_twice(cluster: Cluster) -> None:
    """Two processes on one data directory would be a fault nobody asked for."""
    with pytest.raises(UsageError, match="runs already"):
        cluster.start_node(1)


def test_a_node_that_does_not_exist_is_refused(cluster: Cluster) -> None:
    """By number, with the numbers there are."""
    with pytest.raises(UsageError, match=r"no node 7.*1, 2, 3"):
        cluster.kill(7)


def test_only_clusters_with_network_stacks_of_their_own_offer_partitions(cluster: Cluster) -> None:
    """Capabilities are what can really be done."""
    alone = cluster.kind == "local" and not cluster.namespace(1)  # type: ignore[attr-defined]
    assert (Capability.PARTITION in cluster.capabilities) is not alone
