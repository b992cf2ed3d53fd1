"""Fates: what became of each value, from how its send ended and the records that carried it.

All rows of a value have to be there: a piece of a small history holds all, and pieces that are cut by value
(`Family.by_value`) hold all of theirs. `checkers.shared.settled_values` says when less will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from checkers.core.arrays import NEVER, NONE, Bools, GroupBy, Ints, ints, is_in
from checkers.core.node_answers import EXCHANGES, PROBES
from checkers.core.run import RunContext
from harness.history.schema import Status, Type

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
