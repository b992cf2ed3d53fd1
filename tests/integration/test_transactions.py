"""What a history says of transactions against what the logs really hold.

They need real brokers, whose logs are read afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from kafka import KafkaAdminClient, TopicPartition

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.history.schema import F, Kind, Type
from harness.history.sealing import open_history
from harness.history.sources import segment_path
from harness.tap.rules import Rule
from tests.integration.tapped_cluster import process_of_taps
from tests.integration.transaction_steps import HELD, MESSAGES, POSITION, STEPS, Walk
from tests.support import PATIENCE_S, REPOSITORY, eventually, unique
from tests.support.worker_sessions import rows
from workloads.base import FINAL, RAW, FinalTarget
from workloads.final_read import final_read
from workloads.topics import create_topics
from workloads.transacting import Transactor

pytestmark = pytest.mark.cluster
CLIENTS = ["confluent-kafka", "java", pytest.param("kafka-python", marks=pytest.mark.nightly)]
SENT = STEPS[STEPS.index("sent") :]
DELIVERED = STEPS[STEPS.index("delivered") :]
COMMITTED = {"committed", "commit-recorded"}  # the library had returned from its commit
HEIRS, READERS = 100, 200  # processes of the history, from these numbers on


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


def die_at_every_step(cluster: Cluster, walk: Walk) -> None:
    """Have all clients killed, two of them in the middle of EndTxn, which goes on after their death."""
    rules = [
        Rule(name=step, action="hold", side="request", api="EndTxn", client=f"tidegauge-producer-{walk.process(step)}")
        for step in HELD
    ]
    with process_of_taps(cluster, Path(walk.run), *rules) as taps:
        walk = replace(walk, addresses=tuple(taps.address(node.id) for node in cluster.nodes))
        command = [sys.executable, "-m", "tests.integration.transaction_steps", walk.argument()]
        with subprocess.Popen(command, cwd=REPOSITORY) as program:
            for step in HELD:
                eventually(lambda step=step: taps.acted(step) > 0, f"EndTxn of {step}")  # type: ignore[misc]
                os.kill(int((walk.pids / step).read_text()), signal.SIGKILL)
            program.wait(PATIENCE_S)
        for step in HELD:
            taps.release(step)
    ends = {step: int((walk.pids / f"{step}.end").read_text()) for step in STEPS}
    assert ends == dict.fromkeys(STEPS, -signal.SIGKILL)


def inherit(walk: Walk) -> None:
    """Have another client take every transactional id, which ends what was left open."""
    for index, step in enumerate(STEPS):
        at = walk.session(HEIRS + index)
        heir = Transactor(at, walk.settings, walk.name(step))
        assert heir.init() is Type.OK
        heir.close()
        at.recorder.close()


def read_back(walk: Walk, role: str) -> dict[str, set[int]]:
    """The values in the partition of each step, as a final read finds them."""
    isolation = "read_uncommitted" if role == RAW else "read_committed"
    at = walk.session(READERS + (role == RAW))
    targets = tuple(
        FinalTarget(topic=0, name=walk.topic, partition=partition, last_acked=-1) for partition in range(len(STEPS))
    )
    at = replace(at, config=at.config.model_copy(update={"role": role, "targets": targets}))
    final_read(at, walk.settings.model_copy(update={"isolation_level": isolation}))
    at.recorder.close()
    found = rows(at)[1]
    assert set(found[Kind.COMPLETE]["type"].tolist()) == {Type.OK}
    records = found[Kind.RECORD]
    return {
        step: set(records["value"][records["partition"] == partition].tolist()) for partition, step in enumerate(STEPS)
    }


def committed_offsets(walk: Walk) -> dict[str, int]:
    """What the groups of the steps have; -1 is nothing."""
    places = {step: TopicPartition(*walk.place(step)) for step in STEPS}
    admin = KafkaAdminClient(bootstrap_servers=list(walk.addresses))
    found = admin.list_group_offsets({walk.name(step): [place] for step, place in places.items()})
    admin.close()
    return {step: found[walk.name(step)][place].offset for step, place in places.items()}


class Sealed:
    """What the history says of each step's client."""

    def __init__(self, walk: Walk) -> None:
        files = open_history(Path(walk.run), [walk.process(step) for step in STEPS]).files
        self._rows = pq.read_table(files[Kind.COMPLETE]).to_pylist()
        self._walk = walk

    def ended(self, step: str, f: F) -> list[dict[str, Any]]:
        """Its operations of a kind."""
        process = self._walk.process(step)
        return [row for row in self._rows if row["process"] == process and row["f"] == f]

    def types(self, step: str, f: F) -> set[int]:
        """How they ended."""
        return {row["type"] for row in self.ended(step, f)}


