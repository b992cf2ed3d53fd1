"""An investigation for people and scripts: on the terminal, as JSON, as one HTML file."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.experiments.investigate.conclusion import Conclusion, rates
from harness.experiments.investigate.experiments import BASELINE
from harness.experiments.investigate.search import Investigation
from harness.report.comparison.html import bullets, page, paragraph, table
from harness.report.terminal.tables import line

COLOURS = {"gone": "green", "less": "green", "more": "red", "undecided": "yellow"}
NOT_TRIED = "not tried"


def rows(investigation: Investigation, conclusion: Conclusion) -> list[list[str]]:
    """The decision tree as a table: a header, the baseline, each question with its answer."""
    header = ["", "change", "runs", "arrived", "effect", "question"]
    runs = investigation.of(BASELINE)
    baseline = [BASELINE, "-", str(len(runs)), rates(runs), "-", "what happens as it is?"]
    steps = [
        [step.experiment, step.change or "-", str(step.runs), step.arrived, step.effect or NOT_TRIED, step.question]
        for step in conclusion.steps
    ]
    return [header, baseline, *steps]


def shown(console: Console, investigation: Investigation, conclusion: Conclusion) -> None:
    """The table, then what it comes to."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    head, *body = rows(investigation, conclusion)
    for title in head:
        grid.add_column(title, overflow="fold")
    for row in body:
        grid.add_row(*(Text(cell, COLOURS.get(cell, "")) for cell in row))
    console.print(grid, highlight=False)
    line(console)
    line(console, (f"  {conclusion.sentence}", "bold"))
    if conclusion.cause:
        cause = conclusion.cause
        line(console, ("  cause     ", "bold red"), f"{cause.sentence} ({cause.confidence})")
        for text in cause.because:
            line(console, f"            {text}")
        for number, text in enumerate(cause.remedies):
            line(console, f"  {'remedy' if not number else '':<10}{text}")
    elif conclusion.symptom:
        line(console, ("  cause     ", "bold yellow"), "not found")
    for title, texts in (("also", conclusion.others), ("excluded", conclusion.excluded), ("open", conclusion.open)):
        for number, text in enumerate(texts):
            line(console, f"  {title if not number else '':<10}{text}")
    for text in conclusion.notes:
        line(console, (f"  {text}", "dim"))


def as_json(investigation: Investigation, conclusion: Conclusion) -> dict[str, Any]:
    """For scripts."""
    return {
        "scenario": investigation.scenario.title,
        **conclusion.as_json(),
        "symptoms": investigation.symptoms,
        "runs": {
            name: [
                {
                    "name": run.sample.name,
                    "success_rate": run.counted.rate if run.counted else None,
                    "illegal": sorted(each for each, seen in (run.sample.anomalies or {}).items() if seen.illegal),
                    "causes": [str(cause["name"]) for cause in run.causes],
                }
                for run in runs
            ]
            for name, runs in investigation.ran.items()
        },
    }


def investigation_page(investigation: Investigation, conclusion: Conclusion) -> str:
    """The report."""
    body = [paragraph(conclusion.sentence, "good" if not conclusion.symptom else "bad")]
    if conclusion.cause:
        cause = conclusion.cause
        body += ["<h2>Cause</h2>", paragraph(f"{cause.sentence} ({cause.confidence})"), bullets(cause.because, "dim")]
        body += ["<h2>What to do</h2>", bullets(cause.remedies)] if cause.remedies else []
    elif conclusion.symptom:
        body += ["<h2>Cause</h2>", paragraph("not found", "open")]
    body.append(table(rows(investigation, conclusion), "What was tried"))
    for title, texts in (
        ("Other symptoms", conclusion.others),
        ("Excluded", conclusion.excluded),
        ("Open", conclusion.open),
        ("To keep in mind", conclusion.notes),
    ):
        body += [f"<h2>{title}</h2>", bullets(texts)] if texts else []
    names = [run.sample.name for runs in investigation.ran.values() for run in runs]
    body += ["<h2>Runs</h2>", bullets(names, "dim")] if names else []
    return page(f"Investigation of {investigation.scenario.title}", body)
