"""Lanes of offsets, each a stretch of a partition and era: what happened in them, and which have to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, Lanes, ints, nullable
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily
from checkers.core.node_answers import LIST_OFFSETS, Epochs
from checkers.core.piece import Piece, marks_of
from checkers.core.run import ONE_STRETCH, RunContext
from checkers.linearizability import offsets, visibility
from checkers.shared.by_offset import (
    ENDED,
    FINAL,
    LATE,
    OLD_ENDED,
    OWN_LED,
    SENT,
    LowerMoments,
    OffsetTimes,
    moment_rows,
    sorted_marks,
)
from checkers.shared.reader_steps import key_of
from checkers.shared.unknown_sends import late as late_of
from checkers.shared.unknown_sends import proven_sends
from harness.history.schema import Type

PLACE = ("topic", "partition")
LANE = (*PLACE, "era", "stretch")


@dataclass(frozen=True)
class GatheredLanes:
    """What pieces said of their lanes, put together."""

    lanes: pl.DataFrame
    standstills: pl.DataFrame
    tops: pl.DataFrame  # the last answers of each stretch, by what they are
    sent: pl.DataFrame  # the last sends of each stretch
    finals: pl.DataFrame


def lanes_of(offset_times: OffsetTimes, run: RunContext) -> pl.DataFrame:
    """A row for each lane of a piece: what happened at its offsets, as extremes and counts."""
    lanes, log = offset_times.lanes, offset_times.log
    starts = lanes.starts
    if not len(offset_times):
        return no_tables()["lanes"]
    sure = log.keys.parts(offset_times.at)["era"] != UNSURE
    acked, logged = offset_times.acks > 0, (offset_times.acked != NEVER) | (offset_times.read != NEVER)
    led_upto, done = lanes.upto(offset_times.led), offset_times.done
    sent_upto, sent_below = lanes.upto(offset_times.sent), lanes.below(offset_times.sent)
    ended_upto = lanes.upto(offset_times.ended)
    wrong = sure & (
        (done < sent_upto) | (done < ended_upto)
        | (offset_times.end_shown < np.maximum(sent_below, lanes.shifted(ended_upto)))
        | (offset_times.acked < led_upto)
        | (offset_times.shown < np.maximum(sent_below, lanes.below(offset_times.final)))
    )  # fmt: skip
    wrong[offset_times.of_log] |= offsets.odd(log)
    value_known = np.zeros(len(offset_times), np.bool_)
    value_known[offset_times.of_log] = log.high != NONE
    first = log.keys.parts(offset_times.at[starts])
    add, most, least = np.add.reduceat, np.maximum.reduceat, np.minimum.reduceat

    def count(mask: Bools) -> Ints:
        counted: Ints = add(mask.astype(np.int64), starts)
        return counted

    ended = offset_times.ended != NONE
    whole = run.stretch >= ONE_STRETCH
    return pl.DataFrame({
        **{name: pl.Series(first[name]).cast(pl.Int32) for name in (*PLACE, "era")},
        "stretch": np.zeros(len(starts), np.int64) if whole else first["offset"] // run.stretch,
        "wrong": count(wrong) > 0, "values": count(value_known), "acks": count(acked),
        "sure_acks": count(acked & sure), "rows": count(logged & sure),
        "ends": count((offset_times.end_shown != NEVER) & sure),
        "shown": count((offset_times.shown != NEVER) & sure), "acks_led": count(acked & sure & (led_upto != NONE)),
        "sent_max": nullable(most(offset_times.sent, starts)), "ended_max": nullable(most(offset_times.ended, starts)),
        "led_max": nullable(most(offset_times.led, starts)), "final_max": nullable(most(offset_times.final, starts)),
        "acked_min": nullable(least(offset_times.acked, starts), NEVER),
        "done_min": nullable(least(done, starts), NEVER),
        "end_min": nullable(least(offset_times.end_shown, starts), NEVER),
        "shown_min": nullable(least(offset_times.shown, starts), NEVER),
        "acked_max": nullable(most(np.where(acked, offset_times.acked, NONE), starts)),
        "offset_max": most(log.keys.parts(offset_times.at)["offset"], starts),
        "any_end": count(ended) > 0,
    })  # fmt: skip


_LANE_SCHEMA: dict[str, Any] = {
    "topic": pl.Int32, "partition": pl.Int32, "era": pl.Int32, "stretch": pl.Int64, "wrong": pl.Boolean,
    **dict.fromkeys(
        ("values", "acks", "sure_acks", "rows", "ends", "shown", "acks_led", "sent_max", "ended_max",
         "led_max",
         "final_max", "acked_min", "done_min", "end_min", "shown_min", "acked_max", "offset_max"),
        pl.Int64,
    ),
    "any_end": pl.Boolean,
}  # fmt: skip


@cache
def no_tables() -> dict[str, pl.DataFrame]:
    """The tables of a piece in which nothing happened."""
    top = {"topic": pl.Int32, "partition": pl.Int32, "era": pl.Int32, "stretch": pl.Int64, **_TOP_SCHEMA}
    return {
        "lanes": pl.DataFrame(schema=_LANE_SCHEMA),
        "standstills": pl.DataFrame(schema=visibility.STANDSTILL),
        **{name: pl.DataFrame(schema=top) for name in ("tops", "sent", "finals")},
    }


_TOP_SCHEMA: dict[str, Any] = {
    "what": pl.Int8, "epoch": pl.Int32, "at": pl.Int64, "event": pl.Int64, "other": pl.Int64, "value": pl.Int64,
    "node": pl.Int32,
}  # fmt: skip


def last_answers(piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
    """The last moment of each sort in each stretch: what lanes above it have to know; nobody is above a single one."""
    nothing = no_tables()
    if run.stretch >= ONE_STRETCH:
        return {name: nothing[name] for name in ("tops", "sent", "finals")}
    epochs = Epochs(piece.epochs)
    tops = pl.concat([_last(_by_sort(answers, epochs), run) for answers in piece.answer_parts()])
    sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    return {
        "tops": _lasting(tops),
        "sent": _last(sends.with_columns(what=pl.lit(SENT, pl.Int8), epoch=pl.lit(None, pl.Int32)), run),
        "finals": _last(piece.finals.with_columns(what=pl.lit(FINAL, pl.Int8), epoch=pl.lit(None, pl.Int32)), run),
    }


def _last(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    if rows.is_empty():
        return no_tables()["tops"]
    told = pl.concat([
        rows.select(*PLACE, "era", (pl.col("offset") // run.stretch).alias("stretch"), "what", "epoch"),
        moment_rows(rows, "invoked", "time"),
    ], how="horizontal")  # fmt: skip
    return _lasting(told)


def _lasting(told: pl.DataFrame) -> pl.DataFrame:
    """The last moment of each sort in each stretch."""
    if told.is_empty():
        return no_tables()["tops"]
    keys = [*LANE, "what", "epoch"]
    last = _latest(told, keys).sort("at", "event").group_by(keys).last().select(no_tables()["tops"].columns)
    return last.cast(no_tables()["tops"].schema)


def _by_sort(answers: pl.DataFrame, epochs: Epochs) -> pl.DataFrame:
    """Marks by the sort of their leader, and ends once more by whether that was deposed."""
    marks = sorted_marks(marks_of(answers), epochs)
    ends = marks.filter(pl.col("api") == LIST_OFFSETS).with_columns(
        sort=pl.when("old").then(OLD_ENDED).otherwise(ENDED).cast(pl.Int8)
    )
    return pl.concat([marks, ends]).with_columns(
        what=pl.col("sort"), epoch=pl.when(pl.col("sort") == OWN_LED).then("epoch")
    )


def _latest(told: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows that are the latest of their keys: few, which is why sorting is for them alone."""
    groups, at = GroupBy(key_of(*(ints(told, name, _NO_EPOCH) for name in keys))), ints(told, "at")
    return told.filter(pl.Series(at == groups.max(at)[groups.number()]))


