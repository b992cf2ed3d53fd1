"""Visibility: what was acknowledged against the marks that nodes show, on the rows of `checkers.shared.by_offset`.

A *mark* is the high watermark in an answer to Fetch or the end in one to ListOffsets(latest); it is *led* if only a
leader can have shown it (`checkers.core.node_answers`). Acknowledgements are sends that ended `ok` with an offset.

watermark-behind-ack   an offset o was acknowledged, and a led answer that was invoked after that shows a mark <= o.
watermark-frozen       one leader, in one epoch, shows one mark for FROZEN_NS or longer: from the end of the first of
                       its led answers that shows it to the invocation of the last one (a *standstill*; answers of a
                       deposed leader are none of its own). An offset proves that it was frozen which was acknowledged
                       after that leader's standstill began, FROZEN_NS or more before its end, at or above the mark,
                       and SETTLING_NS or more before any higher epoch may have begun: by that leader, then. Of the
                       standstills at the highest mark at or below the offset that counts which began last before the
                       acknowledgement.
watermark-ahead        an answer shows a mark m, and what had been below it was not there: a send that was invoked after
                       the answer had ended took an offset < m (tagged `later append`; an `info` send that was read
                       counts, too), or a final read that was invoked after it found the end of the partition, and
                       ended `ok`, at an offset < m (tagged `missing`, if no later append proves it).

Two events on one instant are in no order. Eras that are UNSURE (`checkers.core.deletions`) are left out.

A finding of watermark-behind-ack is tagged by the answer that was invoked last, of the first of these sorts that has
one which contradicts the acknowledgement:

one epoch        neither of the last two, and the acknowledgement came after the answer's leader epoch had been known
                 for SETTLING_NS, or that epoch was never new: Metadata did not show any, or it is the lowest
epoch unknown    nobody named the answer's leader epoch
epoch rose       neither of the two below, but the acknowledgement had come before that epoch had been known for so
                 long: the leader may have changed between them
epoch rose       the answer of a new leader
older epoch      the answer of a deposed leader (both: `checkers.shared.by_offset`)

One of watermark-frozen is tagged `one epoch`, or `epoch unknown` if nobody named the epoch of its leader.

Findings of watermark-behind-ack are one for each partition, node and tag, those of watermark-frozen one for each
partition, mark and tag, those of watermark-ahead one for each partition and tag; each with the first moment (of the
acknowledgement or the mark), the widest contradiction in time, and how many offsets prove it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, Ints
from checkers.core.deletions import UNSURE
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import SETTLING_NS, Epochs
from checkers.core.piece import Piece, marks_of
from checkers.core.run import RunContext
from checkers.shared.by_offset import (
    FINAL,
    FIRST_LED,
    LATE,
    NEW_LED,
    OLD_LED,
    OWN_LED,
    SENT,
    UNKNOWN_LED,
    Proofs,
    sorted_marks,
)

FROZEN_NS = 5_000_000_000
PLACE = ("topic", "partition", "era")
ABOUT = {
    "watermark-behind-ack": "an answer shows less than was acknowledged before it was asked for",
    "watermark-frozen": "a watermark does not move while its leader acknowledges records above it",
    "watermark-ahead": "a watermark above what was there",
}
STANDSTILL: dict[str, Any] = {
    "topic": pl.Int32, "partition": pl.Int32, "era": pl.Int32, "mark": pl.Int64, "node": pl.Int32, "epoch": pl.Int32,
    "first": pl.Int64, "first_event": pl.Int64, "over": pl.Int64, "over_event": pl.Int64, "ended": pl.Int64,
}  # fmt: skip
_GROUP: dict[str, Any] = {
    "anomaly": pl.String, "topic": pl.Int32, "partition": pl.Int32, "node": pl.Int32, "mark": pl.Int64,
    "tag": pl.String, "proofs": pl.Int64, "first": pl.Int64, "last": pl.Int64, "span": pl.Int64, "offset": pl.Int64,
    "x_at": pl.Int64, "x_event": pl.Int64, "x_value": pl.Int64, "x_node": pl.Int32, "y_at": pl.Int64,
    "y_event": pl.Int64, "y_value": pl.Int64, "y_node": pl.Int32,
}  # fmt: skip


def nothing() -> pl.DataFrame:
    """No proofs."""
    return pl.DataFrame(schema=_GROUP)


def standstills(piece: Piece) -> pl.DataFrame:
    """One row for each mark that one leader showed for FROZEN_NS or longer in one epoch; of whole partitions."""
    of_mark = [*PLACE, "offset"]
    spans = [marks.group_by(of_mark).agg(pl.col("time").min(), pl.col("invoked").max()) for marks in _led_marks(piece)]
    whole = spans[0] if len(spans) == 1 else pl.concat(spans).group_by(of_mark).agg(
        pl.col("time").min(), pl.col("invoked").max()
    )  # fmt: skip
    lasted = whole.filter(pl.col("invoked") - pl.col("time") >= FROZEN_NS)
    if lasted.is_empty():
        return pl.DataFrame(schema=STANDSTILL)
    epochs = Epochs(piece.epochs)
    parts = []
    for marks in _led_marks(piece):
        own = sorted_marks(marks.join(lasted, on=of_mark, how="semi"), epochs).filter(~pl.col("old")).select(
            *PLACE, "node", "epoch", mark="offset", first="time", first_event="event", over="invoked",
            over_event="event", ended="time",
        )  # fmt: skip
        parts.append(_by_leader(own))
    told = _by_leader(pl.concat(parts)) if len(parts) > 1 else parts[0]
    return told.filter(pl.col("over") - pl.col("first") >= FROZEN_NS).select(list(STANDSTILL)).cast(STANDSTILL)  # type: ignore[arg-type]


def _led_marks(piece: Piece) -> Iterator[pl.DataFrame]:
    for answers in piece.answer_parts():
        yield marks_of(answers).filter(pl.col("led") & (pl.col("era") != UNSURE))


def _by_leader(shown: pl.DataFrame) -> pl.DataFrame:
    """The first and the last answer of each leader that shows a mark; of rows, or of some that were put together."""
    first = [pl.col(name).sort_by("first", "first_event").first() for name in ("first", "first_event")]
    last = [pl.col(name).sort_by("over", "over_event").last() for name in ("over", "over_event", "ended")]
    return shown.group_by(*PLACE, "mark", "node", "epoch", maintain_order=True).agg(*first, *last)


def judge(proofs: Proofs, epochs: Epochs, standing: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """What proves any of these, summed up by what a finding is about."""
    parts = [nothing()]
    if run.wants("watermark-behind-ack"):
        parts.append(_behind(proofs, epochs))
    if run.wants("watermark-frozen"):
        parts.append(_frozen(proofs, epochs, standing))
    if run.wants("watermark-ahead"):
        parts.append(_ahead(proofs))
    return pl.concat(parts)


def _behind(proofs: Proofs, epochs: Epochs) -> pl.DataFrame:
    acked = proofs.moments.early(proofs.acked)
    led = {
        sort: proofs.upto(proofs.of_sort(sort), sort) for sort in (FIRST_LED, UNKNOWN_LED, OWN_LED, NEW_LED, OLD_LED)
    }
    latest = np.maximum.reduce(list(led.values()))
    rows = np.flatnonzero(proofs.sure & (proofs.acked != NEVER) & (acked < proofs.moments.late(latest)))
    if not len(rows):
        return nothing()
    place = proofs.place(rows).with_columns(acked=pl.Series(acked[rows]))
    epoch = epochs.highest_rise(place, pl.col("acked") - SETTLING_NS).cast(pl.Int64).fill_null(-2)
    own = proofs.own_upto(rows, epoch.to_numpy())
    sorts = [
        ("one epoch", np.maximum(led[FIRST_LED][rows], own)),
        ("epoch unknown", led[UNKNOWN_LED][rows]),
        ("epoch rose", led[OWN_LED][rows]),
        ("epoch rose", led[NEW_LED][rows]),
        ("older epoch", led[OLD_LED][rows]),
    ]
    proves = [proofs.moments.late(rank) > acked[rows] for _, rank in sorts]
    y = np.select(proves, [rank for _, rank in sorts], -1)
    tag = np.select(proves, [np.full(len(rows), number) for number in range(len(sorts))], -1)
    names = np.array([name for name, _ in sorts])
    there = y >= 0
    proven = _pairs(proofs, rows[there], proofs.acked[rows[there]], y[there]).with_columns(
        tag=pl.Series(names[tag[there]]), node=pl.col("y_node"), mark=pl.lit(None, pl.Int64)
    )
    return _summed("watermark-behind-ack", proven)


def _pairs(proofs: Proofs, rows: Ints, x: Ints, y: Ints) -> pl.DataFrame:
    return pl.concat([proofs.place(rows), proofs.moments.of(x, "x"), proofs.moments.of(y, "y")], how="horizontal")


def _frozen(proofs: Proofs, epochs: Epochs, standing: pl.DataFrame) -> pl.DataFrame:
    rows = np.flatnonzero(proofs.sure & (proofs.acked != NEVER))
    if not len(rows) or standing.is_empty():
        return nothing()
    asked = pl.concat([proofs.place(rows), proofs.moments.of(proofs.acked[rows], "x")], how="horizontal")
    asked = asked.join(standing.select(PLACE).unique(), on=PLACE, how="semi").sort("offset")
    marks = standing.select(*PLACE, "mark", at="mark").unique().sort("at")
    near = asked.join_asof(
        marks, left_on="offset", right_on="at", by=list(PLACE), strategy="backward", check_sortedness=False
    )
    near = near.filter(pl.col("mark").is_not_null()).sort("x_at")
    streams = standing.sort("first", "first_event").with_columns(begun=pl.col("first"))
    joined = near.join_asof(
        streams, left_on="x_at", right_on="first", by=[*PLACE, "mark"], strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    proven = joined.filter(pl.col("over") - pl.col("x_at") >= FROZEN_NS)
    soon = epochs.possible(proven, pl.col("x_at") + SETTLING_NS)
    proven = proven.filter(~(soon > proven["epoch"]).fill_null(value=False)).with_columns(
        tag=pl.when(pl.col("epoch").is_null()).then(pl.lit("epoch unknown")).otherwise(pl.lit("one epoch")),
        y_at="over", y_event="over_event", y_other="ended", y_value=pl.lit(None, pl.Int64), y_node="node",
        node=pl.lit(None, pl.Int32),
    )  # fmt: skip
    return _summed("watermark-frozen", proven)


def _ahead(proofs: Proofs) -> pl.DataFrame:
    late, shown = proofs.moments.late, proofs.moments.early(proofs.shown)
    appends = proofs.below(np.maximum(proofs.sent, proofs.late), SENT, LATE)
    final = proofs.below(proofs.final, FINAL)
    later = shown < late(appends)
    rows = np.flatnonzero(proofs.sure & (later | (shown < late(final))))
    if not len(rows):
        return nothing()
    y = np.where(later, appends, final)[rows]
    tag = pl.Series(np.where(later[rows], "later append", "missing"))
    proven = _pairs(proofs, rows, proofs.shown[rows], y).with_columns(
        tag=tag, node=pl.lit(None, pl.Int32), mark=pl.lit(None, pl.Int64)
    )
    return _summed("watermark-ahead", proven)


def _summed(anomaly: str, proven: pl.DataFrame) -> pl.DataFrame:
    """One row for each finding, from rows with the two events x and y."""
    if proven.is_empty():
        return nothing()
    keys = ["topic", "partition", "node", "mark", "tag"]
    ordered = proven.with_columns(span=pl.col("y_at") - pl.col("x_at")).sort("span", "offset", descending=[True, False])
    kept = ("span", "offset", "x_at", "x_event", "x_value", "x_node", "y_at", "y_event", "y_value", "y_node")
    summed = ordered.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).first() for name in kept),
        proofs=pl.len(), first=pl.col("x_at").min().alias("first"), last=pl.col("y_other").max(),
    )  # fmt: skip
    return summed.with_columns(anomaly=pl.lit(anomaly)).select(list(_GROUP)).cast(_GROUP)  # type: ignore[arg-type]


def conclude(parts: Sequence[pl.DataFrame], run: RunContext) -> Findings:
    """The findings, from what proves them in all pieces."""
    both = pl.concat([nothing(), *parts]).sort("span", "offset", descending=[True, False])
    keys = ["anomaly", "topic", "partition", "node", "mark", "tag"]
    others = [name for name in _GROUP if name not in {*keys, "proofs", "first", "last"}]
    summed = both.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).first() for name in others), pl.col("proofs").sum(), pl.col("first").min(), pl.col("last").max()
    )
    return merge_findings(
        [
            make_findings(
                anomaly, summed.filter(pl.col("anomaly") == anomaly), run,
                offset="mark" if anomaly == "watermark-frozen" else "offset", values=("x_value", "y_value"),
                processes=(), nodes=("x_node", "y_node"), time="first", until="last", events=("x_event", "y_event"),
                tags=("tag",), severity="span", facts=("proofs", "mark", "offset", "x_at", "y_at", "x_node", "y_node"),
            )
            for anomaly in ABOUT
        ],
        run.limit,
    )  # fmt: skip
