"""JSON Lines, many at a time: lines that differ in numbers alone are read once, and packed column by column.

What is made of a chunk here is what `harness.history.exchange.jsonl` makes of it. That is asked for lines that are like
no others, and for the whole chunk as soon as anything in it is wrong: it knows what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.history.exchange import jsonl
from harness.history.exchange.batch import KindRows, Names, RowBatch, batch_of, blank, numbers_of
from harness.history.exchange.columns import Numbers, before_each
from harness.history.exchange.file_format import WORDS, Wrong, is_text, limits, unfit_keys
from harness.history.exchange.line_templates import (
    FIRST_FILLING,
    PLACE,
    SECOND_FILLING,
    Grammar,
    TemplateCache,
    filled,
    too_many,
    without_numbers,
)
from harness.history.exchange.lines import Chunk, raw_of
from harness.history.schema import COLUMNS, Kind
from harness.history.sources import Rows

_JSON = Grammar(before=b" :,[-", after=b",]}")  # what a gap follows is mostly in a text


@dataclass(frozen=True)
class _Layout:
    """What lines say that differ in numbers alone."""

    kind: Kind
    keys: tuple[str, ...]
    values: tuple[Any, ...]  # of a line; they count for columns that hold no numbers
    places: dict[str, int]  # which number of the line is in a column
    signs: dict[str, int]
    numbers: int  # on a line


@dataclass(frozen=True)
class _Column:
    """Where the values of a column are, for each layout."""

    name: str
    limits: tuple[int, int]
    places: Numbers  # of the number on the line; negative where it is none
    signs: Numbers | None  # None where no number is negative
    constants: Numbers | None  # of layouts in which it is no number; None where it always is


class _OutOfRange(Exception):
    """A number does not fit its column."""


class LinesReader:
    """Reads chunks of one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._forget()

    def _forget(self) -> None:
        self._learner = TemplateCache(_layout)
        self._layouts = self._learner.meanings
        self._arranged = 0  # layouts whose texts have numbers, and which are in the columns
        self._kinds = np.zeros(1, np.int64)  # of layouts
        self._counts = np.zeros(1, np.int64)  # of numbers on their lines
        self._columns: dict[Kind, list[_Column]] = {}

    def read(self, chunk: Chunk) -> RowBatch:
        """What lines after the header say."""
        try:
            return self._quickly(chunk) or jsonl.read(chunk, self._names)
        except (Wrong, _OutOfRange):
            return jsonl.read(chunk, self._names)

    def _quickly(self, chunk: Chunk) -> RowBatch | None:
        found = None if chunk.wrong or not chunk.lines else without_numbers(raw_of(chunk.lines), _JSON)
        if found is None:
            return None
        skeletons, numbers = found[0].split(b"\n"), found[1]
        if self._learner.full():
            self._forget()
        which = self._learner.which(skeletons)
        others = np.flatnonzero(which < 0).tolist()
        if too_many(len(others), len(which)):
            return None
        groups: jsonl.Groups = {}
        for place in others:
            jsonl.add_to(groups, chunk.number + place, chunk.lines[place])
        self._number_names(chunk.number, which, groups)
        self._arrange_columns()
        counts = self._counts[which]
        counts[others] = [skeletons[place].count(PLACE) for place in others]
        parts = self._parts(chunk.number, which, numbers, before_each(counts))
        for (kind, keys), rows in groups.items():
            made, wrongs = jsonl.part_of(kind, keys, rows, self._names)
            parts += made
            if wrongs:
                return None
        return batch_of(parts, [])

    def _number_names(self, first: int, which: Numbers, groups: jsonl.Groups) -> None:
        """Number texts and topics in the order in which they would be if each line was looked at."""
        if self._arranged == len(self._layouts) and not groups:
            return  # they have their numbers
        seen = [(line, kind, keys, values) for (kind, keys), rows in groups.items() for line, *values in rows]
        for number, place in zip(*(each.tolist() for each in np.unique(which, return_index=True)), strict=True):
            if number >= 0:
                layout = self._layouts[number]
                seen.append((first + place, layout.kind, layout.keys, list(layout.values)))
        ordered: dict[tuple[Kind, tuple[str, ...]], list[list[Any]]] = {}
        for _, kind, keys, values in sorted(seen, key=lambda each: each[0]):
            ordered.setdefault((kind, keys), []).append(values)
        for (_, keys), rows in ordered.items():
            for place, name in enumerate(keys):
                if name == "topic" or (name in COLUMNS and is_text(name)):
                    for values in rows:
                        if type(values[place]) is str:
                            self._number_of(name, values[place])

    def _arrange_columns(self) -> None:
        """Take in layouts that are new."""
        if self._arranged < len(self._layouts):
            self._arranged = len(self._layouts)
            self._kinds = np.array([layout.kind for layout in self._layouts], np.int64)
            self._counts = np.array([layout.numbers for layout in self._layouts], np.int64)
            self._columns = {kind: self._columns_of(kind) for kind in Kind}

    def _number_of(self, name: str, value: Any) -> int:
        if name in WORDS:
            return WORDS[name][value]
        return self._names.topic(value) if name == "topic" else self._names.text(value)

    def _columns_of(self, kind: Kind) -> list[_Column]:
        mine = np.flatnonzero(self._kinds == kind)
        layouts = [self._layouts[number] for number in mine.tolist()]

        def spread(values: Sequence[int]) -> Numbers:
            whole = np.zeros(len(self._layouts), np.int64)
            whole[mine] = values
            return whole

        columns = []
        for name in dict.fromkeys(name for layout in layouts for name in layout.keys if name != "kind"):
            places = [layout.places.get(name, -1) for layout in layouts]
            signs = [layout.signs.get(name, 1) for layout in layouts]
            constants = None if min(places) >= 0 else spread([self._constant(layout, name) for layout in layouts])
            signed = spread(signs) if min(signs) < 0 else None
            columns.append(_Column(name, limits(kind, name), spread(places), signed, constants))
        return columns

    def _constant(self, layout: _Layout, name: str) -> int:
        """The number for a word or a text; that for null where there is none, or another number each time."""
        if name in layout.places or name not in layout.keys:
            return COLUMNS[name].null
        return self._number_of(name, layout.values[layout.keys.index(name)])

    def _parts(self, number: int, which: Numbers, numbers: Numbers, firsts: Numbers) -> list[KindRows]:
        """The rows of lines that have a layout; `firsts` says for each line which is its first number."""
        kinds = np.where(which < 0, 0, self._kinds[which])
        parts = []
        for kind in Kind:
            mine = np.flatnonzero(kinds == kind)
            if len(mine):
                rows = blank(kind, len(mine))
                for column in self._columns[kind]:
                    _fill(rows, column, which[mine], numbers, firsts[mine])
                parts.append(KindRows(kind, number + mine, rows))
        return parts


