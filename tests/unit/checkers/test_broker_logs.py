"""What the logs of a product say, by the patterns of its target file: the lines of the investigation notes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checkers.broker_logs import FAMILIES, BrokerLogFiles, lines_of
from harness.clusters.target import load_target
from harness.history.schema import Kind
from harness.judging.broker_logs import logs_of
from tests.support.histories import SECOND_NS, Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, context, steps_of

PLACE = r"topic=(?P<topic>\S+), partition=(?P<partition>\d+), "
PATTERNS = {
    "watermark": rf"WATERMARK: {PLACE}high_watermark=(?P<high_watermark>\d+), fetch_offset=(?P<offset>\d+)",
    "no-data": rf"NO DATA: {PLACE}fetch_offset=(?P<offset>\d+), high_watermark=(?P<high_watermark>\d+)",
    "data-available": rf"DATA AVAILABLE: {PLACE}fetch_offset=(?P<offset>\d+)",
    "fetch-success": rf"FETCH SUCCESS: {PLACE}offset=(?P<offset>\d+), bytes=\d+",
    "leader": r"leader of (?P<partition>\d+) in epoch (?P<leader_epoch>\d+)",
}
WALL_NS = 1_700_000_000 * SECOND_NS  # 2023-11-14 22:13:20 UTC
SENDS = "\n".join(f"p1 send {name} ─ ok {place}" for name, place in zip("abc", ["0@99", "1@99", "2@99"], strict=True))


def _line(second: float, text: str, zone: str = "Z") -> str:
    minute, rest = divmod(20 + second, 60)
    return f"2023-11-14T22:{13 + int(minute):02}:{rest:06.3f}{zone} INFO node: {text}"


def _fetches(partition: int, what: str, *seconds: float) -> list[str]:
    place = f"topic=t7, partition={partition}"
    return [_line(second, what.format(place=place)) for second in seconds]


NO_DATA = "⏸️  NO DATA: {place}, fetch_offset=50, high_watermark=50 (waiting...)"
AVAILABLE = "✅ DATA AVAILABLE: {place}, fetch_offset=60, high_watermark=100, available=40"
SUCCESS = "✅ FETCH SUCCESS: {place}, offset=%d, bytes=65536, elapsed=5ms"


@pytest.fixture
def rows() -> Rows:
    """Acknowledged up to offset 99 in each of three partitions; the topic is t7."""
    made = Rows()
    write(made, 7, SENDS)
    return made


def _logs(directory: Path, *lines: str, **given: Any) -> BrokerLogFiles:
    path = directory / "node 1.log"
    path.write_text("\n".join(lines), encoding="utf-8")
    return BrokerLogFiles({1: str(path)}, PATTERNS, monotonic_ns=5 * SECOND_NS, wall_ns=WALL_NS, **given)


def _lines(logs: BrokerLogFiles) -> pl.DataFrame:
    return pl.concat(lines_of(logs, {7: "t7"}))


def _summary(rows: Rows, logs: BrokerLogFiles | None, size: Size = WHOLE) -> dict[str, Any]:
    outcomes, failures = check_rows(rows, FAMILIES, size, logs=logs)
    assert not failures
    summary: dict[str, Any] = outcomes["broker logs"].summary
    return summary


def _signs(rows: Rows, logs: BrokerLogFiles | None, size: Size = WHOLE) -> list[tuple[int, int, int, int]]:
    return sorted(
        (row["partition"], row["class"], (row["until"] - row["since"]) // SECOND_NS, row["at"])
        for row in _summary(rows, logs, size)["stood_still"]
    )


def test_a_line_is_an_event_at_its_time(rows: Rows, tmp_path: Path) -> None:
    """Every group goes into its column."""
    lines = _fetches(2, "📊 WATERMARK: {place}, high_watermark=1664, fetch_offset=1660, gap=4", 1.5)
    assert _lines(_logs(tmp_path, *lines)).to_dicts() == [{
        "node": 1, "name": "watermark", "time": 6_500_000_000, "topic": 7, "partition": 2, "offset": 1660,
        "high_watermark": 1664, "leader_epoch": None,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("[2023-11-14 22:13:21,250] ", 6_250_000_000),
        ("2023-11-15T00:13:21+02:00 ", 6_000_000_000),
        ("2023-11-14T20:13:21.5-0200 ", 6_500_000_000),
        ("22:13:22 ", 7_000_000_000),
        ("00:00:00 ", 6_405_000_000_000),  # of the next day
        ("2023-99-99 22:13:22 ", None),
        ("", None),
    ],
)
def test_times_are_read_in_many_forms(rows: Rows, tmp_path: Path, stamp: str, time: int | None) -> None:
    """With a zone, without one, without a date, without anything."""
    assert _lines(_logs(tmp_path, f"{stamp}leader of 1 in epoch 3"))["time"].to_list() == [time]


def test_a_time_without_a_zone_is_of_the_zone_of_the_run(rows: Rows, tmp_path: Path) -> None:
    """As containers and hosts log."""
    given = _logs(tmp_path, "[2023-11-15 00:13:21,000] leader of 1 in epoch 3", utc_offset_s=7200)
    assert _lines(given).select("time", "topic").rows() == [(6 * SECOND_NS, 7)]


def test_hostile_lines_stay_text(rows: Rows, tmp_path: Path) -> None:
    """Nothing of a line is ever more than text or a number."""
    hostile = [
        "leader of 99999999999999999999 in epoch 1",
        "leader of 1 in epoch 2 '); drop table events; -- <script>alert(1)</script> \x00\x1b[2J",
        "x" * 100_000 + "leader of 1 in epoch 3",
        "topic=../../etc, partition=0, NO DATA: topic=nobody, partition=0, fetch_offset=1, high_watermark=1",
    ]
    found = _lines(_logs(tmp_path, *hostile)).select("name", "topic", "partition")
    assert set(found.rows()) == {("leader", 7, None), ("leader", 7, 1), ("no-data", None, 0)}
    assert _signs(rows, _logs(tmp_path, *hostile)) == []


def test_a_watermark_that_does_not_advance_is_class_1(rows: Rows, tmp_path: Path) -> None:
    """Acknowledged above it, and it stands."""
    assert _signs(rows, _logs(tmp_path, *_fetches(0, NO_DATA, 1, 3, 7))) == [(0, 1, 6, 50)]


def test_one_that_advanced_later_is_none(rows: Rows, tmp_path: Path) -> None:
    """It was slow, and not stuck."""
    later = _fetches(0, "WATERMARK: {place}, high_watermark=80, fetch_offset=50, gap=30", 9)
    assert _signs(rows, _logs(tmp_path, *_fetches(0, NO_DATA, 1, 7), *later)) == []


def test_a_reader_at_the_end_of_what_was_acknowledged_waits_rightly(rows: Rows, tmp_path: Path) -> None:
    """There is nothing to give."""
    waits = "NO DATA: {place}, fetch_offset=100, high_watermark=100"
    assert _signs(rows, _logs(tmp_path, *_fetches(0, waits, 1, 30))) == []


def test_data_that_is_there_and_never_returned_is_class_2(rows: Rows, tmp_path: Path) -> None:
    """Unless an answer at that offset or above came after all."""
    lines = [*_fetches(1, SUCCESS % 0, 0), *_fetches(1, AVAILABLE, 1), *_fetches(1, "leader of {place}", 3)]
    beats = _fetches(1, "WATERMARK: {place}, high_watermark=100, fetch_offset=60, gap=40", 4, 8)
    assert _signs(rows, _logs(tmp_path, *lines, *beats)) == [(1, 2, 7, 60)]
    answered = _fetches(1, SUCCESS % 60, 9)
    assert _signs(rows, _logs(tmp_path, *lines, *beats, *answered, *_fetches(0, SUCCESS % 10, 1))) == []


def test_a_partition_that_is_behind_the_others_is_class_3(rows: Rows, tmp_path: Path) -> None:
    """They got to their ends, it did not."""
    lines = [*_fetches(0, SUCCESS % 95, 2), *_fetches(2, SUCCESS % 30, 1)]
    assert _signs(rows, _logs(tmp_path, *lines)) == [(2, 3, 0, 30)]


def test_bytes_that_are_no_text_and_numbers_beyond_all_bounds(rows: Rows, tmp_path: Path) -> None:
    """A line ends at any of the usual ends; what cannot be read is no reason to fail."""
    logs = _logs(tmp_path)
    Path(logs.files[1]).write_bytes(
        b"\xff\xfe\r\n9999-12-31T22:13:21Z leader of 1 in epoch 3\r2023-11-14T22:13:21+99:99 leader of 2 in epoch 3\n"
        b"2023-11-14T22:13:21.123456789+0000 \xc3 leader of 3 in epoch 99999999999"
    )
    found = _lines(logs).select("time", "partition", "leader_epoch")
    assert found.rows() == [(None, 1, 3), (None, 2, 3), (6_123_456_789, 3, None)]
    assert _signs(rows, logs) == []


def test_a_line_without_a_topic_is_of_the_only_one(tmp_path: Path) -> None:
    """Of several it is of none."""
    logs = _logs(tmp_path, "leader of 1 in epoch 3", *_fetches(0, NO_DATA, 1))
    several = pl.concat(lines_of(logs, {7: "t7", 8: "t8"}))
    assert set(several.select("name", "topic").rows()) == {("leader", None), ("no-data", 7)}


def test_a_line_may_match_several_patterns(tmp_path: Path) -> None:
    """It is an event for each; one that matches none is none."""
    logs = replace(_logs(tmp_path, "leader of 1 in epoch 3", "x"), patterns={"one": "leader", "other": "epoch"})
    assert _lines(logs).select("name", "partition").rows() == [("one", None), ("other", None)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_lines_that_were_imported_count_with_those_of_files(rows: Rows, tmp_path: Path, size: Size) -> None:
    """Wherever a line is, and however the history is cut, the answer is the same."""
    logs = _logs(tmp_path, *_fetches(0, NO_DATA, 7), *_fetches(1, SUCCESS % 0, 0), *_fetches(2, SUCCESS % 95, 0))
    for partition, name, seconds, offset, mark in (
        (0, "no-data", 1, 50, 50), (1, "data-available", 1, 60, None), (1, "leader", 8, None, None),
        (2, "data-available", 1, 60, None), (2, "leader", 8, None, None),
    ):  # fmt: skip
        rows.add(
            Kind.BROKER, "n1", node=1, name=name, time=(5 + seconds) * SECOND_NS, topic=7, partition=partition,
            offset=offset, high_watermark=mark,
        )  # fmt: skip
    assert _signs(rows, logs, size) == [(0, 1, 6, 50), (1, 2, 7, 60)]
    assert [row["lines"] for row in _summary(rows, logs, size)["lines"]] == [2, 2, 2, 2]
    assert _signs(rows, None, size) == [(1, 2, 7, 60), (2, 2, 7, 60)]


def test_only_so_many_are_told(rows: Rows, tmp_path: Path) -> None:
    """The first ones."""
    logs = _logs(tmp_path, *_fetches(0, NO_DATA, 2, 9), *_fetches(1, NO_DATA, 1, 9))
    outcomes, _ = check_rows(rows, FAMILIES, logs=logs, limit=1)
    assert [row["partition"] for row in outcomes["broker logs"].summary["stood_still"]] == [1]


def test_the_check_tells_what_the_logs_say(rows: Rows, tmp_path: Path) -> None:
    """In the results, by node and name."""
    told = _summary(rows, _logs(tmp_path, *_fetches(0, NO_DATA, 1, 7)))
    assert [(row["node"], row["name"], row["lines"]) for row in told["lines"]] == [(1, "no-data", 2)]
    assert told["lines"] == [
        {"node": 1, "name": "no-data", "lines": 2, "first_ns": 6 * SECOND_NS, "last_ns": 12 * SECOND_NS}
    ]
    span = {"since": 6 * SECOND_NS, "until": 12 * SECOND_NS}
    assert told["stood_still"] == [{"topic": "t7", "partition": 0, "class": 1, **span, "at": 50, "lines": 2}]


def test_a_pattern_that_it_does_not_know_is_named(rows: Rows, tmp_path: Path) -> None:
    """The other checks go on."""
    odd = replace(_logs(tmp_path, "x"), patterns={"odd": r"(?P<topic>a)(?P=topic)"})
    failures = steps_of(rows, FAMILIES, context(rows, logs=odd)).failures
    why = "the pattern 'odd' looks around or back, which is not supported"
    assert failures == {"broker logs": f"the check of broker logs failed ({why})"}


KAFKA = """\
[2023-11-14 22:13:21,000] [metadata-loader-event-handler] INFO state.change.logger - [Broker id=1] Leader t7-1 \
with topic id Some(eAvqV9fHQ4SCM2BatF) starts at leader epoch 3 from offset 12 with partition epoch 0, high watermark \
11, ISR [3,1,2], adding replicas [] and removing replicas [] . Previous leader None and previous leader epoch was -1.
[2023-11-14 22:13:21,000] [metadata-loader-event-handler] INFO state.change.logger - [Broker id=1] Follower t7-2 \
starts at leader epoch 1 from offset 302 with partition epoch 1 and high watermark 15. Current leader is 1.
[2023-11-14 22:13:21,000] [ReplicaFetcherThread-0-3] INFO org.apache.kafka.storage.internals.log.UnifiedLog - \
[UnifiedLog partition=t7-0, dir=/data] Truncating to offset 40
[2023-11-14 22:13:21,000] [kafka-scheduler-2] INFO kafka.cluster.Partition - [Partition t7-0 broker=1] Shrinking ISR \
from 1,2,3 to 1. Leader: (highWatermark: 5, endOffset: 10, recoveryState: RECOVERED)."""


def test_lines_of_kafka_are_understood(rows: Rows, tmp_path: Path) -> None:
    """By the patterns of its own target, which are the default."""
    logs = replace(_logs(tmp_path, KAFKA), patterns=load_target("kafka", None).logs)
    wanted = ("name", "topic", "partition", "offset", "high_watermark", "leader_epoch")
    assert _lines(logs).select(wanted).rows() == [
        ("leader", 7, 1, 12, 11, 3),
        ("follower", 7, 2, 302, 15, 1),
        ("truncated", 7, 0, 40, None, None),
        ("shrunk", 7, 0, None, None, None),
    ]


def test_logs_of_a_run_are_read_as_its_facts_say(tmp_path: Path) -> None:
    """In the zone of its machine; containers are in none."""
    for node in (1, 2):
        (tmp_path / "logs" / str(node)).mkdir(parents=True)
        (tmp_path / "logs" / str(node) / "broker.log").touch()
    (tmp_path / "logs" / "worker-3.log").touch()
    facts = {
        "log_patterns": {"leader": "x"},
        "anchor": {"monotonic_ns": 5, "wall_ns": 7},
        "started_at": "2026-01-02T03:04:05-0230",
        "cluster": {"kind": "local"},
    }
    logs = logs_of(tmp_path, facts)
    assert logs is not None
    assert (sorted(logs.files), logs.monotonic_ns, logs.wall_ns, logs.utc_offset_s) == ([1, 2], 5, 7, -9000)
    in_containers = logs_of(tmp_path, facts | {"cluster": {"kind": "docker"}})
    assert in_containers is not None
    assert in_containers.utc_offset_s == 0
    assert logs_of(tmp_path, {name: value for name, value in facts.items() if name != "log_patterns"}) is None
    assert logs_of(tmp_path / "elsewhere", facts) is None
