"""Timelines, their segments, and what happened before, during and after faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.core.timeline import Fault, Timeline, timeline
from checkers.summaries.coverage import FAMILIES, LONGEST_SHORT_NS, Coverage, CoverageCounts, Span, segments, spans
from harness.history.schema import F, FaultStage, Kind, Type
from tests.oracle import delivery, groups, idempotence, leadership
from tests.support.histories import Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, context, steps_of
from tests.support.stub_values import Places


def row(time: int, name: str, fault: int | None = None, stage: int | None = None, detail: str = "") -> dict[str, Any]:
    """As read from the history."""
    return {"time": time, "name": name, "fault": fault, "stage": stage, "detail": detail}


def counted(rows: list[dict[str, Any]], **schema: Any) -> pl.DataFrame:
    """A table as surveys bring it."""
    return pl.DataFrame(rows, schema={"segment": pl.Int64, "count": pl.Int64, **schema})


def of_operations(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """What clients did."""
    return counted(rows, f=pl.Int8, type=pl.Int8)


def of_reads(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """What they were handed."""
    return counted(rows, load=pl.Boolean)


def two_faults() -> Timeline:
    """One at 20 to 30, which bit, one at 50 to 60, which missed, in a load of 10 to 80."""
    rows = [
        row(50, "move", 2, 1), row(60, "move", 2, 3), row(59, "move", 2, 4, "the leader stayed"),
        row(20, "kill", 1, 1), row(25, "kill", 1, 2, "1 → 2"), row(30, "kill", 1, 3),
        row(0, "set up"), row(10, "load"), row(80, "heal"), row(90, "final"),
    ]  # fmt: skip
    return timeline(rows, 0, 100)


def test_a_timeline_is_read_in_any_order() -> None:
    """Phases bound the load, stages make faults."""
    line = two_faults()
    assert line.load_ns == (10, 80)
    kill, move = line.faults
    assert (kill.name, kill.injected_ns, kill.undone_ns, kill.bit, kill.detail) == ("kill", 20, 30, True, "1 → 2")
    assert (move.bit, move.detail) == (False, "the leader stayed")
    assert line.bounds_ns() == [10, 20, 30, 50, 60, 80]


def test_before_and_after_reach_to_the_next_window_or_the_end_of_the_load() -> None:
    """Both sides of each fault."""
    line = two_faults()
    assert [line.before_ns(fault) for fault in line.faults] == [(10, 20), (30, 50)]
    assert [line.after_ns(fault) for fault in line.faults] == [(30, 50), (60, 80)]


def test_a_fault_knows_when_the_cluster_was_whole_again_and_its_topic() -> None:
    """Where the history says so; a topic that nobody has named is none."""
    aimed = {**row(20, "recreate-topic", 1, 1), "topic": 4}
    line = timeline([aimed, row(30, "recreate-topic", 1, 3), row(35, "recreate-topic", 1, 6)], 0, 100, {4: "t"})
    (fault,) = line.faults
    assert (fault.undone_ns, fault.healed_ns, fault.topic) == (30, 35, "t")
    assert line.window_ns(fault) == (20, 30)
    (unnamed,) = timeline([{**aimed, "topic": 5}], 0, 100, {4: "t"}).faults
    assert (unnamed.healed_ns, unnamed.topic) == (None, None)


def test_what_another_fault_may_block_is_left_out_and_nothing_else() -> None:
    """A short fault that blocks, beside a long one: the rest of the long one has to be covered all the same."""
    s = 10**9
    rows = [row(0, "load"), row(20 * s, "a", 1, 1), row(30 * s, "b", 2, 1), row(35 * s, "b", 2, 3)]
    rows += [row(60 * s, "a", 1, 3), row(90 * s, "heal")]
    line = timeline(rows, 0, 100 * s)
    sends = [{"f": 1, "type": 1, "segment": n, "count": 10**n} for n in range(1, 6)]
    long, short = spans(line, of_operations(sends), of_reads([]), {"b"})
    assert (long.during, long.clear) == (Span(11_100, 0), Span(10_100, 0))
    assert (short.during, short.clear) == (Span(1000, 0), Span(0, 0, short=True))
    both = spans(line, of_operations(sends), of_reads([]), ())
    assert [each.clear for each in both] == [each.during for each in both]


def test_windows_that_overlap_have_nothing_between_them() -> None:
    """The first has a before, the second an after."""
    rows = [row(20, "a", 1, 1), row(40, "a", 1, 3), row(30, "b", 2, 1), row(50, "b", 2, 3)]
    line = timeline(rows, 0, 100)
    first, second = line.faults
    assert (line.before_ns(first), line.after_ns(first)) == ((0, 20), None)
    assert (line.before_ns(second), line.after_ns(second)) == (None, (50, 100))


def _beside(line: Timeline, fault: Fault, *, after: bool) -> tuple[int, int] | None:
    """What lies between a fault and the nearest other one, by looking at all of them."""
    own = line.window_ns(fault)
    others = [window for other in line.faults if other is not fault and (window := line.window_ns(other))]
    if own is None or any(start <= own[after] <= end for start, end in others):
        return None
    if after:
        return own[1], max(own[1], min((start for start, _ in others if start > own[1]), default=line.load_ns[1]))
    return min(own[0], max((end for _, end in others if end < own[0]), default=line.load_ns[0])), own[0]


def test_what_lies_beside_faults_is_found_without_comparing_them_all() -> None:
    """With many that overlap, that last for no time, that were never undone or never injected."""
    random = Random(7)
    for _ in range(300):
        at = [random.choice([None, random.randint(0, 12)]) for _ in range(14)]
        faults = [Fault(number, "a", at[number], at[number + 7]) for number in range(random.randint(0, 7))]
        line = Timeline((random.randint(0, 6), random.randint(6, 12)), faults=faults)
        for fault in faults:
            assert line.before_ns(fault) == _beside(line, fault, after=False)
            assert line.after_ns(fault) == _beside(line, fault, after=True)


def test_a_fault_that_was_never_undone_lasts_until_the_end_of_the_load() -> None:
    """One that was never injected has no window."""
    line = timeline([row(0, "load"), row(20, "a", 1, 1), row(30, "b", 2, 5, "no such node"), row(90, "heal")], 0, 100)
    undone, failed = line.faults
    assert line.window_ns(undone) == (20, 90)
    assert (line.window_ns(failed), failed.failed, failed.detail) == (None, True, "no such node")


def test_spans_add_up_segments() -> None:
    """Sends that were acknowledged and records that the load's consumers read."""
    line = two_faults()
    operations = [{"f": 1, "type": 1, "segment": n, "count": 10**n} for n in range(7)]
    operations += [{"f": 1, "type": 3, "segment": 1, "count": 5}, {"f": 2, "type": 1, "segment": 1, "count": 5}]
    reads = [{"load": True, "segment": 2, "count": 7}, {"load": False, "segment": 2, "count": 9}]
    kill, move = spans(line, of_operations(operations), of_reads(reads))
    assert (kill.before, kill.during, kill.after) == (moment(10, 0), moment(100, 7), moment(1000, 0))
    assert (move.before, move.during, move.after) == (moment(1000, 0), moment(10**4, 0), moment(10**5, 0))


