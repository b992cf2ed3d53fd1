"""Offsets: what each place of a log holds.

*Log(p)* maps the offsets of partition p to values; it is made of every record read there and of every acknowledgement
with an offset. (What an `info` or failed send says of its offset proves nothing by itself, and once somebody read it
the record tells.)

inconsistent-offset   one offset with two or more values.
shared-offset         one offset acknowledged to two or more sends: acknowledgements alone prove it. Zero is an offset
                      like any other.

A topic that the workload deletes begins again at offset 0. So each era of it (`checkers.core.deletions`) has a log of
its own, and what may belong to two eras has another one, whose findings are tagged `deleted topic`.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from checkers.core.arrays import Bools, Ints, ints
from checkers.core.deletions import UNSURE
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.partition_log import PartitionLog
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.shared.by_offset import Proofs, good_records
from harness.history.schema import Type

ABOUT = {
    "inconsistent-offset": "one offset, two or more values",
    "shared-offset": "one offset acknowledged to two or more sends",
}


def odd(log: PartitionLog) -> Bools:
    """Whether anything is wrong with a row of the log."""
    wrong: Bools = (log.low < log.high) | (log.low_ack < log.high_ack)
    return wrong


def inconsistent(proofs: Proofs) -> Ints:
    """The rows of the points with two values, in lives that are sure."""
    log = proofs.offset_times.log
    wrong = log.at[(log.low < log.high) & (log.era != UNSURE)]
    return np.flatnonzero(np.isin(proofs.at, wrong))


def judge(piece: Piece, proofs: Proofs, run: RunContext) -> Findings:
    """What is wrong with the log of this piece."""
    log = proofs.offset_times.log
    rows = np.flatnonzero(odd(log))
    if not len(rows):
        return Findings()
    known = _known(piece, log, rows)
    acked = known.filter("acked")
    two_values = _ends(known).filter(pl.col("low") < pl.col("high"))
    shared = _ends(acked).filter(pl.col("low") < pl.col("high"))
    return merge_findings(
        [_found("inconsistent-offset", two_values, run), _found("shared-offset", shared, run, "count")], run.limit
    )


def _known(piece: Piece, log: PartitionLog, rows: Ints) -> pl.DataFrame:
    """Acknowledgements and records at these rows."""
    sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    records = good_records(piece.records).filter((pl.col("offset") >= 0) & pl.col("value").is_not_null())
    wanted = np.zeros(len(log) + 1, np.bool_)
    wanted[rows] = True
    parts = []
    for frame, acked in ((sends, True), (records, False)):
        row = log.row_of(frame)
        chosen = wanted[row]
        parts.append(
            frame.filter(pl.Series(chosen))
            .select("value", "event", "time")
            .with_columns(row=pl.Series(row[chosen]), acked=pl.lit(acked))
        )
    both = pl.concat(parts)
    place = {name: pl.Series(getattr(log, name)[ints(both, "row")]) for name in ("topic", "partition", "era", "offset")}
    return both.with_columns(**place)


def _ends(known: pl.DataFrame) -> pl.DataFrame:
    """The lowest and the highest value of each row, each with the event that had it first."""
    place = ("topic", "partition", "era", "offset")
    first = {name: pl.col(name.partition("_")[2] or "value").first() for name in ("low", "low_time", "low_event")}
    low = known.sort("value", "time", "event").group_by("row", maintain_order=True).agg(
        *(pl.col(name).first() for name in place), **first, count=pl.len()
    )  # fmt: skip
    high = known.sort(["value", "time", "event"], descending=[True, False, True]).group_by("row").agg(
        pl.col("value").first().alias("high"), pl.col("time").first().alias("high_time"),
        pl.col("event").first().alias("high_event"),
    )  # fmt: skip
    return low.join(high, on="row").with_columns(
        time=pl.min_horizontal("low_time", "high_time"),
        until=pl.max_horizontal("low_time", "high_time"),
        gone=pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic")),
    )


def _found(anomaly: str, frame: pl.DataFrame, run: RunContext, severity: str | None = None) -> Findings:
    return make_findings(
        anomaly, frame, run, offset="offset", values=("low", "high"), time="time", until="until",
        events=("low_event", "high_event"), tags=("gone",), severity=severity, facts=("count",),
    )  # fmt: skip
