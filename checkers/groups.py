"""Groups: who owns a partition, what a group commits that it never read, and what it never got.

A group is a name. Events without a group, a topic or a partition are left out of everything here, and so are topics
that the workload deleted. What groups answer about their commits is in `checkers.commits`.

**Reads.** A process belongs to each group that it ever subscribed to (SUBSCRIBE, however it ended), and what it is
handed at any time is handed to those groups.

committed-beyond-read    an `ok` COMMIT operation of an offset above 1 + the highest one that the group had been handed
                         there; not asked before it was handed anything, in compacted topics, and in topics with sends
                         in transactions (positions move past markers). By the second: `time` div 10^9 of the record is
                         at most that of the commit's `time`. A second of a group and place counts once, with its
                         highest commit; seconds of one group and place are one finding
rebalance-loss           an offset, between the lowest and the highest that the group was ever handed there, with an
                         acknowledged send (`ok`), of which a process outside of the group was handed a record, and none
                         in the group was: the group went past it. Of a send in a transaction that process is one which
                         is not known to read uncommitted: what was aborted is rightly passed. Not in compacted topics.
                         Offsets of one group, place and set of tags are one finding. Tagged `open poll` if a member may
                         have had it in its hands when it was killed: a process of the group has a poll that is `info`
                         and has no count, and the offset lies above the last record that this process was handed there
                         (by time, then event) and below the next one above that which the group was handed

**Ownership.** A member is given a partition by an ASSIGN that is `ok` and has no offset. It has it for certain if what
comes next for that member and place (by time, then event) is a REVOKE and not another such ASSIGN: from the `time` of
the one to the `invoked` of the other.

double-ownership   of two such assignments of a group and place that follow each other (by time, then event), to
                   different members, the second one is given (`time`) before the first one is revoked (`invoked`), and
                   either the generation of the second lies between those of the first and of its revoke (of the first
                   alone if the revoke has none), or one of the two assignments has no generation (null or below 0),
                   and the revoke is `ok`: that member let go in order, and was not thrown out unknowingly. Tagged
                   `one generation` or `generation unknown`

**How losses are found.** Call an offset *wanted* if it was acknowledged and anybody was handed it whose word counts: a
group that was not handed a wanted offset was passed by it, for whoever was handed it is then outside of the group. The
wanted offsets of a stretch are numbered; each process was handed *runs* of neighbours among them, few in a healthy
history. Pieces survey those runs, and where the runs of a group leave nothing out between its lowest and its highest
offset, nothing is lost. Only places where they do are judged. What lies between two neighbours among the offsets that a
group was handed is a *gap*; a killed member may have had a gap in its hands if its last record is the lower one of the
two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import polars as pl

from checkers.commits import GROUP, operations
from checkers.core.arrays import Bools, Ints, ints, is_in
from checkers.core.family import ByFamily, Family, FamilyResult, PiecewiseFamily
from checkers.core.findings import Findings, make_findings
from checkers.core.partition_log import OffsetKeys
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from harness.history.schema import F, Kind, Type

PLACE = ("topic", "partition")
STRETCH = (*PLACE, "stretch")
BEYOND, LOSS, TWICE = "committed-beyond-read", "rebalance-loss", "double-ownership"
RUNS_AT_MOST = 64  # of a process in a stretch that a survey tells; with more of them the place is judged


def _members(piece: Piece) -> pl.DataFrame:
    """The groups that each process subscribed to in this piece."""
    subscribed = piece.ops.filter(pl.col("f") == F.SUBSCRIBE, pl.col("name").is_not_null())
    return subscribed.select("process", pl.col("name").alias("group")).unique()


def _readable(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Rows with a place, of topics whose offsets stay what they are."""
    placed = [pl.col(name).is_not_null() for name in (*PLACE, "offset")]
    return rows.filter(*placed, ~pl.col("topic").is_in(sorted(run.compacted)), run.deletions.untouched())


