"""Transactions: what of them became visible, and whether that agrees with how they ended.

A transaction is a completion of TXN; its `op` is what its parts have as `txn`, its `type` how it ended: ok committed,
fail aborted, info unknown. Its *writes* are the sends with its `op` as `txn`, each with its own type, offset and times.
Parts whose transaction has no completion belong to none. A value is *visible* when a good record of it was handed to a
process of which the manifest does not say that it reads uncommitted; it is *in the log* when one was handed to a
process that does. Topics that the workload deleted (`checkers.deletions`) are left alone: neither their sends nor their
records count.

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
not visible, not missing, and no ok final read (as above) of its partition was invoked at or after its completion. For
each input

`twice`             its offset is one and the same, and two outputs count
`no output`         `committed` is above all its offsets, and no output counts or is open
`not committed`     its offset is one and the same, an output is ok and completed at or before the invocation of the
                    answer, and the answer is not above the offset

How a value fares tells its fate (`checkers.shared.fates`). What is settled in a stretch of a log is visible, wherever
its partition was read to: surveys tell that, and values are judged only where they are loose. Each piece puts together
what it has of a transaction (`OF_TRANSACTION`, `OF_MISSING`) and of an input's outputs (`OF_OUTPUTS`), and the parts of
all pieces are put together the same way. Inputs and their outputs lie in different partitions, so that each of them is
a row until the end. In a history of more than SENDS sends only one in so many inputs is looked at, which is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, ints, is_in
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.findings import Findings, make_findings, merge_findings
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import topic_and_partition
from checkers.shared.fates import READS, Fates
from harness.history.schema import F, Kind, Status, Type

SENDS = 16_000_000  # of all of a history
OPS = ("event", "time", "process", "invoked", "op", "f", "type", "topic", "partition", "offset", "end", "txn", "name")
PLACE = ("topic", "partition")


# ----------------------------------------------------------------------------------------- how far partitions were read


@dataclass(frozen=True)
class PartitionTable:
    """One entry for each partition, in order; NONE where there is nothing."""

    place: Ints
    reach: Ints
    final: Ints  # when the last ok final read was invoked
    committed: Ints  # of its group, if it is transformed
    answer: Ints
    asked: Ints

    def read(self, place: Ints) -> tuple[Ints, Ints]:
        """Of partitions by their numbers: the reach, and when they were last read to their end."""
        row, here = self._rows(place)
        return np.where(here, self.reach[row], NONE), np.where(here, self.final[row], NONE)

    def transformed(self, place: Ints) -> Bools:
        """Whether these are."""
        row, here = self._rows(place)
        transformed: Bools = here & (self.committed[row] != NONE)
        return transformed

    def groups(self, place: Ints) -> dict[str, Ints]:
        """Of those that are: what was committed, the answer, and when it was asked for."""
        row, _ = self._rows(place)
        return {name: getattr(self, name)[row] for name in ("committed", "answer", "asked")}

    def _rows(self, place: Ints) -> tuple[Ints, Bools]:
        row = np.minimum(np.searchsorted(self.place, place), len(self.place) - 1)
        return row, self.place[row] == place


NOWHERE = PartitionTable(*(np.full(1, NONE) for _ in range(6)))


def _partitions(reached: Sequence[pl.DataFrame], groups: Sequence[pl.DataFrame]) -> PartitionTable:
    of_reach = pl.concat(reached).group_by(PLACE).agg(pl.col("reach", "final").max())
    both = of_reach.join(pl.concat(groups), on=PLACE, how="full", coalesce=True).drop_nulls(PLACE)
    place = both.select(place=_packed())["place"]
    ordered = both.with_columns(place).sort("place")
    return PartitionTable(*(
        np.concatenate([[NONE], ints(ordered, name)])
        for name in ("place", "reach", "final", "committed", "answer", "asked")
    ))  # fmt: skip


def _packed() -> pl.Expr:
    """Topic and partition as one number."""
    return pl.col("topic").cast(pl.Int64) * (1 << 32) + pl.col("partition").cast(pl.Int64)


def _reached(piece: Piece, run: RunContext) -> pl.DataFrame:
    """How far this piece was read, by partition."""
    counted = run.deletions.untouched() & ~by(run.sees_aborted)
    records = piece.records.filter(counted & ~by(run.members)).group_by(PLACE).agg(reach=pl.col("offset").max())
    finals = piece.ops.filter((pl.col("f") == F.FINAL) & (pl.col("type") == Type.OK) & counted)
    return pl.concat([
        records.select(*PLACE, "reach", final=pl.lit(None, pl.Int64)),
        finals.select(*PLACE, reach=pl.col("end") - 1, final="invoked"),
    ])  # fmt: skip


def _groups(piece: Piece, run: RunContext) -> pl.DataFrame:
    """The transformed partitions of this piece: where their groups are."""
    commits, asks = (pl.col("f") == F.COMMIT) & pl.col("txn").is_not_null(), pl.col("f") == F.COMMITTED
    rows = piece.ops.filter((pl.col("type") == Type.OK) & (commits | asks)).with_columns(commits=commits)
    believed = rows.filter(~pl.col("commits") & ~by(run.sees_aborted) & (pl.col("invoked") > _healed_ns(run)))
    last = believed.sort("invoked", "offset", nulls_last=False).group_by(PLACE)
    answers = last.agg(asked=pl.col("invoked").last(), answer=pl.col("offset").last())
    groups = rows.group_by(PLACE).agg(
        names=pl.col("name").fill_null("").n_unique(), committed=pl.col("offset").filter("commits").max()
    )
    mine = groups.filter((pl.col("names") == 1) & pl.col("committed").is_not_null())
    return mine.join(answers, on=PLACE, how="left").select(*PLACE, "committed", "answer", "asked")


def _healed_ns(run: RunContext) -> int:
    """When the last fault was over."""
    ends = [
        next((ns for ns in (fault.healed_ns, fault.undone_ns) if ns is not None), NEVER)
        for fault in run.line.faults
        if fault.injected_ns is not None
    ]
    return max(ends, default=-NEVER)


# ----------------------------------------------------------------------------------------------- how transactions ended


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


# ----------------------------------------------------------------------------------------------- what is told of values


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
OF_OUTPUTS = Tally("source", ("outputs", "open"), ("done", "first_output"), ("last_output",))
INPUTS = ("value", "place", "low", "high")


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
            OF_OUTPUTS.of([part.outputs for part in parts]),
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
        OF_OUTPUTS.of([_of_outputs(writes, run)] if transforms else []),
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


def _of_outputs(writes: _Writes, run: RunContext) -> dict[str, Ints]:
    made = np.flatnonzero((writes.source != NONE) & _chosen(writes.source, run))
    value, ok, visible = writes.value[made], writes.type[made] == Type.OK, writes.visible[made]
    counts, unsure = ok | visible, writes.type[made] == Type.INFO
    return {
        "source": writes.source[made],
        "outputs": counts.astype(np.int64),
        "open": (unsure & ~visible & ~writes.missing[made] & ~writes.ended[made]).astype(np.int64),
        "done": np.where(ok, writes.completed[made], NEVER),
        "first_output": np.where(counts, value, NEVER),
        "last_output": np.where(counts, value, NONE),
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
    step = _step(run)
    if step == 1:
        return np.ones(len(inputs), np.bool_)
    mixed = (inputs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    chosen: Bools = mixed % np.uint64(step) == 0
    return chosen


def _step(run: RunContext) -> int:
    contents, rows = run.contents.get(Kind.COMPLETE), run.rows.get(Kind.COMPLETE, 0)
    sends = rows if contents is None else contents.get(int(F.SEND), 0)
    return max(1, -(-sends // SENDS))


# ------------------------------------------------------------------------------------------------------------- findings


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
    outputs: Ints
    open: Ints
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


def _inputs_of(said: ValueTotals, partitions: PartitionTable) -> _Inputs:
    inputs, source = said.inputs, np.append(said.outputs["source"], NEVER)
    row = np.searchsorted(source, inputs["value"])
    there = source[row] == inputs["value"]
    made = {
        name: np.where(there, np.append(said.outputs[name], 0)[row], nothing)
        for name, nothing in (("outputs", 0), ("open", 0), ("done", NEVER), ("first_output", 0), ("last_output", 0))
    }
    return _Inputs(**inputs, **partitions.groups(inputs["place"]), **made)


def _of_inputs(inputs: _Inputs, run: RunContext) -> Findings:
    """Inputs whose offset and whose output were not committed together."""
    twice = inputs.one_offset & (inputs.outputs > 1)
    gone = inputs.behind & (inputs.outputs == 0) & (inputs.open == 0)
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
    step = _step(run)
    if step == 1:
        return ""
    return f"the outputs of one in {step} inputs of transactions were looked at: there are too many messages"


# ------------------------------------------------------------------------------------------------------------- families


@dataclass(frozen=True)
class TransactionSurvey:
    """Of a piece."""

    reached: pl.DataFrame
    groups: pl.DataFrame
    ends: pl.DataFrame
    settled: ValueTotals | None


@dataclass(frozen=True)
class GatheredTransactions:
    """Of all pieces."""

    partitions: PartitionTable
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
        "offsets-not-atomic": "two outputs of one input; or an input is behind the group, and there is no output of it;"
        " or an output was committed, and the group is before its input",
    }
    reads: ClassVar[Mapping[str, Sequence[str]]] = {**READS, "ops": OPS}
    by_value = True

    def needs(self, run: RunContext) -> bool:
        """Whether there are any."""
        return run.does(F.TXN)

    def survey(self, piece: Piece, run: RunContext) -> TransactionSurvey:
        """How far it was read, how transactions ended, and what is settled of their writes."""
        settled = value_totals(piece.split.settled, run, NOWHERE) if run.many else None
        return TransactionSurvey(_reached(piece, run), _groups(piece, run), _ends(piece), settled)

    def gather(self, surveys: Sequence[TransactionSurvey], run: RunContext, others: ByFamily) -> GatheredTransactions:
        """Of all partitions and transactions; what surveys say of values only if it holds."""
        partitions = _partitions([each.reached for each in surveys], [each.groups for each in surveys])
        ends = fenced(pl.concat([each.ends for each in surveys]))
        parts = [each.settled for each in surveys if each.settled is not None and others["fates"].settled_count]
        return GatheredTransactions(partitions, ends, [part.of_transformed(partitions) for part in parts])

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
            inputs = _inputs_of(said, gathered.partitions)
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
