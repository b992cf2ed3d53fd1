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

offsets-not-atomic  an input, its output and its offset that were not committed together: `checkers.transactions.inputs`

How a value fares tells its fate (`checkers.shared.fates`). What is settled in a stretch of a log is visible, wherever
its partition was read to: surveys tell that, and values are judged only where they are loose. Each piece puts together
what it has of a transaction (`OF_TRANSACTION`, `OF_MISSING`), and the parts of all pieces are put together the same
way. Inputs, their outputs and the offsets lie in different partitions, so that each of them is a row until the end. In
a history of more than SENDS sends only one in so many inputs is looked at, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.shared.fates import READS
from checkers.transactions.inputs import findings_of_inputs, inputs_of, left_out, looked_at_inputs
from checkers.transactions.outcomes import (
    LOOKED_AT,
    ends_of,
    fenced,
    findings_of_ends,
    findings_of_zombies,
    number_looked_at,
    outcomes_of,
)
from checkers.transactions.partition_reach import (
    NOWHERE,
    PartitionTable,
    committed_by_groups,
    offsets_in_transactions,
    partition_table,
    reached_offsets,
)
from checkers.transactions.transaction_values import ValueTotals, value_totals
from harness.history.schema import F

OPS = ("event", "time", "process", "invoked", "op", "f", "type", "topic", "partition", "offset", "end", "txn", "name")


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
        return TransactionSurvey(reached_offsets(piece, run), groups, moves, ends_of(piece), settled)

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
        rows = outcomes_of(gathered.ends, said)
        outcome = FamilyResult(
            merge_findings([findings_of_ends(rows, run), findings_of_zombies(rows, run)], run.limit),
            {name: number_looked_at(rows, conditions) for name, conditions in LOOKED_AT.items()},
        )
        if len(said.inputs["value"]):
            inputs = inputs_of(said, gathered.partitions, gathered.moves)
            outcome.findings.add(findings_of_inputs(inputs, run), run.limit)
            outcome.looked_at["offsets-not-atomic"] = looked_at_inputs(inputs)
            outcome.cut = left_out(run)
        return outcome

    def conclude(
        self, gathered: FamilyResult, judged: Sequence[ValueTotals], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """As it came of it."""
        return gathered


FAMILIES: tuple[Family, ...] = (Transactions(),)
