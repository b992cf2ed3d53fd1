"""Histories of Jepsen's Kafka workload (jepsen.tests.kafka): an EDN map for each invocation and each completion.

A key of Jepsen's is a partition of its own: partition `key` of the topic `jepsen`. Jepsen's values are unique for each
key, ours in the run: a value is key << 40 | value. A process is its number plus 2, all in the role of a consumer,
which is what they do besides sending.

    :send :poll :txn       a send or a poll for each micro-operation; a transaction around them if it is :txn or has
                           several. They end as the operation does; a poll in a transaction that says what it returned
                           is ok. Sends of a process to a key are numbered (`sequence`) in their order.
    :assign :subscribe     what they change (`harness.history.exchange.jepsen_assignments`)
    :crash                 one operation
    the last polls         the final read of each key (`harness.history.exchange.jepsen_finals`)
    others, the nemesis    phases, named by what they are, so that nothing is lost without a word

What is open at the end is `info`. Keys of operations that nothing is made of are counted (`left_out`). Here what
passages of the file say (`harness.history.exchange.jepsen_lines`) is put together in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.exchange.batch import EventNumbers, Names, blank
from harness.history.exchange.columns import runs_of
from harness.history.exchange.external_sort import IdIndex, SortedRuns
from harness.history.exchange.file_format import Wrong
from harness.history.exchange.jepsen_assignments import Assignments
from harness.history.exchange.jepsen_finals import FinalReads
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
from harness.history.schema import COLUMNS, ID_BITS, F, Kind, Status
from harness.history.sealing import OPEN

TOPIC = "jepsen"

Numbers = npt.NDArray[np.int64]
_LINE, _PROCESS, _OP, _VALUE, _TXN = (OPERATION.index(name) for name in ("line", "process", "op", "value", "txn"))
_DETAIL = OPERATION.index("detail")
_READER, _READ_OP, _READ_TXN = (RECORD.index(name) for name in ("process", "op", "txn"))


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
        self._assignments = Assignments(self._new_op)
        self._finals = FinalReads()
        self._sequences: dict[tuple[int, int], int] = {}  # the next one of a process and key
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
        for kind, rows in self._finals.rows(self._new_op):
            rows["topic"] = self._topic
            rows["event"] = self._events.new(rows["process"])
            self.runs.add(kind, rows)

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
            self._finals.take(operations, records)
            operations = self._assignments.applied(operations, records)
            self._note_values(operations)
            events = self._new_events(operations, records)
            self._write_operations(dict(zip(OPERATION, operations, strict=True)), events)
            self._write_records(records, events[Kind.RECORD])
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
            (passage.records, _READER, _READ_OP, _READ_TXN),
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

    def _new_op(self, process: int) -> int:
        """The number of one more operation of a process."""
        place = self._next_op.get(process, 0)
        self._next_op[process] = place + 1
        return (process << ID_BITS) + place

    def _new_events(self, operations: Numbers, records: Numbers) -> dict[Kind, Numbers]:
        """Numbers of events by kind: an operation is invoked, its records come, it ends, and then comes the next one.

        What Jepsen invokes together, on one line, comes before all of its ends.
        """
        rows = np.arange(operations.shape[1])
        first = np.append(True, operations[_LINE, 1:] != operations[_LINE, :-1])
        begun = np.maximum.accumulate(np.where(first, rows, 0))
        order = np.argsort(operations[_OP], kind="stable")
        polls = order[np.searchsorted(operations[_OP], records[_READ_OP], sorter=order)]
        places = np.concatenate([3 * begun, 3 * polls + 1, 3 * rows + 2])
        processes = np.concatenate([operations[_PROCESS], records[_READER], operations[_PROCESS]])
        order = np.argsort(places, kind="stable")
        events = np.empty(len(places), np.int64)
        events[order] = self._events.new(processes[order])
        ends = (len(rows), len(rows) + records.shape[1])
        return dict(zip((Kind.INVOKE, Kind.RECORD, Kind.COMPLETE), np.split(events, ends), strict=True))

    def _sequence(self, process: Numbers, key: Numbers) -> Numbers:
        """The place of each send among those of its process and key: micro-operations are in their order."""
        order = np.lexsort((key, process))
        changes = (np.diff(process[order], prepend=-1) != 0) | (np.diff(key[order], prepend=-1) != 0)
        new = np.flatnonzero(changes)
        counts = np.diff(new, append=len(order))
        pairs = list(zip(process[order[new]].tolist(), key[order[new]].tolist(), strict=True))
        starts = np.array([self._sequences.get(pair, 0) for pair in pairs], np.int64)
        self._sequences.update(zip(pairs, (starts + counts).tolist(), strict=True))
        sequence = np.empty(len(order), np.int64)
        sequence[order] = runs_of(starts, counts)
        return sequence

    def _write_records(self, records: Numbers, events: Numbers) -> None:
        rows = blank(Kind.RECORD, records.shape[1])
        for name, values in zip(RECORD, records, strict=True):
            rows[name] = values
        rows["topic"], rows["status"], rows["event"] = self._topic, Status.GOOD, events
        self.runs.add(Kind.RECORD, rows)

    def _write_operations(self, columns: dict[str, Any], events: Mapping[Kind, Numbers]) -> None:
        sends = columns["f"] == F.SEND
        sequence = self._sequence(columns["process"][sends], columns["partition"][sends])
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
            rows["sequence"][sends] = sequence
            rows["event"] = events[kind]
            self.runs.add(kind, rows)
