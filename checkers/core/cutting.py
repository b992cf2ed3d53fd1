"""Cutting a history into pieces (`checkers.core.piece`): which rows go where, so that a task has what belongs together.

Rows of a log go by topic, partition and stretch of offsets; answers and operations by topic and partition, or by their
process where they have none. Answers may be many, and stay as they came (`checkers.core.long_tables`). To judge values,
sends and records go by value instead. A *bucket* is what one task gets: the pieces that a hash puts there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from checkers.core.arrays import ints
from checkers.core.long_tables import LongTable
from checkers.core.node_answers import EXCHANGES, PROBES, answers
from checkers.core.piece import OF_FINALS, Table, finals_of, marks_of
from checkers.core.run import RunContext
from checkers.core.tables import ColumnsByTable, empty, place_of, tables_of
from checkers.shared.reader_steps import RECORDS, spans_of, steps_of
from checkers.shared.sender_order import SENDS, shares_of
from harness.history.schema import Kind

BY_LOG, BY_PLACE = "log", "place"
LONG = frozenset({"probes", "exchanges"})  # tables that are as long as a partition, and are looked at part by part
Unsigned = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Product:
    """A table that is made of another while a history is cut, from as many of its rows as are there at once."""

    source: str
    make: Callable[[pl.DataFrame, RunContext | None], pl.DataFrame]  # no run: of an empty table
    route: str
    columns: tuple[str, ...] = ()  # that it needs: where nobody reads them, nobody asks for it


PRODUCTS: dict[str, tuple[Product, ...]] = {
    "marks": (
        Product("probes", lambda rows, _: marks_of(answers(rows, empty("exchanges"))), BY_LOG, PROBES),
        Product("exchanges", lambda rows, _: marks_of(answers(empty("probes"), rows)), BY_LOG, EXCHANGES),
    ),
    "finals": (Product("ops", lambda rows, _: finals_of(rows), BY_LOG, OF_FINALS),),
    "steps": (Product("records", steps_of, BY_LOG, RECORDS),),
    "spans": (Product("records", spans_of, BY_PLACE, RECORDS),),
    "shares": (Product("sends", lambda rows, run: shares_of(rows, run.stretch if run else 1), BY_PLACE, SENDS),),
}
ROUTES = {"sends": BY_LOG, "records": BY_LOG, "copies": BY_LOG, "ops": BY_PLACE, "probes": BY_PLACE,
          "exchanges": BY_PLACE, "broker": BY_PLACE}  # fmt: skip


def cut(  # noqa: PLR0913 - what is cut, for whom, and how
    kind: Kind, rows: pl.DataFrame, wanted: ColumnsByTable, run: RunContext, buckets: int, *, by_value: bool = False
) -> Iterator[tuple[int, str, pl.DataFrame]]:
    """Rows of a kind as parts of tables, each with the bucket that it goes to."""
    tables = tables_of(kind, rows, wanted, run)
    if by_value:
        for table, frame in tables.items():
            if table in {"sends", "records"}:
                yield from _split(table, frame, _hashed(ints(frame, "value", 0)), buckets)
        return
    for table, frame in tables.items():
        yield from _split(table, frame, _route(ROUTES[table], frame, run), buckets)
    for name, products in PRODUCTS.items():
        for product in products:
            source = tables.get(product.source)
            if source is not None and len(source) and set(product.columns) <= set(source.columns):
                made = product.make(source, run)
                yield from _split(name, made, _route(product.route, made, run), buckets)


def _route(route: str, frame: pl.DataFrame, run: RunContext) -> Unsigned:
    """What tells pieces apart."""
    place = place_of(frame)
    if route == BY_PLACE:
        process = ints(frame, "process") if "process" in frame.columns else np.zeros(len(frame), np.int64)
        return _hashed(np.where(place < 0, ~process, place))
    offset = ints(frame, "offset", -1)
    lost = ints(frame, "value", 0) if "value" in frame.columns else np.zeros(len(frame), np.int64)
    stretch = (offset // run.stretch).astype(np.uint64)  # those of a hot partition go to one bucket after the other
    return np.where((place < 0) | (offset < 0), _hashed(lost), _hashed(place) + stretch)


def _hashed(numbers: npt.NDArray[np.int64]) -> Unsigned:
    """Numbers that lie close together, far apart."""
    mixed = numbers.astype(np.uint64)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    return mixed


def _split(table: str, frame: pl.DataFrame, route: Unsigned, buckets: int) -> Iterator[tuple[int, str, pl.DataFrame]]:
    if not len(frame):
        return
    bucket = (route % np.uint64(buckets)).astype(np.int64)
    order = np.argsort(bucket, kind="stable")
    ordered = frame[order]
    starts = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for number in np.flatnonzero(np.diff(starts)).tolist():
        yield number, table, ordered[int(starts[number]) : int(starts[number + 1])]


def put_together(blobs: Iterable[tuple[str, bytes | memoryview]]) -> dict[str, Table]:
    """The tables of a bucket, of blobs that are parts of them; those of products also when they are empty."""
    parts: dict[str, list[pl.DataFrame]] = {}
    long: dict[str, LongTable] = {}
    for table, blob in blobs:
        if table in LONG:
            long.setdefault(table, LongTable()).add(blob)
        else:
            parts.setdefault(table, []).append(pl.read_ipc_stream(bytes(blob)))
    tables: dict[str, Table] = {**long, **{name: pl.concat(frames) for name, frames in parts.items()}}
    for name, products in PRODUCTS.items():
        if tables and name not in tables:
            tables[name] = products[0].make(empty(products[0].source), None)
    return tables
