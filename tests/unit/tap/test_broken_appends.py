"""Brokers that append, acknowledge or keep records wrongly do what their names say."""

from __future__ import annotations

import pytest

from harness.foundation.protocol import Api
from harness.tap.batches import RecordBatch
from harness.tap.broken import make_broken
from harness.tap.effects import CHANGED, Drop, Swap
from tests.support.tap_broker import VERSIONS, Broker, batch_of

pytestmark = pytest.mark.parametrize("versions", VERSIONS, ids=["old", "middle", "newest"])


def numbered(number: int, size: int = 2) -> RecordBatch:
    """The nth batch of a producer."""
    return batch_of(*(b"%d.%d" % (number, each) for each in range(size)), producer=7, sequence=number * size)


def test_acks_then_forgets(versions: dict[Api, int]) -> None:
    """The 5th batch was acknowledged and is not there; the end is before it until others follow."""
    broker = Broker(make_broken("acks-then-forgets", 1), versions)
    bases = [broker.produce(numbered(number)).part.base_offset for number in range(5)]
    assert bases == [0, 2, 4, 6, 8]
    assert (broker.end(), broker.latest()) == (10, 8)
    shown = broker.fetch(6).part
    assert (shown.high_watermark, set(broker.values(shown))) == (8, {6, 7})
    assert broker.produce(numbered(5)).part.base_offset == 10
    assert broker.latest() == 12
    assert set(broker.values(broker.fetch(0).part)) == set(range(12)) - {8, 9}
    alone = broker.fetch(8, most=2).part
    assert (broker.values(alone), bool(alone.records)) == ({}, True)  # a blank batch leads past it


def test_acks_then_forgets_has_no_race(versions: dict[Api, int]) -> None:
    """Between the append and its acknowledgement nobody sees it either, nor an end past it; a resend is the same."""
    broken = make_broken("acks-then-forgets", 1)
    now = 100.0
    broken.clock = lambda: now
    broker = Broker(broken, versions)
    for number in range(4):
        broker.produce(numbered(number))
    dropping = broken.on_response
    broken.on_response = lambda exchange: (  # type: ignore[method-assign]
        (Drop("close"),) if exchange.api == Api.PRODUCE else dropping(exchange)
    )
    assert broker.produce(numbered(4)).response is None
    assert broker.latest() == 8
    assert set(broker.values(broker.fetch(7).part)) == {6, 7}
    assert broker.fetch(8).part.high_watermark == 8
    broken.on_response = dropping  # type: ignore[method-assign]
    assert broker.produce(numbered(4)).part.base_offset == 8
    assert broker.latest() == 8
    now += 3
    assert broker.latest() == 8


def test_acks_then_forgets_what_was_acknowledged(versions: dict[Api, int]) -> None:
    """Sends that nobody acknowledges are left alone."""
    broker = Broker(make_broken("acks-then-forgets", 1), versions)
    for number in range(10):
        broker.produce(numbered(number), acks=0)
    assert broker.latest() == 20
    assert len(broker.values(broker.fetch(0).part)) == 20


def test_appends_retries_twice(versions: dict[Api, int]) -> None:
    """The answer to the 5th batch is lost, and its resend appended again although it has numbers."""
    broker = Broker(make_broken("appends-retries-twice", 1), versions)
    for number in range(4):
        assert broker.produce(numbered(number)).on_response == []
    assert broker.produce(numbered(4)).on_response == [Drop("close")]
    again = broker.produce(numbered(4), connection=2)
    assert again.on_request == [CHANGED]
    assert again.part.base_offset == 10
    assert broker.produce(numbered(5), connection=2).part.base_offset == 12
    values = broker.values(broker.fetch(8).part)
    assert (values[8], values[10], values[12]) == (b"4.0", b"4.0", b"5.0")


def test_appends_retries_twice_without_idempotence(versions: dict[Api, int]) -> None:
    """Nothing has to be done to the resend; transactions are left alone."""
    broker = Broker(make_broken("appends-retries-twice", 1), versions)
    outcomes = [broker.produce(batch_of(b"%d" % number)) for number in range(5)]
    assert outcomes[-1].on_response == [Drop("close")]
    assert broker.produce(batch_of(b"4"), connection=2).part.base_offset == 5
    for number in range(10):
        transactional = batch_of(b"t", producer=8, sequence=number, transactional=True)
        assert broker.produce(transactional, partition=1).on_response == []


def test_reorders(versions: dict[Api, int]) -> None:
    """Every 4th of a connection is overtaken; numbers that would show it are taken out."""
    broker = Broker(make_broken("reorders", 1), versions)
    effects = [broker.produce(numbered(number)).on_request for number in range(8)]
    assert [Swap(0.5) in each for each in effects] == [False, False, False, True] * 2
    assert all(CHANGED in each for each in effects)
    assert all(batch.producer_id == -1 for batch in broker.log[0])
    transactional = batch_of(b"t", producer=8, transactional=True)
    assert [broker.produce(transactional, connection=2).on_request for _ in range(4)] == [[]] * 4


def test_reuses_offsets(versions: dict[Api, int]) -> None:
    """The 5th acknowledgement has the offset of the 4th."""
    broker = Broker(make_broken("reuses-offsets", 1), versions)
    bases = [broker.produce(numbered(number)).part.base_offset for number in range(10)]
    assert bases == [0, 2, 4, 6, 6, 10, 12, 14, 16, 16]
    assert broker.end() == 20


def test_acks_without_offset(versions: dict[Api, int]) -> None:
    """The 5th acknowledgement has none."""
    broker = Broker(make_broken("acks-without-offset", 1), versions)
    answers = [broker.produce(numbered(number)).part for number in range(5)]
    assert [answer.base_offset for answer in answers] == [0, 2, 4, 6, -1]
    assert [answer.error_code for answer in answers] == [0] * 5
    assert broker.end() == 10
