"""Brokers whose watermarks and end offsets are wrong show what their names say."""

from __future__ import annotations

import pytest

from harness.foundation.protocol import Api
from harness.tap.batches import with_base
from harness.tap.broken import make_broken
from harness.tap.broken.base import Broken
from harness.tap.codec import read_header
from harness.tap.effects import Delay, Drop
from harness.tap.exchange import Exchange
from tests.support.tap_broker import VERSIONS, Broker, batch_of
from tests.support.tap_frames import request_frame

pytestmark = pytest.mark.parametrize("versions", VERSIONS, ids=["old", "middle", "newest"])


class Clock:
    """Time that passes when told to."""

    def __init__(self, broken: Broken) -> None:
        self.now = 100.0
        broken.clock = lambda: self.now


def broker_with(name: str, versions: dict[Api, int]) -> tuple[Broker, Clock]:
    """A broker with a bug, and its clock."""
    broken = make_broken(name, 1)
    return Broker(broken, versions), Clock(broken)


def filled(broker: Broker, count: int, partition: int = 0) -> None:
    """So many batches of one record."""
    first = broker.end(partition)
    for number in range(first, first + count):
        broker.produce(batch_of(b"v%d" % number, producer=7, sequence=number), partition=partition)


def test_watermark_is_next_offset(versions: dict[Api, int]) -> None:
    """The 5th batch is read, then its producer gets an error, and others take its offsets."""
    broker, _ = broker_with("watermark-is-next-offset", versions)
    filled(broker, 4)
    lost = broker.produce(batch_of(b"lost", b"too", producer=7, sequence=4))
    assert lost.part.error_code == 87
    assert not lost.gate.gate.is_set()
    assert broker.end() == 4
    assert broker.latest() == 6
    glance = broker.fetch(4, most=1).part
    assert glance.high_watermark == 6
    assert not lost.gate.gate.is_set()
    waits = broker.produce(batch_of(b"waits"), client="another", connection=2)
    assert waits.gate.gate is lost.gate.gate
    broker.log[0].pop()
    shown = broker.fetch(2)
    assert shown.exchange.request.max_wait_ms == 100
    assert broker.values(shown.part) == {2: b"v2", 3: b"v3", 4: b"lost", 5: b"too"}
    assert shown.part.high_watermark == 6
    assert lost.gate.gate.is_set()
    assert broker.latest() == 4
    past = broker.fetch(6).part
    assert (past.error_code, past.high_watermark, past.records or b"") == (0, 4, b"")
    assert broker.produce(batch_of(b"other")).part.base_offset == 4
    assert broker.values(broker.fetch(4).part) == {4: b"other"}


def test_watermark_is_next_offset_knows_its_clients(versions: dict[Api, int]) -> None:
    """An idempotent kafka-python gets an error after which it goes on."""
    broker, _ = broker_with("watermark-is-next-offset", versions)
    for connection, name in ((1, "kafka-python"), (2, "librdkafka")):
        frame = request_frame(Api.API_VERSIONS, 4, client_software_name=name, client_software_version="1")
        hello = Exchange(broker.world, connection, 1, read_header(frame), frame, 0)
        assert broker.bend.on_request(hello) == broker.bend.on_response(hello) == ()
    filled(broker, 4, partition=0)
    filled(broker, 4, partition=1)
    filled(broker, 4, partition=2)
    assert broker.produce(batch_of(b"a", producer=7), connection=1).part.error_code == 45
    assert broker.produce(batch_of(b"a"), connection=1, partition=1).part.error_code == 87
    assert broker.produce(batch_of(b"a", producer=7), connection=2, partition=2).part.error_code == 87


def test_watermark_is_next_offset_gives_up(versions: dict[Api, int]) -> None:
    """When nobody reads it the batch is simply lost; until then it stays at the end, wherever that is."""
    broker, clock = broker_with("watermark-is-next-offset", versions)
    filled(broker, 4)
    unseen = broker.produce(batch_of(b"lost"))
    assert broker.latest() == 5
    broker.log[0].append(with_base(batch_of(b"was under way"), 4))
    assert broker.latest() == 6
    clock.now += 0.6
    assert broker.latest() == 5
    assert unseen.gate.gate.is_set()


