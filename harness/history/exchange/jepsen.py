"""Histories of Jepsen's Kafka workload (jepsen.tests.kafka): an EDN map for each invocation and each completion.

A key of Jepsen's is a partition of its own: partition `key` of the topic `jepsen`. Jepsen's values are unique for each
key, ours in the run: a value is key << 40 | value. A process is its number plus 2, all in the role of a consumer,
which is what they do besides sending.

    :send :poll :txn       a send or a poll for each micro-operation; a transaction around them if it is :txn or has
                           several. They end as the operation does; a poll that says what it returned is ok.
    :assign                an assignment for each key, from offset 0 with :seek-to-beginning?
    :subscribe :crash      one operation
    others, the nemesis    phases, named by what they are, so that nothing is lost without a word

What is open at the end is `info`. Keys of operations that nothing is made of are counted (`left_out`). Here what
passages of the file say (`harness.history.exchange.jepsen_lines`) is put together in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.exchange.batch import EventNumbers, Names, blank
from harness.history.exchange.external_sort import IdIndex, SortedRuns
from harness.history.exchange.file_format import Wrong
from harness.history.exchange.jepsen_lines import (
    LAYOUTS_AT_MOST,
    OPERATION,
    RECORD,
    ChunkParser,
    Keys,
    OpenOperation,
    ParsedChunk,
    left_out,
    still_open,
)
from harness.history.exchange.jepsen_operations import NULL, VALUES
from harness.history.schema import COLUMNS, F, Kind, Status
from harness.history.sealing import OPEN

TOPIC = "jepsen"

Numbers = npt.NDArray[np.int64]
_LINE, _PROCESS, _OP, _VALUE, _TXN = (OPERATION.index(name) for name in ("line", "process", "op", "value", "txn"))
_DETAIL = OPERATION.index("detail")


class JepsenReader:
    """Takes passages in the order of the file."""

    def __init__(self, directory: Path, names: Names) -> None:
        self.runs = SortedRuns(directory)
        self.completed_at_the_end = 0
        self.phases = 0
        self.wrapped = ""  # the bracket that has to come when all operations stand in one vector
        self._names = names
        self._topic = names.topic(TOPIC)
        self._values = IdIndex(directory, "value")
        self._events = EventNumbers()
        self._layouts: Counter[Keys] = Counter()
        self._open: dict[int, OpenOperation] = {}
        self._next_op: dict[int, int] = {}
        self._time = 0
        self._index = -1
        self._closed = False

    def take(self, number: int, passage: ParsedChunk) -> None:
        """What some lines say, of which `number` is the first."""
        wrongs = [*self._breaks(number, passage)]
        before = ChunkParser(self._open)
        for said in passage.ends:
            try:
                before.complete(said)
            except Wrong as wrong:
                wrongs.append(wrong)
                break
        wrongs += [
            still_open(line, process, self._open[process])
            for process, line in passage.begins.items()
            if process in self._open
        ]
        self._layouts.update(passage.layouts)
        if len(self._layouts) > LAYOUTS_AT_MOST:
            told = f"by here operations have more than {LAYOUTS_AT_MOST:,} different sets of keys"
            wrongs.append(Wrong(number, told, "write each operation with the keys that Jepsen gives it"))
        if passage.wrong:
            wrongs.append(passage.wrong)
        ended = before.result()
        if wrongs:
            raise self._first(min(wrongs, key=lambda wrong: wrong.line), ended, passage)
        self._open |= passage.opened
        self._time, self._index = max(self._time, passage.time), max(self._index, passage.index)
        self.wrapped, self._closed = passage.wrapped, passage.closed
        self._write(ended, passage)
        self._names.check(number)

    def finish(self) -> None:
        """Look at what can only be known at the end."""
        if self.wrapped and not self._closed:
            raise Wrong(1, f"the bracket that the file begins with is not closed by '{self.wrapped}'")
        rest = ChunkParser(self._open)
        self.completed_at_the_end = sum(rest.abandon(process, self._time, OPEN) for process in sorted(self._open))
        self._write(rest.result())
        if found := self._repeated():
            raise found

    @property
    def left_out(self) -> dict[str, int]:
        """How many operations had a key that nothing was made of."""
        counts: Counter[str] = Counter()
        for keys, used in self._layouts.items():
            counts.update(dict.fromkeys(left_out(keys), used))
        return {name: counts[name] for name in sorted(counts)}

    def _breaks(self, number: int, passage: ParsedChunk) -> Iterator[Wrong]:
        """What does not go on from the passage before."""
        if self._closed:
            yield Wrong(number, "something comes after the end of the vector")
        if passage.first_time and passage.first_time[1] < self._time:
            line, time = passage.first_time
            yield Wrong(line, f":time goes back from {self._time} to {time}", "keep the operations in their order")
        if passage.first_index and passage.first_index[1] <= self._index:
            line, index = passage.first_index
            yield Wrong(line, f":index is {index} after {self._index}", "keep the operations in order")

    def _first(self, wrong: Wrong, *passages: ParsedChunk) -> Wrong:
        """The first thing that is wrong by here: what was sent twice comes out only when somebody looks."""
        for passage in passages:
            self._note_values(passage.operations)
            still = ChunkParser(passage.opened)
            for process in list(passage.opened):
                still.abandon(process, self._time, OPEN)
            self._note_values(still.result().operations)
        found = self._repeated()
        return found if found and found.line < wrong.line else wrong

    def _repeated(self) -> Wrong | None:
        found = self._values.first_repeated()
        if found is None:
            return None
        line, earlier, value = found
        told = f"value {value % VALUES} is sent twice to key {value // VALUES} (first on line {earlier})"
        return Wrong(line, told, "Jepsen's values are unique for each key")

    def _note_values(self, operations: Numbers) -> None:
        sends = operations[_VALUE] != NULL
        self._values.add(operations[_VALUE][sends], operations[_LINE][sends])

    def _write(self, *passages: ParsedChunk) -> None:
        """Hand over rows."""
        for passage in passages:
            self._number(passage)
        operations = np.concatenate([passage.operations for passage in passages], axis=1)
        records = np.concatenate([passage.records for passage in passages], axis=1)
        told = [each for passage in passages for each in passage.told]
        if operations.size:
            self._note_values(operations)
            self._write_operations(dict(zip(OPERATION, operations, strict=True)))
        if records.size:
            rows = blank(Kind.RECORD, records.shape[1])
            for name, values in zip(RECORD, records, strict=True):
                rows[name] = values
            rows["topic"], rows["status"] = self._topic, Status.GOOD
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(Kind.RECORD, rows)
        if told:
            rows = blank(Kind.PHASE, len(told))
            for row, (process, time, name, detail) in zip(rows, told, strict=True):
                row["process"], row["time"], row["name"] = process, time, self._names.text(name)
                row["detail"] = COLUMNS["detail"].null if detail is None else self._names.text(detail)
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(Kind.PHASE, rows)
            self.phases += len(told)

    def _number(self, passage: ParsedChunk) -> None:
        """Go on with the numbers of operations and texts where the passage before ended."""
        processes = sorted(passage.taken)
        starts = [self._next_op.get(process, 0) for process in processes]
        for table, process, op, txn in (
            (passage.operations, _PROCESS, _OP, _TXN),
            (passage.records, RECORD.index("process"), RECORD.index("op"), RECORD.index("txn")),
        ):
            if table.size:
                added = np.array(starts, np.int64)[np.searchsorted(processes, table[process])]
                table[op] += added
                table[txn] += np.where(table[txn] == NULL, 0, added)
        for process, start in zip(processes, starts, strict=True):
            self._next_op[process] = start + passage.taken[process]
        if passage.texts:
            texts = np.array([self._names.text(text) for text in passage.texts], np.int64)
            details = passage.operations[_DETAIL]
            told = details != NULL
            details[told] = texts[details[told]]

    def _write_operations(self, columns: dict[str, Any]) -> None:
        sends = columns["f"] == F.SEND
        placed = columns["partition"] != NULL
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            rows = blank(kind, len(placed))
            for name in set(rows.dtype.names or ()) & set(OPERATION):
                null = columns[name] == NULL
                rows[name] = np.where(null, COLUMNS[name].null, columns[name]) if null.any() else columns[name]
            rows["topic"][placed] = self._topic
            if kind is Kind.INVOKE:
                rows["time"] = columns["invoked"]
                rows["offset"][sends] = NULL  # what nobody knew by then
                rows["count"][columns["f"] == F.POLL] = COLUMNS["count"].null
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(kind, rows)
