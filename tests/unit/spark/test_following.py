"""How far a check is."""

from pathlib import Path

import pytest

from checkers.core.check import CheckSettings
from checkers.core.engine import STEPS
from checkers.core.families import FAMILIES
from harness.spark.following import read
from tests.support.histories import Rows, write
from tests.support.kernels import check_here


def a_history() -> Rows:
    """A message that was sent and acknowledged."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0")
    return rows


def test_tasks_say_how_far_they_are(tmp_path: Path) -> None:
    """The last family of the last step, and of how many."""
    file = tmp_path / "progress"
    check_here(a_history().store(tmp_path / "run"), CheckSettings(progress_file=str(file)))
    told = read(file)
    assert told is not None
    done, total, name = told
    assert (done, total % STEPS) == (total - 1, 0)
    assert name in {family.name for family in FAMILIES}


@pytest.mark.parametrize("text", [None, "", "1 2", "a b c"])
def test_what_nobody_has_said_is_not_known(tmp_path: Path, text: str | None) -> None:
    """Neither is what is being written."""
    if text is not None:
        (tmp_path / "progress").write_text(text)
    assert read(tmp_path / "progress") is None


def test_a_place_that_cannot_be_written_costs_no_check(tmp_path: Path) -> None:
    """Progress is worth no verdict."""
    setting = CheckSettings(progress_file=str(tmp_path / "x" / "y"))
    assert not check_here(a_history().store(tmp_path / "run"), setting).failures
