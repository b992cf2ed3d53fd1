"""Outcomes: torn, wrong-outcome and zombie-write, from how each transaction ended and what is visible of its writes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from checkers.core.arrays import NEVER, NONE
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import topic_and_partition
from checkers.transactions.transaction_values import OF_MISSING, OF_TRANSACTION, ValueTotals
from harness.history.schema import F, Type


def ends_of(piece: Piece) -> pl.DataFrame:
    """How transactions ended, and who took a transactional id."""
    taken = (pl.col("f") == F.INIT) & (pl.col("type") == Type.OK) & pl.col("name").is_not_null()
    return piece.ops.filter((pl.col("f") == F.TXN) | taken).select(
        "op", "f", "type", "time", "event", "name", "invoked"
    )


def fenced(ends: pl.DataFrame) -> pl.DataFrame:
    """Transactions only: `fenced` is when the first of those was there that took the id after their invocation."""
    init = pl.when(pl.col("f") == F.INIT).then("time")
    # What comes later comes first here; where both were invoked at one instant, the transaction does.
    later = ends.with_columns(init=init).sort("invoked", "f", descending=True)
    first = pl.col("init").cum_min().forward_fill().over("name") if later["init"].count() else pl.col("init")
    return later.with_columns(fenced=first).filter(pl.col("f") == F.TXN).select(
        "op", "event", "fenced", outcome="type", ended="time"
    )  # fmt: skip


def outcomes_of(ends: pl.DataFrame, said: ValueTotals) -> pl.DataFrame:
    """A row per transaction: how it ended, and what is visible and what is missing of its writes."""
    writes, missing = pl.DataFrame(said.transactions), pl.DataFrame(said.missing)
    counts = (*OF_TRANSACTION.sums, *OF_MISSING.sums)
    rows = ends.join(writes, left_on="op", right_on="txn", how="left", maintain_order="left")
    return (
        rows.join(missing, left_on="op", right_on="txn", how="left", maintain_order="left")
        .with_columns(pl.col(counts).fill_null(0))
        .with_columns(known("place", NEVER), known("newest_visible", NONE), known("missing_at", -1))
    )


def known(name: str, missing: int) -> pl.Expr:
    """A column with null where there is nothing."""
    return pl.when(pl.col(name) != missing).then(name).alias(name)


_COMMITTED, _ABORTED = pl.col("outcome") == Type.OK, pl.col("outcome") == Type.FAIL
_NOT_ABORTED = pl.col("outcome").is_in([int(Type.OK), int(Type.INFO)])
LOOKED_AT = {
    "torn": [_NOT_ABORTED & (pl.col("visible") > 0) & (pl.col("writes") > 1)],
    "wrong-outcome": [_COMMITTED & (pl.col("kept") > 0), _ABORTED & (pl.col("writes") > 0)],
    "zombie-write": [pl.col("newest") > pl.col("fenced")],
}


def number_looked_at(rows: pl.DataFrame, conditions: Sequence[pl.Expr]) -> int:
    """Two rules of one anomaly may look at the same thing: the one that looks at more counts."""
    counts = rows.select(each.sum().alias(str(number)) for number, each in enumerate(conditions)).row(0)
    return max(int(count or 0) for count in counts)


def findings_of_ends(rows: pl.DataFrame, run: RunContext) -> Findings:
    """Transactions that are not what they ended as."""
    torn = rows.filter(_NOT_ABORTED & (pl.col("visible") > 0) & (pl.col("missing") > 0))
    gone = (pl.col("visible") == 0) & (pl.col("kept") > 0) & (pl.col("missing") == pl.col("kept"))
    aborted = rows.filter(_COMMITTED & gone & (pl.col("aborted") > 0))
    shown = rows.filter(_ABORTED & (pl.col("visible") > 0))
    return merge_findings(
        [
            make_findings(
                "torn", torn.with_columns(topic_and_partition(pl.col("missing_place"))), run, offset="missing_at",
                values=("first_missing", "first_visible"), time="ended", events=("event",), severity="missing",
                facts=("writes", "visible", "missing"),
            ),
            make_findings(
                "wrong-outcome", _here(aborted, "commit"), run, offset="missing_at", values=("first_missing",),
                time="ended", events=("event",), tags="tag", severity="missing", facts=("writes", "aborted"),
            ),
            make_findings(
                "wrong-outcome", _here(shown, "abort"), run, values=("first_visible",), time="ended",
                events=("event",), tags="tag", severity="visible", facts=("writes", "visible"),
            ),
        ],
        run.limit,
    )  # fmt: skip


def _here(rows: pl.DataFrame, tag: str) -> pl.DataFrame:
    return rows.with_columns(*topic_and_partition(pl.col("place")), tag=pl.lit(tag))


def findings_of_zombies(rows: pl.DataFrame, run: RunContext) -> Findings:
    """Visible writes of producers that had been fenced."""
    written = pl.col("newest_visible")
    late = rows.filter(written > pl.col("fenced")).with_columns(
        *topic_and_partition(pl.col("place")),
        fenced_ns="fenced",
        written_ns=written,
        severity=written - pl.col("fenced"),
    )
    return make_findings(
        "zombie-write", late, run, values=("newest_value",), time="fenced", until="newest_visible", events=("event",),
        severity="severity", facts=("fenced_ns", "written_ns"),
    )  # fmt: skip
