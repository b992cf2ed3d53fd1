"""The index of a store: one static page of all runs, with verdict, cause, time and seed, that compares any two of them.

It is made from run.json and results.json alone. A run that cannot be read, or that never came to its end, is listed as
such. Links are relative, so the page can be published as it is, with the reports beside it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from harness.foundation.errors import TidegaugeError
from harness.history.places import HISTORY, SEGMENTS
from harness.history.store import RESULTS_FILE, RUN_FILE, Run, store_failure, write_whole
from harness.report.html import environment, frame, visible
from harness.report.making import REPORT_FILE

INDEX_FILE = "index.html"
SUITES = "suites"  # of a store: how far suites have come
FINISHED = "finished"
CAUSE_CHARACTERS = 200
ANOMALIES_SHOWN = 12
VERDICTS = ("valid", "invalid", "unknown")
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class IndexedRun:
    """A run as the index shows it; `compared` is what two runs are compared by."""

    path: str
    title: str
    verdict: str  # valid, invalid, unknown, unfinished, not checked, corrupt
    why: str
    started: str = ""
    seed: str = ""
    delivered: str = ""
    report: str = ""
    compared: dict[str, str] = field(default_factory=dict)


def write_index(store: Path, output: Path | None = None) -> tuple[Path, list[IndexedRun]]:
    """Write the index into the store; or, with copies of all reports, somewhere else."""
    runs = list(indexed(store))
    where = output or store
    try:
        where.mkdir(parents=True, exist_ok=True)
        for run in runs if output else []:
            if run.report:
                (where / run.path).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(store / run.path / REPORT_FILE, where / run.path / REPORT_FILE)
    except OSError as error:
        raise store_failure(error, where / INDEX_FILE, "copying the reports") from error
    write_whole(where / INDEX_FILE, render_index(runs))
    return where / INDEX_FILE, runs


def render_index(runs: list[IndexedRun]) -> str:
    """The page."""
    counts = {name: sum(run.verdict == name for run in runs) for name in VERDICTS}
    counts["other"] = len(runs) - sum(counts.values())
    return environment({}).get_template("index.html.jinja").render(
        runs=runs,
        counts=counts,
        compared=Markup(json.dumps([_shown(run.compared) for run in runs]).replace("<", "\\u003c")),  # noqa: S704 - data
        **frame(["page.css", "index.css"], ["index.js"]),
    )  # fmt: skip


def indexed(store: Path) -> Iterator[IndexedRun]:
    """Every run, the newest first."""
    places = (path for path in store.glob("*/*") if path.is_dir() and not path.is_symlink())
    parts = (RUN_FILE, RESULTS_FILE, HISTORY, SEGMENTS)
    found = [path for path in places if path.parent.name != SUITES and any((path / part).exists() for part in parts)]
    for path in sorted(found, key=lambda path: (path.name, path.parent.name), reverse=True):
        yield _indexed(Run(path), str(path.relative_to(store)))


def _indexed(run: Run, name: str) -> IndexedRun:
    report = f"{quote(name)}/{REPORT_FILE}" if (run.path / REPORT_FILE).is_file() else ""
    plain = IndexedRun(name, run.path.parent.name, "corrupt", "", _time_of(run.path.name), report=report)
    try:
        facts, results = run.facts, run.results
        if results is None and (run.path / RESULTS_FILE).exists():
            return replace(plain, why=f"{RESULTS_FILE} cannot be read")
        return _read(facts, results, plain)
    except TidegaugeError as error:
        return replace(plain, why=str(error))
    except (KeyError, TypeError, AttributeError, ValueError):
        return replace(plain, why=f"{RUN_FILE} or {RESULTS_FILE} holds something else")


def _read(facts: Facts, results: Facts | None, plain: IndexedRun) -> IndexedRun:
    told = replace(
        plain,
        title=str(facts.get("title") or plain.title),
        started=_time_of(str(facts.get("started_at") or plain.started)),
        seed="" if facts.get("seed") is None else str(facts["seed"]),
    )
    if results is None:
        state = str(facts.get("state", ""))
        if state == FINISHED:
            return replace(told, verdict="not checked", why="never checked")
        return replace(told, verdict="unfinished", why=f"ended while it was {state or 'starting'}")
    figures = results["figures"]
    sent = figures["sent"] - figures["aborted"]
    delivered = f"{figures['distinct']:,} of {sent:,}" if sent else ""
    judged = replace(told, verdict=str(results["verdict"]), why=_why(results), delivered=delivered)
    return replace(judged, compared=_compared(facts, results, judged))


def _why(results: Facts) -> str:
    """The gravest cause, or what else explains the verdict."""
    causes = (results.get("diagnosis") or {}).get("causes") or []
    sentences = [cause["sentence"] for cause in causes] or [each["sentence"] for each in results.get("reasons", [])]
    if not sentences:
        return ""
    more = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
    return str(sentences[0])[:CAUSE_CHARACTERS] + more


def _compared(facts: Facts, results: Facts, run: IndexedRun) -> dict[str, str]:
    """What the page sets side by side."""
    figures, scenario, cluster = results["figures"], facts.get("scenario") or {}, facts.get("cluster") or {}
    rates = {f"{name.replace('_', ' ')}, per s": figures.get(name) for name in ("produce_rate", "consume_rate")}
    seen = {f"anomaly {each['anomaly']}": f"{each['found']:,}" for each in results.get("seen", [])[:ANOMALIES_SHOWN]}
    faults = dict.fromkeys(str(slot.get("fault", "")) for slot in facts.get("schedule") or [])
    pairs: dict[str, object] = {
        "run": run.path,
        "verdict": results["verdict"],
        "cause": run.why or "none",
        "started": run.started,
        "seed": run.seed,
        "messages delivered": run.delivered,
        "sends without an answer": f"{figures['info']:,}",
        **{name: f"{rate:,.0f}" for name, rate in rates.items() if rate},
        "events": f"{results.get('events', 0):,}",
        **seen,
        "product": f"{cluster.get('product', '')} {cluster.get('version') or ''}".strip(),
        "nodes": len(cluster.get("nodes", [])) or "",
        "faults": ", ".join(faults) or "none",
        "workload": scenario.get("workload", ""),
        **{f"setting {name}": value for name, value in (scenario.get("settings") or {}).items()},
        **{f"version {name}": value for name, value in (facts.get("versions") or {}).items()},
    }
    return {name: str(value) for name, value in pairs.items() if value not in {None, ""}}


def _shown(compared: Mapping[str, str]) -> dict[str, str]:
    return {name: str(visible(value)) for name, value in compared.items()}


def _time_of(text: str) -> str:
    """2026-11-15T12-30-05 and 2026-11-15T12:30:05+0000, as people write them."""
    day, separator, time = text.removesuffix("+0000").partition("T")
    return f"{day} {time.replace('-', ':')}" if separator else text
