"""The events of a run as tables: what kernels look at.

sends       how sends ended (completions of SEND); every send has exactly one row
ops         how all other operations ended
records     every record that any client was handed
copies      what replicas were asked for (`checkers.replicas`): nobody else looks at it
probes      what nodes answered to probes
exchanges   requests and responses that passed a tap
broker      lines of broker logs, in histories that were imported with them

Columns are those of the schema (docs/history.md), and `era`: the life of a topic that the workload deleted, else 0
(`checkers.core.deletions`). Times are cut to ±2^61, so that adding two of them does not overflow, and offsets to ±2^44.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import ints, is_in
from checkers.core.run import RunContext, by
from harness.history.schema import COLUMNS, INT8, INT16, INT32, INT64, KINDS, TEXT, F, Kind

TABLES: dict[str, Kind] = {
    "sends": Kind.COMPLETE,
    "ops": Kind.COMPLETE,
    "records": Kind.RECORD,
    "copies": Kind.RECORD,
    "probes": Kind.PROBE,
    "exchanges": Kind.EXCHANGE,
    "broker": Kind.BROKER,
}
_MOST = {
    **dict.fromkeys(("time", "invoked", "sequence"), 1 << 61),
    **dict.fromkeys(("offset", "asked", "end", "high_watermark", "last_stable_offset", "log_start"), 1 << 44),
}
_TYPES = {INT64: pl.Int64, INT32: pl.Int32, INT16: pl.Int16, INT8: pl.Int8, TEXT: pl.String}
ROUTED = ("process", "topic", "partition", "offset", "value")  # what pieces are cut by
ALWAYS = ("process", "topic", "partition", "invoked", "time")  # and what eras are told by
ColumnsByTable = Mapping[str, Sequence[str]]  # columns by table


def schema_of(kind: Kind) -> dict[str, Any]:
    """The columns of a kind."""
    return {name: _TYPES[COLUMNS[name].type] for name in KINDS[kind]}


@cache
def empty(table: str) -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema={**schema_of(TABLES[table]), "era": pl.Int32})


def columns_of(kind: Kind, wanted: ColumnsByTable) -> list[str]:
    """The columns that have to be read of a kind, in the order of the schema; none if nobody wants its tables."""
    needed = {name for table, names in wanted.items() if TABLES[table] is kind for name in names}
    if not needed:
        return []
    always = {Kind.COMPLETE: ("f", "offset", "value"), Kind.RECORD: ("offset", "value")}.get(kind, ())
    return [name for name in KINDS[kind] if name in {*needed, *always, *ALWAYS}]


def tables_of(kind: Kind, rows: pl.DataFrame, wanted: ColumnsByTable, run: RunContext) -> dict[str, pl.DataFrame]:
    """The tables that are made of rows of a kind, with the columns that somebody wants."""
    rows = _within_range(rows)
    if kind is Kind.COMPLETE:
        parts = {"sends": rows.filter(pl.col("f") == F.SEND), "ops": rows.filter(pl.col("f") != F.SEND)}
    elif kind is Kind.RECORD:
        replicas = by(run.replica_readers)
        parts = {"records": rows.filter(~replicas) if run.replica_readers else rows,
                 "copies": rows.filter(replicas) if run.replica_readers else rows.clear()}  # fmt: skip
    else:
        parts = {next(table for table, of in TABLES.items() if of is kind): rows}
    return {
        table: _with_era(table, part, run).select(*_chosen(part, wanted[table]), "era")
        for table, part in parts.items()
        if table in wanted
    }


def _chosen(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in frame.columns if name in {*names, *ROUTED}]


def _with_era(table: str, frame: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    if table == "broker":
        return frame.with_columns(era=pl.lit(0, pl.Int32))
    if table == "records" and run.deletions:
        return frame.with_columns(run.deletions.read_eras(frame, is_in(ints(frame, "process"), run.fresh)))
    return frame.with_columns(run.deletions.eras(frame))


def _within_range(rows: pl.DataFrame) -> pl.DataFrame:
    limits = {name: _MOST[name] for name in rows.columns if name in _MOST and len(rows)}
    large = {name: most for name, most in limits.items() if _is_beyond(rows[name], most)}
    return rows.with_columns(pl.col(name).clip(-most, most) for name, most in large.items()) if large else rows


def _is_beyond(column: pl.Series, most: int) -> bool:
    low, high = column.min(), column.max()
    return low is not None and high is not None and (int(low) < -most or int(high) > most)  # type: ignore[arg-type]


def place_of(frame: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Topic and partition as one number, for tables of whole partitions; -1 where either is missing."""
    topic, partition = ints(frame, "topic", -1), ints(frame, "partition", -1)
    return np.where((topic < 0) | (partition < 0), -1, (topic << 32) | partition)


def topic_and_partition(place: pl.Expr) -> list[pl.Expr]:
    """The reverse: two columns."""
    return [(place // (1 << 32)).cast(pl.Int32).alias("topic"), (place % (1 << 32)).cast(pl.Int32).alias("partition")]
