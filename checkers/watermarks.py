"""Watermarks: what nodes showed of a partition, in real time. What an answer is, is told by `checkers.answers`.

Two answers are in order only when one ended before the other was invoked.

watermark-regression    an answer to Fetch shows a lower high watermark than one that had ended before it was invoked
end-offset-regression   the same for ListOffsets(latest), which clients act on
lso-regression          the same for last stable offsets: of Fetch, and by itself of ListOffsets(latest committed)
log-start-regression    the same for log starts: of Fetch, and by itself of ListOffsets(earliest)
lso-above-hw            an answer shows a high watermark (of ListOffsets: an end) below a last stable offset that an
                        answer of the same sort, Fetch or ListOffsets, had shown and that had ended before it was
                        invoked; or, tagged `one answer`, an answer to Fetch shows a last stable offset above its own
                        high watermark (a broker reads the two one after the other, and the watermark may rise between)
lso-stuck               one node shows one last stable offset under one told leader epoch (none is one, too), with a
                        higher high watermark beside it, in answers to Fetch; and from the end of the first of them to
                        the invocation of the last at least `lso_stuck_s` seconds pass (a limit of the scenario), those
                        left out in which faults lasted, from injection to undoing: more than any transaction is given,
                        for it ends when its coordinator and the leaders of its partitions can be reached. Only where
                        there are transactions.

Followers answer Fetch too, from version 11 on, with a watermark that lags by design, and an exchange does not say who
led. So exchanges are compared node by node (those without one among themselves); only those of an older Fetch, which
followers refuse, that named its leader epoch are compared with answers of all nodes, as probes are.

The question is a running maximum: the highest mark shown by answers that ended before this one was invoked. Each answer
becomes two points on the time line, one that raises the maximum at its `time`, one that asks for it at its `invoked`;
where both fall on one instant the question comes first. A partition may hold most of a history, so time is cut into
chunks: the maximum inside each chunk, a running maximum over the few chunks, then a window inside each chunk.

Whether a fall is a broken promise depends on the leader. Answers of one *era* were given under one leader epoch. An
answer to Fetch tells its epoch for certain where the request could name it, and one to ListOffsets, from version 4 on,
names the epoch of whoever gave it. Otherwise Metadata answers have to do: they show each leader epoch for the first
time at some moment; a rise is the first sight of any epoch but the partition's lowest; an era lies between two rises,
and no rise is within SETTLING_NS of its answers, for nodes do not learn of a leader at one instant and are asked only
every so often. (An answer that tells its epoch and one that does not are of different eras.) A finding is, for one node
that answered too low, tagged

one epoch        an answer of the same era had shown more: no leader change lies between
older epoch      it told an older epoch than the answer that had shown more: a leader that did not know its successor;
                 of lso-stuck: a higher epoch was shown SETTLING_NS after the last answer at the latest
epoch rose       only answers beyond a rise, or close to one, had shown more
epoch unknown    no metadata answer told an epoch of the partition

and `same node` or `across nodes` (or nobody said which), by the answer that had shown more: of those of the same era,
if there are any, the one that had shown most (then that ended last, then that of the highest node). Answers of one sort
(Fetch or ListOffsets), partition, node and set of tags are one finding, with the first moment, the widest fall and the
number of answers. (lso-stuck has a finding for each offset, node and epoch, and no tag but `older epoch`.)

A topic that the workload deletes begins again, and so do its leader epochs. Answers of one of its lives (an era of
`checkers.deletions`) are compared with each other alone; so are those that may belong to two, and what is found among
these is tagged `deleted topic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.answers import FETCH, LIST_OFFSETS, SETTLING_NS, answers, deposed, epochs
from checkers.deletions import UNSURE
from checkers.frame import PLACE, Family, History, Rule, Study, as_findings, seconds, together
from harness.history import F, Kind
from harness.limits import DEFAULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 26, 28

_MARK = ("api", "topic", "partition", "life", "anomaly")
_COMPARED = ("api", "topic", "partition", "life", "scope")  # answers that may be compared with each other
_REGRESSIONS = {FETCH: "watermark-regression", LIST_OFFSETS: "end-offset-regression"}
_ABOVE = "lso-above-hw"
# what an answer raises the mark to, and what is compared with it
_PAIRS = {
    "watermark-regression": ("shown", "shown"),
    "end-offset-regression": ("shown", "shown"),
    "lso-regression": ("stable", "stable"),
    "log-start-regression": ("start", "start"),
    _ABOVE: ("stable", "shown"),
}


def _scanned(history: History) -> DataFrame:
    """One row per answer: what it showed, and the highest of each mark shown before it was invoked."""
    marks = ("shown", "stable", "start")
    nothing, all_marks = (
        ", ".join(f"null as {mark}_mark" for mark in marks),
        ", ".join(f"{m} as {m}_mark" for m in marks),
    )
    points = answers(history).selectExpr(
        *_COMPARED, *marks, f"inline(array(struct(invoked as at, 0 as raises, {nothing}),"
        f" struct(time as at, 1 as raises, {all_marks})))",
    )  # fmt: skip
    names = {f"{mark}_before": f"{mark}_mark" for mark in marks}
    return _with_running_maxima(history, points, names, _COMPARED).where("raises = 0")


def _with_running_maxima(history: History, points: DataFrame, names: dict[str, str], keys: Sequence[str]) -> DataFrame:
    """Add running maxima of columns, up to and including each point, in the order of `at`, questions first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sealed = history.sealed
    chunks = 1 + sum(sealed.rows.get(kind, 0) for kind in (Kind.PROBE, Kind.EXCHANGE)) // history.chunk_rows
    width_ns = max(1, (sealed.last_time_ns - sealed.first_time_ns) // chunks)
    chunked = points.selectExpr("*", f"at div {width_ns} as chunk" if chunks > 1 else "0L as chunk")
    inside = Window.partitionBy(*keys, "chunk").orderBy("at", "raises").rowsBetween(Window.unboundedPreceding, 0)
    scanned = chunked.select("*", *(sql.max(column).over(inside).alias(name) for name, column in names.items()))
    if chunks == 1:
        return scanned.drop("chunk")
    earlier = Window.partitionBy(*keys).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        chunked.groupBy(*keys, "chunk")
        .agg(*(sql.max(column).alias(f"inside_{name}") for name, column in names.items()))
        .select(*keys, "chunk", *(sql.max(f"inside_{name}").over(earlier).alias(f"carried_{name}") for name in names))
    )
    joined = scanned.join(sql.broadcast(carried), [*keys, "chunk"], "left")
    return joined.select(*points.columns, *(sql.greatest(name, f"carried_{name}").alias(name) for name in names))


