"""What `tidegauge suite` prints: the cases, each as it ends, and the table at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.report.terminal.tables import line
from harness.suite.ci_output import counted, found, why
from harness.suite.feasibility import PlannedCase
from harness.suite.outcome import CaseOutcome, Status
from harness.suite.state import State

STYLES: dict[Status, tuple[str, str]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "trouble": ("!", "bold yellow"),
    "unknown": ("?", "yellow"),
    "skipped": ("-", "dim"),
    "pending": (" ", "dim"),
}
TITLES = ("case", "expected", "found", "time", "cause")


def cases(console: Console, planned: Sequence[PlannedCase]) -> None:
    """What would be run, in which order."""
    width = max(len(each.case.name) for each in planned)
    for each in planned:
        tries = f" ×{each.case.repeat}" if each.case.repeat > 1 else ""
        told = f"skipped: {each.skipped}" if each.skipped else f"{each.cluster.kind} · {each.case.expect}{tries}"
        line(console, f"  {each.case.name:<{width}}   {told}")
    clusters = len({each.cluster for each in planned if not each.skipped})
    line(console, f"{_counted(len(planned), 'case')}, {_counted(clusters, 'kind')} of cluster")


def case_as_json(planned: PlannedCase) -> dict[str, Any]:
    """A case for scripts."""
    case = planned.case
    return {
        "name": case.name,
        "expected": str(case.expect),
        "repeat": case.repeat,
        "cluster": planned.cluster.kind,
        "needs": sorted(planned.needs),
        "skipped": planned.skipped,
    }


def headline(console: Console, number: int, of: int, name: str, *, trying: str) -> None:
    """What is about to be run."""
    line(console, "")
    line(console, (f"{number}/{of}  {name}", "bold"), f"  {trying}" if trying else "")


def ended(console: Console, outcome: CaseOutcome) -> None:
    """How a case ended, or one of its tries."""
    if outcome.status == "pending":
        one = outcome.tries[-1]
        line(console, f"  {outcome.name}  try {one.number}: {one.verdict or one.trouble}")
        return
    sign, style = STYLES[outcome.status]
    told = "" if outcome.status == "passed" else f": {why(outcome)}"
    line(console, (f"{sign} ", style), f"{outcome.name}  {found(outcome)} after {outcome.took_s:.0f} s{told}")


def table(console: Console, state: State, directory: Path) -> None:
    """All cases, a line each; of those that did not pass also why, and where the report is: a path is never cut."""
    rows = [_row(each) for each in state.outcomes]
    widths = [max(len(row[at]) for row in [TITLES, *rows]) for at in range(len(TITLES))]
    titles = "  ".join(f"{title:<{width}}" for title, width in zip(TITLES, widths, strict=True))
    line(console, "")
    line(console, (f"   {titles.rstrip()}", "dim"))
    for each, row in zip(state.outcomes, rows, strict=True):
        sign, style = STYLES[each.status]
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        line(console, (f" {sign} ", style), cells.rstrip())
        if each.status not in {"passed", "pending"}:
            line(console, f"      {why(each)}")
            if each.telling and (path := each.telling.report or each.telling.run):
                line(console, f"      {_short(path)}")
    line(console, "")
    line(console, (counted(state), "bold"), f" · seed {state.seed}{' · interrupted' if state.interrupted else ''}")
    line(console, f"  {'suite':<10}{_short(str(directory))}")


def _row(outcome: CaseOutcome) -> tuple[str, ...]:
    one = outcome.telling
    return (
        outcome.name,
        outcome.expected,
        " · ".join(filter(None, (found(outcome), outcome.rate))),
        f"{outcome.took_s:.0f} s" if outcome.tries else "",
        one.cause if one else "",
    )


def _short(path: str) -> str:
    """Relative to here, where that is shorter."""
    return min(path, os.path.relpath(path), key=len) if path else ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
