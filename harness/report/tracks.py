"""Tracks: charts below each other that share one time axis, as plain SVG.

What is drawn inside a track is in units of the axis and of its own values, and the browser scales it: a path is the
data, `M t v H t V v`, from which `templates/page.js` reads the values that it shows; to zoom, it changes a viewBox.
Texts are placed in percent, so that they keep their size on any screen. Nothing needs JavaScript to be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NS = 1_000_000_000
MS = 1_000_000
CURVE_HEIGHT, ROW = 96, 18
HEADROOM = 0.92  # of a track's height that its highest value takes
LEAST_LOG = 1e-3
TICKS = 7
COLOURS = 6  # of nodes, in the style sheet
Points = Sequence[tuple[float, float | None]]  # time and value; the line is broken where there is no value


@dataclass(frozen=True)
class Axis:
    """The time that tracks share; positions on it are `unit_ns` since `origin_ns`."""

    name: str
    origin_ns: int
    unit_ns: int
    low: float
    high: float
    first: float
    last: float

    def at(self, time_ns: float) -> float:
        """A time on the axis."""
        return (time_ns - self.origin_ns) / self.unit_ns

    def percent(self, position: float) -> str:
        """Where it is when the page opens."""
        return f"{number(100 * (position - self.low) / (self.high - self.low), 2)}%"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Where times are written when the page opens, and which."""
        span_s = (self.high - self.low) * self.unit_ns / NS
        step_s = _nice(span_s / TICKS)
        low_s = (self.origin_ns + self.low * self.unit_ns) / NS
        first = math.ceil(low_s / step_s)
        digits = max(0, -math.floor(math.log10(step_s)))
        return [
            (self.percent(self.at(n * step_s * NS)), f"{n * step_s:.{digits}f} s")
            for n in range(first, math.floor((low_s + span_s) / step_s) + 1)
        ]


@dataclass(frozen=True)
class Curve:
    """A line: its name, the classes that colour it, and its path."""

    name: str
    css: str
    path: str


@dataclass(frozen=True)
class Span:
    """A stretch of time in a row: a fault, who led, a finding, an operation."""

    low: float
    high: float
    y: float
    height: float
    css: str
    title: str
    text: str = ""
    link: str = ""
    room: float = 0.0  # up to where its text may go

    @property
    def until(self) -> float:
        """Where its text has to end."""
        return max(self.high, self.room)


@dataclass(frozen=True)
class Dot:
    """A moment in a row."""

    at: float
    y: float


@dataclass(frozen=True)
class Track:
    """One chart, or rows of stretches."""

    title: str
    height: int
    labels: tuple[tuple[float, str, str], ...] = ()  # y, text, the whole of it
    curves: tuple[Curve, ...] = ()
    spans: tuple[Span, ...] = ()
    dots: tuple[Dot, ...] = ()
    scale: float = 1.0  # pixels of a unit
    gauge: tuple[tuple[float, str], ...] = ()  # y, value
    unit: str = ""
    log: bool = False

    @property
    def chain(self) -> str:
        """The path through its dots."""
        return path([(dot.at, dot.y) for dot in self.dots], steps=False)


Sample = tuple[str, str]  # the class of a line or box in the legend, and what it stands for


@dataclass(frozen=True)
class Panel:
    """Tracks on one axis, with what their colours mean."""

    title: str
    axis: Axis
    tracks: tuple[Track, ...]
    faults: tuple[Span, ...] = ()
    legend: tuple[Sample, ...] = ()
    anchor: str = ""


def number(value: float, digits: int = 3) -> str:
    """As short as it can be written."""
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _nice(step: float) -> float:
    """The lowest of 1, 2, 5, 10, … that is no less."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def run_axis(series: Mapping[str, Any]) -> Axis:
    """From the begin of the load to the end, in milliseconds: all charts of a run share it."""
    low, high = series["start"] / MS, max(series["lasted"], series["start"] + MS) / MS
    return Axis("run", 0, MS, low, high, low, high)


def fault_bands(series: Mapping[str, Any], axis: Axis) -> tuple[Span, ...]:
    """Faults, as they go through every track."""
    return tuple(
        Span(axis.at(each["from"]), axis.at(each["to"]), 0, 0, "fault", f"fault: {each['name']}")
        for each in series["faults"]
        if each["from"] is not None
    )


def colour(node: int | str) -> str:
    """The class of a node's colour."""
    which = int(node)
    return f"node-{(which - 1) % COLOURS + 1}" if which > 0 else "muted"


def path(points: Points, *, steps: bool = True) -> str:
    """Points as a path, in their own units."""
    parts: list[str] = []
    begun, held = False, None
    for at, value in points:
        if value is None:
            begun, held = False, None
        elif not begun:
            parts.append(f"M{number(at)} {number(value)}")
            begun, held = True, value
        elif steps:
            parts.append(f"H{number(at)}" + (f"V{number(value)}" if value != held else ""))
            held = value
        else:
            parts.append(f"L{number(at)} {number(value)}")
    return "".join(parts)


def curves(
    title: str,
    drawn: Iterable[tuple[str, str, Points]],
    *,
    label: str = "",
    unit: str = "",
) -> Track | None:
    """A track of lines (name, classes, points) from 0 to their highest value; None without a point."""
    shown = [(name, css, points) for name, css, points in drawn if points]
    if not shown:
        return None
    most = max((value for *_, points in shown for _, value in points if value is not None), default=0.0) or 1.0
    scale = HEADROOM * CURVE_HEIGHT / most
    half = _nice(most / 2.5)
    gauge = tuple((CURVE_HEIGHT - scale * mark, f"{mark:,.6g}") for mark in (half, 2 * half) if mark <= most)
    return Track(
        title=title,
        height=CURVE_HEIGHT,
        labels=((12, label or title, title),),
        curves=tuple(Curve(name, css, path(points)) for name, css, points in shown),
        scale=scale,
        gauge=gauge,
        unit=unit,
    )


def log_curves(title: str, drawn: Iterable[tuple[str, str, Points]], *, label: str, unit: str) -> Track | None:
    """The same on a logarithmic scale: the path holds decimal logarithms above the lowest power of ten."""
    shown = [(name, css, points) for name, css, points in drawn if points]
    values = [value for *_, points in shown for _, value in points if value is not None]
    if not values:
        return None
    low = math.floor(math.log10(max(min(values), LEAST_LOG)))
    high = max(low + 1, math.ceil(math.log10(max(*values, LEAST_LOG))))
    scale = HEADROOM * CURVE_HEIGHT / (high - low)

    def raised(points: Points) -> Points:
        return [(at, None if v is None else math.log10(max(v, LEAST_LOG)) - low) for at, v in points]

    gauge = tuple(
        (CURVE_HEIGHT - scale * (power - low), f"{10.0**power:,.6g}")
        for power in range(low + 1, high + 1, max(1, (high - low) // 3))
    )
    return Track(
        title=title,
        height=CURVE_HEIGHT,
        labels=((12, label, title),),
        curves=tuple(Curve(name, css, path(raised(points), steps=False)) for name, css, points in shown),
        scale=scale,
        gauge=gauge,
        unit=f"{unit} {low}",
        log=True,
    )


def rows(title: str, names: Sequence[tuple[str, str]], spans: Iterable[Span]) -> Track:
    """A track of rows, each with its name (as short as there is room for, and whole)."""
    labels = tuple((ROW * n + 13.0, short, whole) for n, (short, whole) in enumerate(names))
    return Track(title, ROW * len(names) + 2, labels, spans=tuple(spans))
