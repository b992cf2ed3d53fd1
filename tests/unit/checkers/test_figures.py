"""The table of the notes, rates and stalls: what surveys say against what counting says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest

from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.summaries import coverage
from checkers.summaries.coverage import CoverageCounts
from checkers.summaries.figures import (
    FAMILIES,
    PARTITIONS_AT_MOST,
    STALL_NS,
    STALLS_AT_MOST,
    BatchCounts,
    Figures,
    FigureSurvey,
    PartitionRow,
    figures,
)
from harness.history.schema import F, Kind, Type
from tests.oracle import delivery, groups, idempotence, leadership
from tests.support.histories import SECOND_NS, Rows, process_of
from tests.support.kernels import SIZES, WHOLE, Size, context, steps_of
from tests.support.stub_values import Places

RUN = RunContext(topics={1: "batch"})


def values(partition: int, sent: int, read: int, **changes: int | None) -> dict[str, Any]:
    """A partition where all that was sent was acknowledged."""
    counts = {"sent": sent, "acknowledged": sent, "failed": 0, "info": 0, "read": read, "distinct": read}
    return {"topic": 1, "partition": partition, **counts, **changes}


def of(places: Sequence[dict[str, Any]], run: RunContext = RUN, **parts: Any) -> Figures:
    """Figures from tables; whatever is not said is empty."""
    empty = Piece({}, run)
    counted = {name: parts.pop(name) for name in ("operations", "reads") if name in parts}
    return figures(
        Places(places).places,
        replace(CoverageCounts.of(empty, run), **counted),
        replace(FigureSurvey.of(empty, run), **parts),
        run,
    )


def line(acknowledged: int, distinct: int, missing: int = 0) -> PartitionRow:
    """A row of the table."""
    counts = (acknowledged, acknowledged, 0, 0, distinct, distinct)
    return PartitionRow("t", 0, *counts, 1.0, 0, 0, 0, acknowledged - missing, missing)


@pytest.mark.parametrize(("acknowledged", "missing", "low"), [(100, 10, False), (100, 11, True), (0, 0, False)])
def test_a_partition_is_low_when_more_than_a_tenth_is_missing(acknowledged: int, missing: int, *, low: bool) -> None:
    """Exactly a tenth is not."""
    assert line(acknowledged, acknowledged - missing, missing).low is low


def test_a_partition_is_not_low_when_the_final_readers_got_the_rest() -> None:
    """That the load's consumers had not read everything when the load ended says nothing of the broker."""
    late = line(1000, 120)
    assert (late.deviation, late.low) == (-880, False)
    assert line(1000, 120, 880).low


def test_the_table_has_a_line_for_each_partition() -> None:
    """With its share, its range of offsets and what is missing in it."""
    extents = pl.DataFrame(
        {"place": [1 << 32], "first_offset": [2], "last_offset": [19], "offsets_read": [15], "read_finally": [17]}
    )
    places = [values(1, 10, 5, never_read=4), values(0, 10, 15), {**values(0, 0, 1), "topic": 2}]
    found = of(places, ranges=extents)
    assert [(row.topic, row.partition, row.gaps, row.first_offset, row.last_offset) for row in found.table] == [
        ("batch", 0, 3, 2, 19),
        ("batch", 1, 0, None, None),
        ("2", 0, 0, None, None),
    ]
    assert [(row.read_finally, row.missing, row.low) for row in found.table[:2]] == [(17, 0, False), (0, 4, True)]
    assert [row.share for row in of(places[:2]).table] == [0.75, 0.25]
    assert (found.sent, found.read, found.imbalance, found.success_rate) == (20, 21, 14, 21 / 20)


def test_gaps_say_nothing_where_records_are_taken_out() -> None:
    """By transactions, or by compaction."""
    extents = pl.DataFrame(
        {"place": [1 << 32], "first_offset": [2], "last_offset": [19], "offsets_read": [15], "read_finally": [0]}
    )
    (in_transactions,) = of([values(0, 5, 5, transactional=1)], ranges=extents).table
    (compacted,) = of([values(0, 5, 5)], replace(RUN, compacted=frozenset({1})), ranges=extents).table
    assert (in_transactions.gaps, compacted.gaps) == (None, None)


def test_many_partitions_are_told_as_totals_only() -> None:
    """Nobody reads a table of thousands of lines."""
    found = of([values(n, 1, 1) for n in range(PARTITIONS_AT_MOST + 1)])
    assert (found.table, found.sent, found.partitions) == ([], 51, 51)


