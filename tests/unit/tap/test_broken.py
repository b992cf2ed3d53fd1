"""Broken brokers have names, arguments, and play no bug that nobody asked for."""

from __future__ import annotations

import pytest

from harness.foundation.errors import UsageError
from harness.foundation.protocol import Api
from harness.tap.broken import BROKEN, make_broken
from harness.tap.effects import Answer
from tests.support.tap_broker import NEWEST, VERSIONS, Broker, batch_of

NAMES = [
    "watermark-is-next-offset", "watermark-overwritten-by-retry", "watermark-frozen", "metadata-lists-self-only",
    "not-leader-forever", "fetch-hangs", "slow-partition", "acks-then-forgets", "appends-retries-twice",
    "serves-stale-reads", "reorders", "reuses-offsets", "acks-without-offset", "answers-as-leader", "coordinator-lies",
    "skips-records", "flips-bits", "misroutes", "leaks-aborted", "tears-transactions", "splits-brain",
    "forgets-group-offsets", "end-offset-goes-back",
]  # fmt: skip


def test_all_names_are_there() -> None:
    """And each says in one line what it plays."""
    assert list(BROKEN) == NAMES
    for name, broken in BROKEN.items():
        assert broken.name == name
        assert (broken.__doc__ or "").splitlines()[0].endswith(".")
        assert broken.apis


def test_arguments() -> None:
    """A number where one is meant."""
    assert make_broken("watermark-frozen", 0).number == 1_700
    assert make_broken("watermark-frozen:300", 0).number == 300
    assert make_broken("slow-partition", 0).number == 2
    assert make_broken("not-leader-forever:1", 0).number == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("watermark-frozn", "did you mean 'watermark-frozen'?"),
        ("nonsense", "known here: acks-then-forgets"),
        ("watermark-frozen:", "give the offset as a number: 'watermark-frozen:1700'"),
        ("fetch-hangs:-1", "give the partition as a number: 'fetch-hangs:0'"),
        ("reorders:3", "takes no argument: write 'reorders'"),
    ],
)
def test_mistakes_are_explained(text: str, said: str) -> None:
    """With what to write instead."""
    with pytest.raises(UsageError) as error:
        make_broken(text, 0)
    assert said in str(error.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("versions", VERSIONS, ids=["old", "middle", "newest"])
def test_first_batches_come_through(name: str, versions: dict[Api, int]) -> None:
    """Whatever the bug, what it leaves alone is right: partition 1, few batches."""
    broker = Broker(make_broken(name, 1), versions)
    broker.metadata()
    assert broker.produce(batch_of(b"a", b"b"), partition=1).part.base_offset == 0
    assert broker.produce(batch_of(b"c", producer=5), partition=1).part.base_offset == 2
    assert broker.values(broker.fetch(0, partition=1).part) == {0: b"a", 1: b"b", 2: b"c"}
    assert broker.latest(1) == 3


@pytest.mark.parametrize("name", [name for name in NAMES if Api.FETCH in BROKEN[name].apis])
def test_sessions_are_not_begun(name: str) -> None:
    """Every Fetch lists its partitions, because no session ever comes to be; one from before has to be opened anew."""
    broker = Broker(make_broken(name, 1))
    asked = broker.fetch(session=(0, 0)).exchange
    assert (asked.request.session_id, asked.request.session_epoch) == (0, -1)
    continued = broker.fetch(session=(77, 4))
    assert any(isinstance(effect, Answer) for effect in continued.on_request)
    assert (continued.response.error_code, continued.response.session_id) == (70, 0)


def test_kafkas_own_topics_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and transactions live there."""
    broker = Broker(make_broken("watermark-frozen:1", 0))
    broker.produce(batch_of(b"a", b"b"))
    assert broker.latest() == 1
    monkeypatch.setattr("tests.support.tap_broker.TOPIC", "__consumer_offsets")
    monkeypatch.setitem(broker.versions, Api.LIST_OFFSETS, NEWEST[Api.LIST_OFFSETS])
    assert broker.latest() == 2
