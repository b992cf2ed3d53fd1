"""Brokers that hand out other records, or forget transactions and groups, do what their names say."""

from __future__ import annotations

from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.tap import codec
from harness.tap.batches import RecordBatch, with_base
from harness.tap.broken import make_broken
from harness.tap.broken.base import Broken
from harness.tap.effects import CHANGED, Effects
from harness.tap.exchange import Exchange
from tests.support.tap_broker import VERSIONS, Broker, batch_of
from tests.support.tap_frames import TOPIC_IDS, fetched, request_frame, response_frame, topics
from tests.support.tap_frames import exchange as exchange_of

every_version = pytest.mark.parametrize("versions", VERSIONS, ids=["old", "middle", "newest"])


def filled(broker: Broker, records: int, size: int, partition: int = 0) -> None:
    """Batches of a size, until there are so many records."""
    for start in range(0, records, size):
        values = [b"p%d-%d" % (partition, offset) for offset in range(start, start + size)]
        broker.produce(batch_of(*values), partition=partition)


def received(exchange: Exchange) -> Any:
    """The answer as the client reads it."""
    frame = codec.encode_response(exchange.response, 42, exchange.api, exchange.version)
    return codec.decode_response(frame, exchange.api, exchange.version)


@every_version
def test_skips_records(versions: dict[Api, int]) -> None:
    """Offsets 6, 13, 20 … for the first client; the last of a batch (27) never; a glance is no client."""
    broker = Broker(make_broken("skips-records", 1), versions)
    filled(broker, 40, 4)
    broker.fetch(0, client="probe", most=1)
    first = broker.fetch(0, client="first").part
    assert set(range(40)) - set(broker.values(first)) == {6, 13, 20, 34}
    assert set(broker.values(broker.fetch(0, client="second").part)) == set(range(40))
    again = broker.fetch(5, client="first").part
    assert set(range(4, 40)) - set(broker.values(again)) == {6, 13, 20, 34}


@every_version
def test_skips_records_that_are_alone(versions: dict[Api, int]) -> None:
    """A batch of one record is left out only when another one follows."""
    broker = Broker(make_broken("skips-records", 1), versions)
    filled(broker, 14, 1)
    assert set(range(14)) - set(broker.values(broker.fetch(0).part)) == {6}
    broker.produce(batch_of(b"more"))
    assert set(broker.values(broker.fetch(12, client="later").part)) == {12, 13, 14}  # somebody got it


@every_version
def test_flips_bits(versions: dict[Api, int]) -> None:
    """One bit of every 11th, the same for all."""
    broker = Broker(make_broken("flips-bits", 1), versions)
    filled(broker, 40, 5)
    values = broker.values(broker.fetch(0, client="first").part)
    assert values == broker.values(broker.fetch(0, client="second").part)
    changed = {offset for offset, value in values.items() if value != b"p0-%d" % offset}
    assert changed == {10, 21, 32}
    for offset in changed:
        was, now = int.from_bytes(b"p0-%d" % offset), int.from_bytes(values[offset] or b"")
        assert (was ^ now).bit_count() == 1


@every_version
def test_misroutes(versions: dict[Api, int]) -> None:
    """Every 13th was sent to another partition, the same for all."""
    broker = Broker(make_broken("misroutes", 1), versions)
    filled(broker, 30, 5)
    filled(broker, 30, 5, partition=1)
    values = broker.values(broker.fetch(0, client="first").part)
    assert {offset for offset, value in values.items() if not (value or b"").startswith(b"p0-")} == {12, 25}
    assert values[12] == b"p1-25"
    filled(broker, 5, 5, partition=1)
    assert broker.values(broker.fetch(0, client="second").part) == values


@every_version
def test_misroutes_nothing_from_a_single_partition(versions: dict[Api, int]) -> None:
    """There is no other value to give."""
    broker = Broker(make_broken("misroutes", 1), versions)
    filled(broker, 30, 5)
    assert set(broker.values(broker.fetch(0).part).values()) == {b"p0-%d" % offset for offset in range(30)}


@pytest.mark.parametrize("version", [4, 11, 18])
def test_leaks_aborted(version: int) -> None:
    """Only readers of committed records are told at all."""
    for isolation, expected in ((1, 0), (0, 1)):
        given = topics(Api.FETCH, version, {"orders": [{"partition": 0, "fetch_offset": 3}]})
        frame = request_frame(Api.FETCH, version, max_wait_ms=10, min_bytes=1, isolation_level=isolation, **given)
        exchange = exchange_of(frame)
        aborted = [{"producer_id": 5, "first_offset": 3}]
        batch = with_base(batch_of(b"gone", producer=5, transactional=True), 3)
        part = {"partition": 0, "aborted_transactions": aborted, "records": batch.raw}
        exchange.response_frame = _fetched(version, part)
        effects = make_broken("leaks-aborted", 1).on_response(exchange)
        assert list(effects) == ([] if expected else [CHANGED])
        (found,) = (part.message for part in codec.response_parts(Api.FETCH, received(exchange), exchange.world.names))
        assert len(found.aborted_transactions) == expected
        assert found.records == batch.raw


