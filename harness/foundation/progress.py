"""Progress of something that takes long: a spinner on a terminal, plain lines elsewhere.

A `Progress` is told the step that begins and, inside it, details (a count, an elapsed time) or how much of it is done.
Both change often and are worth showing only where a line can be redrawn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.text import Text

from harness.foundation.pace import Pace, bar

BAR_WIDTH = 16


class Progress(Protocol):
    """Told what is being done."""

    def step(self, text: str) -> None:
        """A new step begins."""

    def detail(self, text: str) -> None:
        """How far the current step has come."""

    def part(self, done: float, total: float, unit: str = "") -> None:
        """How much of it is done, where its size is known."""


class SilentProgress:
    """Shows nothing."""

    def step(self, text: str) -> None:
        """Ignored."""

    def detail(self, text: str) -> None:
        """Ignored."""

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Ignored."""


class PlainProgress:
    """One plain line per step, with the seconds since the start; details at most every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_at = self._step_began_at = time.monotonic()
        self._last_line_at = self._started_at

    def step(self, text: str) -> None:
        """Print the step."""
        self._step_began_at = time.monotonic()
        self._print(text)

    def detail(self, text: str) -> None:
        """Print the detail when nothing was printed for a while."""
        if time.monotonic() - self._last_line_at >= 10:
            self._print(f"  {text}")

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Print it when nothing was printed for a while."""
        self.detail(Pace(self._step_began_at).said(done, total, unit, time.monotonic()))

    def _print(self, text: str) -> None:
        self._last_line_at = time.monotonic()
        elapsed_s = self._last_line_at - self._started_at
        self._console.print(Text(f"{elapsed_s:5.1f} s  {text}"), highlight=False, soft_wrap=True)


class Spinner:
    """Finished steps stay as lines; the current one turns, with its detail."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")
        self._text = ""
        self._step_started_at = time.monotonic()

    def step(self, text: str) -> None:
        """Settle the step before, and turn for this one."""
        self.settle()
        self._text = text
        self._step_started_at = time.monotonic()
        self._status.update(Text(text))
        self._status.start()

    def detail(self, text: str) -> None:
        """Show the detail beside the step."""
        self._status.update(Text.assemble(self._text, " ", (text, "dim")))

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Show a bar beside the step, with its rate and the time that is left."""
        said = Pace(self._step_started_at).said(done, total, unit, time.monotonic())
        self.detail(f"{''.join(bar(done / total if total else 0.0, BAR_WIDTH))} {said}")

    def drop(self) -> None:
        """Stop turning; the unfinished step is not shown as done."""
        self._status.stop()

    def settle(self) -> None:
        """Stop turning and leave the finished step on the screen."""
        self._status.stop()
        if self._text:
            took_s = time.monotonic() - self._step_started_at
            done = Text.assemble(("✓", "green"), f" {self._text} ", (f"{took_s:.1f} s", "dim"))
            self._console.print(done, highlight=False)
            self._text = ""


@contextmanager
def shown_on(console: Console) -> Iterator[Progress]:
    """The right kind of progress for this console; what turns is settled, or dropped when an error ends it."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield PlainProgress(console)
        return
    spinner = Spinner(console)
    try:
        yield spinner
        spinner.settle()
    finally:
        spinner.drop()
