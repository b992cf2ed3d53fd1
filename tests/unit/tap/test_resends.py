"""Which batches came again after they were bent, and whose doing that was."""

from __future__ import annotations

import pytest

from harness.foundation.protocol import Api
from harness.tap import resends as module
from harness.tap.batch_headers import Records, batch_positions
from harness.tap.bounded_dict import BoundedDict
from harness.tap.effects import CHANGED, Close, Delay, Drop, Duplicate, Effect, Hold, Swap
from harness.tap.exchange import Exchange
from harness.tap.resends import ResendCounter
from tests.support import tap_frames as frames
from tests.support.tap_exchanges import batch
from tests.support.tap_frames import bend

PRODUCER = (77, 2, 10)


def sending(*records: bytes, topic: str = "orders", first: int = 0, version: int = 9) -> Exchange:
    """A send of one field of records for each partition."""
    parts = {topic: [{"partition": first + n, "records": each} for n, each in enumerate(records)]}
    named = frames.topics(Api.PRODUCE, version, parts)
    return frames.exchange(frames.request_frame(Api.PRODUCE, version, acks=-1, timeout_ms=1000, **named))


def held() -> Hold:
    """By a rule."""
    (effect,) = bend(action="hold").on_request(sending(batch()))
    assert isinstance(effect, Hold)
    return effect


@pytest.mark.parametrize("effect", [Drop(), Drop("close"), held(), Duplicate(), Close(), Close(reset=True)])
def test_what_makes_clients_send_again(effect: Effect) -> None:
    """A batch counts each time it comes after it was bent, and not otherwise."""
    resends = ResendCounter()
    resends.saw(sending(batch()))
    resends.bent(sending(batch()), "a", [effect])
    assert resends.counts == {}
    resends.saw(sending(batch()))
    resends.saw(sending(batch()))
    assert resends.counts == {"a": 1}
    resends.bent(sending(batch()), "a", [effect])
    resends.bent(sending(batch()), "b", [effect])
    resends.saw(sending(batch()))
    assert resends.counts == {"a": 2, "b": 1}


@pytest.mark.parametrize("effect", [Delay(1.0), Swap(), CHANGED])
def test_what_does_not(effect: Effect) -> None:
    """Nothing was lost, and nothing is awaited."""
    resends = ResendCounter()
    resends.bent(sending(batch()), "a", [effect])
    resends.saw(sending(batch()))
    assert resends.counts == {}


@pytest.mark.parametrize("other", [
    sending(batch(), topic="bills"), sending(batch(), first=1), sending(batch(crc=5)),
    sending(batch(producer=(78, 2, 10))), sending(batch(producer=(77, 3, 10))), sending(batch(producer=(77, 2, 11))),
    sending(b"xyz"), sending(),
])  # fmt: skip
def test_other_batches(other: Exchange) -> None:
    """Of another place, producer, epoch or number, or with other records."""
    resends = ResendCounter()
    resends.bent(sending(batch()), "a", [Drop()])
    resends.saw(other)
    assert resends.counts == {}


def test_each_batch_of_a_send() -> None:
    """Wherever it comes again, in whatever version."""
    resends = ResendCounter()
    one, two, three = (batch(crc=crc) for crc in (1, 2, 3))
    resends.bent(sending(one + two, three), "a", [Drop()])
    resends.saw(sending(three, first=1, version=13))
    assert resends.counts == {"a": 1}
    resends.saw(sending(one + two))
    assert resends.counts == {"a": 3}


def test_other_requests() -> None:
    """Are none of its business."""
    resends = ResendCounter()
    resends.bent(frames.exchange(frames.fetch({"orders": [0]})), "a", [Drop()])
    resends.bent(sending(batch()), "a", [Drop()])
    resends.saw(frames.exchange(frames.fetch({"orders": [0]})))
    assert resends.counts == {}


def test_nothing_is_looked_at_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before anything was bent nor when all of it has come again."""
    looked: list[Records] = []

    def look(records: Records) -> list[int]:
        looked.append(records)
        return batch_positions(records)

    monkeypatch.setattr(module, "batch_positions", look)
    resends = ResendCounter()
    resends.saw(sending(batch()))
    assert not looked
    resends.bent(sending(batch()), "a", [Drop()])
    resends.saw(sending(batch()))
    assert len(looked) == 2
    resends.saw(sending(batch()))
    assert len(looked) == 2


def test_memory_has_an_end() -> None:
    """The oldest are forgotten."""
    resends = ResendCounter()
    resends._awaited = BoundedDict(2)
    for crc in (1, 2, 3):
        resends.bent(sending(batch(crc=crc)), "a", [Drop()])
    for crc in (1, 2, 3):
        resends.saw(sending(batch(crc=crc)))
    assert resends.counts == {"a": 2}