_NO_EPOCH = -(1 << 32)  # no column that is a key has numbers as low as that


_BELOW = ("sent", "ended", "led", "final")


def with_lower_stretches(lanes: pl.DataFrame, standstills: pl.DataFrame) -> pl.DataFrame:
    """Whether lower stretches, or a watermark that stood still, contradict a lane."""
    place = [*PLACE, "era"]
    rows = Lanes(key_of(*(ints(lanes, name) for name in place)))  # which are in order
    below = [nullable(rows.below(ints(lanes, f"{name}_max"))).alias(f"{name}_below") for name in _BELOW]
    stood = standstills.group_by(place).agg(
        pl.col("first").min().alias("stood"), pl.col("over").max(), pl.col("mark").min()
    )
    told = lanes.with_columns(below).join(stood, on=place, how="left", maintain_order="left")
    sent, ended = pl.col("sent_below"), pl.col("ended_below")
    contradicted = (
        (pl.col("done_min") < sent) | (pl.col("done_min") < ended) | (pl.col("end_min") < sent)
        | (pl.col("end_min") < ended) | (pl.col("acked_min") < pl.col("led_below"))
        | (pl.col("shown_min") < sent) | (pl.col("shown_min") < pl.col("final_below"))
    )  # fmt: skip
    frozen = (
        (pl.col("acked_max") > pl.col("stood"))
        & (pl.col("acked_min") <= pl.col("over") - visibility.FROZEN_NS)
        & (pl.col("offset_max") >= pl.col("mark"))
    )
    sure = pl.col("era") != UNSURE
    return told.with_columns(
        wrong=pl.col("wrong") | (sure & (contradicted | frozen).fill_null(value=False)),
        acks_led=pl.when(pl.col("led_below").is_not_null()).then("sure_acks").otherwise("acks_led"),
    )


