"""Coverage: how much was seen, so that nobody takes silence for health.

The timeline of a run (its phases and faults) is a handful of rows, read first. The instants at which the load or a
fault begins or ends cut time into segments; what happened in each is counted, and what happened before, during and
after each fault is a sum of segments.

A fault's window is from its injection to its undoing. Before it: since the end of the window before, or the start of
the load. After it: until the next window, or the end of the load. Where windows overlap there is no before or after.
Of less than a second, or than three times the load's own pace (up to three seconds), nobody can expect that something
happened in it. Nor of those parts of a window in which another fault was there that may block everything.

How far final readers got is known to the family `values`, partition by partition (`places_of`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from checkers.core.arrays import Bools, Ints, ints
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import PRODUCE
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.timeline import Fault, Timeline
from harness.foundation.error_codes import name_of
from harness.history.outcomes import is_classified
from harness.history.schema import F, Type

SHORT_NS = 1_000_000_000
LONGEST_SHORT_NS = 3 * SHORT_NS
PACES = 3  # of the load, from one send to the next on average, whatever became of it
INCOMPLETE_AT_MOST = 20
_PROCESS = re.compile(r"tidegauge-[a-z]+-(\d+)")  # as workers call themselves
_COMPLETIONS = ("f", "type", "error", "invoked", "time", "source", "process")
Window = tuple[int, int]


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


@dataclass(frozen=True)
class CoverageCounts:
    """What was counted, in one table for each question; two of them add up."""

    operations: pl.DataFrame  # f, type, error, load, segment: count, first_ns, last_ns, made
    reads: pl.DataFrame  # load, segment: count, last_ns
    probes: pl.DataFrame  # api, node: asked, answered
    producers: pl.DataFrame  # client: the lowest and highest producer id and epoch

    @classmethod
    def of(cls, piece: Piece, run: RunContext) -> CoverageCounts:
        """In a piece."""
        both = [operations(piece.sends, run), operations(piece.ops, run)]
        asked = [probes(rows) for rows in piece.parts("probes", ("api", "node", "error"))]
        sent = [producers(rows) for rows in piece.parts("exchanges", ("client", "api", *_NUMBERS))]
        return cls(
            _added(both, _OPERATIONS), reads(piece.records, run), _added(asked, _PROBES), _added(sent, _PRODUCERS)
        )

    @classmethod
    def together(cls, parts: Sequence[CoverageCounts]) -> CoverageCounts:
        """In all of them."""
        return cls(
            _added([part.operations for part in parts], _OPERATIONS),
            _added([part.reads for part in parts], _READS),
            _added([part.probes for part in parts], _PROBES),
            _added([part.producers for part in parts], _PRODUCERS),
        )

    @property
    def renumbered(self) -> frozenset[int]:
        """Processes whose producers went on with another producer id or epoch, as seen at the taps."""
        return renumbered(self.producers)


def _total(*names: str) -> list[pl.Expr]:
    return [pl.col(name).sum() for name in names]


_OPERATIONS = (("f", "type", "error", "load", "segment"),
               (*_total("count", "made"), pl.col("first_ns").min(), pl.col("last_ns").max()))  # fmt: skip
_READS = (("load", "segment"), (*_total("count"), pl.col("last_ns").max()))
_PROBES = (("api", "node"), tuple(_total("asked", "answered")))
_NUMBERS = ("producer_id", "producer_epoch")
_PRODUCERS = (("client",), tuple(
    expression
    for name in _NUMBERS
    for expression in (pl.col(f"low_{name}").min(), pl.col(f"high_{name}").max())
))  # fmt: skip
_Sum = tuple[Sequence[str], Sequence[pl.Expr]]  # keys, and how the other columns add up


def _added(parts: Sequence[pl.DataFrame], how: _Sum) -> pl.DataFrame:
    keys, totals = how
    return parts[0] if len(parts) == 1 else pl.concat(parts).group_by(keys).agg(totals)


def segments(times: Ints, bounds_ns: Sequence[int]) -> Ints:
    """How many of the bounds lie at or before each time."""
    return np.searchsorted(np.array(bounds_ns, np.int64), times, side="right")


def operations(completions: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Completions by function, outcome, error, whether the load's consumers did it, and segment."""
    rows = completions.select(
        "f", "type", pl.col("error").fill_null(0), "invoked", "time", "source",
        load=by(run.load),
        segment=pl.Series(segments(ints(completions, "time"), run.line.bounds_ns())),
    )  # fmt: skip
    return rows.group_by(_OPERATIONS[0]).agg(
        count=pl.len().cast(pl.Int64),
        made=pl.col("source").count().cast(pl.Int64),
        first_ns=pl.col("invoked").min(),
        last_ns=pl.col("time").max(),
    )


