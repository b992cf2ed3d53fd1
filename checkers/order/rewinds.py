"""Rewinds: a client asks for offsets again that it had fetched before, and no broker made it do so.

A *fetch* is all rows of one `op` (a row without one is a fetch by itself) of exchanges of Fetch, of one client and one
partition and era, whose client id names a process (`checkers.shared.workers`). It *asks for* its lowest `asked`, and
*reaches* the highest of its `asked` and, in rows of type ok without an error, of `offset` + `count`; it is *refused* if
a row of type ok has an error. Rows that say nothing of all that do not count. The fetches of a client, partition and
era are in the order of `invoked`, then of `event`.

A fetch that asks for an offset of 0 or more is a *rewind* if that is below what the fetch right before it reached,
unless that one was refused (a broker may have sent the client back), or its process completed an ASSIGN of the
partition, however it ended, that overlaps the time from the `invoked` of the one fetch to that of the other, ends
included (the client was sent there). It goes back from `reached`, the highest that any fetch before it reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, Lanes, RangeMaximum, ints, nullable
from checkers.core.moments import MomentIndex
from checkers.core.node_answers import FETCH
from checkers.core.run import SECOND_NS
from checkers.shared.reader_steps import READER, columns, key_of, last_upto
from checkers.shared.workers import worker
from harness.history.schema import F, Type

EXCHANGES = (
    "event", "invoked", "op", "type", "client", "api", "topic", "partition", "offset", "asked", "count", "error",
)  # fmt: skip
WAITS_NS = 10 * SECOND_NS  # in the client's queue, from a fetch until it is handed out
_LANE = (*READER, "era")
OF_FETCH = pl.col("topic").is_not_null() & pl.col("partition").is_not_null() & (pl.col("api") == FETCH)
_SCHEMA = {
    "process": pl.Int32, "topic": pl.Int32, "partition": pl.Int32, "era": pl.Int32, "invoked": pl.Int64,
    "asked": pl.Int64, "reached": pl.Int64,
}  # fmt: skip
NO_REWINDS = pl.DataFrame(schema=_SCHEMA)


def rewinds(exchanges: Iterable[pl.DataFrame], ops: pl.DataFrame, most: int) -> pl.DataFrame:
    """Those of whole partitions, one span of time after the other; the farthest if there are more than so many."""
    found, before = NO_REWINDS, None
    for rows in exchanges:
        fetches = _fetches(rows).with_columns(highest="reach", is_new=pl.lit(value=True))
        if before is not None:
            fetches = pl.concat([before, fetches]).sort(*_LANE, "invoked", "event")
        if len(fetches):
            back, before = _rewound(fetches, ops)
            found = pl.concat([found, back])
        if len(found) > most:
            found = found.top_k(most, by=pl.col("reached") - pl.col("asked"))
    return found


def _rewound(fetches: pl.DataFrame, ops: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rewinds among new fetches; and the last fetch of each lane, with the highest that it or one before reached."""
    lanes = Lanes(key_of(*columns(fetches, _LANE)))
    reach, asked, invoked = (ints(fetches, name) for name in ("reach", "asked", "invoked"))
    highest = lanes.upto(ints(fetches, "highest"))
    back = (asked >= 0) & (asked < lanes.shifted(reach)) & (lanes.shifted(ints(fetches, "refused")) == 0)
    back &= _assigned_upto(fetches, ops) < lanes.shifted(invoked)
    back &= fetches["is_new"].to_numpy()
    told = fetches.with_columns(reached=nullable(lanes.shifted(highest))).filter(pl.Series(back)).select(list(_SCHEMA))
    last = np.append(lanes.starts[1:], len(fetches)) - 1
    return told, fetches[last].with_columns(highest=nullable(highest[last]), is_new=pl.lit(value=False))


def _fetches(exchanges: pl.DataFrame) -> pl.DataFrame:
    """All fetches of workers, in order, one lane after the other."""
    rows = exchanges.filter(OF_FETCH).drop("process", strict=False)  # that of the tap
    clients = rows.select("client").unique().with_columns(process=worker()).drop_nulls()
    answered = (pl.col("type") == Type.OK).fill_null(value=False)
    served = pl.when(answered & (pl.col("error") == 0)).then(pl.col("offset") + pl.col("count"))
    return (
        rows.join(clients, on="client")
        .with_columns(
            fetch=pl.coalesce("op", "event"),
            reach=pl.max_horizontal("asked", served),
            refused=(answered & (pl.col("error") != 0)).fill_null(value=False),
        )
        .filter(pl.col("reach").is_not_null() | pl.col("refused"))
        .group_by(*_LANE, "fetch")
        .agg(pl.col("asked", "invoked", "event").min(), pl.col("reach").max(), pl.col("refused").any().cast(pl.Int64))
        .sort(*_LANE, "invoked", "event")
    )


def _assigned_upto(fetches: pl.DataFrame, ops: pl.DataFrame) -> Ints:
    """When the last of those assignments ended that were begun by the time of a fetch; NONE without any."""
    given = (pl.col("f") == F.ASSIGN) & pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
    assigns = ops.filter(given).sort(*READER, "invoked")
    until = Lanes(key_of(*columns(assigns, READER))).upto(ints(assigns, "time"))
    return last_upto(columns(assigns, (*READER, "invoked")), columns(fetches, (*READER, "invoked")), until)


def in_order(pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Those of all pieces, as `asked_again` wants them."""
    return pl.concat([NO_REWINDS, *pieces]).sort(*_LANE, "invoked", "reached")


def asked_again(steps: pl.DataFrame, found: pl.DataFrame) -> Bools:
    """Whether a rewind explains a step back: to its end or below, from beyond it, and not long before the step.

    What any fetch before it reached only rises, so that those from beyond an offset are the last ones of their lane.
    """
    if steps.is_empty() or found.is_empty():
        return np.zeros(len(steps), np.bool_)
    keys = [np.concatenate([ints(found, name), ints(steps, name)]) for name in _LANE]
    lane = np.unique(key_of(*keys), return_inverse=True)[1].astype(np.int64)
    lane, lane_of_step = lane[: len(found)], lane[len(found) :]
    to, began = ints(steps, "to"), np.maximum(ints(steps, "invoked"), NONE + WAITS_NS) - WAITS_NS
    by_time = MomentIndex(lane, ints(found, "invoked"))
    first = np.maximum(
        by_time.count(lane_of_step, began), MomentIndex(lane, ints(found, "reached")).count(lane_of_step, to + 1)
    )
    beyond = np.maximum(by_time.count(lane_of_step, ints(steps, "to_time")), first)
    asked = ints(found, "asked")
    lowest = RangeMaximum(-asked).best(first, beyond)
    explained: Bools = (lowest >= 0) & (asked[lowest] <= to)
    return explained
