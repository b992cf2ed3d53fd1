"""What the tap records of Produce, Fetch, ListOffsets and Metadata, in all versions, answered or not."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.foundation.protocol import Api
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, ID_BITS, KINDS, Kind, OffsetView, Type, now, row_struct, row_type
from harness.history.segments import Damage, Segment
from harness.tap.codec import CODECS
from harness.tap.exchange_recorder import NOT_UNDERSTOOD, OWN_TOPICS, TOPICS_AT_MOST
from tests.support.tap_exchanges import (
    BATCH,
    ENDED,
    INVOKED,
    ORDERS_ID,
    PLACE,
    PROCESS,
    Wire,
    batch,
    fetch,
    made,
    on_orders,
    produce,
    rows_of,
    without_id,
)  # fmt: skip

MEMBER = {"group_id": "g", "generation_id": 6, "member_id": "m"}


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    """A seer and what it sees."""
    return Wire(tmp_path)


def test_a_packed_row_is_a_row_of_the_schema() -> None:
    """Whoever packs rows one by one writes the same as whoever fills columns."""
    for kind in Kind:
        packed = row_struct(kind)
        assert packed.size == row_type(kind).itemsize
        row = np.frombuffer(packed.pack(*range(len(KINDS[kind]))), row_type(kind))[0]
        assert list(row.item()) == list(range(len(KINDS[kind])))


def test_appended_rows_and_written_ones_have_their_own_events(tmp_path: Path) -> None:
    """Numbers are taken from one counter."""
    with Recorder(tmp_path / "1.segment", 1) as recorder:
        recorder.write(Kind.PHASE, 2, name="a")
        first = recorder.new_events(3)
        recorder.append(Kind.PHASE, 0, b"")
        recorder.write(Kind.PHASE, 1, name="b")
    assert first == (1 << ID_BITS) + 2
    assert [frame.rows for frame in Segment(tmp_path / "1.segment").frames()] == [2, 1]


@pytest.mark.parametrize("version", [3, 8, 12, 13])
def test_produce(wire: Wire, version: int) -> None:
    """What was sent and what became of it."""
    (row,) = wire.rows(wire.of(Api.PRODUCE, version, *produce(batch())))
    expected = {**PLACE, **BATCH, "acks": -1, "error": 0, "offset": 40, "detail": "pay"}
    assert row == expected | ({"log_start": 2} if version >= 5 else {})


def test_every_row_says_whose_it_is(wire: Wire) -> None:
    """Client, connection, node, request and times; all rows of an exchange have its number."""
    exchange = wire.of(Api.PRODUCE, 9, *produce(batch(), batch(crc=5)))
    exchange.bent.extend(["slow", "flips-bits"])
    wire.rows(exchange, Type.FAIL)
    rows = wire.everything()
    assert [row["event"] for row in rows] == [PROCESS << ID_BITS, (PROCESS << ID_BITS) + 1]
    for row in rows:
        assert (row["op"], row["time"], row["invoked"], row["process"]) == (exchange.number, ENDED, INVOKED, PROCESS)
        assert (row["type"], row["connection"], row["node"], row["client"]) == (Type.FAIL, 9, 1, "app")
        assert (row["api"], row["api_version"], row["name"]) == (Api.PRODUCE, 9, "slow,flips-bits")


def test_several_batches_for_one_partition_are_several_rows(wire: Wire) -> None:
    """The answer has the offset of the first."""
    first, second = wire.rows(wire.of(Api.PRODUCE, 9, *produce(batch(), batch(crc=5, count=1))))
    assert (first["offset"], first["crc"], first["count"]) == (40, 0xFFFF_0000 - 2**32, 3)
    assert "offset" not in second
    assert (second["crc"], second["count"], second["error"]) == (5, 1, 0)


def test_a_send_without_idempotence_has_no_producer(wire: Wire) -> None:
    """And no sequence."""
    (row,) = wire.rows(wire.of(Api.PRODUCE, 9, *produce(batch(producer=(-1, -1, -1)))))
    assert not {"producer_id", "producer_epoch", "sequence"} & set(row)


def test_a_refused_send_has_no_offset_and_tells_the_leader(wire: Wire) -> None:
    """Since version 10 the answer knows who leads."""
    leader = {"leader_id": 2, "leader_epoch": 8}
    request, response = produce(batch(), error=6, offset=-1, current_leader=leader)
    (row,) = wire.rows(wire.of(Api.PRODUCE, 12, request, response))
    assert (row["error"], row["leader"], row["leader_epoch"]) == (6, 2, 8)
    assert "offset" not in row


def test_an_acknowledgement_without_an_offset_can_be_seen(wire: Wire) -> None:
    """It is a lie that somebody has to be able to find."""
    (row,) = wire.rows(wire.of(Api.PRODUCE, 9, *produce(batch(), offset=-1)))
    assert (row["offset"], row["error"]) == (-1, 0)


@pytest.mark.parametrize("records", [b"", b"\x00" * 100, b"nonsense"])
def test_a_send_without_batches_is_a_row(wire: Wire, records: bytes) -> None:
    """With messages of an old format, too."""
    (row,) = wire.rows(wire.of(Api.PRODUCE, 2, *produce(records)))
    assert (row["offset"], row["error"]) == (40, 0)
    assert "count" not in row


def test_no_answer_means_no_error_code(wire: Wire) -> None:
    """Neither good nor bad: the rows are those of the request."""
    (row,) = wire.rows(wire.of(Api.PRODUCE, 9, produce(batch(), acks=0)[0]), Type.INFO)
    assert row == {**PLACE, **BATCH, "acks": 0, "detail": "pay"}


def test_a_bent_request_is_shown_as_the_client_sent_it(wire: Wire) -> None:
    """And the answer as the client got it."""
    exchange = wire.of(Api.PRODUCE, 9, *produce(batch()))
    exchange.request.topic_data = []
    exchange.response.responses[0].partition_responses[0].base_offset = 39
    exchange.bent.append("misroutes")
    (row,) = wire.rows(exchange)
    assert row == {**PLACE, **BATCH, "acks": -1, "error": 0, "offset": 39, "detail": "pay", "log_start": 2,
                   "name": "misroutes"}  # fmt: skip


@pytest.mark.parametrize("version", [4, 9, 12, 13, 18])
def test_fetch(wire: Wire, version: int) -> None:
    """A row per batch, with what the node said of its log."""
    torn = batch(33)[:-5]
    rows = wire.rows(wire.of(Api.FETCH, version, *fetch(batch(30) + batch(32, crc=9) + torn)))
    expected = {**PLACE, **BATCH, "asked": 30, "view": OffsetView.LATEST_COMMITTED, "error": 0, "high_watermark": 50,
                "last_stable_offset": 45}  # fmt: skip
    expected |= ({"log_start": 2} if version >= 5 else {}) | ({"leader_epoch": 4} if version >= 9 else {})
    assert rows == [{**expected, "offset": 30}, {**expected, "offset": 32, "crc": 9}]


def test_many_batches_are_read_at_once_and_alike(wire: Wire) -> None:
    """The quick way writes what the other one writes, and leaves nobody's event out."""
    crc = 0xFFFF_0000
    records = b"".join(batch(3 * n, crc=crc + n, producer=(-1, -1, -1) if n % 2 else (n, 1, n)) for n in range(40))
    rows = wire.rows(wire.of(Api.FETCH, 12, *fetch(records, isolation=0)))
    shown = [(row["offset"], row["crc"], row["view"]) for row in rows]
    assert shown == [(3 * n, crc - 2**32 + n, 2) for n in range(40)]
    assert [row.get("producer_id") for row in rows] == [None if n % 2 else n for n in range(40)]
    assert [row.get("sequence") for row in rows] == [None if n % 2 else n for n in range(40)]
    events = [row["event"] for row in wire.everything()]
    assert events == list(range(events[0], events[0] + 40))


