"""Witnesses of linearizability: consecutive appends and ends of a partition, each with the moment it took effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from checkers.core.node_answers import LIST_OFFSETS
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.summaries.finding_queries import ContextRequest
from checkers.summaries.series import PLACE
from harness.history.schema import OffsetView, Type

WITNESSED = 12  # offsets on each side
WITNESSES_AT_MOST = 4 * WITNESSED + 2  # operations
_APPENDS = (*PLACE, "offset", "invoked", "time", "process", "value", "event")
_ENDS = (*PLACE, "offset", "invoked", "time", "process", "event")
_ANSWERS = (*_ENDS, "api", "view", "error")
WITNESS_COLUMNS: dict[str, tuple[str, ...]] = {
    "sends": (*_APPENDS, "type"), "probes": _ANSWERS, "exchanges": (*_ANSWERS, "type"),
}  # fmt: skip


def witness_tables(piece: Piece, request: ContextRequest) -> dict[str, pl.DataFrame]:
    """Per partition the sends around an offset, and the latest invocation of all that is below them."""
    schema = dict.fromkeys(PLACE, pl.Int32) | {"middle": pl.Int64}
    rows = [(*place, offset) for place, offset in request.witnesses.items()]
    middles = pl.DataFrame(rows, schema=schema, orient="row")
    acknowledged = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    sends = acknowledged.select(_APPENDS).join(middles, on=PLACE)
    ends = pl.concat([_ends(piece.probes, middles), _ends(piece.exchanges.filter(pl.col("type") == Type.OK), middles)])
    inside = pl.col("offset").is_between(pl.col("middle") - WITNESSED, pl.col("middle") + WITNESSED)
    below = pl.col("offset") < pl.col("middle") - WITNESSED
    invoked = pl.concat([rows.filter(below).select(*PLACE, "invoked") for rows in (sends, ends)])
    return {
        "sends": _first_ones(sends.filter(inside).select(_APPENDS)),
        "ends": _as_one(ends.filter(inside)),
        "below": invoked.group_by(PLACE).agg(pl.col("invoked").max()),
    }


def _ends(answers: pl.DataFrame, middles: pl.DataFrame) -> pl.DataFrame:
    """Answers that show an end."""
    latest = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.LATEST) & (pl.col("error") == 0)
    return answers.filter(latest & (pl.col("offset") >= 0)).select(_ENDS).join(middles, on=PLACE)


def _as_one(ends: pl.DataFrame) -> pl.DataFrame:
    """Those that show the same end are one operation."""
    return (
        ends.sort("invoked", "event")
        .group_by(*PLACE, "offset")
        .agg(pl.col("invoked").last(), pl.col("time").min(), pl.col("process", "event").last())
    )


def _first_ones(rows: pl.DataFrame) -> pl.DataFrame:
    ordered = rows.sort(*PLACE, "offset", "event")
    return ordered.filter(pl.int_range(pl.len()).over(PLACE) < WITNESSES_AT_MOST)


def merged_witnesses(sends: pl.DataFrame, ends: pl.DataFrame, below: pl.DataFrame, run: RunContext) -> dict[str, Any]:
    """Per partition sends and ends in the order of offsets, each with its moment."""
    of_ends = _as_one(ends).with_columns(value=pl.lit(None, pl.Int64), is_end=pl.lit(value=True))
    rows = _first_ones(pl.concat([sends.with_columns(is_end=pl.lit(value=False)), of_ends], how="diagonal"))
    latest = below.group_by(PLACE).agg(below=pl.col("invoked").max())
    appends = rows.join(latest, on=PLACE, how="left").with_columns(pl.col("below").fill_null(run.first_time_ns))
    ordered = appends.sort(*PLACE, "offset", ~pl.col("is_end"), "invoked", "event").with_columns(
        point=pl.max_horizontal("below", pl.col("invoked").cum_max().over(PLACE))
    )
    return {
        f"{run.topics.get(topic, topic)}-{partition}": {"operations": [_point(row, run) for row in mine.to_dicts()]}
        for (topic, partition), mine in ordered.partition_by(PLACE, as_dict=True, maintain_order=True).items()
    }


def _point(row: Mapping[str, Any], run: RunContext) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("offset", "process", "value", "event")},
        "end": row["is_end"],
        "from": row["invoked"] - run.first_time_ns,
        "to": row["time"] - run.first_time_ns,
        "point": row["point"] - run.first_time_ns,
    }
