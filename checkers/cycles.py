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

Each piece says what was written, which of it was read, and how far each transaction read (`TransactionSteps`): what is
settled there, or, of pieces by value, what is loose, or all (`checkers.shared.fates`). All of that is put in order in
one place, where the components are found (`checkers.shared.graph`). More than STEPS of them, or a search of more than
SECONDS, are too much, and said.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, ints, is_in
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import place_of
from checkers.shared.fates import READS, Fates
from checkers.shared.graph import RW, TIME, WR, WW, CycleStep, FoundCycles, Graph, search, with_time
from harness.history.schema import ID_BITS, F, Kind, Status, Type

STEPS = 10_000_000
STEPS_OF_A_PIECE = 500_000  # which it tells, however small its share of the history is
SECONDS = 60.0
OPS = ("event", "time", "invoked", "op", "f", "type")
KINDS = {WW: "ww", WR: "wr", RW: "rw", TIME: "realtime"}


@dataclass(frozen=True)
class Columns:
    """Columns of one length."""

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        if not parts:
            return cls(*(np.zeros(0, np.int64) for _ in fields(cls)))
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def only(self, chosen: Bools | Ints) -> Self:
        """Some of them, by a mask or in an order."""
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True)
class TransactionTable(Columns):
    """All of them, in the order of their operations."""

    op: Ints
    invoked: Ints
    ended: Ints
    type: Ints
    event: Ints

    def places(self, operations: Ints) -> Ints:
        """Of operations the how-manieth each is; -1 of one that is not among these."""
        if not len(self):
            return np.full(len(operations), -1)
        at = np.minimum(np.searchsorted(self.op, operations), len(self) - 1)
        return np.where(self.op[at] == operations, at, -1)


@dataclass(frozen=True)
class Writes(Columns):
    """Of transactions, as far as they ended ok or info."""

    place: Ints
    offset: Ints
    value: Ints
    txn: Ints
    doubted: Bools  # it ended info
    visible: Bools


@dataclass(frozen=True)
class Reads(Columns):
    """Writes that were read in a transaction."""

    place: Ints
    offset: Ints
    value: Ints
    reader: Ints


@dataclass(frozen=True)
class Ends(Columns):
    """The highest offset of a partition that a transaction read."""

    place: Ints
    offset: Ints
    reader: Ints


@dataclass(frozen=True)
class TransactionSteps:
    """What transactions did; of too many only how many there are."""

    count: int
    writes: Writes
    reads: Reads
    ends: Ends

    @classmethod
    def together(cls, parts: Sequence[TransactionSteps]) -> TransactionSteps:
        """Of values that have nothing to do with each other."""
        return cls(
            sum(part.count for part in parts),
            Writes.together([part.writes for part in parts]),
            Reads.together([part.reads for part in parts]),
            Ends.together([part.ends for part in parts]),
        )

    @property
    def whole(self) -> bool:
        """Whether all of them are there."""
        return self.count == len(self.writes) + len(self.reads) + len(self.ends)


@dataclass(frozen=True)
class Edges(Columns):
    """From one transaction to another by their numbers, because of a value at an offset of a partition."""

    kind: Ints
    source: Ints
    destination: Ints
    place: Ints
    offset: Ints
    value: Ints


# ------------------------------------------------------------------------------------------- what transactions did


def steps_of(fates: Fates, piece: Piece) -> TransactionSteps:
    """Of values of a piece."""
    writes, read = _writes(fates), _polled(fates)
    reads, ends = _reads(writes, read), _how_far(read)
    count = len(writes) + len(reads) + len(ends)
    if count > _most(piece):
        return TransactionSteps(count, Writes.together([]), Reads.together([]), Ends.together([]))
    return TransactionSteps(count, writes, reads, ends)


def _most(piece: Piece) -> int:
    """How many steps a piece may have: if it has far more than its share of STEPS, there are too many in all."""
    in_all = sum(piece.run.rows.get(kind, 0) for kind in (Kind.COMPLETE, Kind.RECORD))
    share = (len(piece.sends) + len(piece.records)) / in_all if in_all and piece.run.many else 1.0
    return STEPS_OF_A_PIECE + int(STEPS * min(1.0, 4 * share))


def _writes(fates: Fates) -> Writes:
    placed = (fates.acknowledged >= 0) & (fates.topic != NONE) & (fates.partition != NONE) & (fates.value != NONE)
    took_place = (fates.type == Type.OK) | (fates.type == Type.INFO)
    untouched = ~is_in(fates.topic, fates.run.deletions.topics)
    chosen = np.flatnonzero((fates.txn != NONE) & placed & took_place & untouched)
    return Writes(
        (fates.topic[chosen] << 32) | fates.partition[chosen],
        fates.acknowledged[chosen],
        fates.value[chosen],
        fates.txn[chosen],
        fates.type[chosen] == Type.INFO,
        fates.seen_committed[chosen],
    )


