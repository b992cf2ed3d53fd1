"""Losses: acknowledged records that a group went past.

A group is a name. Events without a group, a topic or a partition are left out, and so are topics that the workload
deleted. A process belongs to each group that it ever subscribed to (SUBSCRIBE, however it ended), and what it is handed
at any time is handed to those groups.

rebalance-loss           an offset, between the lowest and the highest that the group was ever handed there, with an
                         acknowledged send (`ok`), of which a process outside of the group was handed a record, and none
                         in the group was: the group went past it. Of a send in a transaction that process is one which
                         is not known to read uncommitted: what was aborted is rightly passed. Not in compacted topics.
                         Offsets of one group, place and set of tags are one finding. Tagged `open poll` if a member may
                         have had it in its hands when it was killed: a process of the group has a poll that is `info`
                         and has no count, and the offset lies above the last record that this process was handed there
                         (by time, then event) and below the next one above that which the group was handed

A group that was not handed a wanted offset (`checkers.groups.handed_offsets`) was passed by it, for whoever was handed
it is then outside of the group. Pieces survey the runs that processes were handed, and where the runs of a group leave
nothing out between its lowest and its highest offset, nothing is lost. Only places where they do are judged. What lies
between two neighbours among the offsets that a group was handed is a *gap*; a killed member may have had a gap in its
hands if its last record is the lower one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.commits import GROUP
from checkers.core.arrays import ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import make_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.groups.handed_offsets import (
    STRETCH,
    HandedSurvey,
    OffsetRanks,
    acknowledged_sends,
    handed_records,
    survey_handed,
)
from checkers.groups.membership import PLACE
from harness.history.schema import F, Kind

LOSS = "rebalance-loss"


@dataclass(frozen=True)
class PassedGroups:
    """The stretches in which groups were passed by wanted offsets, and what has to be known to judge them."""

    suspects: pl.DataFrame  # group and stretch: `enter` and `leave` of its wanted offsets, the offset handed `before`
    hands: pl.DataFrame  # group, place and offset: the last record of a process that was killed in a poll
    members: pl.DataFrame
    looked_at: int


class SkippedByGroups(Family):
    """Acknowledged records that a group went past."""

    name = "skipped by groups"
    anomalies: ClassVar[Mapping[str, str]] = {
        LOSS: "a group went past an acknowledged record that none of its members was handed"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("process", "f", "type", "topic", "partition", "count", "name"),
        "sends": ("event", "time", "type", "topic", "partition", "offset", "value", "txn"),
        "records": ("event", "time", "process", "topic", "partition", "offset"),
    }

    def needs(self, run: RunContext) -> bool:
        """Whether groups read."""
        return run.does(F.SUBSCRIBE) and run.has(Kind.RECORD)

    def survey(self, piece: Piece, run: RunContext) -> HandedSurvey:
        """Runs of every process, for nobody knows yet which groups it belongs to."""
        return survey_handed(piece, run)

    def gather(self, surveys: Sequence[HandedSurvey], run: RunContext, others: ByFamily) -> PassedGroups:
        """Where groups were passed by anything."""
        whole = HandedSurvey.together(surveys or [self.survey(Piece({}, run), run)])
        needed = _needed(whole)
        taken = _taken(whole.runs.join(whole.members, on="process"))
        counted = needed.join(taken, on=[*GROUP, "stretch"], how="left")
        lost = pl.col("leave") - pl.col("enter") > pl.col("taken").fill_null(0)
        suspects = counted.filter(lost).select(*GROUP, "stretch", "enter", "leave", "before").with_row_index("suspect")
        return PassedGroups(suspects, _hands(whole), whole.members, int(needed["acked"].sum()))

    def needs_judging(self, gathered: PassedGroups, run: RunContext, others: ByFamily) -> bool:
        """For what was lost, and for whose fault it may be."""
        return len(gathered.suspects) > 0

    def judge(self, piece: Piece, gathered: PassedGroups, run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Per group, place and tag how much was lost, and the first of it with its send."""
        chosen = gathered.suspects.select(STRETCH).unique()
        sends = acknowledged_sends(piece, run).join(chosen, on=STRETCH, how="semi")
        ranks = OffsetRanks.of(sends, handed_records(piece, run).join(chosen, on=STRETCH, how="semi"), run)
        gaps = _gaps(ranks, gathered).join(gathered.hands.with_columns(in_hand=True), on=[*GROUP, "offset"], how="left")
        rank, lost = ints(gaps, "upto_wanted"), ints(gaps, "lost")
        told = gaps.with_columns(
            pl.col("in_hand").fill_null(value=False),
            first=pl.Series(ranks.offset[rank], dtype=pl.Int64),
            last=pl.Series(ranks.offset[rank + lost - 1], dtype=pl.Int64),
        )
        by_tag = told.group_by(*GROUP, "in_hand").agg(pl.col("lost").sum(), pl.col("first").min(), pl.col("last").max())
        return _with_send(by_tag, sends)

    def conclude(
        self, gathered: PassedGroups, judged: Sequence[pl.DataFrame], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """A finding per group, place and tag."""
        looked_at = {LOSS: gathered.looked_at}
        if not judged:
            return FamilyResult(looked_at=looked_at)
        first = pl.concat(judged).sort("first").group_by(*GROUP, "in_hand", maintain_order=True)
        one = first.agg(
            pl.exclude("lost", "last").first(), pl.col("lost").sum(), pl.col("last").max()
        ).with_columns(tag=pl.when("in_hand").then(pl.lit("open poll")))  # fmt: skip
        findings = make_findings(
            LOSS, one, run, offset="first", values=("value",), time="time", events=("event",), tags=("tag",),
            severity="lost", facts=("group", "lost", "first", "last"),
        )  # fmt: skip
        return FamilyResult(findings, looked_at)


def _needed(whole: HandedSurvey) -> pl.DataFrame:
    """Per group and stretch between the ends of what it was handed: the numbers of the wanted offsets between them."""
    by_stretch = (*GROUP, "stretch")
    reach = whole.reach.join(whole.members, on="process").group_by(by_stretch).agg(
        pl.col("highest", "upto_acked", "upto_wanted").max(), pl.col("below_acked", "below_wanted").min()
    )  # fmt: skip
    ends = reach.group_by(GROUP).agg(begin=pl.col("stretch").min(), end=pl.col("stretch").max())
    inside = ends.join(whole.lanes, on=PLACE).filter(pl.col("stretch").is_between("begin", "end"))
    before = reach.sort("stretch").select(*by_stretch, before="highest")
    joined = inside.sort("stretch").join_asof(
        before, on="stretch", by=list(GROUP), strategy="backward", allow_exact_matches=False, check_sortedness=False
    ).join(reach, on=by_stretch, how="left")  # fmt: skip

    def enter(what: str) -> pl.Expr:
        return pl.when(pl.col("stretch") == pl.col("begin")).then(f"below_{what}").otherwise(0)

    def leave(what: str) -> pl.Expr:
        return pl.when(pl.col("stretch") == pl.col("end")).then(f"upto_{what}").otherwise(what)

    return joined.select(
        *by_stretch, "before", enter=enter("wanted"), leave=leave("wanted"), acked=leave("acked") - enter("acked")
    )


def _taken(runs: pl.DataFrame) -> pl.DataFrame:
    """Per group and stretch how many wanted offsets it was handed."""
    by_stretch = (*GROUP, "stretch")
    so_far = pl.col("last").cum_max().shift(1, fill_value=-1).over(by_stretch)
    more = pl.col("last") - pl.max_horizontal(pl.col("first") - 1, so_far)
    counted = runs.sort("first").with_columns(taken=more.clip(lower_bound=0))
    return counted.group_by(by_stretch).agg(pl.col("taken").sum())


def _hands(whole: HandedSurvey) -> pl.DataFrame:
    """The last records of processes that were killed in a poll, by the groups that they belonged to."""
    killed = whole.reach.filter(pl.col("process").is_in(whole.killed)).sort("time", "event")
    last = killed.group_by("process", *PLACE, maintain_order=True).agg(pl.col("last").last().alias("offset"))
    return last.join(whole.members, on="process").select(*GROUP, "offset").unique()


def _gaps(ranks: OffsetRanks, gathered: PassedGroups) -> pl.DataFrame:
    """Between which offsets that a group was handed there are wanted ones, how many, and the number of the first."""
    begins = ranks.lanes.select(*STRETCH, begin="begin_wanted")
    suspects = gathered.suspects.join(begins, on=STRETCH).with_columns(pl.col("enter", "leave") + pl.col("begin"))
    columns = ("suspect", *GROUP, "offset", "below_wanted", "upto_wanted", "leave")
    begin = suspects.select(
        "suspect", *GROUP, pl.col("before").fill_null(-1).alias("offset"), pl.col("enter").alias("below_wanted"),
        pl.col("enter").alias("upto_wanted"), "leave",
    )  # fmt: skip
    own = ranks.reads.join(gathered.members, on="process").join(suspects, on=[*GROUP, "stretch"]).select(columns)
    points = pl.concat([begin.select(columns), own]).sort("suspect", "offset")
    is_last = pl.col("suspect").ne_missing(pl.col("suspect").shift(-1))
    following = pl.when(is_last).then("leave").otherwise(pl.col("below_wanted").shift(-1))
    return points.with_columns(lost=following - pl.col("upto_wanted")).filter(pl.col("lost") > 0)


def _with_send(lost: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The send of the first offset that was lost: the earliest one."""
    at = [*PLACE, "first"]
    sent = sends.rename({"offset": "first"}).join(lost, on=at, how="semi").sort("time", "event")
    return lost.join(sent.unique(at, keep="first", maintain_order=True).select(*at, "value", "time", "event"), on=at)


FAMILIES: tuple[Family, ...] = (SkippedByGroups(),)
