"""Dependencies: which transaction has to come before which other, because of what both wrote and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.core.arrays import Ints
from checkers.cycles.graph import RW, WR, WW
from checkers.cycles.steps import Columns, Ends, Reads, TransactionSteps, Writes
from harness.history.schema import Type


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
class Edges(Columns):
    """From one transaction to another by their numbers, because of a value at an offset of a partition."""

    kind: Ints
    source: Ints
    destination: Ints
    place: Ints
    offset: Ints
    value: Ints


def nodes_of(transactions: TransactionTable, steps: TransactionSteps) -> tuple[TransactionTable, TransactionSteps]:
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
