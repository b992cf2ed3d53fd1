"""Cycles: transactions that would each have to come before the other.

The nodes are transactions (completions of TXN) that took place: those that ended ok, and those that ended info and of
which a write is visible: a good record of its value was handed to a process of which the manifest does not say that it
reads uncommitted. Single sends and polls are no nodes: what contradicts itself there
is found in the order of offsets alone. Topics that the workload deleted are left alone.

A *write* is a send with a `txn` and an offset that is not negative, and that ended ok or info. It is in doubt if it
ended info, or if its transaction did; it is one then only if a send in doubt of the same `txn`, be it itself, is
visible as above. A *read* is a good record with a `txn`, a value and an offset that is not negative, handed to a
process that is not known to read uncommitted. Writes of a partition have an order: that of their offsets, then of their
values. Between different transactions there is an edge

ww          from the transaction of a write to that of the next write of the partition
wr          from the transaction of a write to that of a read of the same value at the same offset of the partition
rw          from the transaction of a read to that of the next write of the partition; only for the read with its
            highest offset there, and the next write is the first one above that offset
realtime    from a transaction that ended ok to each that was invoked after it had completed

if both are nodes. (Writes of what is no node, because its transaction has no completion or ended otherwise than they
did, count as next ones; the edge is then left out.) Edges of some kinds make strongly connected components, in each of
which there are cycles of these edges. A finding is a component, told by a short cycle:

G0                  ww
G1c                 `wr`: of wr alone. `ww`: of ww and wr, with wr inside, and without a component of `wr` in it
G-single, G2        ww, wr and rw, with rw inside: G-single, if an rw edge (of the first 256) is on a cycle without a
                    second one; else G2
G0-realtime         ww and realtime, with ww inside, and without a component of G0 in it
G1c-realtime        `wr`: of wr and realtime, with wr inside, without a component of G1c `wr` in it.
                    `ww`: of ww, wr and realtime, with wr inside, without one of G1c or of G1c-realtime `wr` in it
G-single-realtime,  all kinds, with rw inside, without a component of G-single or G2 in it; then as without realtime
G2-realtime

wr is what a correct broker promises: whoever reads committed records reads them after their transaction was decided,
and before its own is. Kafka isolates no writes, and a poll need not return all that is there: ww and rw promise less.

Each piece says what was written, which of it was read, and how far each transaction read (`checkers.cycles.steps`):
what is settled there, or, of pieces by value, what is loose, or all (`checkers.shared.fates`). All of that is put in
order in one place (`checkers.cycles.dependencies`), where the components are found (`checkers.cycles.graph`). More than
STEPS of them, or a search of more than SECONDS, are too much, and said.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.cycles.dependencies import TransactionTable, dependencies, nodes_of
from checkers.cycles.found_cycles import KINDS, cycle_findings
from checkers.cycles.graph import RW, WR, WW, Graph, search, with_time
from checkers.cycles.steps import TransactionSteps, steps_of
from checkers.shared.fates import READS
from harness.history.schema import F, Type

SECONDS = 60.0
OPS = ("event", "time", "invoked", "op", "f", "type")


def outcome(transactions: TransactionTable, steps: TransactionSteps, run: RunContext) -> FamilyResult:
    """What cycles there are."""
    if steps.too_many:
        return FamilyResult(
            cut=f"cycles of transactions were not looked for: {steps.count:,} dependencies are too many"
        )
    nodes, steps = nodes_of(transactions, steps)
    edges = dependencies(steps, nodes)
    looked_at = dict.fromkeys(Cycles.anomalies, len(nodes))
    if not len(edges):
        return FamilyResult(looked_at=looked_at)
    graph = Graph(len(nodes), len(nodes), edges.kind.astype(np.int8), edges.source, edges.destination)
    timed = with_time(graph, nodes.invoked, nodes.ended, nodes.type == Type.OK)
    classes, late = search(timed, run.limit, time.monotonic() + SECONDS)
    return FamilyResult(
        merge_findings([cycle_findings(each, edges, nodes, run) for each in classes.values()], run.limit),
        looked_at,
        {"transactions": len(nodes), "dependencies": {KINDS[kind]: int((edges.kind == kind).sum())
                                                      for kind in (WW, WR, RW)}},
        f"there was no time to look for all cycles of transactions: {', '.join(late)}" if late else "",
    )  # fmt: skip


@dataclass(frozen=True)
class CycleSurvey:
    """Of a piece, or of all of them."""

    ends: pl.DataFrame  # of transactions
    settled: TransactionSteps | None


class Cycles(Family):
    """Transactions of which none can have been the first."""

    name = "cycles"
    anomalies: ClassVar[Mapping[str, str]] = {
        "G0": "transactions wrote before each other",
        "G1c": "transactions read or wrote after each other",
        "G-single": "a transaction read before another's write, and comes after it",
        "G2": "transactions read before each other's writes",
        "G0-realtime": "a transaction wrote before one that had ended before it began",
        "G1c-realtime": "a transaction was read by, or wrote before, one that had ended before it began",
        "G-single-realtime": "a transaction did not read what one had written that ended before it began",
        "G2-realtime": "transactions did not read each other's writes, against the order of time",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {**READS, "ops": OPS}
    by_value = True

    def needs(self, run: RunContext) -> bool:
        """Whether there are any."""
        return run.does(F.TXN)

    def survey(self, piece: Piece, run: RunContext) -> CycleSurvey:
        """How transactions ended, and what is settled of what they wrote and read."""
        known = (pl.col("f") == F.TXN) & pl.col("op").is_not_null() & pl.col("invoked").is_not_null()
        ends = piece.ops.filter(known).select("op", "invoked", "time", "type", "event")
        return CycleSurvey(ends, steps_of(piece.split.settled, piece) if run.many else None)

    def gather(self, surveys: Sequence[CycleSurvey], run: RunContext, others: ByFamily) -> CycleSurvey:
        """Of all pieces; what they say of steps only if it holds."""
        parts = [each.settled for each in surveys if each.settled is not None and others["fates"].settled_count]
        return CycleSurvey(
            pl.concat([each.ends for each in surveys]), TransactionSteps.together(parts) if parts else None
        )

    def judge(self, piece: Piece, gathered: CycleSurvey, run: RunContext, others: ByFamily) -> TransactionSteps:
        """What is loose, or all there is."""
        return steps_of(piece.fates, piece)

    def resume(
        self, gathered: CycleSurvey, judged: Sequence[TransactionSteps], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """What came of it: it is all that is kept, for steps are many, and travel."""
        ends = gathered.ends.sort("op")
        transactions = TransactionTable(*(ints(ends, name) for name in ("op", "invoked", "time", "type", "event")))
        return outcome(
            transactions, TransactionSteps.together([*judged, *([gathered.settled] if gathered.settled else [])]), run
        )

    def conclude(
        self, gathered: FamilyResult, judged: Sequence[TransactionSteps], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """As it came of it."""
        return gathered


FAMILIES: tuple[Family, ...] = (Cycles(),)