def test_watermark_is_next_offset_leaves_transactions(versions: dict[Api, int]) -> None:
    """And sends that nobody acknowledges."""
    broker, _ = broker_with("watermark-is-next-offset", versions)
    for number in range(6):
        broker.produce(batch_of(b"v", producer=7, sequence=number, transactional=True))
        broker.produce(batch_of(b"w%d" % number), acks=0)
    assert broker.end() == 12


def test_watermark_overwritten_by_retry(versions: dict[Api, int]) -> None:
    """After the resend it is what it was before the first attempt, for a second."""
    broker, clock = broker_with("watermark-overwritten-by-retry", versions)
    filled(broker, 4)
    sent = batch_of(b"again", producer=7, sequence=4)
    assert broker.produce(sent).on_response == [Drop("close")]
    assert broker.latest() == 5
    assert broker.produce(batch_of(b"pipelined")).on_response == []
    assert broker.produce(sent, connection=2).part.base_offset == 4
    assert broker.latest() == 4
    shown = broker.fetch(3).part
    assert (shown.high_watermark, broker.values(shown)) == (4, {3: b"v3"})
    clock.now += 1.0
    assert broker.latest() == 6
    assert broker.fetch(3).part.high_watermark == 6


def test_watermark_overwritten_by_retry_for_some_answers(versions: dict[Api, int]) -> None:
    """Or for 20 answers."""
    broker, _ = broker_with("watermark-overwritten-by-retry", versions)
    filled(broker, 5)
    broker.produce(batch_of(b"again"), connection=2)
    assert [broker.latest() for _ in range(22)] == [4] * 20 + [6, 6]


def test_watermark_overwritten_by_retry_goes_on(versions: dict[Api, int]) -> None:
    """No other answer is lost until the truth was to be seen, or the client has given up."""
    broker, clock = broker_with("watermark-overwritten-by-retry", versions)
    assert _lost(broker, 12) == [4]
    broker.produce(batch_of(b"again"), connection=2)
    assert _lost(broker, 12) == []
    clock.now += 1.0
    assert _lost(broker, 12) == [4]
    clock.now += 30.0
    assert _lost(broker, 12) == [4]


def _lost(broker: Broker, count: int) -> list[int]:
    """Which of so many batches are not acknowledged."""
    first = broker.end()
    return [n for n in range(count) if broker.produce(batch_of(b"%d" % (first + n))).response is None]


def test_watermark_frozen(versions: dict[Api, int]) -> None:
    """Acknowledgements go on, reads do not."""
    broker, _ = broker_with("watermark-frozen:3", versions)
    broker.produce(batch_of(b"a", b"b"))
    assert broker.latest() == 2
    assert broker.produce(batch_of(b"c", b"d", b"e")).part.base_offset == 2
    assert broker.latest() == 3
    shown = broker.fetch(0)
    assert (shown.part.high_watermark, broker.values(shown.part)) == (3, {0: b"a", 1: b"b", 2: b"c"})
    assert not any(isinstance(effect, Delay) for effect in shown.on_response)
    nothing = broker.fetch(3)
    assert (nothing.part.high_watermark, nothing.part.records or b"") == (3, b"")
    assert Delay(0.1) in nothing.on_response
    assert not any(isinstance(effect, Delay) for effect in broker.fetch(3, wait_ms=0).on_response)


def test_serves_stale_reads(versions: dict[Api, int]) -> None:
    """Every 4th answer is a second old."""
    broker, clock = broker_with("serves-stale-reads", versions)
    filled(broker, 3)
    assert broker.latest() == 3
    clock.now += 0.5
    filled(broker, 2)
    assert broker.latest() == 5
    clock.now += 0.6
    assert broker.latest() == 5
    shown = broker.fetch(0).part
    assert (shown.high_watermark, len(broker.values(shown))) == (3, 3)
    assert [broker.latest() for _ in range(4)] == [5, 5, 5, 3]
    assert broker.latest(1) == 0


def test_end_offset_goes_back(versions: dict[Api, int]) -> None:
    """Every 4th answer is 10 lower, but not below 0."""
    broker, _ = broker_with("end-offset-goes-back", versions)
    filled(broker, 25)
    assert [broker.latest() for _ in range(8)] == [25, 25, 25, 15, 25, 25, 25, 15]
    filled(broker, 4, partition=1)
    assert [broker.latest(1) for _ in range(4)] == [4, 4, 4, 0]
    assert broker.latest(timestamp=-2) == 0
    assert broker.fetch(0).part.high_watermark == 25
