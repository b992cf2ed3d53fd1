"""What recording costs: `make bench-record`.

The same load, bare and recorded, in turn within one run, on a real cluster on this machine, with both clients. The bare
loop (`bench.bare_clients`) is what a careful benchmark of the client would do: the same unique payloads, the same
calls, a callback that counts what was acknowledged; reading, it looks at place, offset and value of each record. The
recorded loop is the one that workers run. Reading what lies ready in the client's memory is so fast that any use of a
record shows: there is a goal for sending only.

Then the recorder alone, and the memory of a process that records ten million events.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from bench.bare_clients import BARE_CLIENTS
from bench.command import run_command
from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.progress import SilentProgress
from harness.foundation.security import Security
from harness.history.recorder import Recorder
from harness.history.schema import F, Kind, Type, now
from workloads import payload
from workloads.base import CONSUMER, PRODUCER, NodeAddress, TopicSpec, WorkerConfig
from workloads.clients.base import DeliveredMessages, KeyedMessages, Producer
from workloads.consuming import open_consumer
from workloads.large_batch import LargeBatchSettings
from workloads.producing import DRAIN_S, OUTSTANDING_AT_MOST, RecordingProducer, open_producer
from workloads.session import Control, WorkerSession, WorkerStatus, collect_garbage_less_often
from workloads.topics import create_topics

ROUNDS = 7
PARTITIONS = 3
RUN = 1
EVENTS = 10_000_000
CHUNK = 1000
BARE, RECORDED = "bare", "recorded"

_processes = itertools.count(1)


@dataclass
class Measured:
    """Seconds and CPU seconds of each round."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def take(self, work: Callable[[], None]) -> None:
        """One round."""
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)


class Quiet(WorkerStatus):
    """Counts, and tells nobody."""

    def show(self) -> None:
        """Nothing."""


class Bench:
    """One cluster, a fresh topic for every round that sends."""

    def __init__(self, cluster: Cluster, directory: Path, client: str) -> None:
        self.cluster = cluster
        self.client = client
        self.bare = BARE_CLIENTS[client]
        self.count = self.bare.messages
        self.settings = LargeBatchSettings(client=client, acks="1", partitions=PARTITIONS)
        self._directory = directory
        self._topics = itertools.count()

    def topic(self) -> TopicSpec:
        """A fresh one."""
        topic = self.settings.topic_spec(0, f"{self.client}-{next(self._topics)}")
        create_topics(self.cluster.nodes, self.cluster.security, [topic], "bench")
        return topic

    def session(self, role: str, topic: TopicSpec) -> WorkerSession:
        """A worker's, as in a run."""
        process = next(_processes)
        config = WorkerConfig(
            process=process,
            role=role,
            workload="large-batch",
            settings={},
            segment=self._directory / f"{process}.segment",
            run=RUN,
            prefix="bench",
            began=0,
            topics=(topic,),
            nodes=tuple(NodeAddress(id=node.id, address=node.address) for node in self.cluster.nodes),
        )
        return WorkerSession(config, self.cluster.security, Recorder(config.segment, process), Control(), Quiet())

    def produce_recorded(self, topic: TopicSpec) -> Callable[[], None]:
        """As workers do."""
        session = self.session(PRODUCER, topic)
        sender = open_producer(session, self.settings)
        name = topic.full_name("bench")

        def work() -> None:
            for start in range(0, self.count, sender.producer.chunk):
                sender.send(0, name, np.arange(start, start + sender.producer.chunk) % PARTITIONS)
                sender.drain(0)
                sender.make_room()
            while sender.producer.outstanding:
                sender.drain(DRAIN_S)
            assert session.status.ok == self.count, "the cluster took every message"
            session.recorder.close()
            session.config.segment.unlink()

        return work

    def produce_bare(self, topic: TopicSpec) -> Callable[[], None]:
        """The library's own calls and nothing else."""
        builder = payload.PayloadBuilder(RUN, next(_processes), self.settings.value_bytes)
        bare = self.bare.producer(self.cluster.bootstrap, topic.full_name("bench"))
        chunk, acknowledged = bare.chunk, bare.acknowledged

        def work() -> None:
            for start in range(0, self.count, chunk):
                number = np.arange(start, start + chunk)
                partitions = number % PARTITIONS
                payloads = builder.build(
                    chunk, topic=0, partition=partitions, value=number, sequence=number, invoked=now()
                )
                bare.send(partitions.tolist(), payloads)
                bare.poll(0)
                while start + chunk - acknowledged[0] > OUTSTANDING_AT_MOST:
                    bare.poll(DRAIN_S)
            while acknowledged[0] < self.count:
                bare.poll(DRAIN_S)

        return work

    def consume_recorded(self, topic: TopicSpec) -> Callable[[], None]:
        """As workers do."""
        session = self.session(CONSUMER, topic)
        reader = open_consumer(session, self.settings)
        name = topic.full_name("bench")
        reader.follow({name: 0}, [(name, partition) for partition in range(PARTITIONS)])
        reader.poll()  # connected, and the first records on their way

        def work() -> None:
            while session.status.read < self.count:
                reader.poll()
            reader.consumer.close()
            session.recorder.close()
            session.config.segment.unlink()

        return work

    def consume_bare(self, topic: TopicSpec) -> Callable[[], None]:
        """The library's own calls, each record looked at."""
        bare = self.bare.consumer(
            self.cluster.bootstrap, topic.full_name("bench"), PARTITIONS, self.settings.max_poll_records
        )
        first = bare.poll()

        def work() -> None:
            read = first
            while read < self.count:
                read += bare.poll()
            bare.close()

        return work