def moment(sends: int, reads: int) -> Span:
    """What was done in a few nanoseconds."""
    return Span(sends, reads, short=True)


@pytest.mark.parametrize("type_", [1, 2, 3])
@pytest.mark.parametrize(("sends", "long_enough_s"), [(10_000, 1), (150, 2), (50, 3), (0, 3)])
def test_how_long_is_long_enough_depends_on_the_pace(sends: int, long_enough_s: int, type_: int) -> None:
    """A second, or the time of three sends in a load of 100 s, whatever became of them, and never more than three."""
    for lasted_s, short in ((long_enough_s, False), (long_enough_s - 0.1, True)):
        end = int((20 + lasted_s) * 1e9)
        rows = [row(0, "load"), row(20 * 10**9, "a", 1, 1), row(end, "a", 1, 3), row(100 * 10**9, "heal")]
        told = [{"f": 1, "type": type_, "segment": 1, "count": sends}]
        (covered,) = spans(timeline(rows, 0, 100 * 10**9), of_operations(told), of_reads([]))
        assert covered.during == Span(0, 0, short=short)


def test_the_evidence_of_a_bite_outlives_what_fails_later() -> None:
    """The verdict has to know what kind of election it was."""
    rows = [row(20, "a", 1, 1), row(30, "a", 1, 2, "an unclean election"), row(40, "a", 1, 5, "still there")]
    (fault,) = timeline(rows, 0, 100).faults
    assert (fault.evidence, fault.detail) == ("an unclean election", "still there")


@given(bounds=st.lists(st.integers(0, 30), unique=True).map(sorted), time=st.integers(-1, 31))
def test_a_segment_is_the_number_of_bounds_passed(bounds: list[int], time: int) -> None:
    """The search says what counting says."""
    assert segments(np.array([time]), bounds).tolist() == [sum(bound <= time for bound in bounds)]


