"""What checks cost, as a table, as a page and as a plot."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil
from rich.table import Table

HEALTHY = "healthy"
CORE, DUCK, ALL, COLD = "core, Spark", "core, DuckDB", "all, Spark", "all, cold"
GROWS_FROM = 1_000_000  # below it, what a healthy history costs at least is all that is seen
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 420, 60, 50, 20, 190
COLOURS = {ALL: "#b2182b", CORE: "#2166ac", DUCK: "#4d9221"}
TITLES = ("events", "history", "asked", "wall s", "CPU s", "against", "JVM MB", "Python MB", "growth", "targets")
TEXTS = {"history", "asked", "targets"}

# what is to be reached
CPU_S = {1_000_000: 6, 10_000_000: 35, 50_000_000: 180}  # of all checkers, by the number of events
OF_DUCK, DUCK_FROM = 1.5, 10_000_000
OF_HEALTHY, SICK_GROWTH = 3.0, 1.1
OF_WIDE = 1.3
JVM_MB, PYTHON_MB = 4_096, 1_024


@dataclass(frozen=True, order=True)
class CheckCase:
    """What was asked of which history."""

    events: int
    shape: str  # HEALTHY, or how sick it is
    partitions: int  # of a healthy one
    what: str

    @property
    def history(self) -> str:
        """For people."""
        return f"{HEALTHY}, {self.partitions:,} partitions" if self.shape == HEALTHY else self.shape

    @property
    def is_ours(self) -> bool:
        """Whether it was asked of Spark."""
        return self.what != DUCK


@dataclass(frozen=True)
class CheckMeasurement:
    """One question of one history."""

    asked: CheckCase
    wall_s: float
    cpu_s: float
    jvm_mb: int = 0  # at its peak
    python_mb: int = 0  # of the largest of its workers


@dataclass(frozen=True)
class TimeTarget:
    """What is to be reached, and whether it was."""

    text: str
    met: bool

    def __str__(self) -> str:
        return f"{self.text}: {'met' if self.met else 'MISSED'}"


class Results:
    """What was measured: of several rounds the one with the least CPU time."""

    def __init__(self, rows: Sequence[CheckMeasurement]) -> None:
        best: dict[CheckCase, CheckMeasurement] = {}
        for row in rows:
            if row.asked not in best or row.cpu_s < best[row.asked].cpu_s:
                best[row.asked] = row
        self._best = best

    @property
    def rows(self) -> list[CheckMeasurement]:
        """Healthy histories, then sick ones, each in the order of sizes."""
        order = list(dict.fromkeys(asked.shape for asked in self._best))
        order.sort(key=lambda shape: shape != HEALTHY)
        return [
            self._best[asked]
            for asked in sorted(
                self._best,
                key=lambda asked: (order.index(asked.shape), asked.events, asked.partitions, asked.what),
            )
        ]

    def growth(self, row: CheckMeasurement) -> float | None:
        """The exponent of the CPU time, of healthy histories from a million events on."""
        asked = row.asked
        alike = [each for each in self._best.values() if each.asked == _at(asked, each.asked.events)]
        from_events = GROWS_FROM if asked.shape == HEALTHY else min(each.asked.events for each in alike)
        first = next((each for each in alike if each.asked.events == from_events), None)
        if first is None or asked.events <= from_events:
            return None
        return math.log(row.cpu_s / first.cpu_s) / math.log(asked.events / from_events)

    def against(self, row: CheckMeasurement) -> tuple[float, str] | None:
        """How many times as much as what it is measured against."""
        asked = row.asked
        if asked.shape != HEALTHY:
            other = CheckCase(asked.events, HEALTHY, self._widths[0], ALL) if self._widths else None
            told = HEALTHY
        elif asked.what == CORE:
            other, told = CheckCase(asked.events, HEALTHY, asked.partitions, DUCK), "DuckDB"
        elif asked.what == ALL and self._widths[0] == asked.partitions < self._widths[-1]:
            other, told = CheckCase(asked.events, HEALTHY, self._widths[-1], ALL), "wide"
        else:
            return None
        found = self._best.get(other) if other else None
        return (row.cpu_s / found.cpu_s, told) if found else None

    @property
    def _widths(self) -> list[int]:
        return sorted({asked.partitions for asked in self._best if asked.shape == HEALTHY and asked.what != COLD})

    def targets(self, row: CheckMeasurement) -> Iterator[TimeTarget]:
        """Those of this row."""
        asked, against, growth = row.asked, self.against(row), self.growth(row)
        if asked.shape == HEALTHY and asked.what == ALL and asked.events in CPU_S:
            yield TimeTarget(f"≤ {CPU_S[asked.events]} s", row.cpu_s <= CPU_S[asked.events])
        if against:
            times, told = against
            most = {"DuckDB": OF_DUCK, HEALTHY: OF_HEALTHY, "wide": OF_WIDE}[told]
            if told != "DuckDB" or asked.events >= DUCK_FROM:
                yield TimeTarget(f"≤ {most:g} × {told}", times <= most)
        if asked.shape != HEALTHY and growth is not None:
            yield TimeTarget(f"≤ n^{SICK_GROWTH:g}", growth <= SICK_GROWTH)
        if row.jvm_mb:
            yield TimeTarget(f"JVM ≤ {JVM_MB >> 10} GB", row.jvm_mb <= JVM_MB)
        if row.python_mb:
            yield TimeTarget(f"Python ≤ {PYTHON_MB >> 10} GB", row.python_mb <= PYTHON_MB)


def _at(asked: CheckCase, events: int) -> CheckCase:
    return CheckCase(events, asked.shape, asked.partitions, asked.what)


def cells(results: Results, row: CheckMeasurement) -> tuple[str, ...]:
    """A line of the table."""
    asked, growth, against = row.asked, results.growth(row), results.against(row)
    return (
        f"{asked.events:,}",
        asked.history,
        asked.what,
        _seconds(row.wall_s),
        _seconds(row.cpu_s),
        f"{against[0]:.1f} × {against[1]}" if against else "",
        f"{row.jvm_mb:,}" if row.jvm_mb else "",
        f"{row.python_mb:,}" if row.python_mb else "",
        "" if growth is None else f"n^{growth:.2f}",
        _told(list(results.targets(row))),
    )


def _seconds(number: float) -> str:
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def _told(targets: Sequence[TimeTarget]) -> str:
    """What was missed is named; if nothing was, those that are not of memory are."""
    missed = [str(target) for target in targets if not target.met]
    return ", ".join(missed) or ", ".join(str(target) for target in targets if " GB" not in target.text)


def table(results: Results) -> Table:
    """For the terminal."""
    shown = Table(title="what a check costs", title_justify="left")
    for title in TITLES:
        shown.add_column(title, justify="left" if title in TEXTS else "right")
    for row in results.rows:
        missed = any(not target.met for target in results.targets(row))
        shown.add_row(*cells(results, row), style="red" if missed else None)
    return shown


def page(results: Results) -> str:
    """docs/benchmarks.md."""
    memory_gb = psutil.virtual_memory().total / 2**30
    machine = f"{psutil.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()} on {platform.machine()}"
    lines = [" | ".join(("", *cells(results, row), "")).strip() for row in results.rows]
    return f"""# What a check costs

