"""Both workloads with both clients on real clusters, old and new, behind taps of which they know one.

Everything acknowledged is read, all of it is recorded, and all of it passed the taps.

They need real brokers of several versions: client libraries speak differently to each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.foundation.protocol import Api
from harness.history.schema import F, Kind, Status, Type
from tests.integration.java_clients import Java
from tests.integration.run_without_faults import Run
from tests.integration.tapped_cluster import Tapped, create, exchanges, process_of_taps, tapped
from tests.integration.traffic import COUNT, EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.support import PATIENCE_S, eventually
from workloads.base import CONSUMER, PRODUCER
from workloads.clients import make_consumer
from workloads.clients.base import BEGINNING, TopicPartition

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.nightly)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One cluster of a version for all tests of this module."""
    with make_cluster(ClusterSpec(kind="local", version=request.param), SilentProgress()) as running:
        yield running


@pytest.fixture
def taps(cluster: Cluster, tmp_path: Path) -> Iterator[Tapped]:
    """Taps before it."""
    with tapped(cluster.nodes, tmp_path / "taps") as open_:
        yield open_


def everything_is_there(run: Run) -> None:
    """What was acknowledged is read at the end where it was acknowledged, every end reached, nothing damaged."""
    sent, final = run.rows(Kind.COMPLETE, F.SEND), run.rows(Kind.COMPLETE, F.FINAL)
    sent = sent[sent["type"] == Type.OK]
    assert len(sent) > 0
    assert set(final["type"].tolist()) == {Type.OK}
    assert (final["end"] == final["offset"]).all()
    records = run.rows(Kind.RECORD)
    assert set(records["status"].tolist()) == {Status.GOOD}
    at_the_end = records[np.isin(records["op"], final["op"])]
    keys = ("value", "topic", "partition", "offset", "sequence")
    read = set(zip(*(at_the_end[key].tolist() for key in keys), strict=True))
    acknowledged = set(zip(*(sent[key].tolist() for key in keys), strict=True))
    assert acknowledged <= read
    assert len(np.unique(run.rows(Kind.INVOKE)["op"])) == len(run.rows(Kind.COMPLETE))
    assert run.taps.counted(Api.PRODUCE) >= len(sent)
    assert run.taps.counted(Api.FETCH) >= len(records)


def replicas_hold_the_same(run: Run) -> None:
    """Every replica was read to its watermark, and all have the records that the final read had."""
    reads, final = run.rows(Kind.COMPLETE, F.REPLICA), run.rows(Kind.COMPLETE, F.FINAL)
    assert set(reads["type"].tolist()) == {Type.OK}
    assert len(reads) == run.settings.replication_factor * len(final)
    records = run.rows(Kind.RECORD)
    at_the_end, copies = (records[np.isin(records["op"], each["op"])] for each in (final, reads))
    keys = ("value", "topic", "partition", "offset")
    read = set(zip(*(at_the_end[key].tolist() for key in keys), strict=True))
    assert set(zip(*(copies[key].tolist() for key in keys), strict=True)) == read
    assert len(copies) == run.settings.replication_factor * len(at_the_end)


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka", "java"])
def test_large_batch(cluster: Cluster, taps: Tapped, tmp_path: Path, client: str) -> None:
    """Sent, then read to the end, with probes of every node meanwhile."""
    run = Run(cluster, taps, tmp_path, "large-batch", client=client, messages=1000, acks="all")
    run.load(lambda: run.fleet.over(CONSUMER))
    assert run.fleet.totals(PRODUCER)["ok"] == 1000
    assert run.fleet.totals(CONSUMER)["read"] == 1000
    run.final_read()
    everything_is_there(run)
    replicas_hold_the_same(run)
    probes = run.rows(Kind.PROBE)
    answered = probes[probes["error"] == 0]
    assert set(zip(answered["node"].tolist(), answered["api"].tolist(), strict=True)) == {
        (node.id, api) for node in cluster.nodes for api in (Api.FETCH, Api.LIST_OFFSETS, Api.METADATA)
    }
    assert answered["high_watermark"].max() <= 1000


@pytest.mark.parametrize(
    ("client", "consume_by"), [("kafka-python", "subscribe"), ("confluent-kafka", "assign"), ("java", "subscribe")]
)
def test_stream_over_fresh_topics(cluster: Cluster, taps: Tapped, tmp_path: Path, client: str, consume_by: str) -> None:
    """Several generations of topics, created by whoever comes first; consumers follow."""
    run = Run(
        cluster, taps, tmp_path, "stream", client=client, consume_by=consume_by, rate=400, rotate="1500ms",
        partitions=2, producers=1, consumers=1,
    )  # fmt: skip
    run.load(lambda: run.fleet.totals(CONSUMER)["read"] >= 1500)
    run.final_read()
    everything_is_there(run)
    assert len(np.unique(run.rows(Kind.COMPLETE, F.SEND)["topic"])) >= 3
    assert set(run.rows(Kind.COMPLETE, F.CREATE)["type"].tolist()) <= {Type.OK, Type.INFO}
    assert len(run.rows(Kind.COMPLETE, F.ASSIGN)) >= 6