def reads(records: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Records by whether the load's consumers read them, and segment."""
    segment = pl.Series(segments(ints(records, "time"), run.line.bounds_ns()))
    rows = records.select("time", load=by(run.load), segment=segment)
    return rows.group_by(_READS[0]).agg(count=pl.len().cast(pl.Int64), last_ns=pl.col("time").max())


def probes(rows: pl.DataFrame) -> pl.DataFrame:
    """Questions and answers by API and node."""
    answered = (pl.col("error") == 0).sum().cast(pl.Int64)
    return rows.group_by(_PROBES[0]).agg(asked=pl.len().cast(pl.Int64), answered=answered)


def producers(exchanges: pl.DataFrame) -> pl.DataFrame:
    """The lowest and highest numbers of each client's producers: who has two of either went on with another."""
    numbered = (pl.col("api") == PRODUCE) & (pl.col("producer_id") >= 0) & pl.col("producer_epoch").is_not_null()
    return (
        exchanges.filter(numbered)
        .group_by("client")
        .agg(
            expression
            for name in _NUMBERS
            for expression in (
                pl.col(name).min().cast(pl.Int64).alias(f"low_{name}"),
                pl.col(name).max().cast(pl.Int64).alias(f"high_{name}"),
            )
        )
    )


def renumbered(numbers: pl.DataFrame) -> frozenset[int]:
    """The processes of clients with two numbers; clients have their process in their names."""
    two = pl.any_horizontal(pl.col(f"low_{name}") < pl.col(f"high_{name}") for name in _NUMBERS)
    found = (_PROCESS.fullmatch(client) for client in numbers.filter(two)["client"].drop_nulls().to_list())
    return frozenset(int(match[1]) for match in found if match)


def errors(counted: pl.DataFrame) -> list[dict[str, Any]]:
    """How often operations ended with which error, the most frequent first, and whether the table knows it."""
    keys = ["f", "error", "type"]
    failed = counted.filter(pl.col("error") != 0).group_by(keys).agg(_total("count"))
    return [
        {
            "f": F(row["f"]).name.lower(),
            "error": row["error"],
            "name": name_of(row["error"]),
            "type": Type(row["type"]).name.lower(),
            "count": row["count"],
            "classified": is_classified(F(row["f"]), row["error"]),
        }
        for row in failed.sort(-pl.col("count"), *keys).to_dicts()
    ]


@dataclass(frozen=True)
class _Sums:
    """What was done from the first segment up to the end of each."""

    sends: Ints
    reads: Ints
    lasted_ns: Ints

    @classmethod
    def of(cls, sends: Ints, read: Ints, lasted_ns: Ints, counted: Bools) -> _Sums:
        return cls(*(np.cumsum(np.where(counted, each, 0)) for each in (sends, read, lasted_ns)))

    def span(self, first: int, end: int, short_ns: int) -> Span:
        """Of the segments after the first up to the end."""
        sends, read, lasted_ns = (int(each[end] - each[first]) for each in (self.sends, self.reads, self.lasted_ns))
        return Span(sends, read, lasted_ns < short_ns)


def spans(
    line: Timeline, operation_rows: pl.DataFrame, read_rows: pl.DataFrame, blocking: Collection[str] = ()
) -> list[FaultCoverage]:
    """What clients did around each fault, given the names of those that may keep everything from getting through."""
    bounds = line.bounds_ns()
    place = {bound: number for number, bound in enumerate(bounds)}  # the end of the segment of that number
    sent = operation_rows.filter(pl.col("f") == F.SEND)
    short_ns = _short_ns(line, int(sent["count"].sum()))
    done = (
        _by_segment(sent.filter(pl.col("type") == Type.OK), len(bounds)),
        _by_segment(read_rows.filter("load"), len(bounds)),
        np.diff(bounds, prepend=bounds[0]),
    )
    blocked = np.zeros(len(bounds), np.bool_)
    for fault in line.faults:
        if fault.name in blocking and (window := line.window_ns(fault)):
            blocked[place[window[0]] + 1 : place[window[1]] + 1] = True
    whole, clear = _Sums.of(*done, np.ones(len(bounds), np.bool_)), _Sums.of(*done, ~blocked)

    def span(window: Window | None, of: _Sums = whole) -> Span | None:
        return None if window is None else of.span(place[window[0]], place[window[1]], short_ns)

    return [
        FaultCoverage(
            fault,
            span(line.before_ns(fault)),
            span(window := line.window_ns(fault)),
            span(line.after_ns(fault)),
            Span(0, 0, short=True) if window is None else span(window, clear),
        )
        for fault in line.faults
    ]


def _short_ns(line: Timeline, tried: int) -> int:
    start_ns, end_ns = line.load_ns
    return min(LONGEST_SHORT_NS, max(SHORT_NS, PACES * (end_ns - start_ns) // max(1, tried)))


def _by_segment(rows: pl.DataFrame, count: int) -> Ints:
    """How much was done in each segment that ends at a bound."""
    totals = np.bincount(rows["segment"].to_numpy(), rows["count"].to_numpy(), count + 1)
    return totals[:count].astype(np.int64)


def places_of(others: ByFamily) -> pl.DataFrame:
    """A row for each partition that any value belongs to, as `checkers.delivery` knows them; none if that failed."""
    values = others.get("values")
    if values is None:
        return pl.DataFrame(schema=dict.fromkeys(("topic", "partition", "acknowledged"), pl.Int64))
    found: pl.DataFrame = values.places
    return found.filter(pl.col("topic").is_not_null())


def finals(covered: Coverage, places: pl.DataFrame, run: RunContext) -> None:
    """How far the final readers of partitions got; others than us need not read what was not committed."""
    if places.is_empty():
        return
    missed = ~pl.col("raw_ok")
    if not run.foreign:
        missed = missed.fill_null(pl.col("transactional") > 0)
    ordered = places.sort("topic", "partition")
    raws = ordered.filter(missed)
    covered.raws_incomplete_count = len(raws)
    covered.raws_incomplete = [f"{row['topic']}-{row['partition']}" for row in _named(raws, run)]
    wanted = ordered.filter(pl.col("acknowledged") > 0)
    short = wanted.filter(pl.col("final_invoked").is_null())
    covered.finals_complete, covered.finals_incomplete_count = len(wanted) - len(short), len(short)
    names = ("topic", "partition", "final_offset", "final_end")
    covered.finals_incomplete = [{name: row[name] for name in names} for row in _named(short, run)]


def _named(places: pl.DataFrame, run: RunContext) -> Iterable[Mapping[str, Any]]:
    return ({**row, "topic": run.topics.get(row["topic"], str(row["topic"]))}
            for row in places.head(INCOMPLETE_AT_MOST).to_dicts())  # fmt: skip


def coverage(counted: CoverageCounts, places: pl.DataFrame, run: RunContext) -> Coverage:
    """All of it."""
    covered = Coverage(errors=errors(counted.operations))
    for row in counted.operations.group_by("f", "type").agg(_total("count")).sort("f", "type").to_dicts():
        covered.operations.setdefault(F(row["f"]).name.lower(), {})[Type(row["type"]).name.lower()] = row["count"]
    covered.records = int(counted.reads["count"].sum())
    covered.load_records = int(counted.reads.filter("load")["count"].sum())
    covered.probes = counted.probes.sort(pl.col("api").fill_null(0), pl.col("node").fill_null(0)).to_dicts()
    covered.faults = spans(run.line, counted.operations, counted.reads, run.blocking)
    finals(covered, places, run)
    return covered


class CoverageFamily(Family):
    """`others["coverage"]` is `CoverageCounts`."""

    name = "coverage"
    after = ("fates",)
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": _COMPLETIONS,
        "ops": _COMPLETIONS,
        "records": ("process", "time"),
        "probes": ("api", "node", "error"),
        "exchanges": ("api", "client", *_NUMBERS),
    }

    def survey(self, piece: Piece, run: RunContext) -> CoverageCounts:
        """What was counted in it."""
        return CoverageCounts.of(piece, run)

    def gather(self, surveys: Sequence[CoverageCounts], run: RunContext, others: ByFamily) -> CoverageCounts:
        """In all of them."""
        return CoverageCounts.together(surveys or [CoverageCounts.of(Piece({}, run), run)])

    def conclude(
        self, gathered: CoverageCounts, judged: Sequence[Any], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """The summary is `Coverage`."""
        return FamilyResult(summary=coverage(gathered, places_of(others), run))


FAMILIES: tuple[Family, ...] = (CoverageFamily(),)
