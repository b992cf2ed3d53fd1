"""Readers: the steps from one record to the next that each was handed, and which offsets anybody knows of.

Most of what readers are handed are *runs*: offset after offset, event after event. No other record of its reader and
place lies between the records of a run, so that only the steps between runs are looked at one by one.

A large history is cut by stretches of offsets, where nobody could tell what came after what. So steps are made before
that, in each chunk of the file by itself (`Reading`): those to any offset but the next one (*odd* steps) go to the
stretch that they leave, where it is known which offset comes next (`KnownOffsets`). And of each reader and place a
*span* goes to its partition: the first and the last record of the chunk, and how many steps lie between them. What is
next to the end of a span is asked for as if an odd step left it. A step from one span to the next is a *joint*.

Spans of a reader and place that overlap are *tangled*: the file is not in the order of its events. Then what a chunk
says of that reader and place is worth nothing; its runs are put together instead, as spans that are as short as that.
So are those of a reader with several spans if something in one of them was taken back: what comes before a record is
then not always the record before it (`_before`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, ints, is_in, nullable
from checkers.core.run import RunContext
from harness.history.schema import ID_BITS, Type

READER = ("process", "topic", "partition")
LOG = ("topic", "partition", "era")
NEXT = ("next_any", "next_committed")  # offset that is known, and that readers of committed records have to be handed
RECORDS = ("event", "time", "invoked", "process", "op", "topic", "partition", "offset", "txn")
PLACED = (pl.col("offset") >= 0) & pl.col("topic").is_not_null() & pl.col("partition").is_not_null()
ACKNOWLEDGED = (pl.col("type") == Type.OK) & PLACED
_FIRST = ("era", "op", "txn", "offset", "event", "time")  # of the first record of a span, named `first_…`
_LAST = (*_FIRST, "invoked")
_LEFT = (*READER, "era", "offset", "event", "invoked", "time")  # of the record that a step leaves
_REACHED = {"offset": "to", "event": "to_event", "time": "to_time"}  # of the record that it gets to
_TYPES = {"topic": pl.Int32, "partition": pl.Int32, "era": pl.Int32}
_WIDEST = 1 << 62


def placed(rows: pl.DataFrame, where: pl.Expr = PLACED) -> pl.DataFrame:
    """Rows with a place in a log; mostly all of them."""
    mask = rows.select(where.fill_null(value=False)).to_series()
    return rows if mask.all() else rows.filter(mask)


def key_of(*columns: Ints) -> Ints:
    """One number for each row, which sorts as the columns do, the first of them first."""
    key, width = np.zeros(len(columns[0]), np.int64), 1
    if not len(key):
        return key
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if width * (high - low + 1) > _WIDEST:
            (key, width), (codes, span) = _ranks(key), _ranks(column)
        else:
            codes, span = column - low, high - low + 1
        key = key * span + codes
        width *= span
    return key


def _ranks(values: Ints) -> tuple[Ints, int]:
    different, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), len(different)


def columns(frame: pl.DataFrame, names: Sequence[str]) -> list[Ints]:
    """Several columns as numbers."""
    return [ints(frame, name) for name in names]


def first_above(table: Sequence[Ints], rows: Sequence[Ints]) -> Ints:
    """For each row the lowest number above its own that a sorted table has; numbers are the last of the columns.

    All other columns have to be equal; NONE if there is no such row.
    """
    return _picked(table, rows, _place_in(table, rows), table[-1])


def last_upto(table: Sequence[Ints], rows: Sequence[Ints], answers: Ints) -> Ints:
    """The same downwards, the row's own number included; `answers` are what is wanted of the table's rows."""
    return _picked(table, rows, _place_in(table, rows) - 1, answers)


def _place_in(table: Sequence[Ints], rows: Sequence[Ints]) -> Ints:
    """For each row how many rows of the table are not above it."""
    key = key_of(*(np.concatenate(pair) for pair in zip(table, rows, strict=True)))
    return np.searchsorted(key[: len(table[0])], key[len(table[0]) :], side="right")


def _picked(table: Sequence[Ints], rows: Sequence[Ints], place: Ints, answers: Ints) -> Ints:
    if not len(answers):
        return np.full(len(place), NONE)
    inside = np.clip(place, 0, len(answers) - 1)
    same = inside == place
    for mine, theirs in zip(table[:-1], rows[:-1], strict=True):
        same &= mine[inside] == theirs
    return np.where(same, answers[inside], NONE)


class Reading:
    """What readers were handed, in the order of their events, as far as these records go."""

    def __init__(self, records: pl.DataFrame, run: RunContext | None = None) -> None:
        self.rows = placed(records)
        self._columns = {name: ints(self.rows, name) for name in (*READER, "era", "op", "txn", "offset", "event")}
        first, last = self._runs()
        reader = key_of(*(self._columns[name][first] for name in READER))
        order = np.argsort(key_of(reader, self._counter()[first]))
        self._first, self._last, reader = first[order], last[order], reader[order]
        new = np.append(True, reader[1:] != reader[:-1]) if len(reader) else np.zeros(0, np.bool_)
        self._starts = np.flatnonzero(new)  # of the runs of each reader and place
        self._number = np.cumsum(new) - 1
        rewound = run.rewound if run else ()
        self._back = is_in(self._columns["txn"], rewound) | is_in(self._columns["op"], rewound)
        within = self._is_within(self._last[:-1], self._first[1:])
        left, follows = _before(new, self._back[self._first], within)
        self._steps = (self._last[left], self._first[follows])
        self._compared = self._same("era", *self._steps)
        self._within = self._is_within(*self._steps)
        self._reader_of_step = self._number[follows]

    def odd_steps(self) -> pl.DataFrame:
        """Steps within one era that do not lead to the next offset."""
        left, reached = self._steps
        offset = self._columns["offset"]
        odd = self._compared & (offset[reached] != offset[left] + 1)
        to = self.rows[reached[odd]].select(pl.col(name).alias(alias) for name, alias in _REACHED.items())
        steps: pl.DataFrame = self.rows[left[odd]].select(_LEFT).hstack(to)
        return steps.with_columns(within=pl.Series(self._within[odd]))

    def ends(self) -> pl.DataFrame:
        """The last record of each reader and place, as steps of which nobody knows where they lead."""
        last = self.rows[self._last[self._ends()]].select(_LEFT)
        nowhere = [pl.lit(None, pl.Int64).alias(alias) for alias in _REACHED.values()]
        return last.with_columns(*nowhere, within=pl.lit(None, pl.Boolean))

    def spans(self) -> pl.DataFrame:
        """One of each reader and place."""
        count = len(self._starts)
        between = np.bincount(self._reader_of_step[self._compared & ~self._within], minlength=count)
        inside = np.bincount(self._reader_of_step[self._compared & self._within], minlength=count)
        of_runs = np.add.reduceat(self._last - self._first, self._starts) if count else np.zeros(0, np.int64)
        back = _any(self._back[self._first], self._starts)
        return self._as_spans(self._first[self._starts], self._last[self._ends()], between, inside + of_runs, back)

    def runs(self) -> pl.DataFrame:
        """Each run as a span of its own."""
        nothing, back = np.zeros(len(self._first), np.int64), self._back[self._first]
        return self._as_spans(self._first, self._last, nothing, self._last - self._first, back)

    def _ends(self) -> Ints:
        return np.append(self._starts[1:], len(self._first)) - 1 if len(self._starts) else self._starts

    def _runs(self) -> tuple[Ints, Ints]:
        """The first and the last row of each: steps that belong to one operation or transaction, and nothing odd."""
        count = len(self.rows)
        if not count:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        before, after = slice(None, -1), slice(1, None)
        joined = self._is_within(before, after)
        for name in ("event", "offset"):
            joined &= self._columns[name][after] - self._columns[name][before] == 1
        for name in (*READER, "era"):
            joined &= self._same(name, before, after)
        first = np.flatnonzero(np.append(True, ~joined))
        return first, np.append(first[1:], count) - 1

    def _counter(self) -> Ints:
        """The number of each event in its process."""
        return self._columns["event"] - (self._columns["process"] << ID_BITS)

    def _same(self, name: str, one: Ints | slice, other: Ints | slice) -> Bools:
        column = self._columns[name]
        same: Bools = column[one] == column[other]
        return same

    def _is_within(self, one: Ints | slice, other: Ints | slice) -> Bools:
        """Of one operation or of one transaction."""
        within = np.zeros(len(self._columns["event"][one]), np.bool_)
        for name in ("op", "txn"):
            if self.rows[name].null_count() < len(self.rows):
                within |= self._same(name, one, other) & (self._columns[name][one] != NONE)
        return within

    def _as_spans(self, first: Ints, last: Ints, between: Ints, inside: Ints, back: Bools) -> pl.DataFrame:
        begins = self.rows[first].select(*READER, *(pl.col(name).alias(f"first_{name}") for name in _FIRST))
        counts = [pl.Series("between", between, pl.Int64), pl.Series("inside", inside, pl.Int64)]
        back_ = pl.Series("back", back, pl.Boolean)  # whether any of its records was taken back
        return begins.hstack(self.rows[last].select(_LAST)).with_columns(*counts, back_)


def _before(new: Bools, back: Bools, within: Bools) -> tuple[Ints, Ints]:
    """Of runs in their order the one that each goes on from, and which those are that go on from any.

    `new` says which begin a reader, `back` which were taken back, `within` which belong together with the one before.
    A run goes on from the one it belongs together with, else from the last one of its reader that was not taken back.
    """
    follows = np.flatnonzero(~new)
    left = follows - 1
    if back.any():
        rows = np.arange(len(new))
        first = np.maximum.accumulate(np.where(new, rows, 0))
        kept = np.maximum.accumulate(np.where(back, -1, rows))
        left = np.where(within[follows - 1], left, kept[left])
        there = left >= first[follows]
        left, follows = left[there], follows[there]
    return left, follows


def steps_of(records: pl.DataFrame, run: RunContext | None = None) -> pl.DataFrame:
    """What goes to the stretches of a chunk's records: odd steps, and what the last records of spans leave."""
    reading = Reading(records, run)
    return pl.concat([reading.odd_steps(), reading.ends()])


