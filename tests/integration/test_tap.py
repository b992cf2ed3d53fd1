"""The tap before real brokers: everybody's clients, resends, rules on the way, its own death."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from harness.clusters.base import Cluster
from harness.clusters.local import LocalCluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.errors import Exit
from harness.history import FIRST_TAP, Type
from harness.progress import Silent
from harness.seal import segment_path
from harness.tap.codec import Api
from harness.tap.process import TapConfig, Upstream
from harness.tap.rules import Rule, bends
from harness.tap.taps import Taps
from tests.integration.tapped import exchanges, tapped
from tests.integration.test_runs import await_load, started
from tests.integration.traffic import COUNT, EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.support import REPOSITORY, cli, command, end, eventually, remains, unique

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def any_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One of each version."""
    with make_cluster(ClusterSpec(kind="local", version=request.param), Silent()) as running:
        yield running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The newest."""
    with make_cluster(ClusterSpec(kind="local"), Silent()) as running:
        yield running


@contextmanager
def process_of_taps(cluster: Cluster, run: Path, *rules: Rule) -> Iterator[Taps]:
    """Taps in a process of their own, as in a run."""
    (run / "segments").mkdir(parents=True)
    upstreams = tuple(Upstream(node=node.id, address=node.address) for node in cluster.nodes)

    def config(process: int) -> TapConfig:
        return TapConfig(process=process, segment=segment_path(run, process), upstreams=upstreams, rules=rules)

    taps = Taps(config, {}, run / "logs", lambda _: None)
    taps.prepare()
    taps.start()
    try:
        yield taps
    finally:
        taps.stop()
    assert (taps.deaths, taps.troubles) == ([], [])


def create(cluster: Cluster, partitions: int = 1) -> str:
    """A topic, made without the taps."""
    name = unique("tap")
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 3}})
    admin.wait_for_topics([name])
    admin.close()
    return name


def values(cluster: Cluster, topic: str) -> list[bytes]:
    """What the only partition of a topic holds, read without the taps."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), enable_auto_commit=False)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    last = consumer.end_offsets([place])[place]
    found: list[bytes] = []
    while consumer.position(place) < last:
        found += [record.value for records in consumer.poll(timeout_ms=500).values() for record in records]
    consumer.close()
    return found


