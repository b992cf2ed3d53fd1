"""The lives of topics that the workload deleted, as `checkers.deletions` and `checkers.log` tell them."""

from __future__ import annotations

from collections import defaultdict

from harness.history.schema import F, Type
from tests.oracle import Event
from tests.oracle.common import operations
from tests.support.histories import SECOND_NS, Rows

SETTLING_NS = 2 * SECOND_NS
NEVER_NS = (1 << 63) - 1
UNSURE = -1


class Eras:
    """When each topic was being deleted, and which era things belong to."""

    def __init__(self, rows: Rows) -> None:
        self._processes = rows.processes
        self._windows: dict[int, list[tuple[int, int]]] = defaultdict(list)
        created: dict[int, list[Event]] = defaultdict(list)
        for each in operations(rows, F.CREATE):
            if each["type"] == Type.OK:
                created[each["topic"]].append(each)
        for each in operations(rows, F.DELETE):
            if each["type"] != Type.FAIL:
                anew = [other["time"] for other in created[each["topic"]] if other["invoked"] >= each["invoked"]]
                end = min(anew) + SETTLING_NS if anew else NEVER_NS
                self._windows[each["topic"]].append((each["invoked"], end))

    def deleted(self, topic: int | None) -> bool:
        """Whether the workload deleted it, or may have."""
        return topic in self._windows

    def may_be_gone(self, topic: int | None, since_ns: int) -> bool:
        """Whether something of this topic that began then was before the end of its last deletion."""
        return topic in self._windows and since_ns < max(end for _, end in self._windows[topic])

    def of(self, event: Event) -> int:
        """How many deletions were over; UNSURE if one was under way, or began, in the time of the event."""
        windows = self._windows.get(event["topic"], [])
        if any(begin <= event["time"] and event["invoked"] < end for begin, end in windows):
            return UNSURE
        return sum(end <= event["invoked"] for _, end in windows)

    def of_read(self, record: Event) -> int:
        """Only readers that begin when all is over certainly read what is there."""
        if not self.deleted(record["topic"]) or self._processes[record["process"]]["role"] in {"final", "raw"}:
            return self.of(record)
        first = min(begin for begin, _ in self._windows[record["topic"]])
        return 0 if record["time"] < first else UNSURE
