"""Pictures: who has a lane, what is in view, and what has no place in the order."""

from __future__ import annotations

from typing import Any

from harness.report.names import Names
from harness.report.picture import ROW, Pictures
from harness.report.tracks import Panel, Span
from tests.support.hostile_run import HOSTILE, S, series

NAMES = Names(("t",), {"6": {"role": "producer"}, "7": {"role": "final"}})
BLANK: dict[str, Any] = {"faults": [], "witness": {}}


def send(event: int, began: float, ended: float, rank: int = 0, **changes: Any) -> dict[str, Any]:
    """A send of producer 6 whose offset is its number."""
    return {
        "kind": "complete", "rank": rank, "event": event, "process": 6, "f": 1, "type": 1, "offset": event,
        "from": int(began * S), "to": int(ended * S), **changes,
    }  # fmt: skip


def end(event: int, offset: int, began: float, ended: float) -> dict[str, Any]:
    """An end offset of a witness."""
    since = {"from": int(began * S), "to": int(ended * S), "point": int(began * S)}
    return {"offset": offset, "process": 2, "value": None, "event": event, "end": True, **since}


def drawn(*rows: dict[str, Any], in_order: bool = True) -> Panel:
    """Around a finding."""
    panel = Pictures(BLANK, NAMES).of_finding("key", "title", rows, in_order=in_order)
    assert panel is not None
    return panel


def order(*rows: dict[str, Any], witness: list[dict[str, Any]] | None = None, linear: bool = False) -> Panel:
    """Of a partition."""
    told = {**BLANK, "witness": {"t-0": {"operations": witness or []}}}
    panel = Pictures(told, NAMES).of_partition("key", "t-0", rows, linear=linear)
    assert panel is not None
    return panel


def wrong(panel: Panel) -> list[str]:
    """What is marked as a contradiction."""
    return [span.text for span in panel.tracks[0].spans if "contradiction" in span.css]


def between(panel: Panel) -> list[Span]:
    """The time that is marked between two operations."""
    return [span for span in panel.tracks[0].spans if span.css == "between"]


def test_what_lies_between_two_operations_is_marked_if_their_order_is_wrong() -> None:
    """From the end of one to the begin of the other."""
    rows = (send(1, 1, 2), send(2, 3, 4))
    (band,) = between(drawn(*rows))
    assert (band.high - band.low, band.text) == (1e6, "1.0 s")
    assert not between(drawn(*rows, in_order=False))
    assert not between(drawn(send(1, 1, 3), send(2, 2, 4)))


def test_operations_at_one_time_of_one_client_do_not_cover_each_other() -> None:
    """They are put below each other, in one lane."""
    (track,) = drawn(send(1, 1, 3), send(2, 2, 4), send(3, 3, 5)).tracks
    assert [text for _, text, _ in track.labels] == ["producer 6"]
    first, second, third = (span.y for span in sorted(track.spans, key=lambda span: span.low))
    assert (second - first, third - first) == (ROW, 0)


def test_the_view_is_that_of_the_operations_that_are_named() -> None:
    """The others are there for whoever moves on, and their lane says where they are."""
    late = send(9, 60, 61, rank=1, process=7, f=3)
    panel = drawn(send(1, 1, 2), send(2, 3, 4), late)
    axis = panel.axis
    assert axis.at(1 * S) > axis.low
    assert axis.at(4 * S) < axis.high < axis.at(60 * S)
    assert axis.last == axis.at(61 * S)
    assert [text for _, text, _ in panel.tracks[0].labels] == ["producer 6", "final reader 7 →"]


def test_what_is_only_near_and_out_of_view_has_no_lane() -> None:
    """Neither have answers to others, far away."""
    far = send(9, 60, 61, rank=2, process=7)
    answer = {"kind": "probe", "rank": 1, "event": 5, "process": 2, "node": 1, "api": 2, "from": 60 * S, "to": 61 * S}
    assert [text for _, text, _ in drawn(send(1, 1, 2), far, answer).tracks[0].labels] == ["producer 6"]


def test_nothing_is_drawn_of_nothing() -> None:
    """A finding about nodes alone has no operations, and neither has a partition that nobody used."""
    assert Pictures(BLANK, NAMES).of_finding("key", "title", [], in_order=True) is None
    assert Pictures(BLANK, NAMES).of_partition("key", "t-0", [], linear=True) is None


def test_every_operation_leads_to_its_row() -> None:
    """And says all about itself."""
    (span,) = drawn(send(1, 1, 2)).tracks[0].spans
    assert span.link == "#key-1"
    assert "1.000000 s to 2.000000 s" in span.title


def test_moments_of_a_witness_never_go_back() -> None:
    """In the order of offsets."""
    told = series()
    panel = Pictures(told, Names((), told["processes"])).of_partition("key", "quiet-0", [], linear=True)
    assert panel is not None
    (track,) = panel.tracks
    moments = [dot.at for dot in track.dots]
    assert len(moments) == 7
    assert moments == sorted(moments)
    assert [text for _, text, _ in track.labels] == [f"{HOSTILE} 6"]


def test_an_append_that_was_over_before_one_below_it_began_is_a_contradiction() -> None:
    """It has no dot; the other one has."""
    panel = order(send(27, 2, 3), send(26, 3.5, 4))
    assert wrong(panel) == ["@27"]
    assert [dot.at for dot in panel.tracks[0].dots] == [panel.axis.at(3.5 * S)]


def test_appends_that_overlap_have_an_order() -> None:
    """Whichever was called first."""
    panel = order(send(27, 2, 5), send(26, 3.5, 4))
    assert wrong(panel) == []
    assert [dot.at for dot in panel.tracks[0].dots] == [panel.axis.at(3.5 * S)] * 2


def test_an_end_offset_that_comes_too_late_is_marked_and_not_the_appends() -> None:
    """It was asked for after an append above it was over."""
    assert wrong(order(send(5, 1, 2), witness=[end(90, 3, 3, 3.5)])) == ["end 3"]
    assert wrong(order(send(5, 1, 2), witness=[end(90, 6, 3, 3.5)])) == []
    assert wrong(order(send(5, 1, 4), witness=[end(90, 3, 3, 3.5)])) == []


def test_the_end_that_a_node_showed_around_a_finding_is_one_as_well() -> None:
    """An answer with an error is none."""
    answer = {"kind": "probe", "rank": 0, "event": 8, "process": 2, "node": 3, "api": 2, "view": 2, "offset": 3}
    asked = {**answer, "from": 3 * S, "to": 4 * S}
    assert wrong(order(send(5, 1, 2), asked)) == ["end 3"]
    assert wrong(order(send(5, 1, 2), {**asked, "error": 6})) == []


def test_end_offsets_that_are_alike_are_one_bar() -> None:
    """From the first answer to the last call; that is no contradiction."""
    panel = order(send(5, 7, 9), witness=[end(90, 3, 6, 2)], linear=True)
    assert wrong(panel) == []
    (bar,) = (span for span in panel.tracks[0].spans if span.text == "end 3")
    assert bar.high - bar.low == 4e6


def test_readers_are_there_without_a_moment() -> None:
    """What they received is not an append."""
    read = {"kind": "record", "rank": 1, "event": 4, "process": 7, "from": S, "to": 2 * S, "offset": 1, "value": 8}
    panel = order(send(1, 1, 2), read)
    assert [text for _, text, _ in panel.tracks[0].labels] == ["producer 6", "final reader 7"]
    assert len(panel.tracks[0].dots) == 1
