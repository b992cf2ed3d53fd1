"""Figures: how much was sent and read, how fast, and where it stood still; the table of the investigation notes.

Per partition of the load: messages sent there and how the sends ended, records that the load's consumers were handed,
their share of all, how far the different ones are from what was acknowledged, the range of offsets and what is missing
in it. Beside them, records that the final readers were handed, and what is `missing`: acknowledged, and read by nobody
at all. A partition is low when that is more than a tenth of what was acknowledged; that the load's consumers had not
read everything when the load ended, and the final readers did, is no reason.

Gaps in the range say nothing where transactions leave markers and aborted records in it, or compaction takes records
out: they are not counted there. What was aborted on purpose is not expected to arrive.

A rebalance is a moment at which a member of a group was given partitions; where a member only goes back, the position
is named. A batch that passed the taps again, with the same checksum from the same client, was sent again.

A stall is a stretch of at least STALL_NS in which a consumer of the load polled and was handed nothing: from one useful
poll to the next, or from its first poll to the first useful one. The wait at a consumer's end counts when something
that was acknowledged had not been read. A poll that was still open when its process was killed lasted for no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from checkers.core.arrays import ints, is_in
from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.node_answers import PRODUCE
from checkers.core.piece import Piece
from checkers.core.run import RunContext, by
from checkers.core.tables import place_of, topic_and_partition
from checkers.summaries.coverage import CoverageCounts, places_of
from harness.history.schema import F, Type

STALL_NS = 5_000_000_000
IMBALANCE = 0.10
PARTITIONS_AT_MOST = 50  # beyond that the table is left out
STALLS_AT_MOST = 50
COUNTS = ("sent", "acknowledged", "failed", "info", "read", "distinct")


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
    read_finally: int = 0  # records handed to the final readers
    missing: int = 0  # acknowledged, and read by nobody: neither during the load nor finally

    @property
    def deviation(self) -> int:
        """Different messages that the load read, more or fewer than were acknowledged here."""
        return self.distinct - self.acknowledged

    @property
    def low(self) -> bool:
        """More than a tenth of what was acknowledged here did not arrive, not even finally."""
        return self.missing > IMBALANCE * self.acknowledged


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


@dataclass(frozen=True)
class BatchCounts:
    """Batches of records that passed the taps."""

    count: int = 0
    different: int = 0
    unsettled: int = 0
    offsetless: int = 0

    def __add__(self, other: BatchCounts) -> BatchCounts:
        """Of places that have nothing to do with each other."""
        return BatchCounts(
            self.count + other.count,
            self.different + other.different,
            self.unsettled + other.unsettled,
            self.offsetless + other.offsetless,
        )


@dataclass(frozen=True)
class FigureSurvey:
    """What figures are made of, beside what others counted."""

    waits: pl.DataFrame  # process, since, until, at_end: the longest silences of each sort
    silences: Mapping[bool, int]  # how many there are, by whether they are at the end
    given: pl.DataFrame  # member, invoked: different ones
    batches: BatchCounts
    ranges: pl.DataFrame  # by place: first_offset, last_offset, offsets_read, read_finally

    @classmethod
    def of(cls, piece: Piece, run: RunContext) -> FigureSurvey:
        """In a piece."""
        waits = silences(piece.ops, run)
        counts = {at_end: int((waits["at_end"] == at_end).sum()) for at_end in (False, True)}
        return cls(longest(waits), counts, rebalances(piece.ops), _batches(piece), ranges(piece.records, run))

    @classmethod
    def together(cls, parts: Sequence[FigureSurvey]) -> FigureSurvey:
        """In all of them."""
        if len(parts) == 1:
            return parts[0]
        extremes = (pl.col("first_offset").min(), pl.col("last_offset").max())
        totals = (pl.col("offsets_read").sum(), pl.col("read_finally").sum())  # stretches have no offset in common
        return cls(
            longest(pl.concat([part.waits for part in parts])),
            {at_end: sum(part.silences[at_end] for part in parts) for at_end in (False, True)},
            pl.concat([part.given for part in parts]).unique(),
            sum((part.batches for part in parts), BatchCounts()),
            pl.concat([part.ranges for part in parts]).group_by("place").agg(*extremes, *totals),
        )


def silences(ops: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Stretches in which a consumer of the load polled and was handed nothing; all polls of a process are here."""
    polls = ops.filter((pl.col("f") == F.POLL) & pl.col("count").is_not_null() & by(run.load))
    useful = polls.filter(pl.col("count") > 0).select("process", until="time").sort("process", "until")
    ends = polls.group_by("process").agg(began=pl.col("invoked").min(), polled=pl.col("time").max())
    between = useful.join(ends, on="process", maintain_order="left").select(
        "process",
        since=pl.coalesce(pl.col("until").shift().over("process"), "began"),
        until="until",
        at_end=pl.lit(value=False),
    )
    last = useful.group_by("process").agg(last=pl.col("until").max())
    at_end = ends.join(last, on="process", how="left").select(
        "process", since=pl.coalesce("last", "began"), until="polled", at_end=pl.lit(value=True)
    )
    return pl.concat([between, at_end]).filter(pl.col("until") - pl.col("since") >= STALL_NS)


