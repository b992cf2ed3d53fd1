"""Transactions: what of them became visible, and whether that agrees with how they ended.

A transaction is a completion of TXN; its `op` is what its parts have as `txn`, its `type` how it ended: ok committed,
fail aborted, info unknown. Its *writes* are the sends with its `op` as `txn`, each with its own type, offset and times.
Parts whose transaction has no completion belong to none. A value is *visible* when a good record of it was handed to a
process of which the manifest does not say that it reads uncommitted; it is *in the log* when one was handed to a
process that does. Topics that the workload deleted (`checkers.core.deletions`) are left alone: neither their sends nor
their records count.

How far a partition was read: its *reach* is the highest offset of a record, of whatever status, that was handed to a
process that neither reads uncommitted nor is a member of a group, or one less than the `end` of an ok final read
(FINAL, of a process that does not read uncommitted), whichever is more. Those stop at the last stable offset: what they
passed was decided. A write is *missing* when it is not visible, its topic is not compacted, and

- its offset is known, not negative, and at or below the reach of its partition, or
- it is ok, and an ok final read of its partition was invoked at or after its completion.

torn                a transaction that ended ok or info, of which a write is visible and a write is missing
wrong-outcome       `commit`: it ended ok, nothing of it is visible, all its writes in topics that are not compacted are
                    missing (and there is one), and one of those is in the log: it was aborted.
                    `abort`: it ended fail, and a write is visible
zombie-write        a write is visible that was invoked after its producer had been fenced: an INIT of the same `name`
                    that ended ok, was invoked after the transaction was, and completed before the write was invoked.
                    A finding per transaction
precommitted-read   a write of which a good record has its own transaction as `txn`: polled by it,
                    by a process that is not known to read uncommitted. Here the transaction need have no completion

offsets-not-atomic is asked where offsets are committed in transactions. A partition is *transformed* when there is a
COMMIT of it in a transaction, ok, with an offset, and all COMMITs of it in transactions and all COMMITTED of it that
ended ok have one `name`: its group. `committed` is the highest offset of those COMMITs. The *answer* is that of the
last COMMITTED: ok, by a process that is not known to read uncommitted, of those that were invoked after the last fault
had healed (was undone, if nobody says; never, if it was not) the one with the latest invocation, then with the highest
offset. An *input* is a value that was sent to a transformed partition, with the offsets at which a good record of it
was handed to a process that is not known to read uncommitted (none: no input). An *output* of it is a send in a
transaction with that value as its `source`. An output *counts* when it is ok or visible, and is *open* when it is info,
not visible, not missing, and no ok final read (as above) of its partition was invoked at or after its completion. It is
*bound* to its input when a COMMIT of the input's partition in its transaction did not fail, and has an offset above all
of the input's. A transaction that never asked for that leaves the group where it is: whoever is next makes an output
again, and no broker can know. For each input

`twice`             its offset is one and the same, and two outputs count that are bound to it
`no output`         `committed` is above all its offsets, and no output counts or is open
`not committed`     its offset is one and the same, an output that is bound to it is ok and completed at or before the
                    invocation of the answer, and the answer is not above the offset

How a value fares tells its fate (`checkers.shared.fates`). What is settled in a stretch of a log is visible, wherever
its partition was read to: surveys tell that, and values are judged only where they are loose. Each piece puts together
what it has of a transaction (`OF_TRANSACTION`, `OF_MISSING`), and the parts of all pieces are put together the same
way. Inputs, their outputs and the offsets lie in different partitions, so that each of them is a row until the end. In
a history of more than SENDS sends only one in so many inputs is looked at, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, Ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import topic_and_partition
from checkers.shared.fates import READS
from checkers.shared.outputs import outputs_of_inputs
from checkers.shared.partition_reach import (
    NOWHERE,
    PLACE,
    PartitionTable,
    committed_by_groups,
    offsets_in_transactions,
    partition_table,
    reached_offsets,
)
from checkers.shared.transaction_values import OF_MISSING, OF_TRANSACTION, ValueTotals, sampling_step, value_totals
from harness.history.schema import F, Status, Type

OPS = ("event", "time", "process", "invoked", "op", "f", "type", "topic", "partition", "offset", "end", "txn", "name")


def _ends(piece: Piece) -> pl.DataFrame:
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


def _outcomes(ends: pl.DataFrame, said: ValueTotals) -> pl.DataFrame:
    """A row per transaction: how it ended, and what is visible and what is missing of its writes."""
    writes, missing = pl.DataFrame(said.transactions), pl.DataFrame(said.missing)
    counts = (*OF_TRANSACTION.sums, *OF_MISSING.sums)
    rows = ends.join(writes, left_on="op", right_on="txn", how="left", maintain_order="left")
    return (
        rows.join(missing, left_on="op", right_on="txn", how="left", maintain_order="left")
        .with_columns(pl.col(counts).fill_null(0))
        .with_columns(_known("place", NEVER), _known("newest_visible", NONE), _known("missing_at", -1))
    )


def _known(name: str, missing: int) -> pl.Expr:
    return pl.when(pl.col(name) != missing).then(name).alias(name)


_COMMITTED, _ABORTED = pl.col("outcome") == Type.OK, pl.col("outcome") == Type.FAIL
_NOT_ABORTED = pl.col("outcome").is_in([int(Type.OK), int(Type.INFO)])
_LOOKED_AT = {
    "torn": [_NOT_ABORTED & (pl.col("visible") > 0) & (pl.col("writes") > 1)],
    "wrong-outcome": [_COMMITTED & (pl.col("kept") > 0), _ABORTED & (pl.col("writes") > 0)],
    "zombie-write": [pl.col("newest") > pl.col("fenced")],
}


def _looked_at(rows: pl.DataFrame, conditions: Sequence[pl.Expr]) -> int:
    """Two rules of one anomaly may look at the same thing: the one that looks at more counts."""
    counts = rows.select(each.sum().alias(str(number)) for number, each in enumerate(conditions)).row(0)
    return max(int(count or 0) for count in counts)


def _of_ends(rows: pl.DataFrame, run: RunContext) -> Findings:
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


def _of_zombies(rows: pl.DataFrame, run: RunContext) -> Findings:
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


@dataclass(frozen=True)
class _Inputs:
    """Inputs, what their groups committed, and what came of their outputs."""

    value: Ints
    place: Ints
    low: Ints
    high: Ints
    committed: Ints
    answer: Ints
    asked: Ints
    counting: Ints
    open: Ints
    outputs: Ints  # that count and are bound to it, as the rest
    done: Ints
    first_output: Ints
    last_output: Ints

    @property
    def one_offset(self) -> Bools:
        """Whether they are at one offset only."""
        return np.equal(self.low, self.high)

    @property
    def behind(self) -> Bools:
        """Whether the group is past them."""
        return np.less(self.high, self.committed)

    @property
    def answered(self) -> Bools:
        """Whether an output was there when the group was asked for its offset."""
        return self.one_offset & (self.done <= self.asked)

    def frame(self, chosen: Bools, tag: str) -> pl.DataFrame:
        """Some of them as a table, with nulls."""
        table = pl.DataFrame({each.name: getattr(self, each.name)[chosen] for each in fields(self)})
        return table.with_columns(
            *topic_and_partition(pl.col("place")), _known("done", NEVER), _known("asked", NONE), tag=pl.lit(tag)
        )


def _inputs_of(said: ValueTotals, gathered: GatheredTransactions) -> _Inputs:
    made = outputs_of_inputs(said.inputs, said.outputs, gathered.moves)
    return _Inputs(**said.inputs, **gathered.partitions.groups(said.inputs["place"]), **made)


def _of_inputs(inputs: _Inputs, run: RunContext) -> Findings:
    """Inputs whose offset and whose output were not committed together."""
    twice = inputs.one_offset & (inputs.outputs > 1)
    gone = inputs.behind & (inputs.counting == 0) & (inputs.open == 0)
    left = inputs.answered & (inputs.answer != NONE) & (inputs.answer <= inputs.high)
    high = pl.col("high")
    cases: list[tuple[str, Bools, pl.Expr, tuple[str, ...], str]] = [
        ("twice", twice, pl.col("outputs"), ("first_output", "last_output"), "outputs"),
        ("no output", gone, pl.col("committed") - high, (), "committed"),
        ("not committed", left, high - pl.col("answer"), ("first_output",), "answer"),
    ]
    return merge_findings(
        [
            make_findings(
                "offsets-not-atomic", inputs.frame(wrong, tag).with_columns(severity=severity), run, offset="high",
                values=("value", *values), processes=(), time="done", until="asked", tags="tag", severity="severity",
                facts=(fact,),
            )
            for tag, wrong, severity, values, fact in cases
            if wrong.any()
        ],
        run.limit,
    )  # fmt: skip


def _looked_at_inputs(inputs: _Inputs) -> int:
    """The most that one of the three looks at."""
    cases = (inputs.one_offset & (inputs.outputs > 0), inputs.behind, inputs.answered)
    return max(int(np.count_nonzero(each)) for each in cases)


def _cut(run: RunContext) -> str:
    step = sampling_step(run)
    if step == 1:
        return ""
    return f"the outputs of one in {step} inputs of transactions were looked at: there are too many messages"


@dataclass(frozen=True)
class TransactionSurvey:
    """Of a piece."""

    reached: pl.DataFrame
    groups: pl.DataFrame
    moves: pl.DataFrame
    ends: pl.DataFrame
    settled: ValueTotals | None


@dataclass(frozen=True)
class GatheredTransactions:
    """Of all pieces."""

    partitions: PartitionTable
    moves: pl.DataFrame
    ends: pl.DataFrame
    settled: list[ValueTotals]


class Transactions(Family):
    """All or nothing, as it was acknowledged."""

    name = "transactions"
    anomalies: ClassVar[Mapping[str, str]] = {
        "torn": "a part of a transaction is visible, and another part is missing",
        "wrong-outcome": "its commit was acknowledged, and it was aborted; or it was aborted for certain, and is"
        " visible",
        "zombie-write": "a producer was fenced, and what it wrote after that is visible",
        "offsets-not-atomic": "two outputs of one input, both committed with its offset; or an input is behind the"
        " group, and there is no output of it; or an output was committed with the offset, and the group is before its"
        " input",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {**READS, "ops": OPS}
    by_value = True

    def needs(self, run: RunContext) -> bool:
        """Whether there are any."""
        return run.does(F.TXN)

    def survey(self, piece: Piece, run: RunContext) -> TransactionSurvey:
        """How far it was read, how transactions ended, and what is settled of their writes."""
        settled = value_totals(piece.split.settled, run, NOWHERE) if run.many else None
        groups, moves = committed_by_groups(piece, run), offsets_in_transactions(piece)
        return TransactionSurvey(reached_offsets(piece, run), groups, moves, _ends(piece), settled)

    def gather(self, surveys: Sequence[TransactionSurvey], run: RunContext, others: ByFamily) -> GatheredTransactions:
        """Of all partitions and transactions; what surveys say of values only if it holds."""
        partitions = partition_table([each.reached for each in surveys], [each.groups for each in surveys])
        moves = pl.concat([each.moves for each in surveys])
        ends = fenced(pl.concat([each.ends for each in surveys]))
        parts = [each.settled for each in surveys if each.settled is not None and others["fates"].settled_count]
        return GatheredTransactions(partitions, moves, ends, [part.of_transformed(partitions) for part in parts])

    def judge(self, piece: Piece, gathered: GatheredTransactions, run: RunContext, others: ByFamily) -> ValueTotals:
        """What is loose, or all there is."""
        return value_totals(piece.fates, run, gathered.partitions).of_transformed(gathered.partitions)

    def resume(
        self, gathered: GatheredTransactions, judged: Sequence[ValueTotals], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """What came of it: it is all that is kept, for what is known of all values may be large, and travels."""
        said = ValueTotals.together([*judged, *gathered.settled])
        rows = _outcomes(gathered.ends, said)
        outcome = FamilyResult(
            merge_findings([_of_ends(rows, run), _of_zombies(rows, run)], run.limit),
            {name: _looked_at(rows, conditions) for name, conditions in _LOOKED_AT.items()},
        )
        if len(said.inputs["value"]):
            inputs = _inputs_of(said, gathered)
            outcome.findings.add(_of_inputs(inputs, run), run.limit)
            outcome.looked_at["offsets-not-atomic"] = _looked_at_inputs(inputs)
            outcome.cut = _cut(run)
        return outcome

    def conclude(
        self, gathered: FamilyResult, judged: Sequence[ValueTotals], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """As it came of it."""
        return gathered


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


FAMILIES: tuple[Family, ...] = (Transactions(), OwnWrites())
