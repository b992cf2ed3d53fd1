"""The timeline of a run: load, faults, leaders and findings on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.drawings import BAR, leader_legend, leader_track, load_track
from harness.report.operations import lasted
from harness.report.story import ReportedAnomaly
from harness.report.story import StoryWriter as Writer
from harness.report.tracks import ROW, Axis, Panel, Span, Track, fault_bands, rows, run_axis

LEADERS_SHOWN = 8  # rows
ANOMALIES_SHOWN = 8  # rows; the gravest
FAULT_ROWS = 4  # of faults at the same time
PHASES = {"load": "load", "recover": "recover", "final": "final read", "heal": "heal"}
Series = Mapping[str, Any]


def run_timeline(writer: Writer, seen: Sequence[ReportedAnomaly]) -> tuple[Panel | None, int]:
    """All of it; and how many rows of leaders have no room. None without series."""
    series = writer.series
    if series is None:
        return None, 0
    axis = run_axis(series)
    leaders, left = leader_track(series, writer.names, LEADERS_SHOWN)
    tracks = [load_track(series), _phases(series, axis), leaders, _findings(writer, seen, axis)]
    load = tracks[0].curves if tracks[0] else ()
    legend = [*((curve.css, curve.name) for curve in load), *leader_legend(series)]
    faults = fault_bands(series, axis)
    shown = tuple(track for track in tracks if track is not None)
    return Panel("Timeline of the run", axis, shown, faults, tuple(legend), "run-timeline"), left


def _phases(series: Series, axis: Axis) -> Track:
    """What the harness did, and what it broke."""
    begun = [(PHASES[name], axis.at(since)) for name, since in series["phases"] if name in PHASES]
    ends = [since for _, since in begun[1:]] + [axis.last]
    spans = [
        Span(max(axis.low, since), end, 2, BAR, "phase", f"phase: {name}", name)
        for (name, since), end in zip(begun, ends, strict=True)
        if end > axis.low
    ]
    free = [float("-inf")] * FAULT_ROWS
    used = 0
    for each in series["faults"]:
        if each["from"] is None:
            continue
        low, high = axis.at(each["from"]), axis.at(each["to"])
        row = next((n for n, until in enumerate(free) if until <= low), FAULT_ROWS - 1)
        free[row], used = max(free[row], high), max(used, row + 1)
        effect = "" if each["bit"] else ", did not take effect"
        title = f"fault {each['name']}{effect}, for {lasted(each['to'] - each['from'])}: {each['detail']}"
        spans.append(Span(low, high, ROW * (row + 1) + 2, BAR, "broken", title, str(each["name"]), "#faults"))
    labels = [("phases", "phases of the run"), *[("faults" if not n else "", "faults") for n in range(used)]]
    return rows("Phases and faults", labels, spans)


def _findings(writer: Writer, seen: Sequence[ReportedAnomaly], axis: Axis) -> Track | None:
    """A row for each of the gravest anomalies, and one for everything that is allowed."""
    weighty = [each for each in seen if each.status != "allowed"]
    shown, rest = weighty[:ANOMALIES_SHOWN], weighty[ANOMALIES_SHOWN:]
    lanes: list[tuple[str, tuple[ReportedAnomaly, ...]]] = [(each.name, (each,)) for each in shown]
    lanes += [("other findings", tuple(rest))] if rest else []
    allowed = tuple(each for each in seen if each.status == "allowed")
    lanes += [("allowed", allowed)] if allowed else []
    if not lanes:
        return None
    spans = [
        span
        for row, (_, anomalies) in enumerate(lanes)
        for anomaly in anomalies
        for span in _marks(writer, anomaly, ROW * row + 2, axis)
    ]
    return rows("Findings", [(name, name) for name, _ in lanes], spans)


def _marks(writer: Writer, anomaly: ReportedAnomaly, y: float, axis: Axis) -> list[Span]:
    """Where the findings of an anomaly are, as far as they were kept."""
    first_ns = writer.clock.first_ns
    css = (
        "finding"
        if anomaly.status == "illegal"
        else "finding allowed"
        if anomaly.status == "allowed"
        else "finding open"
    )
    spans = []
    for n, each in enumerate(writer.results["anomalies"][anomaly.name]["findings"]):
        if each["time_ns"] is None:
            continue
        low, high = axis.at(each["time_ns"] - first_ns), axis.at((each["until_ns"] or each["time_ns"]) - first_ns)
        key = anomaly.findings[min(n, len(anomaly.findings) - 1)].key
        place = writer.names.partition(each["topic"], each["partition"]) if each["topic"] is not None else "cluster"
        title = f"{anomaly.name}, {place}: {each['detail']}"
        spans.append(Span(max(axis.low, low), max(axis.low, min(axis.last, high)), y, BAR, css, title, "", f"#{key}"))
    return spans
