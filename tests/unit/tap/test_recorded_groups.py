"""What the tap records of transactions and groups, in all versions of their requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.foundation.protocol import Api
from harness.history.schema import Type
from harness.tap.codec import CODECS
from tests.support.tap_exchanges import ENDED, ORDERS_ID, PLACE, Wire, on_orders, without_id

WRITER = {"transactional_id": "pay", "producer_id": 77, "producer_epoch": 2}
KEPT = {"producer_id": 77, "producer_epoch": 2}


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    """A seer and what it sees."""
    return Wire(tmp_path)


@pytest.mark.parametrize("version", [0, 4, 6])
def test_init_producer_id(wire: Wire, version: int) -> None:
    """The id that was given."""
    asked = {"transactional_id": "pay", "transaction_timeout_ms": 1}
    answer = {"error_code": 0, "producer_id": 77, "producer_epoch": 2}
    (row,) = wire.rows(wire.of(Api.INIT_PRODUCER_ID, version, asked, answer))
    assert row == {**KEPT, "error": 0, "detail": "pay"}


def test_init_producer_id_that_is_refused(wire: Wire) -> None:
    """The one that asked."""
    answer = {"error_code": 90, "producer_id": -1, "producer_epoch": -1}
    (row,) = wire.rows(wire.of(Api.INIT_PRODUCER_ID, 4, WRITER, answer))
    assert row == {**KEPT, "error": 90, "detail": "pay"}


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_add_partitions_to_txn(wire: Wire, version: int) -> None:
    """A row per partition, in both shapes of the request."""
    topics = [{"name": "orders", "partitions": [1]}]
    request = {"transactions": [{**WRITER, "topics": topics}], "v3_and_below_topics": topics}
    request |= {f"v3_and_below_{name}": value for name, value in WRITER.items()}
    results = [{"name": "orders", "results_by_partition": [{"partition_index": 1, "partition_error_code": 47}]}]
    response = {
        "results_by_transaction": [{"transactional_id": "pay", "topic_results": results}],
        "results_by_topic_v3_and_below": results,
    }
    (row,) = wire.rows(wire.of(Api.ADD_PARTITIONS_TO_TXN, version, request, response))
    assert row == {**PLACE, **KEPT, "error": 47, "detail": "pay"}


@pytest.mark.parametrize("version", [0, 3, 4])
def test_add_offsets_to_txn(wire: Wire, version: int) -> None:
    """One row."""
    (row,) = wire.rows(wire.of(Api.ADD_OFFSETS_TO_TXN, version, {**WRITER, "group_id": "g"}, {"error_code": 16}))
    assert row == {**KEPT, "error": 16, "detail": "pay"}


@pytest.mark.parametrize("version", [0, 3, 5])
@pytest.mark.parametrize("committed", [True, False])
def test_end_txn(wire: Wire, version: int, *, committed: bool) -> None:
    """How it ended, and of which epoch it was: since version 5 the answer has that of the next one."""
    answer = {"error_code": 0, "producer_id": 77, "producer_epoch": 3}
    (row,) = wire.rows(wire.of(Api.END_TXN, version, {**WRITER, "committed": committed}, answer))
    assert row == {**KEPT, "error": 0, "detail": "commit pay" if committed else "abort pay"}


@pytest.mark.parametrize("version", [2, 8, 9, 10])
def test_offset_commit(wire: Wire, version: int) -> None:
    """What a group said it has read."""
    part = {"partition_index": 1, "committed_offset": 12, "committed_metadata": ""}
    request = {"group_id": "g", "generation_id_or_member_epoch": 6, "member_id": "m"}
    request |= on_orders("topics", "name", "partitions", part)
    answer = on_orders("topics", "name", "partitions", {"partition_index": 1, "error_code": 22})
    (row,) = wire.rows(wire.of(Api.OFFSET_COMMIT, version, request, answer))
    assert row == {**PLACE, "offset": 12, "error": 22, "generation": 6, "detail": "g"}


@pytest.mark.parametrize("version", [0, 3, 5])
def test_txn_offset_commit(wire: Wire, version: int) -> None:
    """The same in a transaction."""
    part = {"partition_index": 1, "committed_offset": 12, "committed_metadata": ""}
    request = {**WRITER, "group_id": "g", "generation_id": 6, "member_id": "m"}
    request |= without_id(on_orders("topics", "name", "partitions", part))
    answer = without_id(on_orders("topics", "name", "partitions", {"partition_index": 1, "error_code": 0}))
    (row,) = wire.rows(wire.of(Api.TXN_OFFSET_COMMIT, version, request, answer))
    assert row == {**PLACE, **KEPT, "offset": 12, "error": 0, "detail": "g"} | (
        {"generation": 6} if version >= 3 else {}
    )


def offset_fetch(version: int, answer: list[Any], error: int = 0) -> tuple[Any, Any]:
    """A question of group g in the shape of this version."""
    topic = {"name": "orders", "topic_id": ORDERS_ID}
    asked, told = [{**topic, "partition_indexes": [1]}], [{**topic, "partitions": answer}] if answer else []
    if version >= 8:
        return (
            {"groups": [{"group_id": "g", "member_id": "m", "member_epoch": 6, "topics": asked}]},
            {"groups": [{"group_id": "g", "topics": told, "error_code": error}]},
        )
    return (
        {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [1]}]},
        {"topics": [{"name": "orders", "partitions": answer}] if answer else [], "error_code": error},
    )


@pytest.mark.parametrize("version", [1, 7, 8, 9, 10])
def test_offset_fetch(wire: Wire, version: int) -> None:
    """What the group had said, -1 for nothing."""
    answer = [{"partition_index": 1, "committed_offset": -1, "metadata": "", "error_code": 0}]
    (row,) = wire.rows(wire.of(Api.OFFSET_FETCH, version, *offset_fetch(version, answer)))
    assert row == {**PLACE, "offset": -1, "error": 0, "detail": "g"} | ({"generation": 6} if version >= 9 else {})


@pytest.mark.parametrize("version", [7, 10])
def test_offset_fetch_of_a_group_that_has_an_error(wire: Wire, version: int) -> None:
    """It has no partitions; a question that was never answered has its own."""
    wire.seer.saw(wire.of(Api.OFFSET_FETCH, version, offset_fetch(version, [])[0]), Type.INFO, ENDED)
    unanswered, refused = wire.rows(wire.of(Api.OFFSET_FETCH, version, *offset_fetch(version, [], error=15)))
    generation = {"generation": 6} if version >= 9 else {}
    assert unanswered == {**PLACE, "detail": "g", **generation}
    assert refused == {"error": 15, "detail": "g", **generation}


MEMBER = {"group_id": "g", "generation_id": 6, "member_id": "m"}


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("api", [Api.SYNC_GROUP, Api.HEARTBEAT])
def test_groups(wire: Wire, api: Api, *, newest: bool) -> None:
    """Which member, and of which generation."""
    (row,) = wire.rows(wire.of(api, CODECS[api].newest if newest else 0, MEMBER, {"error_code": 27}))
    assert row == {"error": 27, "generation": 6, "detail": "g/m"}


@pytest.mark.parametrize("version", [0, 5, 9])
def test_join_group(wire: Wire, version: int) -> None:
    """The generation and the member are those of the answer."""
    answer = {"error_code": 0, "generation_id": 7, "member_id": "m-1", "leader": "m-1", "protocol_name": "range",
              "members": []}  # fmt: skip
    request = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "consumer", "protocols": []}
    (row,) = wire.rows(wire.of(Api.JOIN_GROUP, version, request, answer))
    assert row == {"error": 0, "generation": 7, "detail": "g/m-1"}


@pytest.mark.parametrize("version", [0, 3, 5])
def test_leave_group(wire: Wire, version: int) -> None:
    """One member or several."""
    request = {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]}
    answer = {"error_code": 0, "members": [{"member_id": "m", "group_instance_id": None, "error_code": 25}]}
    (row,) = wire.rows(wire.of(Api.LEAVE_GROUP, version, request, answer))
    assert row == {"error": 25 if version >= 3 else 0, "detail": "g/m"}


HEARTBEAT = {"group_id": "g", "member_id": "m", "member_epoch": 6}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("assignment", [None, {"topic_partitions": [{"topic_id": ORDERS_ID, "partitions": [1, 2]}]}])
def test_consumer_group_heartbeat(wire: Wire, version: int, assignment: Any) -> None:
    """The epoch is that of the answer."""
    answer = {"error_code": 0, "member_id": "m", "member_epoch": 7, "assignment": assignment}
    (row,) = wire.rows(wire.of(Api.CONSUMER_GROUP_HEARTBEAT, version, HEARTBEAT, answer))
    assert row == {"error": 0, "generation": 7, "detail": "g/m"}


def test_consumer_group_heartbeat_that_is_refused(wire: Wire) -> None:
    """The epoch that the member believed in; an answer with an error has none."""
    answer = {"error_code": 110, "member_id": None, "member_epoch": 0}
    (row,) = wire.rows(wire.of(Api.CONSUMER_GROUP_HEARTBEAT, 1, HEARTBEAT, answer))
    assert row == {"error": 110, "generation": 6, "detail": "g/m"}


def test_consumer_group_heartbeat_without_an_answer(wire: Wire) -> None:
    """The same, and no error."""
    (row,) = wire.rows(wire.of(Api.CONSUMER_GROUP_HEARTBEAT, 1, HEARTBEAT), Type.INFO)
    assert row == {"generation": 6, "detail": "g/m"}
