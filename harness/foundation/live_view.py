"""The view of a run on a terminal: a line for the phase that goes on, which changes, and one for each that is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from harness.foundation.pace import Pace, Rates, bar
from harness.foundation.view import LoadStatus, clock, summary

BAR_WIDTH = 16
HAPPENED_SHOWN = 6
REDRAWN_PER_S = 5


def can_redraw(console: Console) -> bool:
    """Whether lines can be drawn again: on a terminal that is not dumb."""
    return console.is_terminal and not console.is_dumb_terminal


class LiveView:
    """Finished phases and what happened stay as lines; below them a few lines change."""

    def __init__(self, console: Console, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._now_s = console, now_s
        self._name = self._step = self._detail = ""
        self._expected_s: float | None = None
        self._share: float | None = None
        self._began_s = self._now_s()
        self._pace = Pace(self._began_s)
        self._status = LoadStatus()
        self._rates = Rates()
        self._happened: list[str] = []
        self._live = Live(console=console, get_renderable=self.drawn, refresh_per_second=REDRAWN_PER_S, transient=True)
        self._left = False

    def phase(self, name: str, expected_s: float | None = None) -> None:
        """Settle the phase before, begin this one."""
        self._settle()
        self._name, self._expected_s, self._began_s = name, expected_s, self._now_s()
        self._step = self._detail = ""
        self._share, self._pace = None, Pace(self._began_s)
        self._redraw()

    def happened(self, text: str) -> None:
        """Keep it for as long as the phase lasts, and then on the screen."""
        if not self._live.is_started:
            self._console.print(Text(text), highlight=False)
            return
        self._happened.append(text)
        self._redraw()

    def standing(self, standing: LoadStatus) -> None:
        """Show it."""
        self._status = standing
        self._redraw()

    def step(self, text: str) -> None:
        """Show it beside the phase."""
        self._step, self._detail, self._share = text, "", None
        self._pace = Pace(self._now_s())
        self._redraw()

    def detail(self, text: str) -> None:
        """Show it beside the step."""
        self._detail = text
        self._redraw()

    def part(self, done: float, total: float, unit: str = "") -> None:
        """Show it as a bar, with its rate and the time that is left."""
        self._share = done / total if total else None
        self.detail(self._pace.said(done, total, unit, self._now_s()))

    def close(self) -> None:
        """Settle what goes on, and stop redrawing."""
        self._settle()
        self.leave()

    def leave(self) -> None:
        """Stop redrawing, whatever goes on."""
        self._left = True
        self._live.stop()

    def _settle(self) -> None:
        """Leave the finished phase on the screen."""
        if self._name and self._live.is_started:
            took_s = self._now_s() - self._began_s
            said = summary(self._status, {}) if self._name == "load" else ""
            line = Text.assemble(("✓ ", "green"), f"{self._name:<8} {took_s:6.1f} s", f"   {said}" if said else "")
            self._console.print(line, highlight=False)
            for text in self._happened:
                self._console.print(Text(f"  {'':<8} {text}"), highlight=False)
            self._happened = []
        self._name = ""

    def _redraw(self) -> None:
        """Begin with the first thing that there is to show: until then somebody may be asked something."""
        if self._left:
            return
        if not self._live.is_started:
            self._live.start()
        self._live.refresh()

    def drawn(self) -> RenderableType:
        """What changes: the phase with its bar, what the load waits for, and what happened just now."""
        if not (self._name or self._step):
            return Text("")
        elapsed_s = self._now_s() - self._began_s
        lines: list[RenderableType] = [self._line(elapsed_s)]
        if self._name == "load":
            status = self._status
            lines += [_cut(text, "yellow") for text in (*status.faults, status.waits) if text]
            lines += [_cut(status.leaders, "dim")] if status.leaders else []
        lines += [_cut(text) for text in self._happened[-HAPPENED_SHOWN:]]
        return Group(*lines)

    def _line(self, elapsed_s: float) -> Text:
        """The phase, its bar, how long it takes, and how far it is."""
        if self._name == "load":
            share = self._status.share
            rates = self._rates.of(self._status.counts, self._now_s())
            said = summary(self._status, {"ok": rates.get("ok", 0.0)})
        else:
            share, said = self._share, " · ".join(text for text in (self._detail, self._step) if text)
        if share is None and self._expected_s:
            share = elapsed_s / self._expected_s
        line = Text.assemble(("▸ ", "cyan"), (f"{self._name:<8} ", "bold"), no_wrap=True, overflow="ellipsis")
        if share is not None:
            done, left = bar(share, BAR_WIDTH)
            line.append(done, "cyan").append(left, "dim").append(" ")
        return line.append(f"{clock(elapsed_s, self._expected_s):>5}  ").append(said, "dim")


def _cut(text: str, style: str = "") -> Text:
    """One line, whatever it takes."""
    return Text(f"  {'':<8} {text}", style, no_wrap=True, overflow="ellipsis")
