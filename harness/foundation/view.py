"""What a run shows while it goes on: one changing screen on a terminal, plain lines elsewhere.

A view is told of phases, of things that happen in them (a fault bites, a worker dies), and several times a second how
the load stands. It is a `harness.foundation.progress.Progress` as well, for what brings clusters up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

LINE_EVERY_S = 10.0
RATE_WINDOW_S = 2.0


@dataclass(frozen=True)
class LoadStatus:
    """How the load stands."""

    counts: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    leaders: str = ""
    waits: str = ""  # what it waits for, when nothing moves


class View(Protocol):
    """Told what goes on."""

    def phase(self, name: str, limit_s: float | None = None) -> None:
        """A phase begins."""

    def happened(self, text: str) -> None:
        """Something worth a line of its own."""

    def standing(self, standing: LoadStatus) -> None:
        """How the load stands now."""

    def step(self, text: str) -> None:
        """A step of the current phase begins."""

    def detail(self, text: str) -> None:
        """How far that step has come."""

    def close(self) -> None:
        """Leave the screen to others; from now on only what happened is shown."""


class Rates:
    """Operations per second by outcome, over the last seconds."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, Mapping[str, int]]] = []

    def of(self, counts: Mapping[str, int], now_s: float) -> dict[str, float]:
        """The rates now, given the counts so far."""
        self._seen = [*(entry for entry in self._seen if now_s - entry[0] <= RATE_WINDOW_S), (now_s, dict(counts))]
        then_s, before = self._seen[0]
        passed_s = now_s - then_s
        return {name: (counts[name] - before.get(name, 0)) / passed_s if passed_s else 0.0 for name in counts}


def summary(standing: LoadStatus, rates: Mapping[str, float]) -> str:
    """The load in one line."""
    counts = standing.counts
    parts = [f"{counts[name]:,} {name} ({rates[name]:,.0f}/s)" for name in ("sent", "ok", "read") if counts.get(name)]
    parts += [f"{counts[name]:,} {name}" for name in ("info", "fail") if counts.get(name)]
    return " · ".join(parts) or "nothing yet"


def _clock(elapsed_s: float, limit_s: float | None) -> str:
    return f"{elapsed_s:.0f} s" if limit_s is None else f"{elapsed_s:.0f} of {limit_s:.0f} s"


class PlainView:
    """Lines with the seconds since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = self._phase_began_s = self._last_line_s = time.monotonic()
        self._limit_s: float | None = None
        self._name = ""
        self._rates = Rates()

    def phase(self, name: str, limit_s: float | None = None) -> None:
        """Print it."""
        self._name, self._limit_s, self._phase_began_s = name, limit_s, time.monotonic()
        self._print(f"{name:<8}" if limit_s is None else f"{name:<8} at most {limit_s:.0f} s")

    def happened(self, text: str) -> None:
        """Print it."""
        self._print(f"         {text}")

    def standing(self, standing: LoadStatus) -> None:
        """Print it every ten seconds."""
        now_s = time.monotonic()
        rates = self._rates.of(standing.counts, now_s)
        if now_s - self._last_line_s < LINE_EVERY_S:
            return
        clock = _clock(now_s - self._phase_began_s, self._limit_s)
        parts = [f"{self._name} {clock}", summary(standing, rates), *standing.faults, standing.waits, standing.leaders]
        self._print(f"         {' · '.join(part for part in parts if part)}")

    def step(self, text: str) -> None:
        """Print it."""
        self._print(f"         {text}")

    def detail(self, text: str) -> None:
        """Print it when nothing was printed for a while."""
        if time.monotonic() - self._last_line_s >= LINE_EVERY_S:
            self._print(f"         {text}")

    def close(self) -> None:
        """There is no screen to leave."""

    def _print(self, text: str) -> None:
        self._last_line_s = time.monotonic()
        self._console.print(Text(f"{self._last_line_s - self._began_s:5.1f} s  {text.rstrip()}"), soft_wrap=True)


class LiveView:
    """Finished phases and happenings stay as lines; below them a few lines change."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live
        self._name = self._step = self._detail = ""
        self._limit_s: float | None = None
        self._began_s = time.monotonic()
        self._standing = LoadStatus()
        self._rates = Rates()
        self._happened: list[str] = []

    def phase(self, name: str, limit_s: float | None = None) -> None:
        """Settle the phase before, begin this one."""
        self.settle()
        self._name, self._limit_s, self._began_s = name, limit_s, time.monotonic()
        self._step = self._detail = ""
        self._redraw()

    def settle(self) -> None:
        """Leave the finished phase on the screen."""
        if self._name:
            took_s = time.monotonic() - self._began_s
            line = Text.assemble(("✓ ", "green"), f"{self._name:<8} {took_s:6.1f} s")
            if self._name == "load":
                line.append(
                    f"   {summary(self._standing, dict.fromkeys(self._standing.counts, 0.0))}".replace(" (0/s)", "")
                )
            self._console.print(line, highlight=False)
            for text in self._happened:
                self._console.print(Text(f"  {'':<8} {text}"), highlight=False)
            self._happened = []
        self._name = ""

    def happened(self, text: str) -> None:
        """Keep it for as long as the phase lasts, and then on the screen."""
        if not self._live.is_started:
            self._console.print(Text(text), highlight=False)
            return
        self._happened.append(text)
        self._redraw()

    def close(self) -> None:
        """Settle what goes on, and stop redrawing."""
        self.settle()
        self._live.stop()

    def standing(self, standing: LoadStatus) -> None:
        """Show it."""
        self._standing = standing
        self._redraw()

    def step(self, text: str) -> None:
        """Show it beside the phase."""
        self._step, self._detail = text, ""
        self._redraw()

    def detail(self, text: str) -> None:
        """Show it beside the step."""
        self._detail = text
        self._redraw()

    def _redraw(self) -> None:
        if not self._live.is_started:
            return
        now_s = time.monotonic()
        lines = [
            Text.assemble(
                ("▸ ", "cyan"), (f"{self._name:<8} ", "bold"), _clock(now_s - self._began_s, self._limit_s),
                "   ", (f"{self._step} {self._detail}".strip(), "dim"),
            )
        ]  # fmt: skip
        if self._name == "load":
            rates = self._rates.of(self._standing.counts, now_s)
            lines.append(Text(f"  {'':<8} {summary(self._standing, rates)}"))
            if self._standing.faults:
                lines.append(Text(f"  {'':<8} {' · '.join(self._standing.faults)}", "yellow"))
            if self._standing.waits:
                lines.append(Text(f"  {'':<8} {self._standing.waits}", "yellow"))
            if self._standing.leaders:
                lines.append(Text(f"  {'':<8} {self._standing.leaders}", "dim"))
        lines += [Text(f"  {'':<8} {text}") for text in self._happened[-6:]]
        self._live.update(Group(*lines), refresh=True)


class Asides:
    """For what is done beside something that has the screen: shows nothing but what happened, a line each."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title

    def phase(self, name: str, limit_s: float | None = None) -> None:
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

    def close(self) -> None:
        """There is no screen to leave."""


@contextmanager
def viewed_on(console: Console) -> Iterator[View]:
    """The right kind of view for this console."""
    if not console.is_terminal:
        yield PlainView(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        view = LiveView(console, live)
        yield view
        view.settle()
