"""Rows of which a history has few: read before the check, because plans depend on them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from harness.history.schema import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.history.sealed import Sealed

ROWS_AT_MOST = 100_000


def planning_rows(  # noqa: PLR0913, PLR0917 - which rows of which history
    sealed: Sealed,
    spark: SparkSession | None,
    kind: Kind,
    columns: Sequence[str],
    functions: Collection[F] = (),
    types: Collection[Type] = (),
    *,
    counted: bool = False,
) -> list[dict[str, Any]]:
    """Columns of a kind, or of some functions in it that ended in one of these ways, if any are named.

    If `counted`, those are left out that say themselves that they are about nothing (`count` 0).
    Files here are read here: a job for them would take longer.
    """
    if not sealed.files.get(kind) or not sealed.rows.get(kind) or not _has(sealed, kind, functions):
        return []
    wanted = {"f": [int(function) for function in functions], "type": [int(type_) for type_ in types]}
    filters = [(name, numbers) for name, numbers in wanted.items() if numbers]
    if sealed.base:
        assert spark is not None, "the files are elsewhere"
        frame = spark.read.parquet(*sealed.urls(kind))
        for name, numbers in filters:
            frame = frame.where(f"{name} in ({', '.join(map(str, numbers))})")
        if counted:
            frame = frame.where("count is null or count > 0")
        return [row.asDict() for row in frame.select(*columns).limit(ROWS_AT_MOST).collect()]
    from pyarrow import compute, parquet

    wheres = [compute.field(name).isin(numbers) for name, numbers in filters]
    if counted:
        wheres.append(compute.field("count").is_null() | (compute.field("count") > 0))
    where = functools.reduce(operator.and_, wheres) if wheres else None
    rows: list[dict[str, Any]] = []
    for file in sealed.files[kind]:
        rows += parquet.read_table(file, columns=list(columns), filters=where).to_pylist()
    return rows[:ROWS_AT_MOST]


def _has(sealed: Sealed, kind: Kind, functions: Collection[F]) -> bool:
    counted = sealed.contents.get(kind)
    return not functions or counted is None or any(counted.get(int(function), 0) for function in functions)
