"""What the tap costs: `make bench-tap`.

confluent-kafka sends, reads and measures the latency of single sends three ways in turn within one run: direct, through
taps that see, and through taps that see and have ten rules that never match. Each way has the same cluster, the same
payloads and a fresh topic in every round; the order of the ways changes from round to round. The taps run in a process
of their own, as in a run. Ratios are of one round's figures, so that a busy minute hits all three alike.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from rich.console import Console
from rich.table import Table

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import TidegaugeError
from harness.foundation.progress import SilentProgress
from harness.tap.process import TapConfig, Upstream
from harness.tap.rules import Rule
from harness.tap.taps import Taps
from workloads.base import Settings
from workloads.clients.confluent import FULL_QUEUE_BACKOFF_MS
from workloads.topics import create_topics

ROUNDS = 7
MESSAGES = 200_000
SINGLE_SENDS = 300
VALUE = b"x" * 100
PARTITIONS = 3
PATIENCE_S = 60.0
LEAST_RATE, MOST_MS = 0.80, 1.0
DIRECT, SEEING, IDLE_RULES = "direct", "tap", "tap, ten idle rules"
IDLE = tuple(
    Rule(name=f"idle {number}", api=("Produce", "Fetch"), client="nobody", action="delay", by=1.0)
    for number in range(10)
)


class Bench:
    """One cluster, and taps before it."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._topics = itertools.count()
        self.servers = {DIRECT: cluster.nodes[0].address}
        self._taps: list[Taps] = []
        for name, rules in ((SEEING, ()), (IDLE_RULES, IDLE)):
            self.servers[name] = self._open(directory / str(len(self._taps)), rules)

    def _open(self, directory: Path, rules: tuple[Rule, ...]) -> str:
        (directory / "segments").mkdir(parents=True)

        def config(process: int) -> TapConfig:
            upstreams = tuple(Upstream(node=node.id, address=node.address) for node in self._cluster.nodes)
            segment = directory / "segments" / f"{process}.segment"
            return TapConfig(process=process, segment=segment, upstreams=upstreams, rules=rules)

        taps = Taps(config, {}, directory, lambda _: None)
        taps.prepare()
        taps.start()
        self._taps.append(taps)
        return taps.address(self._cluster.nodes[0].id)

    def close(self) -> None:
        """End the taps; one that died spoils the figures."""
        for taps in self._taps:
            taps.stop()
            assert not taps.deaths, taps.deaths
            assert taps.counts["exchanges"], "something passed the taps"

    def topic(self) -> str:
        """A fresh one."""
        topic = Settings(partitions=PARTITIONS).topic_spec(0, f"tap-{next(self._topics)}")
        create_topics(self._cluster.nodes, self._cluster.security, [topic], "bench")
        return topic.full_name("bench")

    def produce(self, way: str, topic: str) -> float:
        """Messages per second that were acknowledged by all replicas."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers[way], "acks": "all", "linger.ms": 5})
        producer.list_topics(topic, timeout=PATIENCE_S)
        acknowledged = [0]

        def counted(error: object, _: object) -> None:
            assert error is None, error
            acknowledged[0] += 1

        began_s = time.perf_counter()
        for number in range(MESSAGES):
            while True:
                try:
                    producer.produce(topic, VALUE, partition=number // 1000 % PARTITIONS, on_delivery=counted)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(PATIENCE_S)
        assert acknowledged[0] == MESSAGES, "the cluster took every message"
        return MESSAGES / (time.perf_counter() - began_s)

    def consume(self, way: str, topic: str) -> float:
        """Messages per second, from the first one on."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers[way],
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": FULL_QUEUE_BACKOFF_MS,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        read = len(consumer.consume(1, PATIENCE_S))
        began_s = time.perf_counter()
        while read < MESSAGES:
            found = len(consumer.consume(min(1_000, MESSAGES - read), 1.0))  # never one that waits for more than comes
            assert found or time.perf_counter() - began_s < PATIENCE_S, "records keep coming"
            read += found
        rate = (read - 1) / (time.perf_counter() - began_s)
        consumer.close()
        return rate

    def latencies(self, way: str, topic: str) -> tuple[float, float]:
        """Milliseconds of sends made one after the other: p50 and p99."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers[way], "acks": "all", "linger.ms": 0})
        took_ms = []
        for number in range(SINGLE_SENDS + 20):
            began_s = time.perf_counter()
            producer.produce(topic, VALUE, partition=number % PARTITIONS)
            assert not producer.flush(PATIENCE_S), "it was acknowledged"
            took_ms.append((time.perf_counter() - began_s) * 1000)
        cuts = statistics.quantiles(took_ms[20:], n=100)  # without those that had to connect first
        return cuts[49], cuts[98]


def main() -> None:
    """All ways in every round, each time in another order."""
    console, errors = Console(), Console(stderr=True)
    figures: dict[str, dict[str, list[float]]] = {}

    def note(way: str, what: str, value: float) -> None:
        figures.setdefault(what, {}).setdefault(way, []).append(value)

    with (
        tempfile.TemporaryDirectory() as directory,
        make_cluster(ClusterSpec(kind="local"), SilentProgress()) as cluster,
    ):
        bench = Bench(cluster, Path(directory))
        ways = list(bench.servers)
        for round_number in range(ROUNDS + 1):  # the first one warms everything up and does not count
            errors.print(f"round {round_number} of {ROUNDS}", highlight=False)
            count: Callable[[str, str, float], None] = note if round_number else lambda *_: None
            for shift in range(len(ways)):
                way = ways[(round_number + shift) % len(ways)]
                topic = bench.topic()
                count(way, "produced per s", bench.produce(way, topic))
                count(way, "consumed per s", bench.consume(way, topic))
                p50_ms, p99_ms = bench.latencies(way, topic)
                count(way, "send p50, ms", p50_ms)
                count(way, "send p99, ms", p99_ms)
        bench.close()
    show(console, figures)


def show(console: Console, figures: dict[str, dict[str, list[float]]]) -> None:
    """Medians, and the median of each round's ratio or difference."""
    table = Table(title=f"{ROUNDS} rounds, {MESSAGES:,} messages of {len(VALUE)} bytes each; median (least to most)")
    for title in ("", DIRECT, SEEING, IDLE_RULES, f"{SEEING} against direct", f"{IDLE_RULES} against direct"):
        table.add_column(title, justify="right")
    for what, ways in figures.items():
        row = [what, *(_spread(ways[way]) for way in (DIRECT, SEEING, IDLE_RULES))]
        for way in (SEEING, IDLE_RULES):
            pairs = list(zip(ways[way], ways[DIRECT], strict=True))
            if what.endswith("per s"):
                ratio = statistics.median(tapped / direct for tapped, direct in pairs)
                row.append(f"× {ratio:.2f} (goal ≥ {LEAST_RATE})")
            else:
                more = statistics.median(tapped - direct for tapped, direct in pairs)
                row.append(f"{more:+.2f} ms" + (f" (goal ≤ +{MOST_MS:.0f})" if "p50" in what else ""))
        table.add_row(*row)
    console.print(table)


def _spread(values: list[float]) -> str:
    digits = ",.0f" if max(values) > 1000 else ".2f"
    return f"{statistics.median(values):{digits}} ({min(values):{digits}} to {max(values):{digits}})"


if __name__ == "__main__":
    try:
        main()
    except TidegaugeError as error:
        sys.exit(str(error))