@dataclass(frozen=True)
class GroupPositions:
    """What was committed and handed by the second."""

    members: pl.DataFrame
    commits: pl.DataFrame  # the highest of each group, place and second
    handed: pl.DataFrame  # the highest offset of each process, place and second
    marked: list[int]  # topics with sends in transactions

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of all pieces."""
        members, commits, handed = (
            pl.concat([getattr(part, name) for part in parts]) for name in ("members", "commits", "handed")
        )
        return cls(members.unique(), commits, handed, sorted({topic for part in parts for topic in part.marked}))


class CommittedReads(Family):
    """Commits above what a group had been handed."""

    name = "committed reads"
    anomalies: ClassVar[Mapping[str, str]] = {
        BEYOND: "a group committed an offset that none of its members had read up to"
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "time", "process", "f", "type", "topic", "partition", "offset", "name"),
        "sends": ("topic", "partition", "offset", "txn"),
        "records": ("time", "process", "topic", "partition", "offset"),
    }

    def needs(self, run: RunContext) -> bool:
        """Whether groups commit."""
        return run.does(F.COMMIT) and run.does(F.SUBSCRIBE)

    def survey(self, piece: Piece, run: RunContext) -> GroupPositions:
        """By the second."""
        marked = piece.sends.filter(pl.col("txn").is_not_null())["topic"].drop_nulls().unique().to_list()
        return GroupPositions(
            _members(piece), _highest_commits(piece, run), _highest_handed(piece, run),
            marked if run.does(F.TXN) else [],
        )  # fmt: skip

    def gather(self, surveys: Sequence[GroupPositions], run: RunContext, others: ByFamily) -> pl.DataFrame:
        """Commits, and the highest offset that the group had been handed by then."""
        return _with_handed(GroupPositions.together(surveys or [self.survey(Piece({}, run), run)]))

    def conclude(
        self, gathered: pl.DataFrame, judged: Sequence[object], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """A finding per group and place."""
        beyond = gathered.filter(pl.col("committed") > pl.col("handed") + 1)
        first = beyond.sort("time", "event").group_by(GROUP, maintain_order=True)
        one = first.agg(
            pl.all().first(), seconds=pl.len(), severity=(pl.col("committed") - pl.col("handed")).max()
        )  # fmt: skip
        findings = make_findings(
            BEYOND, one, run, offset="committed", time="time", events=("event",), severity="severity",
            facts=("group", "committed", "handed", "seconds"),
        )  # fmt: skip
        return FamilyResult(findings, {BEYOND: len(gathered)})


def _second() -> pl.Expr:
    return (pl.col("time") // SECOND_NS).alias("second")


def _highest_commits(piece: Piece, run: RunContext) -> pl.DataFrame:
    made = _readable(operations(piece.ops, run, F.COMMIT).filter(pl.col("type") == Type.OK), run)
    ordered = made.select(*GROUP, _second(), "time", "event", committed="offset").sort(
        "committed", "time", "event", descending=[True, False, False]
    )
    return ordered.unique([*GROUP, "second"], keep="first", maintain_order=True)


def _highest_handed(piece: Piece, run: RunContext) -> pl.DataFrame:
    rows = _readable(piece.records, run).select("process", *PLACE, _second(), "offset")
    return rows.group_by("process", *PLACE, "second").agg(pl.col("offset").max())


def _with_handed(positions: GroupPositions) -> pl.DataFrame:
    """Commits before which the group had been handed something."""
    commits = positions.commits.filter(~pl.col("topic").is_in(positions.marked))
    places = commits.select(GROUP).unique()
    mine = positions.handed.join(positions.members, on="process").join(places, on=GROUP, how="semi")
    so_far = mine.sort("second").select(*GROUP, "second", handed=pl.col("offset").cum_max().over(GROUP))
    joined = commits.sort("second").join_asof(
        so_far, on="second", by=list(GROUP), strategy="backward", check_sortedness=False
    )
    return joined.filter(pl.col("handed").is_not_null())


class Owners(PiecewiseFamily):
    """Partitions that two members of a group had at once."""

    name = "owners"
    anomalies: ClassVar[Mapping[str, str]] = {TWICE: "two members of a group had one partition at the same time"}
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("event", "time", "process", "invoked", "f", "type", "topic", "partition", "offset", "member",
                "generation", "name"),
    }  # fmt: skip

    def needs(self, run: RunContext) -> bool:
        """Whether groups assign partitions."""
        return run.does(F.ASSIGN) and run.does(F.SUBSCRIBE)

    def survey(self, piece: Piece, run: RunContext) -> FamilyResult:
        """All of a group and place is in one piece."""
        moved = _assignments(piece.ops, run).filter(pl.col("member_before") != pl.col("member"))
        return FamilyResult(_owned_twice(moved, run), {TWICE: len(moved)})


def _assignments(ops: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Each assignment, with the one before it and how that was revoked."""
    given = (pl.col("type") == Type.OK) & pl.col("offset").is_null()
    taken = (pl.col("f") == F.REVOKE) | given
    rows = operations(ops, run, F.ASSIGN, F.REVOKE).filter(pl.col("member").is_not_null(), taken)
    lanes = rows.select(GROUP).unique(maintain_order=True).with_row_index("lane")
    known = pl.when(pl.col("generation") >= 0).then("generation")
    ordered = rows.with_columns(generation=known).join(lanes, on=GROUP).sort("lane", "member", "time", "event")
    after = _beside(("lane", "member"), -1, "then_{}", ("f", "type", "invoked", "event", "generation"))
    assigned = ordered.with_columns(after).filter(pl.col("f") == F.ASSIGN).sort("lane", "time", "event")
    then = ("then_f", "then_type", "then_invoked", "then_event", "then_generation")
    return assigned.with_columns(_beside(("lane",), 1, "{}_before", ("member", "time", "event", "generation", *then)))


