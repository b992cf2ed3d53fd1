"""Assignments: which partitions a reader was given, and how that explains where its next record lies.

A step of a reader from one record to the next counts only if the partition was not assigned anew or revoked in between.
What else may explain it becomes a tag: a rebalance, or a client that asked for earlier offsets by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from checkers.core.arrays import Lanes, ints
from checkers.core.deletions import UNSURE
from checkers.core.run import RunContext, by
from checkers.order.rewinds import asked_again, in_order
from checkers.shared.reader_steps import READER, columns, last_upto
from harness.history.schema import F

OPS = ("f", "process", "topic", "partition", "offset", "event", "invoked", "time")
MOVES = (F.ASSIGN, F.SUBSCRIBE, F.REVOKE, F.LEAVE, F.CRASH)
OF_STEP = ("gone", "rebalance")  # tags
OF_STEP_BACK = (*OF_STEP, "again")


@dataclass
class Assignments:
    """How partitions were given to readers and taken from them, and where their clients went back by themselves."""

    assigns: pl.DataFrame  # by reader and event
    moves: pl.DataFrame  # by process and `invoked`; `until`: the latest end of those so far
    members: list[int]  # of groups
    assigned: list[int]  # processes that were ever given a partition
    rewinds: pl.DataFrame  # in the order of `checkers.order.rewinds.in_order`


def assigns_of(ops: pl.DataFrame) -> pl.DataFrame:
    """Each partition that a reader was given or lost, by reader and event."""
    moved = pl.col("f").is_in([int(F.ASSIGN), int(F.REVOKE)])
    given = moved & pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
    return ops.filter(given).select(*READER, "event").sort(*READER, "event")


def assignments_of(ops: pl.DataFrame, went_back: Sequence[pl.DataFrame], run: RunContext) -> Assignments:
    """All of it, of all pieces."""
    is_assign = pl.col("f") == F.ASSIGN
    moves = ops.filter(~is_assign | pl.col("offset").is_null()).select("process", "invoked", "time")
    moves = moves.sort("process", "invoked")
    until = Lanes(ints(moves, "process")).upto(ints(moves, "time"))
    subscribed = ops.filter(pl.col("f") == F.SUBSCRIBE)["process"].unique().to_list()
    return Assignments(
        assigns=assigns_of(ops),
        moves=moves.with_columns(until=pl.Series(until)),
        members=sorted({*run.members, *subscribed}),
        assigned=ops.filter(is_assign)["process"].unique().to_list(),
        rewinds=in_order(went_back),
    )


def unassigned(steps: pl.DataFrame, assigns: pl.DataFrame) -> pl.DataFrame:
    """Steps whose reader was not given the partition in between, and did not lose it."""
    if steps.is_empty() or assigns.is_empty():
        return steps
    table = columns(assigns, (*READER, "event"))
    last = last_upto(table, columns(steps, (*READER, "to_event")), table[-1])
    return steps.filter(pl.Series(last <= ints(steps, "event")))


def with_tags(steps: pl.DataFrame, moves: Assignments) -> pl.DataFrame:
    """Steps with what may explain them: a deleted topic, a rebalance."""
    table = columns(moves.moves, ("process", "invoked"))
    until = last_upto(table, columns(steps, ("process", "to_time")), ints(moves.moves, "until"))
    moved = pl.Series(until >= ints(steps, "invoked"), dtype=pl.Boolean)
    rebalance = by(moves.members) & (~by(moves.assigned) | moved)
    return steps.with_columns(
        gone=pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic")),
        rebalance=pl.when(rebalance).then(pl.lit("rebalance")),
    )


def with_rewinds(steps: pl.DataFrame, moves: Assignments) -> pl.DataFrame:
    """Steps back with whether their client asked again; `again` means nothing of others."""
    again = pl.Series(asked_again(steps, moves.rewinds), dtype=pl.Boolean)
    return steps.with_columns(again=pl.when(again).then(pl.lit("client asked again")))