@pytest.mark.parametrize("records", [None, b"", batch()[:-1]])
def test_a_fetch_of_nothing_is_a_row_with_no_records(wire: Wire, records: bytes) -> None:
    """The watermarks are worth it."""
    (row,) = wire.rows(wire.of(Api.FETCH, 11, *fetch(records)))
    assert (row["count"], row["high_watermark"]) == (0, 50)
    assert "offset" not in row


def test_a_fetch_without_partitions_is_a_row(wire: Wire) -> None:
    """A session that has nothing new, or that is refused."""
    (row,) = wire.rows(wire.of(Api.FETCH, 12, fetch(b"")[0], {"error_code": 71, "responses": []}))
    assert row == {"error": 71, "view": OffsetView.LATEST_COMMITTED}


def test_a_fetch_of_a_session_does_not_say_what_it_asked(wire: Wire) -> None:
    """Its answer has partitions that the request does not list."""
    (row,) = wire.rows(wire.of(Api.FETCH, 12, {"topics": []}, fetch(batch(30))[1]))
    assert (row["offset"], row["high_watermark"]) == (30, 50)
    assert not {"asked", "leader_epoch"} & set(row)


def test_a_fetch_that_nobody_answered(wire: Wire) -> None:
    """What it asked for."""
    (row,) = wire.rows(wire.of(Api.FETCH, 12, fetch(b"")[0]), Type.INFO, "the client left")
    assert row == {**PLACE, "asked": 30, "view": 3, "leader_epoch": 4, "detail": "the client left"}


