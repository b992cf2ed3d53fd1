"""Senders: whether what one producer sent to one place got offsets in the order in which it was sent.

Messages of a batch get offset after offset: those of one producer and place whose offset and number are the same
distance apart, a thousand numbers at a time, are in order among themselves, and one row. Where these rows follow each
other in both numbers and offsets, all is in order, and that is so in a healthy history. Only where it is not, the sends
are put in order one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.frame import PLACE, History, aggregate
from checkers.log import CHUNK
from checkers.reading import earlier
from harness.history import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SENDER = ("process", *PLACE, "era", "unnumbered")
_STRETCH = 1 << 10  # numbers of a row


def _acknowledged(history: History, where: str) -> DataFrame:
    era = history.deletions.era("invoked", "time") if history.deletions else "0"
    placed = "offset >= 0 and topic is not null and partition is not null"
    return history.sends.where(f"type = {Type.OK:d} and {placed} and ({where})").selectExpr(
        "process", *PLACE, f"{era} as era", "sequence is null as unnumbered", "coalesce(sequence, invoked) as rank",
        "offset", "txn", "value", "event", "time",
    )  # fmt: skip


def disorder(history: History, where: str = "true") -> DataFrame:
    """Per place: sends that were looked at, those in transactions, and signs that some may be out of order."""
    stretches = aggregate(
        history,
        _acknowledged(history, where).selectExpr(
            *_SENDER, "try_subtract(offset, rank) as shift", f"rank div {_STRETCH} as stretch", "rank", "offset", "txn"
        ),
        [*_SENDER, "stretch", "shift"],
        ["min(rank) as least", "max(rank) as most", "min(offset) as low", "max(offset) as high",
         "count(*) as sends", "count(txn) as in_transactions"],
    )  # fmt: skip
    odd = "most_before >= least or high_before >= low or (shift is null and sends > 1)"
    totals = ["sum(sends) as sends", "sum(in_transactions) as in_transactions"]
    if sum(history.sealed.rows.get(kind, 0) for kind in (Kind.COMPLETE, Kind.RECORD)) <= history.chunk_rows:
        return aggregate(history, _after_others(stretches, _SENDER), PLACE, [*totals, f"count_if({odd}) as odd"])
    chunked = stretches.selectExpr("*", f"stretch div {max(1, history.chunk_rows // _STRETCH)} as chunk")
    chunks = aggregate(
        history,
        _after_others(chunked, (*_SENDER, "chunk")),
        [*_SENDER, "chunk"],
        [*totals, f"count_if({odd}) as odd", "min(low) as low", "max(high) as high"],
    )
    across = chunks.selectExpr("*", f"max(high) over {earlier(_SENDER, 'chunk')} >= low as overlaps")
    return aggregate(history, across, PLACE, [*totals, "sum(odd) + count_if(overlaps) as odd"])


def _after_others(stretches: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Each with the highest number and the highest offset of those before it."""
    window = earlier(keys, "least")
    return stretches.selectExpr(
        "*", f"max(most) over {window} as most_before", f"max(high) over {window} as high_before"
    )


def overtaken(history: History, where: str = "true", *, in_transaction: bool = False) -> DataFrame:
    """Sends with that one (`later`) which was sent last among all with lower offsets, if it was sent after them."""
    keys = (*_SENDER, "txn") if in_transaction else _SENDER
    rows = _acknowledged(history, f"({where}) and txn is not null" if in_transaction else where).selectExpr(
        "*", f"offset div {CHUNK} as chunk", "struct(rank, offset, event, time, value, txn) as sent"
    )
    frame = "order by offset range between unbounded preceding and 1 preceding"
    inside = rows.selectExpr("*", f"max(sent) over (partition by {', '.join(keys)}, chunk {frame}) as near")
    lasts = aggregate(history, rows, [*keys, "chunk"], ["max(sent) as sent"])
    carried = lasts.selectExpr(*keys, "chunk", f"max(sent) over {earlier(keys, 'chunk')} as far")
    return (
        inside.join(carried, [*keys, "chunk"], "left")
        .selectExpr("*", "greatest(near, far) as later")
        .where("later.rank > rank")
    )