def test_rates_need_time_to_have_passed() -> None:
    """Nothing is divided by nought."""
    empty = Figures()
    assert (empty.produce_rate, empty.consume_rate, empty.success_rate, empty.imbalance) == (None, None, None, 0)
    assert of([]) == empty


def test_durations_are_those_of_the_load() -> None:
    """Sends that stayed open until the end of the run do not lengthen the producing; final reads not the consuming."""
    operations = [
        {"f": 1, "type": 1, "load": False, "first_ns": 1 * 10**9, "last_ns": 5 * 10**9, "count": 1, "made": 0},
        {"f": 1, "type": 3, "load": False, "first_ns": 2 * 10**9, "last_ns": 99 * 10**9, "count": 1, "made": 0},
        {"f": 2, "type": 1, "load": True, "first_ns": 5 * 10**9, "last_ns": 9 * 10**9, "count": 1, "made": 0},
        {"f": 2, "type": 1, "load": False, "first_ns": 0, "last_ns": 99 * 10**9, "count": 1, "made": 0},
    ]
    reads = [{"load": True, "last_ns": 9 * 10**9, "count": 1}, {"load": False, "last_ns": 99 * 10**9, "count": 1}]
    found = of([values(0, 8, 8)], operations=pl.DataFrame(operations), reads=pl.DataFrame(reads))
    assert (found.produce_s, found.produce_rate, found.consume_s, found.consume_rate) == (4.0, 2.0, 4.0, 2.0)


def test_a_wait_at_the_end_is_a_stall_only_if_something_was_missing() -> None:
    """A consumer that read everything waits for nothing."""
    waits = pl.DataFrame([
        {"process": 1, "since": 0, "until": 6 * 10**9, "at_end": False},
        {"process": 1, "since": 0, "until": 60 * 10**9, "at_end": True},
    ])  # fmt: skip
    found: dict[str, Any] = {"waits": waits, "silences": {False: 1, True: 1}}
    whole, short = of([values(0, 8, 8)], **found), of([values(0, 8, 7)], **found)
    assert [stall.lasted_ns for stall in whole.stalls] == [6 * 10**9]
    assert [stall.lasted_ns for stall in short.stalls] == [60 * 10**9, 6 * 10**9]
    assert (whole.stalls_count, short.stalls_count) == (1, 2)


def test_without_batches_at_taps_nobody_knows_how_they_ended() -> None:
    """None is another thing than nought."""
    found = of([])
    assert (found.resends, found.unsettled, found.offsetless) == (0, None, None)
    seen = of([], batches=BatchCounts(5, 3, 2, 0))
    assert (seen.resends, seen.unsettled, seen.offsetless) == (2, 2, 0)


def told(rows: Rows, size: Size = WHOLE, places: Sequence[dict[str, Any]] = ()) -> Figures:
    """The figures of a history."""
    steps = steps_of(rows, [Places(places), *coverage.FAMILIES, *FAMILIES], context(rows), size)
    outcomes = steps.conclude()
    assert not steps.failures
    summary = outcomes["figures"].summary
    assert isinstance(summary, Figures)
    return summary


def busy(seed: int) -> Rows:
    """Consumers that wait, members that are given partitions, batches that pass the taps more than once."""
    rows, random = Rows(), Random(seed)
    for topic, oracle in enumerate((delivery, groups, idempotence, leadership, delivery, delivery)):
        rows.topics[topic] = f"t{topic}"
        oracle.write(rows, topic, random)
    for _ in range(60):
        time = random.randint(0, 10**6) * 10**5
        polled = {"count": random.choice([None, 0, 0, 1]), "time": time, "invoked": time - random.randint(0, 10**8)}
        rows.add(Kind.COMPLETE, random.choice(["c1", "c2", "r1"]), f=F.POLL, type=1, **polled)
    for number in range(60):
        time = random.randint(1, 20) * 10**9
        common: dict[str, Any] = {"time": time + number, "invoked": time, "topic": 0}
        common["partition"] = random.randint(0, 20)
        member = {"member": random.choice([None, 1, 2]), "offset": random.choice([None, None, 5])}
        rows.add(Kind.COMPLETE, "g1", f=F.ASSIGN, type=random.choice([1, 1, 2]), **member, **common)
        batch = {
            "client": random.choice(["a", "b", None]), "crc": random.choice([None, 1, 2, 3]), "producer_epoch": 0,
            "producer_id": random.choice([1, 2]), "sequence": random.choice([0, 1]),
            "error": random.choice([None, 0, 7]),
        }  # fmt: skip
        common |= {"partition": random.randint(0, 2), "offset": random.choice([None, -1, 4])}
        rows.add(Kind.EXCHANGE, "t1", api=random.choice([0, 0, 0, 1]), type=random.choice([1, 1, 3]), **batch, **common)
    return rows


