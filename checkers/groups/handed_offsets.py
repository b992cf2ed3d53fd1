"""Which of the acknowledged offsets of a partition each process was handed, as runs of neighbours.

An offset is *wanted* if it was acknowledged and anybody was handed it whose word counts (`checkers.groups.lost_reads`).
The wanted offsets of a stretch are numbered; each process was handed *runs* of neighbours among them, few in a healthy
history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import polars as pl

from checkers.core.arrays import Bools, Ints, ints, is_in
from checkers.core.partition_log import OffsetKeys
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.groups.membership import PLACE, handed_at, members_of_groups, readable
from harness.history.schema import F, Type

STRETCH = (*PLACE, "stretch")
RUNS_AT_MOST = 64  # of a process in a stretch that a survey tells; with more of them the place is judged


@dataclass(frozen=True)
class OffsetRanks:
    """Acknowledged offsets of a piece in order, of which some are wanted, and where each record lies among them.

    `reads` has, beside its own columns, how many acknowledged and how many wanted offsets lie `below` its offset, and
    how many `upto` it.
    """

    reads: pl.DataFrame
    offset: Ints  # of each wanted one
    lanes: pl.DataFrame  # a row for each stretch with acknowledged offsets: how many, and where they begin

    @classmethod
    def of(cls, sends: pl.DataFrame, reads: pl.DataFrame, run: RunContext) -> Self:
        """Of acknowledged sends, and records."""
        keys = OffsetKeys.of([sends, reads], run.stretch)
        sent, at = keys.at(sends), keys.at(reads)
        acked = _distinct(sent)
        below = np.searchsorted(acked, at)
        upto = below + (np.append(acked, -2)[below] == at)
        plain = np.append(_plain(acked, sent, sends), [False])[below]
        committed = ~is_in(ints(reads, "process"), run.sees_aborted)
        wanted = np.zeros(len(acked), np.bool_)
        wanted[below[(upto > below) & (plain | committed)]] = True
        count = np.concatenate([[0], np.cumsum(wanted)])
        rows = reads.with_columns(
            pl.Series("below_acked", below), pl.Series("upto_acked", upto),
            pl.Series("below_wanted", count[below]), pl.Series("upto_wanted", count[upto]),
        )  # fmt: skip
        return cls(rows, keys.parts(acked[wanted])["offset"], _lanes(keys, acked, count, run.stretch))

    def runs(self) -> pl.DataFrame:
        """Of neighbours among the wanted offsets of a stretch that a process was handed, the first and the last."""
        handed = self.reads.filter(pl.col("upto_wanted") > pl.col("below_wanted"))
        width = len(self.offset) + 1
        at = _distinct(ints(handed, "process") * width + ints(handed, "below_wanted"))
        process, rank = at // width, at % width
        begins = ints(self.lanes, "begin_wanted")
        lane = np.searchsorted(begins, rank, side="right") - 1
        new = np.flatnonzero((np.diff(at, prepend=-2) != 1) | (np.diff(lane, prepend=-1) != 0))
        last = np.append(new[1:], len(at))[: len(new)] - 1
        begin = begins[lane[new]]
        found = pl.DataFrame({"process": process[new], "first": rank[new] - begin, "last": rank[last] - begin})
        return found.cast({"process": pl.Int32}).with_columns(self.lanes.select(STRETCH)[lane[new]])


def _distinct(values: Ints) -> Ints:
    """In order; `numpy.unique` takes ten times as long."""
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=-1) != 0] if len(ordered) else ordered


def _plain(acked: Ints, sent: Ints, sends: pl.DataFrame) -> Bools:
    """Which acknowledged offsets have a send that was in no transaction."""
    outside = sends["txn"].is_null().to_numpy()
    if outside.all():
        return np.ones(len(acked), np.bool_)
    plain = np.zeros(len(acked), np.bool_)
    plain[np.searchsorted(acked, sent[outside & (sent >= 0)])] = True
    return plain


def _lanes(keys: OffsetKeys, acked: Ints, count: Ints, stretch: int) -> pl.DataFrame:
    lane = keys.lane(acked)
    begin = np.flatnonzero(np.diff(lane, prepend=-1) != 0)
    end = np.append(begin[1:], len(lane))[: len(begin)]
    places = keys.parts(acked[begin])
    return pl.DataFrame({
        "topic": places["topic"], "partition": places["partition"], "stretch": places["offset"] // stretch,
        "begin_acked": begin, "begin_wanted": count[begin], "acked": end - begin,
        "wanted": count[end] - count[begin],
    }).cast({"topic": pl.Int32, "partition": pl.Int32})  # fmt: skip


@dataclass(frozen=True)
class HandedSurvey:
    """What processes were handed of stretches, by the numbers of acknowledged and of wanted offsets in these."""

    members: pl.DataFrame
    killed: pl.DataFrame  # processes with a poll that was open when they were, and when it was invoked (`at`)
    assigned: pl.DataFrame  # per process and place that it was given: whether it was not taken since (`held`)
    lanes: pl.DataFrame
    reach: pl.DataFrame  # per process and stretch: highest offset, since when, and how far it reaches among the others
    runs: pl.DataFrame

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of all pieces."""
        whole = {each.name: pl.concat([getattr(part, each.name) for part in parts]) for each in fields(cls)}
        return cls(**{**whole, "members": whole["members"].unique()})


