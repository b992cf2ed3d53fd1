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

Edges are made in Spark, in the chunks of offsets of `checkers.log`; what lies between two chunks is put together here,
where the components are found (`checkers.graph`). More than EDGES edges, or a search of more than SECONDS, are too
much, and said.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from checkers.frame import FINDING, History, Studied, Study, together
from checkers.graph import RW, WR, WW, Found, Graph, Step, search, with_time
from checkers.log import CHUNK
from harness.history import ID_BITS, F, Kind, Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EDGES = 10_000_000
SECONDS = 60.0
FEW = 100_000  # transactions and writes of which nobody knows how they ended; these go to every task
FIRST, OPEN_WW, OPEN_RW = 5, 6, 7  # first writer of a chunk; last writer, and reader, that need the next one's first
_WRITE, _READ, _LAST_READ = 0, 1, 2
_GOOD = f"value is not null and status = {Status.GOOD:d}"
_PLACE = f"(shiftleft(cast(topic as bigint), 32) | (cast(partition as bigint) & {0xFFFFFFFF}L))"
_KEYS = ("place", "chunk")
Ints = npt.NDArray[np.int64]

ANOMALIES = {
    "G0": "transactions wrote before each other",
    "G1c": "transactions read or wrote after each other",
    "G-single": "a transaction read before another's write, and comes after it",
    "G2": "transactions read before each other's writes",
    "G0-realtime": "a transaction wrote before one that had ended before it began",
    "G1c-realtime": "a transaction was read by, or wrote before, one that had ended before it began",
    "G-single-realtime": "a transaction did not read what one had written that ended before it began",
    "G2-realtime": "transactions did not read each other's writes, against the order of time",
}


