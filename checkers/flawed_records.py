"""Odd records: those that say of themselves that something is wrong, each place once.

corrupt     a record whose checksum does not hold.
misrouted   a record in another topic or partition than it was sent to. It counts as a read of its value.
phantom     a record that is none of this run's (tag `foreign`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import Status

STATUS = {"corrupt": Status.CORRUPT, "misrouted": Status.MISROUTED, "phantom": Status.FOREIGN}


@dataclass(frozen=True)
class FlawedRecordSurvey:
    """What was found in so many records."""

    findings: Findings
    records: int


def odd(records: pl.DataFrame) -> pl.DataFrame:
    """A row for each place and status; all records of a place are in one piece."""
    rows = records.filter(pl.col("status") > Status.GOOD)
    return rows.group_by("topic", "partition", "offset", "status").agg(
        pl.col("value").max(), pl.col("event").min(), pl.col("time").min()
    )


class OddRecords(Family):
    """What records say of themselves."""

    name = "odd records"
    anomalies: ClassVar[Mapping[str, str]] = {
        "corrupt": "a record whose checksum does not hold",
        "misrouted": "a record in another topic or partition than it was sent to",
        "phantom": "a record that is none of this run's",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "records": ("event", "time", "topic", "partition", "offset", "value", "status")
    }

    def survey(self, piece: Piece, run: RunContext) -> FlawedRecordSurvey:
        """Everything that is wrong with the records of a piece."""
        rows = odd(piece.records).with_columns(foreign=pl.lit("foreign"))
        parts = [
            make_findings(
                anomaly,
                rows.filter(pl.col("status") == status),
                run,
                offset="offset",
                values=("value",),
                time="time",
                events=("event",),
                tags=("foreign",) if status is Status.FOREIGN else (),
            )
            for anomaly, status in STATUS.items()
        ]
        return FlawedRecordSurvey(merge_findings(parts, run.limit), len(piece.records))

    def gather(self, surveys: Sequence[FlawedRecordSurvey], run: RunContext, others: ByFamily) -> FlawedRecordSurvey:
        """Of all pieces."""
        findings = merge_findings([each.findings for each in surveys], run.limit)
        return FlawedRecordSurvey(findings, sum(each.records for each in surveys))

    def conclude(
        self, gathered: FlawedRecordSurvey, judged: Sequence[object], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """Every record was looked at."""
        return FamilyResult(gathered.findings, dict.fromkeys(self.anomalies, gathered.records))


FAMILIES: tuple[Family, ...] = (OddRecords(),)
