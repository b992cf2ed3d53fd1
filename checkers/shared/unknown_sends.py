"""Sends that ended `info`: which of them happened all the same, and where.

One of which a good record was handed out, in the partition that it was sent to, has happened. So has one in a
transaction of which another `info` send was handed to a reader that sees only what is committed: the transaction was
committed. What such a send says of its offset is true of the log, as an acknowledgement is. Where a record of the same
value has the same offset, the record says it all; the others are *proven*, and few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from checkers.core.arrays import ints, is_in
from checkers.core.run import RunContext
from checkers.core.tables import empty
from harness.history.schema import Status, Type

_PLACE = ["topic", "partition", "value"]


@dataclass(frozen=True)
class UnknownSends:
    """What the rows of whole values say of sends that ended `info`."""

    late: pl.DataFrame  # those that were read: topic, partition, era, offset, invoked, time, event, value
    offered: pl.DataFrame  # those that name an offset at which no record shows them: value, txn, and whether `read`
    committed: pl.DataFrame  # transactions of which one was handed to a reader that sees only what is committed: txn


def unknown_sends(sends: pl.DataFrame, records: pl.DataFrame, run: RunContext) -> UnknownSends:
    """Of sends and records that hold all rows of each value."""
    unknown, good, read = _unknown(sends), _good(records), late(sends, records)
    offering = unknown.filter(pl.col("offset") >= 0)
    elsewhere = offering.join(read, on=[*_PLACE, "era", "offset"], how="anti")
    offered = elsewhere.with_columns(read=pl.col("value").is_in(read["value"].implode()))
    seen = good.filter(pl.Series(~is_in(ints(good, "process"), run.sees_aborted), dtype=pl.Boolean))
    committed = unknown.filter(pl.col("txn").is_not_null()).join(seen, on=_PLACE, how="semi")
    return UnknownSends(read, offered.select("value", "txn", "read"), committed.select("txn").unique())


def nothing() -> UnknownSends:
    """What no rows say."""
    return unknown_sends(empty("sends"), empty("records"), RunContext())


def together(parts: Sequence[UnknownSends]) -> UnknownSends:
    """Of several pieces."""
    parts = [nothing(), *parts]
    return UnknownSends(
        late=pl.concat([each.late for each in parts]),
        offered=pl.concat([each.offered for each in parts]),
        committed=pl.concat([each.committed for each in parts]).unique(),
    )


def proven_values(unknown: UnknownSends) -> pl.Series:
    """The values whose sends happened although they ended `info`, at an offset that only the send names."""
    in_committed = pl.col("txn").is_in(unknown.committed["txn"].implode()).fill_null(value=False)
    return unknown.offered.filter(pl.col("read") | in_committed)["value"]


def proven_sends(sends: pl.DataFrame, values: pl.Series) -> pl.DataFrame:
    """Of the sends of a piece those that say what lies at their offset, though they ended `info`."""
    return _unknown(sends).filter((pl.col("offset") >= 0) & pl.col("value").is_in(values.implode()))


def late(sends: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Sends that ended `info`, at the offsets at which good records show them."""
    unknown = _unknown(sends).select(*_PLACE, "invoked", "time", "event")
    good = _good(records).select(*_PLACE, "era", "offset")
    if unknown.is_empty() or good.is_empty():
        return unknown.clear().with_columns(era=pl.lit(0, pl.Int32), offset=pl.lit(0, pl.Int64))
    return unknown.join(good, on=_PLACE).unique().select(*_PLACE, "invoked", "time", "event", "era", "offset")


def _unknown(sends: pl.DataFrame) -> pl.DataFrame:
    return sends.filter((pl.col("type") == Type.INFO) & pl.col("value").is_not_null())


def _good(records: pl.DataFrame) -> pl.DataFrame:
    return records.filter((pl.col("status") == Status.GOOD) & (pl.col("offset") >= 0))
