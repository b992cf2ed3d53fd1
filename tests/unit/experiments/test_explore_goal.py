"""What counts as a finding."""

import pytest

from harness.experiments.explore.goal import FoundAnomaly, Goal, goal_of
from harness.foundation.errors import UsageError

ALLOWED = FoundAnomaly("lost-write", 2, "allowed", "acks=1")
ILLEGAL = FoundAnomaly("duplicate", 1, "illegal")
CLIENT = FoundAnomaly("duplicate", 1, "possibly the client")
UNPROVEN = FoundAnomaly("lost-write", 1, "unproven")


def test_unless_told_otherwise_only_what_is_illegal_counts() -> None:
    """A loss that acks=1 permits would end every search."""
    assert goal_of(["illegal"]).among([ALLOWED, ILLEGAL, UNPROVEN]) == [ILLEGAL]


def test_any_counts_what_is_allowed_after_what_is_illegal() -> None:
    """The gravest first."""
    assert goal_of(["any"]).among([ALLOWED, CLIENT, ILLEGAL]) == [ILLEGAL, CLIENT, ALLOWED]


def test_a_name_counts_itself_alone_allowed_or_not() -> None:
    """That is why somebody names it."""
    assert goal_of(["lost-write"]).among([ALLOWED, ILLEGAL]) == [ALLOWED]


def test_a_family_stands_for_its_anomalies() -> None:
    """As for --checkers."""
    assert {"watermark-regression", "end-offset-regression"} <= goal_of(["watermarks"]).anomalies


@pytest.mark.parametrize("names", [["illegal"], ["any"], ["lost-write"]])
def test_what_is_unproven_never_counts(names: list[str]) -> None:
    """Whatever is sought."""
    assert goal_of(names).among([UNPROVEN]) == []


def test_what_only_measures_cannot_be_looked_for() -> None:
    """It would stand for no anomaly, and so for all."""
    with pytest.raises(UsageError, match="latency"):
        goal_of(["latency"])


def test_a_name_that_there_is_not_is_an_error_with_one_that_is_near() -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="lost-write"):
        goal_of(["lost-writes"])


def test_what_is_sought_can_be_said() -> None:
    """It is what a search is announced with."""
    assert str(Goal()) == "anything illegal"
    assert str(goal_of(["lost-write"])) == "lost-write, allowed or not"
