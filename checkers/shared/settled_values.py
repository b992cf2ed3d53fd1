"""Settled values: one stretch of a log shows all that became of them, so that nobody has to sort by value.

In a large history sends and records are cut by offset, and nearly every value is *settled* there: it is the only one at
its offset, was acknowledged there once, and was read there by somebody whose reads count. `piece.split` tells what is
settled from what is *loose*. Loose rows of all pieces are few in a healthy history and are looked at together. If they
are many, or if one of them may belong to a value that is settled elsewhere (a duplicate, a phantom), sends and records
are cut once more, by value.

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
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, ints, is_in
from checkers.core.deletions import UNSURE
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from checkers.core.tables import empty
from checkers.shared.fates import READS, Fates, told_of
from checkers.shared.unknown_sends import UnknownSends, nothing, proven_values, together, unknown_sends
from harness.history.schema import Status, Type

LOOSE_AT_MOST = 200_000  # rows of all pieces that the driver looks at by itself
LOOSE_OF_A_PIECE = 50_000


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
