"""Watermarks: what nodes showed of a partition, in real time.

An *answer* is a response without an error, to a probe or to anybody's request that passed the tap and was answered. It
was given somewhere between `invoked` (its request left) and `time` (its response was there). Two answers are in order
only when one ended before the other was invoked.

watermark-regression    an answer to Fetch shows a lower high watermark than one that had ended before it was invoked
end-offset-regression   the same for ListOffsets(latest), which clients act on

Followers answer Fetch too, from version 11 on, with a watermark that lags by design, and an exchange does not say who
led. So exchanges are compared node by node; only those of an older Fetch, which followers refuse, that named its leader
epoch are compared with answers of all nodes, as probes are.

The question is a running maximum: the highest mark shown by answers that ended before this one was invoked. Each answer
becomes two points on the time line, one that raises the maximum at its `time`, one that asks for it at its `invoked`;
where both fall on one instant the question comes first. A partition may hold most of a history, so time is cut into
chunks: the maximum inside each chunk, a running maximum over the few chunks, then a window inside each chunk.

Whether a fall is a broken promise depends on the leader. Answers of one *era* were given under one leader epoch. An
answer to Fetch tells its epoch for certain where the request could name it, and one to ListOffsets, from version 4 on,
names the epoch of whoever gave it. Otherwise Metadata answers have to do: they
show each leader epoch for the first time at some moment; a rise is the first sight of any epoch but the partition's
first; an era lies between two rises, and no rise is within SETTLING_NS of its answers, for nodes do not learn of a
leader at one instant and are asked only every so often. A finding is, for one node that answered too low, tagged

one epoch        an answer of the same era had shown more: no leader change lies between
older epoch      it told an older epoch than the answer that had shown more: a leader that did not know its successor
epoch rose       only answers beyond a rise, or close to one, had shown more
epoch unknown    no metadata answer told an epoch of the partition

and `same node` or `across nodes`, by the answer that had shown more. Answers of one partition, node and set of tags are
one finding, with the first moment, the widest fall and the number of answers.

A topic that the workload deletes begins again, and so do its leader epochs. Answers of one of its lives (an era of
`checkers.deletions`) are compared with each other alone; so are those that may belong to two, and what is found among
these is tagged `deleted topic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import FINDING, PLACE, Family, History, Rule, Study, together
from harness.history import Kind, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTLING_NS = 2_000_000_000
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3

FETCH_OF_FOLLOWERS = 11  # the first version that they answer

_MARK = ("api", "topic", "partition", "life")
_COMPARED = (*_MARK, "scope")  # answers that may be compared with each other
_EVERYWHERE = -(1 << 40)  # the scope of answers of all nodes; others have their node as their scope
_REGRESSIONS = {FETCH: "watermark-regression", LIST_OFFSETS: "end-offset-regression"}
_FELL = "before > shown"


def answers(history: History) -> DataFrame:
    """One row per answer: what it showed, and the highest mark shown before it was invoked."""
    points = _answers(history).selectExpr(
        *_COMPARED, "shown", "inline(array(struct(invoked as at, 0 as raises, null as mark),"
        " struct(time as at, 1 as raises, shown as mark)))",
    )  # fmt: skip
    return _with_running_maximum(history, points, "before", "mark").where("raises = 0")


def _answers(history: History) -> DataFrame:
    """Answers that show a mark."""
    life = history.deletions.era("invoked", "time")
    frames = [_marks(history.probes, f"{_EVERYWHERE}L", "event", life)]
    if history.has(Kind.EXCHANGE):
        led = f"api = {FETCH} and api_version < {FETCH_OF_FOLLOWERS} and leader_epoch is not null"
        scope = f"if({led}, {_EVERYWHERE}L, coalesce(node, -1))"
        # a Fetch has a row for each batch: its number makes one answer of them
        frames.append(_marks(_exchanges(history), scope, "coalesce(op, event)", life))
    return together(frames)


def _marks(rows: DataFrame, scope: str, answer: str, life: str) -> DataFrame:
    return rows.where(f"error = 0 and (api = {FETCH} or (api = {LIST_OFFSETS} and view = {View.LATEST:d}))").selectExpr(
        "api", *PLACE, f"{life} as life", f"cast({scope} as bigint) as scope", f"{answer} as answer", "node",
        "invoked", "time", "event", f"if(api = {FETCH}, high_watermark, offset) as shown",
        "if(leader_epoch >= 0, leader_epoch, null) as told",
    ).where("shown is not null")  # fmt: skip


def _exchanges(history: History) -> DataFrame:
    """What clients were told of a partition."""
    told = f"type = {Type.OK:d} and topic is not null and partition is not null"
    return history.kind(Kind.EXCHANGE).where(told)


def _with_running_maximum(
    history: History, points: DataFrame, name: str, column: str, keys: Sequence[str] = _COMPARED
) -> DataFrame:
    """Add the running maximum of a column, up to and including each point, in the order of `at`, questions first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sealed = history.sealed
    chunks = 1 + sum(sealed.rows.get(kind, 0) for kind in (Kind.PROBE, Kind.EXCHANGE)) // history.chunk_rows
    width_ns = max(1, (sealed.last_time_ns - sealed.first_time_ns) // chunks)
    chunked = points.selectExpr("*", f"at div {width_ns} as chunk" if chunks > 1 else "0L as chunk")
    inside = Window.partitionBy(*keys, "chunk").orderBy("at", "raises").rowsBetween(Window.unboundedPreceding, 0)
    scanned = chunked.select("*", sql.max(column).over(inside).alias(name))
    if chunks == 1:
        return scanned.drop("chunk")
    earlier = Window.partitionBy(*keys).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        chunked.groupBy(*keys, "chunk")
        .agg(sql.max(column).alias("highest_inside"))
        .select(*keys, "chunk", sql.max("highest_inside").over(earlier).alias("carried"))
    )
    joined = scanned.join(sql.broadcast(carried), [*keys, "chunk"], "left")
    return joined.select(*points.columns, sql.greatest(name, "carried").alias(name))


