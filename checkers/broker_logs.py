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

Lines are cut at LINE_CHARACTERS, so that no pattern meets a line that it never ends with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from checkers.frame import PLACE, Family, History, Studied, Study, together
from harness.history import Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STALL_S = 5.0
BEHIND = 0.9  # of what was acknowledged
LINE_CHARACTERS = 4_000
TOLD_AT_MOST = 200
COLUMNS = {"topic": "string", "partition": "int", "offset": "bigint", "high_watermark": "bigint", "leader_epoch": "int"}
_GROUP = re.compile(r"\(\?P<\w+>")
_STAMP = r"^\D{0,3}(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d:?\d\d)?"
_DAY_NS = 86_400_000_000_000


@dataclass(frozen=True)
class Logs:
    """Where the logs of a run are and how to read them."""

    files: Mapping[int, str] = field(default_factory=dict)  # a path by node
    patterns: Mapping[str, str] = field(default_factory=dict)
    monotonic_ns: int = 0  # one moment on both clocks
    wall_ns: int = 0
    utc_offset_s: int = 0  # of times without a zone

    def __bool__(self) -> bool:
        return bool(self.files and self.patterns)


def events(history: History) -> DataFrame:
    """One row per line that means something: node, name, time, topic, partition, offset, high_watermark and so on."""
    frames = [_parsed(history, history.logs)] if history.logs else []
    if history.has(Kind.BROKER):
        names = ", ".join(f"`{name}`" for name in COLUMNS)
        frames.append(history.kind(Kind.BROKER).selectExpr("node", "name", "time", *names.split(", "), "detail"))
    return together(frames)


def _parsed(history: History, logs: Logs) -> DataFrame:
    from pyspark.sql import functions as sql

    lines = together(
        [
            history.spark.read.text(path).select(
                sql.lit(node).alias("node"), sql.substring("value", 1, LINE_CHARACTERS).alias("line")
            )
            for node, path in sorted(logs.files.items())
        ]
    )
    meanings = [_meaning(name, pattern) for name, pattern in logs.patterns.items()]
    found = lines.select("node", "line", sql.explode(sql.array_compact(sql.array(*meanings))).alias("found"))
    stamped = found.select("node", "found.*", sql.col("line").alias("detail"), *_stamp())
    with_time = stamped.selectExpr("*", f"{_time(logs)} as time")
    topics = history.spark.createDataFrame(list(history.sealed.topics.items()), "number int, called string")
    only = next(iter(history.sealed.topics)) if len(history.sealed.topics) == 1 else None
    return (
        with_time.join(sql.broadcast(topics), sql.col("topic") == sql.col("called"), "left")
        .withColumn("topic", sql.expr(f"if(topic is null, {'null' if only is None else only}, number)").cast("int"))
        .select("node", "name", "time", *COLUMNS, "detail")
    )


def _meaning(name: str, pattern: str) -> Column:
    """What the line says if it matches; Java has no such names for groups as Python, so that they go by number."""
    from pyspark.sql import functions as sql

    numbers = re.compile(pattern).groupindex
    plain = _GROUP.sub("(", pattern)
    columns = [sql.lit(name).alias("name")]
    for column, type_ in COLUMNS.items():
        if column in numbers:
            text = sql.regexp_extract("line", plain, numbers[column])
            value = sql.nullif(text, sql.lit("")) if type_ == "string" else text.try_cast(type_)
        else:
            value = sql.lit(None).cast(type_)
        columns.append(value.alias(column))
    return sql.when(sql.col("line").rlike(plain), sql.struct(*columns))


def _stamp() -> list[Column]:
    from pyspark.sql import functions as sql

    return [
        sql.nullif(sql.regexp_extract("line", _STAMP, number), sql.lit("")).alias(name)
        for number, name in enumerate(("date", "clock", "fraction", "zone"), start=1)
    ]


