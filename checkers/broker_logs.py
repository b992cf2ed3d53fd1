"""Broker logs: what a product's own log lines say, read by the patterns of its target file (docs/targets.md).

A pattern is a regular expression with named groups; a line that it matches is an event of its name, at the time that
the line begins with, if it has one. Groups that mean something here: topic, partition, offset, high_watermark,
leader_epoch. A line without a topic is of the run's only topic, if there is but one. Everything else of a line stays
text. The names that are understood:

watermark        the node's high watermark of a partition
no-data          a Fetch at `offset` finds nothing below the high watermark, and waits
data-available   a Fetch at `offset` has something to return
fetch-success    a Fetch at `offset` was answered with records

Others (leader, truncated, …) are counted and told. Logs are a product's opinion of itself: no finding rests on them.
They tell the class of a stall where neither a tap nor a probe saw it:

1   no-data or watermark lines show one and the same high watermark for the limit of a stall or longer, the highest of
    the partition, and an offset at or above it was acknowledged: the watermark does not advance
2   data-available for an offset, for the limit or longer before the partition's last line, and no fetch-success at that
    offset or above it: the Fetch hangs
3   neither, and the Fetches that succeeded got to less than nine tenths of what was acknowledged, while those of
    another partition got further than that: the partition is behind

Lines are cut at LINE_CHARACTERS, so that no pattern meets a line that it never ends with. The files of a run are read
where its check was started; lines of histories that were imported with them are events like others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar, Self

import polars as pl

from checkers.core.family import ByFamily, Family, FamilyResult
from checkers.core.piece import Piece
from checkers.core.run import RunContext
from harness.history.schema import Kind, Type

BEHIND = 0.9  # of what was acknowledged
LINE_CHARACTERS = 4_000
TOLD_AT_MOST = 200
PLACE = ("topic", "partition")
NUMBERS = {"partition": pl.Int32, "offset": pl.Int64, "high_watermark": pl.Int64, "leader_epoch": pl.Int32}
LINES = {"node": pl.Int32, "name": pl.String, "time": pl.Int64, "topic": pl.Int32, **NUMBERS}
ANY, MARK, AVAILABLE, ANSWERED = range(4)  # what a line says of its partition
_STAMP = (
    r"^\D{0,3}(?:(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T])?(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))? ?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS
_SECONDS_AT_MOST = (1 << 62) // _SECOND_NS  # as nanoseconds they are still a number
_READ_AT_ONCE = 1 << 26  # characters of a file


@dataclass(frozen=True)
class BrokerLogFiles:
    """Where the logs of a run are and how to read them."""

    files: Mapping[int, str] = field(default_factory=dict)  # a path by node
    patterns: Mapping[str, str] = field(default_factory=dict)
    monotonic_ns: int = 0  # one moment on both clocks
    wall_ns: int = 0
    utc_offset_s: int = 0  # of times without a zone

    def __bool__(self) -> bool:
        return bool(self.files and self.patterns)


@dataclass(frozen=True)
class LogSigns:
    """What lines say; those of several sources can be put together."""

    counts: pl.DataFrame  # by node and name
    places: pl.DataFrame  # by partition, and by what is said `at` which offset or watermark

    @classmethod
    def of(cls, lines: pl.DataFrame) -> Self:
        """From lines that mean something."""
        counts = lines.group_by("node", "name").agg(
            lines=pl.len().cast(pl.Int64), first_ns=pl.col("time").min(), last_ns=pl.col("time").max()
        )
        return cls(counts, _kept(_signs(lines)))

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of all sources."""
        counts = pl.concat([part.counts for part in parts]).group_by("node", "name").agg(
            pl.col("lines").sum(), pl.col("first_ns").min(), pl.col("last_ns").max()
        )  # fmt: skip
        return cls(counts, _kept(pl.concat([part.places for part in parts])))


