"""Broken brokers whose logs, offsets and acknowledgements are wrong: each function shows one."""

from __future__ import annotations

from collections import Counter, defaultdict

from harness.foundation.protocol import Api
from harness.history.schema import Type
from tests.integration.broken_clients import BATCH_RECORDS
from tests.integration.broken_stage import (
    COUNT,
    Stage,
    all_acked,
    backwards,
    doubled,
    lost,
    reused,
    shows,
    unplaced,
)
from tests.support import eventually

NOT_LEADER, NOT_COORDINATOR, OUT_OF_ORDER, INVALID_RECORD = 6, 16, 45, 87
TRIES = 30  # where a client chooses at random whom it asks


@shows("watermark-is-next-offset")
def watermark_is_next_offset(stage: Stage) -> None:
    """Values are read whose sends fail, and others take their offsets."""
    topic = stage.topic()
    with stage.taps_that("watermark-is-next-offset"):
        with stage.consumer(topic).assign([0]) as early, stage.producer(topic) as producer:
            early.read_to_end()
            producer.send(COUNT)
            early.read_until(lambda: producer.done, "end of the sends")
            failed = {each.value for each in producer.outcomes() if not each.acked}
            ghosts = [each for each in early.read if each.value in failed]
        late = {each.offset: each.value for each in stage.read(topic)}
    assert ghosts
    assert not failed & set(late.values())
    assert any(late.get(each.offset, each.value) != each.value for each in ghosts)
    refused = {row["error"] for row in stage.seen(Api.PRODUCE, type=Type.OK)} - {0}
    assert refused
    assert refused <= {INVALID_RECORD, OUT_OF_ORDER}


@shows("watermark-overwritten-by-retry")
def watermark_overwritten_by_retry(stage: Stage) -> None:
    """The end falls below what was acknowledged, and comes back."""
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
def watermark_frozen(stage: Stage) -> None:
    """All sends are acknowledged, and 50 are read."""
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


@shows("acks-then-forgets")
def acks_then_forgets(stage: Stage) -> None:
    """Acknowledged values are missing before others that are read."""
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
    assert stage.blank_batches()


@shows("appends-retries-twice")
def appends_retries_twice(stage: Stage) -> None:
    """A value is at two offsets although its producer is idempotent."""
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
def serves_stale_reads(stage: Stage) -> None:
    """An end is below what was acknowledged before it was asked for; the next one is not."""
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
def reorders(stage: Stage) -> None:
    """Offsets do not rise with the order of the sends."""
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
def reuses_offsets(stage: Stage) -> None:
    """Two sends are acknowledged at one offset; the log is right."""
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
def acks_without_offset(stage: Stage) -> None:
    """Sends are acknowledged at no offset; the log is right."""
    topic = stage.topic()
    with stage.taps_that("acks-without-offset"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        read = stage.read(topic)
    assert all_acked(sent)
    assert unplaced(sent)
    assert not lost(sent, read)
    assert {row["offset"] for row in stage.seen(Api.PRODUCE)} == {-1}


@shows("end-offset-goes-back")
def end_offset_goes_back(stage: Stage) -> None:
    """Every 4th end is too low."""
    topic = stage.topic()
    with stage.taps_that("end-offset-goes-back"):
        with stage.producer(topic) as producer:
            sent = producer.send_all(COUNT)
        with stage.consumer(topic) as consumer:
            ends = [consumer.end_offset(0) for _ in range(8)]
    assert all_acked(sent)
    assert Counter(ends) == {COUNT: 6, COUNT - 10: 2}
    assert {row["offset"] for row in stage.seen(Api.LIST_OFFSETS)} == {COUNT - 10}