def _fill(rows: Rows, column: _Column, which: Numbers, numbers: Numbers, firsts: Numbers) -> None:
    places = column.places[which]
    if column.constants is not None:
        rows[column.name] = column.constants[which]
        mine = np.flatnonzero(places >= 0)
        if not len(mine):
            return
        places, firsts, which = places[mine], firsts[mine], which[mine]
    found = numbers[firsts + places]
    if column.signs is not None:
        found *= column.signs[which]
    low, high = column.limits
    if found.min() < low or found.max() > high:
        raise _OutOfRange
    if column.constants is None:
        rows[column.name] = found
    else:
        rows[column.name][mine] = found


def _layout(skeleton: bytes) -> _Layout | None:
    """What lines with this skeleton say; None if that cannot be said of all of them, or is wrong."""
    found: list[jsonl.Groups] = [{}, {}]
    try:
        for groups, first in zip(found, (FIRST_FILLING, SECOND_FILLING), strict=True):
            jsonl.add_to(groups, 1, filled(skeleton, first))
    except Wrong:
        return None
    ((kind, keys), [(_, *values)]), ((_, others), [(_, *changed)]) = (next(iter(each.items())) for each in found)
    if keys != others or unfit_keys(kind, keys):
        return None
    places: dict[str, int] = {}
    signs: dict[str, int] = {}
    for name, value, other in zip(keys, values, changed, strict=True):
        if name == "kind":
            continue
        if name == "topic" or is_text(name) or name in WORDS:
            if value != other or not _is_right(name, value):
                return None
        elif type(value) is int and abs(value) >= FIRST_FILLING and type(other) is int:
            places[name] = abs(value) - FIRST_FILLING
            signs[name] = 1 if value > 0 else -1
            if other != signs[name] * (SECOND_FILLING + places[name]):
                return None
        else:
            return None
    return _Layout(kind, keys, tuple(values), places, signs, skeleton.count(PLACE))


def _is_right(name: str, value: Any) -> bool:
    """Whether a word is one, or a text can be held."""
    return not isinstance(numbers_of(Kind.PHASE, name, [value], [1], Names()), Wrong)
