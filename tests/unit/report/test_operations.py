"""Operations in words."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.names import Names
from harness.report.operations import RunClock, lasted, operation_line, request

NAMES = Names(("t",), {
    "6": {"role": "producer"},
    "3": {"role": "consumer"},
    "7": {"role": "final"},
    "9": {"role": "replica", "node": 2},
})  # fmt: skip
EVERY = {"rank": 0, "event": 1, "process": 6, "from": 0, "to": 5}
SEND = {"kind": "complete", "f": 1, "topic": "t", "partition": 2, "value": (6 << 40) + 8}
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({**SEND, "type": 1, "offset": 26}, "producer 6", "sent producer 6 #8 to p2: acknowledged at offset 26"),
    ({**SEND, "type": 3, "error": 7}, "producer 6",
     "sent producer 6 #8 to p2: outcome unknown (REQUEST_TIMED_OUT)"),
    ({"kind": "complete", "f": 12, "type": 2}, "producer 6", "ran a transaction: aborted"),
    ({"kind": "complete", "f": 3, "type": 1, "offset": 9, "process": 7}, "final reader 7",
     "read the partition to 9: ok"),
    ({"kind": "record", "offset": 27, "value": (6 << 40) + 8, "process": 3}, "consumer 3",
     "received producer 6 #8 at offset 27"),
    ({"kind": "replica", "offset": 27, "value": (6 << 40) + 8, "process": 9}, "disk of node 2",
     "holds producer 6 #8 at offset 27, read after the run"),
    ({"kind": "probe", "node": 1, "api": 2, "view": 2, "offset": 33}, "probe of node 1", "ListOffsets: end 33"),
    ({"kind": "probe", "node": 1, "api": 1, "error": 6}, "probe of node 1", "Fetch: NOT_LEADER_OR_FOLLOWER"),
    ({"kind": "exchange", "node": 2, "api": 0, "type": 1, "offset": 4, "count": 8,
      "client": "tidegauge-producer-6", "name": "reorders"},
     "producer-6 → node 2", "Produce: 8 records acknowledged, from offset 4; modified by the rule reorders"),
    ({"kind": "exchange", "node": 2, "api": 1, "type": 3, "client": "app"}, "app → node 2",
     "Fetch: the client got no answer"),
    ({"kind": "exchange", "node": 2, "api": 3, "type": 1, "leader": 1, "leader_epoch": 4, "isr": "1,2",
      "client": "app"},
     "app → node 2", "Metadata: leader 1, epoch 4, in sync 1,2"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "actor", "sentence"), CASES, ids=[case[2] for case in CASES])
def test_an_operation_in_words(row: dict[str, Any], actor: str, sentence: str) -> None:
    """Who did what, and how it ended."""
    told = operation_line({**EVERY, **row}, NAMES)
    assert (told.actor, told.sentence) == (actor, sentence)


def test_a_clock_without_an_anchor_knows_no_time_of_day() -> None:
    """It is not made up."""
    assert RunClock(5).both(1_500_000_000) == "(1.500 s)"
    assert RunClock(5, {"monotonic_ns": 5, "wall_ns": 0}).both(1_500_000_000) == "00:00:01.500 (1.500 s)"


def test_durations_and_requests_as_people_say_them() -> None:
    """Also one that nobody knows."""
    assert [lasted(ns) for ns in (1_500, 2_000_000, 2_500_000_000)] == ["2 µs", "2 ms", "2.5 s"]
    assert [request(api) for api in (0, 10, 999, None)] == ["Produce", "FindCoordinator", "request 999", "a connection"]
