"""What every checker is made of: the history as DataFrames, rules, and findings.

A *rule* is one anomaly on one frame: a condition under which a row of the frame is a finding, a condition under which
it was worth looking at, and the evidence, all of them SQL expressions over the frame's columns. Rules of one frame are
evaluated in one pass, twice:

* `tally` counts, for each partition, the rows that are findings and the rows that were looked at. Nothing but hash
  aggregates of numbers: this is what every check pays for.
* `find` turns the rows that are findings into rows of one shape (`FINDING`). It is asked only for rules that the tally
  has something for, and for use alone.

A *study* is a checker that cannot be put so: it asks Spark in steps of its own, and brings its findings itself.

Only DataFrame expressions and Arrow functions, so that all of it runs through Spark Connect and on any master. The
history is never collected, and nothing needs the events of one partition in one task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from threading import Lock
from typing import TYPE_CHECKING, Any

from checkers.deletions import Deletions
from harness.history import COLUMNS, ID_BITS, INT8, INT16, INT32, INT64, KINDS, TEXT, F, Kind
from harness.spark_jvm import Size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from checkers.broker_logs import Logs
    from checkers.coverage import Timeline
    from harness.seal import Sealed

LOAD_ROLE = "consumer"
FRESH_ROLES = ("final", "raw")  # readers that begin when all is over
REPLICA_ROLE = "replica"  # reads what one node has, whoever leads
PLACE = ("topic", "partition")
RANGES = 20  # of numbers, in a condition
TINY_ROWS = 20_000
Rows = Sequence[Mapping[str, Any]]
_SQL_TYPES = {INT64: "bigint", INT32: "int", INT16: "smallint", INT8: "tinyint", TEXT: "string"}

# the columns of a finding, and what a rule that does not give one gets
FINDING: dict[str, tuple[str, str]] = {
    "anomaly": ("string", "null"),
    "topic": ("int", "topic"),
    "partition": ("int", "partition"),
    "offset": ("bigint", "null"),
    "values": ("array<bigint>", "array()"),
    "processes": ("array<int>", "null"),
    "nodes": ("array<int>", "array()"),
    "time": ("bigint", "null"),
    "until": ("bigint", "null"),  # of two events that contradict each other, the later one
    "events": ("array<bigint>", "array()"),
    "tags": ("array<string>", "array()"),
    "severity": ("bigint", "null"),
    "detail": ("string", "null"),
}


@dataclass(frozen=True)
class Rule:
    """One anomaly on one frame; everything is SQL over the columns of the frame."""

    anomaly: str
    about: str
    where: str  # a row of which this holds is a finding
    looked_at: str | None  # a row of which this holds was examined; None: every record that was read
    evidence: dict[str, str] = field(default_factory=dict)
    needs_acknowledgements: bool = False


def _always(_: History) -> bool:
    return True


@dataclass(frozen=True)
class Family:
    """Rules on one frame. `find` replaces the general way from rows to findings where one row is not one finding."""

    name: str
    frame: Callable[[History], DataFrame]
    rules: tuple[Rule, ...]
    figures: dict[str, str] = field(default_factory=dict)  # more aggregates of the same pass
    find: Callable[[History, Sequence[Rule]], DataFrame] | None = None
    needs: Callable[[History], bool] = _always  # whether the history has anything that this looks at
    summary: Callable[[History, Rows], Any] | None = None  # from the rows of the tally to what results.json tells

    def findings(self, history: History, rules: Sequence[Rule] | None = None) -> DataFrame:
        """A row of `FINDING` for each."""
        chosen = self.rules if rules is None else tuple(rules)
        return find(self.frame(history), chosen) if self.find is None else self.find(history, chosen)

    def of(self, anomaly: str) -> list[Rule]:
        """The rules of one anomaly."""
        return [rule for rule in self.rules if rule.anomaly == anomaly]


@dataclass(frozen=True)
class Studied:
    """What came of a study; anomalies that it says nothing about were not looked for."""

    findings: Rows = ()  # rows of `FINDING`, the first and the worst
    found: Mapping[str, int] = field(default_factory=dict)  # by anomaly, all of them
    looked_at: Mapping[str, int] = field(default_factory=dict)
    cut: str = ""  # a sentence: what was left out, which makes `unknown`
    summary: Any = None  # what results.json tells


@dataclass(frozen=True)
class Study:
    """A checker with steps of its own."""

    name: str
    anomalies: Mapping[str, str]  # and what each is, in a line
    study: Callable[[History, int], Studied]  # of at most so many findings of each anomaly
    needs: Callable[[History], bool] = _always


class Kept:
    """The rows of a tiny history, in memory: to open its files for each of some forty scans costs more than to read."""

    def __init__(self) -> None:
        self._frames: dict[Kind, DataFrame] = {}
        self._lock = Lock()

    def once(self, kind: Kind, read: Callable[[], DataFrame]) -> DataFrame:
        """What is read when it is first asked for; its plan is then no more than its rows."""
        with self._lock:
            if kind not in self._frames:
                self._frames[kind] = read().localCheckpoint()
            return self._frames[kind]


@dataclass(frozen=True)
class History:
    """The history of a run as DataFrames; a small one is a single task, and a tiny one is read once."""

    spark: SparkSession
    sealed: Sealed
    chunk_rows: int = 1_000_000  # of the two-level scans
    deletions: Deletions = field(default_factory=Deletions)
    compacted: frozenset[int] = frozenset()  # topics that keep the last record of each key, and need keep no other
    foreign: bool = False  # not of our workers: the upper bits of a value say nothing
    renumbered: frozenset[int] = frozenset()  # processes whose producers used more than one producer id and epoch
    line: Timeline | None = None  # phases and faults
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds, by name, as the scenario has them
    logs: Logs | None = None  # of the brokers
    kept: Kept = field(default_factory=Kept, compare=False)

    @property
    def small(self) -> bool:
        """Whether one task is quicker than many."""
        return Size.of(self.sealed.events) is Size.SMALL

    @property
    def _tiny(self) -> bool:
        """Whether its rows are kept; not by executors elsewhere, which may go."""
        here = str(self.spark.conf.get("spark.master", "local")).startswith("local")
        return self.small and self.sealed.events <= TINY_ROWS and here

    def kind(self, kind: Kind) -> DataFrame:
        """All events of a kind."""
        schema = ", ".join(f"`{name}` {_SQL_TYPES[COLUMNS[name].type]}" for name in KINDS[kind])
        files = self.sealed.urls(kind)
        if not files or not self.sealed.rows.get(kind):
            return self.spark.createDataFrame([], schema)

        def read() -> DataFrame:
            frame = self.spark.read.schema(schema).parquet(*files)
            return frame.coalesce(1) if self.small else frame

        return self.kept.once(kind, read) if self._tiny else read()

    @cached_property
    def completions(self) -> DataFrame:
        """How operations ended."""
        return self.kind(Kind.COMPLETE)

    @cached_property
    def sends(self) -> DataFrame:
        """How sends ended; every send has exactly one row."""
        return self.completions.where(f"f = {F.SEND:d}")

    @cached_property
    def finals(self) -> DataFrame:
        """How the final reads of partitions ended."""
        return self.completions.where(f"f = {F.FINAL:d}")

    @cached_property
    def records(self) -> DataFrame:
        """Every record any client was handed; what replicas were asked for is not theirs."""
        return self.kind(Kind.RECORD).where(f"not ({self.by_role(REPLICA_ROLE)})")

    @cached_property
    def probes(self) -> DataFrame:
        """What nodes answered."""
        return self.kind(Kind.PROBE)

    def has(self, kind: Kind) -> bool:
        """Whether there is any event of this kind."""
        return bool(self.sealed.rows.get(kind))

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
        counted = self.sealed.contents.get(kind)
        return self.has(kind) and (counted is None or any(counted.get(int(number), 0) for number in numbers))

    def spread(self, rows: DataFrame, *keys: str) -> DataFrame:
        """Rows of one key in one task: for an aggregate with so many groups that summing up early is only work."""
        return rows if self.small else rows.repartition(*keys)

    def by_role(self, *roles: str) -> str:
        """A condition on `process`."""
        return self.by_about("role", roles)

    def by_about(self, what: str, values: Collection[object], process: str = "process") -> str:
        """A condition on a process, by what the manifest says of it."""
        numbers = [number for number, about in self.sealed.processes.items() if about.get(what) in values]
        return one_of(process, numbers)

    @property
    def sees_aborted(self) -> str:
        """A condition on `process`: it also reads what was not committed."""
        return self.by_about("isolation", ["read_uncommitted"])


def one_of(column: str, numbers: Iterable[int]) -> str:
    """SQL: a condition that a column is one of these; thousands of neighbours are short."""
    ranges: list[list[int]] = []
    chosen = sorted(set(numbers))
    for number in chosen:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    if len(ranges) > RANGES:  # Spark recurses into each `or`
        return f"{column} in ({', '.join(map(str, chosen))})"
    told = [f"{column} = {low}" if low == high else f"{column} between {low} and {high}" for low, high in ranges]
    return f"({' or '.join(told)})" if told else "false"


def tally(family: Family, history: History, rules: Iterable[Rule]) -> DataFrame:
    """Per partition: findings and rows looked at of each rule (`found_n`, `looked_n`), and the family's figures."""
    totals = []
    for number, rule in enumerate(rules):
        totals.append(f"count_if({rule.where}) as found_{number}")
        if rule.looked_at is not None:
            totals.append(f"count_if({rule.looked_at}) as looked_{number}")
    totals += [f"{expression} as {name}" for name, expression in family.figures.items()]
    return aggregate(history, family.frame(history), PLACE, totals)