def test_a_fault_that_was_never_injected_covers_nothing() -> None:
    """And nobody can expect that anything happened in it."""
    line = timeline([row(0, "load"), row(30, "b", 2, 5, "no such node"), row(90, "heal")], 0, 100)
    (fault,) = spans(line, of_operations([]), of_reads([]))
    assert (fault.before, fault.during, fault.after, fault.clear) == (None, None, None, Span(0, 0, short=True))


def covered(rows: Rows, size: Size = WHOLE, places: Sequence[dict[str, Any]] = (), **more: Any) -> Coverage:
    """The coverage of a history."""
    steps = steps_of(rows, [Places(places), *FAMILIES], context(rows, **more), size)
    outcomes = steps.conclude()
    assert not steps.failures
    summary = outcomes["coverage"].summary
    assert isinstance(summary, Coverage)
    return summary


def test_finals_are_told_by_partition() -> None:
    """Those that were acknowledged something and not read to their end, and logs that the raw read left unread."""
    whole: dict[str, Any] = {
        "topic": 1,
        "acknowledged": 5,
        "transactional": 0,
        "final_invoked": 9,
        "final_offset": 5,
        "final_end": 5,
    }
    short: dict[str, Any] = {**whole, "final_invoked": None, "final_offset": 3}
    places = [
        {**whole, "partition": 0, "raw_ok": True},
        {**short, "partition": 3, "raw_ok": None},
        {**short, "partition": 2, "acknowledged": 0, "raw_ok": False},
        {**whole, "partition": 1, "transactional": 2, "raw_ok": None},
        {**short, "topic": None, "partition": None},
    ]
    rows = Rows(topics={1: "t"})
    found = covered(rows, places=places)
    assert (found.finals_complete, found.finals_incomplete_count) == (2, 1)
    assert found.finals_incomplete == [{"topic": "t", "partition": 3, "final_offset": 3, "final_end": 5}]
    assert (found.raws_incomplete_count, found.raws_incomplete) == (2, ["t-1", "t-2"])
    others = covered(rows, places=places, foreign=True)
    assert (others.raws_incomplete_count, others.raws_incomplete) == (1, ["t-2"])
    many = [{**short, "partition": number, "raw_ok": False} for number in range(50)]
    told = covered(rows, places=many)
    assert (told.finals_incomplete_count, len(told.finals_incomplete)) == (50, 20)
    assert (told.raws_incomplete_count, len(told.raws_incomplete)) == (50, 20)


def test_who_went_on_with_other_numbers_is_known() -> None:
    """A producer id or an epoch that follows another, of a client that has its process in its name."""
    rows = Rows()
    for client, numbers in (
        ("tidegauge-producer-3", [(1, 0), (1, 0)]), ("tidegauge-producer-4", [(1, 0), (1, 1)]),
        ("tidegauge-producer-5", [(1, 0), (2, 0)]), ("tidegauge-producer-6", [(1, 0), (-1, -1), (3, None)]),
        ("app", [(1, 0), (2, 0)]), (None, [(1, 0), (2, 0)]),
    ):  # fmt: skip
        for number, (identity, epoch) in enumerate(numbers):
            rows.add(
                Kind.EXCHANGE, "t1", time=number, invoked=number, type=1, api=0, client=client, topic=0,
                partition=number, producer_id=identity, producer_epoch=epoch,
            )  # fmt: skip
    rows.add(Kind.EXCHANGE, "t1", time=9, invoked=9, type=1, api=22, client="tidegauge-producer-3", producer_id=9)
    for size in SIZES:
        counted_ = steps_of(rows, [Places(), *FAMILIES], context(rows), size).gathered["coverage"]
        assert isinstance(counted_, CoverageCounts)
        assert counted_.renumbered == {4, 5}


