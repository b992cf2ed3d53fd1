"""Both workloads with both clients on real clusters, old and new, behind taps of which they know one.

Everything acknowledged is read, all of it is recorded, and all of it passed the taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.history import F, Kind, Status, Type, now
from harness.progress import Silent
from harness.tap.codec import Api
from tests.integration.java_clients import Java
from tests.integration.tapped import Tapped, create, exchanges, process_of_taps, tapped
from tests.integration.traffic import COUNT, EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.sessions import RUN, rows
from tests.support import eventually, unique
from workloads import find_workload
from workloads.base import CONSUMER, FINAL, PROBE, PRODUCER, FinalTarget, NodeAddress, Role, WorkerConfig
from workloads.fleet import Fleet
from workloads.probe import FETCH, LIST_OFFSETS, METADATA
from workloads.topics import create_topics

pytestmark = pytest.mark.cluster
STOP_S = 60


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One cluster of a version for all tests of this module."""
    with make_cluster(ClusterSpec(kind="local", version=request.param), Silent()) as running:
        yield running


@pytest.fixture
def taps(cluster: Cluster, tmp_path: Path) -> Iterator[Tapped]:
    """Taps before it."""
    with tapped(cluster.nodes, tmp_path / "taps") as open_:
        yield open_


class Run:
    """A run without faults, as the runner does it, as far as workers go."""

    def __init__(self, cluster: Cluster, taps: Tapped, directory: Path, workload: str, **settings: Any) -> None:
        self.workload = find_workload(workload)
        self.settings = self.workload.model(bootstrap="first", **settings)
        self.fleet = Fleet({}, directory / "logs")
        self._directory, self.taps = directory, taps
        self._nodes = tuple(
            NodeAddress(id=node.id, address=tap) for node, tap in zip(cluster.nodes, taps.addresses, strict=True)
        )
        self._prefix, self._began = unique("test"), now()
        self.topics = self.workload.topics(self.settings)
        create_topics(cluster.nodes, cluster.security, self.topics, self._prefix)

    def start(self, role: Role, targets: tuple[FinalTarget, ...] = ()) -> None:
        """One worker."""
        process = len(self.fleet.workers)
        self.fleet.start(
            WorkerConfig(
                process=process,
                role=role.name,
                number=role.number,
                of=role.of,
                parts=role.parts,
                workload=self.workload.name,
                settings=self.settings.model_dump(mode="json"),
                segment=self._directory / f"{process}.segment",
                run=RUN,
                began=self._began,
                prefix=self._prefix,
                topics=tuple(self.topics),
                nodes=self._nodes,
                targets=targets,
            )
        )

    def load(self, enough: Callable[[], bool]) -> None:
        """All stages beside the probes, until that is enough."""
        self.start(Role(PROBE))
        for stage in self.workload.stages(self.settings, 0):
            for role in stage:
                self.start(role)
            if all(role.finite for role in stage):
                self.fleet.tell({"acked": self.fleet.totals(PRODUCER)["ok"]}, CONSUMER)
                eventually(lambda: self.fleet.over(stage[0].name), f"{stage[0].name} is done")  # noqa: B023
        eventually(lambda: self.fleet.poll() is None and enough(), "the load")  # type: ignore[func-returns-value]
        self.fleet.stop(STOP_S)
        assert self.fleet.dead() == []

    def final_read(self) -> None:
        """Every partition of every topic that the segments name."""
        acknowledged = self.rows(Kind.COMPLETE, F.SEND)
        names = {number: name for path in self._segments() for number, name in rows(path)[0].topics.items()}
        targets = []
        for number, name in names.items():
            for partition in range(self.settings.partitions):
                here = acknowledged[(acknowledged["topic"] == number) & (acknowledged["partition"] == partition)]
                last = int(here["offset"].max(initial=-1))
                targets.append(FinalTarget(topic=number, name=name, partition=partition, last_acked=last))
        self.start(Role(FINAL), tuple(targets))
        eventually(lambda: self.fleet.over(FINAL), "the final read")
        assert self.fleet.dead() == []

    def rows(self, kind: Kind, f: F | None = None) -> Any:
        """All rows of a kind, of all workers."""
        found = np.concatenate([rows(path)[1][kind] for path in self._segments()])
        return found if f is None else found[found["f"] == f]

    def _segments(self) -> list[Path]:
        return sorted(self._directory.glob("*.segment"))


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


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_large_batch(cluster: Cluster, taps: Tapped, tmp_path: Path, client: str) -> None:
    """Sent, then read to the end, with probes of every node meanwhile."""
    run = Run(cluster, taps, tmp_path, "large-batch", client=client, messages=1000, acks="all")
    run.load(lambda: run.fleet.over(CONSUMER))
    assert run.fleet.totals(PRODUCER)["ok"] == 1000
    assert run.fleet.totals(CONSUMER)["read"] == 1000
    run.final_read()
    everything_is_there(run)
    probes = run.rows(Kind.PROBE)
    answered = probes[probes["error"] == 0]
    assert set(zip(answered["node"].tolist(), answered["api"].tolist(), strict=True)) == {
        (node.id, api) for node in cluster.nodes for api in (FETCH, LIST_OFFSETS, METADATA)
    }
    assert answered["high_watermark"].max() <= 1000


@pytest.mark.parametrize(("client", "consume_by"), [("kafka-python", "subscribe"), ("confluent-kafka", "assign")])
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
