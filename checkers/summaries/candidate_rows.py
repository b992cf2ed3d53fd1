"""Rows of a table that belong to findings: those that are named, that are of it, and the nearest of the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, ints
from checkers.core.nearest import RowsByKey, consecutive, in_sorted, rank_in_sorted
from checkers.core.node_answers import FETCH, LIST_OFFSETS, PRODUCE
from checkers.core.tables import place_of
from checkers.summaries.finding_queries import FindingQueries, distinct_numbers
from checkers.summaries.series import PLACE
from harness.history.schema import OffsetView

ROWS = 10
NEAR_ROWS = 5
SCANNED = 100
TEXT_CHARACTERS = 300
STRANGER_NS = 3_600_000_000_000
OWN = "^tidegauge(-(final|raw|probe|replica).*)?$"
NAMED, OF_IT, NEAR = 0, 1, 2
COLUMNS: dict[str, Any] = {
    "event": pl.Int64, "time": pl.Int64, "invoked": pl.Int64, "process": pl.Int32, "f": pl.Int32, "type": pl.Int32,
    "topic": pl.Int32, "partition": pl.Int32, "offset": pl.Int64, "value": pl.Int64, "node": pl.Int32, "api": pl.Int32,
    "view": pl.Int32, "error": pl.Int32, "high_watermark": pl.Int64, "leader": pl.Int32, "leader_epoch": pl.Int32,
    "isr": pl.String, "count": pl.Int32, "client": pl.String, "name": pl.String, "detail": pl.String,
}  # fmt: skip
KINDS_OF_TABLES = {"sends": "complete", "ops": "complete", "records": "record", "copies": "replica", "probes": "probe",
                   "exchanges": "exchange"}  # fmt: skip
_NARROW = ("time", *PLACE, "offset", "count", "api")


class CandidateRows:
    """Rows of one table, and which of them belong to findings."""

    def __init__(self, table: str, frame: pl.DataFrame, asked: FindingQueries) -> None:
        self.table, self.frame, self.asked = table, frame, asked

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def place(self) -> Ints:
        """Where they are."""
        return place_of(self.frame)

    @cached_property
    def time(self) -> Ints:
        """When they were over."""
        return ints(self.frame, "time")

    @cached_property
    def event(self) -> Ints:
        """What they are called."""
        return ints(self.frame, "event")

    @cached_property
    def value(self) -> Ints:
        """What they are about; answers of nodes are about none."""
        return ints(self.frame, "value") if "value" in self.frame.columns else np.full(len(self), NONE)

    @cached_property
    def extent(self) -> tuple[Ints, Ints]:
        """The first and last offset of what sends, records and batches have; the last is lower where there are none."""
        if self.table in {"ops", "probes"}:
            return np.zeros(len(self), np.int64), np.full(len(self), -1)
        first, length = ints(self.frame, "offset"), np.ones(len(self), np.int64)
        if self.table == "exchanges":
            api = ints(self.frame, "api")
            of_batches = (api == PRODUCE) | (api == FETCH)
            length = np.where(of_batches, np.maximum(ints(self.frame, "count", 1), 1), 0)
        return first, first + np.where(first == NONE, 0, length - 1)

    @cached_property
    def own(self) -> Bools:
        """What the harness asked by itself."""
        if self.table != "exchanges":
            return np.zeros(len(self), np.bool_)
        own: Bools = self.frame["client"].str.contains(OWN).fill_null(value=False).to_numpy()
        return own

    @cached_property
    def worker(self) -> Ints:
        """The process that a client has in its name; NONE if there is none."""
        if self.table != "exchanges":
            return np.full(len(self), NONE)
        numbers = self.frame.select(worker=pl.col("client").str.extract(r"-(\d+)$").cast(pl.Int64, strict=False))
        return ints(numbers, "worker")

    @cached_property
    def tells(self) -> Bools:
        """What may be shown because it is near: of probes only those that show a mark, of replicas nothing."""
        if self.table == "copies":
            return np.zeros(len(self), np.bool_)
        if self.table != "probes":
            return ~self.own
        api, view, error = (ints(self.frame, name) for name in ("api", "view", "error"))
        shows: Bools = (error == 0) & ((api == FETCH) | ((api == LIST_OFFSETS) & (view == OffsetView.LATEST)))
        return shows

    def close(self) -> Bools:
        """Whether a finding of their partition has a moment next to them."""
        first, end = self.asked.instants.between(
            self.place, self.time - self.asked.near_ns, self.time + self.asked.near_ns
        )
        return end > first

    def candidates(self) -> CandidateRows:
        """Those that may belong to any finding."""
        asked = self.asked
        chosen = in_sorted(self.event, asked.events) | in_sorted(self.value, distinct_numbers(asked.values, "value"))
        here = np.flatnonzero(in_sorted(self.place, asked.places) & ~chosen)
        narrow = self.frame.select(name for name in _NARROW if name in self.frame.columns)
        rows = CandidateRows(self.table, narrow[here], asked)
        first, end = asked.offsets.between(rows.place, *rows.extent)
        chosen[here] = (end > first) | rows.close()
        return CandidateRows(self.table, self.frame.filter(pl.Series(chosen)), asked)

    def pairs(self) -> pl.DataFrame:
        """Each of these rows with each finding that it may be among the nearest of."""
        named = pl.DataFrame({"row": np.arange(len(self)), "event": self.event}).join(self.asked.named, on="event")
        routes = [named.select("row", "finding"), *self._by_value(), *self._by_offset(), *self._by_place()]
        return pl.concat(routes).unique()

    def _by_value(self) -> Iterator[pl.DataFrame]:
        values = distinct_numbers(self.asked.values, "value")
        mine = np.flatnonzero(in_sorted(self.value, values) & ~self.own)
        if len(mine):
            keys = self.asked.values.with_columns(
                key=pl.Series(rank_in_sorted(ints(self.asked.values, "value"), values))
            )
            yield from self._routes(mine, rank_in_sorted(self.value[mine], values), keys, ROWS)

    def _by_offset(self) -> Iterator[pl.DataFrame]:
        offsets = self.asked.offsets
        first, end = offsets.between(self.place, *self.extent)
        mine = np.flatnonzero((end > first) & ~self.own)
        if len(mine):
            width = len(offsets.query) + 1  # rows that cover the same offsets of findings are alike
            alike, key = np.unique(first[mine] * width + end[mine], return_inverse=True)
            began, count = alike // width, alike % width - alike // width
            keys = pl.DataFrame({
                "key": np.repeat(np.arange(len(alike)), count), "finding": offsets.query[consecutive(began, count)],
            })  # fmt: skip
            yield from self._routes(mine, key, keys, ROWS)

    def _by_place(self) -> Iterator[pl.DataFrame]:
        asked = self.asked
        mine = np.flatnonzero(self.tells & self.close())
        if len(mine):
            timed = asked.placed.join(asked.moments, on="finding", how="semi")
            keys = timed.with_columns(key=pl.Series(rank_in_sorted(ints(timed, "f_place"), asked.places)))
            yield from self._routes(mine, rank_in_sorted(self.place[mine], asked.places), keys, SCANNED)

    def _routes(self, mine: Ints, key: Ints, keys: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
        """The nearest rows with the same key; and the nearest of those clients that a finding blames."""
        yield self._nearest(mine, key, keys, most)
        blamed, workers = self.asked.blamed, self.asked.workers
        if self.table != "exchanges" or not len(workers):
            return
        nobody, worker = self.worker[mine] == NONE, self.worker[mine]
        rank = np.where(nobody, 0, rank_in_sorted(worker, workers) + 1)
        known = nobody | in_sorted(worker, workers)
        width = len(workers) + 1
        of_findings = pl.concat([
            blamed.select("finding", rank=pl.Series(rank_in_sorted(ints(blamed, "worker"), workers) + 1)),
            blamed.select("finding", rank=pl.lit(0, pl.Int64)).unique(),
        ])  # fmt: skip
        each = keys.join(of_findings, on="finding").with_columns(key=pl.col("key") * width + pl.col("rank"))
        yield self._nearest(mine[known], key[known] * width + rank[known], each, most)

    def _nearest(self, mine: Ints, key: Ints, keys: pl.DataFrame, most: int) -> pl.DataFrame:
        queries = self.asked.when(keys)
        rows = RowsByKey(key, self.time[mine], self.event[mine])
        row, query = rows.nearest(ints(queries, "key"), ints(queries, "moment"), most)
        return pl.DataFrame({"row": mine[row], "finding": ints(queries, "finding")[query]})

    def ranked(self) -> pl.DataFrame:
        """Pairs with how a row belongs to a finding (`rank`) and how far it is from it (`away`), without the others."""
        first, last = self.extent
        rows = pl.DataFrame({
            "row": np.arange(len(self)), "event": self.event, "time": self.time, "place": self.place, "first": first,
            "last": last, "own": self.own, "tells": self.tells, "value": self.value, "worker": self.worker,
        })  # fmt: skip
        pairs = self.pairs().join(rows, on="row").join(self.asked.findings, on="finding")
        for name, table in (("event", self.asked.named), ("value", self.asked.values), ("worker", self.asked.blamed)):
            known = table.with_columns(pl.lit(value=True).alias(f"of_{name}"))
            pairs = pairs.join(known, on=["finding", name], how="left")
        here = pl.col("place") == pl.col("f_place")
        covers = here & pl.col("f_offset").is_between("first", "last")
        of_it = ~pl.col("own") & (pl.col("of_value").is_not_null() | covers.fill_null(value=False))
        rank = pl.when(pl.col("of_event")).then(NAMED).when(of_it).then(OF_IT).otherwise(NEAR)
        away = pl.min_horizontal((pl.col("time") - pl.col(name)).abs() for name in ("since", "until"))
        is_near = pl.col("tells") & here & (away <= self.asked.near_ns)
        blames = pl.col("finding").is_in(self.asked.blamed["finding"].implode())
        stranger = blames & (pl.col("worker") != NONE) & pl.col("of_worker").is_null()
        farther = pl.when(stranger).then(STRANGER_NS).otherwise(0)
        return (
            pairs.with_columns(rank=rank)
            .filter((pl.col("rank") != NEAR) | is_near.fill_null(value=False))
            .select("row", "finding", "rank", away=away.fill_null(pl.col("time") - self.asked.start_ns) + farther)
        )

    def columns(self) -> pl.DataFrame:
        """The best of them, with all that is told of an operation."""
        ranked = self.ranked()
        shaped = self.frame[ints(ranked, "row")].select(
            _shaped(name, type_) if name in self.frame.columns else pl.lit(None, type_).alias(name)
            for name, type_ in COLUMNS.items()
        )
        kind = pl.lit(KINDS_OF_TABLES[self.table]).alias("kind")
        return best(pl.concat([ranked.select("finding", kind, "rank", "away"), shaped], how="horizontal"))


def _shaped(name: str, type_: Any) -> pl.Expr:
    return pl.col(name).str.head(TEXT_CHARACTERS) if type_ == pl.String else pl.col(name).cast(type_)


def best(candidates: pl.DataFrame) -> pl.DataFrame:
    """Of each finding and kind of event the first ones, by themselves those that are only near."""
    group = ["finding", "kind", pl.col("rank") == NEAR]
    ordered = candidates.sort("finding", "kind", "rank", "away", "event")
    place = pl.int_range(pl.len()).over(group)
    of_clients = (pl.col("rank") == NEAR) & (pl.col("kind") != "exchange")
    return ordered.filter(place < pl.when(of_clients).then(NEAR_ROWS).otherwise(ROWS))
