"""Own writes: what a transaction polled of what it had sent itself.

precommitted-read   a send of a transaction of which a good record has that transaction as `txn`: polled by it, by a
                    process that is not known to read uncommitted. The transaction need have no completion; topics that
                    the workload deleted (`checkers.core.deletions`) are left alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import make_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.shared.fates import READS
from checkers.transactions.partition_reach import (
    PLACE,
)
from harness.history.schema import F, Status


@dataclass(frozen=True)
class PolledRecords:
    """What transactions polled: how many records, and which of them they had written."""

    records: int
    own: pl.DataFrame


def polled(sends: pl.DataFrame, records: pl.DataFrame, run: RunContext) -> PolledRecords:
    """Of sends and of records that belong together."""
    mine = pl.col("txn").is_not_null() & pl.col("value").is_not_null() & run.deletions.untouched()
    good = (pl.col("status") == Status.GOOD) & ~by(run.sees_aborted)
    read = records.filter(mine & good).select("value", "txn", "time", polled="event")
    wrote = sends.filter(mine).select("value", "txn", *PLACE, at="offset", sent="event")
    both = wrote.join(read, on="value").filter(pl.col("txn") == pl.col("txn_right"))
    keys = ("value", "txn", *PLACE, "at", "sent")
    return PolledRecords(len(read), both.group_by(keys).agg(pl.col("polled", "time").min()))


class OwnWrites(Family):
    """What transactions polled of their own."""

    name = "own writes"
    anomalies: ClassVar[Mapping[str, str]] = {"precommitted-read": "a transaction polled what it had written itself"}
    reads: ClassVar[Mapping[str, Sequence[str]]] = READS
    by_value = True

    def needs(self, run: RunContext) -> bool:
        """Whether transactions may have polled."""
        return run.does(F.TXN) and run.does(F.POLL)

    def survey(self, piece: Piece, run: RunContext) -> PolledRecords | None:
        """What is settled here."""
        return polled(piece.split.settled.sends, piece.split.settled.told, run) if run.many else None

    def gather(self, surveys: Sequence[PolledRecords | None], run: RunContext, others: ByFamily) -> list[PolledRecords]:
        """As far as it holds."""
        return [each for each in surveys if each is not None and others["fates"].settled_count]

    def judge(self, piece: Piece, gathered: list[PolledRecords], run: RunContext, others: ByFamily) -> PolledRecords:
        """What is loose, or all there is."""
        return polled(piece.sends, piece.records, run)

    def conclude(
        self, gathered: list[PolledRecords], judged: Sequence[PolledRecords], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """A finding for each write of which that is true."""
        parts = [*gathered, *judged]
        if not parts:
            return FamilyResult()
        findings = make_findings(
            "precommitted-read", pl.concat([each.own for each in parts]), run, offset="at", values=("value",),
            time="time", events=("sent", "polled"),
        )  # fmt: skip
        return FamilyResult(findings, {"precommitted-read": sum(each.records for each in parts)})


FAMILIES: tuple[Family, ...] = (OwnWrites(),)
