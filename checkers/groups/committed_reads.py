"""Commits of a group beside what it had been handed.

A group is a name. Events without a group, a topic or a partition are left out, and so are topics that the workload
deleted. A process belongs to each group that it ever subscribed to (SUBSCRIBE, however it ended), and what it is handed
at any time is handed to those groups.

committed-beyond-read    an `ok` COMMIT operation of an offset above 1 + the highest one that the group had been handed
                         there; not asked before it was handed anything, in compacted topics, and in topics with sends
                         in transactions (positions move past markers). By the second: a record was handed in that of
                         its `invoked` (of `time`, if that is null), and counts up to that of the commit's `time`; for
                         a library commits what a poll hands over before it is recorded. A second of a group and place
                         counts once, with its highest commit; seconds of one group and place are one finding

What groups answer about their commits is in `checkers.commits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import polars as pl

from checkers.commits import GROUP, operations
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import make_findings
from checkers.core.piece import Piece
from checkers.core.run import SECOND_NS, RunContext
from checkers.groups.membership import COMPANY, PLACE, Companies, handed_at, members_of_groups, readable
from harness.history.schema import F, Type

BEYOND = "committed-beyond-read"


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
        "records": ("time", "process", "invoked", "topic", "partition", "offset"),
    }

    def needs(self, run: RunContext) -> bool:
        """Whether groups commit."""
        return run.does(F.COMMIT) and run.does(F.SUBSCRIBE)

    def survey(self, piece: Piece, run: RunContext) -> GroupPositions:
        """By the second."""
        marked = piece.sends.filter(pl.col("txn").is_not_null())["topic"].drop_nulls().unique().to_list()
        return GroupPositions(
            members_of_groups(piece), _highest_commits(piece, run), _highest_handed(piece, run),
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


def _second(moment: pl.Expr) -> pl.Expr:
    return (moment // SECOND_NS).alias("second")


def _highest_commits(piece: Piece, run: RunContext) -> pl.DataFrame:
    made = readable(operations(piece.ops, run, F.COMMIT).filter(pl.col("type") == Type.OK), run)
    ordered = made.select(*GROUP, _second(pl.col("time")), "time", "event", committed="offset").sort(
        "committed", "time", "event", descending=[True, False, False]
    )
    return ordered.unique([*GROUP, "second"], keep="first", maintain_order=True)


def _highest_handed(piece: Piece, run: RunContext) -> pl.DataFrame:
    rows = readable(piece.records, run).select("process", *PLACE, _second(handed_at()), "offset")
    return rows.group_by("process", *PLACE, "second").agg(pl.col("offset").max())


def _with_handed(positions: GroupPositions) -> pl.DataFrame:
    """Commits before which the group had been handed something."""
    commits = positions.commits.filter(~pl.col("topic").is_in(positions.marked))
    companies = Companies.of(positions.members)
    asked = commits.join(companies.groups, on="group")
    places = asked.select(COMPANY).unique()
    mine = positions.handed.join(companies.processes, on="process").join(places, on=COMPANY, how="semi")
    so_far = mine.sort("second").select(*COMPANY, "second", handed=pl.col("offset").cum_max().over(COMPANY))
    joined = asked.sort("second").join_asof(
        so_far, on="second", by=list(COMPANY), strategy="backward", check_sortedness=False
    )
    return joined.filter(pl.col("handed").is_not_null())


FAMILIES: tuple[Family, ...] = (CommittedReads(),)