def survey_handed(piece: Piece, run: RunContext) -> HandedSurvey:
    """What a piece says; processes with too many runs have none."""
    ranks = OffsetRanks.of(acknowledged_sends(piece, run), handed_records(piece, run), run)
    few = pl.len().over("process", *STRETCH) <= RUNS_AT_MOST
    is_open = (pl.col("f") == F.POLL) & (pl.col("type") == Type.INFO) & pl.col("count").is_null()
    killed = piece.ops.filter(is_open).select("process", at="invoked").drop_nulls()
    lanes = ranks.lanes.select(*STRETCH, "acked", "wanted")
    return HandedSurvey(
        members_of_groups(piece), killed, _assigned(piece.ops), lanes, _reach(ranks), ranks.runs().filter(few)
    )


def _assigned(ops: pl.DataFrame) -> pl.DataFrame:
    """All of a place is in one piece."""
    given = (pl.col("f") == F.ASSIGN) & (pl.col("type") == Type.OK) & pl.col("offset").is_null()
    moves = ops.filter(given | (pl.col("f") == F.REVOKE), pl.all_horizontal(pl.col(PLACE).is_not_null()))
    last = moves.sort("event").group_by("process", *PLACE).agg(held=given.last(), given=given.any())
    return last.filter("given").drop("given")


def acknowledged_sends(piece: Piece, run: RunContext) -> pl.DataFrame:
    """Sends that ended ok, with their stretches."""
    return _placed(piece.sends.filter(pl.col("type") == Type.OK), run)


def handed_records(piece: Piece, run: RunContext) -> pl.DataFrame:
    """Records that anybody was handed, with their stretches."""
    return _placed(piece.records, run)


def _placed(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    return readable(rows.filter(pl.col("offset") >= 0), run).with_columns(stretch=pl.col("offset") // run.stretch)


def _reach(ranks: OffsetRanks) -> pl.DataFrame:
    """Per process and stretch: since when and how far it was handed anything, by offsets and by their numbers."""
    of = ("process", *STRETCH)
    first = pl.col("since").filter(pl.col("offset") == pl.col("offset").max()).min()
    ends = ranks.reads.with_columns(since=handed_at()).group_by(of).agg(
        pl.col("offset").max().alias("highest"), first.alias("highest_since"), pl.col("since").min(),
        pl.col("below_acked", "below_wanted").min(),
        pl.col("upto_acked", "upto_wanted").max(),
    )  # fmt: skip
    within = ends.join(ranks.lanes, on=STRETCH, how="left")
    return within.select(
        *of, "highest", "highest_since", "since",
        *((pl.col(f"{side}_{what}") - pl.col(f"begin_{what}")).fill_null(0)
          for side in ("below", "upto") for what in ("acked", "wanted")),
    )  # fmt: skip