class BrokerLogs(Family):
    """How many lines of each name every node wrote, and where the logs say that a partition stood still."""

    name = "broker logs"
    reads: ClassVar[Mapping[str, Sequence[str]]] = {
        "sends": ("type", "topic", "partition", "offset"),
        "broker": ("time", "process", "node", "name", "topic", "partition", "offset", "high_watermark"),
    }

    def needs(self, run: RunContext) -> bool:
        """Whether there are any."""
        return bool(run.logs) or run.has(Kind.BROKER)

    def survey(self, piece: Piece, run: RunContext) -> tuple[LogSigns, pl.DataFrame]:
        """Of lines that were imported, and of what was acknowledged; files are read later."""
        acked = piece.sends.filter(pl.col("type") == Type.OK, pl.col("offset") >= 0)
        return LogSigns.of(piece["broker"]), acked.group_by(PLACE).agg(acked=pl.col("offset").max())

    def gather(
        self, surveys: Sequence[tuple[LogSigns, pl.DataFrame]], run: RunContext, others: ByFamily
    ) -> dict[str, Any]:
        """What results.json tells."""
        parts = [*surveys, self.survey(Piece({}, run), run)]
        of_files = [LogSigns.of(lines) for lines in lines_of(run.logs, run.topics)] if run.logs else []
        said = LogSigns.together([*(part for part, _ in parts), *of_files])
        acked = pl.concat([most for _, most in parts]).group_by(PLACE).agg(pl.col("acked").max())
        still = stood_still(said.places, acked, run.limit_ns("stall_s")).head(run.limit)
        return {
            "lines": said.counts.sort("node", "name").head(TOLD_AT_MOST).to_dicts(),
            "stood_still": [
                row | {"topic": run.topics.get(row["topic"], str(row["topic"]))} for row in still.to_dicts()
            ],
        }

    def conclude(
        self, gathered: dict[str, Any], judged: Sequence[object], run: RunContext, others: ByFamily
    ) -> FamilyResult:
        """No findings."""
        return FamilyResult(summary=gathered)


def lines_of(logs: BrokerLogFiles, topics: Mapping[int, str]) -> Iterator[pl.DataFrame]:
    """Lines of files that mean something, as tables."""
    numbers = pl.DataFrame(
        [(name, number) for number, name in topics.items()],
        schema={"called": pl.String, "topic": pl.Int32}, orient="row",
    )  # fmt: skip
    only = pl.lit(next(iter(topics)) if len(topics) == 1 else None, pl.Int32)
    for node, path in sorted(logs.files.items()):
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            while lines := file.readlines(_READ_AT_ONCE):
                text = pl.Series("line", lines).str.strip_suffix("\n").str.head(LINE_CHARACTERS)
                matched = pl.concat(_matched(text, name, pattern) for name, pattern in logs.patterns.items())
                timed = matched.with_columns(_times(matched["line"], logs), node=pl.lit(node, pl.Int32))
                topic = pl.when(pl.col("called").is_null()).then(only).otherwise("topic")
                yield timed.join(numbers, on="called", how="left").with_columns(topic=topic).select(*LINES)


def _matched(text: pl.Series, name: str, pattern: str) -> pl.DataFrame:
    """Lines that match a pattern, with what its groups hold; the topic by its name (`called`)."""
    try:
        lines = text.filter(text.str.contains(pattern))
    except pl.exceptions.ComputeError as error:  # Python compiled it, but it also knows what takes exponential time
        raise ValueError(f"the pattern '{name}' looks around or back, which is not supported") from error
    groups = re.compile(pattern).groupindex
    held = lines.str.extract_groups(pattern).struct if groups else None
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, len(lines))
    of = {group: held.field(group) if held and group in groups else nothing for group in ("topic", *NUMBERS)}
    return lines.to_frame().with_columns(
        pl.lit(name).alias("name"),
        of["topic"].set(of["topic"] == "", None).alias("called"),
        *(of[group].cast(type_, strict=False).alias(group) for group, type_ in NUMBERS.items()),
    )


