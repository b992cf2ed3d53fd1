"""Fates: what became of each value, from how its send ended and the records that carried it.

In a piece that holds all rows of a value (`Family.by_value`, or a small history) `piece.fates` sorts them by value. In
a large history sends and records are cut by offset instead, and nearly every value is *settled* there: it is the only
one at its offset, was acknowledged there once, and was read there by somebody whose reads count. `piece.split` tells
what is settled, without sorting by value, from what is *loose*. Loose rows of all pieces are few in a healthy history
and are looked at together; if they are many, or if one of them may belong to a value that is settled elsewhere (a
duplicate, a phantom), sends and records are cut once more, by value.

`others["fates"]` (`GatheredValues`) says which of the two it is: with `settled_count`, what surveys said of settled
values is added to what is judged of the loose ones; without it everything is judged from scratch, also in a small
history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, ints, is_in
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import EXCHANGES, PROBES
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import empty
from checkers.shared.unknown_sends import UnknownSends, nothing, proven_values, together, unknown_sends
from harness.history.schema import Status, Type

LOOSE_AT_MOST = 200_000  # rows of all pieces that the driver looks at by itself
LOOSE_OF_A_PIECE = 50_000
SENDS = ("event", "time", "process", "invoked", "type", "topic", "partition", "offset", "value", "source", "txn")
RECORDS = ("event", "time", "process", "invoked", "topic", "partition", "offset", "value", "status", "txn")
OPS = ("event", "time", "invoked", "f", "type", "topic", "partition", "end")
# whatever `piece.split` and `piece.fates` need, and `piece.log`, which the first of them asks for
READS: dict[str, Sequence[str]] = {
    "sends": SENDS, "records": RECORDS, "ops": OPS, "probes": PROBES, "exchanges": EXCHANGES,
}  # fmt: skip


def _of_send(column: str, missing: int = NONE) -> cached_property[Ints]:
    """By value, what its send says."""

    def made(fates: Fates) -> Ints:
        found = np.full(len(fates), missing)
        found[fates.of_send] = ints(fates.sends, column, missing)
        return found

    return cached_property(made)


def _place(column: str) -> cached_property[Ints]:
    """By value, the topic or the partition of its send, or else of good records."""

    def made(fates: Fates) -> Ints:
        found = np.full(len(fates), NONE)
        found[fates.of_send] = ints(fates.sends, column)
        if (found != NONE).all():
            return found
        good = ints(fates.told, "status") == Status.GOOD
        return np.where(found == NONE, fates.highest(fates.of_read[good], ints(fates.told, column)[good]), found)

    return cached_property(made)


class Fates:
    """What became of all values that some rows are about; all rows of each value have to be among them.

    Columns have one entry for each value, in rising order of values, and are made when somebody first asks for them.
    NONE where there is nothing (NEVER of minima); `type` is 0 where nobody sent it.
    """

    def __init__(self, sends: pl.DataFrame, told: pl.DataFrame, run: RunContext) -> None:
        self.sends, self.told, self.run = sends, told, run
        groups = GroupBy(np.concatenate([ints(sends, "value"), ints(told, "value")]))
        number = groups.number()
        self.value: Ints = groups.keys
        self.of_send, self.of_read = number[: len(sends)], number[len(sends) :]  # of each row, the number of its value

    def __len__(self) -> int:
        return len(self.value)

    type = _of_send("type", 0)
    acknowledged = _of_send("offset")  # the offset that its send was told, if any
    invoked = _of_send("invoked")
    completed = _of_send("time")
    txn = _of_send("txn")
    source = _of_send("source")
    send_event = _of_send("event")
    topic = _place("topic")  # of its send; where that does not say, of records that say rightly where they are
    partition = _place("partition")

    @cached_property
    def all_reads(self) -> Ints:
        """Records with this value, good or misrouted."""
        return self._count(self.of_read)

    @cached_property
    def committed_reads(self) -> Ints:
        """Of these, those of readers that do not see what is aborted."""
        return self._count(self.of_read[self._committed])

    @cached_property
    def load_reads(self) -> Ints:
        """Of all of them, those of the load's consumers."""
        return self._count(self.of_read[is_in(ints(self.told, "process"), self.run.load)])

    @cached_property
    def reads(self) -> Ints:
        """Those that count: of a value in a transaction, of readers that do not see what is aborted."""
        return np.where(self.txn == NONE, self.all_reads, self.committed_reads)

    @property
    def read(self) -> Bools:
        """Whether there is any that counts."""
        return self.reads > 0

    @cached_property
    def read_event(self) -> Ints:
        """The lowest event of those that count (NEVER)."""
        return np.where(self.txn == NONE, self.any_event, self.committed_event)

    @cached_property
    def any_event(self) -> Ints:
        """The lowest event of any read (NEVER)."""
        return self.lowest(self.of_read, ints(self.told, "event"))

    @cached_property
    def committed_event(self) -> Ints:
        """The same of readers that do not see what is aborted."""
        return self.lowest(self.of_read[self._committed], ints(self.told, "event")[self._committed])

    @cached_property
    def seen_committed(self) -> Bools:
        """Whether a good record was handed to a reader that does not see what is aborted."""
        found: Bools = self._count(self.of_read[self._good & self._committed]) > 0
        return found

    @cached_property
    def seen_raw(self) -> Bools:
        """Whether a good record was handed to one that does."""
        found: Bools = self._count(self.of_read[self._good & ~self._committed]) > 0
        return found

    @cached_property
    def low(self) -> Ints:
        """The lowest offset that it is known at: of good records, and of its acknowledgement (NEVER)."""
        return self.lowest(self.of_placed, self.placed("offset"))

    @cached_property
    def high(self) -> Ints:
        """The highest one (NONE)."""
        return self.highest(self.of_placed, self.placed("offset"))

    @cached_property
    def low_event(self) -> Ints:
        """Who knew it first at the lowest offset: by time, then by event (NEVER)."""
        first = self._first(self.low)
        return self.lowest(self.of_placed[first], self.placed("event")[first])

    @cached_property
    def high_event(self) -> Ints:
        """Who knew it first at the highest offset; of those at one moment, the highest event (NONE)."""
        first = self._first(self.high)
        return self.highest(self.of_placed[first], self.placed("event")[first])

    @cached_property
    def low_committed(self) -> Ints:
        """The lowest offset of good records of readers that do not see what is aborted (NEVER)."""
        chosen = self._good & self._committed
        return self.lowest(self.of_read[chosen], ints(self.told, "offset")[chosen])

    @cached_property
    def high_committed(self) -> Ints:
        """The highest one (NONE)."""
        chosen = self._good & self._committed
        return self.highest(self.of_read[chosen], ints(self.told, "offset")[chosen])

    @cached_property
    def seen(self) -> Ints:
        """The first moment of a row of this value: the end of its send, or a read."""
        sent = self.lowest(self.of_send, ints(self.sends, "time"))
        return np.minimum(sent, self.lowest(self.of_read, ints(self.told, "time")))

    @cached_property
    def of_placed(self) -> Ints:
        """The numbers of values by rows that say at which offset they are: usable acknowledgements, good records.

        What an `info` send names is as good as an acknowledgement if a good record shows that it happened. Records that
        are elsewhere than where their value was sent to do not count.
        """
        return np.concatenate([self.of_send[self._usable], self.of_read[self._good & ~self.astray]])

    def placed(self, name: str) -> Ints:
        """A column of these rows."""
        return np.concatenate([ints(self.sends, name)[self._usable], ints(self.told, name)[self._good & ~self.astray]])

    def lowest(self, of: Ints, values: Ints) -> Ints:
        """By value the lowest of what rows say, given the number of each row's value."""
        found = np.full(len(self), NEVER)
        np.minimum.at(found, of, values)
        return found

    def highest(self, of: Ints, values: Ints) -> Ints:
        """By value the highest of it."""
        found = np.full(len(self), NONE)
        np.maximum.at(found, of, values)
        return found

    def only(self, chosen: Bools) -> Fates:
        """The fates of some of the values."""
        sends, told = (pl.Series(chosen[of]) for of in (self.of_send, self.of_read))
        return Fates(self.sends.filter(sends), self.told.filter(told), self.run)

    def frame(self, *names: str) -> pl.DataFrame:
        """Columns as a table, with nulls."""
        return pl.DataFrame({name: _column(getattr(self, name)) for name in names})

    @cached_property
    def astray(self) -> Bools:
        """Of records, whether they call themselves good and are elsewhere than where their value was sent to."""
        found = self._good.copy()
        elsewhere = np.zeros(len(found), np.bool_)
        for name in ("topic", "partition"):
            sent = np.full(len(self), NONE)
            sent[self.of_send] = ints(self.sends, name)
            found &= sent[self.of_read] != NONE
            elsewhere |= sent[self.of_read] != ints(self.told, name)
        found &= elsewhere
        return found

    @cached_property
    def _usable(self) -> Bools:
        type_ = ints(self.sends, "type")
        shown = np.bincount(self.of_read[self._good & ~self.astray], minlength=len(self)) > 0
        happened: Bools = (type_ == Type.OK) | ((type_ == Type.INFO) & shown[self.of_send])
        return happened & (ints(self.sends, "offset", -1) >= 0)

    @cached_property
    def _good(self) -> Bools:
        good: Bools = (ints(self.told, "status") == Status.GOOD) & (ints(self.told, "offset") != NONE)
        return good

    @cached_property
    def _committed(self) -> Bools:
        return ~is_in(ints(self.told, "process"), self.run.sees_aborted)

    def _count(self, of: Ints) -> Ints:
        return np.bincount(of, minlength=len(self))

    def _first(self, wanted: Ints) -> Bools:
        """Which placed rows were the first at the wanted offset of their value."""
        of, time = self.of_placed, self.placed("time")
        there: Bools = self.placed("offset") == wanted[of]
        earliest = self.lowest(of[there], time[there])
        first: Bools = there & (time == earliest[of])
        return first


