"""Timelines, their segments, and what happened before, during and after faults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.coverage import Span, Timeline, spans, timeline
from checkers.deletions import segment


def row(time: int, name: str, fault: int | None = None, stage: int | None = None, detail: str = "") -> dict[str, Any]:
    """As read from the history."""
    return {"time": time, "name": name, "fault": fault, "stage": stage, "detail": detail}


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
    long, short = spans(line, sends, [], {"b"})
    assert (long.during, long.clear) == (Span(11_100, 0), Span(10_100, 0))
    assert (short.during, short.clear) == (Span(1000, 0), Span(0, 0, short=True))
    both = spans(line, sends, [], ())
    assert [each.clear for each in both] == [each.during for each in both]


def test_windows_that_overlap_have_nothing_between_them() -> None:
    """The first has a before, the second an after."""
    rows = [row(20, "a", 1, 1), row(40, "a", 1, 3), row(30, "b", 2, 1), row(50, "b", 2, 3)]
    line = timeline(rows, 0, 100)
    first, second = line.faults
    assert (line.before_ns(first), line.after_ns(first)) == ((0, 20), None)
    assert (line.before_ns(second), line.after_ns(second)) == (None, (50, 100))


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
    kill, move = spans(line, operations, reads)
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
        (covered,) = spans(timeline(rows, 0, 100 * 10**9), told, [])
        assert covered.during == Span(0, 0, short=short)


def test_the_evidence_of_a_bite_outlives_what_fails_later() -> None:
    """The verdict has to know what kind of election it was."""
    rows = [row(20, "a", 1, 1), row(30, "a", 1, 2, "an unclean election"), row(40, "a", 1, 5, "still there")]
    (fault,) = timeline(rows, 0, 100).faults
    assert (fault.evidence, fault.detail) == ("an unclean election", "still there")


@given(bounds=st.lists(st.integers(0, 30), unique=True).map(sorted), time=st.integers(-1, 31))
def test_a_segment_is_the_number_of_bounds_passed(bounds: list[int], time: int) -> None:
    """The search tree says what counting says."""

    def evaluate(expression: str) -> int:
        if expression.isdigit():
            return int(expression)
        condition, rest = expression.removeprefix("if(time < ").split("L, ", 1)
        depth, split = 0, 0
        for split, character in enumerate(rest):  # noqa: B007 - the place of the comma between the branches
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character == "," and not depth:
                break
        return evaluate(rest[:split] if time < int(condition) else rest[split + 2 : -1])

    assert evaluate(segment(bounds)) == sum(bound <= time for bound in bounds)
