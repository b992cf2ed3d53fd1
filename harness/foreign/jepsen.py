"""Histories of Jepsen's Kafka workload (jepsen.tests.kafka): an EDN map for each invocation and each completion.

A key of Jepsen's is a partition of its own: partition `key` of the topic `jepsen`. Jepsen's values are unique for each
key, ours in the run: a value is key << 40 | value. A process is its number plus 2, all in the role of a consumer,
which is what they do besides sending.

    :send :poll :txn       a send or a poll for each micro-operation; a transaction around them if it is :txn or has
                           several. They end as the operation does; a poll that says what it returned is ok.
    :assign                an assignment for each key, from offset 0 with :seek-to-beginning?
    :subscribe :crash      one operation
    others, the nemesis    phases, named by what they are, so that nothing is lost without a word

What is open at the end is `info`. Keys of operations that nothing is made of are counted (`left_out`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.foreign.batch import EventNumbers, Names, blank
from harness.foreign.edn import EdnError, parse, parse_quickly, written
from harness.foreign.form import PROCESSES_AT_MOST, Wrong
from harness.foreign.lines import TORN, Chunk
from harness.foreign.micro import (
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
from harness.foreign.spill import Ledger, Runs
from harness.history import COLUMNS, FIRST_WORKER, ID_BITS, NEMESIS_PROCESS, F, Kind, Status, Type
from harness.seal import OPEN

TOPIC = "jepsen"
NEMESIS = ":nemesis"
MICRO = frozenset({":send", ":poll", ":txn"})
OTHERS = frozenset({":assign", ":subscribe", ":crash"})
TYPES = {":ok": Type.OK, ":fail": Type.FAIL, ":info": Type.INFO}
OPERATION = (
    "line",
    "process",
    "op",
    "invoked",
    "time",
    "f",
    "type",
    "partition",
    "offset",
    "value",
    "count",
    "txn",
    "detail",
)
RECORD = ("process", "op", "invoked", "time", "partition", "offset", "value", "txn")
_NEEDED = (":type", ":process", ":f", ":time")


@dataclass(frozen=True)
class Open:
    """An operation that was invoked."""

    line: int
    time: int
    f: Any
    micro: list[Micro]
    keys: list[int]
    from_start: bool


class Said(NamedTuple):
    """What a line says."""

    line: int
    time: int
    process: Any
    f: Any
    type: Any
    value: Any
    error: Any
    from_start: bool


class Layout:
    """Where in a map of an operation its values are."""

    def __init__(self, keys: tuple[Any, ...]) -> None:
        self.used = 0
        places = {key: 2 * place + 1 for place, key in enumerate(keys)}
        self.type, self.process, self.f, self.time = (places.get(key, -1) for key in _NEEDED)
        self.index, self.value, self.error = (places.get(key, -1) for key in (":index", ":value", ":error"))
        self.seek = places.get(":seek-to-beginning?", -1)
        taken = {*_NEEDED, ":index", ":value", ":error", ":seek-to-beginning?"}
        self.left_out = [written(key) for key in keys if key not in taken]
        self.wrong = next((f"{key} is missing" for key in _NEEDED if key not in places), None)
        if len(places) != len(keys):
            self.wrong = f"{next(written(key) for key in keys if keys.count(key) > 1)} is there twice"


class JepsenReader:
    """From lines to rows."""

    def __init__(self, directory: Path, names: Names) -> None:
        self.runs = Runs(directory)
        self.completed_at_the_end = 0
        self.phases = 0
        self._names = names
        self._topic = names.topic(TOPIC)
        self._values = Ledger(directory, "value")
        self._events = EventNumbers()
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        self._open: dict[int, Open] = {}
        self._next_op: dict[int, int] = {}
        self._time = 0
        self._index = -1
        self._operations: list[int] = []
        self._records: list[int] = []
        self._told: list[tuple[int, int, str, str | None]] = []
        self._wrapped = ""  # the bracket that has to come when all operations stand in one vector
        self._closed = False

    def take(self, chunk: Chunk) -> None:
        """Some lines."""
        number = chunk.number
        try:
            for number, (line, value) in enumerate(
                zip(chunk.lines, parse_quickly(chunk.lines), strict=True), chunk.number
            ):
                self._line(number, line, value)
        except EdnError as error:
            last = chunk.torn and number == chunk.number + len(chunk.lines) - 1
            raise Wrong(number, f"this is no EDN ({error})" if not last else f"{TORN} ({error})") from None
        if chunk.wrong:
            raise chunk.wrong
        self._write()
        self._names.check(number)

    def finish(self) -> None:
        """Look at what can only be known at the end."""
        if self._wrapped and not self._closed:
            raise Wrong(1, f"the bracket that the file begins with is not closed by '{self._wrapped}'")
        if found := self._values.first_repeated():
            line, earlier, value = found
            told = f"value {value % VALUES} is sent twice to key {value // VALUES} (first on line {earlier})"
            raise Wrong(line, told, "Jepsen's values are unique for each key")
        self.completed_at_the_end = len(self._open)
        for process in sorted(self._open):
            opened = self._open.pop(process)
            micro = [[":poll"] if each is None else [":send", *each] for each in opened.micro]
            said = Said(opened.line, self._time, process, opened.f, ":info", micro, None, opened.from_start)
            self._end(said, opened, Type.INFO, micro, self._names.text(OPEN))
        self._write()

    @property
    def left_out(self) -> dict[str, int]:
        """How many operations had a key that nothing was made of."""
        counts: Counter[str] = Counter()
        for layout in self._layouts.values():
            counts.update(dict.fromkeys(layout.left_out, layout.used))
        return {name: counts[name] for name in sorted(counts)}

    def _line(self, number: int, line: str, value: Any) -> None:
        if value is None or self._closed:
            value = self._slowly(number, line.strip())
            if value is None:
                return
        if type(value) is not dict or "m" not in value:
            raise Wrong(number, "this is no map", "write one operation on each line")
        self._take(number, value["m"])

    def _slowly(self, number: int, line: str) -> Any:
        """The value of an unusual line; None if it is only a bracket around all operations."""
        if self._closed:
            raise Wrong(number, "something comes after the end of the vector")
        if not line:
            raise Wrong(number, "the line is empty", "leave it out")
        if number == 1 and line[0] in "[(":
            self._wrapped, line = {"[": "]", "(": ")"}[line[0]], line[1:].lstrip()
        try:
            return parse(line) if line else None
        except EdnError:
            if not self._wrapped or line[-1] != self._wrapped:
                raise
            self._closed = True
            return parse(line[:-1]) if line[:-1].strip() else None

    def _take(self, number: int, flat: list[Any]) -> None:
        keys = tuple(flat[::2])
        try:
            layout = self._layouts.get(keys)
        except TypeError:
            raise Wrong(number, "a key of the operation is no keyword") from None
        if layout is None:
            layout = Layout(keys)
            if layout.wrong:
                raise Wrong(number, layout.wrong, "write the operation as Jepsen does")
            self._layouts[keys] = layout
        layout.used += 1
        time = flat[layout.time]
        if type(time) is not int or not 0 <= time < 1 << 63:
            raise Wrong(number, f":time is {shown(time)}", "write nanoseconds, as a whole number")
        if time < self._time:
            raise Wrong(number, f":time goes back from {self._time} to {time}", "keep the operations in their order")
        self._time = time
        if layout.index >= 0:
            index = flat[layout.index]
            if type(index) is not int or index <= self._index:
                raise Wrong(number, f":index is {shown(index)} after {self._index}", "keep the operations in order")
            self._index = index
        self._said(
            Said(
                number,
                time,
                flat[layout.process],
                flat[layout.f],
                flat[layout.type],
                flat[layout.value] if layout.value >= 0 else None,
                flat[layout.error] if layout.error >= 0 else None,
                layout.seek >= 0 and flat[layout.seek] is True,
            )
        )

    def _said(self, said: Said) -> None:
        if type(said.f) is not str:
            raise Wrong(said.line, f":f is {shown(said.f)}", "write a keyword")
        if type(said.type) is not str or (said.type != ":invoke" and said.type not in TYPES):
            raise Wrong(said.line, f":type is {shown(said.type)}", "it is :invoke, :ok, :fail or :info")
        if said.process == NEMESIS:
            value = said.value if said.error is None else [said.value, said.error]
            self._tell(NEMESIS_PROCESS, said.time, f"nemesis {said.f}", value)
        elif type(said.process) is not int or not 0 <= said.process < PROCESSES_AT_MOST - FIRST_WORKER:
            raise Wrong(said.line, f":process is {shown(said.process)}", "it is a number from 0, or :nemesis")
        elif said.type == ":invoke":
            self._invoke(said)
        else:
            self._complete(said)

    def _invoke(self, said: Said) -> None:
        line, process, f = said.line, said.process, said.f
        if process in self._open:
            before = self._open[process].line
            raise Wrong(line, f"process {process} invokes, and what it invoked on line {before} is still open")
        micro: list[Micro] = []
        keys: list[int] = []
        if f in MICRO:
            micro = [invoked_micro(line, each) for each in items_of(line, said.value)]
            if f != ":txn" and any((each is None) != (f == ":poll") for each in micro):
                raise Wrong(line, f"{f} holds something else", "an operation of both is a :txn")
        elif f in {":assign", ":subscribe"}:
            keys = [checked_key(line, key) for key in items_of(line, said.value)]
        elif f != ":crash":
            self._tell(process + FIRST_WORKER, said.time, f"{f} :invoke", said.value)
        self._open[process] = Open(line, said.time, f, micro, keys, said.from_start)

    def _complete(self, said: Said) -> None:
        line, process, f = said.line, said.process, said.f
        opened = self._open.pop(process, None)
        if opened is None:
            raise Wrong(line, f"process {process} completes {f}, and invoked nothing", "write the invocation first")
        if opened.f != f:
            raise Wrong(line, f"process {process} completes {f}, and invoked {opened.f}", "write the same :f in both")
        if f in MICRO:
            micro = items_of(line, said.value)
            if len(micro) != len(opened.micro):
                told = f"the completion has {len(micro)} micro-operations, the invocation {len(opened.micro)}"
                raise Wrong(line, told, "write the same ones in both")
        elif f in OTHERS:
            micro = []
        else:
            self._tell(process + FIRST_WORKER, said.time, f"{f} {said.type}", said.value)
            return
        detail = NULL if said.error is None else self._names.text(short(written(said.error)))
        self._end(said, opened, TYPES[said.type], micro, detail)

    def _end(self, said: Said, opened: Open, type_: Type, micro: list[Any], detail: int) -> None:
        """Write down an operation of Jepsen's as operations of ours."""
        number, time, ours = said.line, said.time, said.process + FIRST_WORKER
        op = self._next_op.get(ours, ours << ID_BITS)
        line, began, rows = opened.line, opened.time, self._operations
        if opened.f not in MICRO:
            offset = 0 if opened.from_start else NULL
            f = F[opened.f[1:].upper()]
            keys = opened.keys if f is F.ASSIGN and opened.keys else [NULL]
            for key in keys:
                rows += (line, ours, op, began, time, f, type_, key, offset, NULL, NULL, NULL, detail)
                op += 1
            self._next_op[ours] = op
            return
        txn = NULL
        if opened.f == ":txn" or len(micro) != 1:
            txn = op
            rows += (line, ours, op, began, time, F.TXN, type_, NULL, NULL, NULL, len(micro), NULL, detail)
            op += 1
            detail = NULL
        for each, asked in zip(micro, opened.micro, strict=True):
            if asked is None:
                count, ended = self._polled(number, each, type_, (ours, op, began, time), txn)
                rows += (line, ours, op, began, time, F.POLL, ended, NULL, NULL, NULL, count, txn, detail)
            else:
                key, value = asked
                offset = offset_of_send(number, each, key, value, type_)
                rows += (
                    line,
                    ours,
                    op,
                    began,
                    time,
                    F.SEND,
                    type_,
                    key,
                    offset,
                    key << ID_BITS | value,
                    NULL,
                    txn,
                    detail,
                )
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
            if type_ is Type.OK:
                raise Wrong(
                    number, "a poll is ok and does not say what it returned", "write [:poll {key [[offset value]]}]"
                )
            return NULL, type_
        found = micro[1]
        if type(found) is not dict or "m" not in found:
            raise malformed(number, micro)
        flat = found["m"]
        ours, op, began, time = operation
        count, records = 0, self._records
        for key, pairs in zip(flat[::2], flat[1::2], strict=True):
            checked_key(number, key)
            items = items_of(number, pairs)
            for pair in items:
                if type(pair) is not list or len(pair) != 2:
                    raise Wrong(number, f"{shown(pair)} is no pair of offset and value", "write [offset value]")
                offset, value = pair
                if type(value) is not int or not 0 <= value < VALUES:
                    check_value(number, value)
                if type(offset) is not int or not 0 <= offset < NO_OFFSET:
                    offset = checked_offset(number, offset)
                records += (ours, op, began, time, key, offset, key << ID_BITS | value, txn)
            count += len(items)
        return count, Type.OK

    def _tell(self, process: int, time: int, name: str, value: Any) -> None:
        self._told.append((process, time, name, None if value is None else short(written(value))))
        self.phases += 1

    def _write(self) -> None:
        """Hand over what was gathered."""
        if self._operations:
            self._write_operations(dict(zip(OPERATION, _columns(self._operations, len(OPERATION)), strict=True)))
        if self._records:
            columns = dict(zip(RECORD, _columns(self._records, len(RECORD)), strict=True))
            rows = blank(Kind.RECORD, len(columns["op"]))
            for name, values in columns.items():
                rows[name] = values
            rows["topic"], rows["status"] = self._topic, Status.GOOD
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(Kind.RECORD, rows)
        if self._told:
            rows = blank(Kind.PHASE, len(self._told))
            for row, (process, time, name, detail) in zip(rows, self._told, strict=True):
                row["process"], row["time"], row["name"] = process, time, self._names.text(name)
                row["detail"] = COLUMNS["detail"].null if detail is None else self._names.text(detail)
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(Kind.PHASE, rows)
        self._operations, self._records, self._told = [], [], []

    def _write_operations(self, columns: dict[str, Any]) -> None:
        sends = columns["f"] == F.SEND
        self._values.add(columns["value"][sends], columns["line"][sends])
        placed = columns["partition"] != NULL
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            rows = blank(kind, len(placed))
            for name in set(rows.dtype.names or ()) & set(OPERATION):
                null = columns[name] == NULL
                rows[name] = np.where(null, COLUMNS[name].null, columns[name])
            rows["topic"][placed] = self._topic
            if kind is Kind.INVOKE:
                rows["time"] = columns["invoked"]
                rows["offset"][sends] = NULL  # what nobody knew by then
                rows["count"][columns["f"] == F.POLL] = COLUMNS["count"].null
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(kind, rows)


def _columns(flat: list[int], width: int) -> Iterator[Any]:
    return iter(np.array(flat, np.int64).reshape(-1, width).T)
