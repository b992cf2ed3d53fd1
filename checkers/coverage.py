"""Coverage: how much was seen, so that nobody takes silence for health.

The timeline of a run (its phases and faults) is a handful of rows, read first. The instants at which the load or a
fault begins or ends cut time into segments; one aggregate over the completions and one over the records count what
happened in each, and what happened before, during and after each fault is a sum of segments.

A fault's window is from its injection to its undoing. Before it: since the end of the window before, or the start of
the load. After it: until the next window, or the end of the load. Where windows overlap there is no before or after.
Of less than a second, or than three times the load's own pace (up to three seconds), nobody can expect that something
happened in it. Nor of those parts of a window in which another fault was there that may block everything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkers.deletions import segment
from checkers.few import few_rows
from checkers.frame import LOAD_ROLE, History
from harness.history import F, FaultStage, Kind, Type
from workloads.error_codes import name_of
from workloads.outcomes import is_classified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORT_NS = 1_000_000_000
LONGEST_SHORT_NS = 3 * SHORT_NS
PACES = 3  # of the load, from one send to the next on average, whatever became of it
PRODUCE = 0  # Kafka's number of the request
_PROCESS = re.compile(r"tidegauge-[a-z]+-(\d+)")  # as workers call themselves
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
        edge = own[after]
        others = [w for other in self.faults if other is not fault and (w := self.window_ns(other))]
        if any(start <= edge <= end for start, end in others):
            return None
        if after:
            return edge, max(edge, min((start for start, _ in others if start > edge), default=self.load_ns[1]))
        return min(edge, max((end for _, end in others if end < edge), default=self.load_ns[0])), edge


@dataclass(frozen=True)
class Span:
    """What was done in a stretch of time."""

    sends: int
    reads: int
    short: bool = False  # so short that it may well be empty


@dataclass(frozen=True)
class FaultCoverage:
    """A fault, and what clients did around it; None where it overlaps with another."""

    fault: Fault
    before: Span | None
    during: Span | None
    after: Span | None
    clear: Span | None = None  # during it, where no fault was there that may block everything


@dataclass
class Coverage:
    """How much was seen."""

    operations: dict[str, dict[str, int]] = field(default_factory=dict)  # by function, then by outcome
    records: int = 0
    load_records: int = 0
    probes: list[dict[str, int]] = field(default_factory=list)  # api, node, asked, answered
    faults: list[FaultCoverage] = field(default_factory=list)
    finals_complete: int = 0
    finals_incomplete: list[dict[str, Any]] = field(default_factory=list)
    finals_incomplete_count: int = 0
    raws_incomplete: list[str] = field(default_factory=list)  # partitions whose logs were not read to their end
    raws_incomplete_count: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)  # f, error, name, type, count, classified

    def count(self, f: F, type_: Type) -> int:
        """Operations that ended so."""
        return self.operations.get(f.name.lower(), {}).get(type_.name.lower(), 0)

    @property
    def unclassified(self) -> int:
        """Operations that ended with an error of which the table does not say what it means."""
        return sum(row["count"] for row in self.errors if not row["classified"])


def read_timeline(history: History) -> Timeline:
    """Phases and faults: a few rows."""
    sealed, rows = history.sealed, []
    for kind, columns in ((Kind.FAULT, ("fault", "stage", "topic")), (Kind.PHASE, ())):
        rows += few_rows(sealed, history.spark, kind, ["time", "name", "detail", *columns])
    return timeline(rows, sealed.first_time_ns, sealed.last_time_ns, sealed.topics)


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


def operations(history: History, bounds_ns: list[int]) -> DataFrame:
    """Completions by function, outcome, error, whether the load's consumers did it, and segment."""
    load = f"{history.by_role(LOAD_ROLE)} as load"
    return (
        history.completions.selectExpr(
            "f", "type", "coalesce(error, 0) as error", "invoked", "time", "source", load,
            f"{segment(bounds_ns)} as segment",
        )
        .groupBy("f", "type", "error", "load", "segment")
        .agg(
            *_aggregates(
                "count(*) as count", "min(invoked) as first_ns", "max(time) as last_ns", "count(source) as made"
            )
        )
    )  # fmt: skip


