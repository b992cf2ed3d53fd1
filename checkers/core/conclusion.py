"""What a check says once all steps are made: findings, summaries, what the report draws. Made where the steps are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from checkers.core.engine import CheckState, failure
from checkers.core.piece import Piece
from checkers.core.results import Anomaly, Finding, as_finding
from checkers.core.run import RunContext
from checkers.summaries import context, drawn_series
from checkers.summaries.finding_queries import ContextRequest, context_request

ContextLookup = Callable[[ContextRequest], Sequence[Any]]
Drawn = tuple[dict[str, Any] | None, str]  # what the report draws, or why it draws nothing


def answer_of(state: CheckState, piece: Piece) -> dict[str, Any]:
    """What a check says, of a history that is one piece."""
    answer = concluded(state)
    drawn, undrawn = drawing(answer, state.run, lambda chosen: [context.find_context(piece, chosen, state.run)])()
    return {**answer, "drawn": drawn, "undrawn": undrawn}


def drawing(answer: dict[str, Any], run: RunContext, look: ContextLookup) -> Callable[[], Drawn]:
    """How to make what the report draws; that it cannot be made changes nothing else."""
    tables, why, anomalies = answer.pop("series"), answer["failures"].pop("series", ""), answer["anomalies"]
    findings = [finding for anomaly in anomalies.values() for finding in anomaly.findings]

    def draw() -> Drawn:
        if tables is None:
            return None, why
        try:
            chosen = context_request(anomalies, run, drawn_series.witnesses(tables, findings, run))
            drawn = {**drawn_series.drawn(tables, findings, run), **context.merge_context(look(chosen), chosen, run)}
        except Exception as error:  # noqa: BLE001 - the verdict has to be there whatever this meets
            return None, failure("series", str(error) or type(error).__name__)
        return drawn, ""

    return draw


def concluded(state: CheckState) -> dict[str, Any]:
    """What families have to say, and the tables of what the report draws."""
    outcomes = state.conclude()
    anomalies: dict[str, Anomaly] = {}
    for family in state.families:
        for name, about in family.anomalies.items():
            anomaly = anomalies.setdefault(name, Anomaly(name, about))
            if (outcome := outcomes.get(family.name)) is not None:
                anomaly.looked_at = max(anomaly.looked_at, outcome.looked_at.get(name, 0))
    for outcome in outcomes.values():
        for (name, _, _), rows in outcome.findings.rows.items():
            anomalies[name].findings += [as_finding(row, state.run.topics) for row in rows]
        for (name, _, _), count in outcome.findings.counts.items():
            anomalies[name].found += count
    for anomaly in anomalies.values():
        anomaly.findings.sort(key=_order)
    summaries = {name: outcome.summary for name, outcome in outcomes.items() if outcome.summary is not None}
    return {
        "anomalies": anomalies,
        "series": summaries.pop("series", None),
        "summaries": summaries,
        "cut": [outcome.cut for outcome in outcomes.values() if outcome.cut],
        "failures": dict(state.failures),
    }


def _order(finding: Finding) -> tuple[Any, ...]:
    """In time, then by place."""
    return (finding.time_ns or 0, finding.place, finding.values, finding.tags, finding.events)
