"""The lines of a Jepsen history as numpy sees them: what each says of itself, and its value in tokens.

Numbers go out of the text (`harness.history.exchange.line_templates`), then each part of a value becomes one byte, a
token that stands for so many of the numbers. What is left of a line, its value apart, is its shape: that says where its
time and its process are. Lines that Jepsen writes have few shapes; one that has none is read on its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.exchange.columns import Numbers, before_each
from harness.history.exchange.edn import EdnError, parse, parse_quickly, written
from harness.history.exchange.file_format import PROCESSES_AT_MOST
from harness.history.exchange.jepsen_lines import NEMESIS, TYPES, Keys, MapLayout
from harness.history.exchange.jepsen_operations import short
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
from harness.history.schema import FIRST_WORKER

_EDN = Grammar(before=b" ,[({", after=b" ,])}")
# Tokens are bytes that no text has: a send that is asked for and one that is told, a poll that is asked for and the
# beginning of one that is told, a key of what that returned, and a pair of an offset and a value.
SEND, SENT, POLL, POLLED, KEY, PAIR = range(0xF8, 0xFE)
_S, _T, _P, _Q, _K, _O = (bytes([token]) for token in (SEND, SENT, POLL, POLLED, KEY, PAIR))
_VALUE = b"\xfe"
_END = ord("\n")
_TOKENS = (
    (b"[:send %b %b]" % (PLACE, PLACE), _S),
    (b"[%b %b]" % (PLACE, PLACE), _O),
    (b"[:send %b %b]" % (PLACE, _O), _T),
    (b"[:poll]", _P),
    (b" %b" % _O, _O),
    (b"[:poll {", _Q),
    (b"%b [" % PLACE, _K),
)
_NUMBERS = np.zeros(256, np.int64)  # for which a token stands
_NUMBERS[[PLACE[0], SEND, SENT, KEY, PAIR]] = 1, 2, 3, 1, 2
_RETURNED = rb"%b%b*\]" % (_K, _O)
_ONE = rb"(?:[%b%b%b]|%b(?:%b(?:, %b)*)?\}\])" % (_S, _T, _P, _Q, _RETURNED, _RETURNED)
_MANY = rb"(?:%b(?: %b)*)?" % (_ONE, _ONE)
_WHOLE = re.compile(rb":value (?:\[%b\]|\(%b\))" % (_MANY, _MANY))
_PIECE = re.compile(rb"[%b-%b]" % (_S, _O))
INVOKE = 0  # beside the numbers of types
FS = {":send": 1, ":poll": 2, ":txn": 3}
OTHER_F = 0
NO_PROCESS = NO_INDEX = -1
_ERROR = ":error "
_ERRORS_AT_MOST = 10_000
_BEYOND = 1 << 63


class ReadOneByOne(Exception):
    """Something is wrong, or not understood here: read the lines one at a time."""


@dataclass(frozen=True)
class Shape:
    """What lines say that differ in numbers and in their values alone.

    `time`, `process` and `index` say which of a line's numbers these are: those before the value count from the
    beginning of the line, those behind it from its end.
    """

    keys: Keys
    f: int
    type: int
    time: int
    process: int
    index: int
    indexed: bool
    before: int  # numbers before the value
    after: int
    error: bool


@dataclass(frozen=True)
class TokenizedLines:
    """Columns of what lines say, and the tokens of their values."""

    shapes: Numbers  # negative for a line that was read
    f: Numbers
    type: Numbers
    time: Numbers
    process: Numbers
    index: Numbers
    error: npt.NDArray[np.bool_]
    starts: Numbers  # the first token of the value
    ends: Numbers  # the token behind its last
    tokens: npt.NDArray[np.uint8]
    firsts: Numbers  # of each token its first number
    numbers: Numbers
    read: dict[int, Any]  # the values of lines that have no shape


class Tokenizer:
    """Takes lines apart; what it learns of some helps with the next."""

    def __init__(self) -> None:
        self._learner = TemplateCache(_shape)
        self._errors: dict[str, str | None] = {}

    def keys(self, shapes: Numbers) -> dict[Keys, int]:
        """How many lines have which keys, by their shapes."""
        found: dict[Keys, int] = {}
        for shape, count in zip(self._learner.meanings, np.bincount(shapes).tolist(), strict=False):
            if count:
                found[shape.keys] = found.get(shape.keys, 0) + count
        return found

    def lines(self, chunk: Chunk) -> TokenizedLines:
        """What the lines of a chunk say."""
        found = without_numbers(raw_of(chunk.lines), _EDN)
        if found is None:
            raise ReadOneByOne
        text, numbers = found
        for written_so, token in _TOKENS:
            text = text.replace(written_so, token)
        if self._learner.full():
            self._learner = TemplateCache(_shape)
        which = self._learner.which(_WHOLE.sub(b":value " + _VALUE, text).split(b"\n"))
        marks = np.frombuffer(text + b"\n", np.uint8)
        tokens = marks[(marks >= SEND) | (marks == _END)]
        ends = np.flatnonzero(tokens == _END)
        starts = np.concatenate([[0], ends[:-1] + 1])
        return self._described(chunk, which, (starts, ends), tokens, numbers)

    def _described(
        self,
        chunk: Chunk,
        which: Numbers,
        bounds: tuple[Numbers, Numbers],
        tokens: npt.NDArray[np.uint8],
        numbers: Numbers,
    ) -> TokenizedLines:
        """Columns by the shapes of lines; those that have none are read."""
        firsts = before_each(_NUMBERS[tokens])
        numbers = np.append(numbers, 0)  # for tokens behind the last number
        others = np.flatnonzero(which < 0)
        if too_many(len(others), len(which)):
            raise ReadOneByOne
        shapes = self._learner.meanings
        starts, ends = bounds

        def of_shape(name: str) -> Numbers:
            """What the shape of each line says."""
            found = np.array([getattr(shape, name) for shape in shapes] or [0], np.int64)[which]
            found[others] = 0
            return found

        def numbers_at(name: str) -> Numbers:
            """The number of each line that its shape says."""
            places = of_shape(name)
            return numbers[firsts[np.where(places < 0, ends, starts) + places]]

        lines = TokenizedLines(
            shapes=which,
            f=of_shape("f"),
            type=of_shape("type"),
            time=numbers_at("time"),
            process=numbers_at("process"),
            index=np.where(of_shape("indexed"), numbers_at("index"), NO_INDEX),
            error=of_shape("error").astype(np.bool_),
            starts=starts + of_shape("before"),
            ends=ends - of_shape("after"),
            tokens=tokens,
            firsts=firsts,
            numbers=numbers,
            read=dict(zip(others.tolist(), values_of(chunk, others.tolist()), strict=True)),
        )
        for place, value in lines.read.items():
            said = _said(value)
            lines.type[place], lines.time[place], lines.process[place], lines.index[place] = said
            lines.f[place] = OTHER_F
        if lines.process.max(initial=0) >= PROCESSES_AT_MOST - FIRST_WORKER:
            raise ReadOneByOne
        return lines

    def error(self, line: str) -> str | None:
        """The text of a line's error, which is the last thing on it."""
        told = line[line.index(_ERROR) :]
        if told not in self._errors:
            if len(self._errors) >= _ERRORS_AT_MOST:
                self._errors.clear()
            _, value = parse("{" + told)["m"]
            self._errors[told] = None if value is None else short(written(value))
        return self._errors[told]


