"""gap: offsets that a reader passed, that nobody knows of, and that transactions do not explain."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from checkers.core.findings import Findings, make_findings
from checkers.core.run import RunContext
from checkers.order.assignments import OF_STEP, with_tags
from checkers.order.gathered_steps import FROM_TO, JudgedSteps, OddSteps, shown, unexplained_places
from checkers.order.odd_steps import MISSING, PLACE, missing_in, once, without


def gap_findings(loose: pl.DataFrame, judged: Sequence[JudgedSteps], gathered: OddSteps, run: RunContext) -> Findings:
    """Gaps in places where nothing explains them."""
    gaps = once(pl.concat([loose, *(each.gaps for each in judged)], how="diagonal"))
    counted = [each.counts.select(*PLACE, "missing") for each in judged]
    left = without(unexplained_places([missing_in(gaps), *counted], gathered.places), gathered.explained, PLACE)
    result = _as_gaps(with_tags(gaps.join(left, on=PLACE, maintain_order="left"), gathered.moves), run)
    if judged:
        result.add(_counted_gaps(judged, left, run), run.limit)
    return result


def _counted_gaps(judged: Sequence[JudgedSteps], left: pl.DataFrame, run: RunContext) -> Findings:
    """Those of which pieces kept the first and the worst, and counted the others."""
    kept = _as_gaps(pl.concat([each.kept for each in judged]).join(left, on=PLACE, maintain_order="left"), run)
    tags = [*OF_STEP, "transactions"]
    counts = (
        pl.concat([each.counts for each in judged]).join(left, on=PLACE).group_by(*tags, "damaged").agg(pl.sum("len"))
    )
    for row in counts.to_dicts() if run.wants("gap") else ():
        kept.counts["gap", tuple(row[tag] for tag in tags if row[tag]), row["damaged"]] = row["len"]
    return kept


def _as_gaps(rows: pl.DataFrame, run: RunContext) -> Findings:
    return make_findings(
        "gap",
        shown(rows.with_columns(at=pl.col("offset") + 1, missing=MISSING)),
        run,
        offset="at",
        processes=["process"],
        time="time",
        until="to_time",
        events=("event", "to_event"),
        tags=(*OF_STEP, "transactions"),
        severity="missing",
        facts=(*FROM_TO, "missing"),
    )
