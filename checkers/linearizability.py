"""Linearizability of each partition: exact, without a search, because offsets give the order.

A partition is a log with append → offset, read(offset) → value and end() → offset. Operations are

append   the sends that ended `ok` with one offset >= 0, as one operation: invoked when the last of them was, complete
         when the first of them was acknowledged or, if that is earlier, when a record of that offset was first handed
         to anybody (the end of that poll). What was sent in a transaction completes with the transaction, later than
         it was appended: that asks for less, never for more.
         An `info` send is an append, too, invoked as it was, at each offset of its partition at which a good record
         with its value was read; and never complete but by a read.
read     of an offset: it ends after the append. What nobody knows the send of is an append all the same, invoked at any
         time.
end      an answer to ListOffsets(latest) without an error (`checkers.core.node_answers`), of a probe or one that
         reached its client. Those that show the same end are one operation: invoked when the last of them was, complete
         when the first was.

The order of operations is that of offsets, end() → e right before the append at e. Each takes effect at a moment, not
before it was invoked and not after it was complete; and moments do not fall from one operation to the next one in the
order. (So two operations that touch at one instant do not contradict each other.) They exist if and only if no
operation x was complete before one of lower order was invoked, or an append before itself was: a maximum over all that
is below says it.

realtime-order     x was acknowledged before a send was invoked that was acknowledged with a lower offset.
not-linearizable   x contradicts an operation of lower order, or itself:
    append         an append x that was complete before an append at the same or a lower offset was invoked; where it is
                   no realtime-order
    end, behind    an append x that was complete before an end() → e was invoked, with e <= its offset; where neither of
                   the above contradicts it
    end, ahead     an end() → e that was complete before an append was invoked at an offset < e
    end, fell      an end() → e that was complete before an end() < e was invoked; where it is not ahead
    older epoch    beside `behind`, `fell`: all those end() of lower order were of deposed leaders
    (`checkers.shared.by_offset`)

Each x is one finding of each line at most, together with the operation of lower order that was invoked last. Eras that
are UNSURE (`checkers.deletions`) are left out.

What the rows of the log say by themselves is asked here as well (`checkers.shared.offsets`), and what nodes showed of
them (`checkers.shared.visibility`): all of it is one sort of what happened at offsets.

The summary gives each partition a verdict: `linearizable`; `monotonic only`, if appends and reads have their moments
and some end() has none; `violated`, also if one offset has two values. Partitions without acknowledgements have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, ints, nullable
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.node_answers import EXCHANGES, PROBES, Epochs
from checkers.core.piece import Piece
from checkers.core.run import ONE_STRETCH, RunContext
from checkers.shared import offsets, visibility
from checkers.shared.by_offset import (
    ENDED,
    FINAL,
    LATE,
    OLD_ENDED,
    OWN_LED,
    SENT,
    LowerMoments,
    OffsetTimes,
    Proofs,
    moment_rows,
    sorted_marks,
)
from checkers.shared.fates import late as late_of
from checkers.shared.reader_steps import key_of
from harness.history.schema import Type

LISTED = 50  # partitions that the summary names
PLACE = ("topic", "partition")
LANE = (*PLACE, "era", "stretch")
VERDICTS = ("violated", "monotonic only", "linearizable", "linearizable but for end(), which nobody asked for")
REALTIME, NOT_LINEARIZABLE = "realtime-order", "not-linearizable"


@dataclass(frozen=True)
class GatheredLanes:
    """What pieces said of their lanes, put together."""

    lanes: pl.DataFrame
    standstills: pl.DataFrame
    tops: pl.DataFrame  # the last answers of each stretch, by what they are
    sent: pl.DataFrame  # the last sends of each stretch
    finals: pl.DataFrame


class Linearizability(Family):
    """Everything that is asked of the order of offsets."""

    name = "linearizability"
    anomalies: ClassVar[Mapping[str, str]] = {
        **offsets.ABOUT,
        REALTIME: "a send that began after another was acknowledged got a lower offset",
        NOT_LINEARIZABLE: "operations that cannot have happened in the order of their offsets",
        **visibility.ABOUT,
    }
    needs_acknowledgements = frozenset({"shared-offset", "false-ack", REALTIME, NOT_LINEARIZABLE, *visibility.ABOUT})
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": ("event", "time", "invoked", "type", "topic", "partition", "offset", "value"),
        "records": ("event", "time", "process", "topic", "partition", "offset", "value", "status"),
        "probes": PROBES,
        "exchanges": EXCHANGES,
        "ops": ("event", "time", "invoked", "f", "type", "topic", "partition", "end"),
    }

    def survey(self, piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
        """A row for each lane: maxima, and whether anything in it contradicts something else in it."""
        offset_times = piece.offset_times
        return {"lanes": _lanes(offset_times, run), "standstills": visibility.standstills(piece), **_tops(piece, run)}

    def gather(self, surveys: Sequence[dict[str, pl.DataFrame]], run: RunContext, others: ByFamily) -> GatheredLanes:
        """With what the stretches below a lane have, and whether that contradicts what it has."""
        parts = {name: pl.concat([each[name] for each in surveys]) for name in surveys[0]} if surveys else _nothing()
        return GatheredLanes(
            lanes=_with_what_is_below(parts["lanes"].sort(LANE), parts["standstills"]),
            standstills=parts["standstills"],
            tops=parts["tops"],
            sent=parts["sent"],
            finals=parts["finals"],
        )

    def needs_judging(self, gathered: GatheredLanes, run: RunContext, others: ByFamily) -> bool:
        """If anything contradicts anything."""
        return bool(_suspicious(gathered, others).any())

    def judge(self, piece: Piece, gathered: GatheredLanes, run: RunContext, others: ByFamily) -> dict[str, Any]:
        """What is wrong with the lanes in which something may be."""
        chosen = _chosen(piece, gathered, others)
        if not chosen.any():
            return {"findings": Findings(), "violated": _violated([]), "visibility": visibility.nothing()}
        late = _late_of(piece, others)
        proofs = Proofs(piece, others["epochs"], late, _carried(piece, gathered, others), chosen)
        wrong = _contradictions(proofs)
        parts = [offsets.judge(piece, proofs, run), *(_told(proofs, sort, run) for sort in wrong.items())]
        violated = np.concatenate([wrong["realtime"][0], wrong["append"][0], offsets.inconsistent(proofs)])
        ends = np.concatenate([wrong["behind"][0], wrong["ended_wrongly"][0]])
        return {
            "findings": merge_findings(parts, run.limit),
            "violated": _violated([(proofs, violated, 0), (proofs, ends, 1)]),
            "visibility": visibility.judge(proofs, others["epochs"], gathered.standstills, run),
        }

    def conclude(
        self, gathered: GatheredLanes, judged: Sequence[dict[str, Any]], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """All pieces together."""
        parts = [each["findings"] for each in judged]
        parts.append(visibility.conclude([each["visibility"] for each in judged], run))
        return FamilyResult(
            merge_findings(parts, run.limit),
            _looked_at(gathered.lanes),
            _summary(
                gathered.lanes, pl.concat([each["violated"] for each in judged]) if judged else _violated([]), run
            ),
        )


def _lanes(offset_times: OffsetTimes, run: RunContext) -> pl.DataFrame:
    lanes, log = offset_times.lanes, offset_times.log
    starts = lanes.starts
    if not len(offset_times):
        return _nothing()["lanes"]
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
    zeros = np.zeros(len(offset_times), np.bool_)
    zeros[offset_times.of_log] = offsets.zero(log)
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
        "wrong": count(wrong) > 0, "values": count(value_known), "acks": count(acked), "zeros": count(zeros),
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
        ("values", "acks", "zeros", "sure_acks", "rows", "ends", "shown", "acks_led", "sent_max", "ended_max",
         "led_max",
         "final_max", "acked_min", "done_min", "end_min", "shown_min", "acked_max", "offset_max"),
        pl.Int64,
    ),
    "any_end": pl.Boolean,
}  # fmt: skip


@cache
def _nothing() -> dict[str, pl.DataFrame]:
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


def _tops(piece: Piece, run: RunContext) -> dict[str, pl.DataFrame]:
    """The last moment of each sort in each stretch: what lanes above it have to know; nobody is above a single one."""
    nothing = _nothing()
    if run.stretch >= ONE_STRETCH:
        return {name: nothing[name] for name in ("tops", "sent", "finals")}
    answers = piece.answers
    from checkers.core.piece import marks_of

    marks = sorted_marks(marks_of(answers), Epochs(piece.epochs))
    ends = marks.filter(pl.col("api") == 2).with_columns(
        sort=pl.when("old").then(OLD_ENDED).otherwise(ENDED).cast(pl.Int8)
    )
    both = pl.concat([marks, ends]).with_columns(
        what=pl.col("sort"), epoch=pl.when(pl.col("sort") == OWN_LED).then("epoch")
    )
    sends = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    return {
        "tops": _last(both, run),
        "sent": _last(sends.with_columns(what=pl.lit(SENT, pl.Int8), epoch=pl.lit(None, pl.Int32)), run),
        "finals": _last(piece.finals.with_columns(what=pl.lit(FINAL, pl.Int8), epoch=pl.lit(None, pl.Int32)), run),
    }


def _last(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    keys = [*LANE, "what", "epoch"]
    if rows.is_empty():
        return _nothing()["tops"]
    told = pl.concat([
        rows.select(*PLACE, "era", (pl.col("offset") // run.stretch).alias("stretch"), "what", "epoch"),
        moment_rows(rows, "invoked", "time"),
    ], how="horizontal")  # fmt: skip
    last = _latest(told, keys).sort("at", "event").group_by(keys).last().select(_nothing()["tops"].columns)
    return last.cast(_nothing()["tops"].schema)


def _latest(told: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The rows that are the latest of their keys: few, which is why sorting is for them alone."""
    groups, at = GroupBy(key_of(*(ints(told, name, _NO_EPOCH) for name in keys))), ints(told, "at")
    return told.filter(pl.Series(at == groups.max(at)[groups.number()]))