def busy(seed: int) -> Rows:
    """Histories of several sorts, errors, probes and faults."""
    rows, random = Rows(), Random(seed)
    for topic, oracle in enumerate((delivery, groups, idempotence, leadership, delivery, delivery)):
        rows.topics[topic] = f"t{topic}"
        oracle.write(rows, topic, random)
    for event in rows.events[Kind.COMPLETE]:
        if random.random() < 0.2:
            event["error"] = random.choice([-192, 6, 7, 9999])
        if event["f"] == F.SEND and random.random() < 0.2:
            event["source"] = 1
    times = sorted({event["time"] for event in rows.events[Kind.COMPLETE]})
    began, ended = times[len(times) // 5], times[-2]
    rows.add(Kind.PHASE, "x1", time=began, name="load")
    rows.add(Kind.PHASE, "x1", time=ended, name="heal")
    for number in range(random.randint(0, 4)):
        stages = sorted(random.sample(times, 2))
        fault = {"fault": number, "name": random.choice(["kill", "cut"])}
        rows.add(Kind.FAULT, "x1", time=stages[0], stage=FaultStage.INJECTED, **fault)
        if random.random() < 0.8:
            rows.add(Kind.FAULT, "x1", time=stages[1], stage=FaultStage.UNDONE, **fault)
    return rows


def slow_span(rows: Rows, window: tuple[int, int], others: list[tuple[int, int]], tried: int, load_ns: int) -> Span:
    """By counting, without what others may have blocked."""

    def inside(event: dict[str, Any]) -> bool:
        began, ended = window
        return began <= event["time"] < ended and not any(start <= event["time"] < end for start, end in others)

    sends = [event for event in rows.events[Kind.COMPLETE] if (event["f"], event["type"]) == (F.SEND, Type.OK)]
    load = [event for event in rows.events[Kind.RECORD] if rows.processes[event["process"]]["role"] == "consumer"]
    bounds = sorted({*window, *(min(max(bound, window[0]), window[1]) for each in others for bound in each)})
    lasted = sum(
        end - start for start, end in pairwise(bounds) if not any(low <= start and end <= high for low, high in others)
    )
    short_ns = min(LONGEST_SHORT_NS, max(10**9, 3 * load_ns // max(1, tried)))
    return Span(sum(map(inside, sends)), sum(map(inside, load)), lasted < short_ns)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(6))
def test_coverage_is_what_counting_says(seed: int, size: Size) -> None:
    """One event after the other."""
    rows = busy(seed)
    found = covered(rows, size, blocking=frozenset({"cut"}))
    completions, records, exchanges = (rows.events[kind] for kind in (Kind.COMPLETE, Kind.RECORD, Kind.PROBE))
    done = Counter((F(event["f"]).name.lower(), Type(event["type"]).name.lower()) for event in completions)
    assert Counter({(f, type_): count for f, of in found.operations.items() for type_, count in of.items()}) == done
    read = [event for event in records if rows.processes[event["process"]]["role"] != "replica"]
    load = [event for event in read if rows.processes[event["process"]]["role"] == "consumer"]
    assert (found.records, found.load_records) == (len(read), len(load))
    failed = Counter((event["f"], event["error"], event["type"]) for event in completions if event.get("error"))
    told = {(F[each["f"].upper()], each["error"], Type[each["type"].upper()]): each["count"] for each in found.errors}
    assert told == failed
    assert [each["count"] for each in found.errors] == sorted(failed.values(), reverse=True)
    asked = Counter((event.get("api"), event.get("node")) for event in exchanges)
    answered = Counter((event.get("api"), event.get("node")) for event in exchanges if event.get("error") == 0)
    assert {(each["api"], each["node"]): (each["asked"], each["answered"]) for each in found.probes} == {
        key: (count, answered[key]) for key, count in asked.items()
    }
    assert_faults(rows, found)


def assert_faults(rows: Rows, found: Coverage) -> None:
    """What was done around each fault."""
    line = context(rows).line
    tried = sum(event["f"] == F.SEND for event in rows.events[Kind.COMPLETE])
    load_ns = line.load_ns[1] - line.load_ns[0]

    def window(fault: Fault) -> tuple[int, int]:
        known = line.window_ns(fault)
        assert known
        return known

    blocking = [window(fault) for fault in line.faults if fault.name == "cut"]
    assert len(found.faults) == len(line.faults)
    for each, fault in zip(found.faults, line.faults, strict=True):
        assert each.during == slow_span(rows, window(fault), [], tried, load_ns)
        assert each.clear == slow_span(rows, window(fault), blocking, tried, load_ns)
        for span, known in ((each.before, line.before_ns(fault)), (each.after, line.after_ns(fault))):
            assert span == (None if known is None else slow_span(rows, known, [], tried, load_ns))


def test_a_history_without_events_covers_nothing() -> None:
    """And nothing fails; neither where the family of values did."""
    assert covered(Rows()) == Coverage()
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0")
    outcome = steps_of(rows, FAMILIES, context(rows)).conclude()["coverage"]
    assert outcome.summary == Coverage(operations={"send": {"ok": 1}})