class Java:
    """Kafka's own command-line clients."""

    def __init__(self, cluster: Cluster) -> None:
        assert isinstance(cluster, LocalCluster)
        tools = cluster._prepare_tools()  # the same Java and archives as the brokers'
        self._command = [tools["java"], "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", tools["classpath"]]
        old = cluster.version.startswith("3.")
        self._producer = "kafka.tools.ConsoleProducer" if old else "org.apache.kafka.tools.ConsoleProducer"
        self._consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"

    def produce(self, bootstrap: str, topic: str, lines: list[str]) -> None:
        """One record for each line."""
        self._run([self._producer, "--bootstrap-server", bootstrap, "--topic", topic], "\n".join(lines) + "\n")

    def consume(self, bootstrap: str, topic: str, count: int) -> list[str]:
        """That many records from the beginning."""
        asked = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
        return self._run([self._consumer, *asked, "--timeout-ms", "30000"], "").splitlines()

    def _run(self, arguments: list[str], typed: str) -> str:
        ran = subprocess.run(
            [*self._command, *arguments], input=typed, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def direct_connections(cluster: Cluster) -> list[Any]:
    """Connections of this process to brokers themselves."""
    ports = {int(node.address.rpartition(":")[2]) for node in cluster.nodes}
    return [each for each in psutil.Process().net_connections("tcp") if getattr(each.raddr, "port", 0) in ports]


def test_everybody_stays_behind_the_taps(any_cluster: Cluster, tmp_path: Path) -> None:
    """Both Python clients and Java's own, who know one tap, find everything else through it, and nothing past it."""
    java, topic = Java(any_cluster), create(any_cluster, partitions=3)
    lines = [f"line {number}" for number in range(200)]
    with process_of_taps(any_cluster, tmp_path) as taps:
        bootstrap = taps.address(any_cluster.nodes[-1].id)
        eventually(lambda: direct_connections(any_cluster) == [], "the admin client's connections are gone")
        assert kafka_python_round_trip(bootstrap) == EXPECTED
        assert confluent_round_trip(bootstrap) == EXPECTED
        assert direct_connections(any_cluster) == []
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


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_lost_answer_makes_the_client_resend(cluster: Cluster, tmp_path: Path, *, idempotent: bool) -> None:
    """Without numbers the broker appends the batch again; with numbers it knows it and tells the same offset again."""
    topic = create(cluster)
    rule = Rule(name="lost ack", api="Produce", nth=2, action="drop-response", then="close")
    with tapped(cluster.nodes, tmp_path, *bends([rule], 0)) as taps:
        producer = KafkaProducer(
            bootstrap_servers=[taps.bootstrap], acks="all", enable_idempotence=idempotent, retry_backoff_ms=50,
            max_in_flight_requests_per_connection=1,
        )  # fmt: skip
        sent = [producer.send(topic, b"%d" % number, partition=0).get(60).offset for number in range(4)]
        producer.close()
    copies = values(cluster, topic)
    rows = [row for row in taps.exchanges(api=int(Api.PRODUCE)) if row["count"]]
    dropped = [row for row in rows if row["name"] == "lost ack"]
    assert [row["type"] for row in dropped] == [Type.INFO]
    assert dropped[0]["offset"] == 1, "the broker had acted"
    (resent,) = [row for row in rows if row["crc"] == dropped[0]["crc"] and row is not dropped[0]]
    numbers = [(row["producer_id"], row["producer_epoch"], row["sequence"]) for row in (*dropped, resent)]
    assert numbers[0] == numbers[1]
    if idempotent:
        assert copies == [b"0", b"1", b"2", b"3"]
        assert (resent["offset"], sent) == (1, [0, 1, 2, 3])
        assert numbers[0][0] is not None
    else:
        assert copies == [b"0", b"1", b"1", b"2", b"3"]
        assert (resent["offset"], sent) == (2, [0, 2, 3, 4])
        assert numbers[0] == (None, None, None)


def test_what_a_rule_holds_goes_on_when_it_is_released(cluster: Cluster, tmp_path: Path) -> None:
    """Through the process's control: hold a request, let it go, bend another way, bend no longer."""
    topic = create(cluster)
    hold = Rule(name="held", api="Produce", action="hold")
    with process_of_taps(cluster, tmp_path, hold) as taps:
        settings: dict[str, Any] = {"acks": "all", "enable_idempotence": False, "retries": 0}
        producer = KafkaProducer(bootstrap_servers=[taps.address(1)], **settings)
        first = producer.send(topic, b"first", partition=0)
        eventually(lambda: taps.watch() == [] and taps.counts["bent"] == 1, "it is held")
        assert not first.is_done
        assert values(cluster, topic) == []
        taps.tell({"release": "held"})
        assert first.get(60).offset == 0
        double = Rule(name="double", api="Produce", action="duplicate-request")
        taps.tell({"bend": double.model_dump(mode="json", by_alias=True, exclude_none=True)})
        eventually(lambda: appended_twice(cluster, producer, topic), "a request came twice")
        taps.tell({"unbend": "double"})
        eventually(lambda: not appended_twice(cluster, producer, topic), "it is over")
        producer.close()
    assert {row["name"] for row in exchanges(tmp_path, api=int(Api.PRODUCE))} == {None, "held", "double"}


def appended_twice(cluster: Cluster, producer: Any, topic: str) -> bool:
    """Whether a value that is sent once is there twice."""
    value = unique("value").encode()
    producer.send(topic, value, partition=0).get(60)
    return values(cluster, topic).count(value) == 2


def test_a_tap_that_dies_is_replaced_and_the_run_is_unknown(state_home: Path, tmp_path: Path) -> None:
    """Clients find the next one at the same place; what passed between them nobody saw."""
    process = started(tmp_path, "--workload", "stream", "--time", "8")
    try:
        await_load(tmp_path)
        for child in psutil.Process(process.pid).children(recursive=True):
            if "harness.tap.process" in child.cmdline():
                child.kill()
        output, errors = process.communicate(timeout=240)
    finally:
        end([process])
    results = json.loads(output)
    assert (results["verdict"], process.returncode) == ("unknown", Exit.UNKNOWN), errors
    assert any("the tap ended with SIGKILL" in reason for reason in results["reasons"])
    path = Path(results["run"])
    tapped_by = {row["process"] for row in exchanges(path)}
    assert tapped_by == {FIRST_TAP, FIRST_TAP + 1}
    assert results["figures"]["acknowledged"] > 0
    assert not any("final read" in reason or "read to its end" in reason for reason in results["reasons"])
    assert remains("run", state_home) == []


def test_taps_before_somebody_elses_cluster(cluster: Cluster, state_home: Path, tmp_path: Path) -> None:
    """`tidegauge tap` with one address: an application works behind it, Ctrl-C ends it, and `check` takes it."""
    directory = tmp_path / "recording"
    address = cluster.nodes[0].address
    process = subprocess.Popen(
        command("tap", "--upstream", address, "--record", str(directory), "--json"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        opened = json.loads(process.stdout.readline())
        assert opened["taps"] == [{"tap": opened["bootstrap"], "upstream": address}]
        assert confluent_round_trip(opened["bootstrap"]) == EXPECTED
        assert kafka_python_round_trip(opened["bootstrap"]) == EXPECTED
        ends = end_offsets(opened["bootstrap"], create(cluster))
        assert ends == [0, 1, 2, 3]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        end([process])
    assert process.returncode == 0, errors
    seen = json.loads(output)
    assert seen["exchanges"] > 20
    assert (seen["not_understood"], seen["troubles"]) == (0, [])
    assert {row["node"] for row in exchanges(directory) if row["api"] == Api.METADATA} <= {1, 2, 3}
    checked = json.loads(cli("check", str(directory), "--json").stdout)
    assert (checked["verdict"], checked["reasons"]) == ("valid", [])
    assert checked["anomalies"]["end-offset-regression"]["looked_at"] >= 3
    again = cli("tap", "--upstream", address, "--record", str(directory))
    assert (again.returncode, "is there already" in again.stderr) == (Exit.USAGE, True)
    assert remains("tap", state_home) == []


def end_offsets(bootstrap: str, topic: str) -> list[int]:
    """Where a topic ends, before and after each of three sends."""
    producer, consumer = KafkaProducer(bootstrap_servers=[bootstrap]), KafkaConsumer(bootstrap_servers=[bootstrap])
    place = TopicPartition(topic, 0)
    found = [consumer.end_offsets([place])[place]]
    for number in range(3):
        producer.send(topic, b"%d" % number, partition=0).get(60)
        found.append(consumer.end_offsets([place])[place])
    producer.close()
    consumer.close()
    return found


def test_taps_before_nothing_say_so(tmp_path: Path) -> None:
    """An address where nobody answers, and one that is none."""
    ran = cli("tap", "--upstream", "127.0.0.1:9", "--record", str(tmp_path / "x"))
    assert (ran.returncode, "no broker can be reached" in ran.stderr) == (Exit.HARNESS_ERROR, True)
    ran = cli("tap", "--upstream", "nonsense", "--record", str(tmp_path / "x"))
    assert (ran.returncode, "is not an address" in ran.stderr) == (Exit.USAGE, True)
    assert not (tmp_path / "x").exists()
