"""The final read of a Jepsen history, told from its final polls.

Jepsen ends by having fresh clients take all keys from the beginning (an :assign with :seek-to-beginning? true) and poll
again and again. Such an assign that did not fail begins a *reading*, which its process goes on with until it assigns,
subscribes or crashes. Of a key it *counts* if it was invoked at or after the last acknowledgement of a send to that
key, and it *got to the end* of the key if

    it reached the highest offset that was acknowledged to a send of that key (or none was), or
    the last SILENT_POLLS or more of its polls that ended `ok` said that they returned nothing: nothing is left.

Of several that count, the one that reached the highest offset is the final read of the key (of these the last): FINAL,
from the assign to the last of its polls, `ok` if it got to the end, else `info`, with the offset after the one that it
reached. Its end is null, for Jepsen asks nobody for it. Records stay those of their polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from harness.history.exchange.batch import blank
from harness.history.exchange.columns import Numbers
from harness.history.exchange.jepsen_lines import OPERATION, RECORD
from harness.history.exchange.jepsen_operations import NULL
from harness.history.schema import F, Kind, Type
from harness.history.sources import Rows

SILENT_POLLS = 5
_ENDING = [int(f) for f in (F.ASSIGN, F.SUBSCRIBE, F.CRASH)]
_LINE, _PROCESS, _OP, _INVOKED, _TIME, _F, _TYPE, _KEY, _OFFSET, _COUNT = (
    OPERATION.index(name)
    for name in ("line", "process", "op", "invoked", "time", "f", "type", "partition", "offset", "count")
)
_READER, _READ_OP, _READ_KEY, _READ_OFFSET = (RECORD.index(name) for name in ("process", "op", "partition", "offset"))


@dataclass
class _Reading:
    """What a process read from the beginning."""

    process: int
    op: int  # of its assign: what comes later is its own
    invoked: int
    time: int
    line: int
    reached: dict[int, int] = field(default_factory=dict)  # the highest offset, by key; -1 none
    silent: int = 0  # polls that ended ok and returned nothing, since one that did


class FinalReads:
    """Takes operations and what they polled, in the order of the file."""

    def __init__(self) -> None:
        self._acknowledged: dict[int, tuple[int, int]] = {}  # the highest offset and the last time, by key
        self._readings: list[_Reading] = []
        self._open: dict[int, _Reading] = {}

    def take(self, operations: Numbers, records: Numbers) -> None:
        """What a passage says."""
        self._note_sends(operations)
        ending = np.isin(operations[_F], _ENDING)
        if not self._open and not (ending & (operations[_OFFSET] == 0)).any():
            return
        moves = np.flatnonzero(ending | (operations[_F] == F.POLL))
        highest = _highest(records)
        for place in moves.tolist():
            self._move(operations[:, place].tolist(), highest)

    def rows(self, number: Callable[[int], int]) -> Iterator[tuple[Kind, Rows]]:
        """Invocations and completions of final reads; `number` gives the next operation of a process."""
        for key, reading in sorted(self._chosen().items()):
            reached = reading.reached[key]
            highest = self._acknowledged.get(key, (-1, 0))[0]
            ended = reached >= highest or reading.silent >= SILENT_POLLS
            op = number(reading.process)
            for kind in (Kind.INVOKE, Kind.COMPLETE):
                row = blank(kind, 1)
                row["process"], row["op"], row["f"], row["partition"] = reading.process, op, F.FINAL, key
                row["time"] = reading.invoked
                if kind is Kind.COMPLETE:
                    row["time"], row["invoked"], row["offset"] = reading.time, reading.invoked, reached + 1
                    row["type"] = Type.OK if ended else Type.INFO
                yield kind, row

    def _chosen(self) -> dict[int, _Reading]:
        chosen: dict[int, _Reading] = {}
        for reading in self._readings:
            for key, reached in reading.reached.items():
                counts = reading.invoked >= self._acknowledged.get(key, (-1, 0))[1]
                if counts and (key not in chosen or reached >= chosen[key].reached[key]):
                    chosen[key] = reading
        return chosen

    def _note_sends(self, operations: Numbers) -> None:
        sends = operations[:, (operations[_F] == F.SEND) & (operations[_TYPE] == Type.OK)]
        if not sends.size:
            return
        keys, places = np.unique(sends[_KEY], return_inverse=True)
        highest, last = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
        np.maximum.at(highest, places, sends[_OFFSET])
        np.maximum.at(last, places, sends[_TIME])
        for key, offset, time in zip(keys.tolist(), highest.tolist(), last.tolist(), strict=True):
            before = self._acknowledged.get(key, (-1, 0))
            self._acknowledged[key] = (max(before[0], offset), max(before[1], time))

    def _move(self, row: list[int], highest: dict[int, list[tuple[int, int]]]) -> None:
        """An assign, a subscribe, a crash or a poll."""
        process, op, f, key = itemgetter(_PROCESS, _OP, _F, _KEY)(row)
        reading = self._open.get(process)
        if f == F.POLL:
            if reading is not None:
                _polled(reading, row, highest.get(op, []))
            return
        if row[_TYPE] == Type.FAIL:
            return
        if f == F.ASSIGN and row[_OFFSET] == 0 and key != NULL:
            if reading is None or reading.line != row[_LINE]:
                reading = _Reading(process, op, row[_INVOKED], row[_TIME], row[_LINE])
                self._open[process] = reading
                self._readings.append(reading)
            reading.reached[key] = -1
        else:
            self._open.pop(process, None)


def _polled(reading: _Reading, row: list[int], found: list[tuple[int, int]]) -> None:
    if row[_TYPE] != Type.OK:
        return
    reading.time = row[_TIME]
    if found:
        reading.silent = 0
    elif row[_COUNT] == 0:  # what does not say what it returned says nothing
        reading.silent += 1
    for key, offset in found:
        if key in reading.reached:
            reading.reached[key] = max(reading.reached[key], offset)


def _highest(records: Numbers) -> dict[int, list[tuple[int, int]]]:
    """Of each poll the highest offset of each key."""
    if not records.size:
        return {}
    order = np.lexsort((records[_READ_OFFSET], records[_READ_KEY], records[_READ_OP]))
    op, key = records[_READ_OP, order], records[_READ_KEY, order]
    last = np.append((op[1:] != op[:-1]) | (key[1:] != key[:-1]), True)
    found: dict[int, list[tuple[int, int]]] = {}
    offsets = records[_READ_OFFSET, order[last]].tolist()
    for poll, of_key, offset in zip(op[last].tolist(), key[last].tolist(), offsets, strict=True):
        found.setdefault(poll, []).append((of_key, offset))
    return found
