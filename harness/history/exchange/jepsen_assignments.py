"""Which keys each process of a Jepsen history reads, told from its assigns, subscribes and polls.

As Jepsen's checker has it, an assign or a subscribe that names a key leaves its position where it was, and one that
leaves a key out forgets the position, also where it ended as `info`; one that failed changes nothing. So of the keys
that an assign names only those become an ASSIGN which the process did not have, or which begin again at offset 0
(:seek-to-beginning?); each key that it leaves out, or that a subscribe does, becomes a REVOKE. An assign which changes
nothing is an ASSIGN of no partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from harness.history.exchange.columns import Numbers
from harness.history.exchange.jepsen_lines import OPERATION, RECORD
from harness.history.exchange.jepsen_operations import NULL
from harness.history.schema import F, Type

_LINE, _PROCESS, _OP, _F, _TYPE, _KEY, _OFFSET = (
    OPERATION.index(name) for name in ("line", "process", "op", "f", "type", "partition", "offset")
)
_READER, _READ_OP, _READ_KEY = (RECORD.index(name) for name in ("process", "op", "partition"))


class Assignments:
    """Takes operations in the order of the file."""

    def __init__(self, new_op: Callable[[int], int]) -> None:
        self._new_op = new_op  # the number of one more operation of a process
        self._read: dict[int, set[int]] = {}

    def applied(self, operations: Numbers, records: Numbers) -> Numbers:
        """The operations, their assigns and subscribes as what they change; `records` are those that they polled."""
        moves = np.flatnonzero((operations[_F] == F.ASSIGN) | (operations[_F] == F.SUBSCRIBE))
        asked = np.split(moves, np.flatnonzero(np.diff(operations[_LINE, moves])) + 1) if len(moves) else []
        polls = _polled(operations, records, np.array([mine[0] for mine in asked], np.int64))
        parts, end = [], 0
        for number, mine in enumerate(asked):
            self._note(polls, number)
            parts += [operations[:, end : mine[0]], self._changed(operations[:, mine])]
            end = int(mine[-1]) + 1
        self._note(polls, len(asked))
        return np.concatenate([*parts, operations[:, end:]], axis=1) if parts else operations

    def _note(self, polls: deque[tuple[int, int, int]], number: int) -> None:
        """A key that was polled counts as assigned: `number` is that of the assign which comes then."""
        while polls and polls[0][0] <= number:
            _, process, key = polls.popleft()
            self._read.setdefault(process, set()).add(key)

    def _changed(self, rows: Numbers) -> Numbers:
        """The rows of one assign or subscribe, one for each key that it names, as what it changes."""
        process, f, type_ = (int(rows[place, 0]) for place in (_PROCESS, _F, _TYPE))
        named = [key for key in rows[_KEY].tolist() if key != NULL]
        if type_ == Type.FAIL:
            return _without_place(rows)
        before = self._read.get(process, set())
        self._read[process] = set(named)
        lost = sorted(before - set(named))
        new = [place for place, key in enumerate(rows[_KEY].tolist()) if key != NULL and key not in before]
        if f == F.SUBSCRIBE or (rows[_OFFSET] == NULL).all():
            changed = rows[:, new] if f == F.ASSIGN and new else _without_place(rows)
        else:
            changed = rows  # from the beginning
        return np.concatenate([changed, *self._revoked(rows, process, lost)], axis=1)

    def _revoked(self, rows: Numbers, process: int, keys: list[int]) -> Iterator[Numbers]:
        for key in keys:
            row = rows[:, :1].copy()
            changes: dict[int, Any] = {_OP: self._new_op(process), _F: int(F.REVOKE), _KEY: key, _OFFSET: NULL}
            for place, value in changes.items():
                row[place] = value
            yield row


def _polled(operations: Numbers, records: Numbers, assigns: Numbers) -> deque[tuple[int, int, int]]:
    """Which keys were polled before which of the assigns (the first of them), each once, with the process."""
    if not records.size:
        return deque()
    order = np.argsort(operations[_OP], kind="stable")
    place = order[np.searchsorted(operations[_OP], records[_READ_OP], sorter=order)]
    found = _different(np.stack([np.searchsorted(assigns, place), records[_READER], records[_READ_KEY]]))
    found = _different(found[:, np.lexsort(found[::-1])])
    return deque(map(tuple, found.T.tolist()))


def _different(columns: Numbers) -> Numbers:
    """Without those that are as the one before."""
    return columns[:, np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))]


def _without_place(rows: Numbers) -> Numbers:
    """One row for the operation as a whole."""
    row = rows[:, :1].copy()
    row[_KEY] = row[_OFFSET] = NULL
    return row
