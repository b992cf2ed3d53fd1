"""What the report draws, asked of Spark about a history of a few events; and what is made of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from checkers.engine import check
from checkers.series import BUCKETS, Grid, _latency, _marks, fingerprint, read_series, thinned
from harness.history import FaultStage, Kind
from tests.histories import SECOND_NS, Rows, process_of, value_of, write
from tests.spark_sessions import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORY = """
    n1 metadata ─ 0@ epoch 4 leader 1 isr 1,2 [0..1]
    p1 send a ─ ok @0 [1..2]
    p2 send b ─ ok @0 [3..4]
    p1 send c ─ ok @1 [4..5]
    p1 send d ─ info @ error 7 [5..30]
    c1 poll ─ @0:a @1:c [6..7]
    n1 fetch ─ @2 [7..8]
    n1 fetch ─ @1 [9..10]
    n1 metadata ─ 0@ epoch 5 leader 2 isr 2 [11..12]
    n2 list ─ @2 [12..13]
    t1 produce ─ 0@ error 6 client app [13..14]
    t1 produce ─ 0@ error 6 client app [14..15]
    t1 produce ─ 0@ error 6 client tidegauge [15..16]
    r1 final ─ ok @2 [24..25]
    s1 assign ─ ok @0 [26..27]
    s1 poll ─ @0:a @1:c [27..28]
    s1 replica ─ ok @2 end 2 [27..28]
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session."""
    with spark_session() as session:
        yield session


@pytest.fixture(scope="module")
def series(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a partition one offset of which was acknowledged twice."""
    rows = Rows()
    write(rows, 0, HISTORY)
    common = {"fault": 1, "name": "kill"}
    rows.add(Kind.FAULT, "x1", time=3 * SECOND_NS, stage=int(FaultStage.INJECTED), **common)
    rows.add(Kind.FAULT, "x1", time=6 * SECOND_NS, stage=int(FaultStage.UNDONE), **common)
    rows.add(Kind.PHASE, "x1", time=SECOND_NS, name="load")
    sealed = rows.store(tmp_path_factory.mktemp("series"))
    results = check(spark, sealed).as_json()
    assert results["anomalies"]["shared-offset"]["found"] == 1
    return read_series(spark, sealed, results)


def test_sends_and_reads_are_counted_when_they_ended(series: dict[str, Any]) -> None:
    """One of which nobody knows the end when it was sent."""
    (flow,) = series["flow"].values()

    def at(what: str) -> list[tuple[float, int]]:
        return [((series["start"] + bucket * series["bucket"]) / SECOND_NS, count) for bucket, count in flow[what]]

    assert at("ok") == [(2, 1), (4, 1), (5, 1)]
    assert at("info") == [(5, 1)]
    assert at("read") == [(7, 2)]
    assert at("acknowledged") == [(2, 1), (4, 1), (5, 2)]
    assert [len(points) for points in series["errors"].values()] == [1]


def test_marks_are_told_by_node_where_they_changed(series: dict[str, Any]) -> None:
    """A watermark that fell is seen."""
    (marks,) = series["marks"].values()
    assert [value for _, value in marks["1"]["high_watermark"] if value is not None] == [2, 1]
    assert [value for _, value in marks["2"]["end"]] == [2]


def test_leaders_epochs_and_replicas_are_told_where_they_changed(series: dict[str, Any]) -> None:
    """With the moment."""
    (leaders,) = series["leaders"].values()
    assert leaders == {"1": [[SECOND_NS, 1, 4, "1,2"], [12 * SECOND_NS, 2, 5, "2"]]}


def test_who_asked_whom_and_was_refused(series: dict[str, Any]) -> None:
    """Not the harness, which asks every node on purpose."""
    (refused,) = series["refusals"]
    assert (refused["client"], refused["node"], refused["count"]) == ("app", 1, 2)


def test_faults_and_the_load_are_bands_of_time(series: dict[str, Any]) -> None:
    """Since the history began."""
    (fault,) = series["faults"]
    assert (fault["name"], fault["from"], fault["to"]) == ("kill", 3 * SECOND_NS, 6 * SECOND_NS)
    assert series["start"] == SECOND_NS


def test_a_finding_has_the_operations_that_prove_it(series: dict[str, Any]) -> None:
    """Named ones, those of its values, and what was going on; and what replicas have of it."""
    around = series["around"]["shared-offset/0"]
    named = [(row["process"], row["offset"]) for row in around if row["rank"] == 0]
    assert named == [(process_of("p1"), 0), (process_of("p2"), 0)]
    assert {row["kind"] for row in around if row["rank"] == 1} == {"record", "replica"}
    assert series["replicas"]["shared-offset/0"] == [[1, "has it", [[value_of(0, "a", process_of("p1")), 0]]]]


def test_a_witness_has_moments_that_never_go_back(series: dict[str, Any]) -> None:
    """In the order of offsets; an end comes before what is not there yet."""
    (witness,) = series["witness"].values()
    told = [(row["offset"], row["end"], row["point"] // SECOND_NS) for row in witness["operations"]]
    assert told == [(0, False, 1), (0, False, 3), (1, False, 4), (2, True, 12)]


@pytest.mark.parametrize("lasted_s", [0, 1, 29.9, 30, 61, 3600, 86_400])
def test_time_is_cut_into_few_round_pieces(lasted_s: float) -> None:
    """Whatever it is."""
    grid = Grid(7, 7 + int(lasted_s * SECOND_NS))
    assert int(lasted_s * SECOND_NS) // grid.bucket_ns < BUCKETS
    assert str(grid.bucket_ns).strip("0") in {"1", "2", "5"}


def test_percentiles_are_within_nine_percent() -> None:
    """And never above the longest."""
    rows = [
        {"bucket": 0, "class": 80, "count": 90, "longest": 1_100},
        {"bucket": 0, "class": 132, "count": 10, "longest": 99_000},
    ]
    ((bucket, median, most, _, longest),) = _latency(rows)
    assert (bucket, longest) == (0, 99.0)
    assert median == pytest.approx(1.05, rel=0.09)
    assert most == median
    assert _latency([{"bucket": 0, "class": 80, "count": 1, "longest": 1_024}])[0][1] == 1.024


def test_a_mark_that_falls_and_rises_in_a_bucket_is_two_points() -> None:
    """And a node that says nothing for long breaks its line."""
    row = {"place": 0, "node": 1, "api": 1}
    rows = [
        {**row, "bucket": 0, "low": 5, "high": 5, "last": 5},
        {**row, "bucket": 1, "low": 2, "high": 9, "last": 9},
        {**row, "bucket": 50, "low": 9, "high": 9, "last": 9},
    ]
    assert _marks(rows, ["t-0"], 10)["t-0"]["1"]["high_watermark"] == [[0, 5], [1, 2], [1, 9], [1, None], [50, 9]]


def test_points_between_two_of_the_same_value_are_left_out() -> None:
    """The ends of a level stretch stay."""
    assert thinned([[0, 1], [1, 1], [2, 1], [3, 2]]) == [[0, 1], [2, 1], [3, 2]]


def test_findings_of_two_checks_are_told_apart() -> None:
    """Whatever else the results say."""
    one = {"anomalies": {"a": {"findings": [{"offset": 1}]}}, "seconds": 1}
    assert fingerprint(one) == fingerprint({**one, "seconds": 2})
    assert fingerprint(one) != fingerprint({"anomalies": {"a": {"findings": [{"offset": 2}]}}})