_NO_EPOCH = -(1 << 32)  # no column that is a key has numbers as low as that


def _with_what_is_below(lanes: pl.DataFrame, standstills: pl.DataFrame) -> pl.DataFrame:
    """Whether lower stretches, or a watermark that stood still, contradict a lane."""
    place = [*PLACE, "era"]

    def below(name: str) -> pl.Expr:
        return pl.col(name).cum_max().forward_fill().shift(1).over(place)

    stood = standstills.group_by(place).agg(
        pl.col("first").min().alias("stood"), pl.col("over").max(), pl.col("mark").min()
    )
    told = lanes.with_columns(below(f"{name}_max").alias(f"{name}_below") for name in ("sent", "ended", "led", "final"))
    told = told.join(stood, on=place, how="left", maintain_order="left")
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


def _suspicious(gathered: GatheredLanes, others: ByFamily) -> pl.Series:
    """The lanes that have to be judged: also those that an `info` send which was read may contradict."""
    late = others["fates"].late if "fates" in others else None
    if late is None or late.is_empty():
        return gathered.lanes["wrong"]
    latest = late.group_by("topic", "partition", "era").agg(pl.col("invoked").max().alias("late"))
    joined = gathered.lanes.join(latest, on=["topic", "partition", "era"], how="left", maintain_order="left")
    earliest = pl.min_horizontal("done_min", "end_min", "shown_min")
    return joined.select(pl.col("wrong") | (earliest < pl.col("late")).fill_null(value=False)).to_series()


