"""What has to come of a run, and whether it did."""

from typing import Any

import pytest

from harness.foundation.config import parse
from harness.foundation.paths import PACKAGE
from harness.judging.diagnosis.rules import NAMES
from harness.suite.expectation import Expectation, RunFindings
from tests.support.scripted_suites import checked


def expectation(**keys: Any) -> Expectation:
    """As a file says it."""
    return parse(Expectation, keys, "here")


def found(
    verdict: str = "invalid", causes: tuple[str, ...] = (), allowed: tuple[str, ...] = (), **marks: str
) -> RunFindings:
    """What came of a run; underscores stand for dashes."""
    return RunFindings(verdict, {name.replace("_", "-"): mark for name, mark in marks.items()}, causes, allowed)


def test_another_verdict_says_why() -> None:
    """The first of its reasons are enough to know where to look."""
    told = RunFindings("unknown", {}, reasons=("no send was acknowledged", "b", "c", "d"))
    assert list(expectation().unmet(told)) == [
        "the verdict is unknown instead of valid: no send was acknowledged; b; c"
    ]


def test_keys_imply_the_verdict() -> None:
    """Unless it is given."""
    assert expectation().outcome == "valid"
    assert expectation(anomalies=["lost-write"]).outcome == "invalid"
    assert expectation(cause="split-brain").outcome == "invalid"
    assert expectation(allowed=["lost-write"], cause="weak-acks").outcome == "valid"
    assert expectation(anomalies=["duplicate"], verdict="unknown").outcome == "unknown"


@pytest.mark.parametrize(
    ("keys", "seen", "unmet"),
    [
        ({}, found("valid"), []),
        ({}, found("unknown"), ["the verdict is unknown instead of valid"]),
        ({"anomalies": ["lost-write"]}, found(lost_write="illegal"), []),
        ({"anomalies": ["lost-write"]}, found(lost_write="possibly the client"), []),
        ({"anomalies": ["lost-write"]}, found(duplicate="illegal"), ["lost-write was not found"]),
        (
            {"anomalies": ["lost-write"]},
            found(lost_write="allowed"),
            ["lost-write was not found, but for what is allowed"],
        ),
        ({"anomalies": [["lost-write", "lost-tail"]]}, found(lost_tail="illegal"), []),
        ({"anomalies": [["lost-write", "lost-tail"]]}, found(), ["lost-write or lost-tail was not found"]),
        ({"allowed": ["lost-write"]}, found("valid", lost_write="allowed"), []),
        ({"allowed": ["lost-write"]}, found("valid"), ["lost-write was not found"]),
        ({"cause": "split-brain"}, found(causes=("split-brain", "corrupted")), []),
        (
            {"cause": "split-brain"},
            found(causes=("corrupted", "split-brain")),
            ["the cause on top is corrupted instead of split-brain"],
        ),
        ({"cause": "split-brain"}, found(), ["split-brain was not diagnosed"]),
        (
            {"allowed": ["lost-write"], "cause": "weak-acks"},
            found("valid", (), ("weak-acks",), lost_write="allowed"),
            [],
        ),
    ],
)
def test_each_thing_that_is_not_as_it_had_to_be_is_said(
    keys: dict[str, Any], seen: RunFindings, unmet: list[str]
) -> None:
    """And nothing else."""
    assert list(expectation(**keys).unmet(seen)) == unmet


def test_a_run_that_was_checked_says_what_came_of_it() -> None:
    """Verdict, marks and causes."""
    seen = RunFindings.of(checked("invalid"))
    assert (seen.verdict, seen.anomalies) == ("invalid", {"lost-write": "illegal"})
    assert seen.causes == ("acknowledged-then-lost",)


def test_every_cause_can_be_expected() -> None:
    """A rule is called like its cause, so that no list can be forgotten."""
    sources = " ".join(path.read_text() for path in (PACKAGE / "judging" / "diagnosis").glob("*.py"))
    assert {name for name in NAMES if f'"{name}"' not in sources} == set()
