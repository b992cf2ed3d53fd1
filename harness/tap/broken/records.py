"""Brokers that hand out other records than they took, or forget what transactions and groups agreed on."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from harness.foundation.protocol import READ_COMMITTED, Api
from harness.tap.batches import RecordBatch, blank, split, with_values, without
from harness.tap.bounded_dict import BoundedDict
from harness.tap.broken.base import (
    Broken,
    Counters,
    FetchBend,
    Place,
    concerns,
    data_response_parts,
    put_records,
    reads_watermarks_only,
    sent,
)
from harness.tap.codec import PartitionPart
from harness.tap.effects import CHANGED, NOTHING, Effects
from harness.tap.exchange import Exchange

CACHED = 50  # batches that were made anew
GROUPS_IN_A_LIST_SINCE = 8  # version of OffsetFetch


class FetchedBatch(NamedTuple):
    """A batch in the answer to a fetch, and what it answers."""

    exchange: Exchange
    place: Place
    question: PartitionPart
    batch: RecordBatch
    is_last: bool  # whole batch of the answer


class RecordsBend(FetchBend):
    """Hands out other batches than there are."""

    apis = frozenset({Api.FETCH})

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:
        """Batch by batch; markers stay."""
        batches = split(answer.records)
        if not batches or reads_watermarks_only(question):
            return False
        shown = [
            batch
            if batch.is_control or not batch.whole
            else self.shown(FetchedBatch(exchange, place, question, batch, not any(b.whole for b in batches[at + 1 :])))
            for at, batch in enumerate(batches)
        ]
        if shown == batches:
            return False
        put_records(answer, shown)
        return True

    def shown(self, fetched: FetchedBatch) -> RecordBatch:
        """What is handed out in place of a batch."""
        return fetched.batch


def _nth_offsets(batch: RecordBatch, n: int) -> range:
    """The offsets of a batch that are an nth of the partition."""
    first = batch.base_offset + (n - 1 - batch.base_offset) % n
    return range(first, batch.next_offset, n)


class SkipsRecords(RecordsBend):
    """Every 7th record is left out of the answer to the first client that would get it; other clients get it."""

    name = "skips-records"
    every = 7

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._skipped_for: BoundedDict[tuple[Place, int], str | None] = BoundedDict()

    def shown(self, fetched: FetchedBatch) -> RecordBatch:
        """Records in the middle, so that the client goes on behind them."""
        exchange, place, question, batch, is_last = fetched
        skipped = set()
        for offset in _nth_offsets(batch, self.every):
            if offset < question.message.fetch_offset:
                continue
            if (place, offset) not in self._skipped_for:
                is_at_the_end = offset == batch.last_offset and (batch.count > 1 or is_last)
                self._skipped_for[place, offset] = None if is_at_the_end else exchange.client
            if self._skipped_for[place, offset] == exchange.client:
                skipped.add(offset)
        return without(batch, skipped) if skipped else batch


class FlipsBits(RecordsBend):
    """One bit of the value of every 11th record is flipped, and the checksum of its batch made right again."""

    name = "flips-bits"
    every = 11

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._cache: BoundedDict[tuple[Place, int, int], RecordBatch] = BoundedDict(CACHED)

    def shown(self, fetched: FetchedBatch) -> RecordBatch:
        """The same for every reader."""
        place, batch = fetched.place, fetched.batch
        offsets = _nth_offsets(batch, self.every)
        if not offsets or batch.records is None:
            return batch
        key = (place, batch.base_offset, batch.crc)
        if key not in self._cache:
            flipped = {
                record.offset: self._flipped(record.offset, record.value)
                for record in batch.records
                if record.offset in offsets and record.value
            }
            self._cache[key] = with_values(batch, flipped)
        return self._cache[key]

    def _flipped(self, offset: int, value: bytes) -> bytes:
        bit = (self.seed + offset * 7_919) % (8 * len(value))
        changed = bytearray(value)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)


class Misroutes(RecordsBend):
    """Every 13th record is one of another partition: its value was sent there."""

    name = "misroutes"
    apis = RecordsBend.apis | {Api.PRODUCE}
    every = 13
    lately = 32
    value_at_most = 16_384
    remembered = 4_000

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._lately: BoundedDict[str, deque[tuple[int, bytes]]] = BoundedDict(100)
        self._moved: BoundedDict[tuple[Place, int], bytes | None] = BoundedDict(self.remembered)

    def on_request(self, exchange: Exchange) -> Effects:
        """Take note of values."""
        if exchange.api != Api.PRODUCE:
            return super().on_request(exchange)
        for (topic, partition), _, batch in sent(exchange):
            value = batch.records[0].value if batch.records else None
            if value and len(value) <= self.value_at_most:
                if topic not in self._lately:
                    self._lately[topic] = deque(maxlen=self.lately)
                self._lately[topic].append((partition, value))
        return NOTHING

    def shown(self, fetched: FetchedBatch) -> RecordBatch:
        """The same for every reader, for as long as it is remembered."""
        place, batch = fetched.place, fetched.batch
        values: dict[int, bytes | None] = {}
        for offset in _nth_offsets(batch, self.every):
            if (place, offset) not in self._moved:
                self._moved[place, offset] = self._from_elsewhere(place)
            value = self._moved[place, offset]
            if value is not None:
                values[offset] = value
        return with_values(batch, values) if values else batch

    def _from_elsewhere(self, place: Place) -> bytes | None:
        topic, here = place
        return next((value for partition, value in reversed(self._lately.get(topic, ())) if partition != here), None)


class LeaksAborted(FetchBend):
    """Readers of committed records are not told which transactions were aborted, so they get those records too."""

    name = "leaks-aborted"
    apis = frozenset({Api.FETCH})

    def fetched(self, exchange: Exchange, place: Place, question: PartitionPart, answer: Any) -> bool:  # noqa: ARG002
        """An empty list."""
        if exchange.request.isolation_level != READ_COMMITTED or not answer.aborted_transactions:
            return False
        answer.aborted_transactions = []
        return True


class TearsTransactions(RecordsBend):
    """Of every 3rd transaction that is committed a part stays hidden: what it wrote to its lowest partition.

    Where it wrote to one partition only its first batch is hidden; one of a single batch cannot be torn.
    """

    name = "tears-transactions"
    apis = RecordsBend.apis | {Api.PRODUCE, Api.END_TXN}
    every = 3
    batches_at_most = 1_000  # that are remembered of a transaction

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._counters = Counters()
        self._open: BoundedDict[int, BoundedDict[tuple[Place, int], bool]] = BoundedDict(1_000)
        self._hidden: BoundedDict[tuple[Place, int], bool] = BoundedDict()

    def on_request(self, exchange: Exchange) -> Effects:
        """Decide before the commit is there, so that nobody sees the whole of it."""
        if exchange.api == Api.PRODUCE:
            for place, _, batch in sent(exchange):
                if batch.is_transactional:
                    if batch.producer_id not in self._open:
                        self._open[batch.producer_id] = BoundedDict(self.batches_at_most)
                    self._open[batch.producer_id][place, batch.crc] = True
            return NOTHING
        if exchange.api == Api.END_TXN:
            written = list(self._open.pop(exchange.request.producer_id, ()))
            if exchange.request.committed and len(written) > 1 and self._counters.is_nth("committed", self.every):
                lowest = min(place for place, _ in written)
                torn = [each for each in written if each[0] == lowest]
                for each in torn if len(torn) < len(written) else torn[:1]:
                    self._hidden[each] = True
            return NOTHING
        return super().on_request(exchange)

    def shown(self, fetched: FetchedBatch) -> RecordBatch:
        """Blank."""
        batch = fetched.batch
        return blank(batch) if (fetched.place, batch.crc) in self._hidden else batch


class ForgetsGroupOffsets(Broken):
    """From its first acknowledged commit on, a group's committed offsets are not found."""

    name = "forgets-group-offsets"
    apis = frozenset({Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT, Api.OFFSET_FETCH})

    def __init__(self, argument: str | None, seed: int) -> None:
        super().__init__(argument, seed)
        self._groups: BoundedDict[str, bool] = BoundedDict()

    def on_response(self, exchange: Exchange) -> Effects:
        """Take note of commits, and answer -1."""
        if exchange.api != Api.OFFSET_FETCH:
            if any(True for _ in data_response_parts(exchange)):
                self._groups[exchange.request.group_id] = True
            return NOTHING
        if exchange.version >= GROUPS_IN_A_LIST_SINCE:
            found = [(group.group_id, group.topics) for group in exchange.response.groups]
        else:
            found = [(exchange.request.group_id, exchange.response.topics)]
        changed = False
        for group, topics in found:
            for topic in topics if group in self._groups else ():
                if not concerns(exchange.world.names.of(topic, "name")):
                    continue
                for answer in topic.partitions:
                    if answer.committed_offset >= 0:
                        answer.committed_offset = answer.committed_leader_epoch = -1
                        answer.metadata = ""
                        changed = True
        return (CHANGED,) if changed else NOTHING