def _time(logs: Logs) -> str:
    """SQL: the time of the line as events have it; without a date, of the day on which the run began or the next."""
    here = timezone(timedelta(seconds=logs.utc_offset_s))
    began = datetime.fromtimestamp(logs.wall_ns // 10**9, here).isoformat()
    zone = (
        "case when zone = 'Z' then '+00:00'"
        " when length(zone) = 5 then concat(left(zone, 3), ':', right(zone, 2)) else zone end"
    )
    text = f"concat(coalesce(date, '{began[:10]}'), ' ', clock, coalesce({zone}, '{began[19:]}'))"
    whole = f"unix_seconds(try_to_timestamp({text}, 'yyyy-MM-dd HH:mm:ssXXX')) * 1000000000L"
    since = f"{whole} + cast(rpad(coalesce(fraction, '0'), 9, '0') as bigint) - {logs.wall_ns}L"
    return f"{since} + if(date is null and {since} < -{_DAY_NS // 2}L, {_DAY_NS}L, 0L) + {logs.monotonic_ns}L"


def signs(history: History) -> DataFrame:
    """One row per partition that stood still by what the logs say: class, since, until, at (an offset), lines."""
    limit_ns = int(history.limits.get("stall_s", STALL_S) * 1e9)
    lines = events(history).where("topic is not null and partition is not null and time is not null")
    at = lines.groupBy(*PLACE, "name", "offset", "high_watermark").agg(
        *_exprs("count(*) as lines", "min(time) as since", "max(time) as until")
    )
    acked = (
        history.sends.where(f"type = {Type.OK:d} and offset >= 0").groupBy(*PLACE).agg(*_exprs("max(offset) as acked"))
    )
    spans = _spans(at).join(acked, [*PLACE], "left")
    query = f"""
        select topic, partition, class, inline(array(case class when 1 then frozen when 2 then hung else slow end))
        from (
            select *, case
                when frozen.until - frozen.since >= {limit_ns} and acked >= frozen.at then 1
                when hung.until - hung.since >= {limit_ns} then 2
                when slow.at < {BEHIND} * acked and best >= {BEHIND} then 3 end as class
            from (select *, max(slow.at / acked) over () as best from {{spans}}))
        where class is not null"""  # noqa: S608 - of constants, not of data
    return history.spark.sql(query, spans=spans)


def _spans(at: DataFrame) -> DataFrame:
    """Per partition: where its watermark stood last, where a Fetch had data and was not answered, how far they got."""
    answered = "name = 'fetch-success'"
    got = f"max(if({answered}, offset, null))"
    marks = "name in ('no-data', 'watermark') and high_watermark is not null"
    by_place = at.groupBy(*PLACE).agg(
        *_exprs(f"{got} as got", f"max(if({marks}, high_watermark, null)) as mark", "max(until) as ended")
    )
    frozen, hung = (f"{marks} and high_watermark = mark", "name = 'data-available' and coalesce(offset > got, true)")

    def span(condition: str, place: str, until: str) -> str:
        since, count = (f"{each} filter (where {condition})" for each in ("min(since)", "sum(lines)"))
        return f"struct({since} as since, {until} as until, {place} as at, {count} as lines)"

    return (
        at.join(by_place, [*PLACE])
        .groupBy(*PLACE)
        .agg(
            *_exprs(
                f"{span(frozen, 'max(mark)', f'max(until) filter (where {frozen})')} as frozen",
                f"{span(hung, f'min(offset) filter (where {hung})', 'max(ended)')} as hung",
                f"{span(answered, 'max(got)', 'max(ended)')} as slow",
            )
        )
    )


def _exprs(*expressions: str) -> list[Column]:
    from pyspark.sql import functions as sql

    return [sql.expr(expression) for expression in expressions]


def _study(history: History, limit: int) -> Studied:
    """How many lines of each name every node wrote, and where the logs say that a partition stood still."""
    counted = (
        events(history)
        .groupBy("node", "name")
        .agg(*_exprs("count(*) as lines", "min(time) as first_ns", "max(time) as last_ns"))
        .orderBy("node", "name")
        .limit(TOLD_AT_MOST)
    )
    names = history.sealed.topics
    still: list[dict[str, Any]] = [
        row.asDict() | {"topic": names.get(row["topic"], str(row["topic"]))}
        for row in signs(history).orderBy("since").limit(limit).collect()
    ]
    return Studied(summary={"lines": [row.asDict() for row in counted.collect()], "stood_still": still})


FAMILIES: tuple[Family, ...] = ()
STUDIES: tuple[Study, ...] = (
    Study("broker logs", {}, _study, needs=lambda history: bool(history.logs) or history.has(Kind.BROKER)),
)
