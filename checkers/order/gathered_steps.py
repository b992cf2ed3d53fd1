"""The odd steps of all pieces, put together, and what each piece says of its own when it is judged by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from checkers.core.findings import WORST, Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.order.assignments import (
    OF_STEP,
    OF_STEP_BACK,
    Assignments,
    assignments_of,
    unassigned,
    with_rewinds,
    with_tags,
)
from checkers.order.odd_steps import (
    FORWARD,
    GAPS,
    MISSING,
    NO_JOINTS,
    NO_READERS,
    PLACE,
    SKIPS,
    ReaderSurvey,
    StepSurvey,
    completed,
    missing_in,
    not_compacted,
    once,
    resolved,
    share,
    without,
)
from checkers.shared.reader_steps import LOG, NEXT, READER, KnownOffsets, Reading

RUNS = 5_000_000  # of tangled readers, up to which they are put together
MARKERS_OF_A_TRANSACTION = 2
FROM_TO = ("from_offset", "to_offset")


@dataclass
class OddSteps:
    """Odd steps of all pieces, and what is needed to judge them."""

    steps: pl.DataFrame
    joints: pl.DataFrame
    tangled: pl.DataFrame
    firsts: dict[str, pl.DataFrame]
    places: pl.DataFrame  # per place: transactions, and how many offsets they may leave out
    explained: pl.DataFrame  # places whose gaps were left out because they are explained
    moves: Assignments
    again: bool  # whether that is not enough


@dataclass
class JudgedSteps:
    """What is wrong with the steps of a piece, and what can only be said when pieces are put together."""

    findings: Findings
    kept: pl.DataFrame  # of gaps: the first and the worst of each place
    counts: pl.DataFrame  # of gaps, per place and tags
    gaps: pl.DataFrame  # those that begin where a joint may begin: none of them is among the others
    runs: pl.DataFrame  # of tangled readers
    too_many_runs: bool


def gathered_steps(surveys: Sequence[ReaderSurvey], run: RunContext) -> OddSteps | None:
    """Nothing if nothing is odd."""
    looked_at = [each.steps for each in surveys if each.steps]
    links = pl.concat([NO_JOINTS, *(each.spans.joints for each in surveys)])
    tangled = pl.concat([NO_READERS, *(each.spans.tangled for each in surveys)])
    nothing = links.is_empty() and tangled.is_empty()
    if nothing and all(each.odd.is_empty() and each.missing.is_empty() and not each.left_out for each in looked_at):
        return None
    firsts = {name: pl.concat([each.firsts[name] for each in looked_at]).sort(*LOG, "offset") for name in NEXT}
    links = resolved(completed(links, pl.concat([each.ends for each in looked_at])), firsts, run)
    steps = resolved(without(pl.concat([each.odd for each in looked_at]), tangled, READER), firsts, run)
    places = _places(looked_at)
    left_out = pl.concat([each.missing for each in looked_at])
    unexplained = unexplained_places([left_out, missing_in(steps), missing_in(links)], places)
    in_doubt = left_out.join(unexplained, on=PLACE, how="semi")
    return OddSteps(
        steps=steps,
        joints=links,
        tangled=tangled,
        firsts=firsts,
        places=places,
        explained=without(left_out.select(PLACE).unique(), unexplained, PLACE),
        moves=assignments_of(pl.concat([each.ops for each in surveys]), [each.rewinds for each in surveys], run),
        again=any(each.left_out for each in looked_at) or len(tangled) > 0 or len(in_doubt) > 0,
    )


def _places(surveys: Sequence[StepSurvey]) -> pl.DataFrame:
    """What transactions explain."""
    sums = pl.concat([each.transactions for each in surveys]).group_by(PLACE).sum()
    unsent = pl.concat([each.unsent for each in surveys]).group_by(PLACE).sum()
    unread = (pl.col("unplaced") - pl.col("unsent").fill_null(0)).clip(lower_bound=0)
    return sums.join(unsent, on=PLACE, how="left").select(
        *PLACE, transactions=pl.col("txn"), may_miss=MARKERS_OF_A_TRANSACTION * pl.col("txn") + unread
    )


def unexplained_places(missing: Sequence[pl.DataFrame], places: pl.DataFrame) -> pl.DataFrame:
    """Places where transactions do not explain what is missing, and whether there are any (the tag `transactions`)."""
    transactions = pl.col("transactions").fill_null(0)
    explained = (transactions > 0) & (pl.col("missing") <= pl.col("may_miss"))
    rows = pl.concat(missing).group_by(PLACE).sum().join(places, on=PLACE, how="left")
    return rows.filter((pl.col("missing") > 0) & ~explained).select(
        *PLACE, transactions=pl.when(transactions > 0).then(pl.lit("transactions"))
    )


def judged_steps(piece: Piece, gathered: OddSteps, run: RunContext) -> JudgedSteps:
    """What is wrong with the steps of one piece, now that it is known what all pieces have."""
    known = KnownOffsets(piece.sends, piece.records, run)
    of_tangled = piece.records.join(gathered.tangled, on=READER, how="semi", maintain_order="left")
    runs = known.with_next(Reading(of_tangled, run).runs())
    steps = known.with_next(without(not_compacted(piece.steps, run), gathered.tangled, READER))
    ends = pl.concat([steps.filter(pl.col("to").is_null()).select(*LOG, "offset"), runs.select(*LOG, "offset")])
    steps = unassigned(resolved(steps.drop_nulls("to"), gathered.firsts, run), gathered.moves.assigns)
    gaps = once(steps.filter(GAPS))
    at_ends = gaps.join(ends, on=[*LOG, "offset"], how="semi", maintain_order="left")
    others = with_tags(without(gaps, ends, [*LOG, "offset"]), gathered.moves).with_columns(damaged=by(run.damaged))
    groups = [*PLACE, *OF_STEP, "damaged"]
    too_many = len(runs) > share(RUNS, piece, run)
    return JudgedSteps(
        findings=step_findings(steps, gathered.moves, run),
        kept=_first_and_worst(others, groups, run.limit),
        counts=others.group_by(groups).agg(pl.len(), missing=MISSING.cast(pl.Float64).sum()),
        gaps=at_ends,
        runs=runs.clear() if too_many else runs,
        too_many_runs=too_many,
    )


def _first_and_worst(gaps: pl.DataFrame, groups: Sequence[str], limit: int) -> pl.DataFrame:
    rank = pl.int_range(pl.len()).over(groups)
    first = gaps.sort("time", "offset").with_columns(first=rank)
    return (
        first.sort(MISSING, descending=True, maintain_order=True)
        .filter((pl.col("first") < limit) | (rank < WORST))
        .drop("first")
    )


def step_findings(steps: pl.DataFrame, moves: Assignments, run: RunContext) -> Findings:
    """Readers that went back, and those that skipped something."""
    rows = with_rewinds(with_tags(steps.filter(~FORWARD | SKIPS), moves), moves)
    rows = rows.with_columns(
        at=pl.when(FORWARD).then("skipped").otherwise("to"),
        severity=pl.when(FORWARD).then(MISSING).otherwise(-MISSING),
    )
    return merge_findings(
        (
            make_findings(
                f"{'int-' if within else ''}{'poll-skip' if forward else 'nonmonotonic-poll'}",
                shown(rows.filter((pl.col("within") == within) & (FORWARD if forward else ~FORWARD))),
                run,
                offset="at",
                processes=["process"],
                time="time",
                until="to_time",
                events=("event", "to_event"),
                tags=OF_STEP if forward else OF_STEP_BACK,
                severity="severity",
                facts=FROM_TO,
            )
            for within in (False, True)
            for forward in (False, True)
        ),
        run.limit,
    )


def shown(steps: pl.DataFrame) -> pl.DataFrame:
    """With the names that findings give to the ends of a step."""
    return steps.rename({"offset": "from_offset", "to": "to_offset"})