def _polled(fates: Fates) -> pl.DataFrame:
    """Every read of a transaction."""
    run = fates.run
    placed = pl.all_horizontal(pl.col("txn", "value", "topic", "partition").is_not_null()) & (pl.col("offset") >= 0)
    good = (pl.col("status") == Status.GOOD) & ~by(run.sees_aborted) & run.deletions.untouched()
    mine = fates.told.filter(placed & good)
    return mine.select("value", "offset", pl.Series("place", place_of(mine)), reader="txn")


def _reads(writes: Writes, read: pl.DataFrame) -> Reads:
    """What of these writes was read where it was written."""
    wrote = pl.DataFrame({"value": writes.value, "written_at": writes.offset, "written_to": writes.place})
    both = read.join(wrote, on="value") if len(read) and len(wrote) else read.clear()
    if not len(both):
        return Reads.together([])
    both = both.filter((pl.col("offset") == pl.col("written_at")) & (pl.col("place") == pl.col("written_to")))
    return Reads(*(ints(both, name) for name in ("place", "offset", "value", "reader")))


def _how_far(read: pl.DataFrame) -> Ends:
    last = read.group_by("reader", "place").agg(pl.col("offset").max())
    return Ends(*(ints(last, name) for name in ("place", "offset", "reader")))


# ------------------------------------------------------------------------------------------- what depends on what


def _nodes(transactions: TransactionTable, steps: TransactionSteps) -> tuple[TransactionTable, TransactionSteps]:
    """Transactions that took place, and what was written, as far as it took place."""
    writes = steps.writes
    unknown = transactions.only(transactions.type == Type.INFO)
    doubted = writes.doubted | (unknown.places(writes.txn) >= 0)
    happened = np.unique(writes.txn[doubted & writes.visible])
    counted = ~doubted | np.isin(writes.txn, happened)
    took_place = (transactions.type == Type.OK) | (
        (transactions.type == Type.INFO) & np.isin(transactions.op, happened)
    )
    return transactions.only(took_place), TransactionSteps(steps.count, writes.only(counted), steps.reads, steps.ends)


def dependencies(steps: TransactionSteps, nodes: TransactionTable) -> Edges:
    """Edges between different transactions that took place; of each kind in the order of the writes."""
    order = np.lexsort((steps.writes.value, steps.writes.offset, steps.writes.place))
    writes = steps.writes.only(order)
    writer = nodes.places(writes.txn)
    edges = Edges.together([_ww(writes, writer), _wr(writes, writer, steps.reads, nodes),
                            _rw(writes, writer, steps.ends, nodes)])  # fmt: skip
    return edges.only((edges.source >= 0) & (edges.destination >= 0) & (edges.source != edges.destination))


def _edges(kind: int, source: Ints, destination: Ints, writes: Writes, of: Any) -> Edges:
    return Edges(np.full(len(source), kind), source, destination, writes.place[of], writes.offset[of], writes.value[of])


def _ww(writes: Writes, writer: Ints) -> Edges:
    next_one = np.flatnonzero(writes.place[1:] == writes.place[:-1]) + 1
    return _edges(WW, writer[next_one - 1], writer[next_one], writes, next_one)


def _wr(writes: Writes, writer: Ints, reads: Reads, nodes: TransactionTable) -> Edges:
    by_value = np.argsort(writes.value, kind="stable")
    values = writes.value[by_value]
    if not len(values):
        return Edges.together([])
    found_at = np.minimum(np.searchsorted(values, reads.value), len(values) - 1)
    there = np.flatnonzero(values[found_at] == reads.value)
    write, reader = by_value[found_at[there]], nodes.places(reads.reader[there])
    order = np.lexsort((reader, write))
    return _edges(WR, writer[write[order]], reader[order], writes, write[order])


def _rw(writes: Writes, writer: Ints, ends: Ends, nodes: TransactionTable) -> Edges:
    if not len(writes) or not len(ends):
        return Edges.together([])
    last = _last(ends)
    # places by rank, and above it the offset, so that both fit into one number
    place = np.unique(np.concatenate([writes.place, last.place]), return_inverse=True)[1].reshape(-1)
    offsets = np.unique(np.concatenate([writes.offset, last.offset]), return_inverse=True)[1].reshape(-1)
    key = place * (len(offsets) + 1) + offsets
    count = len(writes)
    above = np.searchsorted(key[:count], key[count:], side="right")
    at = np.minimum(above, count - 1)
    there = (above < count) & (place[at] == place[count:])
    reader, write = nodes.places(last.reader[there]), at[there]
    order = np.lexsort((reader, write))
    return _edges(RW, reader[order], writer[write[order]], writes, write[order])


