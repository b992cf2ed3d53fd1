"""Of which findings the operations are shown, and what is asked about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from checkers.core.arrays import Ints, distinct, ints
from checkers.core.nearest import SortedQueries
from checkers.core.run import RunContext
from checkers.summaries.series import Place
from harness.history.schema import Kind

if TYPE_CHECKING:
    from checkers.core.results import Anomaly


Window = tuple[int, int]  # from an offset to another one, both of them included
FINDINGS = 3
FINDINGS_AT_MOST = 120
NEAR_LEAST_NS, NEAR_MOST_NS, NEAR_PACES = 20_000_000, 1_000_000_000, 40


@dataclass(frozen=True)
class ShownFinding:
    """A finding of which the operations are shown."""

    key: str  # the anomaly and its number among the findings that were kept
    topic: int | None
    partition: int | None
    offset: int | None
    values: tuple[int, ...]
    events: tuple[int, ...]
    since: int | None
    until: int | None
    blamed: tuple[int, ...]

    @property
    def place(self) -> Place | None:
        """Where it is, if that is known."""
        return None if self.topic is None or self.partition is None else (self.topic, self.partition)


@dataclass(frozen=True)
class ContextRequest:
    """What is looked up: findings, and partitions with the offsets of which their appends are shown."""

    findings: tuple[ShownFinding, ...] = ()
    witnesses: Mapping[Place, tuple[Window, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.findings or self.witnesses)

    def near_ns(self, run: RunContext) -> int:
        """How far around a finding is looked: so far that it holds some operations of its partition."""
        places = len({(each.topic, each.partition) for each in self.findings})
        lasted_ns = run.last_time_ns - run.first_time_ns
        pace_ns = lasted_ns * max(1, places) // max(1, run.rows.get(Kind.COMPLETE, 0))
        return min(NEAR_MOST_NS, max(NEAR_LEAST_NS, NEAR_PACES * pace_ns))


def context_request(
    anomalies: Mapping[str, Anomaly], run: RunContext, witnesses: Mapping[Place, tuple[Window, ...]] | None = None
) -> ContextRequest:
    """The first findings of each anomaly; and `checkers.summaries.series.witnesses`."""
    topics = {name: number for number, name in run.topics.items()}
    shown = [
        ShownFinding(
            key=f"{name}/{number}",
            topic=None if finding.topic is None else topics.get(finding.topic),
            partition=finding.partition,
            offset=finding.offset,
            values=finding.values,
            events=finding.events,
            since=finding.time_ns,
            until=finding.until_ns or finding.time_ns,
            blamed=finding.processes,
        )
        for name, anomaly in anomalies.items()
        for number, finding in enumerate(anomaly.findings[:FINDINGS])
    ]
    return ContextRequest(tuple(shown[:FINDINGS_AT_MOST]), witnesses or {})


class FindingQueries:
    """What is asked about findings, as tables whose rows are queries; `finding` is the number of a finding."""

    def __init__(self, request: ContextRequest, run: RunContext) -> None:
        self.near_ns = request.near_ns(run)
        shown = request.findings
        self.findings = pl.DataFrame(
            [(n, place_code(each), each.offset, each.since, each.until) for n, each in enumerate(shown)],
            schema=dict.fromkeys(("finding", "f_place", "f_offset", "since", "until"), pl.Int64), orient="row",
        )  # fmt: skip
        self.named = _lists("event", ((n, each.events) for n, each in enumerate(shown)))
        self.values = _lists("value", ((n, each.values) for n, each in enumerate(shown)))
        self.blamed = _lists("worker", ((n, each.blamed) for n, each in enumerate(shown)))
        self.moments = _lists("moment", ((n, {each.since, each.until} - {None}) for n, each in enumerate(shown)))
        self.start_ns = run.first_time_ns

    @cached_property
    def events(self) -> Ints:
        """Those that findings name."""
        return distinct_numbers(self.named, "event")

    @cached_property
    def workers(self) -> Ints:
        """Those that findings blame."""
        return distinct_numbers(self.blamed, "worker")

    @cached_property
    def placed(self) -> pl.DataFrame:
        """Findings whose partition is known."""
        return self.findings.drop_nulls("f_place")

    @cached_property
    def places(self) -> Ints:
        """Their partitions."""
        return distinct_numbers(self.placed, "f_place")

    @cached_property
    def offsets(self) -> SortedQueries:
        """Their offsets."""
        return _sorted_queries(self.placed.drop_nulls("f_offset"), "f_offset")

    @cached_property
    def instants(self) -> SortedQueries:
        """Their moments."""
        return _sorted_queries(self.placed.join(self.moments, on="finding"), "moment")

    def when(self, queries: pl.DataFrame) -> pl.DataFrame:
        """Queries, once for each moment of their finding; those of one without a moment ask for what was first."""
        known = queries.join(self.moments, on="finding", how="left")
        return known.with_columns(pl.col("moment").fill_null(self.start_ns))


def place_code(finding: ShownFinding) -> int | None:
    """Its place as one number (`checkers.core.tables.place_of`)."""
    return None if finding.place is None else (finding.place[0] << 32) | finding.place[1]


def _lists(name: str, lists: Iterable[tuple[int, Iterable[int | None]]]) -> pl.DataFrame:
    rows = [(finding, each) for finding, found in lists for each in found]
    return pl.DataFrame(rows, schema={"finding": pl.Int64, name: pl.Int64}, orient="row").unique()


def distinct_numbers(frame: pl.DataFrame, name: str) -> Ints:
    """The different numbers of a column, in rising order."""
    return distinct(ints(frame, name))


def _sorted_queries(queries: pl.DataFrame, number: str) -> SortedQueries:
    return SortedQueries.of(*(ints(queries, name) for name in ("f_place", number, "finding")))
