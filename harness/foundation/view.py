"""What a run shows while it goes on: a line for each phase that changes on a terminal, few plain lines elsewhere.

A view is told of phases, of things that happen in them (a fault takes effect, a worker dies), and several times a
second how the load stands. It is a `harness.foundation.progress.Progress` as well, for what brings clusters up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.text import Text

from harness.foundation.pace import Pace, Rates, lasting

LINE_EVERY_S = 10.0


@dataclass(frozen=True)
class LoadStatus:
    """How the load stands."""

    counts: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    leaders: str = ""
    waits: str = ""  # what it waits for, when nothing moves
    share: float | None = None  # of what is to be sent, where that is known


class View(Protocol):
    """Told what goes on."""

    def phase(self, name: str, expected_s: float | None = None) -> None:
        """A phase begins, which takes as long as this if that is known."""

    def happened(self, text: str) -> None:
        """Something worth a line of its own."""

    def standing(self, standing: LoadStatus) -> None:
        """How the load stands now."""

    def step(self, text: str) -> None:
        """A step of the current phase begins."""

    def detail(self, text: str) -> None:
        """How far that step has come."""

    def part(self, done: float, total: float, unit: str = "") -> None:
        """How much of it is done, where its size is known."""

    def close(self) -> None:
        """Leave the screen to others; from now on only what happened is shown."""


def summary(standing: LoadStatus, rates: Mapping[str, float]) -> str:
    """The load in one line."""
    counts = standing.counts
    parts = [
        f"{counts[name]:,} {name}" + (f" ({rates[name]:,.0f}/s)" if rates.get(name) else "")
        for name in ("sent", "ok", "read")
        if counts.get(name)
    ]
    parts += [f"{counts[name]:,} {name}" for name in ("info", "fail") if counts.get(name)]
    return " · ".join(parts) or "nothing yet"


def clock(elapsed_s: float, expected_s: float | None) -> str:
    """14 s, or 14 of 20 s."""
    if expected_s is None:
        return lasting(elapsed_s)
    return f"{min(elapsed_s, expected_s):.0f} of {lasting(expected_s)}"


class PlainView:
    """Lines with the seconds since the start: what happens at once, how far it is every ten seconds, nothing twice."""

    def __init__(self, console: Console, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now_s = console, now_s
        self._began_s = self._phase_began_s = self._now_s()
        self._last_line_s = -LINE_EVERY_S  # the first phase is shown at once
        self._expected_s: float | None = None
        self._name = self._step = self._last = ""
        self._rates = Rates()
        self._pace = Pace(self._began_s)

    def phase(self, name: str, expected_s: float | None = None) -> None:
        """Print it, unless a line was printed just now."""
        self._name, self._expected_s, self._step = name, expected_s, ""
        self._phase_began_s = self._now_s()
        self._pace = Pace(self._phase_began_s)
        self._now_and_then("" if expected_s is None else lasting(expected_s))

    def happened(self, text: str) -> None:
        """Print it."""
        self._print(f"         {text}")

    def standing(self, standing: LoadStatus) -> None:
        """Print it every ten seconds."""
        now_s = self._now_s()
        rates = self._rates.of(standing.counts, now_s)
        elapsed = clock(now_s - self._phase_began_s, self._expected_s)
        parts = [elapsed, summary(standing, rates), *standing.faults, standing.waits, standing.leaders]
        self._now_and_then(" · ".join(part for part in parts if part))

    def step(self, text: str) -> None:
        """Print it, unless a line was printed just now."""
        self._step, self._pace = text, Pace(self._now_s())
        self._now_and_then(text)

    def detail(self, text: str) -> None:
        """Print it every ten seconds."""
        self._now_and_then(f"{self._step}{': ' if self._step else ''}{text}")

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Print it every ten seconds."""
        self.detail(self._pace.said(done, total, unit, self._now_s()))

    def close(self) -> None:
        """There is no screen to leave."""

    def _now_and_then(self, text: str) -> None:
        if self._now_s() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = self._now_s()
            self._print(f"{self._name:<8} {text}")

    def _print(self, text: str) -> None:
        if text == self._last:
            return
        self._last = text
        elapsed_s = self._now_s() - self._began_s
        self._console.print(Text(f"{elapsed_s:5.1f} s  {text.rstrip()}"), soft_wrap=True)


class Asides:
    """For what is done beside something that has the screen: shows nothing but what happened, a line each."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title

    def phase(self, name: str, expected_s: float | None = None) -> None:
        """Not shown."""

    def happened(self, text: str) -> None:
        """Print it, and what it is about."""
        self._console.print(Text(f"{self._title}: {text}"), soft_wrap=True)

    def standing(self, standing: LoadStatus) -> None:
        """Not shown."""

    def step(self, text: str) -> None:
        """Not shown."""

    def detail(self, text: str) -> None:
        """Not shown."""

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Not shown."""

    def close(self) -> None:
        """There is no screen to leave."""


@contextmanager
def viewed_on(console: Console) -> Iterator[View]:
    """The right kind of view for this console; what was not finished when an error ends it is not shown as done."""
    from harness.foundation.live_view import LiveView, can_redraw

    if not can_redraw(console):
        yield PlainView(console)
        return
    view = LiveView(console)
    try:
        yield view
        view.close()
    finally:
        view.leave()
