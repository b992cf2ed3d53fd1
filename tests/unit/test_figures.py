"""The table of the notes, rates and stalls, from what a job collected."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.figures import PARTITIONS_AT_MOST, Figures, PartitionRow, figures


def values(partition: int, sent: int, read: int, **changes: int) -> dict[str, Any]:
    """A partition where all that was sent was acknowledged."""
    counts = {"sent": sent, "acknowledged": sent, "failed": 0, "info": 0, "read": read, "distinct": read}
    return {"topic": 1, "partition": partition, **counts, **changes}


def line(acknowledged: int, distinct: int) -> PartitionRow:
    """A row of the table."""
    return PartitionRow("t", 0, acknowledged, acknowledged, 0, 0, distinct, distinct, 1.0, 0, 0, 0)


@pytest.mark.parametrize(("acknowledged", "distinct", "low"), [(100, 90, False), (100, 89, True), (0, 0, False)])
def test_a_partition_is_low_when_more_than_a_tenth_is_missing(acknowledged: int, distinct: int, low: bool) -> None:  # noqa: FBT001 - a column of the table
    """Exactly a tenth is not."""
    assert line(acknowledged, distinct).low is low
    assert line(acknowledged, distinct).deviation == distinct - acknowledged


def test_the_table_has_a_line_for_each_partition() -> None:
    """With its share, its range of offsets and what is missing in it."""
    sections = {
        "values": [values(1, 10, 5), values(0, 10, 15), {**values(0, 0, 1), "topic": None}],
        "linearizability": [{"topic": 1, "partition": 0, "first_offset": 2, "last_offset": 19, "offsets_read": 15}],
    }
    found = figures(sections, {1: "batch"})
    assert [(row.topic, row.partition, row.share, row.gaps, row.last_offset) for row in found.table] == [
        ("batch", 0, 0.75, 3, 19),
        ("batch", 1, 0.25, 0, None),
    ]
    assert (found.sent, found.read, found.imbalance, found.success_rate) == (20, 20, 10, 1.0)


def test_many_partitions_are_told_as_totals_only() -> None:
    """Nobody reads a table of thousands of lines."""
    found = figures({"values": [values(n, 1, 1) for n in range(PARTITIONS_AT_MOST + 1)]}, {})
    assert (found.table, found.sent, found.partitions) == ([], 51, 51)


def test_rates_need_time_to_have_passed() -> None:
    """Nothing is divided by nought."""
    empty = Figures()
    assert (empty.produce_rate, empty.consume_rate, empty.success_rate, empty.imbalance) == (None, None, None, 0)


def test_durations_are_those_of_the_load() -> None:
    """Sends that stayed open until the end of the run do not lengthen the producing; final reads not the consuming."""
    operations = [
        {"f": 1, "type": 1, "load": False, "first_ns": 1 * 10**9, "last_ns": 5 * 10**9, "count": 1, "made": 0},
        {"f": 1, "type": 3, "load": False, "first_ns": 2 * 10**9, "last_ns": 99 * 10**9, "count": 1, "made": 0},
        {"f": 2, "type": 1, "load": True, "first_ns": 5 * 10**9, "last_ns": 9 * 10**9, "count": 1, "made": 0},
        {"f": 2, "type": 1, "load": False, "first_ns": 0, "last_ns": 99 * 10**9, "count": 1, "made": 0},
    ]
    reads = [{"load": True, "last_ns": 9 * 10**9, "count": 1}, {"load": False, "last_ns": 99 * 10**9, "count": 1}]
    found = figures({"values": [values(0, 8, 8)], "operations": operations, "reads": reads}, {})
    assert (found.produce_s, found.produce_rate, found.consume_s, found.consume_rate) == (4.0, 2.0, 4.0, 2.0)


def test_a_wait_at_the_end_is_a_stall_only_if_something_was_missing() -> None:
    """A consumer that read everything waits for nothing."""
    silences = [
        {"process": 1, "since": 0, "until": 6 * 10**9, "at_end": False},
        {"process": 1, "since": 0, "until": 60 * 10**9, "at_end": True},
    ]
    whole = figures({"values": [values(0, 8, 8)], "silences": silences}, {})
    short = figures({"values": [values(0, 8, 7)], "silences": silences}, {})
    assert [stall.lasted_ns for stall in whole.stalls] == [6 * 10**9]
    assert [stall.lasted_ns for stall in short.stalls] == [60 * 10**9, 6 * 10**9]
