"""Log starts: acknowledgements below them.

false-ack   acknowledged below a log start that a node had shown to a probe before the send was invoked, in a topic that
            the workload never deleted.

Log starts above 0 are few where nothing is wrong, and what is below them was sent before. So a survey of the lowest
offset and the latest invocation of each block of BLOCK offsets tells, with the log starts of all partitions, whether
any acknowledgement may be below one that was shown before; if so, acknowledgements are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.partitions import PLACE
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.shared.fates import READS
from harness.history.schema import Type

BLOCK = 1 << 10


@dataclass(frozen=True)
class LogStartSurvey:
    """Of a piece, or of all of them."""

    starts: pl.DataFrame  # topic, partition: log starts, and when a probe was shown each of them first (`shown`)
    acknowledged: pl.DataFrame  # by block: topic, partition, lowest offset, latest invocation, count


def starts(piece: Piece, run: RunContext) -> pl.DataFrame:
    """Log starts, but for those below one that was shown before; all probes of a partition are in one piece."""
    above = (pl.col("error") == 0) & (pl.col("log_start") > 0)
    placed = above & pl.all_horizontal(pl.col(PLACE).is_not_null()) & run.deletions.untouched()
    first = [
        rows.filter(placed).group_by(*PLACE, "log_start").agg(shown=pl.col("time").min())
        for rows in piece.parts("probes", ("time", "invoked", "log_start", "error"))
    ]
    whole = pl.concat(first).group_by(*PLACE, "log_start").agg(pl.col("shown").min())
    higher = whole.sort("log_start", descending=True).with_columns(
        before=pl.col("shown").cum_min().shift(1).over(PLACE)
    )
    return higher.filter((pl.col("shown") < pl.col("before")).fill_null(value=True)).drop("before")


def blocks(piece: Piece) -> pl.DataFrame:
    """Of acknowledgements in each block of a log the lowest offset and the latest invocation."""
    log = piece.log
    rows = np.flatnonzero(log.acks > 0)
    if not len(rows):
        return pl.DataFrame(schema=BLOCKS)
    lane, block = log.lane[rows], log.offset[rows] // BLOCK
    begin = np.append(0, 1 + np.flatnonzero((lane[1:] != lane[:-1]) | (block[1:] != block[:-1])))
    first = rows[begin]
    numbers = {
        "topic": log.topic[first],
        "partition": log.partition[first],
        "lowest": log.offset[first],
        "latest": np.maximum.reduceat(log.sent[rows], begin),
        "count": np.add.reduceat(log.acks[rows], begin),
    }
    return pl.DataFrame(numbers, schema=BLOCKS)


BLOCKS = {"topic": pl.Int32, "partition": pl.Int32, "lowest": pl.Int64, "latest": pl.Int64, "count": pl.Int64}


def below(rows: pl.DataFrame, known: pl.DataFrame, offset: str, invoked: str) -> pl.DataFrame:
    """Rows whose offset is below a log start that had been shown before, with the one that was shown first."""
    asked = rows.with_columns(log_start=pl.col(offset) + 1).sort("log_start")
    above = asked.join_asof(
        known.with_columns(start="log_start").sort("log_start"),
        on="log_start",
        by=PLACE,
        strategy="forward",
        check_sortedness=False,
    )
    return above.filter(pl.col("shown") < pl.col(invoked)).with_columns(log_start="start")


class LogStarts(Family):
    """Acknowledgements below log starts; all others are in the family of values (`checkers.delivery.family`)."""

    name = "log starts"
    anomalies: ClassVar[Mapping[str, str]] = {"false-ack": "acknowledged below the log start"}
    needs_acknowledgements = frozenset({"false-ack"})
    reads: ClassVar[Mapping[str, Sequence[str]]] = READS

    def survey(self, piece: Piece, run: RunContext) -> LogStartSurvey:
        """Log starts and blocks."""
        return LogStartSurvey(starts(piece, run), blocks(piece))

    def gather(self, surveys: Sequence[LogStartSurvey], run: RunContext, others: ByFamily) -> LogStartSurvey:
        """Of all partitions; of blocks those of partitions with log starts."""
        shown = pl.concat([starts(Piece({}, run), run), *(each.starts for each in surveys)])
        acknowledged = pl.concat([pl.DataFrame(schema=BLOCKS), *(each.acknowledged for each in surveys)])
        return LogStartSurvey(shown, acknowledged.join(shown, on=PLACE, how="semi"))

    def needs_judging(self, gathered: LogStartSurvey, run: RunContext, others: ByFamily) -> bool:
        """Whether an acknowledgement may be below one."""
        return not below(gathered.acknowledged, gathered.starts, "lowest", "latest").is_empty()

    def judge(self, piece: Piece, gathered: LogStartSurvey, run: RunContext, others: ByFamily) -> Findings:
        """Acknowledgements one by one."""
        sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
        untrue = below(sends.join(gathered.starts, on=PLACE, how="semi"), gathered.starts, "offset", "invoked")
        return make_findings(
            "false-ack",
            untrue.with_columns(acknowledged="offset", shown_ns="shown"),
            run,
            offset="offset",
            values=("value",),
            time="time",
            events=("event",),
            facts=("acknowledged", "log_start", "shown_ns"),
        )

    def conclude(
        self, gathered: LogStartSurvey, judged: Sequence[Findings], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """Acknowledgements in partitions that showed log starts were looked at."""
        return FamilyResult(merge_findings(judged, run.limit), {"false-ack": int(gathered.acknowledged["count"].sum())})


FAMILIES: tuple[Family, ...] = (LogStarts(),)