def _chosen(piece: Piece, gathered: GatheredLanes, others: ByFamily) -> Bools:
    """Which points of this piece lie in lanes that have to be judged."""
    offset_times = piece.offset_times
    if not len(offset_times):
        return np.zeros(0, np.bool_)
    wanted = gathered.lanes.filter(_suspicious(gathered, others))
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


def _late_of(piece: Piece, others: ByFamily) -> pl.DataFrame:
    if "fates" in others:
        late: pl.DataFrame = others["fates"].late
        return late
    return late_of(piece.sends, piece.records)


def _carried(piece: Piece, gathered: GatheredLanes, others: ByFamily) -> LowerMoments | None:
    """The last moments of the stretches below the lanes of this piece."""
    run = piece.run
    if run.stretch >= ONE_STRETCH:
        return None
    offset_times = piece.offset_times
    keys = offset_times.log.keys
    late = _late_of(piece, others)
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


Wrong = tuple[Ints, Ints, Ints, list[Bools]]  # rows, ranks of the two operations, and whether further tags hold


def _contradictions(proofs: Proofs) -> dict[str, Wrong]:
    """Rows with two operations that contradict each other: the one that was over first, and the one below it."""
    late, early = proofs.moments.late, proofs.moments.early
    appended = np.maximum(proofs.sent, proofs.late)
    sent_below = proofs.below(proofs.sent, SENT)
    appends_below, appends_upto = proofs.below(appended, SENT, LATE), proofs.upto(appended, SENT, LATE)
    ended_below, ended_upto = proofs.below(proofs.ended, ENDED), proofs.upto(proofs.ended, ENDED)
    old_below, old_upto = proofs.below(proofs.old_ended, OLD_ENDED), proofs.upto(proofs.old_ended, OLD_ENDED)
    acked, done, end = early(proofs.acked), early(proofs.done), early(proofs.end_shown)
    realtime = proofs.sure & (acked < late(sent_below))
    before_append = done < late(appends_upto)
    append = proofs.sure & before_append & ~realtime
    by_end, by_old = done < late(ended_upto), done < late(old_upto)
    behind = proofs.sure & (by_end | by_old) & ~before_append
    ahead, fell, fell_old = end < late(appends_below), end < late(ended_below), end < late(old_below)
    wrongly = proofs.sure & (ahead | fell | fell_old)
    of_end = np.where(by_end, ended_upto, old_upto)
    of_lower = np.where(ahead, appends_below, np.where(fell, ended_below, old_below))

    def rows(mask: Bools, x: Ints, y: Ints, *tags: Bools) -> Wrong:
        chosen = np.flatnonzero(mask)
        return chosen, x[chosen], y[chosen], [tag[chosen] for tag in tags]

    return {
        "realtime": rows(realtime, proofs.acked, sent_below),
        "append": rows(append, proofs.done, appends_upto),
        "behind": rows(behind, proofs.done, of_end, ~by_end),
        "ended_wrongly": rows(wrongly, proofs.end_shown, of_lower, ahead, ~ahead & ~fell),
    }