def slow_stalls(rows: Rows) -> list[tuple[int, int, int, bool]]:
    """From one useful poll to the next."""
    found = []
    for process, about in rows.processes.items():
        polls = [
            (event["time"], event["count"], event["invoked"])
            for event in rows.events[Kind.COMPLETE]
            if event["process"] == process and event["f"] == F.POLL and event.get("count") is not None
        ]
        if about["role"] != "consumer" or not polls:
            continue
        since = min(invoked for _, _, invoked in polls)
        for time, count, _ in sorted(polls):
            if count:
                found.append((process, since, time - since, False))
                since = time
        found.append((process, since, max(time for time, _, _ in polls) - since, True))
    return sorted(each for each in found if each[2] >= STALL_NS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_figures_are_what_counting_says(seed: int, size: Size) -> None:
    """One event after the other."""
    rows = busy(seed)
    places = [{**values(partition, 5, 4), "topic": topic} for topic in rows.topics for partition in range(3)]
    found = told(rows, size, places)
    stalls = [(each.process, each.began_ns, each.lasted_ns, each.at_end) for each in found.stalls]
    assert sorted(stalls) == slow_stalls(rows)
    assert found.stalls_count == len(stalls) < STALLS_AT_MOST
    completions = rows.events[Kind.COMPLETE]
    given = {
        (event["member"], event["invoked"])
        for event in completions
        if event["f"] == F.ASSIGN and event["type"] == Type.OK and event.get("member") is not None
        and event.get("offset") is None
    }  # fmt: skip
    assert found.rebalances == len(given)
    assert_batches(rows, found)
    assert found.commits == sum((each["f"], each["type"]) == (F.COMMIT, Type.OK) for each in completions)
    assert found.transactions.get("aborted", 0) == sum((e["f"], e["type"]) == (F.TXN, Type.FAIL) for e in completions)
    for row in found.table:
        assert_range(rows, row)


def assert_batches(rows: Rows, found: Figures) -> None:
    """Those that passed the taps."""
    same = ("client", "topic", "partition", "producer_id", "producer_epoch", "sequence", "crc")
    batches = [each for each in rows.events[Kind.EXCHANGE] if each["api"] == 0 and each.get("crc") is not None]
    well = [each for each in batches if each["type"] == Type.OK and not each.get("error")]
    assert found.resends == len(batches) - len({tuple(each.get(name) for name in same) for each in batches})
    assert found.unsettled == len(batches) - len(well)
    offsets = [each.get("offset") for each in well]
    assert found.offsetless == sum(offset is None or offset < 0 for offset in offsets)


def assert_range(rows: Rows, row: PartitionRow) -> None:
    """What was read of a partition."""
    mine = [
        event
        for event in rows.events[Kind.RECORD]
        if (rows.topics[event["topic"]], event["partition"]) == (row.topic, row.partition)
    ]
    roles = {role: [each for each in mine if rows.processes[each["process"]]["role"] == role]
             for role in ("consumer", "final")}  # fmt: skip
    offsets = {each["offset"] for each in roles["consumer"]}
    assert (row.first_offset, row.last_offset) == (min(offsets, default=None), max(offsets, default=None))
    assert row.gaps == (max(offsets) - min(offsets) + 1 - len(offsets) if offsets else 0)
    assert row.read_finally == len(roles["final"])


def test_only_the_longest_stalls_are_kept_and_all_are_counted() -> None:
    """Those that begin first, of two that last as long."""
    rows = Rows()
    for number in range(200):
        time = number * 10 * SECOND_NS + (number if number > 150 else 0)
        rows.add(Kind.COMPLETE, f"c{number % 3}", f=F.POLL, type=1, count=1, time=time, invoked=time)
    for size in SIZES:
        found = told(rows, size)
        assert found.stalls_count == 197
        assert len(found.stalls) == STALLS_AT_MOST
        assert found.stalls[0].lasted_ns == 30 * SECOND_NS + 153
        longest = sorted((-stall.lasted_ns, stall.began_ns) for stall in found.stalls)
        assert longest == [(-stall.lasted_ns, stall.began_ns) for stall in found.stalls]
        assert {stall.process for stall in found.stalls} <= {process_of(f"c{number}") for number in range(3)}