def spans_of(records: pl.DataFrame, run: RunContext | None = None) -> pl.DataFrame:
    """What goes to the partitions of a chunk's records."""
    return Reading(records, run).spans()


def tangled_in(spans: pl.DataFrame) -> pl.DataFrame:
    """Readers, each with a place, whose spans overlap, or which have several with records that were taken back."""
    ordered = spans.select(*READER, "first_event", "event", "back").sort(*READER, "first_event")
    overlaps = _is_same_reader() & (pl.col("first_event") <= pl.col("event").shift(1))
    taken_back = (pl.len().over(READER) > 1) & pl.col("back").any().over(READER)
    return ordered.filter(overlaps | taken_back).select(READER).unique()


def joints(spans: pl.DataFrame, also: Sequence[str] = ()) -> pl.DataFrame:
    """The steps from one span to the next within an era; `also` names more columns of the spans that they leave."""
    ordered = spans.sort(*READER, "first_event")
    same = {name: pl.col(name).shift(1) == pl.col(f"first_{name}") for name in ("op", "txn")}
    asked = ordered.select(
        new=~_is_same_reader().fill_null(value=False),
        within=same["op"].fill_null(value=False) | same["txn"].fill_null(value=False),
    )
    within = asked["within"].to_numpy()
    left, follows = _before(asked["new"].to_numpy(), ordered["back"].to_numpy(), within[1:])
    columns_left = [name for name in (*_LEFT, *also) if name not in READER]
    rows = ordered[follows].select(
        *READER, "first_era", *(pl.col(f"first_{name}").alias(alias) for name, alias in _REACHED.items())
    )
    steps = rows.hstack(ordered[left].select(columns_left))
    steps = steps.with_columns(within=pl.Series(within[follows] & (left == follows - 1), dtype=pl.Boolean))
    return steps.filter(pl.col("era") == pl.col("first_era")).select(
        *READER, *columns_left, *_REACHED.values(), "within"
    )