def _column(values: npt.NDArray[Any]) -> pl.Series:
    if values.dtype == np.bool_:
        return pl.Series(values)
    missing = (values == NONE) | (values == NEVER)
    series = pl.Series(values.astype(np.int64, copy=False))
    return series.set(pl.Series(missing), None) if missing.any() else series


def told_of(records: pl.DataFrame) -> pl.DataFrame:
    """The records that are reads of a value."""
    believed = pl.col("status").is_in([int(Status.GOOD), int(Status.MISROUTED)])
    return records.filter(pl.col("value").is_not_null() & believed)


def fates(sends: pl.DataFrame, records: pl.DataFrame, run: RunContext) -> Fates:
    """Of all values that these rows are about; all rows of each value have to be there."""
    return Fates(sends, told_of(records), run)


class Split:
    """The sends and records of a piece: what is settled, by the rows of its log, and the rows of what is not.

    Nothing is settled in a topic that was deleted. Columns by rows of the log have one more entry, of what is nowhere.
    """

    def __init__(self, piece: Piece) -> None:
        run, log = piece.run, piece.log
        self.run, self.log = run, log
        self._sends, self._told = piece.sends, told_of(piece.records)
        sent, read = log.row_of(self._sends), log.row_of(self._told)
        usable = (ints(self._sends, "type") == Type.OK) & (sent >= 0)
        one = (log.acks == 1) & (log.low == log.high) & (log.era != UNSURE)
        if run.deletions:
            one &= ~is_in(log.topic, run.deletions.topics)
        self.in_transaction = self._rows(sent[usable & (ints(self._sends, "txn") != NONE)])
        committed = ~is_in(ints(self._told, "process"), run.sees_aborted)
        counted = self._rows(read[committed | ~self.in_transaction[read]])
        misrouted = self._rows(read[ints(self._told, "status") != Status.GOOD])
        self.chosen: Bools = np.append(one, False) & counted & ~misrouted
        self._of_send, self._of_read = usable & self.chosen[sent], self.chosen[read]
        self._read = read

    @cached_property
    def sends(self) -> pl.DataFrame:
        """The loose ones."""
        return self._sends.filter(pl.Series(~self._of_send))

    @cached_property
    def records(self) -> pl.DataFrame:
        """The loose ones that are reads of a value."""
        return self._told.filter(pl.Series(~self._of_read))

    @cached_property
    def settled(self) -> Fates:
        """The fates of what is settled."""
        return Fates(
            self._sends.filter(pl.Series(self._of_send)), self._told.filter(pl.Series(self._of_read)), self.run
        )

    @cached_property
    def load_reads(self) -> Ints:
        """By row of the log, how many records of settled values the load's consumers were handed."""
        of_load = self._of_read & is_in(ints(self._told, "process"), self.run.load)
        return np.bincount(self._read[of_load], minlength=len(self.log) + 1)

    def _rows(self, rows: Ints) -> Bools:
        """Whether a row of the log is among these."""
        found = np.zeros(len(self.log) + 1, np.bool_)
        found[rows] = True
        return found


