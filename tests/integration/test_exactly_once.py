"""Runs of `exactly-once` on real clusters: every input comes out once, whoever aborts, leaves, crashes or is killed.

They need real brokers: what a transaction leaves after a kill is decided by the coordinator's log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.config import parse
from harness.foundation.progress import SilentProgress
from harness.history.schema import Kind, Type
from harness.history.sealed import Sealed
from harness.history.sealing import open_history
from tests.integration.run_without_faults import Run, left_open
from tests.integration.tapped_cluster import tapped
from tests.support import cli, eventually, unique
from tests.support.exactly_once_histories import broken_promises, seen
from workloads.base import CONSUMER
from workloads.clients import make_member, make_transactional_producer
from workloads.clients.base import ClientError, TopicPartition
from workloads.clients.member import GroupConsumer, Joining
from workloads.exactly_once_settings import ExactlyOnceSettings
from workloads.topics import create_topics

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("spark_of_its_own")]

CLIENTS = ("confluent-kafka", "kafka-python")


def run(store: Path, *arguments: str) -> Sealed:
    """`tidegauge run` to its end, whatever its verdict: the history."""
    ran = cli("run", "--workload", "exactly-once", *arguments, "--seed", "7", "--store", str(store), "--json")
    assert ran.stdout, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == results["exit_code"], ran.stderr
    history = open_history(Path(results["run"]))
    facts = json.loads((Path(results["run"]) / "run.json").read_text())
    assert left_open(history, facts.get("killed_on_purpose", [])) == []
    return history


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all tests that talk to it themselves."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


def test_everything_comes_out_once(cluster: Cluster, tmp_path: Path) -> None:
    """With aborts and restarts in the middle; after the load all that was fed is through."""
    with tapped(cluster.nodes, tmp_path / "taps") as taps:
        worked = Run(
            cluster, taps, tmp_path / "segments", "exactly-once", rate=100, restart_every=1, abort=0.5, drain=50
        )

        def enough() -> bool:
            done = worked.fleet.totals(CONSUMER)
            return done["ok"] >= 200 and done["fail"] > 0

        worked.load(enough)
        worked.final_read()
    history = open_history(tmp_path)
    assert broken_promises(history, drained=True) == []
    assert len(seen(history).outputs) >= 200
    assert {Type.OK, Type.FAIL} <= {Type(row["type"]) for row in seen(history).made}
    invoked, completed = (
        pq.read_table(history.files[kind], columns=["op"])["op"] for kind in (Kind.INVOKE, Kind.COMPLETE)
    )
    assert sorted(invoked.to_pylist()) == sorted(completed.to_pylist())
    assert left_open(history) == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("client", "more"),
    [
        *((client, ()) for client in CLIENTS),
        *((client, ("assignor=cooperative-sticky",)) for client in CLIENTS),
        ("confluent-kafka", ("group_protocol=consumer",)),
    ],
)
def test_members_that_come_and_go(tmp_path: Path, client: str, more: tuple[str, ...]) -> None:
    """Killed, paused past their session, restarted in mid-transaction: nothing is lost, nothing is there twice."""
    settings = [word for setting in (f"client={client}", "restart_every=4s", *more) for word in ("--set", setting)]
    history = run(tmp_path, "--time", "60", *settings)
    assert broken_promises(history, drained=True) == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["leader-kill", "isolate", "client-kill"])
@pytest.mark.parametrize("client", CLIENTS)
def test_under_faults(tmp_path: Path, client: str, fault: str) -> None:
    """What is through is through once, and the group is right after it."""
    history = run(tmp_path, "--time", "40", "--nemesis", fault, "--set", f"client={client}")
    assert broken_promises(history, drained=False) == []
    assert len(seen(history).outputs) > 0


class Owner:
    """Remembers what a group gave."""

    def __init__(self) -> None:
        self.places: set[TopicPartition] = set()

    def assigned(self, places: Sequence[TopicPartition]) -> None:
        """Remember."""
        self.places.update(places)

    def revoked(self, places: Sequence[TopicPartition]) -> None:
        """Forget."""
        self.places.difference_update(places)

    lost = revoked

    def committed(self, offsets: Mapping[TopicPartition, int], error: ClientError | None, began: int | None) -> None:
        """Nobody commits by himself here."""


@pytest.mark.nightly
@pytest.mark.parametrize("client", CLIENTS)
def test_offsets_that_a_group_refused_are_not_committed_with_the_next_transaction(
    cluster: Cluster, client: str
) -> None:
    """A member that has left is refused, and what it wanted to commit is forgotten with its transaction."""
    given = {"client": client, "isolation_level": "read_committed", "partitions": 2}
    settings = parse(ExactlyOnceSettings, given, "here")
    prefix = unique("test")
    create_topics(cluster.nodes, cluster.security, [settings.topic_spec(0, "input")], prefix)
    first, second = (f"{prefix}-input", 0), (f"{prefix}-input", 1)
    servers = [node.address for node in cluster.nodes]

    def join() -> GroupConsumer:
        owner, member = Owner(), make_member(settings, servers, cluster.security, "member", Joining(prefix))
        assert member.join([f"{prefix}-input"], owner) is None
        eventually(lambda: bool(member.poll(1, 0.1)) and len(owner.places) == 2, "the member has both partitions")
        return member

    producer = make_transactional_producer(settings, servers, cluster.security, "producer", prefix)
    assert producer.init(30) is None
    gone = join()
    left = gone.metadata()
    assert gone.leave() is None
    member = join()
    assert producer.begin() is None
    assert producer.send_offsets({first: 5}, left, 30) is not None
    assert producer.abort(30) is None
    assert producer.begin() is None
    assert producer.send_offsets({second: 1}, member.metadata(), 30) is None
    assert producer.commit(30) is None
    assert member.committed([first, second], 30) == {first: -1, second: 1}
    producer.close(1)
    member.leave()
