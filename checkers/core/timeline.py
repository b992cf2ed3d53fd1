"""The timeline of a run: its phases and its faults, from a handful of rows that are read before anything else."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.history.schema import FaultStage

Rows = Iterable[Mapping[str, Any]]


@dataclass
class Fault:
    """One fault of the run; times are None where the history does not say."""

    number: int
    name: str
    injected_ns: int | None = None
    undone_ns: int | None = None
    healed_ns: int | None = None  # when the cluster was whole again
    topic: str | None = None  # that it was aimed at, or proven by; None: no single one
    bit: bool = False
    failed: bool = False
    detail: str = ""
    evidence: str = ""  # that it bit


@dataclass
class Timeline:
    """When the load and the faults of a run began and ended."""

    load_ns: tuple[int, int]
    phases: list[tuple[str, int]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def window_ns(self, fault: Fault) -> tuple[int, int] | None:
        """From injection to undoing; one that was never undone lasts until the end of the load."""
        if fault.injected_ns is None:
            return None
        end = self.load_ns[1] if fault.undone_ns is None else fault.undone_ns
        return fault.injected_ns, max(end, fault.injected_ns)

    def until_whole_ns(self, fault: Fault) -> tuple[int, int] | None:
        """The same until the cluster was whole again, if anybody saw that."""
        window = self.window_ns(fault)
        return None if window is None else (window[0], max(window[1], fault.healed_ns or window[1]))

    def bounds_ns(self) -> list[int]:
        """Every instant at which something begins or ends."""
        windows = [window for fault in self.faults if (window := self.window_ns(fault))]
        return sorted({*self.load_ns, *(instant for window in windows for instant in window)})

    def before_ns(self, fault: Fault) -> tuple[int, int] | None:
        """What lies between the fault and what was before it."""
        return self._beside(fault, after=False)

    def after_ns(self, fault: Fault) -> tuple[int, int] | None:
        """What lies between the fault and what came after it."""
        return self._beside(fault, after=True)

    def _beside(self, fault: Fault, *, after: bool) -> tuple[int, int] | None:
        own = self.window_ns(fault)
        if own is None:
            return None
        edge, (starts, ends) = own[after], self._edges
        begun, ended = bisect_right(starts, edge), bisect_left(ends, edge)
        if begun - ended > 1:  # another one than its own
            return None
        if after:
            return edge, max(edge, starts[begun] if begun < len(starts) else self.load_ns[1])
        return min(edge, ends[ended - 1] if ended else self.load_ns[0]), edge

    @cached_property
    def _edges(self) -> tuple[list[int], list[int]]:
        """When windows begin, and when they end, each in order."""
        windows = [window for fault in self.faults if (window := self.window_ns(fault))]
        return sorted(start for start, _ in windows), sorted(end for _, end in windows)


def timeline(rows: Rows, first_ns: int, last_ns: int, topics: Mapping[int, str] | None = None) -> Timeline:
    """From the rows of faults and phases; topics by their numbers."""
    ordered = sorted(rows, key=lambda row: row["time"])
    phases = [(str(row["name"]), int(row["time"])) for row in ordered if row.get("fault") is None]
    start = next((time for name, time in phases if name == "load"), first_ns)
    end = next(
        (time for name, time in phases if time >= start and name in {"heal", "recover", "final", "seal"}), last_ns
    )
    faults: dict[int, Fault] = {}
    for row in ordered:
        if row.get("fault") is not None:
            fault = faults.setdefault(row["fault"], Fault(row["fault"], str(row["name"])))
            _apply(fault, row)
            if row.get("topic") is not None:
                fault.topic = (topics or {}).get(row["topic"])
    return Timeline((start, end), phases, list(faults.values()))


def _apply(fault: Fault, row: Mapping[str, Any]) -> None:
    stage = row["stage"]
    if stage == FaultStage.INJECTED:
        fault.injected_ns = row["time"]
    elif stage == FaultStage.UNDONE:
        fault.undone_ns = row["time"]
    elif stage == FaultStage.HEALED:
        fault.healed_ns = row["time"]
    elif stage == FaultStage.BIT:
        fault.bit, fault.evidence = True, row["detail"] or ""
    elif stage == FaultStage.FAILED:
        fault.failed = True
    if stage in {FaultStage.BIT, FaultStage.MISSED, FaultStage.FAILED}:
        fault.detail = row["detail"] or ""
