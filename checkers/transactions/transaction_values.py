"""What the values of a history say of its transactions: totals of writes, and rows of inputs and of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, is_in
from checkers.core.run import RunContext
from checkers.shared.fates import Fates
from checkers.transactions.partition_reach import PartitionTable
from harness.history.schema import F, Kind, Type

SENDS = 16_000_000  # of all of a history


@dataclass(frozen=True)
class Tally:
    """Totals by a key, which can be put together from parts: the names of columns, by how that is done."""

    key: str
    sums: Sequence[str]
    lowest: Sequence[str]
    highest: Sequence[str] = ()
    beside: Mapping[str, str] | None = None  # what the row has that has the extreme of another column

    def of(self, parts: Sequence[Mapping[str, Ints]]) -> dict[str, Ints]:
        """Parts put together: an entry for each key, in order."""
        names = (self.key, *self.sums, *self.lowest, *self.highest, *(self.beside or ()))
        rows = {name: np.concatenate([_EMPTY, *(part[name] for part in parts)]) for name in names}
        groups = GroupBy(rows[self.key])
        totals = {self.key: groups.keys}
        totals |= {name: groups.sum(rows[name]) for name in self.sums}
        totals |= {name: groups.min(rows[name]) for name in self.lowest}
        totals |= {name: groups.max(rows[name]) for name in self.highest}
        for name, extreme in (self.beside or {}).items():
            totals[name] = groups.max(rows[name], rows[extreme] == totals[extreme][groups.number()])
        return totals


_EMPTY = np.zeros(0, np.int64)
OF_TRANSACTION = Tally(
    "txn", ("writes", "kept", "visible"), ("place", "first_visible"), ("newest", "newest_visible"),
    {"newest_value": "newest_visible"},
)  # fmt: skip
OF_MISSING = Tally(
    "txn", ("missing", "aborted"), ("first_missing",),
    beside={"missing_place": "first_missing", "missing_at": "first_missing"},
)  # fmt: skip
INPUTS = ("value", "place", "low", "high")
OUTPUTS = ("value", "source", "txn", "counts", "open", "done")


@dataclass(frozen=True)
class ValueTotals:
    """What values say of transactions and of inputs."""

    transactions: Mapping[str, Ints]
    missing: Mapping[str, Ints]
    outputs: Mapping[str, Ints]
    inputs: Mapping[str, Ints]

    @classmethod
    def together(cls, parts: Sequence[ValueTotals]) -> ValueTotals:
        """Of values that have nothing to do with each other."""
        return cls(
            OF_TRANSACTION.of([part.transactions for part in parts]),
            OF_MISSING.of([part.missing for part in parts]),
            {name: np.concatenate([_EMPTY, *(part.outputs[name] for part in parts)]) for name in OUTPUTS},
            {name: np.concatenate([_EMPTY, *(part.inputs[name] for part in parts)]) for name in INPUTS},
        )

    def of_transformed(self, partitions: PartitionTable) -> ValueTotals:
        """Only such inputs."""
        mine = partitions.transformed(self.inputs["place"])
        inputs = {name: column[mine] for name, column in self.inputs.items()}
        return ValueTotals(self.transactions, self.missing, self.outputs, inputs)


@dataclass(frozen=True)
class _Writes:
    """How the writes of transactions fared."""

    value: Ints
    txn: Ints
    source: Ints
    type: Ints
    place: Ints
    at: Ints
    invoked: Ints
    completed: Ints
    visible: Bools
    kept: Bools
    raw: Bools
    missing: Bools
    ended: Bools  # whether the partition was read to its end afterwards


def _writes(fates: Fates, run: RunContext, partitions: PartitionTable) -> _Writes:
    chosen = np.flatnonzero((fates.txn != NONE) & _sent(fates, run))
    place, visible = _places(fates)[chosen], fates.seen_committed[chosen]
    type_, completed = fates.type[chosen], fates.completed[chosen]
    at = np.maximum(fates.acknowledged[chosen], -1)
    kept = ~is_in(fates.topic[chosen], run.compacted)
    reach, final = np.full(len(chosen), NONE), np.full(len(chosen), NONE)
    unseen = np.flatnonzero(~visible)
    reach[unseen], final[unseen] = partitions.read(place[unseen])
    ended = completed <= final
    passed = (at >= 0) & (at <= reach)
    return _Writes(
        value=fates.value[chosen],
        txn=fates.txn[chosen],
        source=fates.source[chosen],
        type=type_,
        place=place,
        at=at,
        invoked=fates.invoked[chosen],
        completed=completed,
        visible=visible,
        kept=kept,
        raw=fates.seen_raw[chosen],
        missing=~visible & kept & (passed | ((type_ == Type.OK) & ended)),
        ended=ended,
    )


def _sent(fates: Fates, run: RunContext) -> Bools:
    """Whether somebody sent it, and not to a topic that was deleted."""
    return (fates.type > 0) & ~is_in(fates.topic, run.deletions.topics)


def _places(fates: Fates) -> Ints:
    return np.where((fates.topic == NONE) | (fates.partition == NONE), NEVER, (fates.topic << 32) | fates.partition)


def value_totals(fates: Fates, run: RunContext, partitions: PartitionTable) -> ValueTotals:
    """What these values say, if partitions were read so far."""
    writes = _writes(fates, run, partitions)
    transforms = run.does(F.COMMIT)
    return ValueTotals(
        OF_TRANSACTION.of([_of_transactions(writes)]),
        OF_MISSING.of([_of_missing(writes)]),
        _outputs(writes, run) if transforms else dict.fromkeys(OUTPUTS, _EMPTY),
        _inputs(fates, run) if transforms else dict.fromkeys(INPUTS, _EMPTY),
    )


def _of_transactions(writes: _Writes) -> dict[str, Ints]:
    return {
        "txn": writes.txn,
        "writes": np.ones(len(writes.txn), np.int64),
        "kept": writes.kept.astype(np.int64),
        "visible": writes.visible.astype(np.int64),
        "place": writes.place,
        "first_visible": np.where(writes.visible, writes.value, NEVER),
        "newest": writes.invoked,
        "newest_visible": np.where(writes.visible, writes.invoked, NONE),
        "newest_value": writes.value,
    }


def _of_missing(writes: _Writes) -> dict[str, Ints]:
    missing = np.flatnonzero(writes.missing)
    return {
        "txn": writes.txn[missing],
        "missing": np.ones(len(missing), np.int64),
        "aborted": writes.raw[missing].astype(np.int64),
        "first_missing": writes.value[missing],
        "missing_place": writes.place[missing],
        "missing_at": writes.at[missing],
    }


def _outputs(writes: _Writes, run: RunContext) -> dict[str, Ints]:
    made = np.flatnonzero((writes.source != NONE) & _chosen(writes.source, run))
    ok, visible = writes.type[made] == Type.OK, writes.visible[made]
    unsure = (writes.type[made] == Type.INFO) & ~visible & ~writes.missing[made] & ~writes.ended[made]
    return {
        "value": writes.value[made],
        "source": writes.source[made],
        "txn": writes.txn[made],
        "counts": (ok | visible).astype(np.int64),
        "open": unsure.astype(np.int64),
        "done": np.where(ok, writes.completed[made], NEVER),
    }


def _inputs(fates: Fates, run: RunContext) -> dict[str, Ints]:
    mine = _sent(fates, run) & (fates.high_committed != NONE) & _chosen(fates.value, run)
    return {
        "value": fates.value[mine],
        "place": _places(fates)[mine],
        "low": fates.low_committed[mine],
        "high": fates.high_committed[mine],
    }


def _chosen(inputs: Ints, run: RunContext) -> Bools:
    """Whether these inputs are looked at: all of them, or one in so many."""
    step = sampling_step(run)
    if step == 1:
        return np.ones(len(inputs), np.bool_)
    mixed = (inputs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    chosen: Bools = mixed % np.uint64(step) == 0
    return chosen


def sampling_step(run: RunContext) -> int:
    """Of a history with more than SENDS sends, one input of so many is looked at."""
    contents, rows = run.contents.get(Kind.COMPLETE), run.rows.get(Kind.COMPLETE, 0)
    sends = rows if contents is None else contents.get(int(F.SEND), 0)
    return max(1, -(-sends // SENDS))
