"""How far partitions were read, and what groups committed in transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints, ints
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from harness.history.schema import F, Type

PLACE = ("topic", "partition")


@dataclass(frozen=True)
class PartitionTable:
    """One entry for each partition, in order; NONE where there is nothing."""

    place: Ints
    reach: Ints
    final: Ints  # when the last ok final read was invoked
    committed: Ints  # of its group, if it is transformed
    answer: Ints
    asked: Ints

    def read(self, place: Ints) -> tuple[Ints, Ints]:
        """Of partitions by their numbers: the reach, and when they were last read to their end."""
        row, here = self._rows(place)
        return np.where(here, self.reach[row], NONE), np.where(here, self.final[row], NONE)

    def transformed(self, place: Ints) -> Bools:
        """Whether these are."""
        row, here = self._rows(place)
        transformed: Bools = here & (self.committed[row] != NONE)
        return transformed

    def groups(self, place: Ints) -> dict[str, Ints]:
        """Of those that are: what was committed, the answer, and when it was asked for."""
        row, _ = self._rows(place)
        return {name: getattr(self, name)[row] for name in ("committed", "answer", "asked")}

    def _rows(self, place: Ints) -> tuple[Ints, Bools]:
        row = np.minimum(np.searchsorted(self.place, place), len(self.place) - 1)
        return row, self.place[row] == place


NOWHERE = PartitionTable(*(np.full(1, NONE) for _ in range(6)))


def partition_table(reached: Sequence[pl.DataFrame], groups: Sequence[pl.DataFrame]) -> PartitionTable:
    """Put together from all pieces."""
    of_reach = pl.concat(reached).group_by(PLACE).agg(pl.col("reach", "final").max())
    both = of_reach.join(pl.concat(groups), on=PLACE, how="full", coalesce=True).drop_nulls(PLACE)
    place = both.select(place=_packed())["place"]
    ordered = both.with_columns(place).sort("place")
    return PartitionTable(*(
        np.concatenate([[NONE], ints(ordered, name)])
        for name in ("place", "reach", "final", "committed", "answer", "asked")
    ))  # fmt: skip


def _packed() -> pl.Expr:
    """Topic and partition as one number."""
    return pl.col("topic").cast(pl.Int64) * (1 << 32) + pl.col("partition").cast(pl.Int64)


def reached_offsets(piece: Piece, run: RunContext) -> pl.DataFrame:
    """How far this piece was read, by partition."""
    counted = run.deletions.untouched() & ~by(run.sees_aborted)
    records = piece.records.filter(counted & ~by(run.members)).group_by(PLACE).agg(reach=pl.col("offset").max())
    finals = piece.ops.filter((pl.col("f") == F.FINAL) & (pl.col("type") == Type.OK) & counted)
    return pl.concat([
        records.select(*PLACE, "reach", final=pl.lit(None, pl.Int64)),
        finals.select(*PLACE, reach=pl.col("end") - 1, final="invoked"),
    ])  # fmt: skip


def committed_by_groups(piece: Piece, run: RunContext) -> pl.DataFrame:
    """The transformed partitions of this piece: where their groups are."""
    commits, asks = (pl.col("f") == F.COMMIT) & pl.col("txn").is_not_null(), pl.col("f") == F.COMMITTED
    rows = piece.ops.filter((pl.col("type") == Type.OK) & (commits | asks)).with_columns(commits=commits)
    believed = rows.filter(~pl.col("commits") & ~by(run.sees_aborted) & (pl.col("invoked") > _healed_ns(run)))
    last = believed.sort("invoked", "offset", nulls_last=False).group_by(PLACE)
    answers = last.agg(asked=pl.col("invoked").last(), answer=pl.col("offset").last())
    groups = rows.group_by(PLACE).agg(
        names=pl.col("name").fill_null("").n_unique(), committed=pl.col("offset").filter("commits").max()
    )
    mine = groups.filter((pl.col("names") == 1) & pl.col("committed").is_not_null())
    return mine.join(answers, on=PLACE, how="left").select(*PLACE, "committed", "answer", "asked")


def offsets_in_transactions(piece: Piece) -> pl.DataFrame:
    """How far each transaction of this piece moved a group, by partition, unless it certainly did not."""
    inside = (pl.col("f") == F.COMMIT) & pl.col("txn").is_not_null() & (pl.col("type") != Type.FAIL)
    moves = piece.ops.filter(inside & pl.col("offset").is_not_null())
    return moves.group_by("txn", place=_packed()).agg(moved=pl.col("offset").max())


def _healed_ns(run: RunContext) -> int:
    """When the last fault was over."""
    ends = [
        next((ns for ns in (fault.healed_ns, fault.undone_ns) if ns is not None), NEVER)
        for fault in run.line.faults
        if fault.injected_ns is not None
    ]
    return max(ends, default=-NEVER)
