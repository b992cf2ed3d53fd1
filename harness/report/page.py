"""The report of a run: one HTML file with everything in it, which asks nobody for anything.

It is made from run.json, results.json and series.json alone. All text from brokers, records and logs is escaped by the
templates, and the page forbids itself whatever is not in it: scripts and styles other than its own by their hashes, and
all requests.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.report import drawings
from harness.report.operations import NS, RunClock, lasted, request
from harness.report.story import StoryWriter, reasons, sentence
from harness.report.timeline import of_witness

TEMPLATES = Path(__file__).parent / "templates"
WITNESSES = 6
CHANGES = 60
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LINEAR = ("linearizable", "linearizable; end() was never called")


def render(facts: Mapping[str, Any], results: Mapping[str, Any], series: Mapping[str, Any] | None, path: str) -> str:
    """The page; without series it says that nothing could be drawn."""
    first_ns = series["first_ns"] if series else facts.get("anchor", {}).get("monotonic_ns", 0)
    clock = RunClock(first_ns, facts.get("anchor"))
    teller = StoryWriter(results, series, clock)
    seen = teller.seen()
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    changes: list[dict[str, Any]] = []
    leaders: list[drawings.Chart] = []
    if series:
        leaders, changes = drawings.leaders(series)
    return _environment().get_template("page.html.jinja").render(
        facts=facts,
        results=results,
        series=series,
        clock=clock,
        path=path,
        policy=_policy(style, script),
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        title=facts.get("title") or Path(path).parent.name,
        headline=_headline(facts),
        sentence=sentence(results),
        reasons=reasons(results),
        repeat=_repeat(facts, path),
        diagnosis=results.get("diagnosis"),
        seen=seen,
        first=teller.first(seen),
        linear=_linear(results, series),
        marks=drawings.marks(series) if series else [],
        marks_open=drawings.SHOWN,
        throughput=drawings.throughput(series) if series else [],
        leaders=leaders,
        changes=changes[:CHANGES],
        changes_more=max(0, len(changes) - CHANGES),
        stalls=_stalls(results, series),
        refusals=_refusals(series),
        settings=_settings(facts),
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = Markup  # drawn by us, from numbers and our own words
    environment.filters["since"] = lambda since_ns: f"{since_ns / NS:.3f} s"
    environment.filters["lasted"] = lasted
    environment.filters["request"] = request
    environment.finalize = _visible
    return environment


def _visible(value: object) -> object:
    """Text that steers a terminal, or the direction in which people read, is shown and does nothing."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str)
        else _STEERING.sub("\N{REPLACEMENT CHARACTER}", value)
    )


def _policy(style: str, script: str) -> str:
    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    own = f"style-src {hashed(style)}; script-src {hashed(script)}"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _headline(facts: Mapping[str, Any]) -> list[str]:
    """What was run, on what."""
    scenario = facts.get("scenario") or {}
    settings, cluster = scenario.get("settings") or {}, facts.get("cluster") or {}
    faults = dict.fromkeys(slot.get("fault", "") for slot in facts.get("schedule") or [])
    told = [scenario.get("workload"), *faults]
    told += [f"broken on purpose: {name}" for name in (scenario.get("tap") or {}).get("broken", [])]
    if cluster:
        told.append(
            f"{cluster.get('product', 'cluster')} {cluster.get('version') or ''}, {len(cluster.get('nodes', []))} nodes"
        )
    told += [settings.get("client"), f"acks={settings['acks']}" if "acks" in settings else None]
    return [str(each).strip() for each in told if each]


def _repeat(facts: Mapping[str, Any], path: str) -> str | None:
    """The command that repeats the run; nothing repeats somebody else's clients."""
    if not facts.get("scenario") or facts.get("kind") in {"tap", "import"} or facts.get("traffic_only"):
        return None
    return f"tidegauge run --replay {path}" if facts.get("schedule") else f"tidegauge run {path}/scenario.toml"


