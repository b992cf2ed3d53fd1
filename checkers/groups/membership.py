"""Which processes belong to which group, and the rows whose offsets mean something to groups."""

from __future__ import annotations

import polars as pl

from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import F

PLACE = ("topic", "partition")


def members_of_groups(piece: Piece) -> pl.DataFrame:
    """The groups that each process subscribed to in this piece."""
    subscribed = piece.ops.filter(pl.col("f") == F.SUBSCRIBE, pl.col("name").is_not_null())
    return subscribed.select("process", pl.col("name").alias("group")).unique()


def readable(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Rows with a place, of topics whose offsets stay what they are."""
    placed = [pl.col(name).is_not_null() for name in (*PLACE, "offset")]
    return rows.filter(*placed, ~pl.col("topic").is_in(sorted(run.compacted)), run.deletions.untouched())
