"""Losses: acknowledged records that a group went past.

A group is a name. Events without a group, a topic or a partition are left out, and so are topics that the workload
deleted. A process belongs to each group that it ever subscribed to (SUBSCRIBE, however it ended), and what it is handed
at any time is handed to those groups.

rebalance-loss           an offset, between the lowest and the highest that the group was ever handed there, with an
                         acknowledged send (`ok`), of which a process outside of the group was handed a record, and none
                         in the group was: the group went past it. Of a send in a transaction that process is one which
                         is not known to read uncommitted: what was aborted is rightly passed. Not in compacted topics.
                         Offsets of one group, place and set of tags are one finding. Tagged `open poll` if a member may
                         have had it in its hands when it was killed, as below

`open poll`: a process of the group has a poll that is `info` and has no count, it may have the place, and the group
went past the offset only then: the next lower offset that the group was handed was handed out at most S (SETTLING_NS)
after that poll was `invoked`, and nothing above the offset was handed out until it was. A record is handed out at its
`invoked` (at its `time`, if that is null). A process may have a place if the last ASSIGN (`ok`, without an offset) or
REVOKE of it there, by event, is an ASSIGN; or, if it was never given any place so, if it was handed a record there.

A group that was not handed a wanted offset (`checkers.groups.handed_offsets`) was passed by it, for whoever was handed
it is then outside of the group. Pieces survey the runs that processes were handed, and where the runs of a group leave
nothing out between its lowest and its highest offset, nothing is lost. Only places where they do are judged. What lies
between two neighbours among the offsets that a group was handed is a *gap*, and is in a member's hands as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import polars as pl

from checkers.core.arrays import ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import make_findings
from checkers.core.node_answers import SETTLING_NS
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
from checkers.groups.membership import COMPANY, PLACE, Companies, handed_at
from harness.history.schema import F, Kind

LOSS = "rebalance-loss"


@dataclass(frozen=True)
class PassedGroups:
    """The stretches in which groups were passed by wanted offsets, and what has to be known to judge them."""

    suspects: pl.DataFrame  # company and stretch: `enter` and `leave` of its wanted offsets, what was handed outside
    hands: pl.DataFrame  # company, place and moment (`at`) of the polls in which members were killed
    companies: Companies
    looked_at: int


class SkippedByGroups(Family):
    """Acknowledged records that a group went past."""

    name = "skipped by groups"
    anomalies: ClassVar[Mapping[str, str]] = {
        LOSS: "a group moved past an acknowledged record that none of its members received"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "process", "invoked", "f", "type", "topic", "partition", "offset", "count", "name"),
        "sends": ("event", "time", "type", "topic", "partition", "offset", "value", "txn"),
        "records": ("time", "process", "invoked", "topic", "partition", "offset"),
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
        companies = Companies.of(whole.members)
        needed = _needed(whole, companies)
        taken = _taken(whole.runs.join(companies.processes, on="process"))
        counted = needed.join(taken, on=[*COMPANY, "stretch"], how="left")
        lost = pl.col("leave") - pl.col("enter") > pl.col("taken").fill_null(0)
        suspects = counted.filter(lost).drop("acked", "taken").with_row_index("suspect")
        groups = companies.groups.group_by("company").agg(groups=pl.len())
        looked_at = needed.join(groups, on="company").select(pl.col("acked") * pl.col("groups")).sum().item()
        return PassedGroups(suspects, _hands(whole, companies), companies, int(looked_at))

    def needs_judging(self, gathered: PassedGroups, run: RunContext, others: ByFamily) -> bool:
        """For what was lost, and for whose fault it may be."""
        return len(gathered.suspects) > 0

    def judge(self, piece: Piece, gathered: PassedGroups, run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Per company, place and tag how much was lost, and the first of it with its send."""
        chosen = gathered.suspects.select(STRETCH).unique()
        sends = acknowledged_sends(piece, run).join(chosen, on=STRETCH, how="semi")
        ranks = OffsetRanks.of(sends, handed_records(piece, run).join(chosen, on=STRETCH, how="semi"), run)
        gaps = _in_hand(_gaps(ranks, gathered), gathered.hands)
        rank, lost = ints(gaps, "upto_wanted"), ints(gaps, "lost")
        told = gaps.with_columns(
            first=pl.Series(ranks.offset[rank], dtype=pl.Int64),
            last=pl.Series(ranks.offset[rank + lost - 1], dtype=pl.Int64),
        )
        by_tag = told.group_by(*COMPANY, "in_hand").agg(
            pl.col("lost").sum(), pl.col("first").min(), pl.col("last").max()
        )
        return _with_send(by_tag, sends)

    def conclude(
        self, gathered: PassedGroups, judged: Sequence[pl.DataFrame], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """A finding per group, place and tag."""
        looked_at = {LOSS: gathered.looked_at}
        if not judged:
            return FamilyResult(looked_at=looked_at)
        first = pl.concat(judged).sort("first").group_by(*COMPANY, "in_hand", maintain_order=True)
        one = first.agg(
            pl.exclude("lost", "last").first(), pl.col("lost").sum(), pl.col("last").max()
        ).with_columns(tag=pl.when("in_hand").then(pl.lit("open poll")))  # fmt: skip
        findings = make_findings(
            LOSS, gathered.companies.of_each(one), run, offset="first", values=("value",), time="time",
            events=("event",), tags=("tag",), severity="lost", facts=("group", "lost", "first", "last"),
        )  # fmt: skip
        return FamilyResult(findings, looked_at)


def _needed(whole: HandedSurvey, companies: Companies) -> pl.DataFrame:
    """Per company and stretch between the ends of what it was handed: the numbers of the wanted offsets between them.

    With the highest offset that it was handed `before`, from when on it had it, and when it had anything `after`.
    """
    by_stretch = (*COMPANY, "stretch")
    mine = whole.reach.join(companies.processes, on="process")
    first = pl.col("highest_since").filter(pl.col("highest") == pl.col("highest").max()).min()
    reach = mine.group_by(by_stretch).agg(
        pl.col("highest", "upto_acked", "upto_wanted").max(), pl.col("below_acked", "below_wanted", "since").min(),
        highest_since=first,
    ).sort("stretch")  # fmt: skip
    ends = reach.group_by(COMPANY).agg(begin=pl.col("stretch").min(), end=pl.col("stretch").max())
    inside = ends.join(whole.lanes, on=PLACE).filter(pl.col("stretch").is_between("begin", "end")).sort("stretch")
    before = reach.select(*by_stretch, before="highest", before_since="highest_since")
    after = reach.select(*by_stretch, after_since=pl.col("since").reverse().cum_min().reverse().over(COMPANY))
    joined = _beside(_beside(inside, before, "backward"), after, "forward").join(reach, on=by_stretch, how="left")

    def enter(what: str) -> pl.Expr:
        return pl.when(pl.col("stretch") == pl.col("begin")).then(f"below_{what}").otherwise(0)

    def leave(what: str) -> pl.Expr:
        return pl.when(pl.col("stretch") == pl.col("end")).then(f"upto_{what}").otherwise(what)

    return joined.select(
        *by_stretch, "before", "before_since", "after_since", enter=enter("wanted"), leave=leave("wanted"),
        acked=leave("acked") - enter("acked"),
    )  # fmt: skip


def _beside(rows: pl.DataFrame, others: pl.DataFrame, where: Literal["backward", "forward"]) -> pl.DataFrame:
    """With what the nearest lower or higher stretch of a company has."""
    return rows.join_asof(
        others, on="stretch", by=list(COMPANY), strategy=where, allow_exact_matches=False, check_sortedness=False
    )


def _taken(runs: pl.DataFrame) -> pl.DataFrame:
    """Per company and stretch how many wanted offsets it was handed."""
    by_stretch = (*COMPANY, "stretch")
    so_far = pl.col("last").cum_max().shift(1, fill_value=-1).over(by_stretch)
    more = pl.col("last") - pl.max_horizontal(pl.col("first") - 1, so_far)
    counted = runs.sort("first").with_columns(taken=more.clip(lower_bound=0))
    return counted.group_by(by_stretch).agg(pl.col("taken").sum())


def _hands(whole: HandedSurvey, companies: Companies) -> pl.DataFrame:
    """When members were killed in a poll, by the companies that they belonged to and the places that they may have."""
    unsaid = whole.reach.select("process", *PLACE).unique().join(whole.assigned, on="process", how="anti")
    held = pl.concat([whole.assigned.filter("held").select("process", *PLACE), unsaid])
    return whole.killed.join(held, on="process").join(companies.processes, on="process").select(*COMPANY, "at").unique()


def _gaps(ranks: OffsetRanks, gathered: PassedGroups) -> pl.DataFrame:
    """Between which offsets that a company was handed there are wanted ones, how many, and the number of the first.

    `low_since` is when it had the lower of the two, and `high_since` when it had anything above.
    """
    begins = ranks.lanes.select(*STRETCH, begin="begin_wanted")
    suspects = gathered.suspects.join(begins, on=STRETCH).with_columns(pl.col("enter", "leave") + pl.col("begin"))
    columns = ("suspect", *COMPANY, "offset", "since", "below_wanted", "upto_wanted", "leave", "after_since")
    begin = suspects.select(
        "suspect", *COMPANY, pl.col("before").fill_null(-1).alias("offset"), pl.col("before_since").alias("since"),
        pl.col("enter").alias("below_wanted"), pl.col("enter").alias("upto_wanted"), "leave", "after_since",
    )  # fmt: skip
    mine = ranks.reads.join(gathered.companies.processes, on="process").join(suspects, on=[*COMPANY, "stretch"])
    own = mine.with_columns(since=handed_at()).select(columns)
    points = pl.concat([begin.select(columns), own]).sort("suspect", "offset")
    is_last = pl.col("suspect").ne_missing(pl.col("suspect").shift(-1))
    following = pl.when(is_last).then("leave").otherwise(pl.col("below_wanted").shift(-1))
    above = pl.col("since").reverse().cum_min().reverse().shift(-1).over("suspect")
    return points.with_columns(
        lost=following - pl.col("upto_wanted"), low_since=pl.col("since").min().over("suspect", "offset"),
        high_since=pl.min_horizontal(above, "after_since"),
    ).filter(pl.col("lost") > 0)  # fmt: skip


def _in_hand(gaps: pl.DataFrame, hands: pl.DataFrame) -> pl.DataFrame:
    """Which of them a member may have had in its hands when it was killed."""
    joined = gaps.sort("high_since").join_asof(
        hands.sort("at"), left_on="high_since", right_on="at", by=list(COMPANY), strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    soon = pl.col("low_since") <= pl.col("at") + SETTLING_NS
    return joined.with_columns(in_hand=soon.fill_null(value=False))


def _with_send(lost: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The send of the first offset that was lost: the earliest one."""
    at = [*PLACE, "first"]
    sent = sends.rename({"offset": "first"}).join(lost, on=at, how="semi").sort("time", "event")
    return lost.join(sent.unique(at, keep="first", maintain_order=True).select(*at, "value", "time", "event"), on=at)


FAMILIES: tuple[Family, ...] = (SkippedByGroups(),)
