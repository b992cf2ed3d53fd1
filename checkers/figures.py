"""Figures: how much was sent and read, how fast, and where it stood still; the table of the investigation notes.

Per partition of the load: messages sent there and how the sends ended, records that the load's consumers were handed,
their share of all, how far the different ones are from what was acknowledged, the range of offsets and what is missing
in it. A partition is low when more than a tenth of what was acknowledged did not arrive.

Gaps in the range say nothing where transactions leave markers and aborted records in it, or compaction takes records
out: they are not counted there. What was aborted on purpose is not expected to arrive.

A rebalance is a moment at which a member of a group was given partitions. A batch that passed the taps again, with the
same checksum from the same client, was sent again.

A stall is a stretch of at least STALL_NS in which a consumer of the load polled and was handed nothing. Polls are cut
into buckets of one second, the first and last useful poll of each bucket are all that is needed: no gap inside a bucket
is long enough. The wait at a consumer's end counts when something that was acknowledged had not been read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkers.coverage import PRODUCE
from checkers.frame import LOAD_ROLE, History
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STALL_NS = 5_000_000_000
BUCKET_NS = 1_000_000_000
IMBALANCE = 0.10
PARTITIONS_AT_MOST = 50  # beyond that the table is left out
STALLS_AT_MOST = 50


@dataclass(frozen=True)
class PartitionRow:
    """One line of the table."""

    topic: str
    partition: int
    sent: int
    acknowledged: int
    failed: int
    info: int
    read: int
    distinct: int
    share: float
    first_offset: int | None
    last_offset: int | None
    gaps: int | None  # None where they would say nothing

    @property
    def deviation(self) -> int:
        """Different messages more or fewer than were acknowledged here."""
        return self.distinct - self.acknowledged

    @property
    def low(self) -> bool:
        """More than a tenth of what was acknowledged here did not arrive."""
        return self.deviation < -IMBALANCE * self.acknowledged


@dataclass(frozen=True)
class Stall:
    """A consumer polled all this time and was handed nothing."""

    process: int
    began_ns: int
    lasted_ns: int
    at_end: bool


@dataclass
class Figures:
    """What a run did, in numbers."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    info: int = 0
    read: int = 0
    distinct: int = 0
    produce_s: float = 0.0
    consume_s: float = 0.0
    partitions: int = 0
    table: list[PartitionRow] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    stalls_count: int = 0
    aborted: int = 0  # of the failed ones, those whose transaction was aborted
    made: int = 0  # acknowledged messages that were made from others
    commits: int = 0  # of offsets of groups
    rebalances: int = 0
    transactions: dict[str, int] = field(default_factory=dict)  # committed, aborted, unknown
    transactions_s: float = 0.0
    topics: dict[str, int] = field(default_factory=dict)  # created, deleted, grown
    resends: int = 0
    unsettled: int | None = None  # batches that were refused, or whose answer never came; None: no taps
    offsetless: int | None = None  # batches that brokers acknowledged without a usable offset; None: no taps

    @property
    def produce_rate(self) -> float | None:
        """Acknowledged messages per second."""
        return self.acknowledged / self.produce_s if self.produce_s > 0 else None

    @property
    def consume_rate(self) -> float | None:
        """Records read per second."""
        return self.read / self.consume_s if self.consume_s > 0 else None

    @property
    def success_rate(self) -> float | None:
        """Share of the messages that were sent and not aborted that the load's consumers read."""
        return self.distinct / (self.sent - self.aborted) if self.sent > self.aborted else None

    @property
    def transaction_rate(self) -> float | None:
        """Committed transactions per second."""
        return self.transactions.get("committed", 0) / self.transactions_s if self.transactions_s > 0 else None

    @property
    def imbalance(self) -> int:
        """The fullest partition minus the emptiest."""
        counts = [row.read for row in self.table]
        return max(counts, default=0) - min(counts, default=0)


