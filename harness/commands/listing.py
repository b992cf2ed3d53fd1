"""What `tidegauge list` can list, as plain data. Each table imports what it needs: runs are listed without the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.commands.list import What
from harness.foundation.errors import TidegaugeError
from harness.history.store import RESULTS_FILE, Run, runs

Rows = list[dict[str, Any]]


def listing(what: What, store: Path) -> Rows:
    """The requested table."""
    tables: dict[str, Callable[[], Rows]] = {
        "runs": lambda: _runs(store),
        "workloads": _workloads,
        "nemeses": _nemeses,
        "checkers": _checkers,
        "scenarios": _scenarios,
        "broken": _broken,
    }
    return tables[what]()


def _runs(store: Path) -> Rows:
    rows = []
    for run in runs(store):
        try:
            facts, results = run.facts, run.results
        except TidegaugeError as error:
            rows.append({"run": str(run.path.relative_to(store)), "verdict": "", "state": str(error), "seed": None})
            continue
        rows.append(
            {
                "run": str(run.path.relative_to(store)),
                "verdict": results["verdict"] if results else _without_results(run),
                "state": facts.get("state", ""),
                "seed": facts.get("seed"),
            }
        )
    return rows


def _without_results(run: Run) -> str:
    """Why there is no verdict."""
    return "damaged results.json" if (run.path / RESULTS_FILE).exists() else "not checked"


def _workloads() -> Rows:
    from workloads import WORKLOADS

    rows = []
    for name, workload in WORKLOADS.items():
        settings = {
            (field.alias or key): {"default": field.default, "about": field.description or ""}
            for key, field in workload.model.model_fields.items()
        }
        rows.append({"name": name, "about": workload.about, "settings": settings})
    return rows


def _checkers() -> Rows:
    from checkers.core.families import FAMILIES
    from checkers.core.selection import written

    return [
        {"finds": anomaly, "family": written(family.name), "means": about}
        for family in FAMILIES
        for anomaly, about in family.anomalies.items()
    ]


def _nemeses() -> Rows:
    from nemesis import FAMILIES

    return [
        {
            "family": family,
            "name": fault.name,
            "about": fault.description,
            "targets": list(fault.roles),
            "options": dict(fault.options),
            "needs": sorted(fault.needs),
            "longest_s": fault.longest_s,
            "random": fault.tame,
        }
        for family, faults in FAMILIES.items()
        for fault in faults
    ]


def _scenarios() -> Rows:
    """The scenarios that come with Tidegauge: `tidegauge run NAME`."""
    from harness.runs.scenario import SHIPPED, load

    rows = []
    for path in sorted(SHIPPED.glob("*.toml")):
        scenario = load(path, {})
        about = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        rows.append({"name": path.stem, "about": about, "workload": scenario.workload, "time_s": scenario.time})
    return rows


def _broken() -> Rows:
    """The bugs that taps can play: `tidegauge run --broken NAME`."""
    from harness.tap.broken import BROKEN

    return [
        {"name": f"{name}[:{kind.argument}]" if kind.argument else name, "plays": (kind.__doc__ or "").splitlines()[0]}
        for name, kind in BROKEN.items()
    ]
