"""No line that is printed steers a terminal, whatever a broker puts into it and whatever prints it."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from harness.foundation.console import SafeConsole, shown
from harness.foundation.errors import TidegaugeError
from harness.foundation.live_view import LiveView
from harness.foundation.view import Asides, PlainView, viewed_on
from harness.report.terminal import lists as terminal
from harness.report.terminal import tables

EVIL = "red \x1b[31m, clear \x9b2J, back \b\r, title \x1b]0;x\x07, turned \u202e, half \ud800, gone \x7f"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # what Rich itself writes on a terminal
SEEN: dict[str, Any] = {
    "exchanges": 1, "connections": 1, "bent": 0, "not_understood": 0, "record": EVIL, "troubles": [EVIL]
}  # fmt: skip


def test_what_would_steer_is_shown() -> None:
    """Readers see that it was there, and what else was said."""
    assert shown("a\x1b[2Jb\x9b31mc") == "a␛[2Jb<9B>31mc"
    assert shown("tide\ttable\n") == "tide\ttable\n"
    assert not STEERING.search(shown(EVIL))


def printed(do: Any, *, terminal: bool = False) -> str:
    """What came out of a console."""
    file = io.StringIO()
    do(SafeConsole(file=file, width=500, force_terminal=terminal))
    return file.getvalue()


def _tabled(console: SafeConsole) -> None:
    table = Table(title=EVIL)
    table.add_column(Text(EVIL))
    table.add_row(Text(EVIL))
    console.print(table)


def _viewed(console: SafeConsole) -> None:
    with viewed_on(console) as view:
        assert isinstance(view, LiveView | PlainView)
        view.phase(EVIL)
        view.step(EVIL)
        view.happened(EVIL)


PRINTERS = {
    "lines": lambda console: tables.line(console, EVIL, (EVIL, "bold")),
    "errors": lambda console: tables.error(console, TidegaugeError(EVIL, EVIL)),
    "tables": _tabled,
    "views": _viewed,
    "asides": lambda console: Asides(console, EVIL).happened(EVIL),
    "the end of a recording by taps": lambda console: terminal.recorded(console, SEEN, as_json=False),
    "the same as JSON": lambda console: terminal.recorded(console, SEEN, as_json=True),
}


@pytest.mark.parametrize("printer", PRINTERS)
@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_nothing_that_is_printed_steers(printer: str, *, on_a_terminal: bool) -> None:
    """Rich's own styles and movements stay; they are all there is."""
    text = printed(PRINTERS[printer], terminal=on_a_terminal)
    assert "clear" in text
    rest = STYLES.sub("", text).replace("\r", "") if on_a_terminal else text
    assert not STEERING.search(rest)