def _times(lines: pl.Series, logs: BrokerLogFiles) -> pl.Series:
    """The times of lines as events have them; without a date, of the day on which the run began or the next."""
    here = timezone(timedelta(seconds=logs.utc_offset_s))
    began = datetime.fromtimestamp(logs.wall_ns // _SECOND_NS, here).isoformat()
    date, zone = pl.col("date").fill_null(began[:10]), pl.col("zone").replace("Z", "+00:00").fill_null(began[19:])
    text = pl.concat_str(date, pl.lit(" "), "clock", pl.lit(" "), zone)
    seconds = text.str.to_datetime("%Y-%m-%d %H:%M:%S %z", time_unit="us", strict=False).dt.epoch("s")
    whole = pl.when(seconds.abs() < _SECONDS_AT_MOST).then(seconds) * _SECOND_NS
    since = whole + pl.col("fraction").fill_null("0").str.pad_end(9, "0").cast(pl.Int64) - logs.wall_ns
    is_of_next_day = pl.col("date").is_null() & (pl.col("since") < -_DAY_NS // 2)
    day = pl.when(is_of_next_day).then(_DAY_NS).otherwise(0)
    stamps = lines.str.extract_groups(_STAMP).struct.unnest()
    return stamps.with_columns(since=since).select(time=pl.col("since") + day + logs.monotonic_ns).to_series()


def _signs(lines: pl.DataFrame) -> pl.DataFrame:
    """What lines say of a partition, a row for each."""
    placed = lines.filter(pl.col(name).is_not_null() for name in (*PLACE, "time"))

    def said(what: int, at: pl.Expr, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(
            *PLACE, what=pl.lit(what), at=at, since="time", until="time", lines=pl.lit(1, pl.Int64)
        )  # fmt: skip

    of_marks = pl.col("name").is_in(["no-data", "watermark"]) & pl.col("high_watermark").is_not_null()
    return pl.concat([
        said(ANY, pl.lit(None, pl.Int64), placed),
        said(MARK, pl.col("high_watermark"), placed.filter(of_marks)),
        said(AVAILABLE, pl.col("offset"), placed.filter(pl.col("name") == "data-available")),
        said(ANSWERED, pl.col("offset"), placed.filter(pl.col("name") == "fetch-success")),
    ])  # fmt: skip


def _kept(signs: pl.DataFrame) -> pl.DataFrame:
    """What counts: the highest watermark, how far answers got, and what is available above that."""
    answered = pl.col("what") == ANSWERED
    got = pl.col("at").filter(answered).max().over(PLACE)
    mark = pl.col("at").filter(pl.col("what") == MARK).max().over(PLACE)
    counts = (
        (pl.col("what") == ANY)
        | answered
        | ((pl.col("what") == MARK) & (pl.col("at") == mark))
        | ((pl.col("what") == AVAILABLE) & (pl.col("at") > got).fill_null(value=True))
    )
    kept = signs.filter(counts).with_columns(at=pl.when(answered).then(got).otherwise("at"))
    return kept.group_by(*PLACE, "what", "at").agg(
        pl.col("since").min(), pl.col("until").max(), pl.col("lines").sum()
    )  # fmt: skip


def stood_still(places: pl.DataFrame, acked: pl.DataFrame, limit_ns: int) -> pl.DataFrame:
    """A row per partition that stood still by what the logs say: class, since, until, at (an offset), lines."""
    ended = places.filter(pl.col("what") == ANY).select(*PLACE, "until")
    columns = (*PLACE, "class", "since", "until", "at", "lines")
    known = places.join(acked, on=PLACE, how="left")
    long = pl.col("until") - pl.col("since") >= limit_ns
    frozen = known.filter(pl.col("what") == MARK, long, pl.col("acked") >= pl.col("at"))
    available = known.filter(pl.col("what") == AVAILABLE).group_by(PLACE)
    hung = available.agg(pl.col("since", "at").min(), pl.col("lines").sum()).join(ended, on=PLACE).filter(long)
    answered = known.filter(pl.col("what") == ANSWERED).drop("until").join(ended, on=PLACE)
    share = pl.col("at") / pl.when(pl.col("acked") > 0).then("acked")
    slow = answered.filter(share < BEHIND, share.max() >= BEHIND)
    classes = [rows.with_columns(**{"class": pl.lit(number)}).select(columns)
               for number, rows in enumerate((frozen, hung, slow), start=1)]  # fmt: skip
    return pl.concat(classes).unique(PLACE, keep="first", maintain_order=True).sort("since", *PLACE)


FAMILIES: tuple[Family, ...] = (BrokerLogs(),)
