"""Which keys each process of a Jepsen history reads, told from its assigns, subscribes and polls.

As Jepsen's checker has it, an assign or a subscribe that names a key leaves its position where it was, and one that
leaves a key out forgets the position, also where it ended as `info`; one that failed changes nothing. So of the keys
that an assign names only those become an ASSIGN which the process did not have, or which begin again at offset 0
(:seek-to-beginning?); each key that it leaves out, or that a subscribe does, becomes a REVOKE. An assign which changes
nothing is an ASSIGN of no partition.
"""

from __future__ import annotations

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
_READER, _READ_KEY = RECORD.index("process"), RECORD.index("partition")


class Assignments:
    """Takes operations in the order of the file."""

    def __init__(self, new_op: Callable[[int], int]) -> None:
        self._new_op = new_op  # the number of one more operation of a process
        self._assigned: dict[int, set[int]] = {}
        self._polled: dict[int, set[int]] = {}

    def applied(self, operations: Numbers, records: Numbers) -> Numbers:
        """The operations, their assigns and subscribes as what they change; `records` are those that they polled."""
        self._note_polls(records)
        moves = np.flatnonzero((operations[_F] == F.ASSIGN) | (operations[_F] == F.SUBSCRIBE))
        if not len(moves):
            return operations
        parts, end = [], 0
        for mine in np.split(moves, np.flatnonzero(np.diff(operations[_LINE, moves])) + 1):
            parts += [operations[:, end : mine[0]], self._changed(operations[:, mine])]
            end = int(mine[-1]) + 1
        return np.concatenate([*parts, operations[:, end:]], axis=1)

    def _note_polls(self, records: Numbers) -> None:
        """A key that is polled is left out by an assign of others even if nothing assigned it."""
        if not records.size:
            return
        process, key = records[_READER], records[_READ_KEY]
        new = np.append(True, (process[1:] != process[:-1]) | (key[1:] != key[:-1]))
        for reader, polled in np.unique(np.stack([process[new], key[new]]), axis=1).T.tolist():
            self._polled.setdefault(reader, set()).add(polled)

    def _changed(self, rows: Numbers) -> Numbers:
        """The rows of one assign or subscribe, one for each key that it names, as what it changes."""
        process, f, type_ = (int(rows[place, 0]) for place in (_PROCESS, _F, _TYPE))
        named = [key for key in rows[_KEY].tolist() if key != NULL]
        if type_ == Type.FAIL:
            return _without_place(rows)
        before = self._assigned.get(process, set())
        lost = sorted((before | self._polled.get(process, set())) - set(named))
        self._assigned[process] = set(named)
        self._polled[process] = set()
        kept = [place for place, key in enumerate(rows[_KEY].tolist()) if key != NULL and key not in before]
        if f == F.SUBSCRIBE or (rows[_OFFSET] == NULL).all():
            changed = rows[:, kept] if f == F.ASSIGN and kept else _without_place(rows)
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


def _without_place(rows: Numbers) -> Numbers:
    """One row for the operation as a whole."""
    row = rows[:, :1].copy()
    row[_KEY] = row[_OFFSET] = NULL
    return row
