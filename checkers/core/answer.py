"""What a check says once all steps are made: findings, summaries, what the report draws. Made where the steps are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers import around, series
from checkers.core.engine import Steps
from checkers.core.piece import Piece
from checkers.core.results import Anomaly, Finding, as_finding
from checkers.core.run import RunContext


def answer_of(steps: Steps, piece: Piece) -> dict[str, Any]:
    """What a check says, of a history that is one piece."""
    told = concluded(steps)
    chosen = around_wanted(told, steps.run)
    told["around"] = around.told([around.look(piece, chosen, steps.run)], chosen, steps.run)
    return told


def around_wanted(told: Mapping[str, Any], run: RunContext) -> Any:
    """What is shown around findings."""
    return around.wanted(told["anomalies"], run, told["witnesses"])


def concluded(steps: Steps) -> dict[str, Any]:
    """What families have to say: plain data, and what the report draws."""
    outcomes = steps.conclude()
    anomalies: dict[str, Anomaly] = {}
    for family in steps.families:
        for name, about in family.anomalies.items():
            anomaly = anomalies.setdefault(name, Anomaly(name, about))
            if (outcome := outcomes.get(family.name)) is not None:
                anomaly.looked_at = max(anomaly.looked_at, outcome.looked_at.get(name, 0))
    for outcome in outcomes.values():
        for (name, _, _), rows in outcome.findings.rows.items():
            anomalies[name].findings += [as_finding(row, steps.run.topics) for row in rows]
        for (name, _, _), count in outcome.findings.counts.items():
            anomalies[name].found += count
    for anomaly in anomalies.values():
        anomaly.findings.sort(key=_order)
    summaries = {name: outcome.summary for name, outcome in outcomes.items() if outcome.summary is not None}
    tables = summaries.pop("series", None)
    findings = [finding for anomaly in anomalies.values() for finding in anomaly.findings]
    return {
        "anomalies": anomalies,
        "summaries": summaries,
        "cut": [outcome.cut for outcome in outcomes.values() if outcome.cut],
        "failures": dict(steps.failures),
        "series": None if tables is None else series.drawn(tables, findings, steps.run),
        "witnesses": {} if tables is None else series.witnesses(tables, findings, steps.run),
    }


def _order(finding: Finding) -> tuple[Any, ...]:
    """In time, then by place."""
    return (finding.time_ns or 0, finding.place, finding.values, finding.tags, finding.events)
