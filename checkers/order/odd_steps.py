"""Odd steps: readers that were handed something else than the next offset, and what a piece says of them.

A step back, a skip of a known offset and a gap are odd. A piece carries its odd steps as far as they are few. Joints,
which lead from one piece to another, are resolved when all pieces are put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from checkers.core.arrays import GroupBy, ints, nullable
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import empty
from checkers.order.assignments import MOVES, OPS, assigns_of, unassigned
from checkers.order.rewinds import EXCHANGES, NO_REWINDS, OF_FETCH, rewinds
from checkers.shared.reader_steps import (
    LOG,
    NEXT,
    READER,
    KnownOffsets,
    columns,
    first_above,
    joints,
    key_of,
    spans_of,
    tangled_in,
)
from harness.history.schema import Kind

CARRIED = 100_000  # odd steps of a large history up to which pieces need not be judged by themselves
AT_LEAST = 100  # that any piece may carry
REWINDS = 100_000  # that all pieces carry, and each AT_LEAST
PLACE = ("topic", "partition")
GAP = (*LOG, "offset", "to")
FORWARD = pl.col("to") > pl.col("offset")
SKIPS = FORWARD & (pl.col("skipped") < pl.col("to")).fill_null(value=False)
GAPS = FORWARD & ~SKIPS & (pl.col("next_any") >= pl.col("to")).fill_null(value=True)
MISSING = pl.col("to") - pl.col("offset") - 1
NO_JOINTS = joints(spans_of(empty("records")))
NO_READERS = NO_JOINTS.select(READER)


@dataclass
class SpanSurvey:
    """What a piece says of steps that its partitions were cut between, and of how many there are."""

    between: int  # steps between two polls
    inside: int  # and inside of one, or of a transaction
    joints: pl.DataFrame  # odd steps from one span to the next
    tangled: pl.DataFrame  # readers and places whose spans overlap


@dataclass
class StepSurvey:
    """What a piece says of steps that leave its stretches, and of what is known there."""

    odd: pl.DataFrame  # as far as they are few
    left_out: bool  # whether there are more that go back or skip something
    missing: pl.DataFrame  # per place, if gaps were left out: at most so many offsets are missing
    ends: pl.DataFrame  # what comes after the last records of spans, unless it is the next offset
    firsts: dict[str, pl.DataFrame]  # known offsets: the first of each stretch
    unsent: pl.DataFrame  # per place known offsets that no ok send has
    transactions: pl.DataFrame  # per place how many, and sends without an offset


@dataclass
class ReaderSurvey:
    """What a piece says of readers."""

    spans: SpanSurvey
    steps: StepSurvey | None  # none if there is no odd one
    ops: pl.DataFrame
    rewinds: pl.DataFrame


def look_at_readers(piece: Piece, run: RunContext) -> ReaderSurvey:
    """What a piece says of its readers."""
    ops = piece.ops.filter(pl.col("f").is_in([int(f) for f in MOVES])).select(OPS)
    return ReaderSurvey(
        spans=_look_at_spans(piece, assigns_of(ops), run) if run.many else _whole(piece),
        steps=_look_at_steps(piece, run) if run.many or len(piece.steps) else None,
        ops=ops,
        rewinds=_rewinds(piece, ops, run) if run.many or len(piece.steps) else NO_REWINDS,
    )


def _whole(piece: Piece) -> SpanSurvey:
    """Of a history that was not cut."""
    between, inside = counted_steps(piece.spans, NO_JOINTS)
    return SpanSurvey(between, inside, joints=NO_JOINTS, tangled=NO_READERS)


def _look_at_spans(piece: Piece, assigns: pl.DataFrame, run: RunContext) -> SpanSurvey:
    tangled = tangled_in(piece.spans)
    spans = without(piece.spans, tangled, READER)
    links = joints(spans)
    return SpanSurvey(*counted_steps(spans, links), joints=unassigned(odd_joints(links, run), assigns), tangled=tangled)


def _look_at_steps(piece: Piece, run: RunContext) -> StepSurvey:
    steps = not_compacted(piece.steps, run)
    known = KnownOffsets(piece.sends, piece.records, run)
    steps = _with_skipped(known.with_next(steps), run)
    odd, left_out, missing = _carried(steps.drop_nulls("to"), piece, run)
    return StepSurvey(
        odd=odd,
        left_out=left_out,
        missing=missing,
        ends=_ends(steps),
        firsts=known.firsts(),
        unsent=known.unsent(),
        transactions=piece.shares.group_by(PLACE).agg(pl.col("txn").count().cast(pl.Int64), pl.col("unplaced").sum()),
    )


def _rewinds(piece: Piece, ops: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    most = _share_of(REWINDS, piece.length("exchanges"), Kind.EXCHANGE, run)
    return rewinds(piece.in_turn("exchanges", EXCHANGES, OF_FETCH, "invoked"), ops, most)


def without(rows: pl.DataFrame, others: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows whose keys are not among the others."""
    return rows if others.is_empty() else rows.join(others, on=list(keys), how="anti", maintain_order="left")


