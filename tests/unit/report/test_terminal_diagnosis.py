"""The diagnosis on a screen."""

from pathlib import Path
from typing import Any

import pytest

from checkers.core.results import CheckResults, Finding
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.judging.diagnosis import Cause, Diagnosis, Excluded, Measured
from harness.judging.policies import RunFacts
from harness.judging.verdict import decide
from harness.report.terminal.diagnosis import diagnosis_rows, first_in_prose, wall_clock
from harness.report.terminal.layout import fitted
from harness.report.terminal.names import Names

FACTS: dict[str, Any] = {
    "anchor": {"monotonic_ns": 1_000_000_000, "wall_ns": 1_794_895_519_091_536_418},
    "started_at": "2026-11-17T06:05:19+0000",
}
LOST = Finding("lost-write", "t", 0, 5, (7,), (), (), 3_500_000_000, None, (), (), "acknowledged")


NAMES = Names(("t",))


def checked(facts: dict[str, Any] = FACTS) -> Checked:
    """A run with these facts, and nothing else."""
    return Checked(Run(Path("/store/x/y")), facts, CheckResults(), decide(CheckResults(), RunFacts()))


def lines(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The rows of a screen, title and text."""
    return [(row.title, row.text) for row in diagnosis_rows(diagnosis, checked(), NAMES)]


def test_the_rows_are_those_of_the_sketch() -> None:
    """Cause, its evidence, remedy, what is excluded, and the first finding."""
    cause = Cause(
        "c", "it broke t-0", "certain", (LOST,), (), ("one", "two", "three"), ("but",), ("do this", "or that")
    )
    excluded = tuple(Excluded(name, "", "") for name in ("watermark lag", "time-outs"))
    assert lines(Diagnosis((cause,), (), excluded)) == [
        ("cause", "it broke p0 (certain)"),
        ("", "one"),
        ("", "two"),
        ("", "against it: but"),
        ("fix", "do this; or that"),
        ("excluded", "watermark lag, time-outs"),
        ("first", "06:05:21.591  lost-write, p0 offset 5, producer 0 #7"),
    ]


def test_without_a_cause_nothing_is_shown_but_what_is_not_explained() -> None:
    """That there is something."""
    assert lines(Diagnosis()) == []
    assert lines(Diagnosis(unexplained=("gap ×2",))) == [("cause", "unknown: no rule explains gap ×2")]


def test_every_cause_and_what_they_leave_is_named() -> None:
    """In a row each, with their number, however little room there is."""
    causes = tuple(Cause(name, name, "likely") for name in "abcdef")
    left = tuple(f"{name} ×2" for name in ("gap", "torn", "corrupt", "phantom", "duplicate"))
    found = Diagnosis(causes, unexplained=left)
    assert lines(found) == [
        ("causes", "6, gravest first"),
        ("1", "a (likely)"),
        ("2", "b (likely)"),
        ("3", "c (likely)"),
        ("4", "d (likely)"),
        ("5", "e (likely)"),
        ("6", "f (likely)"),
        ("", "not explained by this: gap ×2, torn ×2, corrupt ×2, phantom ×2 and 1 more"),
    ]
    kept = [row.title for row in fitted(list(diagnosis_rows(found, checked(), NAMES)), 80, 1)]
    assert kept == [*"123456", ""]


def test_what_was_not_seen_and_may_be_there_is_not_excluded() -> None:
    """It says how much could not be seen."""
    told = Measured("lost messages", "not excluded", "measured, none seen, but 5 of 9 messages could not be read")
    found = Diagnosis((Cause("c", "it broke", "likely"),), measured=(told,))
    assert lines(found)[1:] == [
        ("", "not excluded: lost messages: measured, none seen, but 5 of 9 messages could not be read")
    ]
    assert lines(Diagnosis(measured=(told,))) == []


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
    assert first_in_prose(LOST, checked({"anchor": anchor}), NAMES) == "lost-write, p0 offset 5, producer 0 #7"