def silences(history: History) -> DataFrame:
    """Stretches in which a consumer of the load polled and was handed nothing, with `last`, its last poll of all."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    useful = "if(count > 0, time, null)"
    ended = "count is not null"  # a poll that was still open when its process was killed lasted for no time
    polls = (
        history.completions.where(f"f = {F.POLL:d} and {ended} and {history.by_role(LOAD_ROLE)}")
        .selectExpr("process", "invoked", "time", f"{useful} as useful", f"time div {BUCKET_NS} as bucket")
        .groupBy("process", "bucket")
        .agg(
            sql.min("invoked").alias("asked"),
            sql.max("time").alias("polled"),
            sql.min("useful").alias("first"),
            sql.max("useful").alias("last"),
        )
    )
    earlier = Window.partitionBy("process").orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy("process")
    with_past = polls.select(
        "process", "first", "last",
        sql.max("last").over(earlier).alias("before"),
        sql.min("asked").over(whole).alias("began"),
        sql.max("last").over(whole).alias("last_useful"),
        sql.max("polled").over(whole).alias("polled"),
    )  # fmt: skip
    between = with_past.selectExpr("process", "coalesce(before, began) as since", "first as until", "false as at_end")
    at_end = with_past.selectExpr(
        "process", "coalesce(last_useful, began) as since", "polled as until", "true as at_end"
    )
    return between.unionByName(at_end.distinct()).where(f"try_subtract(until, since) >= {STALL_NS}")


def rebalances(history: History) -> DataFrame:
    """How often members of groups were given partitions; where a member only goes back, the position is named."""
    from pyspark.sql import functions as sql

    given = history.completions.where(
        f"f = {F.ASSIGN:d} and member is not null and offset is null and type = {Type.OK:d}"
    )
    return given.agg(sql.count_distinct("member", "invoked").alias("count"))


def resends(history: History) -> DataFrame:
    """How many batches passed the taps that had passed them before, and how brokers answered others than well."""
    from pyspark.sql import functions as sql

    batches = history.kind(Kind.EXCHANGE).where(f"api = {PRODUCE} and crc is not null")
    same = ("client", "topic", "partition", "producer_id", "producer_epoch", "sequence", "crc")
    well = f"type = {Type.OK:d} and coalesce(error, 0) = 0"
    counted = batches.groupBy(*same).agg(
        sql.count("*").alias("times"),
        sql.expr(f"count_if(not ({well})) as unsettled"),
        sql.expr(f"count_if({well} and coalesce(offset, -1) < 0) as offsetless"),
    )
    return counted.selectExpr(
        "coalesce(sum(times - 1), 0) as count", "sum(unsettled) as unsettled", "sum(offsetless) as offsetless"
    )


def figures(
    sections: Mapping[str, list[dict[str, Any]]], topics: Mapping[int, str], compacted: Collection[int] = ()
) -> Figures:
    """From what the job collected."""
    value_rows = [row for row in sections.get("values", []) if row.get("topic") is not None]
    result = Figures(partitions=len(value_rows))
    for name in ("sent", "acknowledged", "failed", "info", "read", "distinct", "aborted"):
        setattr(result, name, sum(row.get(name) or 0 for row in value_rows))
    for name in ("rebalances", "resends"):
        setattr(result, name, sum(row["count"] for row in sections.get(name, [])))
    for name in ("unsettled", "offsetless"):
        setattr(result, name, next((row[name] for row in sections.get("resends", [])), None))
    _durations(result, sections)
    _deeds(result, sections.get("operations", []))
    if len(value_rows) <= PARTITIONS_AT_MOST:
        result.table = _table(result, value_rows, sections.get("linearizability", []), topics, compacted)
    stalls = [
        Stall(row["process"], row["since"], row["until"] - row["since"], row["at_end"])
        for row in sections.get("silences", [])
        if not row["at_end"] or result.distinct < result.acknowledged
    ]
    result.stalls_count = len(stalls)
    result.stalls = sorted(stalls, key=lambda stall: (-stall.lasted_ns, stall.began_ns, stall.process))[:STALLS_AT_MOST]
    return result


def _durations(result: Figures, sections: Mapping[str, list[dict[str, Any]]]) -> None:
    sends = [row for row in sections.get("operations", []) if row["f"] == F.SEND]
    ended = [row["last_ns"] for row in sends if row["type"] != Type.INFO]
    if ended:
        result.produce_s = max(0, max(ended) - min(row["first_ns"] for row in sends)) / 1e9
    arrived = [row["last_ns"] for row in sections.get("reads", []) if row["load"]]
    began = [row["first_ns"] for row in sections.get("operations", []) if row["f"] == F.POLL and row["load"]]
    if arrived and began:
        result.consume_s = max(0, max(arrived) - min(began)) / 1e9


def _deeds(result: Figures, rows: list[dict[str, Any]]) -> None:
    """What was done beside sending and reading."""

    def count(f: F, type_: Type) -> int:
        return sum(row["count"] for row in rows if (row["f"], row["type"]) == (f, type_))

    ended = {"committed": Type.OK, "aborted": Type.FAIL, "unknown": Type.INFO}
    result.transactions = {name: found for name, type_ in ended.items() if (found := count(F.TXN, type_))}
    lasted = [(row["first_ns"], row["last_ns"]) for row in rows if row["f"] == F.TXN and row["type"] != Type.INFO]
    if lasted:
        result.transactions_s = (max(last for _, last in lasted) - min(first for first, _ in lasted)) / 1e9
    result.commits = count(F.COMMIT, Type.OK)
    result.made = sum(row["made"] for row in rows if (row["f"], row["type"]) == (F.SEND, Type.OK))
    changed = {"created": F.CREATE, "deleted": F.DELETE, "grown": F.GROW}
    result.topics = {name: found for name, f in changed.items() if (found := count(f, Type.OK))}


def _table(
    result: Figures,
    value_rows: list[dict[str, Any]],
    offset_rows: list[dict[str, Any]],
    topics: Mapping[int, str],
    compacted: Collection[int],
) -> list[PartitionRow]:
    ranges = {(row["topic"], row["partition"]): row for row in offset_rows}
    table = []
    for row in sorted(value_rows, key=lambda row: (row["topic"], row["partition"])):
        extent = ranges.get((row["topic"], row["partition"]), {})
        first, last = extent.get("first_offset"), extent.get("last_offset")
        gaps = 0 if first is None or last is None else last - first + 1 - extent["offsets_read"]
        explained = row.get("transactional") or row["topic"] in compacted
        counts = {name: row.get(name) or 0 for name in ("sent", "acknowledged", "failed", "info", "read", "distinct")}
        share = counts["read"] / result.read if result.read else 0.0
        topic = topics.get(row["topic"], str(row["topic"]))
        table.append(
            PartitionRow(
                topic,
                row["partition"],
                **counts,
                share=share,
                first_offset=first,
                last_offset=last,
                gaps=None if explained else gaps,
            )
        )
    return table