@pytest.mark.parametrize("version", [0, 1, 5, 11])
@pytest.mark.parametrize(("timestamp", "isolation", "view"), [(-2, 1, 1), (-1, 0, 2), (-1, 1, 3), (99, 0, None)])
def test_list_offsets(wire: Wire, version: int, timestamp: int, isolation: int, view: int | None) -> None:
    """The view is that of probes."""
    request = {"partition_index": 1, "timestamp": timestamp, "max_num_offsets": 1}
    answer = {"partition_index": 1, "error_code": 0, "offset": 8, "leader_epoch": 4, "old_style_offsets": [8, 0]}
    (row,) = wire.rows(
        wire.of(
            Api.LIST_OFFSETS, version,
            {"isolation_level": isolation, **without_id(on_orders("topics", "name", "partitions", request))},
            without_id(on_orders("topics", "name", "partitions", answer)),
        )
    )  # fmt: skip
    if version < 2 and view == OffsetView.LATEST_COMMITTED:
        view = OffsetView.LATEST
    expected = {**PLACE, "asked": timestamp, "offset": 8, "error": 0}
    expected |= ({"leader_epoch": 4} if version >= 4 else {}) | ({} if view is None else {"view": view})
    assert row == expected


@pytest.mark.parametrize("version", [1, 8, 12, 13])
def test_metadata(wire: Wire, version: int) -> None:
    """Partitions, topics that are none, and the brokers with each."""
    part = {"error_code": 5, "partition_index": 1, "leader_id": -1, "leader_epoch": 6, "isr_nodes": [3, 1],
            "replica_nodes": [1]}  # fmt: skip
    response = {
        "brokers": [{"node_id": node, "host": "h", "port": 1} for node in (3, 1, 2)],
        "topics": [
            {"error_code": 0, "name": "orders", "topic_id": ORDERS_ID, "partitions": [part]},
            {"error_code": 3, "name": "gone", "topic_id": UUID(int=0), "partitions": []},
        ],
    }
    request = {"topics": [{"name": "orders", "topic_id": UUID(int=0)}]}
    orders, gone = wire.rows(wire.of(Api.METADATA, version, request, response))
    brokers = {"brokers": "1,2,3", "count": 3}
    assert orders == {**PLACE, **brokers, "error": 5, "leader": -1, "isr": "1,3"} | (
        {"leader_epoch": 6} if version >= 7 else {}
    )
    assert gone == {**brokers, "topic": OWN_TOPICS, "error": 3}
    assert Segment(wire.path).topics == {3: "orders", OWN_TOPICS: "gone"}


def test_metadata_without_topics_or_answer(wire: Wire) -> None:
    """The list of brokers is worth a row."""
    wire.seer.saw(wire.of(Api.METADATA, 9, {"topics": None}), Type.INFO, ENDED)
    answer = {"brokers": [{"node_id": 4, "host": "h", "port": 1}], "topics": []}
    none, empty = wire.rows(wire.of(Api.METADATA, 9, {"topics": []}, answer))
    assert none == {}
    assert empty == {"brokers": "4", "count": 1, "error": 0}


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_find_coordinator(wire: Wire, version: int) -> None:
    """Where a group or a transaction is looked after."""
    found = {"key": "pay", "node_id": 2, "host": "two", "port": 9, "error_code": 0, "error_message": None}
    response = found | {"coordinators": [found]}
    response.pop("key")
    request = {"key": "pay", "key_type": 1, "coordinator_keys": ["pay"]}
    (row,) = wire.rows(wire.of(Api.FIND_COORDINATOR, version, request, response))
    assert row == {"error": 0, "leader": 2, "detail": "transaction pay at two:9"}


def test_find_coordinator_without_an_answer(wire: Wire) -> None:
    """What was looked for."""
    (row,) = wire.rows(wire.of(Api.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]}), Type.INFO, "reset")
    assert row == {"detail": "group g (reset)"}


def test_other_requests_are_one_row(wire: Wire) -> None:
    """With their error, if they have one that can be read."""
    for response in (b"\x00\x23" + bytes(4), b"\x00", None):
        wire.seer.saw(wire.exchange(Api.API_VERSIONS, 0, b"", response), Type.OK, ENDED)
    told, garbled, unanswered = wire.rows(wire.of(Api.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}))[:3]
    assert told == {"error": 35}
    assert garbled == unanswered == {}
    assert wire.seer.not_understood == 0