def _is_same_reader() -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in READER)


class KnownOffsets:
    """Offsets of sends that ended ok, and of whatever any reader was handed.

    `every` has them as topic, partition, era, stretch and offset: other stretches may be in another piece.
    """

    def __init__(self, sends: pl.DataFrame, records: pl.DataFrame, run: RunContext) -> None:
        acked, read = placed(sends, ACKNOWLEDGED), placed(records)
        rows = [np.concatenate([ints(acked, name), ints(read, name)]) for name in (*LOG, "offset")]
        rows.insert(len(LOG), rows[-1] // run.stretch)
        self._stretch = run.stretch
        is_acked = np.arange(len(rows[0])) < len(acked)
        is_committed = np.append(np.ones(len(acked), np.bool_), ~is_in(ints(read, "process"), run.sees_aborted))
        key = key_of(*rows)
        order = np.argsort(key)
        starts = np.flatnonzero(_changes(key[order]))
        self.every = [column[order[starts]] for column in rows]
        self._acked = _any(is_acked[order], starts)
        self._committed = _any(is_committed[order], starts)

    @property
    def committed(self) -> list[Ints]:
        """Those that readers of committed records have to be handed, too."""
        return [column[self._committed] for column in self.every]

    def with_next(self, rows: pl.DataFrame) -> pl.DataFrame:
        """For each row the next one above its offset; null if its stretch has none."""
        asked = columns(rows, (*LOG, "offset"))
        asked.insert(len(LOG), asked[-1] // self._stretch)
        return rows.with_columns(
            pl.Series(name, nullable(first_above(table, asked)), pl.Int64)
            for name, table in zip(NEXT, (self.every, self.committed), strict=True)
        )

    def firsts(self) -> dict[str, pl.DataFrame]:
        """The first of each stretch, of all and of committed ones."""
        return {name: _firsts(table) for name, table in zip(NEXT, (self.every, self.committed), strict=True)}

    def unsent(self) -> pl.DataFrame:
        """Per place how many there are that no ok send has."""
        topic, partition = (column[~self._acked] for column in self.every[:2])
        rows = pl.DataFrame({"topic": topic, "partition": partition}, schema_overrides=_TYPES)
        return rows.group_by("topic", "partition").agg(unsent=pl.len().cast(pl.Int64))


def _changes(values: Ints) -> Bools:
    return np.append(True, values[1:] != values[:-1]) if len(values) else np.zeros(0, np.bool_)


def _any(where: Bools, starts: Ints) -> Bools:
    found: Bools = np.logical_or.reduceat(where, starts) if len(starts) else where
    return found


def _firsts(table: list[Ints]) -> pl.DataFrame:
    new = np.logical_or.reduce([_changes(column) for column in table[:-1]])
    *log, _, offset = (column[new] for column in table)
    return pl.DataFrame(dict(zip((*LOG, "offset"), [*log, offset], strict=True)), schema_overrides=_TYPES)
