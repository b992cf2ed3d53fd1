"""Stretches of time in which a partition stood still: no record for the load, or no send got through.

What they are is told in `checkers.liveness.family` and `checkers.progress`. Both are made of what happened in each
second of a partition: sums of that kind can be put together from pieces, and there are few enough to put them in order.

A *place* is a topic and a partition as one number. Moments within a second are nanoseconds since it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, Lanes, ints, nullable
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import place_of
from harness.history.schema import F, Type

SECOND_NS = 1_000_000_000
IMBALANCE = 10  # a reader that lacks more than one in so many is behind
SENDS = ("topic", "partition", "offset", "type", "txn", "invoked", "time")
OPS = ("topic", "partition", "process", "f", "type", "count", "invoked", "time")
RECORDS = ("topic", "partition", "process", "offset", "time")

_LOWEST = ("first_ok", "asked", "first_read")
_HIGHEST = ("acked", "ack_time", "last_ok", "done", "read", "last_read")
_SECOND = pl.col("time") // SECOND_NS
_MOMENT = (pl.col("time") - _SECOND * SECOND_NS).cast(pl.Int32)


@dataclass(frozen=True)
class Seconds:
    """What was sent and read when, as far as one piece knows, or all of them do."""

    sends: pl.DataFrame  # by place and second
    reads: pl.DataFrame  # the same: what the load was handed
    readers: pl.DataFrame  # which process of the load was handed anything of a place
    assigned: pl.DataFrame  # when each process of the load was assigned a place first
    in_txn: pl.DataFrame  # places with sends in transactions
    polled: tuple[int | None, int | None]  # when the load's first poll began, and when its last one ended
    busy: pl.Series  # seconds in which anything was completed or answered anywhere


def placed(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Those with a place, of topics that nobody deleted."""
    return rows.with_columns(place=pl.Series(place_of(rows), dtype=pl.Int64)).filter(
        (pl.col("place") >= 0) & run.deletions.untouched()
    )


