"""Offsets: what each place of a log holds.

*Log(p)* maps the offsets of partition p to values; it is made of every record read there and of every send that names
an offset and must have happened: it was acknowledged, or it ended `info`, and it or another `info` send of its
transaction was read (`checkers.shared.unknown_sends`).

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
from checkers.shared.by_offset import good_records
from harness.history.schema import Type

ABOUT = {
    "inconsistent-offset": "one offset, two or more values",
    "shared-offset": "one offset acknowledged to two or more sends",
}


def odd(log: PartitionLog) -> Bools:
    """Whether anything is wrong with a row of the log."""
    wrong: Bools = (log.low < log.high) | (log.low_ack < log.high_ack)
    return wrong


def judge(piece: Piece, proven: pl.DataFrame, run: RunContext) -> tuple[Findings, pl.DataFrame]:
    """What is wrong with the log of this piece; and the places that hold two values, in lives that are sure."""
    log = piece.log
    keys = log.keys
    at = np.union1d(log.at[odd(log)], keys.at(proven))
    known = _known(piece, proven, at[at >= 0], log)
    two_values = _ends(known).filter(pl.col("low") < pl.col("high"))
    shared = _ends(known.filter("acked")).filter(pl.col("low") < pl.col("high"))
    findings = [_found("inconsistent-offset", two_values, run), _found("shared-offset", shared, run, "count")]
    places = two_values.filter(pl.col("era") != UNSURE).select("topic", "partition", "offset")
    return merge_findings(findings, run.limit), places


def _known(piece: Piece, proven: pl.DataFrame, wanted: Ints, log: PartitionLog) -> pl.DataFrame:
    """Acknowledgements, records and proven sends at these offsets."""
    sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    records = good_records(piece.records).filter((pl.col("offset") >= 0) & pl.col("value").is_not_null())
    parts = []
    for frame, acked in ((sends, True), (records, False), (proven, False)):
        at = log.keys.at(frame)
        chosen = np.isin(at, wanted)
        parts.append(
            frame.filter(pl.Series(chosen, dtype=pl.Boolean))
            .select("value", "event", "time")
            .with_columns(row=pl.Series(at[chosen], dtype=pl.Int64), acked=pl.lit(acked))
        )
    both = pl.concat(parts)
    return both.with_columns(pl.Series(name, of) for name, of in log.keys.parts(ints(both, "row")).items())


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