def _beside(keys: Sequence[str], by: int, name: str, columns: Sequence[str]) -> list[pl.Expr]:
    """What the row before (1) or the next one (-1) has; null if it is of other keys."""
    same = pl.all_horizontal(pl.col(key) == pl.col(key).shift(by) for key in keys)
    return [pl.when(same).then(pl.col(column).shift(by)).alias(name.format(column)) for column in columns]


def _owned_twice(moved: pl.DataFrame, run: RunContext) -> Findings:
    let_go = (pl.col("then_f_before") == F.REVOKE) & (pl.col("then_invoked_before") > pl.col("time"))
    first, last = pl.col("generation_before"), pl.coalesce("then_generation_before", "generation_before")
    in_order = pl.col("then_type_before") == Type.OK
    unknown = (pl.col("generation").is_null() | first.is_null()) & in_order
    one = pl.col("generation").is_between(first, last).fill_null(value=False)
    twice = moved.filter(let_go, one | unknown).with_columns(
        tag=pl.when(unknown).then(pl.lit("generation unknown")).otherwise(pl.lit("one generation")),
        overlap_ns=pl.col("then_invoked_before") - pl.col("time"),
    )
    return make_findings(
        TWICE, twice, run, time="time_before", until="time", events=("event_before", "then_event_before", "event"),
        tags=("tag",), severity="overlap_ns",
        facts=("group", "member_before", "generation_before", "member", "generation", "overlap_ns"),
    )  # fmt: skip


@dataclass(frozen=True)
class OffsetRanks:
    """Acknowledged offsets of a piece in order, of which some are wanted, and where each record lies among them.

    `reads` has, beside its own columns, how many acknowledged and how many wanted offsets lie `below` its offset, and
    how many `upto` it.
    """

    reads: pl.DataFrame
    offset: Ints  # of each wanted one
    lanes: pl.DataFrame  # a row for each stretch with acknowledged offsets: how many, and where they begin

    @classmethod
    def of(cls, sends: pl.DataFrame, reads: pl.DataFrame, run: RunContext) -> Self:
        """Of acknowledged sends, and records."""
        keys = OffsetKeys.of([sends, reads], run.stretch)
        sent, at = keys.at(sends), keys.at(reads)
        acked = _distinct(sent)
        below = np.searchsorted(acked, at)
        upto = below + (np.append(acked, -2)[below] == at)
        plain = np.append(_plain(acked, sent, sends), [False])[below]
        committed = ~is_in(ints(reads, "process"), run.sees_aborted)
        wanted = np.zeros(len(acked), np.bool_)
        wanted[below[(upto > below) & (plain | committed)]] = True
        count = np.concatenate([[0], np.cumsum(wanted)])
        rows = reads.with_columns(
            pl.Series("below_acked", below), pl.Series("upto_acked", upto),
            pl.Series("below_wanted", count[below]), pl.Series("upto_wanted", count[upto]),
        )  # fmt: skip
        return cls(rows, keys.parts(acked[wanted])["offset"], _lanes(keys, acked, count, run.stretch))

    def runs(self) -> pl.DataFrame:
        """Of neighbours among the wanted offsets of a stretch that a process was handed, the first and the last."""
        handed = self.reads.filter(pl.col("upto_wanted") > pl.col("below_wanted"))
        width = len(self.offset) + 1
        at = _distinct(ints(handed, "process") * width + ints(handed, "below_wanted"))
        process, rank = at // width, at % width
        begins = ints(self.lanes, "begin_wanted")
        lane = np.searchsorted(begins, rank, side="right") - 1
        new = np.flatnonzero((np.diff(at, prepend=-2) != 1) | (np.diff(lane, prepend=-1) != 0))
        last = np.append(new[1:], len(at))[: len(new)] - 1
        begin = begins[lane[new]]
        found = pl.DataFrame({"process": process[new], "first": rank[new] - begin, "last": rank[last] - begin})
        return found.cast({"process": pl.Int32}).with_columns(self.lanes.select(STRETCH)[lane[new]])


