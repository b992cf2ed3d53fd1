"""What the table of `make bench-check` says of what was measured."""

from __future__ import annotations

import pytest

from bench.check_report import ALL, COLD, CORE, DUCK, HEALTHY, CheckCase, CheckMeasurement, Results, cells, page, plot

HOT, WIDE = 3, 1_000


def _healthy(events: int, what: str, cpu_s: float, partitions: int = HOT) -> CheckMeasurement:
    return CheckMeasurement(CheckCase(events, HEALTHY, partitions, what), 1.0, cpu_s)


def _sick(events: int, cpu_s: float, jvm_mb: int = 0, python_mb: int = 0) -> CheckMeasurement:
    return CheckMeasurement(CheckCase(events, "refusals", 0, ALL), 1.0, cpu_s, jvm_mb, python_mb)


def _told(rows: list[CheckMeasurement]) -> dict[CheckCase, list[str]]:
    results = Results(rows)
    return {row.asked: [str(target) for target in results.targets(row)] for row in results.rows}


def test_the_quickest_round_counts() -> None:
    """By its CPU time."""
    (row,) = Results([_healthy(1_000_000, ALL, 3.0), _healthy(1_000_000, ALL, 2.0)]).rows
    assert row.cpu_s == 2.0


@pytest.mark.parametrize(
    ("events", "least_s", "most_s"), [(1_000_000, 6, 6.1), (10_000_000, 35, 36), (50_000_000, 180, 181)]
)
def test_all_checkers_have_a_limit_by_size(events: int, least_s: float, most_s: float) -> None:
    """That is met when it is reached."""
    for cpu_s, told in ((least_s, "met"), (most_s, "MISSED")):
        row = _healthy(events, ALL, cpu_s)
        assert _told([row]) == {row.asked: [f"≤ {least_s} s: {told}"]}


def test_the_core_is_measured_against_duckdb_from_ten_million_on() -> None:
    """Of the same width."""
    rows = [
        _healthy(events, what, 4.0 if what == CORE else 2.0)
        for events in (1_000_000, 10_000_000)
        for what in (CORE, DUCK)
    ]
    results = Results(rows)
    assert [results.against(row) for row in results.rows] == [None, (2.0, "DuckDB"), None, (2.0, "DuckDB")]
    assert _told(rows)[CheckCase(10_000_000, HEALTHY, HOT, CORE)] == ["≤ 1.5 × DuckDB: MISSED"]
    assert _told(rows)[CheckCase(1_000_000, HEALTHY, HOT, CORE)] == []


def test_hot_partitions_are_measured_against_wide_ones() -> None:
    """The cold check is another matter."""
    rows = [_healthy(100_000, ALL, 1.4), _healthy(100_000, ALL, 1.0, WIDE), _healthy(50_000, COLD, 9.0)]
    assert _told(rows)[CheckCase(100_000, HEALTHY, HOT, ALL)] == ["≤ 1.3 × wide: MISSED"]
    assert _told(rows)[CheckCase(100_000, HEALTHY, WIDE, ALL)] == []
    assert _told(rows)[CheckCase(50_000, HEALTHY, HOT, COLD)] == []


def test_sick_histories_are_measured_against_healthy_ones_and_grow_from_the_smallest() -> None:
    """Their memory counts as well."""
    rows = [
        _healthy(100_000, ALL, 0.5),
        _healthy(1_000_000, ALL, 4.0),
        _sick(100_000, 1.0),
        _sick(1_000_000, 13.0, jvm_mb=4_097, python_mb=1_024),
    ]
    assert _told(rows)[CheckCase(100_000, "refusals", 0, ALL)] == ["≤ 3 × healthy: met"]
    assert _told(rows)[CheckCase(1_000_000, "refusals", 0, ALL)] == [
        "≤ 3 × healthy: MISSED", "≤ n^1.1: MISSED", "JVM ≤ 4 GB: MISSED", "Python ≤ 1 GB: met",
    ]  # fmt: skip
    line = cells(Results(rows), rows[-1])
    assert line[:2] == ("1,000,000", "refusals")
    assert line[5:9] == ("3.2 × healthy", "4,097", "1,024", "n^1.11")
    assert line[9] == "≤ 3 × healthy: MISSED, ≤ n^1.1: MISSED, JVM ≤ 4 GB: MISSED"


def test_page_and_plot_show_what_was_measured() -> None:
    """Sick histories are not drawn."""
    results = Results([_healthy(100_000, ALL, 0.5), _healthy(100_000, ALL, 0.5, WIDE), _sick(100_000, 1.0)])
    assert "| 100,000 | refusals | all, Spark | 1.0 | 1.0 | 2.0 × healthy |" in page(results)
    assert plot(results).count("<polyline") == 2
