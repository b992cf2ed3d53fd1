"""How many values of each partition were sent, acknowledged, read, and so on: what the rules of delivery look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE
from checkers.core.partitions import PLACE
from checkers.shared.fates import Fates
from checkers.shared.settled_values import Split
from harness.history.schema import Type

COUNTS = (
    "values",
    "sent",
    "acknowledged",
    "failed",
    "info",
    "read",  # records that the load's consumers were handed
    "distinct",  # values that they were handed, and that were sent and not aborted
    "aborted",
    "transactional",
    "never_read",  # acknowledged, and in no read
    "usable",  # acknowledged with an offset
    "usable_transactional",
    "seen",  # in any read
    "placed",  # known at an offset
)


def counted(fates: Fates) -> pl.DataFrame:
    """Values by the partition that they belong to."""
    failed, ok, in_transaction = fates.type == Type.FAIL, fates.type == Type.OK, fates.txn != NONE
    usable = ok & (fates.acknowledged >= 0)
    numbers = {
        "values": np.ones(len(fates), np.bool_),
        "sent": fates.type > 0,
        "acknowledged": ok,
        "failed": failed,
        "info": fates.type == Type.INFO,
        "read": fates.load_reads,
        "distinct": (fates.load_reads > 0) & (fates.type > 0) & ~(failed & in_transaction),
        "aborted": failed & in_transaction,
        "transactional": in_transaction,
        "never_read": ok & (fates.reads == 0),
        "usable": usable,
        "usable_transactional": usable & in_transaction,
        "seen": fates.reads > 0,
        "placed": fates.low != NEVER,
    }
    return summed_counts([with_places(fates.frame(*PLACE)).with_columns(**numbers)])


def settled(split: Split) -> pl.DataFrame:
    """The same of values that are settled: all of them were acknowledged with an offset, and read."""
    log, chosen = split.log, np.flatnonzero(split.chosen)
    in_transaction, read = split.in_transaction[chosen], split.load_reads[chosen]
    always = ("values", "sent", "acknowledged", "usable", "seen", "placed")
    numbers: dict[str, Any] = {
        **dict.fromkeys(COUNTS, pl.lit(value=False)),
        **dict.fromkeys(always, pl.lit(value=True)),
        **dict.fromkeys(("transactional", "usable_transactional"), in_transaction),
        "read": read,
        "distinct": read > 0,
    }
    frame = pl.DataFrame({"topic": log.topic[chosen], "partition": log.partition[chosen]})
    return summed_counts([with_places(frame).with_columns(**numbers)])


def with_places(frame: pl.DataFrame) -> pl.DataFrame:
    """With topic and partition as all tables have them."""
    return frame.with_columns(pl.col(PLACE).cast(pl.Int32))


def summed_counts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The counts of several tables by partition."""
    return pl.concat(parts).group_by(PLACE).agg(pl.col(COUNTS).cast(pl.Int64).sum())


NO_COUNTS = pl.DataFrame(schema={**dict.fromkeys(PLACE, pl.Int32), **dict.fromkeys(COUNTS, pl.Int64)})
