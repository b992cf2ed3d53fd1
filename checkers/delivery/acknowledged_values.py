"""Acknowledged values that nobody read: lost-write, lost-tail, unseen, and false-ack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import is_in
from checkers.core.findings import Findings, make_findings
from checkers.core.partitions import PLACE
from checkers.core.run import RunContext, by
from checkers.delivery.value_counts import with_places
from checkers.shared.fates import Fates
from harness.history.schema import Type

STUCK_NS = 5_000_000_000
DEPOSED_NS = 10_000_000_000  # after a new leader was seen, for the one before it to hear of it
SETTLED = "settled"
GONE = "deleted topic"
STANDING_AT_MOST = 5  # readers that the evidence names


@dataclass(frozen=True)
class GatheredDelivery:
    """What is known of partitions and their values: `places` is there for everybody."""

    shown: pl.DataFrame  # what each partition shows (`checkers.core.partitions`)
    readers: pl.DataFrame
    counts: pl.DataFrame  # of values, by the partition that they belong to

    @cached_property
    def places(self) -> pl.DataFrame:
        """A row for each partition that values belong to: how many, how far readers got, how final reads ended."""
        whole = self.counts.join(self.shown, on=PLACE, how="left", maintain_order="left")
        plain = pl.col("values") > pl.col("transactional")
        return whole.with_columns(
            final_ok=pl.col("final_invoked").is_not_null(),
            reached=pl.max_horizontal(
                pl.when(plain).then("any_reached"), pl.when(pl.col("transactional") > 0).then("committed_reached")
            ),
        )


def acknowledged_findings(fates: Fates, gathered: GatheredDelivery, run: RunContext) -> tuple[list[Findings], int]:
    """Findings, and how many were acknowledged without an offset in partitions that were read to their end since."""
    unread = (fates.type == Type.OK) & ~fates.read & ~is_in(fates.topic, run.compacted)
    offsetless = (fates.type == Type.OK) & (fates.acknowledged < 0)
    untrue = _acknowledgements(fates.only(offsetless), gathered, run)
    lasting = untrue.filter(~by(run.compacted, "topic") & ENDED)
    found = [
        *_unread(_acknowledgements(fates.only(unread), gathered, run), gathered, run),
        make_findings(
            "false-ack", untrue, run, **_ACKNOWLEDGEMENT, tags=("no_offset", "gone"), facts=("acknowledged",)
        ),
    ]
    return found, len(lasting)


ENDED = pl.col("completed") <= pl.col("final_invoked")  # by a read begun after the acknowledgement
STUCK = pl.col("final_invoked").is_null() & (
    pl.col("final_time") - pl.max_horizontal("final_begun", "final_moved") >= STUCK_NS
)
_ACKNOWLEDGEMENT: dict[str, Any] = {
    "offset": "acknowledged", "values": ("value",), "time": "completed", "events": ("send_event",),
}  # fmt: skip


def _acknowledgements(fates: Fates, gathered: GatheredDelivery, run: RunContext) -> pl.DataFrame:
    """Values that were acknowledged, with what their partitions show, and tags."""
    rows = with_places(fates.frame("value", *PLACE, "acknowledged", "completed", "txn", "send_event"))
    rows = rows.with_columns(gone=np.minimum(fates.invoked, fates.seen) < run.deletions.until(fates.topic))
    return rows.join(gathered.shown, on=PLACE, how="left", maintain_order="left").with_columns(
        gone=tag_if(pl.col("gone"), GONE),
        no_offset=tag_if(~USABLE, "no offset"),
        reached=_of_kind("any_reached", "committed_reached"),
        reached_event=_of_kind("any_reached_event", "committed_reached_event"),
        known_end=pl.coalesce("final_end", pl.when(pl.col("txn").is_null()).then("shown_end")),
        settled=tag_if(_settled(run), SETTLED),
    )


USABLE = (pl.col("acknowledged") >= 0).fill_null(value=False)


def _of_kind(plain: str, in_transaction: str) -> pl.Expr:
    return pl.when(pl.col("txn").is_null()).then(plain).otherwise(in_transaction)


def tag_if(holds: pl.Expr, text: str) -> pl.Expr:
    """A tag, or null."""
    return pl.when(holds).then(pl.lit(text))


def _settled(run: RunContext) -> pl.Expr:
    """Whether it was acknowledged when all faults were over and no leader of its partition changed any more."""
    faults = [fault for fault in run.line.faults if fault.injected_ns is not None]
    ends = [instant for fault in faults for instant in (fault.undone_ns, fault.healed_ns)]
    instants = [instant for instant in ends if instant is not None]
    if not faults or len(instants) < len(ends):
        return pl.lit(value=False)
    over, completed, since = max(instants), pl.col("completed"), pl.col("led_since")
    led_on = (since <= over) | (completed > since + DEPOSED_NS)
    return (completed > over) & (completed < pl.col("led_until")) & led_on


def _unread(rows: pl.DataFrame, gathered: GatheredDelivery, run: RunContext) -> Iterator[Findings]:
    """What is lost, and what is stuck."""
    offset, reached = pl.col("acknowledged"), pl.col("reached")
    passed = rows.filter(USABLE & (offset <= reached))
    ahead = rows.filter(USABLE & (reached.is_null() | (offset > reached)))
    unseen = ahead.filter(STUCK & (offset < pl.col("known_end")))
    send = _ACKNOWLEDGEMENT | {"tags": ("no_offset", "gone", "settled")}
    yield make_findings(
        "lost-write", passed, run,
        **send | {"events": ("send_event", "reached_event")}, facts=("acknowledged", "reached", "final_end"),
    )  # fmt: skip
    yield make_findings("lost-write", rows.filter(~USABLE & ENDED), run, **send, facts=("acknowledged", "final_end"))
    yield make_findings("lost-tail", ahead.filter(ENDED), run, **send, facts=("acknowledged", "final_end"))
    yield make_findings(
        "unseen", _with_standing(unseen, gathered.readers), run, **send, facts=("acknowledged", "known_end", *STANDING)
    )


STANDING = ("standing_process", "standing_offset", "standing_since_ns")


def _with_standing(rows: pl.DataFrame, readers: pl.DataFrame) -> pl.DataFrame:
    """How far the readers of a partition got, and when they were handed anything last."""
    first = (
        readers.join(rows, on=PLACE, how="semi")
        .sort("process")
        .group_by(PLACE)
        .agg(
            pl.col(column).head(STANDING_AT_MOST).alias(name)
            for name, column in zip(STANDING, ("process", "reached", "moved"), strict=True)
        )
    )
    return rows.join(first, on=PLACE, how="left", maintain_order="left")