def expected_type(step: str) -> Type:
    """How a transaction ends in the history whose client is killed there, and every part of it."""
    return {"commit-recorded": Type.OK, "abort-recorded": Type.FAIL}.get(step, Type.INFO)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_killed_at_every_step(cluster: Cluster, tmp_path: Path, client: str) -> None:
    """What is ok is there, what failed is not, info is either, but whole; and what was delivered is in the log."""
    walk = Walk(str(tmp_path / "run"), client, tuple(node.address for node in cluster.nodes), unique("walk"))
    create_topics(cluster.nodes, cluster.security, [walk.settings.topic_spec(0, "walk")], walk.prefix)
    die_at_every_step(cluster, walk)
    inherit(walk)
    committed, raw = read_back(walk, FINAL), read_back(walk, RAW)
    offsets = committed_offsets(walk)
    sealed = Sealed(walk)
    for step in STEPS:
        values = {row["value"] for row in sealed.ended(step, F.SEND)}
        assert len(values) == (MESSAGES if step in SENT else 0), step
        there = step in COMMITTED or (step == "committing" and bool(committed[step]))
        assert committed[step] == (values if there else set()), step
        assert offsets[step] == (POSITION if there else -1), step
        assert (values if step in DELIVERED else set()) <= raw[step] <= values, step
    for f, since in ((F.TXN, "begun"), (F.SEND, "sent"), (F.COMMIT, "offsets-sent")):
        for index, step in enumerate(STEPS):
            ended = {expected_type(step)} if index >= STEPS.index(since) else set()
            assert sealed.types(step, f) == ended, (step, f)
    assert {step: sealed.types(step, F.INIT) for step in STEPS} == {
        step: {Type.INFO if step == "before-init" else Type.OK} for step in STEPS
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_instance_fences_the_first(cluster: Cluster, tmp_path: Path, client: str) -> None:
    """What the first still sends or commits is refused: a failure before its commit was called, doubt after it."""
    walk = Walk(str(tmp_path), client, tuple(node.address for node in cluster.nodes), unique("walk"))
    create_topics(cluster.nodes, cluster.security, [walk.settings.topic_spec(0, "walk")], walk.prefix)
    segment_path(tmp_path, HEIRS).parent.mkdir()
    at = walk.session(HEIRS)
    first = Transactor(at, walk.settings, walk.prefix)
    ended = []
    for early in (True, False):
        transaction = first.begin()
        assert transaction is not None
        if not early:
            transaction.send(0, walk.topic, np.zeros(MESSAGES, np.int64))
            assert transaction.deliver()
        second = first.rival()
        assert second.init() is Type.OK
        if early:
            transaction.send(0, walk.topic, np.zeros(MESSAGES, np.int64))
        ended.append((transaction.commit(), first.fenced))
        first = second
    transaction = first.begin()
    assert transaction is not None
    transaction.send(0, walk.topic, np.zeros(MESSAGES, np.int64))
    ended.append((transaction.commit(), first.fenced))
    first.close()
    assert ended == [(Type.FAIL, True), (Type.INFO, True), (Type.OK, False)]
    sent = rows(at)[1][Kind.COMPLETE]
    sent = sent[(sent["f"] == F.SEND) & (sent["type"] == Type.OK)]
    assert read_back(walk, FINAL)[STEPS[0]] == set(sent["value"].tolist())
    assert len(sent) == MESSAGES