@dataclass(frozen=True)
class Transactions:
    """All of them, in the order of their operations."""

    op: Ints
    invoked: Ints
    ended: Ints
    type: Ints
    event: Ints

    def only(self, chosen: npt.NDArray[Any]) -> Transactions:
        """Some of them, by a mask."""
        return Transactions(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def places(self, *operations: Ints) -> list[Ints]:
        """Of operations that are among these, the how-manieth each is."""
        return [np.searchsorted(self.op, each) for each in operations]


@dataclass(frozen=True)
class Edges:
    """From one operation to another, because of a value at an offset of a partition."""

    kind: Ints
    source: Ints
    destination: Ints
    place: Ints
    offset: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def only(self, chosen: npt.NDArray[Any]) -> Edges:
        """Some of them, by a mask or in an order."""
        return Edges(*(getattr(self, name)[chosen] for name in _COLUMNS))


_COLUMNS = ("kind", "source", "destination", "place", "offset", "value")


def edges(history: History, doubts: int) -> DataFrame:
    """A row per edge, and what is needed to put chunks together; so many transactions and writes ended info."""
    write = f"if(step = {_WRITE}, struct(offset, value, node), null)"
    order = f"partition by {', '.join(_KEYS)} order by offset, value, step"
    rows = together([_writes(history, doubts), *_reads(history)])
    scanned = rows.selectExpr(
        "*",
        f"last({write}, true) over ({order} rows between unbounded preceding and 1 preceding) as before",
        f"lead({write}) ignore nulls over ({order}) as after",
    )

    def row(kind: int, source: str, destination: str, at: str = "") -> str:
        return (
            f"named_struct('kind', cast({kind} as tinyint), 'source', {source}, 'destination', {destination},"
            f" 'place', place, 'offset', {at}offset, 'value', {at}value)"
        )

    writes, reads, last = (f"step = {step}" for step in (_WRITE, _READ, _LAST_READ))
    told = {
        f"{writes} and before is null": row(FIRST, "node", "node"),
        f"{writes} and after.node <> node": row(WW, "node", "after.node", "after."),
        f"{writes} and after is null": row(OPEN_WW, "node", "node"),
        f"{reads} and before.offset = offset and before.value = value and before.node <> node": row(
            WR, "before.node", "node"
        ),
        f"{last} and after.node <> node": row(RW, "node", "after.node", "after."),
        f"{last} and after is null": row(OPEN_RW, "node", "node"),
    }
    found = ", ".join(f"if({condition}, {struct}, null)" for condition, struct in told.items())
    return scanned.where(" or ".join(f"({condition})" for condition in told)).selectExpr(
        f"inline(array_compact(array({found})))"
    )


def _placed(rows: DataFrame, step: int, value: str = "value") -> DataFrame:
    return rows.selectExpr("place", f"offset div {CHUNK} as chunk", "offset", f"{value} as value", f"{step} as step",
                           "txn as node")  # fmt: skip


def _writes(history: History, doubts: int) -> DataFrame:
    """What was written, as far as it took place."""
    from pyspark.sql import functions as sql

    placed = f"txn is not null and offset >= 0 and value is not null and {_PLACE} is not null"
    columns = ("txn", "value", "place", "offset")
    mine = history.sends.where(f"{placed} and {history.deletions.untouched()}").selectExpr(
        "type", "txn", "value", f"{_PLACE} as place", "offset"
    )
    if not doubts:
        return _placed(mine.where(f"type = {Type.OK:d}").select(*columns), _WRITE)

    def few(rows: DataFrame) -> DataFrame:
        return sql.broadcast(rows) if doubts <= FEW else rows

    unknown = history.completions.where(f"f = {F.TXN:d} and type = {Type.INFO:d}").selectExpr("op as txn", "1 as open")
    marked = mine.join(few(unknown.distinct()), "txn", "left")
    perhaps = marked.where(f"type = {Type.INFO:d} or (type = {Type.OK:d} and open = 1)").select(*columns)
    known = marked.where(f"type = {Type.OK:d} and open is null").select(*columns)
    visible = history.records.where(f"{_GOOD} and {history.deletions.untouched()} and not ({history.sees_aborted})")
    happened = visible.select("value").join(few(perhaps.select("value", "txn")), "value").select("txn").distinct()
    return _placed(known.union(perhaps.join(happened, "txn", "left_semi").select(*columns)), _WRITE)


def _reads(history: History) -> list[DataFrame]:
    """What transactions read, and how far each of them got in each partition."""
    from pyspark.sql import functions as sql

    polled = f"txn is not null and offset >= 0 and {_GOOD} and {_PLACE} is not null and {history.deletions.untouched()}"
    mine = history.records.where(f"{polled} and not ({history.sees_aborted})").selectExpr(
        "txn", "value", f"{_PLACE} as place", "offset"
    )
    last = mine.groupBy("txn", "place").agg(sql.max("offset").alias("offset"))
    return [_placed(mine, _READ), _placed(last, _LAST_READ, f"{(1 << 63) - 1}L")]


def study(history: History, limit: int) -> Studied:
    """Edges from Spark, components and cycles here."""
    transactions = _transactions(history)
    rows = edges(history, int((transactions.type == Type.INFO).sum()) + _open_writes(history))
    most = sum(history.sealed.rows.get(kind, 0) for kind in (Kind.COMPLETE, Kind.RECORD))
    if most > EDGES and (count := rows.count()) > EDGES:
        return Studied(cut=f"cycles of transactions were not looked for: {count:,} dependencies are too many")
    told, nodes = _put_together(_numbers(rows, _COLUMNS), transactions)
    if not len(told):
        return Studied(looked_at=dict.fromkeys(ANOMALIES, len(nodes.op)))
    graph = with_time(
        Graph(len(nodes.op), len(nodes.op), told.kind.astype(np.int8), *nodes.places(told.source, told.destination)),
        nodes.invoked,
        nodes.ended,
        nodes.type == Type.OK,
    )
    found, late = search(graph, limit, time.monotonic() + SECONDS)
    counts: dict[str, int] = {}
    for each in found.values():
        counts[each.anomaly] = counts.get(each.anomaly, 0) + each.count
    by_kind = {name: int((told.kind == kind).sum()) for name, kind in (("ww", WW), ("wr", WR), ("rw", RW))}
    return Studied(
        [_finding(each, cycle, told, nodes, history) for each in found.values() for cycle in each.cycles],
        counts,
        dict.fromkeys(ANOMALIES, len(nodes.op)),
        f"there was no time to look for all cycles of transactions: {', '.join(late)}" if late else "",
        {"transactions": len(nodes.op), "dependencies": by_kind},
    )


def _numbers(rows: DataFrame, names: Sequence[str]) -> list[Ints]:
    """Columns without nulls, by way of Arrow."""
    table = rows.toArrow()
    return [table[name].to_numpy().astype(np.int64, copy=False) for name in names]


def _transactions(history: History) -> Transactions:
    ends = history.completions.where(f"f = {F.TXN:d} and op is not null and invoked is not null").selectExpr(
        "op", "invoked", "time", "type", "event"
    )
    op, *others = _numbers(ends, ends.columns)
    order = np.argsort(op, kind="stable")
    return Transactions(op[order], *(column[order] for column in others))


def _open_writes(history: History) -> int:
    """How many writes of transactions ended info, as far as that matters."""
    return history.sends.where(f"txn is not null and type = {Type.INFO:d}").limit(FEW + 1).count()


def _put_together(rows: list[Ints], transactions: Transactions) -> tuple[Edges, Transactions]:
    """Edges between transactions that took place, also from chunk to chunk, in an order of their own; and these."""
    told = Edges(*rows)
    linked = together_again(told)
    wrote = np.concatenate(
        [
            told.source[np.isin(told.kind, [FIRST, WW, WR, OPEN_WW])],
            told.destination[np.isin(told.kind, [WW, RW])],
        ]
    )
    unknown = (transactions.type == Type.INFO) & np.isin(transactions.op, wrote)
    took_place = transactions.only((transactions.type == Type.OK) | unknown)
    both = np.isin(linked.source, took_place.op) & np.isin(linked.destination, took_place.op)
    linked = linked.only(both)
    order = np.lexsort((linked.destination, linked.source, linked.value, linked.offset, linked.place, linked.kind))
    return linked.only(order), took_place


def together_again(told: Edges) -> Edges:
    """The edges, with those whose next write is the first one of a later chunk."""
    first = told.only(told.kind == FIRST)
    first = first.only(np.lexsort((first.offset, first.place)))
    parts = [told.only(np.isin(told.kind, [WW, WR, RW]))]
    for kind, left_open in ((WW, OPEN_WW), (RW, OPEN_RW)):
        waiting = told.only(told.kind == left_open)
        parts.append(_linked(kind, waiting, first))
    return Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


def _linked(kind: int, waiting: Edges, first: Edges) -> Edges:
    """From each of those that wait to the first writer of a later chunk of its partition, if that is another."""
    if not len(first):
        return waiting.only(np.zeros(0, np.int64))
    count = len(first)
    # ranks instead of places and offsets, so that both fit into one number
    place, offset = (
        np.unique(np.concatenate([getattr(first, name), getattr(waiting, name)]), return_inverse=True)[1]
        for name in ("place", "offset")
    )
    key = place * (len(offset) + 1) + offset
    at = np.searchsorted(key[:count], key[count:], side="right")
    there = at < count
    at = np.minimum(at, count - 1)
    there &= (first.place[at] == waiting.place) & (first.source[at] != waiting.source)
    chosen, at = waiting.only(there), at[there]
    return Edges(
        np.full(len(chosen), kind),
        chosen.source,
        first.source[at],
        chosen.place,
        first.offset[at],
        first.value[at],
    )


def _finding(found: Found, cycle: list[Step], told: Edges, nodes: Transactions, history: History) -> dict[str, Any]:
    """A row of `FINDING`: the cycle in words, a sentence for each edge."""
    names = {node: f"T{number + 1}" for number, node in enumerate(dict.fromkeys(step.source for step in cycle))}
    sentences = [_sentence(step, told, names, history.sealed.topics) for step in cycle]
    sentences.append(", ".join(f"{name} is {_called(int(nodes.op[node]), history)}" for node, name in names.items()))
    first = next(step.edge for step in cycle if step.edge >= 0)
    events = [int(nodes.event[node]) for node in names]
    place = int(told.place[first])
    return dict.fromkeys(FINDING) | {
        "anomaly": found.anomaly,
        "topic": place >> 32,
        "partition": place & 0xFFFFFFFF,
        "offset": int(told.offset[first]),
        "values": [int(told.value[step.edge]) for step in cycle if step.edge >= 0],
        "processes": sorted({event >> ID_BITS for event in events}),
        "nodes": [],
        "time": int(min(nodes.invoked[node] for node in names)),
        "until": int(max(nodes.ended[node] for node in names)),
        "events": events,
        "tags": [found.tag] if found.tag else [],
        "severity": len(cycle),
        "detail": "; ".join(sentences),
    }


def _sentence(step: Step, told: Edges, names: dict[int, str], topics: Mapping[int, str]) -> str:
    before, after = names[step.source], names[step.destination]
    if step.edge < 0:
        return f"{before} had ended before {after} was invoked"
    place, offset = int(told.place[step.edge]), int(told.offset[step.edge])
    where = f"{topics.get(place >> 32, place >> 32)}-{place & 0xFFFFFFFF}@{offset}"
    return {
        WW: f"{before} wrote before {after} wrote {where}",
        WR: f"{before} wrote {where} and {after} read it",
        RW: f"{before} read up to {where}, which {after} wrote",
    }[int(told.kind[step.edge])]


def _called(op: int, history: History) -> str:
    return f"transaction {op}" if history.foreign else f"transaction {op % (1 << ID_BITS)} of process {op >> ID_BITS}"


CYCLES = Study("cycles", ANOMALIES, study, needs=lambda history: history.does(F.TXN))
