"""How the events of a file hang together: every completion has its invocation, every id is there once.

Open invocations are kept in memory, all else is looked up at the end (`harness.history.exchange.external_sort`).
What is open when the file ends is completed as `info`, as sealing does with a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.history.exchange.batch import EventNumbers, KindRows, Names, RowBatch, blank
from harness.history.exchange.columns import absent, joined, taken
from harness.history.exchange.external_sort import IdIndex, Lines, SortedRuns
from harness.history.exchange.file_format import SEND_NEEDS, Wrong
from harness.history.schema import COLUMNS, ID_BITS, KINDS, F, Kind, Status, Type, row_type
from harness.history.sealing import OPEN
from harness.history.sources import Rows

NULL = COLUMNS["op"].null
READS = (F.POLL, F.FINAL, F.RAW, F.REPLICA)
REFERENCES = {"txn": (F.TXN,), "member": (F.SUBSCRIBE,)}
_ONE = "give each its own"


class EventValidator:
    """Takes batches in the order of the file."""

    def __init__(self, directory: Path, names: Names) -> None:
        self.runs = SortedRuns(directory)
        self.completed_at_the_end = 0
        self._names = names
        self._open: Rows = np.empty(0, row_type(Kind.INVOKE))
        self._open_lines: Lines = np.empty(0, np.int64)
        self._events = EventNumbers()
        self._given: bool | None = None
        self._ledgers = {
            name: IdIndex(directory, name) for name in ("operation", "value", "event", *REFERENCES, "read")
        }

    def take(self, batch: RowBatch) -> None:
        """Take what is right; what is wrong, here or in the batch, is raised."""
        parts = batch.parts
        if parts:
            wrongs = [*self._number(list(parts.values())), *self._wrongs(parts)]
            if batch.wrong:
                wrongs.append(batch.wrong)
            if wrongs:
                wrongs += self._repeated()  # may be in lines before these
                raise min(wrongs, key=lambda wrong: wrong.line)
            for part in parts.values():
                self.runs.add(part.kind, part.rows)
            self._names.check(max(int(part.lines[-1]) for part in parts.values() if len(part.lines)))
        elif batch.wrong:
            raise min([batch.wrong, *self._repeated()], key=lambda wrong: wrong.line)

    def finish(self) -> None:
        """Look at what can only be known at the end."""
        wrongs = [*self._repeated(), *self._dangling()]
        if wrongs:
            raise min(wrongs, key=lambda wrong: wrong.line)
        if not len(self._open):
            return
        rows = blank(Kind.COMPLETE, len(self._open))
        for name in KINDS[Kind.INVOKE]:
            rows[name] = self._open[name]
        rows["time"] = self.runs.last_ns
        rows["invoked"] = self._open["time"]
        rows["type"] = Type.INFO
        rows["detail"] = self._names.text(OPEN)
        rows["event"] = self._events.new(rows["process"])
        self.completed_at_the_end = len(rows)
        self.runs.add(Kind.COMPLETE, rows)

    def _number(self, parts: list[KindRows]) -> Iterator[Wrong]:
        """Give events their numbers where the file does not; a file does so everywhere or nowhere."""
        given = [part.rows["event"] != NULL for part in parts]
        first = min(
            ((int(part.lines[0]), bool(has[0])) for part, has in zip(parts, given, strict=True) if len(part.lines)),
            default=None,
        )
        if first is None:
            return
        self._given = first[1] if self._given is None else self._given
        for part, has in zip(parts, given, strict=True):
            odd = np.flatnonzero(has != self._given)
            if len(odd):
                said = "has no 'event', and events before it have" if self._given else "has 'event', and none before it"
                yield Wrong(int(part.lines[odd[0]]), said, "write it in all events or in none")
        if self._given:
            for part in parts:
                wrong = np.flatnonzero(part.rows["event"] >> ID_BITS != part.rows["process"])
                if len(wrong):
                    yield Wrong(
                        int(part.lines[wrong[0]]),
                        f"'event' does not have its process in the bits above the lower {ID_BITS}",
                        "leave 'event' out everywhere: it is given out then",
                    )
                known = part.rows["event"] != NULL
                events, processes, lines = part.rows["event"], part.rows["process"], part.lines
                if not known.all():
                    events, processes, lines = events[known], processes[known], lines[known]
                self._ledgers["event"].add(events, lines)
                self._events.note(processes, events)
            return
        lines = np.concatenate([part.lines for part in parts])
        processes = np.concatenate([part.rows["process"] for part in parts])
        order = np.argsort(lines, kind="stable")
        events = np.empty(len(lines), np.int64)
        events[order] = self._events.new(processes[order])
        at = 0
        for part in parts:
            part.rows["event"] = events[at : at + len(part.lines)]
            at += len(part.lines)

    def _wrongs(self, parts: dict[Kind, KindRows]) -> Iterator[Wrong]:
        """What does not fit together; invocations are opened, and closed by completions."""
        invoked, completed, records = (parts.get(kind) for kind in (Kind.INVOKE, Kind.COMPLETE, Kind.RECORD))
        for part in (invoked, completed):
            if part:
                yield from _incomplete_sends(part)
        if records:
            yield from _unsure_records(records)
            self._ledgers["read"].add_once(records.rows["op"], records.lines)
        for part in (invoked, completed, records):
            for name in REFERENCES if part else ():
                if part and name in (part.rows.dtype.names or ()):
                    refers = part.rows[name] != NULL
                    self._ledgers[name].add_once(part.rows[name][refers], part.lines[refers])
        if invoked:
            self._ledgers["operation"].add(invoked.rows["op"], invoked.lines, invoked.rows["f"].astype(np.int32))
            sends = invoked.rows["f"] == F.SEND
            self._ledgers["value"].add(invoked.rows["value"][sends], invoked.lines[sends])
            yield from self._opened(invoked)
        if completed:
            yield from self._closed(completed)

    def _opened(self, invoked: KindRows) -> Iterator[Wrong]:
        rows = joined([self._open, invoked.rows])
        lines = np.concatenate([self._open_lines, invoked.lines])
        order = np.lexsort((lines, rows["op"]))
        self._open, self._open_lines = taken(rows, order), lines[order]
        again = np.flatnonzero(self._open["op"][1:] == self._open["op"][:-1])
        if len(again):
            place = int(again[np.argmin(self._open_lines[again + 1])])
            op, first = int(self._open["op"][place]), int(self._open_lines[place])
            yield Wrong(
                int(self._open_lines[place + 1]), f"operation {op} is invoked twice (first on line {first})", _ONE
            )

    def _closed(self, completed: KindRows) -> Iterator[Wrong]:
        rows, lines = completed.rows, completed.lines
        if not len(self._open):
            if len(rows):
                yield self._without_invocation(int(rows["op"][0]), int(lines[0]))
            return
        places = np.minimum(np.searchsorted(self._open["op"], rows["op"]), len(self._open) - 1)
        opened, opened_lines = taken(self._open, places), self._open_lines[places]
        known = (opened["op"] == rows["op"]) & (opened_lines < lines)
        if not known.all():
            first = int(np.argmin(known))
            yield self._without_invocation(int(rows["op"][first]), int(lines[first]))
        order = np.lexsort((lines, rows["op"]))
        again = order[1:][rows["op"][order][1:] == rows["op"][order][:-1]]
        if len(again):
            first = int(again[np.argmin(lines[again])])
            yield Wrong(int(lines[first]), f"operation {rows['op'][first]} is completed a second time", _ONE)
        yield from _contradictions(rows, lines, opened, known)
        missing = rows["invoked"] == NULL
        rows["invoked"][missing] = opened["time"][missing]
        stays = np.ones(len(self._open), np.bool_)
        stays[places[known]] = False
        self._open, self._open_lines = taken(self._open, stays), self._open_lines[stays]

    def _without_invocation(self, op: int, line: int) -> Wrong:
        before = [earlier for earlier in self._ledgers["operation"].lines_of(op) if earlier < line]
        if before:
            return Wrong(line, f"operation {op} is completed a second time", "write one completion for each invocation")
        return Wrong(
            line, f"operation {op} is completed, and no line before this one invokes it", "write the invocation first"
        )

    def _repeated(self) -> Iterator[Wrong]:
        for name in ("operation", "value", "event"):
            if found := self._ledgers[name].first_repeated():
                line, earlier, number = found
                said = {"operation": "is invoked twice", "value": "is sent twice", "event": "is there twice"}[name]
                yield Wrong(line, f"{name} {number} {said} (first on line {earlier})", _ONE)

    def _dangling(self) -> Iterator[Wrong]:
        """Of each kind of reference the first that names nothing, or the wrong thing."""
        wanted = {"read": READS, **REFERENCES}
        found: dict[str, tuple[int, int]] = {}
        buckets = zip(
            self._ledgers["operation"].buckets(), *(self._ledgers[name].buckets() for name in wanted), strict=True
        )
        for operations, *references in buckets:
            for name, refers in zip(wanted, references, strict=True):
                right = operations["id"][np.isin(operations["tag"], [int(f) for f in wanted[name]])]
                missing = absent(refers["id"], right)
                if len(missing):
                    wrong = refers[np.isin(refers["id"], missing)]
                    first = wrong[np.argmin(wrong["line"])]
                    found[name] = min(found.get(name, (1 << 62, 0)), (int(first["line"]), int(first["id"])))
        for name, (line, number) in found.items():
            what = "op" if name == "read" else name
            which = " or ".join(f.name.lower() for f in wanted[name])
            yield Wrong(line, f"'{what}' is {number}, which is no {which}", f"name the operation of the {which}")


def _incomplete_sends(part: KindRows) -> Iterator[Wrong]:
    sends = part.rows["f"] == F.SEND
    for name in SEND_NEEDS:
        lacking = np.flatnonzero(sends & (part.rows[name] == COLUMNS[name].null))
        if len(lacking):
            yield Wrong(int(part.lines[lacking[0]]), f"a send has no '{name}'", "write it")


def _unsure_records(part: KindRows) -> Iterator[Wrong]:
    """A record that does not say how it is is good if it says what it is."""
    rows = part.rows
    silent = rows["status"] == COLUMNS["status"].null
    lacking = np.flatnonzero((silent | (rows["status"] == Status.GOOD)) & (rows["value"] == NULL))
    if len(lacking):
        yield Wrong(
            int(part.lines[lacking[0]]),
            "a record has no 'value'",
            "write it, or a 'status' that says why there is none",
        )
    rows["status"][silent] = Status.GOOD


def _contradictions(rows: Rows, lines: Lines, opened: Rows, known: npt.NDArray[np.bool_]) -> Iterator[Wrong]:
    """Completions that say something else than their invocations."""
    invoked = np.where(rows["invoked"] == NULL, opened["time"], rows["invoked"])
    sends = rows["f"] == F.SEND
    unknown = COLUMNS["partition"].null
    told = (opened["partition"] != unknown) & (rows["partition"] != unknown)
    moved = sends & told & (rows["partition"] != opened["partition"])
    checks = (
        (rows["process"] != opened["process"], "is completed by another process than invoked it", "process"),
        (rows["f"] != opened["f"], "is completed as something else than it was invoked as", "f"),
        (rows["time"] < opened["time"], "is completed before the time of its invocation", "time"),
        (invoked != opened["time"], "was not invoked at the time that its completion says", "invoked"),
        (sends & (rows["value"] != opened["value"]), "is completed with another value than was sent", "value"),
        (sends & (rows["topic"] != opened["topic"]), "is completed for another topic than it was sent to", "topic"),
        (moved, "is completed for another partition than it was sent to", "partition"),
    )
    for wrong, said, column in checks:
        found = np.flatnonzero(wrong & known)
        if len(found):
            line, op = int(lines[found[0]]), int(rows["op"][found[0]])
            yield Wrong(line, f"operation {op} {said}", f"write the same '{column}' in both, or fix the order")
