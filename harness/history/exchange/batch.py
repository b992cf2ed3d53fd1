"""Some lines of a file as packed rows: what every format is turned into before anybody asks how the rows hang together.

Columns are checked as a whole, not value by value. What is wrong does not end the reading at once: the lines before it
are taken first, so that the error that is told is the first one of the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.exchange.columns import grouped, joined, runs_of, taken
from harness.history.exchange.external_sort import Lines
from harness.history.exchange.file_format import WORDS, Wrong, is_text, limits
from harness.history.schema import COLUMNS, ID_BITS, Kind, row_type
from harness.history.sources import Rows

TEXTS_AT_MOST = 1_000_000
SHOWN_CHARACTERS = 40


@dataclass
class Names:
    """One number for each text and each name of a topic."""

    texts: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def topic(self, name: str) -> int:
        """The number of a topic."""
        return self.topics.setdefault(name, len(self.topics))

    def check(self, line: int) -> None:
        """Refuse more texts than can be held; `line` is where the reading stands."""
        if len(self.texts) > TEXTS_AT_MOST:
            raise Wrong(
                line,
                f"by here there are more than {TEXTS_AT_MOST:,} different texts",
                "leave out of details what is different each time",
            )


class EventNumbers:
    """Gives out the numbers of events, each process its own."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def new(self, processes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The next ones, for rows in their order."""
        found, places = grouped(processes)
        counts = np.bincount(places, minlength=len(found))
        starts = [self._next.get(process, process << ID_BITS) for process in found.tolist()]
        for process, start, count in zip(found.tolist(), starts, counts.tolist(), strict=True):
            self._next[process] = start + count
        numbers = np.empty(len(places), np.int64)
        numbers[np.argsort(places, kind="stable")] = runs_of(np.array(starts, np.int64), counts)
        return numbers

    def note(self, processes: npt.NDArray[Any], events: npt.NDArray[Any]) -> None:
        """Take note of those that a file gave out."""
        found, places = grouped(processes)
        highest = np.full(len(found), -1, np.int64)
        np.maximum.at(highest, places, events)
        for process, event in zip(found.tolist(), highest.tolist(), strict=True):
            self._next[process] = max(self._next.get(process, 0), event + 1)


@dataclass(frozen=True)
class KindRows:
    """Rows of one kind with the lines that they are from."""

    kind: Kind
    lines: Lines
    rows: Rows


@dataclass(frozen=True)
class RowBatch:
    """Rows by kind, in the order of lines; all are from before the line that is wrong."""

    parts: dict[Kind, KindRows]
    wrong: Wrong | None = None


def batch_of(parts: Sequence[KindRows], wrongs: Sequence[Wrong]) -> RowBatch:
    """Put together what was made of some lines."""
    first = min(wrongs, key=lambda wrong: wrong.line, default=None)
    by_kind: dict[Kind, KindRows] = {}
    for kind in Kind:
        mine = [part for part in parts if part.kind is kind]
        if not mine:
            continue
        lines = np.concatenate([part.lines for part in mine])
        rows = joined([part.rows for part in mine])
        if len(mine) > 1 or first is not None:
            order = np.argsort(lines, kind="stable")
            if first is not None:
                order = order[lines[order] < first.line]
            lines, rows = lines[order], taken(rows, order)
        by_kind[kind] = KindRows(kind, lines, rows)
    return RowBatch(by_kind, first)


def blank(kind: Kind, count: int) -> Rows:
    """Rows of nulls."""
    return np.repeat(_blank_row(kind), count)


@cache
def _blank_row(kind: Kind) -> Rows:
    row = np.empty(1, row_type(kind))
    for name in row.dtype.names or ():
        row[name] = COLUMNS[name].null
    return row


def numbers_of(
    kind: Kind, name: str, values: Sequence[Any], lines: Sequence[int], names: Names
) -> npt.NDArray[Any] | Wrong:
    """A column of plain values as the numbers of the history, or what is wrong with the first bad one."""
    if name == "topic" or is_text(name):
        return _named(name, values, lines, names)
    if name in WORDS:
        return _worded(name, values, lines)
    if set(map(type, values)) != {int}:
        place = next(place for place, value in enumerate(values) if type(value) is not int)
        return _of_wrong_type(lines[place], name, values[place], "a whole number")
    low, high = limits(kind, name)
    if min(values) < low or max(values) > high:
        place = next(place for place, value in enumerate(values) if not low <= value <= high)
        return out_of_range(lines[place], name, values[place], low, high)
    return np.array(values, np.int64)


def _worded(name: str, values: Sequence[Any], lines: Sequence[int]) -> npt.NDArray[Any] | Wrong:
    found = [WORDS[name].get(value) if type(value) is str else None for value in values]
    if None in found:
        place = found.index(None)
        return Wrong(lines[place], f"'{name}' is {shown(values[place])}", f"it is one of: {', '.join(WORDS[name])}")
    return np.array(found, np.int64)


def _of_wrong_type(line: int, name: str, value: object, wanted: str) -> Wrong:
    return Wrong(line, f"'{name}' is {shown(value)}", "leave the key out" if value is None else f"write {wanted}")


def out_of_range(line: int, name: str, value: int, low: int, high: int) -> Wrong:
    """What to say of a number that does not fit its column."""
    return Wrong(line, f"'{name}' is {shown(value)}, out of range", f"write a number from {low} to {high}")


def _named(name: str, values: Sequence[Any], lines: Sequence[int], names: Names) -> npt.NDArray[Any] | Wrong:
    if set(map(type, values)) != {str}:
        place = next(place for place, value in enumerate(values) if type(value) is not str)
        return _of_wrong_type(lines[place], name, values[place], "a text")
    distinct = dict.fromkeys(values)
    for text in distinct:
        if name == "topic" and not text:
            return Wrong(lines[values.index(text)], "'topic' is empty", "write the name of the topic")
        try:
            text.encode()
        except UnicodeEncodeError:
            return Wrong(lines[values.index(text)], f"'{name}' holds half a character", "write whole characters")
    number = names.topic if name == "topic" else names.text
    numbers = {text: number(text) for text in distinct}
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))


def shown(value: object) -> str:
    """A value in an error."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "nested very deeply"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
