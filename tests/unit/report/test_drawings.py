"""Which charts there are, and what is in them."""

from __future__ import annotations

from harness.report.drawings import latency_and_errors, leader_changes, leader_track, load_track, marks
from harness.report.names import Names
from tests.support.hostile_run import HOSTILE, S, facts, results, series

NAMES = Names.of(facts(), results(), series())


def test_leaders_are_drawn_from_one_change_to_the_next() -> None:
    """And to the end; a row for each node where they did not say the same."""
    track, left = leader_track(series(), NAMES)
    assert track is not None
    assert left == 0
    assert [text for _, text, _ in track.labels] == ["p0 by 1", "p0 by 2"]
    assert [(span.low, span.high, "shrunk" in span.css) for span in track.spans] == [
        (1_000, 5_000, False),
        (5_000, 12_000, True),
        (1_000, 12_000, False),
    ]


def test_more_leaders_than_there_is_room_for_are_counted() -> None:
    """Rows are left out whole."""
    track, left = leader_track(series(partitions=5), NAMES, rows_at_most=4)
    assert track is not None
    assert (len(track.labels), left) == (4, 6)
    assert max(span.y for span in track.spans) < track.height


def test_a_partition_without_a_leader_has_no_row() -> None:
    """Nothing is known of it."""
    assert leader_track({**series(), "leaders": {}}, NAMES) == (None, 0)


def test_every_partition_has_a_chart_of_its_marks() -> None:
    """By its short name, with each node's watermark and end, on the axis of the run."""
    told = series(partitions=2)
    names = Names.of(facts(), results(), told)
    first, second = marks(told, names)
    assert (first.title, second.title, first.anchor) == ("p0", "p1", "marks-0-0")
    assert first.axis == second.axis
    (track,) = first.tracks
    expected = ["acknowledged", "high watermark, node 1", "end, node 1", "high watermark, node 2", "end, node 2"]
    assert [curve.name for curve in track.curves] == expected


def test_an_end_that_was_not_shown_for_long_is_a_gap() -> None:
    """From the end of the last bucket that showed it."""
    (panel,) = marks(series(nodes=1), NAMES)
    end = next(curve for curve in panel.tracks[0].curves if curve.name == "end, node 1")
    assert end.path == "M1050 4H1100M4050 9H4100"


def test_load_latency_and_errors_are_per_second_and_in_milliseconds() -> None:
    """Nothing is drawn of what there was none of."""
    track = load_track(series())
    assert track is not None
    assert [(curve.name, track.unit) for curve in track.curves] == [("acknowledged", "/s"), ("read", "/s")]
    latency, errors = latency_and_errors(series())
    assert latency.tracks[0].log
    assert [curve.name for curve in errors.tracks[0].curves] == [HOSTILE]
    assert latency_and_errors({**series(), "latency": [], "errors": {}}) == []


def test_changes_of_leaders_are_in_the_order_of_time() -> None:
    """Of all nodes."""
    assert [(change["at"], change["node"]) for change in leader_changes(series(), NAMES)] == [
        (S, "1"),
        (S, "2"),
        (5 * S, "1"),
    ]
