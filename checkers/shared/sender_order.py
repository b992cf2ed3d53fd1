"""Senders: whether what one producer sent to one place got offsets in the order in which it was sent.

The sends of a *lane* (one producer, place and era; with or without a sequence) are put in the order of their offsets, a
stretch at a time. In a healthy history their ranks rise, and each stretch has higher ones than those below it: that is
found out first. Only if it is not so, they are looked at one by one, each stretch with what it has to know of the lower
ones: the send of the highest rank.

The sends of a transaction to a place are mostly in one stretch. *Shares* of transactions tell of which that is not so;
those are put together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, GroupBy, Ints, Lanes, ints, nullable
from checkers.core.deletions import UNSURE
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.run import RunContext, by
from checkers.shared.reader_steps import ACKNOWLEDGED, columns, key_of, placed

SENDS = ("event", "time", "invoked", "process", "topic", "partition", "offset", "type", "value", "sequence", "txn")
LANE = ("process", "topic", "partition", "era", "unnumbered")
STRETCH = (*LANE, "stretch")
SENT = ("rank", "offset", "event", "time", "value", "txn")
SHARE = ("topic", "partition", "txn")
_ABOVE_ALL = 1 << 62


@dataclass
class SendSurvey:
    """What a piece says of its sends."""

    count: int
    in_transactions: int
    odd: bool  # whether a rank falls from one offset to the next
    lanes: pl.DataFrame  # of a history that is cut: of each lane and stretch the lowest rank, and the highest send
    spread: pl.DataFrame  # transactions with sends in several stretches of a place


@dataclass
class ContradictedSends:
    """There are sends that contradict each other."""

    lower: pl.DataFrame  # stretches with a send that was overtaken by one in a lower stretch, and that one
    spread: pl.DataFrame


@dataclass
class JudgedSends:
    """What is wrong with the sends of a piece."""

    findings: Findings
    spread: pl.DataFrame  # sends of transactions that have some in other stretches


def shares_of(sends: pl.DataFrame, stretch: int) -> pl.DataFrame:
    """Per place and transaction: sends without an offset, and from which to which stretch it has others.

    Of sends outside of transactions those without an offset are one row.
    """
    unplaced = ~ACKNOWLEDGED.fill_null(value=False)
    somewhere = pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
    number = pl.when(~unplaced).then(pl.col("offset") // stretch)
    rows = sends.filter(somewhere & (pl.col("txn").is_not_null() | unplaced))
    return merged_shares(rows.select(*SHARE, unplaced=unplaced.cast(pl.Int64), low=number, high=number))


def merged_shares(shares: pl.DataFrame) -> pl.DataFrame:
    """One row of each place and transaction."""
    groups = GroupBy(key_of(*columns(shares, SHARE)))
    sums = {
        "unplaced": pl.Series(groups.sum(ints(shares, "unplaced"))),
        "low": nullable(groups.min(ints(shares, "low", _ABOVE_ALL)), _ABOVE_ALL),
        "high": nullable(groups.max(ints(shares, "high"))),
    }
    return shares.select(SHARE)[groups.order[groups.starts]].with_columns(**sums)


def look_at(sends: pl.DataFrame, shares: pl.DataFrame | None, run: RunContext) -> SendSurvey:
    """Whether anything may be wrong with them; shares are those of a history that is cut."""
    rows = sends_of(sends, run)
    lane, rank = key_of(*columns(rows, STRETCH)), ints(rows, "rank")
    order = np.argsort(key_of(lane, ints(rows, "offset")))
    falls = (np.diff(rank[order]) < 0) & (np.diff(lane[order]) == 0)
    spread = pl.col("txn").is_not_null() & (pl.col("low") < pl.col("high"))
    return SendSurvey(
        count=len(rows),
        in_transactions=len(rows) - rows["txn"].null_count(),
        odd=bool(falls.any()),
        lanes=_stretches(rows.clear() if shares is None else rows),
        spread=rows.clear().select(SHARE) if shares is None else shares.filter(spread).select(SHARE),
    )


def contradicting(sent: Sequence[SendSurvey]) -> ContradictedSends | None:
    """What has to be known of other pieces, if sends contradict each other."""
    lower = _overtaking(pl.concat([each.lanes for each in sent])) if sent else pl.DataFrame()
    if lower.is_empty() and not any(each.odd for each in sent):
        return None
    return ContradictedSends(lower, pl.concat([each.spread for each in sent]))


def judged(sends: pl.DataFrame, gathered: ContradictedSends, run: RunContext) -> JudgedSends:
    """What is wrong with the sends of a piece."""
    rows = sends_of(sends, run)
    of_transactions = rows.drop_nulls("txn")
    whole = of_transactions.join(gathered.spread, on=SHARE, how="anti", maintain_order="left")
    parts = [findings(rows, run, lower=gathered.lower, inside=False), findings(whole, run, inside=True)]
    spread = of_transactions.join(gathered.spread, on=SHARE, how="semi", maintain_order="left")
    return JudgedSends(merge_findings(parts, run.limit), spread)


def findings(sends: pl.DataFrame, run: RunContext, *, inside: bool, lower: pl.DataFrame | None = None) -> Findings:
    """Sends that a later one overtook, at all, or inside of a transaction."""
    rows = overtaken(sends, (*LANE, "txn") if inside else STRETCH, lower)
    if not inside:
        rows = rows.filter(~(pl.col("later_txn") == pl.col("txn")).fill_null(value=False))
    kinds = {
        "transactional": pl.col("txn").is_not_null(),
        "idempotent": by(run.with_about("idempotent", (True,))),
        "plain": by(run.with_about("idempotent", (False,))),
    }
    numbered = ~pl.col("unnumbered")
    rows = rows.with_columns(
        gone=pl.when(pl.col("era") == UNSURE).then(pl.lit("deleted topic")),
        kind=pl.coalesce(pl.when(is_so).then(pl.lit(name)) for name, is_so in kinds.items()),
        earliest=pl.min_horizontal("time", "later_time"),
        latest=pl.max_horizontal("time", "later_time"),
        severity=pl.col("offset") - pl.col("later_offset"),
        sequence=pl.when(numbered).then("rank"),
        later_sequence=pl.when(numbered).then("later_rank"),
        invoked_ns=pl.when(~numbered).then("rank"),
        later_invoked_ns=pl.when(~numbered).then("later_rank"),
    )
    return make_findings(
        "int-nonmonotonic-send" if inside else "nonmonotonic-send",
        rows,
        run,
        offset="offset",
        values=("value", "later_value"),
        processes=["process"],
        time="earliest",
        until="latest",
        events=("event", "later_event"),
        tags=("gone", "kind"),
        severity="severity",
        facts=("later_offset", "sequence", "later_sequence", "invoked_ns", "later_invoked_ns"),
    )


def sends_of(sends: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Those that got an offset, with their rank."""
    return placed(sends, ACKNOWLEDGED).select(
        "process", "topic", "partition", "era", "offset", "event", "time", "value", "txn",
        unnumbered=pl.col("sequence").is_null(),
        rank=pl.coalesce("sequence", "invoked"),
        stretch=pl.col("offset") // run.stretch,
    )  # fmt: skip