def suspicious_lanes(gathered: GatheredLanes, others: ByFamily) -> pl.Series:
    """The lanes that have to be judged: also those that an `info` send which was read may contradict."""
    late = others["fates"].late if "fates" in others else None
    if late is None or late.is_empty():
        return gathered.lanes["wrong"]
    latest = late.group_by("topic", "partition", "era").agg(pl.col("invoked").max().alias("late"))
    joined = gathered.lanes.join(latest, on=["topic", "partition", "era"], how="left", maintain_order="left")
    earliest = pl.min_horizontal("done_min", "end_min", "shown_min")
    return joined.select(pl.col("wrong") | (earliest < pl.col("late")).fill_null(value=False)).to_series()


def chosen_offsets(piece: Piece, gathered: GatheredLanes, others: ByFamily) -> Bools:
    """Which points of this piece lie in lanes that have to be judged."""
    offset_times = piece.offset_times
    if not len(offset_times):
        return np.zeros(0, np.bool_)
    wanted = gathered.lanes.filter(suspicious_lanes(gathered, others))
    keys, run = offset_times.log.keys, piece.run
    of_lanes = _lane_of(wanted, keys, run)
    return np.isin(keys.lane(offset_times.at), of_lanes[of_lanes >= 0])


def _lane_of(frame: pl.DataFrame, keys: Any, run: RunContext) -> Ints:
    """The lane in this piece of each row that names a stretch; -1 where it is in another piece."""
    stretch = pl.lit(0, pl.Int64) if run.stretch >= ONE_STRETCH else pl.col("stretch") * run.stretch
    at = keys.at(frame.with_columns(offset=stretch))
    inside = np.ones(len(frame), np.bool_)
    for name, low, bits in zip(PLACE, keys.lowest, keys.bits, strict=False):
        column = frame[name].to_numpy()
        inside &= (column >= low) & (column < low + (1 << bits))
    return np.where(inside & (at >= 0), keys.lane(np.maximum(at, 0)), -1)


def late_sends(piece: Piece, others: ByFamily) -> pl.DataFrame:
    """Sends that ended `info` and were read; known once values were gathered."""
    if "fates" in others:
        late: pl.DataFrame = others["fates"].late
        return late
    return late_of(piece.sends, piece.records)


def proven_here(piece: Piece, others: ByFamily) -> pl.DataFrame:
    """Sends of this piece that ended `info` and certainly happened, at an offset that only they name."""
    return proven_sends(piece.sends, others["fates"].proven) if "fates" in others else piece.sends.clear()


def lower_moments(piece: Piece, gathered: GatheredLanes, others: ByFamily) -> LowerMoments | None:
    """The last moments of the stretches below the lanes of this piece."""
    run = piece.run
    if run.stretch >= ONE_STRETCH:
        return None
    offset_times = piece.offset_times
    keys = offset_times.log.keys
    late = late_sends(piece, others)
    tops = [gathered.tops, gathered.sent, gathered.finals]
    if len(late):
        tops.append(_last(late.with_columns(what=pl.lit(LATE, pl.Int8), epoch=pl.lit(None, pl.Int32)), run))
    lanes = gathered.lanes.filter(pl.Series(_lane_of(gathered.lanes, keys, run) >= 0)).select(LANE)
    lanes = lanes.filter(pl.Series(np.isin(_lane_of(lanes, keys, run), keys.lane(offset_times.at))))
    below = _highest_below(lanes, pl.concat(tops))
    return LowerMoments(
        lane=_lane_of(below, keys, run),
        what=below["what"].to_numpy().astype(np.int64),
        epoch=below["epoch"].fill_null(-1).to_numpy().astype(np.int64),
        moments=below.select("at", "event", "other", "value", "node"),
    )


def _highest_below(lanes: pl.DataFrame, tops: pl.DataFrame) -> pl.DataFrame:
    """For each lane, and each sort of moment of its partition, the last one of lower stretches."""
    sorts = ["topic", "partition", "era", "what", "epoch"]
    place = ["topic", "partition", "era"]
    moment = pl.struct("at", "event", "other", "value", "node")
    ranked = tops.with_columns(rank=pl.struct("at", "event").rank("ordinal").cast(pl.Int64))
    ranked = ranked.with_columns(moment=moment).sort("stretch")
    best = ranked.with_columns(best=pl.col("rank").cum_max().over(sorts)).join(
        ranked.select(best="rank", top="moment"), on="best", how="left"
    )
    asked = lanes.join(ranked.select(sorts).unique(), on=place, nulls_equal=True).sort("stretch")
    told = best.select(*sorts, (pl.col("stretch") + 1).alias("stretch"), "top").with_columns(
        pl.col("epoch").fill_null(-1)
    ).sort("stretch")  # fmt: skip
    joined = asked.with_columns(pl.col("epoch").fill_null(-1)).join_asof(
        told, on="stretch", by=sorts, strategy="backward", check_sortedness=False
    )
    return joined.filter(pl.col("top").is_not_null()).unnest("top")
