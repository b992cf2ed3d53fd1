"""Each broken broker visibly does its bug before real Kafka, with both clients, and nobody sees it without them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, make_cluster
from harness.history import Type
from harness.progress import Silent
from harness.tap.broken import BROKEN, make_broken
from harness.tap.codec import Api
from harness.tap.exchange import NOTHING, Bend, Effects, Exchange
from tests.integration.broken_clients import (
    BATCH_RECORDS,
    Consumer,
    Library,
    Producer,
    Read,
    Sent,
    make_consumer,
    make_producer,
)
from tests.integration.tapped import Tapped, tapped
from tests.support import PATIENCE_S, eventually, unique

pytestmark = pytest.mark.cluster
LIBRARIES: tuple[Library, ...] = ("kafka-python", "confluent-kafka")
COUNT = 200  # messages of a partition, unless a bug needs fewer
NOT_LEADER, NOT_COORDINATOR, INVALID_RECORD = 6, 16, 87
SEED = 7
TRIES = 30  # where a client chooses at random whom it asks


class Watch(Bend):
    """Counts what comes back to clients, while the taps are at work."""

    name = "watch"
    apis = frozenset({Api.FETCH, Api.OFFSET_COMMIT})

    def __init__(self) -> None:
        self.asked: Counter[tuple[int, int]] = Counter()  # Fetches by partition and offset
        self.errors: Counter[int] = Counter()

    def on_request(self, exchange: Exchange) -> Effects:
        """Note where it reads."""
        if exchange.api == Api.FETCH:
            self.asked.update((part.partition, part.message.fetch_offset) for part in exchange.asked())
        return NOTHING

    def on_response(self, exchange: Exchange) -> Effects:
        """Note errors."""
        self.errors.update(part.message.error_code for part in exchange.told())
        return NOTHING


class Stage:
    """One client library, a cluster, and taps before it."""

    def __init__(self, library: Library, cluster: Cluster, admin: KafkaAdminClient, run: Path) -> None:
        self.library = library
        self.nodes = cluster.nodes
        self.ids = [node.id for node in cluster.nodes]
        self.watch = Watch()
        self.name = ""
        self.taps: Tapped
        self._admin, self._run = admin, run

    @contextmanager
    def taps_that(self, broken: str | None) -> Iterator[Tapped]:
        """Taps before the cluster that play this broker; None for none."""
        self.name = (broken or "").partition(":")[0]
        bends = (make_broken(broken, SEED),) if broken else ()
        with tapped(self.nodes, self._run, self.watch, *bends) as self.taps:
            yield self.taps

    def topic(self, *leaders: int) -> str:
        """A topic on three nodes; its partitions are led by these of them, counted from 0."""
        name = unique("broken")
        ids = self.ids
        places = {at: ids[leader:] + ids[:leader] for at, leader in enumerate(leaders or (0,))}
        self._admin.create_topics({name: {"assignments": places}})
        self._admin.wait_for_topics([name], timeout_ms=PATIENCE_S * 1000)
        return name

    def producer(self, topic: str, name: str = "producer", *, direct: bool = False, **options: Any) -> Producer:
        """Of the library, through the first tap; or not through it."""
        where = self.nodes[0].address if direct else self.taps.bootstrap
        return make_producer(self.library, where, topic, unique(name), **options)

    def consumer(self, topic: str, name: str = "consumer", **options: Any) -> Consumer:
        """Of the library, through the first tap."""
        return make_consumer(self.library, self.taps.bootstrap, topic, unique(name), **options)

    def read(self, topic: str, *partitions: int, **options: Any) -> list[Read]:
        """What a new consumer finds, up to the end."""
        with self.consumer(topic, **options) as consumer:
            return consumer.assign(partitions or (0,)).read_to_end()

    def seen(self, api: Api, **wanted: object) -> list[dict[str, Any]]:
        """Exchanges that the broken broker bent."""
        return [row for row in self.taps.exchanges(api=api, **wanted) if row["name"] == self.name]


# what can be wrong


def lost(sent: Sequence[Sent], read: Sequence[Read]) -> list[Sent]:
    """Acknowledged and not read."""
    found = {each.value for each in read}
    return [each for each in sent if each.acked and each.value not in found]


def doubled(read: Sequence[Read]) -> dict[bytes, set[int]]:
    """Values at more than one offset."""
    offsets = defaultdict(set)
    for each in read:
        offsets[each.value].add(each.offset)
    return {value: found for value, found in offsets.items() if len(found) > 1}


def strange(sent: Sequence[Sent], read: Sequence[Read]) -> list[Read]:
    """Values that nobody sent."""
    known = {each.value for each in sent}
    return [each for each in read if each.value not in known]


def misplaced(read: Sequence[Read]) -> list[Read]:
    """Records in a partition that they were not sent to."""
    return [each for each in read if int(each.value.split(b"/")[0]) != each.partition]


def reused(sent: Sequence[Sent]) -> list[tuple[int, int | None]]:
    """Offsets that were acknowledged more than once."""
    counts = Counter((each.partition, each.offset) for each in sent if each.acked)
    return [place for place, count in counts.items() if count > 1]


def unplaced(sent: Sequence[Sent]) -> list[Sent]:
    """Acknowledged at no offset."""
    return [each for each in sent if each.offset is not None and each.offset < 0]


def backwards(sent: Sequence[Sent]) -> list[tuple[int, int]]:
    """Acknowledged at an offset below that of the message before it in its partition."""
    offsets = defaultdict(list)
    for each in sent:
        if each.offset is not None:
            offsets[each.partition].append(each.offset)
    return [pair for found in offsets.values() for pair in pairwise(found) if pair[1] < pair[0]]


def all_acked(sent: Sequence[Sent]) -> bool:
    """Nothing failed."""
    return bool(sent) and all(each.acked for each in sent)


# the bugs

Bug = Callable[[Stage], None]
BUGS: dict[str, Bug] = {}


def shows(name: str) -> Callable[[Bug], Bug]:
    """This function shows that bug."""

    def register(bug: Bug) -> Bug:
        BUGS[name] = bug
        return bug

    return register


@shows("watermark-is-next-offset")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("watermark-is-next-offset"):
        # one error that cannot be retried is the end of kafka-python's idempotent producer
        idempotent = stage.library == "confluent-kafka"
        with stage.consumer(topic).assign([0]) as early, stage.producer(topic, idempotent=idempotent) as producer:
            early.read_to_end()
            producer.send(COUNT)
            early.read_until(lambda: producer.done, "end of the sends")
            failed = {each.value for each in producer.outcomes() if not each.acked}
            ghosts = [each for each in early.read if each.value in failed]
        late = {each.offset: each.value for each in stage.read(topic)}
    assert ghosts
    assert not failed & set(late.values())
    assert any(late.get(each.offset, each.value) != each.value for each in ghosts)
    assert stage.seen(Api.PRODUCE, error=INVALID_RECORD)


@shows("watermark-overwritten-by-retry")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with (
        stage.taps_that("watermark-overwritten-by-retry") as taps,
        stage.consumer(topic) as consumer,
        stage.producer(topic) as producer,
    ):
        fallen = False
        for _ in range(TRIES):
            sent = producer.send_all(5 * BATCH_RECORDS)
            fallen = consumer.end_offset(0) < len(sent)
            if fallen:
                break
        assert all_acked(sent)
        assert fallen
        eventually(lambda: consumer.end_offset(0) == len(sent), "the true end")
        assert not lost(sent, stage.read(topic))
    sends = Counter(row["crc"] for row in taps.exchanges(api=Api.PRODUCE))
    assert any(sends[row["crc"]] > 1 for row in stage.seen(Api.PRODUCE, type=Type.INFO))
    assert stage.seen(Api.LIST_OFFSETS)


@shows("watermark-frozen")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("watermark-frozen:50"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        with stage.consumer(topic).assign([0]) as consumer:
            read = consumer.read_to_end()
            end = consumer.end_offset(0)
    assert all_acked(sent)
    assert [each.offset for each in read] == list(range(50))
    assert end == 50
    assert {row["high_watermark"] for row in stage.seen(Api.FETCH, error=0)} == {50}


@shows("metadata-lists-self-only")
def _(stage: Stage) -> None:
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
def _(stage: Stage) -> None:
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
def _(stage: Stage) -> None:
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
def _(stage: Stage) -> None:
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


@shows("acks-then-forgets")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("acks-then-forgets"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    gone = lost(sent, read)
    assert gone
    assert any(each.offset is not None and each.offset < read[-1].offset for each in gone)
    assert len(gone) + len(read) == COUNT
    assert stage.seen(Api.FETCH)


@shows("appends-retries-twice")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("appends-retries-twice"):
        with stage.producer(topic, idempotent=True) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    assert not lost(sent, read)
    assert doubled(read)
    placed = defaultdict(set)
    for row in stage.taps.exchanges(api=Api.PRODUCE, error=0):
        placed[row["producer_id"], row["producer_epoch"], row["sequence"]].add(row["offset"])
    assert any(len(offsets) > 1 for numbers, offsets in placed.items() if None not in numbers)
    assert stage.seen(Api.PRODUCE, type=Type.INFO)


@shows("serves-stale-reads")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with (
        stage.taps_that("serves-stale-reads"),
        stage.consumer(topic) as consumer,
        stage.producer(topic) as producer,
    ):
        ends: list[tuple[int, int]] = []
        while not any(end < acked for end, acked in ends) and len(ends) < 1_000:
            acked = len(producer.send_all(1))
            ends.append((consumer.end_offset(0), acked))
        assert all_acked(producer.outcomes())
        assert ends[-1][0] < ends[-1][1]
        assert consumer.end_offset(0) == ends[-1][1]
    assert stage.seen(Api.LIST_OFFSETS)


@shows("reorders")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("reorders"):
        # with idempotence both have one request for a partition under way when messages come all at once
        with stage.producer(topic, idempotent=False) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    assert backwards(sent)
    assert not lost(sent, read)
    assert [each.value for each in read] != [each.value for each in sent]
    assert stage.seen(Api.PRODUCE)


@shows("reuses-offsets")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("reuses-offsets"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    assert reused(sent)
    assert not lost(sent, read)
    offsets = Counter(row["offset"] for row in stage.taps.exchanges(api=Api.PRODUCE))
    assert any(offsets[row["offset"]] > 1 for row in stage.seen(Api.PRODUCE))


@shows("acks-without-offset")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("acks-without-offset"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    assert unplaced(sent)
    assert not lost(sent, read)
    assert {row["offset"] for row in stage.seen(Api.PRODUCE)} == {-1}


@shows("answers-as-leader")
def _(stage: Stage) -> None:
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
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("coordinator-lies"):
        for _ in range(TRIES):
            with stage.consumer(topic, group=unique("group")) as consumer:
                try_to_commit(consumer)
            if stage.watch.errors[NOT_COORDINATOR]:
                break
    assert stage.watch.errors[NOT_COORDINATOR]
    assert all(row["leader"] == row["node"] for row in stage.seen(Api.FIND_COORDINATOR, error=0))
    assert stage.seen(Api.FIND_COORDINATOR)


@shows("skips-records")
def _(stage: Stage) -> None:
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
    assert stage.seen(Api.FETCH)


@shows("flips-bits")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("flips-bits"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        first, second = stage.read(topic), stage.read(topic)
    assert all_acked(sent)
    assert len(first) == COUNT
    assert strange(sent, first)
    assert first == second
    assert stage.seen(Api.FETCH)


@shows("misroutes")
def _(stage: Stage) -> None:
    topic = stage.topic(0, 1)
    with stage.taps_that("misroutes"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT, 0, 1)
        first, second = stage.read(topic, 0, 1), stage.read(topic, 0, 1)
    assert all_acked(sent)
    assert misplaced(first)
    assert not strange(sent, first)
    assert set(first) == set(second)
    assert stage.seen(Api.FETCH)


@shows("leaks-aborted")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("leaks-aborted"):
        aborted, committed = transactions(stage, topic)
        read = {each.value for each in stage.read(topic, isolation="read_committed")}
    assert committed[-1] <= read
    assert aborted <= read
    assert stage.seen(Api.FETCH)


@shows("tears-transactions")
def _(stage: Stage) -> None:
    topic = stage.topic(0, 1)
    with stage.taps_that("tears-transactions"):
        _, committed = transactions(stage, topic, 0, 1)
        read = {each.value for each in stage.read(topic, 0, 1, isolation="read_committed")}
    torn = [values for values in committed if values & read and values - read]
    assert torn == committed[2:3]
    assert {value[:1] for value in torn[0] - read} == {b"0"}
    assert stage.seen(Api.FETCH)


@shows("splits-brain")
def _(stage: Stage) -> None:
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
def _(stage: Stage) -> None:
    topic, group = stage.topic(), unique("group")
    with stage.taps_that("forgets-group-offsets"), stage.consumer(topic, group=group) as consumer:
        assert consumer.committed(0) is None
        consumer.commit(0, 5)
        assert consumer.committed(0) is None
    assert stage.taps.exchanges(api=Api.OFFSET_COMMIT, error=0, offset=5)
    assert {row["offset"] for row in stage.seen(Api.OFFSET_FETCH, error=0)} == {-1}


@shows("end-offset-goes-back")
def _(stage: Stage) -> None:
    topic = stage.topic()
    with stage.taps_that("end-offset-goes-back"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        with stage.consumer(topic) as consumer:
            ends = [consumer.end_offset(0) for _ in range(8)]
    assert all_acked(sent)
    assert Counter(ends) == {COUNT: 6, COUNT - 10: 2}
    assert {row["offset"] for row in stage.seen(Api.LIST_OFFSETS)} == {COUNT - 10}


def try_to_commit(consumer: Consumer) -> None:
    """Whether that works is the library's affair."""
    try:
        consumer.commit(0, 5)
    except Exception:  # noqa: BLE001, S110 - each library has its own
        pass


def transactions(stage: Stage, topic: str, *partitions: int) -> tuple[set[bytes], list[set[bytes]]]:
    """One aborted transaction, then three committed ones: their values."""
    found: list[set[bytes]] = []
    before = 0
    with stage.producer(topic, transaction=unique("transaction")) as producer:
        for number in range(4):
            producer.begin()
            sent = producer.send_all(2 * BATCH_RECORDS, *partitions)
            producer.commit() if number else producer.abort()
            found.append({each.value for each in sent[before:]})
            before = len(sent)
        assert all_acked(sent)
    return found[0], found[1:]


# tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests of this module."""
    with make_cluster(ClusterSpec(kind="local"), Silent()) as running:
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


def test_every_broken_broker_is_shown() -> None:
    """A new one cannot be forgotten."""
    assert set(BUGS) == set(BROKEN)


@pytest.mark.parametrize(
    ("name", "library"),
    [pytest.param(name, library, id=f"{name}-{library}") for name in BROKEN for library in LIBRARIES],
)
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
    rows = stage.taps.exchanges()
    assert {row["name"] for row in rows} == {None}
    assert {row["type"] for row in rows if row["api"] == Api.PRODUCE} == {Type.OK}
    assert NOT_LEADER not in {row["error"] for row in rows}