def aggregate(history: History, rows: DataFrame, keys: Sequence[str], totals: Sequence[str]) -> DataFrame:
    """A row per key. As one query: asked for column by column, planning would take longer than counting."""
    names = ", ".join(f"`{key}`" for key in keys)
    query = f"select {names}, {', '.join(totals)} from {{rows}} group by {names}"  # noqa: S608 - of rules, not of data
    return history.spark.sql(query, rows=rows)


def find(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """A row for each rule that holds on each row."""
    found = ", ".join(f"if({rule.where}, {_as_finding(rule)}, null)" for rule in rules)
    return (
        frame.where(" or ".join(f"({rule.where})" for rule in rules))
        .selectExpr(f"explode(array_compact(array({found}))) as finding")
        .select("finding.*")
    )


def _as_finding(rule: Rule) -> str:
    """The evidence as a struct; the processes are those that wrote the events unless the rule names others."""
    given = {"anomaly": f"'{rule.anomaly}'", **rule.evidence}
    given.setdefault("processes", writers(given.get("events", "array()")))
    pairs = []
    for name, (type_, default) in FINDING.items():
        expression = given.get(name, default)
        value = f"array_compact({expression})" if type_.startswith("array") else expression
        pairs.append(f"'{name}', cast({value} as {type_})")
    return f"named_struct({', '.join(pairs)})"


def as_findings(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Rows of `FINDING` from rows that are findings; nobody is blamed unless `processes` is given."""
    given = {"processes": "array()", **columns}
    return rows.selectExpr(
        *(f"cast({given.get(name, default)} as {type_}) as `{name}`" for name, (type_, default) in FINDING.items())
    )


def writers(events: str) -> str:
    """SQL: the processes that wrote these events."""
    return f"array_distinct(transform(array_compact({events}), e -> {process_of('e')}))"


def seconds(history: History, time: str) -> str:
    """SQL: a time as seconds since the history began."""
    return f"(cast({time} as double) - {history.sealed.first_time_ns}D) / 1e9"


def process_of(identifier: str) -> str:
    """The process in the upper bits of an event, an operation or a value."""
    return f"cast(shiftright({identifier}, {ID_BITS}) as int)"


def first_of(wanted: str, which: str, column: str) -> str:
    """SQL: the event or time at which the lowest or highest of a column was there first."""
    function, since = ("min_by", "time") if which == "lowest" else ("max_by", "-time")
    return f"{function}({wanted}, if({column} is null, null, struct({column}, {since}, event)))"


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames of one shape."""
    return reduce(lambda left, right: left.union(right), frames)