def _last(ends: Ends) -> Ends:
    """Of all pieces: one of each transaction and partition."""
    order = np.lexsort((ends.offset, ends.place, ends.reader))
    ordered = ends.only(order)
    goes_on = (ordered.reader[1:] == ordered.reader[:-1]) & (ordered.place[1:] == ordered.place[:-1])
    return ordered.only(~np.append(goes_on, [False]))


# ------------------------------------------------------------------------------------------- findings


def _findings(each: FoundCycles, edges: Edges, nodes: TransactionTable, run: RunContext) -> Findings:
    """The cycles that are told of a class, and how many there are."""
    table = pl.DataFrame([_row(cycle, edges, nodes, run) for cycle in each.cycles], schema=_ROW, orient="row")
    tagged = table.with_columns(tag=pl.lit(each.tag or None, pl.String))
    findings = make_findings(
        each.anomaly, tagged, run, offset="offset", values="values", processes="processes", time="time",
        until="until", events="events", tags="tag", severity="severity", facts=_FACTS,
    )  # fmt: skip
    untold = each.count - len(each.cycles)
    if untold and findings.counts:
        group = min(findings.counts, key=lambda group: group[2])
        findings.counts[group] += untold
    return findings


_FACTS = ("kinds", "sources", "destinations", "topics", "partitions", "offsets", "operations")
_NUMBERS, _TEXTS = pl.List(pl.Int64), pl.List(pl.String)
_ROW: Mapping[str, Any] = {
    "topic": pl.Int32, "partition": pl.Int32, "offset": pl.Int64, "values": _NUMBERS, "processes": _NUMBERS,
    "time": pl.Int64, "until": pl.Int64, "events": _NUMBERS, "severity": pl.Int64,
    "kinds": _TEXTS, "sources": _NUMBERS, "destinations": _NUMBERS, "topics": _TEXTS, "partitions": _NUMBERS,
    "offsets": _NUMBERS, "operations": _NUMBERS,
}  # fmt: skip


def _row(cycle: Sequence[CycleStep], edges: Edges, nodes: TransactionTable, run: RunContext) -> dict[str, Any]:
    """A cycle, edge by edge; its transactions are numbered from 1 on."""
    numbers = {node: number for number, node in enumerate(dict.fromkeys(step.source for step in cycle), 1)}
    dependent = [step.edge for step in cycle if step.edge >= 0]
    where = [(None, None, None) if step.edge < 0 else _place(edges, step.edge) for step in cycle]
    topic, partition, offset = _place(edges, dependent[0])
    events = [int(nodes.event[node]) for node in numbers]
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "values": [int(edges.value[edge]) for edge in dependent],
        "time": int(min(nodes.invoked[node] for node in numbers)),
        "until": int(max(nodes.ended[node] for node in numbers)),
        "processes": sorted({event >> ID_BITS for event in events}),
        "events": events,
        "severity": len(cycle),
        "kinds": [KINDS[TIME if step.edge < 0 else int(edges.kind[step.edge])] for step in cycle],
        "sources": [numbers[step.source] for step in cycle],
        "destinations": [numbers[step.destination] for step in cycle],
        "topics": [None if number is None else run.topics.get(number, str(number)) for number, _, _ in where],
        "partitions": [each[1] for each in where],
        "offsets": [each[2] for each in where],
        "operations": [int(nodes.op[node]) for node in numbers],
    }


def _place(edges: Edges, edge: int) -> tuple[int, int, int]:
    place = int(edges.place[edge])
    return place >> 32, place & 0xFFFFFFFF, int(edges.offset[edge])


def outcome(transactions: TransactionTable, steps: TransactionSteps, run: RunContext) -> FamilyResult:
    """What cycles there are."""
    if steps.count > STEPS or not steps.whole:
        return FamilyResult(
            cut=f"cycles of transactions were not looked for: {steps.count:,} dependencies are too many"
        )
    nodes, steps = _nodes(transactions, steps)
    edges = dependencies(steps, nodes)
    looked_at = dict.fromkeys(Cycles.anomalies, len(nodes))
    if not len(edges):
        return FamilyResult(looked_at=looked_at)
    graph = Graph(len(nodes), len(nodes), edges.kind.astype(np.int8), edges.source, edges.destination)
    timed = with_time(graph, nodes.invoked, nodes.ended, nodes.type == Type.OK)
    classes, late = search(timed, run.limit, time.monotonic() + SECONDS)
    return FamilyResult(
        merge_findings([_findings(each, edges, nodes, run) for each in classes.values()], run.limit),
        looked_at,
        {"transactions": len(nodes), "dependencies": {KINDS[kind]: int((edges.kind == kind).sum())
                                                      for kind in (WW, WR, RW)}},
        f"there was no time to look for all cycles of transactions: {', '.join(late)}" if late else "",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- the family


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