def _told(proofs: Proofs, sort: tuple[str, Wrong], run: RunContext) -> Findings:
    """Findings of one sort of contradiction."""
    name, (rows, x, y, more) = sort
    if not len(rows):
        return Findings()
    frame = pl.concat([proofs.place(rows), proofs.moments.of(x, "x"), proofs.moments.of(y, "y")], how="horizontal")
    frame = frame.with_columns(
        until=pl.max_horizontal("y_at", "y_other"), by_ns=pl.col("y_at") - pl.col("x_at"), **_tags(name, more)
    )
    return make_findings(
        REALTIME if name == "realtime" else NOT_LINEARIZABLE,
        frame,
        run,
        offset="offset",
        values=("x_value", "y_value"),
        nodes=("x_node", "y_node"),
        time="x_at",
        until="until",
        events=("x_event", "y_event"),
        tags=tuple(_TAGS[name]),
        severity="by_ns",
        facts=("x_value", "x_node", "y_value", "y_node", "by_ns"),
    )


_TAGS = {
    "realtime": (),
    "append": ("append",),
    "behind": ("end", "behind", "older"),
    "ended_wrongly": ("end", "how", "older"),
}


def _tags(name: str, more: list[Bools]) -> dict[str, Any]:
    def older(mask: Bools) -> pl.Expr:
        return pl.when(pl.Series(mask)).then(pl.lit("older epoch"))

    if name == "append":
        return {"append": pl.lit("append")}
    if name == "behind":
        return {"end": pl.lit("end"), "behind": pl.lit("behind"), "older": older(more[0])}
    if name == "ended_wrongly":
        how = pl.when(pl.Series(more[0])).then(pl.lit("ahead")).otherwise(pl.lit("fell"))
        return {"end": pl.lit("end"), "how": how, "older": older(more[1])}
    return {}


def _violated(parts: Sequence[tuple[Proofs, Ints, int]]) -> pl.DataFrame:
    """The lowest offset of each partition that is wrong: by itself (0), or but for what end() said (1)."""
    schema = {"topic": pl.Int32, "partition": pl.Int32, "rank": pl.Int8, "offset": pl.Int64}
    found_ = [
        proofs.place(rows).select("topic", "partition", pl.lit(rank, pl.Int8).alias("rank"), "offset")
        for proofs, rows, rank in parts
    ]
    return (
        pl.concat([pl.DataFrame(schema=schema), *found_])
        .group_by("topic", "partition", "rank")
        .agg(pl.col("offset").min())
    )


def _looked_at(lanes: pl.DataFrame) -> dict[str, int]:
    total = {
        name: int(lanes[name].sum())
        for name in ("values", "acks", "zeros", "sure_acks", "rows", "ends", "shown", "acks_led")
    }
    return {
        "inconsistent-offset": total["values"],
        "shared-offset": total["acks"],
        "false-ack": total["zeros"],
        REALTIME: total["sure_acks"],
        NOT_LINEARIZABLE: max(total["rows"], total["ends"]),
        "watermark-behind-ack": total["acks_led"],
        "watermark-frozen": total["acks_led"],
        "watermark-ahead": total["shown"],
    }


def _summary(lanes: pl.DataFrame, violated: pl.DataFrame, run: RunContext) -> dict[str, Any]:
    """A verdict for each partition, those that are violated first."""
    places = lanes.group_by(PLACE).agg(pl.col("acks").sum(), pl.col("ends").sum()).filter(pl.col("acks") > 0)
    worst = violated.sort("rank", "offset").group_by(PLACE).first()
    told = places.join(worst, on=PLACE, how="left").with_columns(
        rank=pl.coalesce("rank", pl.when(pl.col("ends") > 0).then(2).otherwise(3))
    )
    counts = dict(told.group_by("rank").len().iter_rows())
    listed = told.sort("rank", *PLACE).head(LISTED).to_dicts()
    return {
        **{name: counts[number] for number, name in enumerate(VERDICTS) if counts.get(number)},
        "partitions": [
            {
                "partition": f"{run.topics.get(each['topic'], each['topic'])}-{each['partition']}",
                "verdict": VERDICTS[each["rank"]],
                **({} if each["offset"] is None else {"offset": each["offset"]}),
            }
            for each in listed
        ],
    }


FAMILIES: tuple[Family, ...] = (Linearizability(),)
