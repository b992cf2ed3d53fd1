"""A piece of a history: the tables that one task looks at, and what several kernels make of them, made once.

A piece holds whole *stretches* of logs and whole *partitions* of answers:

    sends, records, copies, marks, finals   all of a stretch of `run.stretch` offsets of a partition
    probes, exchanges, ops, broker          all of a partition (what has none: all of the process that wrote it)

but a stretch and the answers of its partition may be in different pieces. A small history is one piece, and a stretch
is then as long as its partition. Sends without a usable offset are in any piece.

The answers of a partition may be longer than memory (`checkers.core.long_tables`). They are looked at some at a time:

    parts, node_parts, answer_parts   in any order: for what can be added up
    answer_windows                    one window of time after the other: for what is held against earlier answers
    portions                          those that have something in common together
    in_turn                           portions by a moment of rows, the earliest first
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from checkers.core.arrays import NEVER, NONE
from checkers.core.long_tables import LongTable, scattered
from checkers.core.node_answers import EXCHANGES, FETCH, LIST_OFFSETS, OF_EPOCHS, PROBES, answers, epochs
from checkers.core.run import RunContext
from checkers.core.tables import ROUTED, TABLES, empty
from checkers.shared.reader_steps import Reading
from checkers.shared.sender_order import merged_shares, shares_of
from harness.history.schema import F, OffsetView, Type

if TYPE_CHECKING:
    from checkers.core.partition_log import PartitionLog
    from checkers.shared.by_offset import OffsetTimes
    from checkers.shared.fates import Fates
    from checkers.shared.settled_values import Split


Table = pl.DataFrame | LongTable


class Window(NamedTuple):
    """Answers that ended at or after one moment, and before another."""

    answers: pl.DataFrame
    begin: int
    end: int


class Piece:
    """Tables by name; one that nobody asked for is empty."""

    def __init__(self, tables: Mapping[str, Table], run: RunContext) -> None:
        self.tables, self.run = tables, run

    def __getitem__(self, table: str) -> pl.DataFrame:
        """All of a table; what may be long is better looked at in `parts`."""
        found = self.tables.get(table)
        if found is None:
            return empty(table) if table in TABLES else pl.DataFrame()
        return pl.concat(found.parts(None, self.run.rows_at_once)) if isinstance(found, LongTable) else found

    def parts(self, table: str, columns: Collection[str]) -> Iterator[pl.DataFrame]:
        """A table, `run.rows_at_once` rows at a time where it may be long; with these columns, perhaps with more."""
        found = self.tables.get(table)
        if isinstance(found, LongTable):
            yield from found.parts({*columns, *ROUTED, "era"}, self.run.rows_at_once)
        else:
            yield self[table]

    @property
    def is_short(self) -> bool:
        """Whether all answers can be looked at together."""
        return not self.run.many or self.length("probes") + self.length("exchanges") <= self.run.rows_at_once

    def length(self, table: str) -> int:
        """Rows of a table."""
        found = self.tables.get(table)
        return found.rows if isinstance(found, LongTable) else len(self[table])

    def portions(
        self, table: str, columns: Collection[str], rows: pl.Expr, *together: pl.Expr
    ) -> Iterator[pl.DataFrame]:
        """These rows of a table, cut so that rows which are the same in something are together; all of them at least.

        Every portion of a long table is short, unless too many rows are the same.
        """
        count = len(self._begins(table))
        number = pl.struct(*together).hash() % count
        return scattered((part.filter(rows) for part in self.parts(table, columns)), number, count)

    def in_turn(self, table: str, columns: Collection[str], rows: pl.Expr, moment: str) -> Iterator[pl.DataFrame]:
        """These rows of a table, cut by a moment: what is of one instant is together, and the earliest come first."""
        begins = self._begins(table)
        number = pl.lit(pl.Series(begins[1:])).search_sorted(pl.col(moment), side="right")
        return scattered((part.filter(rows) for part in self.parts(table, columns)), number, len(begins))

    def _begins(self, table: str) -> list[int]:
        """When each portion of a table begins: as many as there have to be for each to be short."""
        found = self.tables.get(table)
        return found.begins(self.run.rows_at_once) if isinstance(found, LongTable) else [NONE]

    def node_parts(
        self, probes: Collection[str], exchanges: Collection[str]
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """What nodes answered to probes and to others, some of it at a time; with these columns of each."""
        if not self.run.many:
            yield self.probes, self.exchanges
            return
        for rows in self.parts("probes", probes):
            yield rows, empty("exchanges")
        for rows in self.parts("exchanges", exchanges):
            yield empty("probes"), rows

    def answer_parts(self) -> Iterator[pl.DataFrame]:
        """What nodes showed of marks (`checkers.core.node_answers`), some answers at a time."""
        if not self.run.many:
            yield self.answers
            return
        for probes, exchanges in self.node_parts(PROBES, EXCHANGES):
            yield answers(probes, exchanges)

    def answer_windows(self) -> Iterator[Window]:
        """Those of one window of time after the other."""
        if not self.run.many:
            yield Window(self.answers, NONE, NEVER)
            return
        waiting, begin = [answers(empty("probes"), empty("exchanges"))], NONE
        for rows, end in self._answers_in_time():
            waiting.append(rows)
            is_enough = end == NEVER or sum(map(len, waiting)) >= self.run.rows_at_once
            if end > begin and is_enough:
                whole = pl.concat(waiting)
                ready = pl.col("time") < end
                yield Window(whole.filter(ready), begin, end)
                waiting, begin = [whole.filter(~ready)], end

    def _answers_in_time(self) -> Iterator[tuple[pl.DataFrame, int]]:
        """Answers to probes and to others, each time with the first moment of all that come after them."""
        sources = [self._in_time("probes", PROBES), self._in_time("exchanges", EXCHANGES)]
        coming = [next(source) for source in sources]  # what is next of each, and when what follows it begins
        later = [NONE, NONE]
        while min(later) < NEVER:
            number = later.index(min(later))
            rows, later[number] = coming[number]
            none = [empty("probes"), empty("exchanges")]
            none[number] = rows
            yield answers(*none), min(later)
            coming[number] = next(sources[number], coming[number])

    def _in_time(self, table: str, columns: Collection[str]) -> Iterator[tuple[pl.DataFrame, int]]:
        found = self.tables.get(table)
        if isinstance(found, LongTable):
            return found.in_time({*columns, *ROUTED, "era"}, self.run.rows_at_once)
        return iter([(self[table], NEVER)])

    @property
    def sends(self) -> pl.DataFrame:
        """How sends ended."""
        return self["sends"]

    @property
    def ops(self) -> pl.DataFrame:
        """How all other operations ended."""
        return self["ops"]

    @property
    def records(self) -> pl.DataFrame:
        """Every record that any client was handed."""
        return self["records"]

    @property
    def copies(self) -> pl.DataFrame:
        """What replicas had."""
        return self["copies"]

    @property
    def probes(self) -> pl.DataFrame:
        """What nodes answered to probes."""
        return self["probes"]

    @property
    def exchanges(self) -> pl.DataFrame:
        """What passed a tap."""
        return self["exchanges"]

    @cached_property
    def answers(self) -> pl.DataFrame:
        """What nodes showed of marks (`checkers.core.node_answers`)."""
        return answers(self.probes, self.exchanges)

    @cached_property
    def epochs(self) -> pl.DataFrame:
        """When Metadata showed leader epochs first, in this piece; `others["epochs"]` has those of all pieces."""
        return epochs(lambda: self.node_parts(OF_EPOCHS, OF_EPOCHS))

    @cached_property
    def claims(self) -> pl.DataFrame:
        """What nodes claimed of leaders (`checkers.shared.metadata_claims`)."""
        from checkers.shared.metadata_claims import answers, claims

        return claims(answers(self))

    @cached_property
    def log(self) -> PartitionLog:
        """What each offset holds (`checkers.core.partition_log`)."""
        from checkers.core.partition_log import make_log

        return make_log(self)

    @cached_property
    def offset_times(self) -> OffsetTimes:
        """What was done to each offset (`checkers.shared.by_offset`)."""
        from checkers.shared.by_offset import make_offset_times

        return make_offset_times(self)

    @cached_property
    def split(self) -> Split:
        """Sends and records of a large history, by whether they are settled (`checkers.shared.settled_values`)."""
        from checkers.shared.settled_values import split

        return split(self)

    @cached_property
    def fates(self) -> Fates:
        """What became of each value (`checkers.shared.fates`); for pieces that hold all rows of a value."""
        from checkers.shared.fates import fates

        return fates(self.sends, self.records, self.run)

    @cached_property
    def marks(self) -> pl.DataFrame:
        """Answers that show a high watermark or an end, by the offset that they show."""
        return self["marks"] if self.run.many else marks_of(self.answers)

    @cached_property
    def finals(self) -> pl.DataFrame:
        """The ends that final readers found."""
        return self["finals"] if self.run.many else finals_of(self.ops)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Odd steps of readers, by the offset that they leave (`checkers.shared.reader_steps`)."""
        return self["steps"] if self.run.many else self._reading.odd_steps()

    @cached_property
    def spans(self) -> pl.DataFrame:
        """What readers received of a place, from its first to its last record."""
        return self["spans"] if self.run.many else self._reading.spans()

    @cached_property
    def shares(self) -> pl.DataFrame:
        """What transactions sent to a place (`checkers.shared.sender_order`)."""
        return merged_shares(self["shares"]) if self.run.many else shares_of(self.sends, self.run.stretch)

    @cached_property
    def _reading(self) -> Reading:
        return Reading(self.records, self.run)


MARKS = ("topic", "partition", "era", "offset", "api", "led", "node", "invoked", "time", "event", "told")
FINALS = ("topic", "partition", "era", "offset", "invoked", "time", "event")
OF_FINALS = ("f", "type", "end", "topic", "partition", "invoked", "time", "event")  # columns of operations


def marks_of(shown: pl.DataFrame) -> pl.DataFrame:
    """Of answers those to Fetch and to ListOffsets(latest)."""
    of_ends = (pl.col("api") == FETCH) | ((pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.LATEST))
    return shown.filter(of_ends & (pl.col("shown") >= 0)).with_columns(offset=pl.col("shown")).select(MARKS)


def finals_of(ops: pl.DataFrame) -> pl.DataFrame:
    """Of operations the final reads that came to their end."""
    if ops.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(FINALS, pl.Int64) | {"era": pl.Int32})
    done = (pl.col("f") == F.FINAL) & (pl.col("type") == Type.OK) & (pl.col("end") >= 0)
    return ops.filter(done).with_columns(offset=pl.col("end")).select(FINALS)
