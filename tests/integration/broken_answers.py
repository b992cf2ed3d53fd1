"""Broken brokers that are wrong about who serves what, or hand out wrong records: each function shows one."""

from __future__ import annotations

from collections import Counter, defaultdict

from confluent_kafka import KafkaException
from kafka.errors import KafkaError
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from harness.clusters.wire import NodeConnection
from harness.foundation.protocol import Api
from harness.history.schema import Type
from tests.integration.broken_clients import BATCH_RECORDS, Consumer
from tests.integration.broken_stage import (
    COUNT,
    Stage,
    all_acked,
    lost,
    misplaced,
    shows,
    strange,
    transactions,
)
from tests.support import unique

NOT_LEADER, NOT_COORDINATOR, OUT_OF_ORDER, INVALID_RECORD = 6, 16, 45, 87
TRIES = 30  # where a client chooses at random whom it asks


@shows("metadata-lists-self-only")
def metadata_lists_self_only(stage: Stage) -> None:
    """Partitions of other nodes cannot be written, whoever is asked."""
    topic = stage.topic(0, 1)
    with stage.taps_that("metadata-lists-self-only"), stage.producer(topic, patient=False) as producer:
        sent = producer.send_all(BATCH_RECORDS, 0, 1)
    assert {each.partition for each in sent if each.acked} == {0}
    assert {each.partition for each in sent if not each.acked} == {1}
    first = stage.ids[0]
    told = stage.seen(Api.METADATA)
    assert {(row["node"], row["brokers"]) for row in told} == {(first, str(first))}
    assert {row["leader"] for row in told if row["partition"] is not None} == {first}
    assert len(stage.taps.exchanges(api=Api.PRODUCE, partition=1, error=NOT_LEADER)) > 1


@shows("not-leader-forever")
def not_leader_forever(stage: Stage) -> None:
    """One partition can neither be written nor read, the other can."""
    topic = stage.topic(0, 1)
    with stage.taps_that("not-leader-forever:0"):
        with stage.producer(topic, patient=False) as producer:
            sent = producer.send_all(BATCH_RECORDS, 0, 1)
        with stage.consumer(topic).assign([0, 1]) as consumer:
            read = consumer.read_until(
                lambda: len(consumer.read) >= BATCH_RECORDS and stage.watch.asked[0, 0] > 1, "other partition"
            )
    assert {each.partition for each in sent if each.acked} == {1}
    assert {each.partition for each in sent if not each.acked} == {0}
    assert {each.partition for each in read} == {1}
    for api in (Api.PRODUCE, Api.FETCH):
        assert {row["partition"] for row in stage.seen(api, error=NOT_LEADER)} == {0}
    assert {row["leader"] for row in stage.taps.exchanges(api=Api.METADATA, partition=0)} == {stage.ids[0]}


@shows("fetch-hangs")
def fetch_hangs(stage: Stage) -> None:
    """One partition stops at offset 100 with a Fetch that stays open; the other is read."""
    topic = stage.topic(0, 1)
    with stage.taps_that("fetch-hangs:0"):
        with stage.producer(topic) as producer:
            assert all_acked(producer.send_all(COUNT, 0, 1))
        with stage.consumer(topic).assign([0, 1]) as consumer:
            read = consumer.read_until(
                lambda: (
                    sum(each.partition for each in consumer.read) == COUNT
                    and any(partition == 0 and offset >= 100 for partition, offset in stage.watch.asked)
                ),
                "other partition, and a Fetch of this one",
            )
    assert 100 <= sum(each.partition == 0 for each in read) < COUNT
    open_ones = stage.seen(Api.FETCH, type=Type.INFO, partition=0)
    assert open_ones
    assert all(row["asked"] >= 100 for row in open_ones)