def _find(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per partition, node and set of tags."""
    from pyspark.sql import functions as sql

    wanted = [str(api) for api, anomaly in _REGRESSIONS.items() if any(rule.anomaly == anomaly for rule in rules)]
    fallen = _fallen(history).where(f"api in ({', '.join(wanted)})")
    worst = fallen.groupBy(*_MARK, "node", "same_node", "change").agg(
        sql.count_distinct("answer").alias("answers"),
        sql.min("time").alias("first"),
        sql.expr("max_by(pair, fall)").alias("pair"),
    )

    def seconds(time: str) -> str:
        return f"(cast({time} as double) - {history.sealed.first_time_ns}D) / 1e9"

    names = " ".join(f"when {api} then '{anomaly}'" for api, anomaly in _REGRESSIONS.items())
    columns = {
        "anomaly": f"case api {names} end",
        "offset": "pair.shown",
        "processes": "array()",
        "nodes": "array_distinct(array(pair.higher.node, node))",
        "time": "first",
        "events": "array(pair.higher.event, pair.event)",
        "tags": "array_compact(array(change, if(same_node, 'same node', 'across nodes'),"
        f" if(life = {UNSURE}, 'deleted topic', null)))",
        "severity": "try_subtract(pair.higher.shown, pair.shown)",
        "detail": "format_string('node %d showed %d at %.3f s (leader epoch %s), then node %d showed %d at %.3f s"
        " (leader epoch %s), and so in %d answers', pair.higher.node, pair.higher.shown,"
        f" {seconds('pair.higher.time')}, coalesce(pair.higher.epoch, 'unknown'), node, pair.shown,"
        f" {seconds('pair.time')}, coalesce(pair.epoch, 'unknown'), answers)",
    }
    return worst.selectExpr(
        *(f"cast({columns.get(name, default)} as {type_}) as `{name}`" for name, (type_, default) in FINDING.items())
    )


def _fallen(history: History) -> DataFrame:
    """Answers that showed too little, each with the answer that had shown most, if possible one of the same era."""
    from pyspark.sql import functions as sql

    near = f"e.seen between try_subtract(invoked, {SETTLING_NS}) and try_add(time, {SETTLING_NS})"
    rises = "slice(epochs, 2, size(epochs))"
    told = _answers(history).join(sql.broadcast(_epochs(history)), [*PLACE, "life"], "left")
    with_era = told.selectExpr(
        "*", "coalesce(told, array_max(filter(epochs, e -> e.seen <= invoked)).leader_epoch) as epoch",
        f"coalesce(told, -1 - coalesce(size(filter({rises}, e -> e.seen <= invoked)), 0)) as era",
        f"coalesce(told is null and exists({rises}, e -> {near}), false) as unsettled",
    )  # fmt: skip
    parts = ["shown", "time", "node", "event", "told"]
    answer = f"struct({', '.join(f'{part} as {part}' for part in parts)}, cast(epoch as string) as epoch)"
    points = with_era.selectExpr(
        *_COMPARED, "answer", "shown", "node", "time", "event", "era", "unsettled", "told",
        "cast(epoch as string) as epoch", "told is not null or epochs is not null as known",
        f"inline(array(struct(invoked as at, 0 as raises, null as mark, null as era_mark), struct(time as at,"
        f" 1 as raises, {answer} as mark, if(unsettled, null, {answer}) as era_mark)))",
    )  # fmt: skip
    scanned = _with_running_maximum(history, points, "highest", "mark")
    scanned = _with_running_maximum(history, scanned, "era_highest", "era_mark", (*_COMPARED, "era"))
    in_era = "coalesce(not unsettled and era_highest.shown > shown, false)"
    return (
        scanned.where("raises = 0 and highest.shown > shown")
        .selectExpr(
            *_MARK, "answer", "node", "time", "shown", "event", "epoch",
            f"if({in_era}, era_highest, highest) as higher",
            f"case when not known then 'epoch unknown' when {in_era} then 'one epoch'"
            " when highest.told > told then 'older epoch' else 'epoch rose' end as change",
        )
        .selectExpr(
            *_MARK, "answer", "node", "time", "change", "higher.node = node as same_node",
            "try_subtract(higher.shown, shown) as fall", "struct(shown, time, event, epoch, higher) as pair",
        )
    )  # fmt: skip


def _epochs(history: History) -> DataFrame:
    """Per partition and life its leader epochs in rising order, each with the moment at which it was shown first."""
    from pyspark.sql import functions as sql

    frames = [history.probes, *([_exchanges(history)] if history.has(Kind.EXCHANGE) else [])]
    shown = f"api = {METADATA} and error = 0 and leader_epoch >= 0"
    columns = (*PLACE, f"{history.deletions.era('invoked', 'time')} as life", "leader_epoch", "time")
    return (
        together([frame.where(shown).selectExpr(*columns) for frame in frames])
        .groupBy(*PLACE, "life", "leader_epoch")
        .agg(sql.min("time").alias("seen"))
        .groupBy(*PLACE, "life")
        .agg(sql.expr("array_sort(collect_list(struct(leader_epoch, seen)))").alias("epochs"))
    )


WATERMARKS = Family(
    "watermarks",
    answers,
    tuple(
        Rule(anomaly, about, f"api = {api} and {_FELL}", f"api = {api} and before is not null")
        for api, anomaly, about in (
            (FETCH, _REGRESSIONS[FETCH], "a later answer to Fetch shows a lower high watermark"),
            (LIST_OFFSETS, _REGRESSIONS[LIST_OFFSETS], "a later answer to ListOffsets shows a lower end"),
        )
    ),
    find=_find,
    needs=lambda history: history.has(Kind.PROBE) or history.has(Kind.EXCHANGE),
)


def find_watermark_regressions(history: History) -> DataFrame:
    """Answers to Fetch that show a lower high watermark than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("watermark-regression"))


def find_end_offset_regressions(history: History) -> DataFrame:
    """Answers to ListOffsets that show a lower end than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("end-offset-regression"))


FAMILIES: tuple[Family, ...] = (WATERMARKS,)
STUDIES: tuple[Study, ...] = ()
