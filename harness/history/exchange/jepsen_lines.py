"""What some lines of a Jepsen history say, without those before them.

An operation that is invoked and completed in one passage becomes rows at once. A completion of what was invoked before
it is handed on as it is (`ends`), as is what stays open: `harness.history.exchange.jepsen` knows the passages before.
Numbers of operations count from 0 for each process here. So passages can be read by several processes at a time.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.history.exchange.edn import EdnError, parse, parse_quickly, written
from harness.history.exchange.file_format import PROCESSES_AT_MOST, Wrong
from harness.history.exchange.jepsen_operations import (
    KEYS,
    NO_OFFSET,
    NULL,
    VALUES,
    Micro,
    check_value,
    checked_key,
    checked_offset,
    invoked_micro,
    items_of,
    malformed,
    offset_of_send,
    short,
    shown,
)
from harness.history.exchange.lines import TORN, Chunk
from harness.history.schema import FIRST_WORKER, ID_BITS, NEMESIS_PROCESS, F, Type

NEMESIS = ":nemesis"
MICRO = frozenset({":send", ":poll", ":txn"})
OTHERS = frozenset({":assign", ":subscribe", ":crash"})
TYPES = {":ok": Type.OK, ":fail": Type.FAIL, ":info": Type.INFO}
_TXN, _POLL, _SEND = int(F.TXN), int(F.POLL), int(F.SEND)  # to look them up costs, millions of times
LAYOUTS_AT_MOST = 10_000
OPERATION = (
    *("line", "process", "op", "invoked", "time", "f", "type"),
    *("partition", "offset", "value", "count", "txn", "detail"),
)
RECORD = ("process", "op", "invoked", "time", "partition", "offset", "value", "txn")
_NEEDED = (":type", ":process", ":f", ":time")
_TAKEN = (*_NEEDED, ":index", ":value", ":error", ":seek-to-beginning?")

Keys = tuple[Any, ...]


class OpenOperation(NamedTuple):
    """An operation that was invoked."""

    line: int
    time: int
    f: Any
    micro: list[Micro]
    keys: list[int]
    from_start: bool


class ParsedLine(NamedTuple):
    """What a line says."""

    line: int
    time: int
    process: Any
    f: Any
    type: Any
    value: Any
    error: Any
    from_start: Any


class MapLayout:
    """Where in a map of an operation its values are."""

    def __init__(self, keys: Keys) -> None:
        self.used = 0
        places = {key: 2 * place + 1 for place, key in enumerate(keys)}
        self.type, self.process, self.f, self.time = (places.get(key, -1) for key in _NEEDED)
        self.index, self.value, self.error, self.seek = (places.get(key, -1) for key in _TAKEN[len(_NEEDED) :])
        self.wrong = next((f"{key} is missing" for key in _NEEDED if key not in places), None)
        if len(places) != len(keys):
            self.wrong = f"{next(written(key) for key in keys if keys.count(key) > 1)} is there twice"


def left_out(keys: Keys) -> list[str]:
    """The keys of an operation that nothing is made of."""
    return [written(key) for key in keys if key not in _TAKEN]


@dataclass
class ParsedChunk:
    """What came of some lines; all is from before the line that is wrong."""

    operations: npt.NDArray[np.int64]  # the columns of OPERATION
    records: npt.NDArray[np.int64]  # those of RECORD
    taken: dict[int, int]  # operations of each process of ours
    told: list[tuple[int, int, str, str | None]]
    texts: list[str]
    ends: list[ParsedLine] = field(default_factory=list)  # of what was invoked before
    begins: dict[int, int] = field(default_factory=dict)  # the line at which a process begins by invoking
    opened: dict[int, OpenOperation] = field(default_factory=dict)
    layouts: dict[Keys, int] = field(default_factory=dict)
    first_time: tuple[int, int] | None = None  # line and time
    first_index: tuple[int, int] | None = None
    time: int = 0
    index: int = -1
    wrapped: str = ""
    closed: bool = False
    wrong: Wrong | None = None


def read(chunk: Chunk, wrapped: str = "") -> ParsedChunk:
    """Read some lines; `wrapped` is the bracket that ends the file, if it began with one."""
    return ChunkParser(wrapped=wrapped).read(chunk)


class ChunkParser:
    """Turns lines into rows; `opened` is what is known to be open before them."""

    def __init__(self, opened: dict[int, OpenOperation] | None = None, wrapped: str = "") -> None:
        self._alone = opened is None
        self._open: dict[int, OpenOperation] = {} if opened is None else opened
        self._seen: set[int] = set()
        self._begins: dict[int, int] = {}
        self._ends: list[ParsedLine] = []
        self._layouts: dict[Keys, MapLayout] = {}
        self._next_op: dict[int, int] = {}
        self._first_time: tuple[int, int] | None = None
        self._first_index: tuple[int, int] | None = None
        self._time = 0
        self._index = -1
        self._operations: list[int] = []
        self._records: list[int] = []
        self._told: list[tuple[int, int, str, str | None]] = []
        self._texts: dict[str, int] = {}
        self._wrapped = wrapped  # the bracket that has to come when all operations stand in one vector
        self._closed = False

    def read(self, chunk: Chunk) -> ParsedChunk:
        """Some lines, up to the first that is wrong."""
        number, wrong = chunk.number, chunk.wrong
        try:
            for number, (line, value) in enumerate(
                zip(chunk.lines, parse_quickly(chunk.lines), strict=True), chunk.number
            ):
                self.say(number, line, value)
        except EdnError as error:
            last = chunk.torn and number == chunk.number + len(chunk.lines) - 1
            wrong = Wrong(number, f"this is no EDN ({error})" if not last else f"{TORN} ({error})")
        except RecursionError:
            wrong = Wrong(number, "it is nested too deeply")
        except Wrong as found:
            wrong = found
        return self.result(wrong)

    def result(self, wrong: Wrong | None = None) -> ParsedChunk:
        """What came of it."""
        return ParsedChunk(
            operations=_table(self._operations, len(OPERATION)),
            records=_table(self._records, len(RECORD)),
            taken={process: op - (process << ID_BITS) for process, op in self._next_op.items()},
            told=self._told,
            texts=list(self._texts),
            ends=self._ends,
            begins=self._begins,
            opened=self._open,
            layouts={keys: layout.used for keys, layout in self._layouts.items()},
            first_time=self._first_time,
            first_index=self._first_index,
            time=self._time,
            index=self._index,
            wrapped=self._wrapped,
            closed=self._closed,
            wrong=wrong,
        )

    @property
    def counts(self) -> tuple[int, int]:
        """How many operations and records were written down."""
        return len(self._operations) // len(OPERATION), len(self._records) // len(RECORD)

    def say(self, number: int, line: str, value: Any) -> None:
        """Take what a line says; `value` is what it is, or None if that is not known."""
        if value is None or self._closed:
            value = self._slowly(number, line.strip())
            if value is None:
                return
        if type(value) is not dict or "m" not in value:
            raise Wrong(number, "this is no map", "write one operation on each line")
        flat = value["m"]
        keys = tuple(flat[::2])
        try:
            layout = self._layouts.get(keys) or self._new_layout(number, keys)
        except TypeError:
            raise Wrong(number, "a key of the operation is no keyword") from None
        layout.used += 1
        time = flat[layout.time]
        if type(time) is not int or not self._time <= time < 1 << 63:
            self._check_time(number, time)
        self._time = time
        self._first_time = self._first_time or (number, time)
        if layout.index >= 0:
            index = flat[layout.index]
            if type(index) is not int or index <= self._index:
                raise Wrong(number, f":index is {shown(index)} after {self._index}", "keep the operations in order")
            self._index = index
            self._first_index = self._first_index or (number, index)
        self._said(
            ParsedLine(
                number,
                time,
                flat[layout.process],
                flat[layout.f],
                flat[layout.type],
                flat[layout.value] if layout.value >= 0 else None,
                flat[layout.error] if layout.error >= 0 else None,
                flat[layout.seek] if layout.seek >= 0 else None,
            )
        )

    def _slowly(self, number: int, line: str) -> Any:
        """The value of an unusual line; None if it is only a bracket around all operations."""
        if self._closed:
            raise Wrong(number, "something comes after the end of the vector")
        if not line:
            raise Wrong(number, "the line is empty", "leave it out")
        if number == 1 and line[0] in "[(":
            self._wrapped, line = {"[": "]", "(": ")"}[line[0]], line[1:].lstrip()
        try:
            value = parse(line) if line else None
        except EdnError:
            if not self._wrapped or line[-1] != self._wrapped:
                raise
            self._closed = True
            value = parse(line[:-1]) if line[:-1].strip() else None
        else:
            if value is None and line:
                raise Wrong(number, "this is no map", "write one operation on each line")
        return value

    def _new_layout(self, number: int, keys: Keys) -> MapLayout:
        layout = MapLayout(keys)
        if layout.wrong:
            raise Wrong(number, layout.wrong, "write the operation as Jepsen does")
        self._layouts[keys] = layout
        return layout

    def _check_time(self, number: int, time: Any) -> None:
        if type(time) is not int or not 0 <= time < 1 << 63:
            raise Wrong(number, f":time is {shown(time)}", "write nanoseconds, as a whole number")
        raise Wrong(number, f":time goes back from {self._time} to {time}", "keep the operations in their order")

    def _said(self, said: ParsedLine) -> None:
        if type(said.f) is not str:
            raise Wrong(said.line, f":f is {shown(said.f)}", "write a keyword")
        if type(said.type) is not str or (said.type != ":invoke" and said.type not in TYPES):
            raise Wrong(said.line, f":type is {shown(said.type)}", "it is :invoke, :ok, :fail or :info")
        if said.from_start is not None and type(said.from_start) is not bool:
            raise Wrong(said.line, f":seek-to-beginning? is {shown(said.from_start)}", "it is true or false")
        if said.process == NEMESIS:
            value = said.value if said.error is None else [said.value, said.error]
            self._tell(NEMESIS_PROCESS, said.time, f"nemesis {said.f}", value)
        elif type(said.process) is not int or not 0 <= said.process < PROCESSES_AT_MOST - FIRST_WORKER:
            raise Wrong(said.line, f":process is {shown(said.process)}", "it is a number from 0, or :nemesis")
        elif said.type == ":invoke":
            self._invoke(said)
        else:
            self.complete(said)

    def _invoke(self, said: ParsedLine) -> None:
        line, process, f = said.line, said.process, said.f
        if process in self._open:
            raise still_open(line, process, self._open[process])
        if process not in self._seen:
            self._seen.add(process)
            self._begins[process] = line
        micro: list[Micro] = []
        keys: list[int] = []
        if f in MICRO:
            for each in items_of(line, said.value):
                if type(each) is list and len(each) == 3 and each[0] == ":send":
                    _, key, value = each
                    if type(key) is int and type(value) is int and 0 <= key < KEYS and 0 <= value < VALUES:
                        micro.append((key, value))
                        continue
                micro.append(invoked_micro(line, each))
            if f != ":txn" and any((each is None) != (f == ":poll") for each in micro):
                raise Wrong(line, f"{f} holds something else", "an operation of both is a :txn")
        elif f in {":assign", ":subscribe"}:
            given = [] if said.value is None else items_of(line, said.value)  # Jepsen has nil where there is no key
            keys = [checked_key(line, key) for key in given]
        elif f != ":crash":
            self._tell(process + FIRST_WORKER, said.time, f"{f} :invoke", said.value)
        self._open[process] = OpenOperation(line, said.time, f, micro, keys, said.from_start is True)

    def complete(self, said: ParsedLine) -> None:
        """The end of an operation."""
        line, process, f = said.line, said.process, said.f
        opened = self._open.pop(process, None)
        if opened is None:
            if self._alone and process not in self._seen:
                self._seen.add(process)
                self._ends.append(said)
                return
            raise Wrong(line, f"process {process} completes {f}, and invoked nothing", "write the invocation first")
        if opened.f != f:
            raise Wrong(line, f"process {process} completes {f}, and invoked {opened.f}", "write the same :f in both")
        type_ = TYPES[said.type]
        micro: list[Any] | None = []
        if f in MICRO:
            micro = None if said.value is None and type_ is not Type.OK else items_of(line, said.value)
            if micro is not None and len(micro) != len(opened.micro):
                told = f"the completion has {len(micro)} micro-operations, the invocation {len(opened.micro)}"
                raise Wrong(line, told, "write the same ones in both")
        elif f not in OTHERS:
            self._tell(process + FIRST_WORKER, said.time, f"{f} {said.type}", said.value, said.error)
            return
        detail = None if said.error is None else short(written(said.error))
        self._end(said, opened, type_, micro, detail)

    def abandon(self, process: int, time: int, detail: str) -> bool:
        """End as `info` what a process left open; whether it was an operation of ours."""
        opened = self._open.pop(process)
        if opened.f not in MICRO and opened.f not in OTHERS:
            return False
        said = ParsedLine(opened.line, time, process, opened.f, ":info", None, None, None)
        self._end(said, opened, Type.INFO, None, detail)
        return True

    def _end(
        self, said: ParsedLine, opened: OpenOperation, type_: Type, micro: list[Any] | None, told: str | None
    ) -> None:
        """Write down an operation of Jepsen's as operations of ours; `micro` is None if nothing is known of them."""
        number, time, ours = said.line, said.time, said.process + FIRST_WORKER
        op = self._next_op.get(ours, ours << ID_BITS)
        line, began, rows = opened.line, opened.time, self._operations
        detail = NULL if told is None else self._texts.setdefault(told, len(self._texts))
        if opened.f not in MICRO:
            offset = 0 if opened.from_start else NULL
            f = F[opened.f[1:].upper()]
            keys = opened.keys if f is not F.CRASH and opened.keys else [NULL]
            for key in keys:
                rows += (line, ours, op, began, time, f, type_, key, offset, NULL, NULL, NULL, detail)
                op += 1
            self._next_op[ours] = op
            return
        txn = NULL
        asked_for = opened.micro
        if opened.f == ":txn" or len(asked_for) != 1:
            txn = op
            rows += (line, ours, op, began, time, _TXN, type_, NULL, NULL, NULL, len(asked_for), NULL, detail)
            op += 1
            detail = NULL
        for each, asked in zip(asked_for if micro is None else micro, asked_for, strict=True):
            if asked is None:
                count, ended = NULL if type_ is Type.OK else 0, type_
                if micro is not None:
                    count, ended = self._polled(number, each, type_, (ours, op, began, time), txn)
                rows += (line, ours, op, began, time, _POLL, ended, NULL, NULL, NULL, count, txn, detail)
            else:
                key, value = asked
                offset = NULL if micro is None else offset_of_send(number, each, key, value)
                sent = key << ID_BITS | value
                rows += (line, ours, op, began, time, _SEND, type_, key, offset, sent, NULL, txn, detail)
            op += 1
        self._next_op[ours] = op

    def _polled(
        self, number: int, micro: Any, type_: Type, operation: tuple[int, int, int, int], txn: int
    ) -> tuple[int, Type]:
        """What a poll returned: how much, and how it ended."""
        micro = items_of(number, micro)
        if not micro or micro[0] != ":poll" or len(micro) > 2:
            raise malformed(number, micro)
        if len(micro) == 1 or micro[1] is None:
            return NULL if type_ is Type.OK else 0, type_
        found = micro[1]
        if type(found) is not dict or "m" not in found:
            raise malformed(number, micro)
        return self._recorded(number, found["m"], operation, txn), type_ if txn == NULL else Type.OK

    def _recorded(self, number: int, flat: list[Any], operation: tuple[int, int, int, int], txn: int) -> int:
        """Write down the records of a poll; how many there are."""
        ours, op, began, time = operation
        count, records = 0, self._records
        keys = flat[::2]
        for key, pairs in zip(keys, flat[1::2], strict=True):
            first = checked_key(number, key) << ID_BITS
            items = items_of(number, pairs)
            for pair in items:
                if type(pair) is not list or len(pair) != 2:
                    raise Wrong(number, f"{shown(pair)} is no pair of offset and value", "write [offset value]")
                offset, value = pair
                if type(value) is not int or not 0 <= value < VALUES:
                    check_value(number, value)
                if type(offset) is not int or not 0 <= offset < NO_OFFSET:
                    checked_offset(number, offset, known=True)
                records += (ours, op, began, time, key, offset, first | value, txn)
            count += len(items)
        if len(keys) > 1 and len(set(keys)) != len(keys):
            raise Wrong(number, f"a key is there twice in {shown({'m': flat})}", "write each key once")
        return count

    def _tell(self, process: int, time: int, name: str, value: Any, error: Any = None) -> None:
        value = value if error is None else [value, error]
        self._told.append((process, time, name, None if value is None else short(written(value))))


def _table(flat: list[int], width: int) -> npt.NDArray[np.int64]:
    """Columns of numbers; by way of an array, because numpy looks at each number twice."""
    return np.array(array("q", flat), np.int64).reshape(-1, width).T


def still_open(line: int, process: int, opened: OpenOperation) -> Wrong:
    """What to say of a process that invokes twice."""
    return Wrong(line, f"process {process} invokes, and what it invoked on line {opened.line} is still open")
