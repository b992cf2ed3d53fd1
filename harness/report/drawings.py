"""Which charts a report has, made from the series of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkers.summaries.series import SILENCE_NS
from harness.report.charts import NS, Line, PlotArea, Points, bars, colour_of, frame_of, lines, seconds

SHOWN = 6  # partitions whose charts are open; the others are folded
NODES_SHOWN = 24  # rows of the chart of leaders


@dataclass(frozen=True)
class Chart:
    """A picture, what it is called, and what its lines are."""

    name: str
    svg: str
    legend: tuple[tuple[str, str, bool], ...] = ()  # the class of the sample, the text, whether it is dashed


def marks(series: Mapping[str, Any]) -> list[Chart]:
    """Per partition: what was acknowledged, and the watermarks and ends that each node showed."""
    frame, charts = frame_of(series), []
    for place in series["partitions"]:
        acknowledged = _held(series, series["flow"].get(place, {}).get("acknowledged", []), frame)
        drawn = [Line("acknowledged", "var(--ink)", acknowledged, thick=True)]
        legend = [("ink", "acknowledged (next offset)", False)] if acknowledged else []
        for node, shown in sorted(series["marks"].get(place, {}).items(), key=lambda item: int(item[0])):
            for what, name, dashed in (("high_watermark", "high watermark", False), ("end", "end", True)):
                if points := shown.get(what):
                    drawn.append(Line(name, colour_of(node), _at(series, points), dashed=dashed))
                    legend.append((f"node-{_colour(node)}", f"{name}, node {node}", dashed))
        if svg := lines(frame, drawn):
            charts.append(Chart(place, svg, tuple(legend)))
    return charts


def throughput(series: Mapping[str, Any]) -> list[Chart]:
    """Messages per second, their latency, and errors."""
    frame, per_s = frame_of(series), NS / series["bucket"]

    def rate(what: str) -> list[tuple[float, float]]:
        total: dict[int, float] = {}
        for flow in series["flow"].values():
            for bucket, count in flow.get(what, []):
                total[bucket] = total.get(bucket, 0) + count * per_s
        return _filled(series, total)

    rates = [
        Line("acknowledged", "var(--node-1)", rate("ok")),
        Line("read", "var(--node-2)", rate("read")),
        Line("failed, or sent with an unknown end", "var(--bad)", _sum(rate("info"), rate("fail"))),
    ]
    samples = ("node-1", "node-2", "bad")
    charts = [
        Chart(
            "Messages per second",
            lines(frame, rates),
            tuple((sample, line.name, False) for sample, line in zip(samples, rates, strict=True) if line.points),
        )
    ]
    if series["latency"]:
        names = (
            ("median", "node-1"),
            ("90th percentile", "node-2"),
            ("99th percentile", "node-3"),
            ("longest", "muted"),
        )
        drawn = [
            Line(
                name,
                f"var(--{colour})",
                _broken(series, series["latency"], n),
                steps=False,
                above_nought=True,
            )
            for n, (name, colour) in enumerate(names, start=1)
        ]
        legend = tuple((colour, name, False) for name, colour in names)
        charts.append(Chart("Milliseconds from a send to its acknowledgement", lines(frame, drawn, log=True), legend))
    if series["errors"]:
        shown = list(series["errors"].items())[:6]
        drawn = [
            Line(name, colour_of(n), _filled(series, {bucket: count * per_s for bucket, count in points}))
            for n, (name, points) in enumerate(shown, start=1)
        ]
        legend = tuple((f"node-{n}", name, False) for n, (name, _) in enumerate(shown, start=1))
        charts.append(Chart("Operations that ended with an error, per second", lines(frame, drawn, height=90), legend))
    return [chart for chart in charts if chart.svg]


def leaders(series: Mapping[str, Any]) -> tuple[list[Chart], list[dict[str, Any]]]:
    """Who led: a chart for each topic, and the changes; a row for each node where they did not say the same."""
    frame, changes = frame_of(series), []
    rows: dict[str, list[dict[str, Any]]] = {}
    names: dict[str, list[str]] = {}
    for place in series["partitions"]:
        topic, _, partition = place.rpartition("-")
        told = series["leaders"].get(place, {})
        agreed = _agreed(told)
        for node, said in {"": agreed}.items() if agreed is not None else sorted(told.items()):
            name = f"p{partition}" if not node else f"p{partition}, says node {node}"
            names.setdefault(topic, []).append(name)
            rows.setdefault(topic, []).extend(_stretches(name, said, frame))
        for node, said in sorted(told.items()):
            changes += [
                {"at": at, "place": place, "node": node, "leader": leader, "epoch": epoch, "isr": isr}
                for at, leader, epoch, isr in said
            ]
    charts = [Chart(topic, bars(frame, rows[topic], names[topic][:NODES_SHOWN])) for topic in names if rows[topic]]
    return charts, sorted(changes, key=lambda change: (change["at"], change["place"], change["node"]))


def _agreed(told: Mapping[str, list[list[Any]]]) -> list[list[Any]] | None:
    """What the node said that saw it first, if all nodes said the same in the same order."""
    said = {tuple((leader, epoch) for _, leader, epoch, _ in _led(changes)) for changes in told.values()}
    if len(said) > 1:
        return None
    return min(told.values(), key=lambda changes: changes[0][0], default=[])


def _led(changes: list[list[Any]]) -> list[list[Any]]:
    """Only where the leader or its epoch changed."""
    return [change for n, change in enumerate(changes) if n == 0 or changes[n - 1][1:3] != change[1:3]]


def _stretches(name: str, changes: list[list[Any]], frame: PlotArea) -> list[dict[str, Any]]:
    replicas = max((len(str(isr or "").split(",")) for *_, isr in changes), default=0)
    ends = ([change[0] / NS for change in changes[1:]] + [frame.to_s])[: len(changes)]
    return [
        {
            "row": name,
            "from": max(frame.from_s, at / NS),
            "to": min(frame.to_s, end),
            "colour": colour_of(leader),
            "text": f"node {leader}, epoch {epoch}" if leader >= 0 else "no leader",
            "whole": (whole := len(str(isr or "").split(",")) == replicas),
            "ink": "var(--on-node)" if whole else "var(--ink)",
        }
        for (at, leader, epoch, isr), end in zip(changes, ends, strict=True)
        if end > frame.from_s
    ]


def _colour(node: str) -> int:
    return (int(node) - 1) % 6 + 1


def _at(series: Mapping[str, Any], points: list[list[Any]]) -> Points:
    """With the end of the last bucket before each break, so that what was shown once is seen, too."""
    at: list[tuple[float, float | None]] = []
    for n, (bucket, value) in enumerate(points):
        at.append((seconds(series, bucket + 0.5), value))
        if value is not None and (n + 1 == len(points) or points[n + 1][1] is None):
            at.append((seconds(series, bucket + 1), value))
    return at


def _broken(series: Mapping[str, Any], rows: list[list[float]], column: int) -> Points:
    """A column over time, which is broken where nothing was for long."""
    points: list[tuple[float, float | None]] = []
    silence = max(2, SILENCE_NS // series["bucket"])
    for n, row in enumerate(rows):
        if n and row[0] - rows[n - 1][0] > silence:
            points.append((seconds(series, rows[n - 1][0]), None))
        points.append((seconds(series, row[0]), row[column]))
    return points


def _held(series: Mapping[str, Any], points: list[list[int]], frame: PlotArea) -> Points:
    """What only rises, up to the end."""
    highest, held = 0, []
    for bucket, value in points:
        highest = max(highest, value)
        held.append((seconds(series, bucket + 0.5), float(highest)))
    return [*held, (frame.to_s, float(highest))] if held else []


def _filled(series: Mapping[str, Any], counts: Mapping[int, float]) -> list[tuple[float, float]]:
    """With nought where nothing was, and nothing where nought goes on."""
    if not counts:
        return []
    last = int((series["lasted"] - series["start"]) // series["bucket"])
    whole = [counts.get(bucket, 0.0) for bucket in range(last + 1)]
    return [
        (seconds(series, bucket), round(value, 2))
        for bucket, value in enumerate(whole)
        if value or bucket in {0, last} or whole[bucket - 1] or whole[min(last, bucket + 1)]
    ]


def _sum(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> list[tuple[float, float]]:
    total: dict[float, float] = {}
    for at, value in (*one, *other):
        total[at] = total.get(at, 0) + value
    return [(at, total[at]) for at in sorted(total)]
