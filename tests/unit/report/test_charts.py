"""Charts are drawn wherever the harness runs, and a report does without one that cannot be."""

from __future__ import annotations

import subprocess
import sys

import pytest
import vl_convert

from harness.report.charts import NOT_DRAWN, Line, PlotArea, lines
from tests.support import REPOSITORY

DRAW = """
from harness.report.charts import PlotArea, Line, lines
print(lines(PlotArea(0, 3, ()), [Line("a", "red", [(0, 1), (2, 4)])])[:4])
"""


def test_a_process_without_standard_input_draws() -> None:
    """As one that a service starts may be."""
    drawn = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, DRAW],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert drawn.stdout == "<svg\n"


def test_what_cannot_be_drawn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the report is there."""

    def fails(_: object) -> str:
        raise ValueError("conversion failed")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", fails)
    assert lines(PlotArea(0, 3, ()), [Line("a", "red", [(0, 1), (2, 4)])]) == NOT_DRAWN