def main() -> None:
    """Everything, with a table at the end."""
    console, errors = Console(), Console(stderr=True)
    collect_garbage_less_often()  # as workers do, for both loops
    table = Table(title="messages per second: median (least to most)", title_justify="left")
    for title in ("", BARE, RECORDED, "recorded / bare", "CPU per message", "at least"):
        table.add_column(title, justify="left" if not title else "right")
    with tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as place:
        directory = Path(place)
        with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as cluster:
            for client in BARE_CLIENTS:
                bench = Bench(cluster, directory, client)
                results = {(what, how): Measured() for what in ("produce", "consume") for how in (BARE, RECORDED)}
                for number in range(ROUNDS):
                    errors.print(f"{client}: round {number + 1} of {ROUNDS}", highlight=False)
                    _round(bench, results, bare_first=number % 2 == 0)
                for what in ("produce", "consume"):
                    _row(table, f"{client} {what}", bench, results[what, BARE], results[what, RECORDED])
        console.print(table)
        _recorder_alone(console, directory)
        _memory(console, directory)


def _round(bench: Bench, results: dict[tuple[str, str], Measured], *, bare_first: bool) -> None:
    """Bare and recorded, in one order and next time in the other."""
    order = (BARE, RECORDED) if bare_first else (RECORDED, BARE)
    made = {}
    for how in order:
        made[how] = bench.topic()
        work = bench.produce_bare(made[how]) if how == BARE else bench.produce_recorded(made[how])
        results["produce", how].take(work)
    for how in order:
        topic = made[RECORDED]  # both read the same records
        work = bench.consume_bare(topic) if how == BARE else bench.consume_recorded(topic)
        results["consume", how].take(work)


def _row(table: Table, name: str, bench: Bench, bare: Measured, recorded: Measured) -> None:
    ratios = [b / r for b, r in zip(bare.wall_s, recorded.wall_s, strict=True)]
    micros = [statistics.median(measured.cpu_s) / bench.count * 1e6 for measured in (bare, recorded)]
    table.add_row(
        name,
        _rates(bare, bench.count),
        _rates(recorded, bench.count),
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        f"{micros[0]:.2f} / {micros[1]:.2f} µs",
        f"{1 - bench.bare.goal:.2f}" if name.endswith("produce") else "",
    )


def _rates(measured: Measured, count: int) -> str:
    rates = [count / wall_s for wall_s in measured.wall_s]
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def _recorder_alone(console: Console, directory: Path) -> None:
    """Invocations and completions as a producer writes them, without a producer."""
    rates = []
    for number in range(ROUNDS):
        segment = directory / f"alone-{number}.segment"
        numbers = np.arange(CHUNK)
        began = time.perf_counter()
        with Recorder(segment, next(_processes)) as recorder:
            for _ in range(500):
                recorder.write(Kind.INVOKE, CHUNK, op=numbers, f=F.SEND, topic=0, partition=numbers, value=numbers)
                recorder.write(
                    Kind.COMPLETE, CHUNK, op=numbers, invoked=numbers, f=F.SEND, type=Type.OK, topic=0,
                    partition=numbers, offset=numbers, value=numbers, sequence=numbers, error=0,
                )  # fmt: skip
        rates.append(1000 * CHUNK / (time.perf_counter() - began))
        segment.unlink()
    console.print(f"the recorder alone: {statistics.median(rates):,.0f} events/s", highlight=False)


class _Loopback(Producer):
    """Acknowledges at once: what is left is the worker's own."""

    chunk = CHUNK

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def send(
        self,
        topic: str,  # noqa: ARG002
        partitions: Sequence[int],  # noqa: ARG002
        payloads: Sequence[bytes],
        keyed: KeyedMessages | None = None,  # noqa: ARG002
    ) -> None:
        """Keep them until the next drain."""
        self._waiting += payloads

    def delivered(self, wait_s: float) -> DeliveredMessages:  # noqa: ARG002
        """All of them."""
        done, self._waiting = self._waiting, []
        return DeliveredMessages(done, list(range(len(done))), {})

    @property
    def outstanding(self) -> int:
        """Those that wait."""
        return len(self._waiting)

    def close(self, timeout_s: float) -> None:
        """Nothing to do."""


def _memory(console: Console, directory: Path) -> None:
    """Resident memory while ten million events are recorded."""
    settings = LargeBatchSettings()
    config = WorkerConfig(
        process=next(_processes), role=PRODUCER, workload="large-batch", settings={}, run=RUN, prefix="", began=0,
        segment=directory / "memory.segment", topics=(), nodes=(),
    )  # fmt: skip
    recorder = Recorder(config.segment, config.process)
    session = WorkerSession(config, Security(), recorder, Control(), Quiet())
    sender = RecordingProducer(session, settings, _Loopback())
    resident = []
    for start in range(0, EVENTS // 2, CHUNK):
        sender.send(0, "t", np.arange(CHUNK) % PARTITIONS)
        sender.drain(0)
        if (start + CHUNK) % (EVENTS // 20) == 0:
            resident.append(psutil.Process().memory_info().rss / 2**20)
    recorder.close()
    size_gb = config.segment.stat().st_size / 1e9
    config.segment.unlink()
    console.print(
        f"resident memory, MiB, at every {EVENTS // 10:,} of {EVENTS:,} events ({size_gb:.1f} GB on disk): "
        + " ".join(f"{mib:.0f}" for mib in resident),
        highlight=False,
    )


if __name__ == "__main__":
    run_command(main)