def _find(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per partition, node and set of tags."""
    from pyspark.sql import functions as sql

    wanted = {rule.anomaly for rule in rules}
    fallen = [_fallen(history, wanted)]
    if _ABOVE in wanted:
        fallen.append(_above_in_one_answer(history))
    worst = (
        together(fallen)
        .groupBy(*_MARK, "node", "same_node", "change")
        .agg(
            sql.count_distinct("answer").alias("answers"),
            sql.min("time").alias("first"),
            sql.expr("max_by(pair, struct(fall, pair.time, pair.event, pair.higher.event))").alias("pair"),
        )
    )

    columns = {
        "anomaly": "anomaly",
        "offset": "pair.shown",
        "nodes": "array_distinct(array(pair.higher.node, node))",
        "time": "first",
        "events": "array_distinct(array(pair.higher.event, pair.event))",
        "tags": "array_compact(array(change,"
        " case when change = 'one answer' then null when same_node then 'same node' else 'across nodes' end,"
        f" if(life = {UNSURE}, 'deleted topic', null)))",
        "severity": "try_subtract(pair.higher.shown, pair.shown)",
        "detail": "format_string('node %d showed %d at %.3f s (leader epoch %s), then node %d showed %d at %.3f s"
        " (leader epoch %s), and so in %d answers', pair.higher.node, pair.higher.shown,"
        f" {seconds(history, 'pair.higher.time')}, coalesce(pair.higher.epoch, 'unknown'), node, pair.shown,"
        f" {seconds(history, 'pair.time')}, coalesce(pair.epoch, 'unknown'), answers)",
    }
    return as_findings(worst, columns)


def _compared(rows: DataFrame, wanted: set[str]) -> DataFrame:
    """A row for each anomaly that an answer may prove: `raised` is what it shows, `shown` what is looked at."""
    sides = ", ".join(
        f"struct('{anomaly}' as anomaly, {raised} as raised, {asked} as asked)"
        for anomaly, (raised, asked) in _PAIRS.items()
        if anomaly in wanted
    )
    wrong = " or ".join(f"(api <> {api} and anomaly = '{anomaly}')" for api, anomaly in _REGRESSIONS.items())
    split = rows.selectExpr("*", f"inline(array({sides}))").drop("shown", "stable", "start")
    return split.where(f"not ({wrong}) and (raised is not null or asked is not null)").withColumnRenamed(
        "asked", "shown"
    )


def _fallen(history: History, wanted: set[str]) -> DataFrame:
    """Answers that showed too little, each with the answer that had shown most, if possible one of the same era."""
    from pyspark.sql import functions as sql

    near = f"e.seen between try_subtract(invoked, {SETTLING_NS}) and try_add(time, {SETTLING_NS})"
    rises = "slice(epochs, 2, size(epochs))"
    told = _compared(answers(history), wanted).join(sql.broadcast(epochs(history)), [*PLACE, "life"], "left")
    with_era = told.selectExpr(
        "*", "coalesce(told, array_max(filter(epochs, e -> e.seen <= invoked)).leader_epoch) as epoch",
        f"coalesce(told, -1 - coalesce(size(filter({rises}, e -> e.seen <= invoked)), 0)) as era",
        f"coalesce(told is null and exists({rises}, e -> {near}), false) as unsettled",
    )  # fmt: skip
    parts = ", ".join(f"{part} as {part}" for part in ("time", "node", "event", "told"))
    answer = f"struct(raised as shown, {parts}, cast(epoch as string) as epoch)"
    keys = (*_COMPARED, "anomaly")
    points = with_era.selectExpr(
        *keys, "answer", "shown", "node", "time", "event", "era", "unsettled", "told",
        "cast(epoch as string) as epoch", "told is not null or epochs is not null as known",
        f"inline(array(struct(invoked as at, 0 as raises, null as mark, null as era_mark), struct(time as at,"
        f" 1 as raises, if(raised is null, null, {answer}) as mark,"
        f" if(unsettled or raised is null, null, {answer}) as era_mark)))",
    )  # fmt: skip
    scanned = _with_running_maxima(history, points, {"highest": "mark"}, keys)
    scanned = _with_running_maxima(history, scanned, {"era_highest": "era_mark"}, (*keys, "era"))
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
            *_MARK, "answer", "node", "time", "change", "coalesce(higher.node = node, false) as same_node",
            "try_subtract(higher.shown, shown) as fall", "struct(shown, time, event, epoch, higher) as pair",
        )
    )  # fmt: skip


def _above_in_one_answer(history: History) -> DataFrame:
    epoch = "cast(told as string) as epoch"
    higher = f"struct(stable as shown, time as time, node as node, event as event, told as told, {epoch}) as higher"
    return answers(history).where(f"api = {FETCH} and stable > shown").selectExpr(
        *_MARK[:-1], f"'{_ABOVE}' as anomaly", "answer", "node", "time", "'one answer' as change", "true as same_node",
        "try_subtract(stable, shown) as fall", f"struct(shown, time, event, {epoch}, {higher}) as pair",
    )  # fmt: skip


WATERMARKS = Family(
    "watermarks",
    _scanned,
    (
        *(
            Rule(anomaly, about, f"api = {api} and shown_before > shown", f"api = {api} and shown_before is not null")
            for api, anomaly, about in (
                (FETCH, _REGRESSIONS[FETCH], "a later answer to Fetch shows a lower high watermark"),
                (LIST_OFFSETS, _REGRESSIONS[LIST_OFFSETS], "a later answer to ListOffsets shows a lower end"),
            )
        ),
        Rule(
            "lso-regression",
            "a later answer shows a lower last stable offset",
            "stable_before > stable",
            "stable_before is not null and stable is not null",
        ),
        Rule(
            "log-start-regression",
            "a later answer shows a lower log start",
            "start_before > start",
            "start_before is not null and start is not null",
        ),
        Rule(
            _ABOVE,
            "a last stable offset above the high watermark",
            f"stable_before > shown or (api = {FETCH} and stable > shown)",
            "shown is not null and (stable_before is not null or stable is not null)",
        ),
    ),
    find=_find,
    needs=lambda history: history.has(Kind.PROBE) or history.has(Kind.EXCHANGE),
)


def _standing(history: History) -> DataFrame:
    """One row per last stable offset that a node showed below its high watermark, and how long it did."""
    from pyspark.sql import functions as sql

    limit_ns = round(history.limits.get("lso_stuck_s", DEFAULTS["lso_stuck_s"]) * 1e9)
    shown = answers(history, every_view=False).where(f"api = {FETCH} and stable >= 0")
    rows = shown.selectExpr("*", "stable < shown as blocked")
    grouped = rows.groupBy(*PLACE, "life", "node", "told", "stable").agg(
        *(
            sql.expr(f"{function} filter (where blocked) as {name}")
            for name, function in (
                ("first", "min(time)"),
                ("last", "max(invoked)"),
                ("first_event", "min_by(event, struct(time, event))"),
                ("last_event", "max_by(event, struct(invoked, event))"),
                ("until", "max(time)"),
                ("highest", "max(shown)"),
            )
        )
    )
    in_faults = " + ".join(
        [
            "0L",
            *(
                f"greatest(0L, try_subtract(least(last, {end}L), greatest(first, {start}L)))"
                for start, end in _in_faults(history)
            ),
        ]
    )
    return grouped.selectExpr(
        "*", f"last > first and try_subtract(last, first) - ({in_faults}) >= {limit_ns} as stands"
    )


def _in_faults(history: History) -> list[tuple[int, int]]:
    """When faults lasted: windows in the order of time, apart from each other."""
    line = history.line
    windows = sorted(window for fault in (line.faults if line else ()) if (window := line and line.window_ns(fault)))
    apart: list[tuple[int, int]] = []
    for start, end in windows:
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def _find_standing(history: History, _: Sequence[Rule]) -> DataFrame:
    from pyspark.sql import functions as sql

    stuck = _standing(history).where("stands").join(sql.broadcast(epochs(history)), [*PLACE, "life"], "left")
    older = f"coalesce({deposed('told', 'last')}, false)"
    columns = {
        "anomaly": "'lso-stuck'",
        "offset": "stable",
        "nodes": "array_compact(array(node))",
        "time": "first",
        "until": "until",
        "events": "array_distinct(array(first_event, last_event))",
        "tags": f"array_compact(array(if({older}, 'older epoch', null), if(life = {UNSURE}, 'deleted topic', null)))",
        "severity": "try_subtract(last, first)",
        "detail": "format_string('node %d showed the last stable offset %d for %.1f s, and high watermarks up to %d',"
        " node, stable, (cast(last as double) - cast(first as double)) / 1e9, highest)",
    }
    return as_findings(stuck, columns)


def _transactions(history: History) -> bool:
    asked = history.asks(ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT)
    return (asked or history.does(F.TXN)) and (history.has(Kind.PROBE) or history.has(Kind.EXCHANGE))


STANDING = Family(
    "standing transactions",
    _standing,
    (
        Rule(
            "lso-stuck",
            "a last stable offset that stands still for longer than a transaction may take",
            "stands",
            "first is not null",
        ),
    ),
    find=_find_standing,
    needs=_transactions,
)


def find_watermark_regressions(history: History) -> DataFrame:
    """Answers to Fetch that show a lower high watermark than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("watermark-regression"))


def find_end_offset_regressions(history: History) -> DataFrame:
    """Answers to ListOffsets that show a lower end than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("end-offset-regression"))


def find_lso_regressions(history: History) -> DataFrame:
    """Answers that show a lower last stable offset than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("lso-regression"))


def find_log_start_regressions(history: History) -> DataFrame:
    """Answers that show a lower log start than an answer before them."""
    return WATERMARKS.findings(history, WATERMARKS.of("log-start-regression"))


def find_lso_above_hw(history: History) -> DataFrame:
    """Last stable offsets above the high watermark."""
    return WATERMARKS.findings(history, WATERMARKS.of(_ABOVE))


def find_lso_stuck(history: History) -> DataFrame:
    """Last stable offsets that stood still for too long."""
    return STANDING.findings(history)


FAMILIES: tuple[Family, ...] = (WATERMARKS, STANDING)
STUDIES: tuple[Study, ...] = ()