`make bench-check` measures it and writes this page. Histories are made. Healthy ones (`bench/histories.py`) are what a
healthy run records, with three hot partitions and with a thousand; the others (`bench/sick/`) are of brokers with
which very much is wrong. *core* are five questions: lost writes, values at two offsets and offsets with two values, the
order of polls, watermarks that fall, and acknowledgements that a later answer does not show; DuckDB answers them in
plain SQL on the same files (`bench/duck.py`). *all* is every checker, with figures and coverage; *cold* is the command
`tidegauge check`, with all that it starts.

CPU seconds are of all processes, the session is warm unless it is cold. *against* is the CPU time compared with
DuckDB's, with that of a healthy history of that size, or with that of wide partitions. The memory of the JVM is what is
resident, more than its heap; that of Python is its largest worker's. *growth* is the exponent from a million events on,
of sick histories from the smallest. Of *targets* that were all met those of memory are not named: {JVM_MB >> 10} GB
of the JVM, {PYTHON_MB >> 10} GB of a Python worker.

Measured on {machine}.

![CPU seconds by the number of events](bench-check.svg)

| {" | ".join(TITLES)} |
| {" | ".join("---" if title in TEXTS else "---:" for title in TITLES)} |
{chr(10).join(lines)}
"""


def plot(results: Results) -> str:
    """CPU seconds of healthy histories by the number of events, both on logarithmic scales."""
    rows = [row for row in results.rows if row.asked.shape == HEALTHY and row.asked.what in COLOURS]
    across = _Scale.over([row.asked.events for row in rows], LEFT, WIDTH - RIGHT)
    up = _Scale.over([row.cpu_s for row in rows], HEIGHT - BOTTOM, TOP)
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
    hot = min(row.asked.partitions for row in rows)
    for number, (what, partitions) in enumerate(sorted({(row.asked.what, row.asked.partitions) for row in rows})):
        alike = [row for row in rows if (row.asked.what, row.asked.partitions) == (what, partitions)]
        points = [(across.at(row.asked.events), up.at(row.cpu_s)) for row in alike]
        dashes = ' stroke-dasharray="5 3"' if partitions == hot else ""
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