def survey(piece: Piece, run: RunContext) -> Seconds:
    """Of a piece."""
    sends = placed(piece.sends, run)
    load = by(run.load)
    records = placed(piece.records.filter(load & pl.col("offset").is_not_null()), run)
    ops = piece.ops.filter(load)
    assigned = placed(ops.filter((pl.col("f") == F.ASSIGN) & (pl.col("type") == Type.OK)), run)
    polls = ops.filter((pl.col("f") == F.POLL) & pl.col("count").is_not_null())
    rows = (piece.sends, piece.ops, *piece.parts("probes", ("time",)))
    busy = [frame.select(_SECOND).to_series().unique() for frame in rows]
    return Seconds(
        sends=_sends_by_second(sends),
        reads=_reads_by_second(records),
        readers=records.select("place", "process").unique(),
        assigned=assigned.group_by("place", "process").agg(opened=pl.col("time").min()),
        in_txn=sends.filter(pl.col("txn").is_not_null()).select("place").unique(),
        polled=(_number(polls["invoked"].min()), _number(polls["time"].max())),
        busy=pl.concat(busy).unique(),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _sends_by_second(sends: pl.DataFrame) -> pl.DataFrame:
    """What was acknowledged (`acked`, `acks`, `ack_time`), got through, was completed, and when that was `asked`."""
    ok = pl.col("type") == Type.OK
    acked = ok & (pl.col("offset") >= 0)
    rows = sends.select(
        "place", _SECOND.alias("second"), acked=pl.when(acked).then("offset"), acks=acked.cast(pl.Int32),
        ack_time=pl.when(acked).then(_MOMENT), ok=pl.when(ok).then(_MOMENT), done=_MOMENT, asked="invoked",
    )  # fmt: skip
    return rows.group_by("place", "second").agg(
        pl.col("acked", "ack_time", "done").max(),
        pl.col("acks").sum(),
        pl.col("asked").min(),
        first_ok=pl.col("ok").min(),
        last_ok=pl.col("ok").max(),
    )


def _reads_by_second(records: pl.DataFrame) -> pl.DataFrame:
    """The highest offset of those handed out, and when the first and the last were."""
    rows = records.select("place", _SECOND.alias("second"), "offset", moment=_MOMENT)
    return rows.group_by("place", "second").agg(
        read=pl.col("offset").max(), first_read=pl.col("moment").min(), last_read=pl.col("moment").max()
    )


def gather(surveys: Sequence[Seconds]) -> Seconds:
    """Of all pieces."""
    return Seconds(
        sends=pl.concat([each.sends for each in surveys]),
        reads=pl.concat([each.reads for each in surveys]),
        readers=pl.concat([each.readers for each in surveys]).unique(),
        assigned=pl.concat([each.assigned for each in surveys]),
        in_txn=pl.concat([each.in_txn for each in surveys]).unique(),
        polled=(
            min((first for each in surveys if (first := each.polled[0]) is not None), default=None),
            max((last for each in surveys if (last := each.polled[1]) is not None), default=None),
        ),
        busy=pl.concat([each.busy for each in surveys]).unique().sort(),
    )


def in_order(seconds: Seconds) -> pl.DataFrame:
    """What was sent and read, a row per place and second; one also for the second in which a place was assigned."""
    assigned = seconds.assigned.group_by("place").agg(second=pl.col("opened").min() // SECOND_NS)
    rows = pl.concat([seconds.sends, seconds.reads, assigned], how="diagonal")
    if rows.is_empty():
        return rows
    place, second = ints(rows, "place"), ints(rows, "second")
    low, high = int(second.min()), int(second.max())
    key = GroupBy(place).number() * (high - low + 1) + (second - low)
    groups = GroupBy(key, np.argsort(key))
    first = groups.order[groups.starts]
    lowest = {name: nullable(groups.min(ints(rows, name, NEVER)), NEVER) for name in _LOWEST}
    highest = {name: nullable(groups.max(ints(rows, name))) for name in _HIGHEST}
    acks = groups.sum(ints(rows, "acks", 0))
    return pl.DataFrame({"place": place[first], "second": second[first], "acks": acks, **lowest, **highest})


def _moments(rows: pl.DataFrame, name: str, missing: int) -> Ints:
    inside = ints(rows, name, -1)
    return np.where(inside < 0, missing, ints(rows, "second") * SECOND_NS + inside)


def _numbers(lanes: Lanes, begins: Bools) -> Ints:
    """Of each row the number of its stretch. Before the first that begins in a lane there is one more, maybe empty."""
    steps = begins.astype(np.int64)
    steps[lanes.starts] += 1
    return np.cumsum(steps) - 1


def of_sends(rows: pl.DataFrame) -> pl.DataFrame:
    """Stretches in which no send got through that last at all: `place`, `since`, `until`."""
    rows = rows.filter(pl.col("done").is_not_null())
    place, asked = ints(rows, "place"), ints(rows, "asked", NEVER)
    first_ok, last_ok = _moments(rows, "first_ok", NEVER), _moments(rows, "last_ok", NONE)
    got = first_ok != NEVER
    number = _numbers(Lanes(place), got)
    before, ended = number[got] - 1, number[got]
    count = int(number[-1]) + 1 if len(number) else 0
    places, since, until = (np.full(count, NONE) for _ in range(3))
    places[number], places[before] = place, place[got]
    since[ended] = last_ok[got]
    begun = np.full(count, NEVER)
    np.minimum.at(begun, number[~got], asked[~got])
    begun[before] = np.minimum(begun[before], asked[got])
    np.maximum.at(until, number[~got], _moments(rows, "done", NONE)[~got])
    until[before] = first_ok[got]
    since = np.maximum(since, np.where(begun == NEVER, NONE, begun))
    return pl.DataFrame({"place": places, "since": since, "until": until}).filter(pl.col("until") > pl.col("since"))


def of_reads(rows: pl.DataFrame, seconds: Seconds, run: RunContext) -> tuple[pl.DataFrame, int]:
    """Stalls, and partitions that are late; and how many stretches without a record there are.

    Beside `place`, `since` and `until`: `position`, the highest offset handed out before; whether it is `stalled` or
    else late, and then what was acknowledged in time (`early`); `in_txn` and `by_group`, of the place.
    """
    lanes = Lanes(ints(rows, "place"))
    position = lanes.upto(ints(rows, "read"))
    position = np.where(position == NONE, -1, position)
    begins = np.diff(_numbers(lanes, ints(rows, "read") != NONE), prepend=-1) > 0
    places = _places(seconds, run)
    behind = _behind(rows, lanes, position, begins, seconds.polled[1])
    stalls = _stalls(behind.join(places, on="place"), run)
    ends = np.append(lanes.starts[1:], len(rows)) - 1 if len(rows) else lanes.starts
    at_end = pl.DataFrame({"place": lanes.lane[ends], "position": position[ends]})
    late = _late(at_end.join(_early(rows, seconds, run), on="place").join(places, on="place"), stalls, seconds)
    return pl.concat([stalls, late], how="diagonal_relaxed").sort("place", "since"), int(begins.sum())


def _places(seconds: Seconds, run: RunContext) -> pl.DataFrame:
    """What is known of each place that is anybody's to read: since when, and by whom."""
    opened = seconds.assigned.select("place", "process", "opened")
    readers = seconds.readers.with_columns(reader=pl.col("process"))
    whole = pl.concat([opened, readers], how="diagonal").group_by("place").agg(
        pl.col("opened").min(),
        pl.col("reader").min(),
        other_reader=pl.col("reader").max(),
        by_group=by(run.members).any(),
    )  # fmt: skip
    alone = pl.when(pl.col("reader") == pl.col("other_reader")).then("reader")
    in_txn = seconds.in_txn.with_columns(in_txn=pl.lit(value=True))
    return (
        whole.select("place", "by_group", reader=alone, opened=pl.coalesce("opened", pl.lit(seconds.polled[0])))
        .join(in_txn, on="place", how="left")
        .with_columns(pl.col("in_txn").fill_null(value=False))
    )


def _behind(rows: pl.DataFrame, lanes: Lanes, position: Ints, begins: Bools, last_poll: int | None) -> pl.DataFrame:
    """Stretches without a record that have a second that is behind, from the first such second on."""
    number = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    behind = np.flatnonzero(lanes.upto(ints(rows, "acked")) > position)
    behind = behind[np.diff(number[behind], prepend=-1) > 0]
    begun = first[number[behind]]
    beyond = np.append(first, len(rows))[number[behind] + 1]
    next_ = np.minimum(beyond, len(rows) - 1)
    has_next = (beyond < len(rows)) & (lanes.lane[next_] == lanes.lane[begun])
    end = NONE if last_poll is None else last_poll
    since = np.maximum(_moments(rows, "last_read", NONE)[begun], _moments(rows, "ack_time", NONE)[behind])
    until = np.where(has_next, _moments(rows, "first_read", NONE)[next_], end)
    spans = {"place": lanes.lane[begun], "position": position[begun], "since": since, "until": until}
    return pl.DataFrame(spans | {"at_end": ~has_next})


def _stalls(behind: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Those that last for too long."""
    return (
        behind.with_columns(since=pl.max_horizontal("since", "opened"))
        .filter((pl.col("until") != NONE) & (pl.col("until") - pl.col("since") >= run.limit_ns("stall_s")))
        .select("place", "position", "since", "until", "at_end", "in_txn", "by_group", stalled=pl.lit(value=True))
    )


def _early(rows: pl.DataFrame, seconds: Seconds, run: RunContext) -> pl.DataFrame:
    """Of each place the highest offset, and the number, of what was acknowledged so early that it has to be read."""
    last_poll = seconds.polled[1]
    limit = NONE if last_poll is None else last_poll // SECOND_NS - run.limit_ns("stall_s") // SECOND_NS
    chosen = rows.filter((pl.col("second") <= limit) & pl.col("acked").is_not_null())
    return chosen.group_by("place").agg(early=pl.col("acked").max(), early_acks=pl.col("acks").sum())


def _late(ends: pl.DataFrame, stalls: pl.DataFrame, seconds: Seconds) -> pl.DataFrame:
    """Places that are behind though their one reader came to the end of another partition of the topic."""
    alone = ends.filter(pl.col("reader").is_not_null()).with_columns(topic=pl.col("place") // (1 << 32))
    missing = pl.col("early") - pl.col("position")
    done = alone.filter(missing <= 0).select("topic", "reader").unique()
    stalled = stalls.filter("at_end").select("place")
    return (
        alone.filter(missing > pl.col("early_acks") // IMBALANCE)
        .join(done, on=["topic", "reader"], how="semi")
        .join(stalled, on="place", how="anti")
        .select("place", "position", "early", "in_txn", "by_group", stalled=pl.lit(value=False))
        .with_columns(pl.lit(seconds.polled[1], pl.Int64).alias(name) for name in ("since", "until"))
    )


def empty_seconds(spans: pl.DataFrame, busy: pl.Series) -> pl.Series:
    """Of each span the whole seconds in it, without its first and last one, in which nothing happened anywhere."""
    low, high = ints(spans, "since") // SECOND_NS, ints(spans, "until") // SECOND_NS
    known = busy.to_numpy()
    active = np.searchsorted(known, high, side="left") - np.searchsorted(known, low, side="right")
    return pl.Series("empty", np.maximum(0, high - low - 1 - active), dtype=pl.Int64)
