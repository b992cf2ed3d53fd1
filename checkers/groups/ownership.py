"""Ownership: which member of a group has a partition, from when to when.

A group is a name. Events without a group, a topic or a partition are left out, and so are topics that the workload
deleted. A member is given a partition by an ASSIGN that is `ok` and has no offset. It has it for certain if what comes
next for that member and place (by time, then event) is a REVOKE and not another such ASSIGN: from the `time` of the one
to the `invoked` of the other.

double-ownership   of two such assignments of a group and place that follow each other (by time, then event), to
                   different members, the second one is given (`time`) before the first one is revoked (`invoked`), and
                   either the generation of the second lies between those of the first and of its revoke (of the first
                   alone if the revoke has none, or is not `ok`: whoever was thrown out may be back in a later one), or
                   one of the two assignments has no generation (null or below 0), and the revoke is `ok`: that member
                   let go in order, and was not thrown out unknowingly. Tagged `one generation` or `generation unknown`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl

from checkers.commits import GROUP, operations
from checkers.core.family import Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import F, Type

TWICE = "double-ownership"


class Owners(PiecewiseFamily):
    """Partitions that two members of a group had at once."""

    name = "owners"
    anomalies: ClassVar[Mapping[str, str]] = {TWICE: "two members of a group had one partition at the same time"}
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "time", "process", "invoked", "f", "type", "topic", "partition", "offset", "member",
                "generation", "name"),
    }  # fmt: skip

    def needs(self, run: RunContext) -> bool:
        """Whether groups assign partitions."""
        return run.does(F.ASSIGN) and run.does(F.SUBSCRIBE)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """All of a group and place is in one piece."""
        moved = _assignments(piece.ops, run).filter(pl.col("member_before") != pl.col("member"))
        return FamilyResult(_owned_twice(moved, run), {TWICE: len(moved)})


def _assignments(ops: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Each assignment, with the one before it and how that was revoked."""
    given = (pl.col("type") == Type.OK) & pl.col("offset").is_null()
    taken = (pl.col("f") == F.REVOKE) | given
    rows = operations(ops, run, F.ASSIGN, F.REVOKE).filter(pl.col("member").is_not_null(), taken)
    lanes = rows.select(GROUP).unique(maintain_order=True).with_row_index("lane")
    known = pl.when(pl.col("generation") >= 0).then("generation")
    ordered = rows.with_columns(generation=known).join(lanes, on=GROUP).sort("lane", "member", "time", "event")
    after = _beside(("lane", "member"), -1, "then_{}", ("f", "type", "invoked", "event", "generation"))
    assigned = ordered.with_columns(after).filter(pl.col("f") == F.ASSIGN).sort("lane", "time", "event")
    then = ("then_f", "then_type", "then_invoked", "then_event", "then_generation")
    return assigned.with_columns(_beside(("lane",), 1, "{}_before", ("member", "time", "event", "generation", *then)))


def _beside(keys: Sequence[str], by: int, name: str, columns: Sequence[str]) -> list[pl.Expr]:
    """What the row before (1) or the next one (-1) has; null if it is of other keys."""
    same = pl.all_horizontal(pl.col(key) == pl.col(key).shift(by) for key in keys)
    return [pl.when(same).then(pl.col(column).shift(by)).alias(name.format(column)) for column in columns]


def _owned_twice(moved: pl.DataFrame, run: RunContext) -> Findings:
    let_go = (pl.col("then_f_before") == F.REVOKE) & (pl.col("then_invoked_before") > pl.col("time"))
    in_order = pl.col("then_type_before") == Type.OK
    first = pl.col("generation_before")
    last = pl.coalesce(pl.when(in_order).then("then_generation_before"), first)
    unknown = (pl.col("generation").is_null() | first.is_null()) & in_order
    one = pl.col("generation").is_between(first, last).fill_null(value=False)
    twice = moved.filter(let_go, one | unknown).with_columns(
        tag=pl.when(unknown).then(pl.lit("generation unknown")).otherwise(pl.lit("one generation")),
        overlap_ns=pl.col("then_invoked_before") - pl.col("time"),
    )
    return make_findings(
        TWICE, twice, run, time="time_before", until="time", events=("event_before", "then_event_before", "event"),
        tags=("tag",), severity="overlap_ns",
        facts=("group", "member_before", "generation_before", "member", "generation", "overlap_ns"),
    )  # fmt: skip


FAMILIES: tuple[Family, ...] = (Owners(),)