def errors(operation_rows: Rows) -> list[dict[str, Any]]:
    """How often operations ended with which error, the most frequent first, and whether the table knows it."""
    counted: dict[tuple[F, int, Type], int] = {}
    for row in operation_rows:
        if row["error"]:
            key = (F(row["f"]), row["error"], Type(row["type"]))
            counted[key] = counted.get(key, 0) + row["count"]
    return [
        {
            "f": f.name.lower(),
            "error": code,
            "name": name_of(code),
            "type": type_.name.lower(),
            "count": count,
            "classified": is_classified(f, code),
        }
        for (f, code, type_), count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]


def reads(history: History, bounds_ns: list[int]) -> DataFrame:
    """Records by whether the load's consumers read them, and segment."""
    return (
        history.records.selectExpr(f"{history.by_role(LOAD_ROLE)} as load", "time", f"{segment(bounds_ns)} as segment")
        .groupBy("load", "segment")
        .agg(*_aggregates("count(*) as count", "max(time) as last_ns"))
    )


def numberings(history: History) -> DataFrame:
    """Clients whose producers went on with another producer id or epoch, as seen at the taps."""
    from pyspark.sql import functions as sql

    numbered = history.kind(Kind.EXCHANGE).where(f"api = {PRODUCE} and producer_id >= 0")
    counted = numbered.groupBy("client").agg(sql.count_distinct("producer_id", "producer_epoch").alias("times"))
    return counted.where("times > 1")


def renumbered(rows: Rows) -> frozenset[int]:
    """The processes of these clients, which have their numbers in their names."""
    found = (_PROCESS.fullmatch(str(row["client"])) for row in rows)
    return frozenset(int(match[1]) for match in found if match)


def probes(history: History) -> DataFrame:
    """Questions and answers by API and node."""
    return history.probes.groupBy("api", "node").agg(
        *_aggregates("count(*) as asked", "count_if(error = 0) as answered")
    )


def _aggregates(*expressions: str) -> list[Any]:
    from pyspark.sql import functions as sql

    return [sql.expr(expression) for expression in expressions]


def spans(line: Timeline, operation_rows: Rows, read_rows: Rows, blocking: Collection[str] = ()) -> list[FaultCoverage]:
    """What clients did around each fault, given the names of those that may keep everything from getting through."""
    bounds = line.bounds_ns()
    start_ns, end_ns = line.load_ns
    sends = dict.fromkeys(range(len(bounds) + 1), 0)
    records = dict(sends)
    tried = 0
    for row in operation_rows:
        if row["f"] == F.SEND:
            tried += row["count"]
            sends[row["segment"]] += row["count"] if row["type"] == Type.OK else 0
    for row in read_rows:
        if row["load"]:
            records[row["segment"]] += row["count"]
    short_ns = min(LONGEST_SHORT_NS, max(SHORT_NS, PACES * (end_ns - start_ns) // max(1, tried)))

    def segments(window_ns: tuple[int, int] | None) -> set[int]:
        return set() if window_ns is None else set(range(*(bounds.index(each) + 1 for each in window_ns)))

    def summed(inside: Iterable[int]) -> Span:
        chosen = list(inside)
        lasted_ns = sum(bounds[n] - bounds[n - 1] for n in chosen)
        return Span(sum(sends[n] for n in chosen), sum(records[n] for n in chosen), lasted_ns < short_ns)

    def span(window_ns: tuple[int, int] | None) -> Span | None:
        return None if window_ns is None else summed(segments(window_ns))

    def clear(fault: Fault) -> Span:
        blocked = [segments(line.window_ns(other)) for other in line.faults if other.name in blocking]
        return summed(segments(line.window_ns(fault)).difference(*blocked))

    return [
        FaultCoverage(
            fault,
            span(line.before_ns(fault)),
            span(line.window_ns(fault)),
            span(line.after_ns(fault)),
            clear(fault),
        )
        for fault in line.faults
    ]