def overtaken(rows: pl.DataFrame, lane: Sequence[str], lower: pl.DataFrame | None = None) -> pl.DataFrame:
    """Sends with that one (`later_…`) which was sent last among all of its lane with lower offsets, if it was later.

    `lower` has what lies below the stretches of these rows.
    """
    sent = key_of(*columns(rows, ("rank", "offset", "event")))
    later = _last_sent_below(key_of(*columns(rows, lane)), ints(rows, "offset"), sent)
    rank = ints(rows, "rank")
    near = np.where(later >= 0, rank[later], NONE)
    if lower is None or lower.is_empty():
        odd = np.flatnonzero(near > rank)
        return rows[odd].hstack(_as_later(rows[later[odd]]))
    below = rows.select(STRETCH).join(lower, on=STRETCH, how="left", maintain_order="left")
    far = ints(below, "later_rank")
    by_near, by_far = np.flatnonzero((near >= far) & (near > rank)), np.flatnonzero((far > near) & (far > rank))
    return pl.concat([
        rows[by_near].hstack(_as_later(rows[later[by_near]])),
        rows[by_far].hstack(below[by_far].drop(STRETCH)),
    ])  # fmt: skip


def _stretches(rows: pl.DataFrame) -> pl.DataFrame:
    """Of each lane and stretch the lowest rank, and the send with the highest one."""
    groups = GroupBy(key_of(*columns(rows, STRETCH)))
    number = groups.number()
    highest = np.ones(len(rows), np.bool_)
    for name in ("rank", "offset", "event"):
        values = ints(rows, name)
        highest &= values == groups.max(values, highest)[number]
    row = np.empty(len(groups), np.int64)
    row[number[highest]] = np.flatnonzero(highest)
    lowest = pl.Series(groups.min(ints(rows, "rank")))
    return rows.select(*STRETCH, *SENT)[row].with_columns(lowest=lowest)


def _overtaking(lanes: pl.DataFrame) -> pl.DataFrame:
    """Stretches with a lower rank than one below them has: each with the highest send below, as `later_…`."""
    lane, stretch, rank = key_of(*columns(lanes, LANE)), ints(lanes, "stretch"), ints(lanes, "rank")
    later = _last_sent_below(lane, stretch, key_of(rank, stretch))
    overtaken_ = np.flatnonzero((later >= 0) & (rank[later] > ints(lanes, "lowest")))
    found_: pl.DataFrame = lanes.select(STRETCH)[overtaken_].hstack(_as_later(lanes[later[overtaken_]]))
    return found_


def _as_later(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.col(name).alias(f"later_{name}") for name in SENT)


def _last_sent_below(lane: Ints, offset: Ints, sent: Ints) -> Ints:
    """For each row, which other one of its lane and with a lower offset was sent last; -1 if there is none."""
    of_rank = np.argsort(sent)
    position = np.empty(len(sent), np.int64)
    position[of_rank] = np.arange(len(sent))
    place = key_of(lane, offset)
    order = np.argsort(place)
    below = Lanes(lane[order]).below(position[order])
    first = Lanes(place[order]).starts  # sends with the same offset have the same ones below
    below = np.repeat(below[first], np.diff(np.append(first, len(order))))
    last = np.full(len(sent), -1, np.int64)
    there = below != NONE
    last[order[there]] = of_rank[below[there]]
    return last
