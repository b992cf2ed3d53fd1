"""Which cases are run."""

from pathlib import Path

import pytest

from harness.foundation.errors import UsageError
from harness.suite.case_filter import chosen, matcher
from tests.support.scripted_suites import STREAM, suite

TEXT = (
    STREAM
    + "matrix = { nemesis = ['none', 'leader-kill', 'leader-move'], client = ['kafka-python', 'confluent-kafka'] }"
)


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("", 6),
        ("leader", 4),
        ("LEADER-kill", 2),
        ("leader and kafka-python", 2),
        ("not leader", 2),
        ("leader-kill or none and kafka-python", 3),
        ("(leader-kill or none) and kafka-python", 2),
        ("not (leader or kafka-python)", 1),
    ],
)
def test_an_expression_is_about_parts_of_names(tmp_path: Path, expression: str, count: int) -> None:
    """With and, or, not and parentheses, `and` before `or`."""
    assert len(chosen(suite(tmp_path, TEXT).cases, expression, [])) == count


def test_names_are_given_in_full(tmp_path: Path) -> None:
    """One that is not there is an error, and so is a choice that leaves nothing."""
    cases = suite(tmp_path, TEXT).cases
    assert [case.name for case in chosen(cases, "", ["stream+none+kafka-python"])] == ["stream+none+kafka-python"]
    with pytest.raises(UsageError, match="did you mean 'stream\\+none\\+kafka-python'"):
        chosen(cases, "", ["stream+none+kafka-pyton"])
    with pytest.raises(UsageError, match="no case matches"):
        chosen(cases, "nothing-of-that", [])


@pytest.mark.parametrize("expression", ["and", "a or", "not", "(a", "a)", "a b"])
def test_half_an_expression_is_an_error(expression: str) -> None:
    """With how to write one."""
    with pytest.raises(UsageError, match="-k"):
        matcher(expression)
