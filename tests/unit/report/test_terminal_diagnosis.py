"""The diagnosis on a screen."""

from typing import Any

import pytest

from checkers.core.results import Finding
from harness.judging.diagnosis import Cause, Diagnosis, Excluded, Measured
from harness.report.terminal.diagnosis import allowed_lines, diagnosis_lines, first_in_prose, wall_clock

FACTS: dict[str, Any] = {
    "anchor": {"monotonic_ns": 1_000_000_000, "wall_ns": 1_794_895_519_091_536_418},
    "started_at": "2026-11-17T06:05:19+0000",
}
LOST = Finding("lost-write", "t", 0, 5, (7,), (), (), 3_500_000_000, None, (), (), "acknowledged")


def test_the_lines_are_those_of_the_sketch() -> None:
    """Cause, because, excluded, remedy, first."""
    cause = Cause("c", "it broke", "certain", (LOST,), (), ("one", "two", "three"), ("but",), ("do this", "or that"))
    excluded = tuple(Excluded(name, "", "") for name in ("watermark lag", "time-outs"))
    assert list(diagnosis_lines(Diagnosis((cause,), (), excluded), FACTS)) == [
        "  cause     it broke (certain)",
        "            one",
        "            two",
        "            against it: but",
        "            excluded: watermark lag (measured: none), time-outs",
        "  remedy    do this · or that",
        "  first     06:05:21.591  t-0@5: value 7, acknowledged",
    ]


def test_without_a_cause_nothing_is_shown_but_what_is_not_explained() -> None:
    """That there is something."""
    assert list(diagnosis_lines(Diagnosis(), FACTS)) == []
    (line,) = diagnosis_lines(Diagnosis(unexplained=("gap ×2",)), FACTS)
    assert line == "  cause     not known: no rule accounts for gap ×2"


def test_every_cause_and_what_they_leave_is_named() -> None:
    """In a line each, with their number; none is folded away."""
    causes = tuple(Cause(name, name, "likely") for name in "abcdef")
    left = tuple(f"{name} ×2" for name in ("gap", "torn", "corrupt", "phantom", "duplicate"))
    assert list(diagnosis_lines(Diagnosis(causes, unexplained=left), FACTS)) == [
        "  causes    6, the most harmful first",
        "  1         a (likely)",
        "  2         b (likely)",
        "  3         c (likely)",
        "  4         d (likely)",
        "  5         e (likely)",
        "  6         f (likely)",
        "            not explained by that: gap ×2, torn ×2, corrupt ×2, phantom ×2 and 1 more",
    ]


def test_what_was_not_seen_and_may_be_there_is_not_excluded() -> None:
    """It says how much could not be seen."""
    told = Measured("lost messages", "not excluded", "measured, none seen, but 5 of 9 messages could not be read")
    found = Diagnosis((Cause("c", "it broke", "likely"),), measured=(told,))
    assert list(diagnosis_lines(found, FACTS))[1:] == [
        "            not excluded: lost messages: measured, none seen, but 5 of 9 messages could not be read"
    ]
    assert list(diagnosis_lines(Diagnosis(measured=(told,)), FACTS)) == []


def test_causes_of_what_is_allowed_have_their_own_lines() -> None:
    """With the first of their evidence."""
    cause = Cause("c", "acks=1 losses", "certain", because=("leader-kill: 1 → 3", "more"), allowed=True)
    assert list(allowed_lines(Diagnosis(allowed=(cause,)))) == [
        "  allowed   acks=1 losses (certain)",
        "            leader-kill: 1 → 3",
    ]


def test_the_time_of_day_is_that_of_the_place_where_the_run_was_made() -> None:
    """Or UTC if nobody noted it."""
    there = {**FACTS, "started_at": "2026-11-17T07:05:19+0100"}
    assert wall_clock(3_500_000_000, there) == "07:05:21.591"
    assert wall_clock(3_500_000_000, {"anchor": FACTS["anchor"]}) == "06:05:21.591"


@pytest.mark.parametrize(
    "anchor", [None, {}, {"wall_ns": "x", "monotonic_ns": 0}, {"wall_ns": 10**40, "monotonic_ns": 0}]
)
def test_a_time_that_cannot_be_told_is_left_out(anchor: Any) -> None:
    """Whatever run.json holds."""
    assert wall_clock(5, {"anchor": anchor}) == ""
    assert wall_clock(None, FACTS) == ""
    assert first_in_prose(LOST, {"anchor": anchor}) == "t-0@5: value 7, acknowledged"
