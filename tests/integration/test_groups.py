"""What histories say of groups against what the brokers really hold.

They need real brokers, which are asked afterwards what the groups have committed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.history.schema import F, Type
from tests.integration.group_steps import HEIRS, PARTITIONS, PATIENCE_S, RECORDS, STEPS, WITHOUT_COMMIT, Walk
from tests.integration.run_without_faults import Run
from tests.integration.tapped_cluster import create, tapped
from tests.support import REPOSITORY
from tests.support.group_histories import History
from workloads.base import CONSUMER

pytestmark = pytest.mark.cluster
KINDS = [
    ("confluent-kafka", "classic"),
    pytest.param("kafka-python", "classic", marks=pytest.mark.nightly),
    pytest.param("confluent-kafka", "consumer", marks=pytest.mark.nightly),
    ("java", "consumer"),
    pytest.param("java", "classic", marks=pytest.mark.nightly),
]
COMMIT_TYPES = {"committing": Type.INFO, "committed": Type.INFO}  # of the steps that got that far; all others are ok


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


def filled_topic(cluster: Cluster) -> str:
    """A topic with as many records in each partition as members expect."""
    topic = create(cluster, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(topic, b"record", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return topic


def die_and_inherit(walk: Walk) -> dict[str, list[int]]:
    """Have a member killed at every step, and another one take its place; how they ended."""
    program = subprocess.run(
        [sys.executable, "-m", "tests.integration.group_steps", walk.argument()],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in program.stdout.splitlines()]
    return {step: ends for step, *ends in lines}


@pytest.mark.parametrize(("client", "protocol"), KINDS)
def test_a_member_killed_at_every_step(cluster: Cluster, tmp_path: Path, client: str, protocol: str) -> None:
    """Another one takes over; what was committed is there, what was not is not, and info is the one or the other."""
    addresses = tuple(node.address for node in cluster.nodes)
    walk = Walk(str(tmp_path), client, protocol, addresses, filled_topic(cluster))
    assert die_and_inherit(walk) == {step: [-signal.SIGKILL, 0] for step in STEPS}
    for number, step in enumerate(STEPS):
        history = History.of_segments([walk.segment(number), walk.segment(HEIRS + number)]).sealed()
        heir, dead = history.of(HEIRS + number), history.of(number)
        reached = -1 if step in WITHOUT_COMMIT else RECORDS
        answers = {(row["partition"], row["offset"], row["type"]) for row in heir.ended(F.COMMITTED)}
        assert answers == {(partition, reached, Type.OK) for partition in range(PARTITIONS)}, step
        assert {row["offset"] for row in heir.records} == set(range(max(reached, 0), RECORDS)), step
        commits = {row["type"] for row in dead.ended(F.COMMIT)}
        assert commits == (
            {COMMIT_TYPES.get(step, Type.OK)} if STEPS.index(step) >= STEPS.index("committing") else set()
        )
        is_right(history)


def is_right(history: History) -> None:
    """Nothing is owned twice, read unowned or committed unread, and every answer was committed by somebody."""
    assert history.owned_twice() == []
    assert history.read_unowned() == []
    assert history.committed_unread() == []
    assert history.wrong_answers() == []


@pytest.mark.nightly
@pytest.mark.parametrize(("client", "protocol"), KINDS)
def test_members_that_come_and_go(cluster: Cluster, tmp_path: Path, client: str, protocol: str) -> None:
    """Half of them commit themselves; every partition has one owner, nothing is skipped, everything has an outcome."""
    settings: dict[str, Any] = {"client": client, "group_protocol": protocol, "stay": "2s", "rate": 200}
    with tapped(cluster.nodes, tmp_path / "taps") as taps:
        run = Run(cluster, taps, tmp_path, "groups", **settings)
        run.load(lambda: run.fleet.totals(CONSUMER)["read"] >= 1500)
    history = History.of_segments(run.segments())
    assert history.without_outcome() == set()
    is_right(history)
    assert {row["type"] for row in history.ended(F.SUBSCRIBE, F.LEAVE, F.ASSIGN)} == {Type.OK}
    # one that a busy machine kept for longer than a session may have lost what it lets go of
    assert {row["type"] for row in history.ended(F.REVOKE)} <= {Type.OK, Type.INFO}
    assert len(history.ended(F.LEAVE)) > 3
    assert history.rebalances() > 3
    assert {row["process"] for row in history.ended(F.COMMIT)} == {row["process"] for row in history.ended(F.SUBSCRIBE)}
    read = {(row["partition"], row["offset"]) for row in history.records}
    last = {partition: max(at for where, at in read if where == partition) for partition, _ in read}
    assert read == {(partition, offset) for partition, end in last.items() for offset in range(end + 1)}
