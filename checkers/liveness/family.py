"""Liveness: what consumers of the load did not get in time, and why. Whether sends got through: `checkers.progress`.

Limits are seconds, of the scenario (`[limits]`, harness/foundation/limits.py). Topics that the workload deleted are
left out, and events without a topic or a partition. A *second* is `time` div 10^9.

**stall**: nobody in the load is handed anything of a partition, though something is there.

The *load* is the processes with the role consumer; an acknowledgement is an `ok` send with an offset >= 0. Seconds of a
partition with a record of the load (any, with an offset) cut its time into *stretches*: a stretch begins with the last
record of such a second (the first stretch: with nothing) and ends with the first record of the next such second or,
after the last one, with the last poll of the load (the latest `time` of those with a count; no stretch without any). A
second of a partition is *behind* if the highest offset acknowledged up to and in it is above the highest handed to the
load up to and in it (-1 if nothing was). A stretch of which a second is behind (from the one that begins it to the one
before that which ends it) has a stall, which begins with the latest of: the stretch; the last acknowledgement in its
first second that is behind (without one there, the last record in it); the first `ok` ASSIGN of the partition by the
load, or without one the first poll of the load (the earliest `invoked` of those with a count). It is found if it
lasts, to the end of the stretch, for `stall_s` or more. (What is acknowledged in the second that ends a stretch does
not count for it. A partition without such an ASSIGN, of which the load never was handed anything, is nobody's to read.)

A partition is *late* if it was not stalled at its end, and of what was acknowledged in seconds at least `stall_s` (in
whole seconds) before that of the load's last poll, the highest offset is above the highest handed to the load, by more
than a tenth of the number of these acknowledgements; and all records of the load there were handed to one process, and
another partition of the topic with such acknowledgements was read by the same process alone, and up to the highest of
them. One that is late is found as well, at the time of the last poll.

Its *class* is a tag. It is told by answers that began at or after the begin of the stall and ended at or before its
end: those without error to Fetch (the high watermark) and to ListOffsets(latest), of probes and, of type 1, at the tap.

class 1          they never showed more than 1 + the highest offset handed to the load: the watermark does not advance
class 2          they did; nothing was sent to the partition in a transaction; and of the load's clients Fetch exchanges
                 of the partition were seen that overlap with the stall, but none inside of it that was answered (type
                 1, error 0) with records (count not 0; null in an older format): the fetch hangs. Of clients whose id
                 begins with `tidegauge` those are not the load's that are named just so, or go on with `-final`,
                 `-raw`, `-probe`, `-replica`
class 3          it is late
data available   they did, and it is not class 2: nobody saw the fetches, or the client had what it did not hand on
class unknown    there were no such answers

Also tagged: `within the limit` if it lasted for less than its limit (never, if late). That is `stall_s` for classes 1
and 2, else `stuck_s`; of a partition with sends in transactions (whatever became of them) at least `lso_stuck_s`, for
readers of what is committed wait for the end of others; of one with a record or an `ok` ASSIGN of a process of the load
that the manifest calls a member (`group`) at least `group_stall_s`, for a group waits for whoever is gone. And `stood
still` (never, if late) if without those seconds between its first and its last one, in which no operation of any
process was completed and no probe ended, it would have been shorter than `stall_s`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from checkers import progress
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings
from checkers.core.node_answers import EXCHANGES, FETCH, PROBES
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import topic_and_partition
from checkers.liveness import standstills as stretches
from checkers.liveness.standstills import SECOND_NS, Seconds, placed
from harness.history.schema import F, Kind, Type

_NOT_THE_LOAD = "^tidegauge(-(final|raw|probe|replica).*)?$"


@dataclass(frozen=True)
class GatheredWaits:
    """What was waited for in vain: stalls without their classes, and sends."""

    stalls: pl.DataFrame
    sends: Findings
    looked_at: Mapping[str, int]


class Liveness(Family):
    """Stretches in which the load got nothing, or no send got through."""

    name = "liveness"
    anomalies: ClassVar[Mapping[str, str]] = {
        "stall": "consumers received nothing from a partition that had records",
        **progress.WAITS,
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": stretches.SENDS,
        "ops": stretches.OPS,
        "records": stretches.RECORDS,
        "probes": PROBES,
        "exchanges": (*EXCHANGES, "client", "count"),
    }

    def needs(self, run: RunContext) -> bool:
        """Sends."""
        return run.does(F.SEND)

    def survey(self, piece: Piece, run: RunContext) -> Seconds:
        """What was sent and read in each second."""
        return stretches.survey(piece, run)

    def gather(self, surveys: Sequence[Seconds], run: RunContext, others: ByFamily) -> GatheredWaits:
        """Stretches of all partitions that lasted for too long."""
        seconds = stretches.gather(surveys or [stretches.survey(Piece({}, run), run)])
        rows = stretches.in_order(seconds)
        stalls, count = stretches.of_reads(rows, seconds, run)
        empty = stretches.empty_seconds(stalls, seconds.busy)
        waits = progress.waits(stretches.of_sends(rows), run)
        numbered = stalls.with_columns(empty).with_row_index("number")
        return GatheredWaits(numbered, waits.findings, {"stall": count, **waits.looked_at})

    def needs_judging(self, gathered: GatheredWaits, run: RunContext, others: ByFamily) -> bool:
        """If there is a stall, for its class."""
        answered = run.has(Kind.PROBE) or run.has(Kind.EXCHANGE)
        return answered and run.wants("stall") and bool(gathered.stalls["stalled"].any())

    def judge(self, piece: Piece, gathered: GatheredWaits, run: RunContext, others: ByFamily) -> pl.DataFrame:
        """What was answered during the stalls."""
        return answers_in(gathered.stalls.filter("stalled"), piece, run)

    def conclude(
        self,
        gathered: GatheredWaits,
        judged: Sequence[pl.DataFrame],
        run: RunContext,
        others: ByFamily,
    ) -> FamilyResult:
        """Stalls with their classes, and sends that waited."""
        findings = _found_stalls(gathered.stalls, judged, run)
        findings.add(gathered.sends, run.limit)
        return FamilyResult(findings, dict(gathered.looked_at))


def answers_in(stalls: pl.DataFrame, piece: Piece, run: RunContext) -> pl.DataFrame:
    """Per stall the most that nodes `shown` in it, and whether the load's clients `asked`, and were `given` anything.

    The stalls of a place do not overlap: what lies inside of one lies at most inside of two, which meet there.
    """
    shown = [_shown_in(stalls, answers, run) for answers in piece.answer_parts()]
    fetched = [part for rows in piece.parts("exchanges", _FETCHES) for part in _fetched_in(stalls, rows, run)]
    return _together([*shown, *fetched])


_FETCHES = ("api", "type", "error", "count", "client", "invoked", "time")
_SPAN = ("place", "invoked", "time")


def _shown_in(stalls: pl.DataFrame, answers: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    marks = placed(answers.filter(pl.col("shown").is_not_null()), run).select(*_SPAN, "shown")
    mine = marks.join(stalls.select("place").unique(), on="place", how="semi")
    return _at_both_ends(_overlapping(mine, stalls, "time", "invoked"), "shown")


def _fetched_in(stalls: pl.DataFrame, rows: pl.DataFrame, run: RunContext) -> list[pl.DataFrame]:
    """Which stalls the load asked in, and which of them gave it something."""
    places = stalls.select("place").unique()
    good = (pl.col("type") == Type.OK) & (pl.col("error") == 0) & (pl.col("count").fill_null(1) > 0)
    exchanges = placed(rows.filter(pl.col("api") == FETCH), run).select(*_SPAN, "client", given=good)
    others = pl.col("client").str.contains(_NOT_THE_LOAD).fill_null(value=False)
    fetches = exchanges.join(places, on="place", how="semi").filter(~others).select(*_SPAN, "given")
    given = _overlapping(fetches.filter("given"), stalls, "time", "invoked")
    asked = _covered(_overlapping(fetches, stalls, "invoked", "time"))
    return [_at_both_ends(given, "given"), asked]


def _overlapping(rows: pl.DataFrame, stalls: pl.DataFrame, ends_at: str, begins_at: str) -> pl.DataFrame:
    """Rows with the `first` stall of their place that ends at or after one moment, and the `last` begun by another.

    Rows without a stall between these two are left out.
    """
    ends = stalls.sort("until").select("place", "until", first="number")
    begins = stalls.sort("since").select("place", "since", last="number")
    return (
        rows.sort(ends_at)
        .join_asof(ends, left_on=ends_at, right_on="until", by="place", strategy="forward", check_sortedness=False)
        .sort(begins_at)
        .join_asof(begins, left_on=begins_at, right_on="since", by="place", check_sortedness=False)
        .filter(pl.col("first") <= pl.col("last"))
    )


def _at_both_ends(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return pl.concat([rows.select(name, number=end) for end in ("first", "last")])


def _covered(rows: pl.DataFrame) -> pl.DataFrame:
    """All stalls from the `first` to the `last` of any row."""
    begun = np.bincount(rows["first"].to_numpy())
    over = np.bincount(rows["last"].to_numpy() + 1, minlength=len(begun))
    covered = np.flatnonzero(np.cumsum(np.pad(begun, (0, len(over) - len(begun))) - over) > 0)
    return pl.DataFrame({"number": covered}, schema={"number": pl.UInt32}).with_columns(asked=pl.lit(value=True))


def _together(told: Sequence[pl.DataFrame]) -> pl.DataFrame:
    schema = {"number": pl.UInt32, "shown": pl.Int64, "given": pl.Boolean, "asked": pl.Boolean}
    rows = pl.concat([pl.DataFrame(schema=schema), *told], how="diagonal")
    return rows.group_by("number").agg(pl.col("shown").max(), pl.col("given").any(), pl.col("asked").any())


def _found_stalls(stalls: pl.DataFrame, judged: Sequence[pl.DataFrame], run: RunContext) -> Findings:
    told = stalls.join(_together(judged), on="number", how="left").with_columns(
        pl.col("given").fill_null(value=False),
        pl.col("asked").fill_null(value=False),
        *topic_and_partition(pl.col("place")),
        next=pl.col("position") + 1,
        lasted_ns=pl.col("until") - pl.col("since"),
    )  # fmt: skip
    named = told.with_columns(_class().alias("class"))
    within = pl.col("stalled") & (pl.col("lasted_ns") < _limit(run))
    still = pl.col("stalled") & (pl.col("lasted_ns") - pl.col("empty") * SECOND_NS < run.limit_ns("stall_s"))
    tagged = named.with_columns(
        within=pl.when(within).then(pl.lit("within the limit")), still=pl.when(still).then(pl.lit("stood still"))
    )
    return make_findings(
        "stall", tagged, run, offset="next", time="since", until="until", processes=(), severity="lasted_ns",
        tags=["class", "within", "still"], facts=["position", "lasted_ns", "shown", "early"],
    )  # fmt: skip


def _class() -> pl.Expr:
    hangs = ~pl.col("in_txn") & pl.col("asked") & ~pl.col("given")
    return (
        pl.when(~pl.col("stalled"))
        .then(pl.lit("class 3"))
        .when(pl.col("shown").is_null())
        .then(pl.lit("class unknown"))
        .when(pl.col("shown") <= pl.col("next"))
        .then(pl.lit("class 1"))
        .when(hangs)
        .then(pl.lit("class 2"))
        .otherwise(pl.lit("data available"))
    )


def _limit(run: RunContext) -> pl.Expr:
    """From when on a stall is too long."""
    of_brokers = pl.col("class").is_in(["class 1", "class 2"])
    limits = {
        "class": pl.when(of_brokers).then(run.limit_ns("stall_s")).otherwise(run.limit_ns("stuck_s")),
        "in_txn": pl.when("in_txn").then(run.limit_ns("lso_stuck_s")).otherwise(0),
        "by_group": pl.when("by_group").then(run.limit_ns("group_stall_s")).otherwise(0),
    }
    return pl.max_horizontal(*limits.values())


FAMILIES: tuple[Family, ...] = (Liveness(),)