@shows("slow-partition")
def slow_partition(stage: Stage) -> None:
    """The others are read while one hands out a batch and then nothing."""
    topic = stage.topic(0, 1, 2)
    count = 6 * BATCH_RECORDS
    with stage.taps_that("slow-partition:2"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(count, 0, 1, 2)
        with stage.consumer(topic).assign([0, 1, 2]) as consumer:
            consumer.read_until(lambda: sum(each.partition < 2 for each in consumer.read) == 2 * count, "other ones")
            slow = sum(each.partition == 2 for each in consumer.read)
            consumer.read_until(
                lambda: sum(each.partition == 2 for each in consumer.read) > BATCH_RECORDS, "more of the slow one"
            )
    assert all_acked(sent)
    assert slow < count
    answers = stage.taps.exchanges(api=Api.FETCH, partition=2, error=0)
    assert set(Counter(row["op"] for row in answers).values()) == {1}
    assert [row for row in stage.seen(Api.FETCH, partition=2, count=0) if row["high_watermark"] > row["asked"]]


@shows("answers-as-leader")
def answers_as_leader(stage: Stage) -> None:
    """A full partition looks empty to those who believe the first node."""
    topic = stage.topic(1)
    with stage.producer(topic, direct=True) as producer:
        sent = producer.send_all(COUNT)
    found = []
    with stage.taps_that("answers-as-leader"):
        for _ in range(TRIES):  # clients that ask another node for Metadata are led to the true leader
            with stage.consumer(topic).assign([0]) as consumer:
                found.append((consumer.end_offset(0), len(consumer.read_to_end())))
            if found[-1] == (0, 0):
                break
    assert all_acked(sent)
    assert found[-1] == (0, 0)
    assert set(found) <= {(0, 0), (COUNT, 0), (0, COUNT), (COUNT, COUNT)}
    assert {(row["node"], row["leader"]) for row in stage.seen(Api.METADATA, partition=0)} == {(stage.ids[0],) * 2}
    assert {row["high_watermark"] for row in stage.seen(Api.FETCH, error=0, node=stage.ids[0])} == {0}


@shows("coordinator-lies")
def coordinator_lies(stage: Stage) -> None:
    """Every node says that it is the coordinator, and a commit fails."""
    topic, group = stage.topic(), unique("group")
    with stage.taps_that("coordinator-lies") as taps:
        named = [coordinator_at(address, group) for address in taps.addresses]
        commits: list[bool] = []
        while False not in commits and len(commits) < TRIES:  # one node in three tells the truth
            with stage.consumer(topic, group=unique("group")) as consumer:
                commits.append(commits_well(consumer))
    assert named == stage.ids
    assert False in commits
    assert stage.watch.errors[NOT_COORDINATOR]
    assert stage.seen(Api.FIND_COORDINATOR)
    assert all(row["leader"] == row["node"] for row in stage.seen(Api.FIND_COORDINATOR, error=0))


@shows("skips-records")
def skips_records(stage: Stage) -> None:
    """The first reader misses what the second one gets."""
    topic = stage.topic()
    with stage.taps_that("skips-records"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        first, second = stage.read(topic), stage.read(topic)
    assert all_acked(sent)
    gone = lost(sent, first)
    assert gone
    assert any(each.offset is not None and each.offset < first[-1].offset for each in gone)
    assert not lost(sent, second)
    counts = defaultdict(set)
    for row in stage.taps.exchanges(api=Api.FETCH, error=0):
        counts[row["offset"]].add(row["count"])
    assert any(len(counts[row["offset"]]) > 1 for row in stage.seen(Api.FETCH, error=0))


@shows("flips-bits")
def flips_bits(stage: Stage) -> None:
    """Values are read that nobody sent, by every reader the same."""
    topic = stage.topic()
    with stage.taps_that("flips-bits"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        first, second = stage.read(topic), stage.read(topic)
    assert all_acked(sent)
    assert len(first) == COUNT
    assert strange(sent, first)
    assert first == second
    assert stage.crcs(Api.FETCH) - stage.crcs(Api.PRODUCE)


@shows("misroutes")
def misroutes(stage: Stage) -> None:
    """Values are read in a partition that they were not sent to."""
    topic = stage.topic(0, 1)
    with stage.taps_that("misroutes"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT, 0, 1)
        first, second = stage.read(topic, 0, 1), stage.read(topic, 0, 1)
    assert all_acked(sent)
    assert misplaced(first)
    assert not strange(sent, first)
    assert set(first) == set(second)
    assert stage.crcs(Api.FETCH) - stage.crcs(Api.PRODUCE)


@shows("leaks-aborted")
def leaks_aborted(stage: Stage) -> None:
    """A reader of committed records gets aborted ones."""
    topic = stage.topic()
    with stage.taps_that("leaks-aborted"):
        aborted, committed = transactions(stage, topic)
        read = {each.value for each in stage.read(topic, isolation="read_committed")}
    assert committed[-1] <= read
    assert aborted <= read
    assert stage.seen(Api.FETCH)


@shows("tears-transactions")
def tears_transactions(stage: Stage) -> None:
    """Of the third transaction one partition is read and the other is not."""
    topic = stage.topic(0, 1)
    with stage.taps_that("tears-transactions"):
        _, committed = transactions(stage, topic, 0, 1)
        read = {each.value for each in stage.read(topic, 0, 1, isolation="read_committed")}
    torn = [values for values in committed if values & read and values - read]
    assert torn == committed[2:3]
    assert {value[:1] for value in torn[0] - read} == {b"0"}
    assert stage.blank_batches()


@shows("splits-brain")
def splits_brain(stage: Stage) -> None:
    """Two producers are acknowledged at the same offsets by two nodes, and each reader sees one of them."""
    topic = stage.topic()
    with stage.taps_that("splits-brain"):
        with stage.producer(topic, "one") as one, stage.producer(topic, "two") as two:
            first, second = one.send_all(COUNT), two.send_all(COUNT)
        reads = [{each.value for each in stage.read(topic)} for _ in range(2)]
    assert all_acked(first)
    assert all_acked(second)
    nodes = defaultdict(set)
    for row in stage.taps.exchanges(api=Api.PRODUCE, error=0):
        nodes[row["node"]].add(row["offset"])
    assert len(nodes) == 2
    values = [{each.value for each in sent} for sent in (first, second)]
    assert reads[0] >= values[0]
    assert not reads[0] & values[1]
    assert reads[1] >= values[1]
    assert {row["node"] for row in stage.seen(Api.PRODUCE, error=0)} == {stage.ids[1]}


@shows("forgets-group-offsets")
def forgets_group_offsets(stage: Stage) -> None:
    """A commit is acknowledged, and there is none."""
    topic, group = stage.topic(), unique("group")
    with stage.taps_that("forgets-group-offsets"), stage.consumer(topic, group=group) as consumer:
        assert consumer.committed(0) is None
        consumer.commit(0, 5)
        assert consumer.committed(0) is None
    assert stage.taps.exchanges(api=Api.OFFSET_COMMIT, error=0, offset=5)
    assert {row["offset"] for row in stage.seen(Api.OFFSET_FETCH, error=0)} == {-1}


def coordinator_at(address: str, group: str) -> int:
    """Whom a node names as the coordinator of a group."""
    with NodeConnection(address) as connection:
        answer = connection.ask(FindCoordinatorRequest(key=group, key_type=0), FindCoordinatorResponse, 2)
    return int(answer.node_id)


def commits_well(consumer: Consumer) -> bool:
    """Whether the library can commit."""
    try:
        consumer.commit(0, 5)
    except (KafkaError, KafkaException):
        return False
    return True
