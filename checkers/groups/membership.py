"""Which processes belong to which group, and the rows whose offsets mean something to groups.

Groups with the same processes were handed the same: they are one *company*, which is looked at once, however many they
are. Only what is found is told of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import polars as pl

from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import F

PLACE = ("topic", "partition")
COMPANY = ("company", *PLACE)


def members_of_groups(piece: Piece) -> pl.DataFrame:
    """The groups that each process subscribed to in this piece."""
    subscribed = piece.ops.filter(pl.col("f") == F.SUBSCRIBE, pl.col("name").is_not_null())
    return subscribed.select("process", pl.col("name").alias("group")).unique()


def readable(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Rows with a place, of topics whose offsets stay what they are."""
    placed = [pl.col(name).is_not_null() for name in (*PLACE, "offset")]
    return rows.filter(*placed, ~pl.col("topic").is_in(sorted(run.compacted)), run.deletions.untouched())


def handed_at() -> pl.Expr:
    """The earliest moment at which a reader may have had a record: its poll was invoked then."""
    return pl.coalesce("invoked", "time")


@dataclass(frozen=True)
class Companies:
    """Groups by their processes."""

    groups: pl.DataFrame  # group and company
    processes: pl.DataFrame  # process and company

    @classmethod
    def of(cls, members: pl.DataFrame) -> Self:
        """From processes and their groups."""
        sets = members.group_by("group").agg(pl.col("process").unique().sort())
        # as texts, for lists are slow to compare
        told = sets.select("group", "process", text=pl.col("process").cast(pl.List(pl.String)).list.join(","))
        texts = told.unique("text").select("text", "process").with_row_index("company")
        groups = told.join(texts, on="text").select("group", pl.col("company").cast(pl.Int64))
        return cls(groups, texts.select(pl.col("company").cast(pl.Int64), "process").explode("process"))

    def of_each(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of companies as rows of their groups."""
        return rows.join(self.groups, on="company")
