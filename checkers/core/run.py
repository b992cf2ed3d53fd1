"""What a check knows of a run beside its events: processes, topics, faults, settings. Small; it goes to every task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from checkers.core.deletions import Deletions
from checkers.core.timeline import Timeline
from harness.history.schema import F, Kind

LOAD_ROLE = "consumer"
FRESH_ROLES = ("final", "raw")  # readers that begin when all is over
FINAL_ROLE = "final"
REPLICA_ROLE = "replica"  # reads what one node has, whoever leads
SECOND_NS = 1_000_000_000
ONE_STRETCH = 1 << 62  # of offsets, when one task has all of them
STRETCH = 1 << 16
ROWS_AT_ONCE = 1 << 17
LIMIT = 20  # findings that are kept of each anomaly and set of tags


@dataclass(frozen=True)
class RunContext:
    """Everything that kernels may ask about the run."""

    first_time_ns: int = 0
    last_time_ns: int = 0
    processes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[int, str] = field(default_factory=dict)
    rows: Mapping[Kind, int] = field(default_factory=dict)
    contents: Mapping[Kind, Mapping[int, int]] = field(default_factory=dict)  # of each f or api; no kind: not counted
    damaged: frozenset[int] = frozenset()  # processes whose history is damaged
    acks: str = "all"
    foreign: bool = False  # the history of somebody else's clients: the upper bits of a value say nothing
    rewound: tuple[int, ...] = ()  # of a foreign history: transactions and polls not `ok`, which moved no reader on
    compacted: frozenset[int] = frozenset()  # topics that keep the last record of each key, and need keep no other
    deletions: Deletions = field(default_factory=Deletions)
    line: Timeline = field(default_factory=lambda: Timeline((0, 0)))
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds, by name, all of them
    logs: Any = None  # of the brokers (`checkers.broker_logs.Logs`)
    unasked: frozenset[str] = frozenset()  # anomalies that nobody wants, or that do not apply
    blocking: frozenset[str] = frozenset()  # names of faults that may keep everything from getting through
    limit: int = LIMIT
    stretch: int = ONE_STRETCH  # offsets that are looked at together: a power of two
    rows_at_once: int = ROWS_AT_ONCE  # of tables that may be longer than memory
    many: bool = False  # whether several tasks have a part each

    def __post_init__(self) -> None:
        """Lanes of offsets are told apart by the upper bits of an offset."""
        if self.stretch < 1 or self.stretch & (self.stretch - 1):
            raise ValueError(
                f"a stretch of {self.stretch} offsets cannot be told by its upper bits: use a power of two"
            )

    def has(self, kind: Kind) -> bool:
        """Whether there is any event of this kind."""
        return bool(self.rows.get(kind))

    def does(self, *functions: F) -> bool:
        """Whether clients did any of this; true when nobody counted it."""
        return self._holds(Kind.COMPLETE, functions)

    def asks(self, *apis: int) -> bool:
        """Whether any request of these passed a tap."""
        return self._holds(Kind.EXCHANGE, apis)

    def probes_by(self, *apis: int) -> bool:
        """Whether any probe was such a request."""
        return self._holds(Kind.PROBE, apis)

    def _holds(self, kind: Kind, numbers: Iterable[int]) -> bool:
        counted = self.contents.get(kind)
        return self.has(kind) and (counted is None or any(counted.get(int(number), 0) for number in numbers))

    def wants(self, anomaly: str) -> bool:
        """Whether somebody asked for it, and it applies."""
        return anomaly not in self.unasked

    def limit_ns(self, name: str) -> int:
        """A limit of the scenario."""
        return int(self.limits[name] * SECOND_NS)

    def seconds(self, time_ns: int) -> float:
        """A time as seconds since the history began."""
        return (time_ns - self.first_time_ns) / SECOND_NS

    def with_about(self, what: str, values: Collection[object]) -> list[int]:
        """The processes of which the manifest says one of these."""
        return sorted(number for number, about in self.processes.items() if about.get(what) in values)

    @cached_property
    def load(self) -> list[int]:
        """Consumers of the load."""
        return self.with_about("role", (LOAD_ROLE,))

    @cached_property
    def fresh(self) -> list[int]:
        """Readers that begin when all is over."""
        return self.with_about("role", FRESH_ROLES)

    @cached_property
    def final(self) -> list[int]:
        """Readers of what was committed, when all is over."""
        return self.with_about("role", (FINAL_ROLE,))

    @cached_property
    def replica_readers(self) -> list[int]:
        """Those that read what one node has."""
        return self.with_about("role", (REPLICA_ROLE,))

    @cached_property
    def members(self) -> list[int]:
        """Members of groups."""
        return self.with_about("group", (True,))

    @cached_property
    def sees_aborted(self) -> list[int]:
        """Readers of which the manifest says that they also read what was not committed."""
        return self.with_about("isolation", ("read_uncommitted",))


def by(processes: Collection[int], column: str = "process") -> pl.Expr:
    """Whether a row is of one of these processes."""
    return pl.col(column).is_in(list(processes)).fill_null(value=False) if processes else pl.lit(value=False)
