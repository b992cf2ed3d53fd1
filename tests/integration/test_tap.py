"""The tap before real brokers: resends, rules that come and go, taps before somebody else's cluster.

They need real brokers: deduplication and the answers that clients act on are theirs.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.foundation.errors import Exit
from harness.foundation.progress import SilentProgress
from harness.foundation.protocol import Api
from harness.history.schema import Type
from harness.tap.rules import Rule, bends
from tests.integration.tapped_cluster import create, exchanges, process_of_taps, tapped
from tests.integration.traffic import EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.support import REPOSITORY, cli, command, end, eventually, remains, unique

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("spark_of_its_own")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The newest."""
    with make_cluster(ClusterSpec(kind="local"), SilentProgress()) as running:
        yield running


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
        taps.release("held")
        assert first.get(60).offset == 0
        double = Rule(name="double", api="Produce", action="duplicate-request")
        taps.bend(double)
        eventually(lambda: appended_twice(cluster, producer, topic), "a request came twice")
        taps.unbend("double")
        eventually(lambda: not appended_twice(cluster, producer, topic), "it is over")
        producer.close()
    assert {row["name"] for row in exchanges(tmp_path, api=int(Api.PRODUCE))} == {None, "held", "double"}


def appended_twice(cluster: Cluster, producer: Any, topic: str) -> bool:
    """Whether a value that is sent once is there twice."""
    value = unique("value").encode()
    producer.send(topic, value, partition=0).get(60)
    return values(cluster, topic).count(value) == 2


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
    nodes = {row["node"] for row in exchanges(directory) if row["api"] == Api.METADATA}
    assert nodes
    assert nodes <= {1, 2, 3}
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
