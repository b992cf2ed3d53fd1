"""Timelines: who has a lane, what is in view, and what lies between two operations whose order is wrong."""

from __future__ import annotations

from typing import Any

from harness.report.names import Names
from harness.report.timeline import LABELS, ROW, WIDTH, FindingTimeline, moment, of_finding, of_witness
from tests.support.hostile_run import HOSTILE, S, series

SERIES: dict[str, Any] = {"faults": []}
NAMES = Names(("t",), {"6": {"role": "producer"}, "7": {"role": "final"}})


def send(event: int, began: float, ended: float, rank: int = 0, **changes: Any) -> dict[str, Any]:
    """A send of producer 6."""
    return {
        "kind": "complete", "rank": rank, "event": event, "process": 6, "f": 1, "type": 1, "offset": event,
        "from": int(began * S), "to": int(ended * S), **changes,
    }  # fmt: skip


def drawn(*rows: dict[str, Any], in_order: bool = True) -> FindingTimeline:
    """Of these rows."""
    line = of_finding("key", "title", rows, SERIES, NAMES, in_order=in_order)
    assert line is not None
    return line


def test_what_lies_between_two_operations_is_marked_if_their_order_is_wrong() -> None:
    """From the end of one to the begin of the other."""
    rows = (send(1, 1, 2), send(2, 3, 4))
    between = drawn(*rows).between
    assert between is not None
    assert (between.from_ns, between.to_ns, between.name) == (2 * S, 3 * S, "1.0 s")
    assert drawn(*rows, in_order=False).between is None
    assert drawn(send(1, 1, 3), send(2, 2, 4)).between is None


def test_operations_at_one_time_of_one_client_do_not_cover_each_other() -> None:
    """They are put below each other, in one lane."""
    line = drawn(send(1, 1, 3), send(2, 2, 4), send(3, 3, 5))
    assert [lane.name for lane in line.lanes] == ["producer 6"]
    first, second, third = (bar.y for bar in line.bars)
    assert (second - first, third - first) == (ROW, 0)


def test_the_view_is_that_of_the_operations_that_are_named() -> None:
    """The others are there for whoever zooms out, and their lane says where they are."""
    late = send(9, 60, 61, rank=1, process=7, f=3)
    line = drawn(send(1, 1, 2), send(2, 3, 4), late)
    assert line.view_ns[0] < 1 * S < 4 * S < line.view_ns[1] < 60 * S
    assert line.whole_ns[1] == 61 * S
    assert [lane.away for lane in line.lanes] == ["", "later"]
    assert all(0 <= bar.x <= WIDTH - LABELS for bar in line.bars[:2])


def test_what_is_only_near_and_out_of_view_has_no_lane() -> None:
    """Neither have answers to others, far away."""
    far = send(9, 60, 61, rank=2, process=7)
    answer = {"kind": "probe", "rank": 1, "event": 5, "process": 2, "node": 1, "api": 2, "from": 60 * S, "to": 61 * S}
    assert [lane.name for lane in drawn(send(1, 1, 2), far, answer).lanes] == ["producer 6"]


def test_nothing_is_drawn_of_nothing() -> None:
    """A finding about nodes alone has no operations."""
    assert of_finding("key", "title", [], SERIES, NAMES, in_order=True) is None


def test_a_witness_has_a_row_and_a_moment_for_each_append() -> None:
    """In the order of offsets, and moments never go back."""
    told = series()
    line = of_witness("w", "title", told["witness"]["quiet-0"], told, Names((), told["processes"]))
    assert line is not None
    assert [lane.name for lane in line.lanes] == [f"{n}, {HOSTILE} 6" for n in range(1, 8)]
    moments = [bar.point_ns or 0 for bar in line.bars]
    assert moments == sorted(moments)
    assert len(line.path.split()) == 7


def test_times_are_as_exact_as_the_span_asks_for() -> None:
    """Nobody reads microseconds of an hour."""
    assert (moment(12.34567 * S, 60 * S), moment(12.34567 * S, S // 10)) == ("12.3 s", "12.3457 s")