@pytest.mark.parametrize(("api", "version"), [(9999, 0), (Api.PRODUCE, 99), (-5, -5)])
def test_what_nobody_understands_is_counted(wire: Wire, api: int, version: int) -> None:
    """An API of the future, a newer version, nonsense."""
    assert wire.rows(wire.exchange(api, version, b"?", b"!")) == [{"detail": NOT_UNDERSTOOD}]
    assert wire.seer.not_understood == 1


def test_garbage_is_one_row_that_says_so(wire: Wire) -> None:
    """In the request or in the answer."""
    request, response = (each and bytes(each.encode(version=9)) for each in (
        made(CODECS[0].request, 9, produce(batch())[0]), made(CODECS[0].response, 9, produce(batch())[1])))  # fmt: skip
    assert request
    wire.seer.saw(wire.exchange(Api.PRODUCE, 9, request[:20], response), Type.OK, ENDED)
    wire.seer.saw(wire.exchange(Api.PRODUCE, 9, request, b"\x05"), Type.OK, ENDED)
    rows = wire.rows(wire.exchange(Api.PRODUCE, 9, request, response))
    assert [row.get("detail") for row in rows] == [
        "not understood: no ProduceRequest of version 9", "not understood: no ProduceResponse of version 9", "pay",
    ]  # fmt: skip
    assert wire.seer.not_understood == 2


@given(data=st.data())
def test_nothing_that_passes_can_stop_it(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any bytes, and real messages with some of theirs changed, in every request that is known."""
    wire = Wire(tmp_path_factory.mktemp("fuzz"))
    api = data.draw(st.sampled_from(sorted(CODECS)))
    version = data.draw(st.integers(0, CODECS[api].newest))
    request = data.draw(st.binary(max_size=200))
    if api == Api.FETCH and data.draw(st.booleans()):
        version = 12
        whole = bytearray(made(CODECS[1].request, 12, fetch(b"")[0]).encode(version=12))
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(0, 255))
        request = bytes(whole)
    try:
        exchange = wire.exchange(api, version, request, data.draw(st.none() | st.binary(max_size=200)))
        wire.rows(exchange, data.draw(st.sampled_from(Type)), data.draw(st.sampled_from(["", "why"])))
    finally:
        wire.recorder.close()
    segment = Segment(wire.path)
    assert all(row["op"] == exchange.number for row in rows_of(segment))
    assert segment.damage == Damage()


def test_rows_are_written_when_there_are_enough(tmp_path: Path) -> None:
    """Not one by one, and not all at the end."""
    wire = Wire(tmp_path, flush_rows=3)
    for number in range(7):
        wire.seer.saw(wire.of(Api.HEARTBEAT, 4, MEMBER, {"error_code": number}), Type.OK, ENDED)
    assert [frame.rows for frame in Segment(wire.path).frames()] == [3, 3]
    wire.seer.close()
    wire.seer.close()
    assert [frame.rows for frame in Segment(wire.path).frames()] == [3, 3, 1]
    assert [row["error"] for row in wire.everything()] == list(range(7))
    for number in range(3):
        wire.seer.failed_connection(1, number, "refused")
    assert [frame.rows for frame in Segment(wire.path).frames()] == [3, 3, 1, 3]
    wire.recorder.close()


def test_a_connection_that_fails_is_a_row(wire: Wire) -> None:
    """As it is for probes."""
    before = now()
    wire.seer.failed_connection(2, 11, "connection refused")
    wire.seer.close()
    wire.recorder.close()
    (row,) = wire.everything()
    assert before <= row.pop("time") == row.pop("invoked") <= now()
    assert row == {"event": PROCESS << ID_BITS, "process": PROCESS, "connection": 11, "node": 2, "error": -1,
                   "detail": "connection refused"}  # fmt: skip


def test_topics_are_numbered_once_and_not_without_end(wire: Wire) -> None:
    """Given numbers are kept, others follow; a flood of names gets none."""
    assert [wire.seer.topic(name) for name in ("orders", "a", "b", "a", "")] == [
        3, OWN_TOPICS, OWN_TOPICS + 1, OWN_TOPICS, COLUMNS["topic"].null,
    ]  # fmt: skip
    assert wire.seer.topic("x" * 300) == wire.seer.topic("x" * 249)
    wire.seer._numbers |= {f"t{number}": number for number in range(TOPICS_AT_MOST)}
    assert wire.seer.topic("one too many") == COLUMNS["topic"].null
    assert wire.seer.topic("orders") == 3
    wire.recorder.close()
