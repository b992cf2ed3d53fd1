"""What tests of broken brokers share: taps with one of them, client libraries before it, and what can be wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient

from harness.clusters.base import Cluster
from harness.foundation.protocol import Api
from harness.tap.broken import make_broken
from harness.tap.effects import NOTHING, Effects
from harness.tap.exchange import Bend, Exchange
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
from tests.integration.tapped_cluster import Tapped, tapped
from tests.support import PATIENCE_S, unique

COUNT = 200  # messages of a partition, unless a bug needs fewer
SEED = 7


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
            self.asked.update((part.partition, part.message.fetch_offset) for part in exchange.request_parts())
        return NOTHING

    def on_response(self, exchange: Exchange) -> Effects:
        """Note errors."""
        self.errors.update(part.message.error_code for part in exchange.response_parts())
        return NOTHING


class Stage:
    """One client library, a cluster, and taps before it."""

    def __init__(self, library: Library, cluster: Cluster, admin: KafkaAdminClient, run: Path) -> None:
        self.library = library
        self.nodes = cluster.nodes
        self.ids = [node.id for node in cluster.nodes]
        self.watch = Watch()
        self.name: str | None = None
        self.taps: Tapped
        self._admin, self._run = admin, run

    @contextmanager
    def taps_that(self, broken: str | None) -> Iterator[Tapped]:
        """Taps before the cluster that play this broker; None for none."""
        self.name = broken.partition(":")[0] if broken else None
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
        """Exchanges that the broken broker bent; all when there is none."""
        return [row for row in self.taps.exchanges(api=api, **wanted) if row["name"] == self.name]

    def crcs(self, api: Api, **wanted: object) -> set[int]:
        """Checksums of the batches that passed."""
        return {row["crc"] for row in self.taps.exchanges(api=api, **wanted) if row["crc"] is not None}

    def blank_batches(self) -> list[dict[str, Any]]:
        """Batches without records that were handed out."""
        return [row for row in self.seen(Api.FETCH, count=0) if row["offset"] is not None]


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


# which function shows which bug

Bug = Callable[[Stage], None]
BUGS: dict[str, Bug] = {}


def shows(name: str) -> Callable[[Bug], Bug]:
    """This function shows that bug."""

    def register(bug: Bug) -> Bug:
        BUGS[name] = bug
        return bug

    return register
