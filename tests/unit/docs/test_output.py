"""The screens in the documentation are those that commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.terminal.run import OTHER_LINES, VALID_LINES
from tests.support import output_screens
from tests.support.output_screens import BEGIN, PAGES, SCREENS, WIDTH, screen


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_screens_are_as_they_are_printed(path: Path) -> None:
    """`make schema` writes them."""
    text = path.read_text(encoding="utf-8")
    assert text == output_screens.page(text), "run `make schema`"
    assert BEGIN.partition("{")[0] in text


def test_every_screen_is_somewhere() -> None:
    """What a user meets is in the documentation."""
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert [name for name in SCREENS if BEGIN.format(name=name) not in text] == []


@pytest.mark.parametrize(
    ("name", "most"),
    [("valid", VALID_LINES), ("invalid", OTHER_LINES), ("lossy", OTHER_LINES), ("unknown", OTHER_LINES), ("quiet", 1)],
)
def test_a_verdict_is_read_in_ten_seconds(name: str, most: int) -> None:
    """It fits its lines, a path that the terminal breaks counted as several."""
    lines = screen(name).splitlines()
    assert sum(-(-max(1, len(line)) // WIDTH) for line in lines) <= most
    assert all(len(line) <= WIDTH for line in lines if "store/" not in line)


@pytest.mark.parametrize("name", ["live", "plain", "suite", "error"])
def test_other_screens_fit_the_width(name: str) -> None:
    """At 80 columns."""
    assert all(len(line) <= WIDTH for line in screen(name).splitlines() if "store/" not in line)
