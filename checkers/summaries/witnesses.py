"""Witnesses of linearizability: consecutive appends and ends of a partition, each with the moment it took effect.

A partition has windows of offsets: a wide one, and narrow ones that sample the rest of the run. Each append or end is
looked up once: which window it is in, and which one is the first above it, because the moment of an operation depends
on the latest call of everything below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import Ints, ints
from checkers.core.nearest import in_sorted
from checkers.core.node_answers import LIST_OFFSETS
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import place_of
from checkers.summaries.finding_queries import ContextRequest, Window
from checkers.summaries.series import PLACE
from harness.history.schema import OffsetView, Type

WITNESSED = 12  # offsets on each side
SAMPLED = 3  # offsets on each side of a sample
_MORE = 4  # operations for each offset on a side: several appends there may have been acknowledged, and ends
_OFFSETS = 1 << 44  # more than a partition has
_APPENDS = (*PLACE, "offset", "invoked", "time", "process", "value", "event")
_ENDS = (*PLACE, "offset", "invoked", "time", "process", "event")
_ANSWERS = (*_ENDS, "api", "view", "error")
_IN_WINDOW = (*PLACE, "window")
WITNESS_COLUMNS: dict[str, tuple[str, ...]] = {
    "sends": (*_APPENDS, "type"), "probes": _ANSWERS, "exchanges": (*_ANSWERS, "type"),
}  # fmt: skip


def window_around(offset: int, each_side: int = WITNESSED) -> Window:
    """The offsets from which to which operations are shown."""
    return max(0, offset - each_side), offset + each_side


@dataclass(frozen=True)
class _Windows:
    """All windows, by place and offset; they do not overlap."""

    places: Ints
    lows: Ints
    highs: Ints

    @classmethod
    def of(cls, request: ContextRequest) -> _Windows:
        """Those that a request asks for."""
        known = sorted(
            ((topic << 32) | partition, windows) for (topic, partition), windows in request.witnesses.items()
        )
        keys = [
            (rank * _OFFSETS + low, rank * _OFFSETS + high)
            for rank, (_, windows) in enumerate(known)
            for low, high in sorted(windows)
        ]
        lows, highs = (np.array([key[end] for key in keys], np.int64) for end in (0, 1))
        return cls(np.array([place for place, _ in known], np.int64), lows, highs)

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of their partitions, with the window that each is in, and the first one above it; or -1."""
        places = place_of(rows)
        known = in_sorted(places, self.places)
        mine = rows.filter(pl.Series(known))
        rank = np.searchsorted(self.places, places[known])
        key = rank * _OFFSETS + ints(mine, "offset")
        last = len(self.lows) - 1
        inside = np.minimum(np.searchsorted(self.highs, key), max(last, 0))
        above = np.searchsorted(self.lows, key, side="right")
        is_inside = (self.lows[inside] <= key) & (key <= self.highs[inside]) if last >= 0 else known[known]
        of_place = self.lows[np.minimum(above, max(last, 0))] // _OFFSETS == rank if last >= 0 else known[known]
        return mine.with_columns(
            window=pl.Series(np.where(is_inside, inside, -1)),
            above=pl.Series(np.where((above <= last) & of_place, above, -1)),
        )

    def most(self, window: Ints) -> Ints:
        """How many operations of each window are kept."""
        most: Ints = (self.highs - self.lows)[window] * _MORE // 2 + 2
        return most


def witness_tables(piece: Piece, request: ContextRequest) -> dict[str, pl.DataFrame]:
    """Per window the sends and ends in it, and the latest invocation between the one before and it."""
    windows = _Windows.of(request)
    acknowledged = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    sends = windows.placed(acknowledged.select(_APPENDS))
    answered = piece.exchanges.filter(pl.col("type") == Type.OK)
    ends = windows.placed(pl.concat([_ends(piece.probes), _ends(answered)]))
    inside, below = pl.col("window") >= 0, pl.col("above") >= 0
    invoked = pl.concat([rows.filter(below).select(*PLACE, "above", "invoked") for rows in (sends, ends)])
    return {
        "sends": _first_ones(sends.filter(inside).drop("above"), windows),
        "ends": _as_one(ends.filter(inside)),
        "below": invoked.group_by(*PLACE, window="above").agg(pl.col("invoked").max()),
    }


def _ends(answers: pl.DataFrame) -> pl.DataFrame:
    """Answers that show an end."""
    latest = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.LATEST) & (pl.col("error") == 0)
    return answers.filter(latest & (pl.col("offset") >= 0)).select(_ENDS)


def _as_one(ends: pl.DataFrame) -> pl.DataFrame:
    """Those that show the same end are one operation."""
    return (
        ends.sort("invoked", "event")
        .group_by(*_IN_WINDOW, "offset")
        .agg(pl.col("invoked").last(), pl.col("time").min(), pl.col("process", "event").last())
    )


def _first_ones(rows: pl.DataFrame, windows: _Windows) -> pl.DataFrame:
    ordered = rows.sort(*_IN_WINDOW, "offset", "event")
    most = pl.Series(windows.most(ints(ordered, "window")))
    return ordered.filter(pl.int_range(pl.len()).over(_IN_WINDOW) < most)


def merged_witnesses(tables: Mapping[str, pl.DataFrame], request: ContextRequest, run: RunContext) -> dict[str, Any]:
    """Per partition sends and ends in the order of offsets, each with its moment."""
    of_ends = _as_one(tables["ends"]).with_columns(value=pl.lit(None, pl.Int64), is_end=pl.lit(value=True))
    both = pl.concat([tables["sends"].with_columns(is_end=pl.lit(value=False)), of_ends], how="diagonal")
    rows = _first_ones(both, _Windows.of(request))
    latest = tables["below"].group_by(_IN_WINDOW).agg(below=pl.col("invoked").max())
    appends = rows.join(latest, on=_IN_WINDOW, how="left").with_columns(pl.col("below").fill_null(run.first_time_ns))
    ordered = appends.sort(*PLACE, "offset", ~pl.col("is_end"), "invoked", "event").with_columns(
        point=pl.max_horizontal("below", "invoked").cum_max().over(PLACE)
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
