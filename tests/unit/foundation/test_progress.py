"""Progress: plain lines where nothing can be redrawn, a spinner where it can."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import NoReturn

import pytest
from rich.console import Console

from harness.foundation import progress
from harness.foundation.progress import PlainProgress, SilentProgress, Spinner, shown_on

HOSTILE = "[red]x[/red] <script> [/] \\[bold]"


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the module under test."""
    fake = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=fake.monotonic))
    return fake


def plain(width: int = 80) -> tuple[Console, io.StringIO]:
    """A console that is no terminal."""
    file = io.StringIO()
    return Console(file=file, width=width), file


def terminal() -> tuple[Console, io.StringIO]:
    """A console that takes itself for a terminal."""
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=100, color_system=None, _environ={}), file


def kept(file: io.StringIO) -> list[str]:
    """The finished steps that stay on a terminal."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    return re.findall(r"✓ .*", text.replace("\r", "\n"))


def test_lines_print_every_step_with_its_time(clock: Clock) -> None:
    """One line per step, with the seconds since the start."""
    console, file = plain()
    lines = PlainProgress(console)
    lines.step("first")
    clock.now += 62.25
    lines.step("second")
    assert file.getvalue() == "  0.0 s  first\n 62.2 s  second\n"


def test_lines_print_few_details(clock: Clock) -> None:
    """A detail is printed only when nothing was printed for ten seconds."""
    console, file = plain()
    lines = PlainProgress(console)
    lines.step("go")
    for second in range(1, 31):
        clock.now = 100.0 + second
        lines.detail(f"{second} of 30")
    assert file.getvalue().splitlines()[1:] == [" 10.0 s    10 of 30", " 20.0 s    20 of 30", " 30.0 s    30 of 30"]


def test_a_step_postpones_details(clock: Clock) -> None:
    """Ten seconds count from the last line of any kind."""
    console, file = plain()
    lines = PlainProgress(console)
    clock.now += 9
    lines.step("go")
    clock.now += 9
    lines.detail("not yet")
    assert "not yet" not in file.getvalue()


def test_lines_print_text_as_it_is(clock: Clock) -> None:
    """No markup is read, and long lines are not broken."""
    console, file = plain(width=20)
    PlainProgress(console).step(f"{HOSTILE} {'long ' * 20}end")
    assert file.getvalue() == f"  0.0 s  {HOSTILE} {'long ' * 20}end\n"


def test_silence() -> None:
    """Nothing is shown."""
    silent = SilentProgress()
    silent.step("x")
    silent.detail("y")


def test_a_spinner_leaves_finished_steps(clock: Clock) -> None:
    """Every finished step stays as a line with the time it took; details go."""
    console, file = terminal()
    with shown_on(console) as shown:
        assert isinstance(shown, Spinner)
        shown.step("fetching")
        shown.detail("3/7")
        clock.now += 2.5
        shown.step("starting")
        clock.now += 1
    assert kept(file) == ["✓ fetching 2.5 s", "✓ starting 1.0 s"]


def test_a_failed_step_is_not_shown_as_finished(clock: Clock) -> None:
    """When an error ends it, the steps before stay and the current one does not."""
    console, file = terminal()

    def fail() -> NoReturn:
        with shown_on(console) as shown:
            shown.step("fetching")
            shown.step("starting")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert kept(file) == ["✓ fetching 0.0 s"]
    hidden_last, shown_last = (file.getvalue().rfind(f"\x1b[?25{switch}") for switch in "lh")
    assert shown_last > hidden_last, "the cursor is visible again"


def test_a_spinner_without_steps_shows_nothing(clock: Clock) -> None:
    """What had nothing to do leaves no trace."""
    console, file = terminal()
    with shown_on(console):
        pass
    assert kept(file) == []


def test_no_terminal_no_spinner(clock: Clock) -> None:
    """In a pipe or a log there are plain lines."""
    console, file = plain()
    with shown_on(console) as shown:
        assert isinstance(shown, PlainProgress)
        shown.step("go")
    assert file.getvalue() == "  0.0 s  go\n"


@pytest.mark.parametrize("text", ["connecting to [fe80::1]:9092", HOSTILE], ids=["IPv6", "hostile"])
def test_a_spinner_shows_text_as_it_is(clock: Clock, text: str) -> None:
    """Addresses and names in steps and details are not markup."""
    console, file = terminal()
    with shown_on(console) as shown:
        shown.step(text)
        shown.detail(text)
    assert kept(file) == [f"✓ {text} 0.0 s"]