def split(piece: Piece) -> Split:
    """Of a piece that holds stretches of logs."""
    return Split(piece)


@dataclass(frozen=True)
class GatheredValues:
    """How values are looked at."""

    by_value: bool  # all from scratch, in pieces that hold all rows of a value; else the loose ones, by themselves
    sends: pl.DataFrame  # the loose rows, with all columns that anybody asked for
    records: pl.DataFrame
    late: pl.DataFrame  # info sends that were read: topic, partition, era, offset, invoked, time, event, value
    proven: pl.Series  # values of info sends that happened, at an offset that only the send names

    @property
    def settled_count(self) -> bool:
        """Whether what surveys said of settled values holds, beside what is judged of the loose ones."""
        return not self.by_value


class Values(Family):
    """Whether the fates of values can be told from what pieces say."""

    name = "fates"
    after = ("epochs",)
    by_value = True
    reads: ClassVar[Mapping[str, Sequence[str]]] = READS

    def survey(self, piece: Piece, run: RunContext) -> dict[str, pl.DataFrame] | None:
        """The loose rows, unless there are too many; a small history is one piece, where all can be judged at once."""
        if not run.many:
            return None
        parts = piece.split
        if len(parts.sends) + len(parts.records) > LOOSE_OF_A_PIECE:
            return None
        return {"sends": parts.sends, "records": parts.records}

    def gather(
        self, surveys: Sequence[dict[str, pl.DataFrame] | None], run: RunContext, others: ByFamily
    ) -> GatheredValues:
        """Loose values by themselves if they are few, and if none of them may be settled elsewhere."""
        whole = [each for each in surveys if each is not None]
        if len(whole) < len(surveys) or sum(len(frame) for each in whole for frame in each.values()) > LOOSE_AT_MOST:
            return _from_scratch()
        sends, records = (_together(table, [each[table] for each in whole]) for table in ("sends", "records"))
        # a record without a send may be a second copy of a value that is settled elsewhere
        if not records["value"].is_in(sends["value"].implode()).all():
            return _from_scratch()
        return GatheredValues(by_value=False, sends=sends, records=records, **_UNKNOWN)

    def judge(self, piece: Piece, gathered: GatheredValues, run: RunContext, others: ByFamily) -> UnknownSends:
        """What was read of sends of which nobody knew whether they had happened."""
        return unknown_sends(piece.sends, piece.records, run)

    def resume(
        self, gathered: GatheredValues, judged: Sequence[UnknownSends], run: RunContext, others: ByFamily
    ) -> GatheredValues:
        """With what was read of such sends."""
        unknown = together(judged)
        return replace(gathered, late=unknown.late, proven=proven_values(unknown))

    def conclude(
        self, gathered: GatheredValues, judged: Sequence[Any], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """Nothing."""
        return FamilyResult()


def _together(table: str, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """A table that is not there in a piece has none of its columns."""
    there = [part for part in parts if len(part)]
    return pl.concat(there) if there else empty(table)


def _from_scratch() -> GatheredValues:
    return GatheredValues(by_value=True, sends=empty("sends"), records=empty("records"), **_UNKNOWN)


_UNKNOWN: dict[str, Any] = {"late": nothing().late, "proven": proven_values(nothing())}  # before values are judged


FAMILIES: tuple[Family, ...] = (Values(),)
