"""Each broken broker visibly does its bug before real Kafka, with both clients, and nobody sees it without them.

They need real Kafka: a broken broker is a correct one whose answers the taps change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.foundation.protocol import Api
from harness.history.schema import OffsetView, Type
from harness.tap.broken import BROKEN
from tests.integration.broken_clients import Library
from tests.support import unique

pytest.register_assert_rewrite("tests.integration.broken_logs", "tests.integration.broken_answers")
from tests.integration import broken_answers, broken_logs  # noqa: E402, F401 - they register what they show
from tests.integration.broken_stage import (  # noqa: E402
    BUGS,
    COUNT,
    Stage,
    all_acked,
    backwards,
    doubled,
    lost,
    misplaced,
    reused,
    strange,
    transactions,
    unplaced,
)

pytestmark = pytest.mark.cluster
NOT_COORDINATOR = 16
LIBRARIES: tuple[Library, ...] = ("kafka-python", "confluent-kafka")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests of this module."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    """Who creates topics, not through the taps."""
    client = KafkaAdminClient(bootstrap_servers=[node.address for node in cluster.nodes])
    yield client
    client.close()


@pytest.fixture
def stage(request: pytest.FixtureRequest, cluster: Cluster, admin: KafkaAdminClient, tmp_path: Path) -> Stage:
    """For the library that the test names."""
    return Stage(request.getfixturevalue("library"), cluster, admin, tmp_path)


def cases() -> Iterator[Any]:
    """Each with both libraries; at every change with one of them by turns."""
    for number, name in enumerate(BROKEN):
        for turn, library in enumerate(LIBRARIES):
            marks = () if turn == number % 2 else pytest.mark.nightly
            yield pytest.param(name, library, id=f"{name}-{library}", marks=marks)


def test_every_broken_broker_is_shown() -> None:
    """A new one cannot be forgotten."""
    assert set(BUGS) == set(BROKEN)


@pytest.mark.parametrize(("name", "library"), list(cases()))
@pytest.mark.usefixtures("library")
def test_broken_broker(name: str, stage: Stage) -> None:
    """The bug is there, for the client and in what was recorded."""
    BUGS[name](stage)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.usefixtures("library")
def test_without_a_broken_broker_nothing_is_wrong(stage: Stage) -> None:
    """The same drives, and everything that the bugs change is right."""
    topic, in_transactions = stage.topic(0, 1), stage.topic(0, 1)
    with stage.taps_that(None):
        with stage.producer(topic, "one") as one, stage.producer(topic, "two") as two:
            sent = one.send_all(COUNT, 0, 1)
            also = two.send_all(COUNT, 0, 1)
        with stage.consumer(topic, group=unique("group")) as consumer:
            assert [consumer.end_offset(0) for _ in range(8)] == [2 * COUNT] * 8
            consumer.commit(0, 5)
            assert consumer.committed(0) == 5
        reads = [stage.read(topic, 0, 1) for _ in range(2)]
        aborted, committed = transactions(stage, in_transactions, 0, 1)
        in_committed = {each.value for each in stage.read(in_transactions, 0, 1, isolation="read_committed")}
    assert all_acked(sent)
    assert all_acked(also)
    assert not reused(sent + also)
    assert not unplaced(sent + also)
    assert not backwards(sent)
    for read in reads:
        assert len(read) == 4 * COUNT
        assert not lost(sent + also, read)
        assert not doubled(read)
        assert not misplaced(read)
        assert not strange(sent + also, read)
    assert not in_committed & aborted
    assert in_committed == set().union(*committed)
    assert not stage.watch.errors[NOT_COORDINATOR]
    assert not stage.blank_batches()
    assert not stage.crcs(Api.FETCH, view=OffsetView.LATEST) - stage.crcs(Api.PRODUCE)
    rows = stage.taps.exchanges()
    assert {row["name"] for row in rows} == {None}
    assert {row["type"] for row in rows if row["api"] == Api.PRODUCE} == {Type.OK}
    leaders = [(row["topic"], row["partition"], row["leader"]) for row in rows if row["api"] == Api.METADATA]
    assert len({leader for leader in leaders if None not in leader}) == 4
