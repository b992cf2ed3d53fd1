"""A piece of a history: the tables that one task looks at, and what several kernels make of them, made once.

A piece holds whole *stretches* of logs and whole *partitions* of answers:

    sends, records, copies, marks, finals   all of a stretch of `run.stretch` offsets of a partition
    probes, exchanges, ops, broker          all of a partition (what has none: all of the process that wrote it)

but a stretch and the answers of its partition may be in different pieces. A small history is one piece, and a stretch
is then as long as its partition. Sends without a usable offset are in any piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from checkers.core.node_answers import FETCH, LIST_OFFSETS, answers, epochs
from checkers.core.run import RunContext
from checkers.core.tables import TABLES, empty
from checkers.shared.reader_steps import Reading
from checkers.shared.sender_order import merged_shares, shares_of
from harness.history.schema import F, OffsetView, Type

if TYPE_CHECKING:
    from checkers.core.partition_log import PartitionLog
    from checkers.shared.by_offset import OffsetTimes
    from checkers.shared.fates import Fates
    from checkers.shared.settled_values import Split


class Piece:
    """Tables by name; one that nobody asked for is empty."""

    def __init__(self, tables: Mapping[str, pl.DataFrame], run: RunContext) -> None:
        self.tables, self.run = tables, run

    def __getitem__(self, table: str) -> pl.DataFrame:
        found = self.tables.get(table)
        return empty(table) if found is None and table in TABLES else found if found is not None else pl.DataFrame()

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
        return epochs(self.probes, self.exchanges)

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
        return self.tables["marks"] if self.run.many else marks_of(self.answers)

    @cached_property
    def finals(self) -> pl.DataFrame:
        """The ends that final readers found."""
        return self.tables["finals"] if self.run.many else finals_of(self.ops)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Odd steps of readers, by the offset that they leave (`checkers.shared.reader_steps`)."""
        return self.tables["steps"] if self.run.many else self._reading.odd_steps()

    @cached_property
    def spans(self) -> pl.DataFrame:
        """What readers received of a place, from its first to its last record."""
        return self.tables["spans"] if self.run.many else self._reading.spans()

    @cached_property
    def shares(self) -> pl.DataFrame:
        """What transactions sent to a place (`checkers.shared.sender_order`)."""
        return merged_shares(self.tables["shares"]) if self.run.many else shares_of(self.sends, self.run.stretch)

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
