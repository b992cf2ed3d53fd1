"""Which charts a report has, made from the series of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.summaries.series import SILENCE_NS
from harness.report.names import Names
from harness.report.tracks import (
    MS,
    NS,
    ROW,
    Axis,
    Panel,
    Points,
    Span,
    Track,
    colour,
    curves,
    fault_bands,
    log_curves,
    rows,
    run_axis,
)

SHOWN = 6  # partitions whose charts are open; the others are folded
ROWS_SHOWN = 24  # of leaders
PERCENTILES = (("median", "node-1"), ("90th percentile", "node-2"), ("99th percentile", "node-3"), ("longest", "muted"))
ERRORS_SHOWN = 6
BAR = ROW - 4
Series = Mapping[str, Any]


def marks(series: Series, names: Names) -> list[Panel]:
    """Per partition: what was acknowledged, and the watermarks and ends that each node showed."""
    axis, panels = run_axis(series), []
    for place in series["partitions"]:
        acknowledged = _held(series, series["flow"].get(place, {}).get("acknowledged", []), axis)
        drawn = [("acknowledged", "ink thick", acknowledged)]
        for node, shown in sorted(series["marks"].get(place, {}).items(), key=lambda item: int(item[0])):
            for what, name, dashed in (("high_watermark", "high watermark", ""), ("end", "end", " dashed")):
                if points := shown.get(what):
                    drawn.append((f"{name}, node {node}", f"{colour(node)}{dashed}", _at(series, points)))
        name = names.place(place)
        if track := curves(f"{name}: acknowledgements, watermarks and ends", drawn, label=name):
            panels.append(_panel(name, series, axis, track, f"marks-{names.anchor(place)}"))
    return panels


def load_track(series: Series) -> Track | None:
    """Messages per second."""
    failed = _sum(_rate(series, "info"), _rate(series, "fail"))
    drawn = [
        ("acknowledged", "node-1", _rate(series, "ok")),
        ("read", "node-2", _rate(series, "read")),
        ("failed or unknown", "bad", failed),
    ]
    return curves("Messages per second", drawn, label="messages/s", unit="/s")


def latency_and_errors(series: Series) -> list[Panel]:
    """How long sends took, and which errors operations ended with."""
    axis, panels = run_axis(series), []
    if series["latency"]:
        drawn = [
            (name, css, _broken(series, series["latency"], column))
            for column, (name, css) in enumerate(PERCENTILES, start=1)
        ]
        title = "Time from a send to its acknowledgement"
        if track := log_curves(title, drawn, label="latency, ms", unit="ms"):
            panels.append(_panel(title, series, axis, track))
    if series["errors"]:
        per_s = NS / series["bucket"]
        shown = list(series["errors"].items())[:ERRORS_SHOWN]
        lines = [
            (name, f"node-{n}", _filled(series, {bucket: count * per_s for bucket, count in points}))
            for n, (name, points) in enumerate(shown, start=1)
        ]
        title = "Operations that ended with an error, per second"
        if track := curves(title, lines, label="errors/s", unit="/s"):
            panels.append(_panel(title, series, axis, track))
    return panels


def leader_track(series: Series, names: Names, rows_at_most: int = ROWS_SHOWN) -> tuple[Track | None, int]:
    """Who led: a row for each partition, and for each node where they disagreed; and how many rows are left out."""
    axis = run_axis(series)
    labels: list[tuple[str, str]] = []
    spans: list[Span] = []
    for place in series["partitions"]:
        said = series["leaders"].get(place, {})
        agreed = _agreed(said)
        for node, changes in {"": agreed}.items() if agreed is not None else sorted(said.items()):
            name = names.place(place)
            if not changes:
                continue
            whole = name if not node else f"{name}, as node {node} said"
            spans += _stretches(whole, ROW * len(labels) + 2, changes, axis)
            labels.append((name if not node else f"{name} by {node}", f"leader of {whole}"))
    left = max(0, len(labels) - rows_at_most)
    shown = [span for span in spans if span.y < ROW * rows_at_most]
    return (rows("Leaders", labels[:rows_at_most], shown) if labels else None), left


def leaders(series: Series, names: Names) -> Panel | None:
    """The same as a chart of its own, with more rows."""
    track, _ = leader_track(series, names)
    if track is None:
        return None
    axis, faults = run_axis(series), fault_bands(series, run_axis(series))
    return Panel("Leaders", axis, (track,), faults, leader_legend(series))


def leader_legend(series: Series) -> tuple[tuple[str, str], ...]:
    """The colours of the nodes that led."""
    said = (changes for by_node in series["leaders"].values() for changes in by_node.values())
    nodes = sorted({change[1] for changes in said for change in changes})
    return tuple((f"box leads {colour(node)}", f"led by node {node}") for node in nodes if node > 0)


def leader_changes(series: Series, names: Names) -> list[dict[str, Any]]:
    """Everything that nodes said of leaders, where it changed."""
    changes = [
        {"at": at, "place": names.place(place), "node": node, "leader": leader, "epoch": epoch, "isr": isr}
        for place in series["partitions"]
        for node, said in sorted(series["leaders"].get(place, {}).items())
        for at, leader, epoch, isr in said
    ]
    return sorted(changes, key=lambda change: (change["at"], change["place"], change["node"]))


def _panel(title: str, series: Series, axis: Axis, track: Track, anchor: str = "") -> Panel:
    legend = tuple((curve.css, curve.name) for curve in track.curves)
    faults = fault_bands(series, axis)
    return Panel(title, axis, (track,), faults, (*legend, *((("fault", "fault"),) if faults else ())), anchor)


def _agreed(said: Mapping[str, list[list[Any]]]) -> list[list[Any]] | None:
    """What the node said that saw it first, if all nodes said the same in the same order."""
    different = {tuple((leader, epoch) for _, leader, epoch, _ in _led(changes)) for changes in said.values()}
    if len(different) > 1:
        return None
    return min(said.values(), key=lambda changes: changes[0][0], default=[])


def _led(changes: list[list[Any]]) -> list[list[Any]]:
    """Only where the leader or its epoch changed."""
    return [change for n, change in enumerate(changes) if n == 0 or changes[n - 1][1:3] != change[1:3]]


def _stretches(name: str, y: float, changes: Sequence[Sequence[Any]], axis: Axis) -> Iterator[Span]:
    replicas = max((len(str(isr or "").split(",")) for *_, isr in changes), default=0)
    ends = ([axis.at(change[0]) for change in changes[1:]] + [axis.last])[: len(changes)]
    for (at, leader, epoch, isr), end in zip(changes, ends, strict=True):
        if end <= axis.low:
            continue
        whole = len(str(isr or "").split(",")) == replicas
        led = f"node {leader}" if leader >= 0 else "no leader"
        title = f"{name}: {led}, epoch {epoch}, in sync {isr or 'unknown'}"
        css = f"leads {colour(leader)}{'' if whole else ' shrunk'}"
        yield Span(max(axis.low, axis.at(at)), min(axis.last, end), y, BAR, css, title, led)


def _rate(series: Series, what: str) -> list[tuple[float, float]]:
    per_s, total = NS / series["bucket"], dict[int, float]()
    for flow in series["flow"].values():
        for bucket, count in flow.get(what, []):
            total[bucket] = total.get(bucket, 0) + count * per_s
    return _filled(series, total)


def _moment(series: Series, bucket: float) -> float:
    """When a bucket begins, on the axis of the run."""
    return float(series["start"] + bucket * series["bucket"]) / MS


def _at(series: Series, points: list[list[int | None]]) -> Points:
    """With the end of the last bucket before each break, so that what was shown once is seen, too."""
    at: list[tuple[float, float | None]] = []
    for n, (bucket, value) in enumerate(points):
        at.append((_moment(series, (bucket or 0) + 0.5), value))
        if value is not None and (n + 1 == len(points) or points[n + 1][1] is None):
            at.append((_moment(series, (bucket or 0) + 1), value))
    return at


def _broken(series: Series, latency: list[list[float]], column: int) -> Points:
    """A column over time, which is broken where nothing was for long."""
    points: list[tuple[float, float | None]] = []
    silence = max(2, SILENCE_NS // series["bucket"])
    for n, row in enumerate(latency):
        if n and row[0] - latency[n - 1][0] > silence:
            points.append((_moment(series, latency[n - 1][0]), None))
        points.append((_moment(series, row[0]), row[column]))
    return points


def _held(series: Series, points: list[list[int]], axis: Axis) -> Points:
    """What only rises, up to the end."""
    highest, held = 0, []
    for bucket, value in points:
        highest = max(highest, value)
        held.append((_moment(series, bucket + 0.5), float(highest)))
    return [*held, (axis.last, float(highest))] if held else []


def _filled(series: Series, counts: Mapping[int, float]) -> list[tuple[float, float]]:
    """With 0 where nothing was, and nothing where 0 goes on."""
    if not counts:
        return []
    last = int((series["lasted"] - series["start"]) // series["bucket"])
    whole = [counts.get(bucket, 0.0) for bucket in range(last + 1)]
    return [
        (_moment(series, bucket), round(value, 2))
        for bucket, value in enumerate(whole)
        if value or bucket in {0, last} or whole[bucket - 1] or whole[min(last, bucket + 1)]
    ]


def _sum(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> list[tuple[float, float]]:
    total: dict[float, float] = {}
    for at, value in (*one, *other):
        total[at] = total.get(at, 0) + value
    return [(at, total[at]) for at in sorted(total)]