def read_at_the_end(run: Run) -> Any:
    """The records of one more final read; its end is reached everywhere."""
    before = set(run.rows(Kind.COMPLETE, F.FINAL)["op"].tolist())
    run.final_read()
    final = run.rows(Kind.COMPLETE, F.FINAL)
    assert set(final["type"].tolist()) == {Type.OK}
    records = run.rows(Kind.RECORD)
    return records[np.isin(records["op"], [op for op in final["op"].tolist() if op not in before])]


class Left:
    """What compaction leaves of the first messages while more are written: nobody cleans what is written to."""

    def __init__(self, run: Run, cluster: Cluster) -> None:
        addresses = [node.address for node in cluster.nodes]
        self.consumer = make_consumer(run.settings, addresses, cluster.security, "left")
        self._places = [(name, partition) for name in run.names for partition in range(run.settings.partitions)]
        self.consumer.assign(dict.fromkeys(self._places, BEGINNING))
        self._ends: dict[TopicPartition, int] = {}

    def share(self) -> float:
        """Of those that were there when this was asked first."""
        self._ends = self._ends or self.consumer.end_offsets(self._places, PATIENCE_S)
        assert self._ends.keys() == set(self._places)
        assert not self.consumer.seek(dict.fromkeys(self._places, 0))
        found = 0
        while any((self.consumer.position(place) or 0) < end for place, end in self._ends.items()):
            polled = self.consumer.poll(10_000, 0.2)
            places = zip(polled.topics, polled.partitions, polled.offsets, strict=True)
            found += sum(offset < self._ends[topic, partition] for topic, partition, offset in places)
        return found / sum(self._ends.values())


@pytest.mark.parametrize("cluster", ["4.3.1"], indirect=True)
@pytest.mark.parametrize("client", [pytest.param("kafka-python", marks=pytest.mark.nightly), "confluent-kafka"])
def test_compaction_leaves_the_last_of_each_key(cluster: Cluster, taps: Tapped, tmp_path: Path, client: str) -> None:
    """Most of what was written is gone after a while; of each key the last is there, be it a value or a tombstone."""
    run = Run(cluster, taps, tmp_path, "compacted", client=client, keys=10, tombstones=0.5, consumers=1)
    left = Left(run, cluster)
    run.load(lambda: run.fleet.totals(CONSUMER)["read"] >= 3000 and left.share() < 0.5)
    left.consumer.close()
    sent = run.rows(Kind.COMPLETE, F.SEND)
    sent = np.sort(sent[sent["type"] == Type.OK], order="offset")
    kept = read_at_the_end(run)
    assert len(kept) < len(sent)
    assert set(run.rows(Kind.RECORD)["status"].tolist()) == {Status.GOOD}
    last = {int(row["key"]): (int(row["offset"]), int(row["value"])) for row in sent}
    found = {int(row["key"]): (int(row["offset"]), int(row["value"])) for row in np.sort(kept, order="offset")}
    assert found == last
    assert set(last) == set(range(10))
    invoked = run.rows(Kind.INVOKE, F.SEND)
    assert dict(zip(invoked["value"].tolist(), invoked["key"].tolist(), strict=True)) == dict(
        zip(sent["value"].tolist(), sent["key"].tolist(), strict=True)
    )


def direct_connections(cluster: Cluster) -> list[Any]:
    """Connections of this process to brokers themselves."""
    ports = {int(node.address.rpartition(":")[2]) for node in cluster.nodes}
    return [each for each in psutil.Process().net_connections("tcp") if getattr(each.raddr, "port", 0) in ports]


def test_everybody_stays_behind_the_taps(cluster: Cluster, tmp_path: Path) -> None:
    """Both Python clients and Java's own, who know one tap, find everything else through it, and nothing past it."""
    java, topic = Java(cluster), create(cluster, partitions=3)
    lines = [f"line {number}" for number in range(200)]
    with process_of_taps(cluster, tmp_path) as taps:
        bootstrap = taps.address(cluster.nodes[-1].id)
        eventually(lambda: direct_connections(cluster) == [], "the admin client's connections are gone")
        assert kafka_python_round_trip(bootstrap) == EXPECTED
        assert confluent_round_trip(bootstrap) == EXPECTED
        assert direct_connections(cluster) == []
        java.produce(bootstrap, topic, lines)
        assert sorted(java.consume(bootstrap, topic, len(lines))) == sorted(lines)
    rows = exchanges(tmp_path, type=int(Type.OK), error=0)
    sent = [row for row in rows if row["api"] == Api.PRODUCE]
    assert sum(row["count"] for row in sent) == 2 * COUNT + len(lines)
    by_java = [row for row in rows if row["client"].startswith("console-")]
    assert sum(row["count"] for row in by_java if row["api"] == Api.PRODUCE) == len(lines)
    assert sum(row["count"] or 0 for row in by_java if row["api"] == Api.FETCH) == len(lines)
    assert {row["node"] for row in by_java} == {1, 2, 3}
    assert taps.counts["refused"] == 0
