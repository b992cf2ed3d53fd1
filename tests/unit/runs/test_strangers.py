"""Brokers outside of the cluster: a run without taps is refused, by name, and nothing of ours connects to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.errors import KafkaConnectionError

from harness.clusters.admin import Admin
from harness.clusters.external import ExternalCluster
from harness.clusters.kept_connections import connections_to
from harness.clusters.metadata_oddities import ask_all
from harness.foundation import known_addresses
from harness.foundation.errors import ClusterError
from harness.foundation.known_addresses import keep_to, known_with, outside
from harness.foundation.security import Security
from harness.runs.preparing import look_at
from harness.runs.strangers import StrangerWatch, refuse_strangers
from tests.support import eventually
from tests.support.strange_broker import LOOPBACK, Elsewhere, StrangeBrokers, strange_brokers

STRANGER = 9


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """An address outside of the cluster."""
    with Elsewhere() as found:
        yield found


def addresses(brokers: StrangeBrokers) -> list[str]:
    """Of the cluster."""
    return [node.address for node in brokers.nodes]


@pytest.fixture
def listing(elsewhere: Elsewhere) -> Iterator[StrangeBrokers]:
    """Brokers that list the address elsewhere."""
    with strange_brokers(also_listed=((STRANGER, LOOPBACK, elsewhere.port),)) as brokers:
        yield brokers


def cluster_of(brokers: StrangeBrokers) -> ExternalCluster:
    """A cluster of these nodes and no others."""
    cluster = ExternalCluster((addresses(brokers)[0],), Security())
    cluster.nodes = brokers.nodes
    return cluster


def test_without_taps_a_run_is_refused(listing: StrangeBrokers, elsewhere: Elsewhere) -> None:
    """Node and address are named, and taps are the remedy; with taps the run goes on."""
    cluster = cluster_of(listing)
    said = f"node 1 names a broker at {LOOPBACK}:{elsewhere.port}, which is not in the cluster under test"
    with pytest.raises(ClusterError, match=said) as raised:
        look_at(cluster, [], probes=False, tapped=False)
    assert "--no-tap" in str(raised.value.remedy)
    assert look_at(cluster, [], probes=False, tapped=True).odd_metadata
    assert not elsewhere.was_visited


def test_a_cluster_of_its_own_nodes_is_not_refused() -> None:
    """Whatever name this machine goes by."""
    with strange_brokers() as brokers:
        local = [address.replace(LOOPBACK, "localhost") for address in addresses(brokers)]
        refuse_strangers(ask_all(brokers.nodes, Security()), local)


def test_a_stranger_that_is_named_later_ends_the_load(elsewhere: Elsewhere) -> None:
    """Whoever watches hears of it."""
    with strange_brokers() as brokers:
        watch, over = StrangerWatch(cluster_of(brokers)), threading.Event()
        watch.begin(over)
        watch.check()
        brokers.strangeness.also_listed = ((STRANGER, LOOPBACK, elsewhere.port),)

        def is_named() -> bool:
            try:
                watch.check()
            except ClusterError as error:
                return f"{LOOPBACK}:{elsewhere.port}" in str(error)
            return False

        eventually(is_named, "the stranger is named")
        over.set()
    assert not elsewhere.was_visited


def test_connections_of_kafka_python_are_kept_inside(
    listing: StrangeBrokers, elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    """They do not go to the stranger, and say so; those that are kept to nothing do."""
    for known in (addresses(listing), ()):
        with closing(connections_to(known)(bootstrap_servers=addresses(listing)[:1])) as connections:
            connections._manager.bootstrap(timeout_ms=5000)
            with pytest.raises(KafkaConnectionError):
                connections.await_ready(STRANGER, timeout_ms=500)
        assert elsewhere.was_visited == (not known)
        assert f"{LOOPBACK}:{elsewhere.port}, given as node {STRANGER}, is not in the cluster" in caplog.text


def test_admin_connections_are_kept_to_where_they_start(listing: StrangeBrokers, elsewhere: Elsewhere) -> None:
    """Whatever the nodes answer; what they answer can be read all the same."""
    with Admin(bootstrap_servers=addresses(listing)[:1]) as admin:

        async def visit() -> None:
            await admin._manager.get_connection(STRANGER)

        assert f"{LOOPBACK}:{elsewhere.port}" in admin.first_answer().brokers.values()
        with pytest.raises(KafkaConnectionError, match="is not in the cluster under test"):
            admin._manager.run(visit)
    assert not elsewhere.was_visited


def test_a_worker_is_kept_to_the_nodes_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """And to where its clients start; a process without a run is kept to nothing."""
    monkeypatch.setattr(known_addresses, "_kept_to", set())
    assert known_with(["a:1"]) == frozenset()
    keep_to(["b:1", "c:1"])
    assert known_with(["a:1"]) == {"a:1", "b:1", "c:1"}
    assert outside(["b:1", "x:1", "localhost:5"], {"b:1", "127.0.0.1:5"}) == ["x:1"]