def counted_steps(spans: pl.DataFrame, links: pl.DataFrame) -> tuple[int, int]:
    """Steps between two polls, and others."""
    within = int(links["within"].sum())
    return int(spans["between"].sum()) + len(links) - within, int(spans["inside"].sum()) + within


def not_compacted(steps: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Compaction may leave out anything."""
    if not run.compacted:
        return steps
    return steps.filter(~(by(run.compacted, "topic") & FORWARD.fill_null(value=False)))


def odd_joints(links: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Joints that lead anywhere but to the next offset."""
    return not_compacted(links.filter(pl.col("to") != pl.col("offset") + 1), run)


def _with_skipped(steps: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """With the lowest offset that the reader of a step has to be handed next."""
    every, committed = (pl.col(name) for name in NEXT)
    return steps.with_columns(skipped=pl.when(by(run.sees_aborted)).then(every).otherwise(committed))


def _carried(steps: pl.DataFrame, piece: Piece, run: RunContext) -> tuple[pl.DataFrame, bool, pl.DataFrame]:
    """Odd steps that travel, whether any that is no gap does not, and of gaps that do not how much is missing."""
    unsure = FORWARD & pl.col("skipped").is_null() if run.many else pl.lit(value=False)
    odd, gaps = steps.filter(~FORWARD | SKIPS | unsure), steps.filter(GAPS & ~unsure)
    most = share(CARRIED, piece, run)
    if len(odd) > most:
        return steps.clear(), True, missing_in(steps.clear())
    if len(odd) + len(gaps) > most:
        return odd, False, missing_in(once(gaps))
    return pl.concat([odd, gaps]), False, missing_in(steps.clear())


def share(most: int, piece: Piece, run: RunContext) -> int:
    """Of what all pieces may carry, that of this one."""
    return _share_of(most, len(piece.records), Kind.RECORD, run)


def _share_of(most: int, rows: int, kind: Kind, run: RunContext) -> int:
    return AT_LEAST + most * rows // max(rows, run.rows.get(kind, 0), 1) if run.many else rows


def missing_in(steps: pl.DataFrame) -> pl.DataFrame:
    """Per place how many offsets are missing in gaps."""
    return steps.filter(GAPS).group_by(PLACE).agg(missing=MISSING.cast(pl.Float64).sum())


def once(gaps: pl.DataFrame) -> pl.DataFrame:
    """One step of each gap: that whose end has the lowest event."""
    groups, reached = GroupBy(key_of(*columns(gaps, GAP))), ints(gaps, "to_event")
    return gaps.filter(pl.Series(reached == groups.min(reached)[groups.number()], dtype=pl.Boolean))


def _ends(steps: pl.DataFrame) -> pl.DataFrame:
    """What comes after the last records of spans, unless it is the next offset."""
    usual = pl.all_horizontal(pl.col(name) == pl.col("offset") + 1 for name in NEXT).fill_null(value=False)
    return steps.filter(pl.col("to").is_null() & ~usual).select(*READER, "event", *NEXT)


def completed(links: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Joints with what comes after the record that they leave."""
    keys = [*READER, "event"]
    rows = links.join(ends.with_columns(unusual=pl.lit(value=True)), on=keys, how="left", maintain_order="left")
    after = pl.col("offset") + 1
    return rows.with_columns(
        pl.when(pl.col("unusual").is_null()).then(after).otherwise(pl.col(name)).alias(name) for name in NEXT
    ).drop("unusual")


def resolved(steps: pl.DataFrame, firsts: Mapping[str, pl.DataFrame], run: RunContext) -> pl.DataFrame:
    """Where a stretch has nothing above an offset, later stretches may."""
    asked = columns(steps, (*LOG, "offset"))
    for name in NEXT:
        if steps[name].null_count():
            later = nullable(first_above(columns(firsts[name], (*LOG, "offset")), asked))
            steps = steps.with_columns(pl.col(name).fill_null(later))
    return _with_skipped(steps, run)
