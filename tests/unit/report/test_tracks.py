"""Tracks: paths are the data, all on one axis."""

from __future__ import annotations

import pytest

from harness.report.tracks import NS, Axis, curves, fault_bands, log_curves, number, path, run_axis
from tests.support.hostile_run import series

AXIS = Axis("run", 0, 1_000_000, 1_000, 13_000, 1_000, 13_000)


def test_a_path_is_its_data() -> None:
    """In steps, each value until the next one; in lines from point to point."""
    points = [(0, 1), (5, 1), (7.25, 3)]
    assert path(points) == "M0 1H5H7.25V3"
    assert path(points, steps=False) == "M0 1L5 1L7.25 3"


def test_a_path_is_broken_where_there_is_no_value() -> None:
    """It begins again with the next one."""
    assert path([(0, 1), (2, None), (3, 1), (4, 2)]) == "M0 1M3 1H4V2"


@pytest.mark.parametrize(
    ("value", "written"), [(3, "3"), (3.1004, "3.1"), (100, "100"), (0.0001, "0"), (1e12, "1" + 12 * "0")]
)
def test_numbers_are_short_and_whole_ones_exact(value: float, written: str) -> None:
    """An offset is not rounded."""
    assert number(value) == written


def test_ticks_are_at_round_times() -> None:
    """As many as there is room for."""
    assert [text for _, text in AXIS.ticks] == ["2 s", "4 s", "6 s", "8 s", "10 s", "12 s"]
    assert [place for place, _ in AXIS.ticks][:2] == ["8.33%", "25%"]


def test_a_short_time_has_exact_ticks() -> None:
    """In the unit of the axis, from its origin."""
    axis = Axis("finding", 2 * NS, 1_000, 0, 2_000, 0, 2_000)
    assert [text for _, text in axis.ticks][:3] == ["2.0000 s", "2.0005 s", "2.0010 s"]


def test_the_highest_value_has_room() -> None:
    """And the values that are written are round."""
    track = curves("title", [("a", "node-1", [(0, 0), (1, 4_700)]), ("none", "node-2", [])])
    assert track is not None
    assert 4_700 * track.scale < track.height
    assert [text for _, text in track.gauge] == ["2,000", "4,000"]
    assert [curve.name for curve in track.curves] == ["a"]


def test_nothing_is_drawn_of_nothing() -> None:
    """No track rather than an empty one."""
    assert curves("title", [("a", "node-1", [])]) is None
    assert log_curves("title", [("a", "node-1", [(0, None)])], label="", unit="ms") is None


def test_a_logarithmic_track_says_where_it_begins() -> None:
    """So that a reader of its path can go back to the values."""
    track = log_curves("title", [("a", "node-1", [(0, 0.5), (1, 50)])], label="a", unit="ms")
    assert track is not None
    assert track.unit == "ms -1"
    assert [curve.path for curve in track.curves] == ["M0 0.699L1 2.699"]


def test_all_charts_of_a_run_share_its_axis_and_its_faults() -> None:
    """From the begin of the load to the end, in milliseconds."""
    told = series()
    axis = run_axis(told)
    assert (axis.low, axis.high) == (1_000, 12_000)
    assert [(band.low, band.high) for band in fault_bands(told, axis)] == [(2_000, 5_000)]
