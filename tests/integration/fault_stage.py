"""A stage for faults: a real cluster with a topic that is written to and read from through taps, and a way to play one.

Playing a fault is what a run does with it, without a schedule: it takes aim, is injected, is looked at until it has
bitten, lasts a while, is undone, and is over when the cluster is whole again by every node's own account.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient

from harness.clusters.base import Cluster
from harness.clusters.cluster_view import observe
from harness.clusters.image_choice import images_here
from harness.clusters.node import Capability
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.clusters.target import load_target
from harness.foundation.progress import SilentProgress
from harness.tap.taps import Taps
from nemesis.base import Fault, FaultContext
from tests.integration.tapped_cluster import process_of_taps
from tests.support import unique

PARTITIONS = 3
PATIENCE_S = 90.0  # until something that takes seconds has happened, on a machine that may be busy
LOOK_EVERY_S = 0.1
SEND_EVERY_S = 0.02


@dataclass(frozen=True)
class Carried:
    """How a fault went."""

    aim: str
    proof: str
    bit_after_s: float
    whole_after_s: float  # it was undone


@dataclass
class Stage:
    """A cluster in use."""

    kind: str
    cluster: Cluster
    topic: str
    taps: Taps
    acknowledged: int = 0
    transactions: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def carry_out(
        self, kind: type[Fault], target: str = "", lasts_s: float = 0.5, seed: int = 7, **options: Any
    ) -> Carried:
        """From its aim until the cluster is whole again."""
        fault = kind(
            FaultContext(
                self.cluster,
                lambda: [self.topic],
                random.Random(seed),
                target or kind.roles[0],
                options={**kind.options, **options},
                tag=unique("tg"),
                taps=self.taps,
            )
        )
        aim = self._until(fault.aim, f"{kind.name} finds no victim")
        began_s = time.monotonic()
        try:
            fault.inject()
            bite = self._until(fault.proof, f"{kind.name} ({aim.sentence}) does not bite")
            bit_after_s = time.monotonic() - began_s
            time.sleep(lasts_s)
        finally:
            fault.undo()
        undone_s = time.monotonic()
        fault.undo()  # done twice, it does no harm
        self._until(lambda: not fault.healed(), f"{kind.name} does not go ({fault.healed()})")
        self.until_whole()
        whole_after_s = time.monotonic() - undone_s
        self.until_acknowledged()
        return Carried(aim.sentence, bite.sentence, round(bit_after_s, 1), round(whole_after_s, 1))

    def until_whole(self) -> None:
        """Every node answers, and all agree that every replica is in sync."""
        troubles: list[str] = []

        def whole() -> bool:
            troubles[:] = observe(self.cluster.nodes, [self.topic]).troubles()
            return not troubles

        self._until(whole, troubles)

    def until_acknowledged(self) -> None:
        """A message that was sent now came through."""
        before = self.acknowledged
        self._until(lambda: self.acknowledged > before + 1, "nothing is acknowledged any more")

    def _until(self, look: Any, message: Any) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < deadline_s, message
            self.taps.watch()
            time.sleep(LOOK_EVERY_S)
        return found

    def write(self) -> None:
        """Send to each partition in turn, as an idempotent producer with acks=all does."""
        producer = Producer(
            {
                **self._client(),
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "request.timeout.ms": 3_000,
                "linger.ms": 0,
            }
        )

        def heard(error: object, _: object) -> None:
            self.acknowledged += not error

        number = 0
        while not self.over.wait(SEND_EVERY_S):
            number += 1
            with suppress(BufferError, KafkaException):
                producer.produce(self.topic, b"x" * 100, partition=number % PARTITIONS, on_delivery=heard)
            producer.poll(0)
        producer.purge()
        producer.flush(1)

    def read(self) -> None:
        """Read all partitions, from wherever they are now."""
        consumer = Consumer({**self._client(), "group.id": self.topic, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, partition) for partition in range(PARTITIONS)])
        while not self.over.is_set():
            consumer.poll(0.1)
        consumer.close()

    def transact(self) -> None:
        """One small transaction after the other; what is lost is begun anew."""
        while not self.over.is_set():
            producer = Producer({**self._client(), "transactional.id": self.topic, "transaction.timeout.ms": 10_000})
            with suppress(KafkaException):
                producer.init_transactions(5)
                while not self.over.wait(0.1):
                    producer.begin_transaction()
                    producer.produce(self.topic, b"t" * 100)
                    producer.commit_transaction(5)
                    self.transactions += 1

    def _client(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(self.taps.address(node.id) for node in self.cluster.nodes),
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 2_000,
            "log_level": 0,
            "error_cb": lambda _: None,
        }


def spec_of(kind: str) -> ClusterSpec:
    """`local`, `netns` or `docker`."""
    if kind == "docker":
        from harness.clusters.docker_engine import connect

        return ClusterSpec(kind="docker", image=images_here(load_target("kafka"), connect())[0])
    return ClusterSpec(kind="local", netns=kind == "netns")


@contextmanager
def stage(kind: str, needs: Collection[Capability] = (), *, transactions: bool = False) -> Iterator[Stage]:
    """A cluster of this kind with all that it needs, in use as long as the block lasts."""
    cluster = make_cluster(spec_of(kind), SilentProgress())
    cluster.equip(needs)
    scratch = Path(tempfile.mkdtemp())
    try:
        with cluster:
            topic = unique("stage")
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(",")) as admin:
                settings = {"min.insync.replicas": "2"}
                admin.create_topics(
                    {topic: {"num_partitions": PARTITIONS, "replication_factor": 3, "configs": settings}}
                )
                admin.wait_for_topics([topic])
            with process_of_taps(cluster, scratch / "run") as taps:
                playing = Stage(kind, cluster, topic, taps)
                work = [playing.write, playing.read, *([playing.transact] if transactions else [])]
                threads = [threading.Thread(target=each, daemon=True) for each in work]
                for thread in threads:
                    thread.start()
                try:
                    playing.until_whole()
                    playing.until_acknowledged()
                    yield playing
                finally:
                    playing.over.set()
                    for thread in threads:
                        thread.join(30)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