def values_of(chunk: Chunk, places: Sequence[int]) -> list[Any]:
    """What some lines are."""
    lines = [chunk.lines[place] for place in places]
    try:
        return [
            parse(line) if value is None else value for line, value in zip(lines, parse_quickly(lines), strict=True)
        ]
    except (EdnError, RecursionError):
        raise ReadOneByOne from None


def _said(value: Any) -> tuple[int, int, int, int]:
    """The type, time, process and index that a line has."""
    if type(value) is not dict or "m" not in value:
        raise ReadOneByOne
    flat = value["m"]
    try:
        said = dict(zip(flat[::2], flat[1::2], strict=True))
    except TypeError:
        raise ReadOneByOne from None
    type_ = said.get(":type")
    if type(type_) is not str or (type_ != ":invoke" and type_ not in TYPES):
        raise ReadOneByOne
    process = NO_PROCESS if said.get(":process") == NEMESIS else _number(said.get(":process"))
    index = _number(said[":index"]) if ":index" in said else NO_INDEX
    return TYPES.get(type_, INVOKE), _number(said.get(":time")), process, index


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _BEYOND:
        raise ReadOneByOne
    return value


def _shape(skeleton: bytes) -> Shape | None:
    """What lines say that have this skeleton; None if that is not the same for all, or is nothing for here."""
    if skeleton.count(_VALUE) != 1 or _PIECE.search(skeleton):
        return None
    found = []
    for marker, first in ((":first", FIRST_FILLING), (":second", SECOND_FILLING)):
        try:
            value = parse(filled(skeleton.replace(_VALUE, marker.encode()), first))
        except (EdnError, RecursionError):
            return None
        if type(value) is not dict or "m" not in value:
            return None
        found.append(value["m"])
    one, other = found
    keys = tuple(one[::2])
    if any(type(key) is not str for key in keys) or keys != tuple(other[::2]):
        return None
    layout = MapLayout(keys)
    if layout.wrong or layout.value < 0 or (one[layout.value], other[layout.value]) != (":first", ":second"):
        return None
    return _shape_of(skeleton, layout, one, other)


def _shape_of(skeleton: bytes, layout: MapLayout, one: list[Any], other: list[Any]) -> Shape | None:
    """The same; what two lines say that have the skeleton is known by now."""
    f, type_ = one[layout.f], one[layout.type]
    if (f, type_) != (other[layout.f], other[layout.type]) or type(f) is not str or type(type_) is not str:
        return None
    if f not in FS or (type_ != ":invoke" and type_ not in TYPES):
        return None
    if layout.seek >= 0 and one[layout.seek] is not None and type(one[layout.seek]) is not bool:
        return None
    if layout.error >= 0 and (layout.error != len(one) - 1 or skeleton.count(_ERROR.encode()) != 1):
        return None
    before, after = (part.count(PLACE) for part in skeleton.split(_VALUE))
    time, process, index = (
        _place(one[at], other[at], before, after) if at >= 0 else 0
        for at in (layout.time, layout.process, layout.index)
    )
    if time is None or process is None or index is None:
        return None
    return Shape(
        keys=tuple(one[::2]),
        f=FS[f],
        type=TYPES.get(type_, INVOKE),
        time=time,
        process=process,
        index=index,
        indexed=layout.index >= 0,
        before=before,
        after=after,
        error=layout.error >= 0,
    )


def _place(one: Any, other: Any, before: int, after: int) -> int | None:
    """Which number of the line a value is; None if it is none."""
    if type(one) is not int or type(other) is not int or one - FIRST_FILLING != other - SECOND_FILLING:
        return None
    place = one - FIRST_FILLING
    if not 0 <= place < before + after:
        return None
    return place if place < before else place - before - after