def longest(waits: pl.DataFrame) -> pl.DataFrame:
    """Of each sort as many as are told."""
    ordered = waits.sort(pl.col("since") - pl.col("until"), "since", "process")
    return ordered.group_by("at_end", maintain_order=True).head(STALLS_AT_MOST).select(waits.columns)


def rebalances(ops: pl.DataFrame) -> pl.DataFrame:
    """When members of groups were given partitions."""
    given = (pl.col("f") == F.ASSIGN) & pl.col("member").is_not_null() & pl.col("offset").is_null()
    return ops.filter(given & (pl.col("type") == Type.OK)).select("member", "invoked").unique()


_OF_BATCHES = ("api", "crc", "client", "topic", "partition", "producer_id", "producer_epoch", "sequence", "type",
               "error", "offset")  # fmt: skip


def _batches(piece: Piece) -> BatchCounts:
    """Of all that passed the taps, with those that may be the same together."""
    produced = (pl.col("api") == PRODUCE) & pl.col("crc").is_not_null()
    portions = piece.portions("exchanges", _OF_BATCHES, produced, pl.col("crc"))
    return sum((batches(passed) for passed in portions), BatchCounts())


def batches(passed: pl.DataFrame) -> BatchCounts:
    """How many batches there are, how many different ones, and how brokers answered others than well."""
    well = (pl.col("type") == Type.OK) & (pl.col("error").fill_null(0) == 0)
    answered = passed.select(
        unsettled=(~well).sum(), offsetless=(well & (pl.col("offset").fill_null(-1) < 0)).sum()
    ).row(0)
    return BatchCounts(len(passed), _different(passed), *map(int, answered))


def _different(passed: pl.DataFrame) -> int:
    """Only what has a checksum in common with others can be the same batch."""
    alike = passed.filter(pl.col("crc").is_duplicated())
    same = ("client", "topic", "partition", "producer_id", "producer_epoch", "sequence", "crc")
    return len(passed) - len(alike) + alike.select(same).n_unique()


def ranges(records: pl.DataFrame, run: RunContext) -> pl.DataFrame:
    """Per partition the offsets that the load read, and how many records the final readers were handed."""
    rows = pl.DataFrame({"place": place_of(records), "offset": ints(records, "offset", -1)})
    process, placed = ints(records, "process"), rows["place"] >= 0
    read = rows.filter(placed & pl.Series(is_in(process, run.load)) & (rows["offset"] >= 0))
    extents = read.group_by("place").agg(
        first_offset=pl.col("offset").min(),
        last_offset=pl.col("offset").max(),
        offsets_read=pl.col("offset").n_unique().cast(pl.Int64),
    )
    handed = rows.filter(placed & pl.Series(is_in(process, run.final)))
    finally_ = handed.group_by("place").agg(read_finally=pl.len().cast(pl.Int64))
    both = extents.join(finally_, on="place", how="full", coalesce=True)
    return both.with_columns(pl.col("offsets_read", "read_finally").fill_null(0))


def figures(places: pl.DataFrame, counted: CoverageCounts, surveyed: FigureSurvey, run: RunContext) -> Figures:
    """From what was counted, by whomever."""
    result = Figures(partitions=len(places), rebalances=len(surveyed.given))
    for name in (*COUNTS, "aborted"):
        if name in places.columns:
            setattr(result, name, int(places[name].sum()))
    if surveyed.batches.count:
        passed = surveyed.batches
        result.resends = passed.count - passed.different
        result.unsettled, result.offsetless = passed.unsettled, passed.offsetless
    _durations(result, counted)
    _deeds(result, counted.operations)
    if 0 < len(places) <= PARTITIONS_AT_MOST:
        result.table = table(places, surveyed.ranges, run)
    _stalls(result, surveyed)
    return result