def _linear(results: Mapping[str, Any], series: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Per partition: its verdict, and its witness or the findings that contradict it."""
    told = (results.get("summaries") or {}).get("linearizability") or {}
    contradictions = {
        f"{finding['topic']}-{finding['partition']}": f"{name}-{number}"
        for name in ("not-linearizable", "inconsistent-offset", "realtime-order", "shared-offset")
        for number, finding in reversed(list(enumerate(results["anomalies"].get(name, {}).get("findings", [])[:3])))
    }
    drawn, rows = 0, []
    for each in told.get("partitions", []):
        witness = (series or {}).get("witness", {}).get(each["partition"])
        line = None
        if series and witness and each["verdict"] in LINEAR and drawn < WITNESSES:
            title = f"order of appends in {each['partition']}"
            line = of_witness(f"witness-{drawn}", title, witness, series)
            drawn += 1
        rows.append(
            {**each, "timeline": line, "finding": contradictions.get(each["partition"]) if line is None else None}
        )
    return rows


def _stalls(results: Mapping[str, Any], series: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Of partitions, with their class; and of consumers, which have none."""
    first_ns = series["first_ns"] if series else None
    classes = ("class 1", "class 2", "class 3", "data available", "class unknown")
    rows = [
        {
            "who": f"{finding['topic']}-{finding['partition']}",
            "class": next((tag for tag in finding["tags"] if tag in classes), "class unknown"),
            "began": None if first_ns is None else finding["time_ns"] - first_ns,
            "lasted": (finding["until_ns"] or finding["time_ns"]) - finding["time_ns"],
            "detail": finding["detail"],
        }
        for finding in results["anomalies"].get("stall", {}).get("findings", [])
        if finding["time_ns"] is not None
    ]
    rows += [
        {
            "who": f"consumer {stall['process']}",
            "class": "all of its partitions",
            "began": None if first_ns is None else stall["began_ns"] - first_ns,
            "lasted": stall["lasted_ns"],
            "detail": "it was handed nothing" + (", and then it gave up" if stall["at_end"] else ""),
        }
        for stall in results["figures"]["stalls"]
    ]
    return rows


def _refusals(series: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Who asked whom and was refused: a matrix of clients and nodes, and the partitions that it was about."""
    if not series or not series["seen"]["exchanges"]:
        return None
    clients = sorted({str(row["client"]) for row in series["refusals"]})
    nodes = sorted({row["node"] for row in series["refusals"] if row["node"] is not None})
    counts = {
        client: [
            sum(r["count"] for r in series["refusals"] if (str(r["client"]), r["node"]) == (client, n)) for n in nodes
        ]
        for client in clients
    }
    rows = [
        {**row, "leader": _leaders_named(series, f"{row['topic']}-{row['partition']}")}
        for row in series["refusals"][:30]
    ]
    return {"nodes": nodes, "counts": counts, "rows": rows, "more": max(0, len(series["refusals"]) - 30)}


def _leaders_named(series: Mapping[str, Any], place: str) -> str:
    """Which leaders nodes named for a partition, in the whole run."""
    told = series["leaders"].get(place, {})
    named = {change[1] for changes in told.values() for change in changes}
    return ", ".join(f"node {node}" for node in sorted(named) if node >= 0) or "nobody knows"


def _settings(facts: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Configuration, versions, cluster and machine, as tables of names and values."""
    scenario = facts.get("scenario") or {}
    cluster = {
        name: value for name, value in (facts.get("cluster") or {}).items() if not isinstance(value, list | dict)
    }
    machine = facts.get("machine") or {}
    tables = {
        "Workload": scenario.get("settings") or {},
        "Limits": scenario.get("limits") or {},
        "Cluster": cluster,
        "Versions": facts.get("versions") or {},
        "Machine": {
            "system": machine.get("system"),
            "cpus": machine.get("cpus"),
            "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB" if machine.get("memory_bytes") else None,
        },
        "Phases": {phase["name"]: f"{phase['took_s']:.1f} s" for phase in facts.get("phases") or []},
    }
    return [
        (title, [(name, _value(value)) for name, value in table.items() if value is not None])
        for title, table in tables.items()
        if any(value is not None for value in table.values())
    ]


def _value(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