def _fetched(version: int, part: dict[str, Any]) -> bytes:
    if version >= 5:
        return fetched({"orders": [part]}, version)
    given = topics(
        Api.FETCH, version, {"orders": [{"high_watermark": 9, "last_stable_offset": 9, **part}]}, answer=True
    )
    return response_frame(Api.FETCH, version, **given)


def transaction(broker: Broker, number: int, partitions: tuple[int, ...], *, committed: bool = True) -> Effects:
    """A transaction that writes one batch to each partition, and ends."""
    for partition in partitions:
        value = b"t%d" % number
        broker.produce(_transactional(value, number), partition=partition)
    version = codec.CODECS[Api.END_TXN].newest
    frame = request_frame(
        Api.END_TXN, version, transactional_id="t", producer_id=5, producer_epoch=0, committed=committed
    )
    return broker.bend.on_request(exchange_of(frame))


def _transactional(value: bytes, number: int) -> RecordBatch:
    return batch_of(value, b"more", producer=5, sequence=10 * number, transactional=True)


@every_version
def test_tears_transactions(versions: dict[Api, int]) -> None:
    """Of every 3rd that is committed and has parts, the lowest partition is hidden."""
    broker = Broker(make_broken("tears-transactions", 1), versions)
    for number in range(4):
        transaction(broker, number, (1, 0))
        transaction(broker, 100 + number, (0, 1), committed=False)
        transaction(broker, 200 + number, (2,))
    hidden = broker.values(broker.fetch(0).part)
    assert [value for value in hidden.values() if value != b"more"] == [
        b"t0", b"t100", b"t1", b"t101", b"t102", b"t3", b"t103"
    ]  # fmt: skip
    assert len(broker.values(broker.fetch(0, partition=1).part)) == 16
    assert len(broker.values(broker.fetch(0, partition=2).part)) == 8


@every_version
def test_tears_transactions_in_one_partition(versions: dict[Api, int]) -> None:
    """Where there is but one, its first batch is hidden."""
    broker = Broker(make_broken("tears-transactions", 1), versions)
    for number in range(3):
        broker.produce(_transactional(b"first-%d" % number, 2 * number))
        transaction(broker, 2 * number + 1, (0,))
    values = [value for value in broker.values(broker.fetch(0).part).values() if value != b"more"]
    assert values == [b"first-0", b"t1", b"first-1", b"t3", b"t5"]


@pytest.mark.parametrize("commit", [Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT])
@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_forgets_group_offsets(commit: Api, version: int) -> None:
    """After a commit was acknowledged nothing is committed any more, for that group."""
    broken = make_broken("forgets-group-offsets", 1)
    assert _committed(broken, version, "g") == 9
    _commit(broken, commit, "g", error=27)
    assert _committed(broken, version, "g") == 9
    _commit(broken, commit, "g", error=0)
    assert _committed(broken, version, "g") == -1
    assert _committed(broken, version, "another") == 9


def _commit(broken: Broken, api: Api, group: str, error: int) -> None:
    version = codec.CODECS[api].newest
    given = topics(api, version, {"orders": [{"partition": 0, "committed_offset": 9}]})
    exchange = exchange_of(request_frame(api, version, group_id=group, **given))
    told = topics(api, version, {"orders": [{"partition": 0, "error_code": error}]}, answer=True)
    exchange.response_frame = response_frame(api, version, **told)
    assert not broken.on_response(exchange)


def _committed(broken: Broken, version: int, group: str) -> int:
    """The offset that a group is told."""
    answer = {"partition": 0, "committed_offset": 9, "metadata": "m"}
    if version >= 8:
        topic = {"topic_id": TOPIC_IDS["orders"]} if version >= 10 else {"name": "orders"}
        partitions = [{"partition_index": 0, "committed_offset": 9, "metadata": "m"}]
        told = {"groups": [{"group_id": group, "topics": [{**topic, "partitions": partitions}]}]}
        asked: dict[str, Any] = {"groups": [{"group_id": group, "topics": None}]}
    else:
        told = topics(Api.OFFSET_FETCH, version, {"orders": [answer]}, answer=True)
        asked = {"group_id": group, "topics": None}
    exchange = exchange_of(request_frame(Api.OFFSET_FETCH, version, **asked))
    exchange.response_frame = response_frame(Api.OFFSET_FETCH, version, **told)
    effects = broken.on_response(exchange)
    (part,) = codec.response_parts(Api.OFFSET_FETCH, received(exchange), exchange.world.names)
    assert (CHANGED in effects) == (part.message.committed_offset == -1)
    return int(part.message.committed_offset)
