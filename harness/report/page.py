"""The report of a run: one HTML file with everything in it, which asks nobody for anything.

It is made from run.json, results.json and series.json alone. All text from brokers, records and logs is escaped by the
templates, and the page forbids itself whatever is not in it: scripts and styles other than its own by their hashes, and
all requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.report import drawings, tables
from harness.report.first_screen import first_screen
from harness.report.html import environment, frame
from harness.report.names import Names
from harness.report.operations import NS, RunClock, lasted, request
from harness.report.run_timeline import run_timeline
from harness.report.story import StoryWriter

CHANGES = 60
TIMES = {"since": lambda since_ns: f"{since_ns / NS:.3f} s", "lasted": lasted}
UNDRAWN = "The history could not be read for this: nothing is drawn, and that says nothing about the run."


def render(facts: Mapping[str, Any], results: Mapping[str, Any], series: Mapping[str, Any] | None, path: str) -> str:
    """The page; without series it says that nothing could be drawn."""
    first_ns = series["first_ns"] if series else facts.get("anchor", {}).get("monotonic_ns", 0)
    names = Names.of(facts, results, series)
    clock = RunClock(first_ns, facts.get("anchor"))
    writer = StoryWriter(results, series, clock, names)
    seen = writer.seen()
    changes = drawings.leader_changes(series, names) if series else []
    timeline, timeline_left = run_timeline(writer, seen)
    return environment({"place": names.place, "request": request, **TIMES}).get_template("page.html.jinja").render(
        facts=facts,
        results=results,
        series=series,
        clock=clock,
        names=names,
        path=path,
        **frame(["page.css"], ["page.js"]),
        title=facts.get("title") or Path(path).parent.name,
        headline=_headline(facts),
        answer=first_screen(facts, results, seen, path),
        diagnosis=results.get("diagnosis"),
        groups=writer.groups(seen),
        first=writer.first(seen),
        linear=tables.linear(results, series, names),
        marks=drawings.marks(series, names) if series else [],
        marks_open=drawings.SHOWN,
        latency=drawings.latency_and_errors(series) if series else [],
        leaders=drawings.leaders(series, names) if series else None,
        timeline=timeline,
        timeline_left=timeline_left,
        undrawn=UNDRAWN,
        shown_anomalies={each.name for each in seen},
        changes=changes[:CHANGES],
        changes_total=len(changes),
        stalls=tables.stalls(results, series, names),
        refusals=tables.refusals(series, names),
        settings=tables.settings(facts),
    )  # fmt: skip


def _headline(facts: Mapping[str, Any]) -> list[str]:
    """What was run, on what."""
    scenario = facts.get("scenario") or {}
    settings, cluster = scenario.get("settings") or {}, facts.get("cluster") or {}
    faults = dict.fromkeys(slot.get("fault", "") for slot in facts.get("schedule") or [])
    parts = [scenario.get("workload"), *faults]
    parts += [f"built-in bug: {name}" for name in (scenario.get("tap") or {}).get("broken", [])]
    if cluster:
        parts.append(
            f"{cluster.get('product', 'cluster')} {cluster.get('version') or ''}, {len(cluster.get('nodes', []))} nodes"
        )
    parts += [settings.get("client"), f"acks={settings['acks']}" if "acks" in settings else None]
    return [str(each).strip() for each in parts if each]
