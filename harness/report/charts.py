"""Charts: Vega-Lite specifications, drawn as SVG when the report is made, so that they need no JavaScript to be seen.

Colours are variables of the page's style sheet (`--node-1`, `--grid`, …), so that a chart follows light and dark. Texts
in charts are our own words and numbers: whatever a broker or a record says stays in the page, where it is escaped.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NS = 1_000_000_000
WIDTH, HEIGHT = 860, 170
LEAST = 1e-3  # on a logarithmic scale
NOT_DRAWN = "<p>This could not be drawn.</p>"
COLOURS = 6  # of nodes, in the style sheet
_NUMBER = re.compile(r"-?\d+\.\d+")
_PLACES = re.compile(r' (?:d|transform)="[^"]*"')
_SIZE = re.compile(r'^<svg [^>]*(viewBox="[^"]*")')
Points = Sequence[tuple[float, float | None]]  # nothing: the line is broken there


@dataclass(frozen=True)
class Line:
    """One line of a chart: what the legend calls it, how it looks, and its points (seconds, value)."""

    name: str
    colour: str
    points: Points
    dashed: bool = False
    thick: bool = False
    steps: bool = True
    above_nought: bool = False  # on a scale that has none


@dataclass(frozen=True)
class PlotArea:
    """What all charts of a report share: the seconds that are shown, and the faults in them."""

    from_s: float
    to_s: float
    faults: tuple[tuple[float, float], ...] = ()


def colour_of(node: int | str) -> str:
    """The colour of a node."""
    number = int(node)
    return f"var(--node-{(number - 1) % COLOURS + 1})" if number > 0 else "var(--muted)"


def frame_of(series: Mapping[str, Any]) -> PlotArea:
    """From the begin of the load to the end."""
    faults = [(fault["from"] / NS, fault["to"] / NS) for fault in series["faults"] if fault["from"] is not None]
    return PlotArea(series["start"] / NS, max(series["lasted"], series["start"] + 1) / NS, tuple(faults))


def seconds(series: Mapping[str, Any], bucket: float) -> float:
    """When a bucket begins."""
    return round(float(series["start"] + bucket * series["bucket"]) / NS, 3)


def lines(frame: PlotArea, drawn: Iterable[Line], *, log: bool = False, height: int = HEIGHT) -> str:
    """A chart of lines over time, with bands for faults, as SVG."""
    shown = [line for line in drawn if line.points]
    if not shown:
        return ""
    values = [value for line in shown for _, value in line.points if value is not None]
    most, least = max(values), min(values)
    axis: dict[str, Any] = {"tickCount": 4, "minExtent": 44}
    scale: dict[str, Any] = {"domain": [0, most or 1], "nice": True}
    if log:
        low, high = math.floor(math.log10(max(least, LEAST))), math.ceil(math.log10(max(most, LEAST)))
        axis["values"] = [10**power for power in range(low, high + 1)]
        scale = {"type": "log", "domain": [10**low, 10 ** max(high, low + 1)]}
    layers = [*([_bands(frame)] if frame.faults else []), *(_line(line) for line in shown)]
    return _svg(frame, layers, height, {"scale": scale, "axis": axis, "title": None})


def _line(line: Line) -> dict[str, Any]:
    low = LEAST if line.above_nought else -math.inf
    values = [{"t": t, "v": None if v is None else max(v, low)} for t, v in line.points]
    mark = {
        "type": "line",
        "stroke": line.colour,
        "strokeWidth": 2.2 if line.thick else 1.4,
        "interpolate": "step-after" if line.steps else "linear",
        "strokeJoin": "round",
    }
    if line.dashed:
        mark["strokeDash"] = [4, 3]
    return {"data": {"values": values}, "mark": mark, "encoding": {"y": {"field": "v"}}}


def _bands(frame: PlotArea) -> dict[str, Any]:
    return {
        "data": {"values": [{"t": begin, "u": max(end, begin)} for begin, end in frame.faults]},
        "mark": {
            "type": "rect",
            "fill": "var(--fault)",
            "stroke": "var(--fault-edge)",
            "strokeWidth": 0.6,
            "clip": True,
        },
        "encoding": {"x2": {"field": "u"}, "y": None},
    }


def bars(frame: PlotArea, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Who led: a row for each name, with stretches `from`, `to` (seconds), `colour`, `text` and `whole`."""
    values = [dict(row) for row in rows]
    if not values:
        return ""
    y = {
        "field": "row",
        "type": "nominal",
        "sort": list(names),
        "title": None,
        "axis": {"grid": False, "labelLimit": 200, "minExtent": 7 * max(map(len, names))},
    }
    bar = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.62}},
        "encoding": {
            "x": {"field": "from"},
            "x2": {"field": "to"},
            "y": y,
            "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
            "opacity": {
                "field": "whole",
                "type": "nominal",
                "scale": {"domain": [True, False], "range": [0.85, 0.4]},
                "legend": None,
            },
        },
    }
    text = {
        "data": {"values": [row for row in values if row["to"] - row["from"] > (frame.to_s - frame.from_s) / 14]},
        "mark": {
            "type": "text",
            "align": "left",
            "dx": 5,
            "fontSize": 10.5,
        },
        "encoding": {
            "x": {"field": "from"},
            "y": y,
            "text": {"field": "text", "type": "nominal"},
            "color": {"field": "ink", "type": "nominal", "scale": None, "legend": None},
        },
    }
    layers = [bar, *([_bands(frame)] if frame.faults else []), text]
    return _svg(frame, layers, 22 * len(names), None)


def _svg(frame: PlotArea, layers: list[dict[str, Any]], height: int, y: Mapping[str, Any] | None) -> str:
    import vl_convert

    x = {"type": "quantitative", "scale": {"domain": [frame.from_s, frame.to_s], "nice": False}}
    for layer in layers:
        encoding = layer["encoding"]
        given = encoding.get("x", {"field": "t"})
        encoding["x"] = {
            **given,
            **x,
            "title": None,
            "axis": {"labelExpr": "datum.label + ' s'", "tickCount": 8, "grid": False},
        }
        if encoding.get("y", ...) is None:
            del encoding["y"]
        elif y is not None:
            encoding["y"] = {**encoding["y"], "type": "quantitative", **y}
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": WIDTH,
        "height": height,
        "padding": 4,
        "layer": layers,
        "config": {
            "aria": False,
            "background": None,
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {
                "labelColor": "currentColor",
                "titleColor": "currentColor",
                "labelFontSize": 11,
                "titleFontSize": 11,
                "gridColor": "var(--grid)",
                "tickColor": "var(--grid)",
                "domainColor": "var(--grid)",
            },
        },
    }
    _have_standard_input()
    try:
        drawn = vl_convert.vegalite_to_svg(spec)
    except ValueError:
        return NOT_DRAWN
    sized = _SIZE.sub(r'<svg xmlns="http://www.w3.org/2000/svg" class="chart" \1', drawn, count=1)
    return _PLACES.sub(lambda place: _NUMBER.sub(_rounded, place[0]), sized)


def _have_standard_input() -> None:
    """What draws panics without one, which a detached process may lack; the lowest number that is free is its own."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def _rounded(number: re.Match[str]) -> str:
    """A tenth of a pixel is enough."""
    return f"{float(number[0]):.1f}".removesuffix(".0")
