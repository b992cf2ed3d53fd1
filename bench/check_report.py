"""What checks cost, as a table, as a page and as a plot."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from rich.table import Table

GROWS_FROM = 1_000_000  # below it, what a question costs at least is all that is seen
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 420, 60, 50, 20, 190
COLOURS = {"all, Spark": "#b2182b", "core, Spark": "#2166ac", "core, DuckDB": "#4d9221"}
TITLES = ("events", "partitions", "asked", "wall s", "CPU s", "against DuckDB", "peak MB", "growth")


@dataclass(frozen=True, order=True)
class Asked:
    """What was asked of which history."""

    what: str
    events: int
    partitions: int


@dataclass(frozen=True)
class Measured:
    """One question of one history."""

    asked: Asked
    wall_s: float
    cpu_s: float
    peak_mb: int  # of the JVM

    @property
    def what(self) -> str:
        """Who was asked what."""
        return self.asked.what

    @property
    def events(self) -> int:
        """Of the history."""
        return self.asked.events

    @property
    def partitions(self) -> int:
        """Of the history."""
        return self.asked.partitions


def quickest(rows: Sequence[Measured]) -> list[Measured]:
    """Of several rounds the one with the least CPU time, in the order of sizes."""
    best: dict[tuple[int, int, str], Measured] = {}
    for row in rows:
        key = (row.events, row.partitions, row.what)
        if key not in best or row.cpu_s < best[key].cpu_s:
            best[key] = row
    return [best[key] for key in sorted(best)]


def growth(rows: Sequence[Measured], row: Measured) -> float | None:
    """The exponent of the CPU time from a million events to this size."""
    first = next((r for r in rows if (r.what, r.partitions, r.events) == (row.what, row.partitions, GROWS_FROM)), None)
    if first is None or row.events <= GROWS_FROM:
        return None
    return math.log(row.cpu_s / first.cpu_s) / math.log(row.events / first.events)


def cells(rows: Sequence[Measured]) -> list[tuple[str, ...]]:
    """A line for each question of each history."""
    best = quickest(rows)
    ducks = {(row.events, row.partitions): row.cpu_s for row in best if row.what == "core, DuckDB"}
    lines: list[tuple[str, ...]] = []
    for row in best:
        duck, exponent = ducks.get((row.events, row.partitions)), growth(best, row)
        ours = row.what.endswith("Spark")
        ratio = f"{row.cpu_s / duck:.1f} ×" if duck and row.what == "core, Spark" else ""
        told = (f"{row.events:,}", f"{row.partitions:,}", row.what, f"{row.wall_s:.1f}", f"{row.cpu_s:.1f}", ratio)
        lines.append((*told, f"{row.peak_mb:,}" if ours else "", "" if exponent is None else f"n^{exponent:.2f}"))
    return lines


def table(rows: Sequence[Measured]) -> Table:
    """For the terminal."""
    shown = Table(title="what a check costs", title_justify="left")
    for title in TITLES:
        shown.add_column(title, justify="left" if title == "asked" else "right")
    for line in cells(rows):
        shown.add_row(*line)
    return shown


def page(rows: Sequence[Measured]) -> str:
    """docs/benchmarks.md."""
    memory_gb = psutil.virtual_memory().total / 2**30
    machine = f"{psutil.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()} on {platform.machine()}"
    lines = [" | ".join(("", *line, "")).strip() for line in cells(rows)]
    return f"""# What a check costs

`make bench-check` measures it and writes this page. Histories are made (`bench/histories.py`): what a healthy run
records, with three hot partitions and with a thousand. *core* are five questions: lost writes, values at two offsets
and offsets with two values, the order of polls, watermarks that fall, and acknowledgements that a later answer does not
show; DuckDB answers them in plain SQL on the same files (`bench/duck.py`). *all* is every checker, with figures and
coverage. CPU seconds are of all processes, the session is warm; *peak* is the memory of the JVM, *growth* the exponent
from a million events on.

Measured on {machine}.

![CPU seconds by the number of events](bench-check.svg)

| {" | ".join(TITLES)} |
| {" | ".join("---" if title == "asked" else "---:" for title in TITLES)} |
{chr(10).join(lines)}
"""


def plot(rows: Sequence[Measured]) -> str:
    """CPU seconds by the number of events, both on logarithmic scales."""
    best = quickest(rows)
    across = _Scale.over([row.events for row in best], LEFT, WIDTH - RIGHT)
    up = _Scale.over([row.cpu_s for row in best], HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for power in across.powers:
        parts.append(_line((across.at(power), TOP), (across.at(power), HEIGHT - BOTTOM), "#ddd"))
        parts.append(_text(across.at(power), HEIGHT - BOTTOM + 18, f"{power:,.0f}", "middle"))
    for power in up.powers:
        parts.append(_line((LEFT, up.at(power)), (WIDTH - RIGHT, up.at(power)), "#ddd"))
        parts.append(_text(LEFT - 6, up.at(power) + 4, f"{power:g}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "events", "middle"))
    parts.append(_text(LEFT, TOP - 6, "CPU seconds", "middle"))
    for number, (what, partitions) in enumerate(sorted({(row.what, row.partitions) for row in best})):
        points = [(across.at(r.events), up.at(r.cpu_s)) for r in best if (r.what, r.partitions) == (what, partitions)]
        hot = partitions == min(row.partitions for row in best)
        dashes = ' stroke-dasharray="5 3"' if hot else ""
        colour = COLOURS[what]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dashes} points="'
            + " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            + '"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        level = TOP + 20 + 20 * number
        parts.append(_line((WIDTH - RIGHT + 10, level - 4), (WIDTH - RIGHT + 40, level - 4), colour, dashes))
        parts.append(_text(WIDTH - RIGHT + 46, level, f"{what}, {partitions:,}", "start"))
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True)
class _Scale:
    """Powers of ten on a stretch of pixels."""

    lowest: int
    highest: int
    first: float
    last: float

    @classmethod
    def over(cls, values: Sequence[float], first: float, last: float) -> _Scale:
        lowest, highest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(lowest, max(highest, lowest + 1), first, last)

    @property
    def powers(self) -> list[float]:
        return [10.0**power for power in range(self.lowest, self.highest + 1)]

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.lowest) / (self.highest - self.lowest)
        return self.first + share * (self.last - self.first)


def _line(start: tuple[float, float], end: tuple[float, float], colour: str, more: str = "") -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}">{text}</text>'