def _distinct(values: Ints) -> Ints:
    """In order; `numpy.unique` takes ten times as long."""
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=-1) != 0] if len(ordered) else ordered


def _plain(acked: Ints, sent: Ints, sends: pl.DataFrame) -> Bools:
    """Which acknowledged offsets have a send that was in no transaction."""
    outside = sends["txn"].is_null().to_numpy()
    if outside.all():
        return np.ones(len(acked), np.bool_)
    plain = np.zeros(len(acked), np.bool_)
    plain[np.searchsorted(acked, sent[outside & (sent >= 0)])] = True
    return plain


def _lanes(keys: OffsetKeys, acked: Ints, count: Ints, stretch: int) -> pl.DataFrame:
    lane = keys.lane(acked)
    begin = np.flatnonzero(np.diff(lane, prepend=-1) != 0)
    end = np.append(begin[1:], len(lane))[: len(begin)]
    places = keys.parts(acked[begin])
    return pl.DataFrame({
        "topic": places["topic"], "partition": places["partition"], "stretch": places["offset"] // stretch,
        "begin_acked": begin, "begin_wanted": count[begin], "acked": end - begin,
        "wanted": count[end] - count[begin],
    }).cast({"topic": pl.Int32, "partition": pl.Int32})  # fmt: skip


@dataclass(frozen=True)
class HandedSurvey:
    """What processes were handed of stretches, by the numbers of acknowledged and of wanted offsets in these."""

    members: pl.DataFrame
    killed: list[int]  # processes with a poll that was open when they were
    lanes: pl.DataFrame
    reach: pl.DataFrame  # per process and stretch: lowest and highest offset, and how far they reach among the others
    runs: pl.DataFrame

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of all pieces."""
        lanes, reach, runs = (pl.concat([getattr(part, name) for part in parts]) for name in ("lanes", "reach", "runs"))
        members = pl.concat([part.members for part in parts]).unique()
        return cls(members, sorted({process for part in parts for process in part.killed}), lanes, reach, runs)


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
        LOSS: "a group moved past an acknowledged record that none of its members received"
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
        ranks = OffsetRanks.of(_acknowledged(piece, run), _handed(piece, run), run)
        few = pl.len().over("process", *STRETCH) <= RUNS_AT_MOST
        is_open = (pl.col("f") == F.POLL) & (pl.col("type") == Type.INFO) & pl.col("count").is_null()
        killed = piece.ops.filter(is_open)["process"].unique().to_list()
        lanes = ranks.lanes.select(*STRETCH, "acked", "wanted")
        return HandedSurvey(_members(piece), killed, lanes, _reach(ranks), ranks.runs().filter(few))

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
        sends = _acknowledged(piece, run).join(chosen, on=STRETCH, how="semi")
        ranks = OffsetRanks.of(sends, _handed(piece, run).join(chosen, on=STRETCH, how="semi"), run)
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


def _acknowledged(piece: Piece, run: RunContext) -> pl.DataFrame:
    return _placed(piece.sends.filter(pl.col("type") == Type.OK), run)


def _handed(piece: Piece, run: RunContext) -> pl.DataFrame:
    return _placed(piece.records, run)


def _placed(rows: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    return _readable(rows.filter(pl.col("offset") >= 0), run).with_columns(stretch=pl.col("offset") // run.stretch)


def _reach(ranks: OffsetRanks) -> pl.DataFrame:
    """Per process and stretch: how far it was handed anything, by offsets and by their numbers, and what last."""
    of = ("process", *STRETCH)
    ends = ranks.reads.group_by(of).agg(
        pl.col("offset").max().alias("highest"), pl.col("below_acked", "below_wanted").min(),
        pl.col("upto_acked", "upto_wanted").max(),
    )  # fmt: skip
    latest = ranks.reads.filter(pl.col("time") == pl.col("time").max().over(of)).sort("event")
    last = latest.group_by(of, maintain_order=True).agg(
        last=pl.col("offset").last(), time=pl.col("time").last(), event=pl.col("event").last()
    )
    within = ends.join(last, on=of).join(ranks.lanes, on=STRETCH, how="left")
    return within.select(
        *of, "highest", "last", "time", "event",
        *((pl.col(f"{side}_{what}") - pl.col(f"begin_{what}")).fill_null(0)
          for side in ("below", "upto") for what in ("acked", "wanted")),
    )  # fmt: skip


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


FAMILIES: tuple[Family, ...] = (CommittedReads(), Owners(), SkippedByGroups())