def _durations(result: Figures, counted: CoverageCounts) -> None:
    sends = counted.operations.filter(pl.col("f") == F.SEND)
    ended = sends.filter(pl.col("type") != Type.INFO)
    result.produce_s = _seconds(sends["first_ns"], ended["last_ns"])
    polls = counted.operations.filter((pl.col("f") == F.POLL) & pl.col("load"))
    result.consume_s = _seconds(polls["first_ns"], counted.reads.filter("load")["last_ns"])


def _seconds(began: pl.Series, ended: pl.Series) -> float:
    """From the first to the last; none if nothing began or ended."""
    first, last = began.min(), ended.max()
    return max(0, int(last) - int(first)) / 1e9 if first is not None and last is not None else 0.0  # type: ignore[arg-type]


def _deeds(result: Figures, operations: pl.DataFrame) -> None:
    """What was done beside sending and reading."""
    done = {
        (row["f"], row["type"]): row
        for row in operations.group_by("f", "type").agg(pl.col("count", "made").sum()).to_dicts()
    }

    def count(f: F, type_: Type, what: str = "count") -> int:
        return int(done.get((f, type_), {}).get(what, 0))

    ended = {"committed": Type.OK, "aborted": Type.FAIL, "unknown": Type.INFO}
    result.transactions = {name: found for name, type_ in ended.items() if (found := count(F.TXN, type_))}
    over = operations.filter((pl.col("f") == F.TXN) & (pl.col("type") != Type.INFO))
    result.transactions_s = _seconds(over["first_ns"], over["last_ns"])
    result.commits = count(F.COMMIT, Type.OK)
    result.made = count(F.SEND, Type.OK, "made")
    changed = {"created": F.CREATE, "deleted": F.DELETE, "grown": F.GROW}
    result.topics = {name: found for name, f in changed.items() if (found := count(f, Type.OK))}


def _stalls(result: Figures, surveyed: FigureSurvey) -> None:
    """The longest ones; waiting at the end is none where everything was read."""
    missing = result.distinct < result.acknowledged
    counted = surveyed.waits.filter(~pl.col("at_end") | missing)
    ordered = counted.sort(pl.col("since") - pl.col("until"), "since", "process").head(STALLS_AT_MOST)
    result.stalls_count = surveyed.silences[False] + (surveyed.silences[True] if missing else 0)
    result.stalls = [
        Stall(row["process"], row["since"], row["until"] - row["since"], row["at_end"]) for row in ordered.to_dicts()
    ]


def table(places: pl.DataFrame, extents: pl.DataFrame, run: RunContext) -> list[PartitionRow]:
    """A line for each partition."""
    of_place = extents.with_columns(topic_and_partition(pl.col("place")))
    known = places.with_columns(pl.col("topic", "partition").cast(pl.Int32)).join(
        of_place, on=["topic", "partition"], how="left"
    )
    all_read = int(places["read"].sum())
    return [_line(row, all_read, run) for row in known.sort("topic", "partition").to_dicts()]


def _line(row: Mapping[str, Any], all_read: int, run: RunContext) -> PartitionRow:
    first, last = row["first_offset"], row["last_offset"]
    gaps = 0 if first is None else last - first + 1 - row["offsets_read"]
    explained = row["transactional"] or row["topic"] in run.compacted
    return PartitionRow(
        run.topics.get(row["topic"], str(row["topic"])),
        row["partition"],
        **{name: row[name] or 0 for name in COUNTS},
        share=row["read"] / all_read if all_read else 0.0,
        first_offset=first,
        last_offset=last,
        gaps=None if explained else gaps,
        read_finally=row["read_finally"] or 0,
        missing=row["never_read"] or 0,
    )


class FiguresFamily(Family):
    """`others["figures"]` is `FigureSurvey`."""

    name = "figures"
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "ops": ("f", "type", "process", "invoked", "time", "count", "member", "offset"),
        "records": ("process", "topic", "partition", "offset"),
        "exchanges": _OF_BATCHES,
    }  # fmt: skip

    def survey(self, piece: Piece, run: RunContext) -> FigureSurvey:
        """What its tables say."""
        return FigureSurvey.of(piece, run)

    def gather(self, surveys: Sequence[FigureSurvey], run: RunContext, others: ByFamily) -> FigureSurvey:
        """What all of them say."""
        return FigureSurvey.together(surveys) if surveys else FigureSurvey.of(Piece({}, run), run)

    def conclude(
        self, gathered: FigureSurvey, judged: Sequence[Any], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """The summary is `Figures`."""
        counted = others.get("coverage") or CoverageCounts.of(Piece({}, run), run)
        return FamilyResult(summary=figures(places_of(others), counted, gathered, run))


FAMILIES: tuple[Family, ...] = (FiguresFamily(),)
