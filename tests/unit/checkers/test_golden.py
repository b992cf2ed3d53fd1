"""Recorded runs are judged as they were: what checkers find in real histories changes on purpose only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.golden_histories import GOLDEN, SUFFIX, expected, names, summaries
from tests.support.spark_sessions import shared_session

AT_MOST_BYTES = 1_500_000


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All of them, imported and checked with one session."""
    return summaries(tmp_path_factory.mktemp("store"), shared_session())


def test_each_history_is_expected() -> None:
    """None is there without an expectation, and none is gone; together they are small."""
    assert sorted(expected()) == names()
    assert sum(path.stat().st_size for path in Path(GOLDEN).glob(f"*{SUFFIX}")) <= AT_MOST_BYTES


@pytest.mark.parametrize("name", names())
def test_what_is_found(name: str, found: dict[str, Any]) -> None:
    """The verdict, and each anomaly with its count and mark."""
    assert found[name] == expected()[name]


def test_bugs_are_found_and_correct_brokers_are_not_accused() -> None:
    """A history that is named after a broken broker is invalid, unless what it did is allowed; the others are not."""
    verdicts = {name: told["verdict"] for name, told in expected().items()}
    excused = {name for name in verdicts if name.startswith(("clean-", "allowed-"))}
    assert {name for name, verdict in verdicts.items() if verdict == "invalid"} == set(verdicts) - excused
    for name in excused:
        marks = [count.split(" ", 1)[1] for count in expected()[name]["found"].values()]
        assert set(marks) <= {"allowed"}, name
        assert marks or name.startswith("clean-"), name
