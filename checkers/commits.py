"""Committed offsets: what a group answers about its commits.

A group is a name: `name` of an operation, `detail` of an exchange. Events without a group, a topic or a partition are
left out, and so are topics that the workload deleted: their offsets go with them.

A *commit* is a COMMIT operation or an OffsetCommit exchange (api 8), with an offset >= 0. It is
*acknowledged* if the operation is `ok`, or if the exchange has type 1 and error 0. It *may have happened* from its
`invoked` on: until its `time` if it was acknowledged, else for ever; unless its operation is `fail`, or its exchange
has type 2. A TxnOffsetCommit exchange (api 28, not of type 2) may have happened for ever, and is never acknowledged:
the operations say how its transaction ended. An *answer* is a COMMITTED operation that is `ok`, or an OffsetFetch
exchange (api 9) with type 1 and error 0, with an offset; below 0 is none. The *last* commit before an answer is, of
those acknowledged with `time` < the answer's `invoked`, the one with the latest `invoked` (then the highest offset,
then the latest `time` and event).

committed-offset-vanished     the answer is none, and there is a last commit before it
committed-offset-regression   the answer is below the last commit, and whatever commit of that very offset may have
                              happened (`invoked` <= the answer's `time`) had ended before the last one was `invoked`:
                              so somebody who goes back on purpose, or late, explains it. What was committed without a
                              trace, by a client that was killed, is above the last commit or was before it

Findings of one group, place and set of tags are one, with their number. Tagged `transaction`: the last commit was an
operation in a transaction, and the answer one that need not wait for its end (an exchange, or an operation of a process
that reads what is not committed); such an end is acknowledged before it is seen everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.frame import (
    PLACE,
    Family,
    History,
    Rule,
    Study,
    aggregate,
    as_findings,
    seconds,
    together,
    writers,
)
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT = 8, 9, 28
FOR_EVER = (1 << 63) - 1
GROUP = ("group", *PLACE)
_NAMED = "group is not null and topic is not null and partition is not null"


def operations(history: History, *functions: F) -> DataFrame:
    """Completions of members, with their group."""
    wanted = ", ".join(f"{f:d}" for f in functions)
    found = history.completions.where(f"f in ({wanted})").selectExpr("*", "name as group")
    return found.where(f"{_NAMED} and {history.deletions.untouched()}")


def _exchanges(history: History, *apis: int) -> DataFrame:
    found = history.kind(Kind.EXCHANGE).where(f"api in ({', '.join(map(str, apis))})")
    return found.selectExpr("*", "detail as group").where(f"{_NAMED} and {history.deletions.untouched()}")


def _running_maximum(history: History, points: DataFrame, keys: Sequence[str], column: str, name: str) -> DataFrame:
    """Add the running maximum of a column in the order of `at` and `turn`: inside of chunks of time, then over them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    sealed = history.sealed
    chunks = 1 + _commits(history) // history.chunk_rows
    width = min(max(1, (sealed.last_time_ns - sealed.first_time_ns) // chunks), 1 << 62)
    chunked = points.selectExpr("*", f"at div {width}L as chunk" if chunks > 1 else "0L as chunk")
    inside = Window.partitionBy(*keys, "chunk").orderBy("at", "turn").rowsBetween(Window.unboundedPreceding, 0)
    scanned = chunked.select("*", sql.max(column).over(inside).alias(name))
    if chunks == 1:
        return scanned.drop("chunk")
    earlier = Window.partitionBy(*keys).orderBy("chunk").rowsBetween(Window.unboundedPreceding, -1)
    carried = (
        chunked.groupBy(*keys, "chunk")
        .agg(sql.max(column).alias("of_chunk"))
        .select(*keys, "chunk", sql.max("of_chunk").over(earlier).alias("carried"))
    )
    joined = scanned.join(sql.broadcast(carried), [*keys, "chunk"], "left")
    return joined.select(*points.columns, sql.greatest(name, "carried").alias(name))


def _commits(history: History) -> int:
    """How many events there may be that commit or ask."""
    wanted = {Kind.COMPLETE: (F.COMMIT, F.COMMITTED), Kind.EXCHANGE: (OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT)}
    total = 0
    for kind, numbers in wanted.items():
        counted = history.sealed.contents.get(kind)
        total += history.sealed.rows.get(kind, 0) if counted is None else sum(counted.get(int(n), 0) for n in numbers)
    return total


def answers(history: History) -> DataFrame:
    """One row per answer of a group: the last commit before it, and until when one of what it shows may have come."""
    points = together([_acknowledged(history), *_asked(history)])
    with_last = _running_maximum(history, points, GROUP, "mark", "last").where("turn = 0")
    asked = with_last.selectExpr(
        *GROUP, "shown", "time as at", "1 as turn", "null as until", "event", "invoked", "loose", "last"
    )
    tried = _tried(history).selectExpr(
        *GROUP, "offset as shown", "invoked as at", "0 as turn", "until", "null as event", "null as invoked",
        "null as loose", "null as last",
    )  # fmt: skip
    scanned = _running_maximum(history, asked.union(tried), (*GROUP, "shown"), "until", "again")
    return scanned.where("turn = 1")


def _acknowledged(history: History) -> DataFrame:
    """Acknowledged commits, as points that raise the mark."""
    done = f"type = {Type.OK:d} and offset >= 0"
    columns = (*GROUP, "invoked", "offset", "time", "event")
    frames = [operations(history, F.COMMIT).where(done).selectExpr(*columns, "txn")]
    if history.has(Kind.EXCHANGE):
        seen = _exchanges(history, OFFSET_COMMIT).where(f"{done} and error = 0")
        frames.append(seen.selectExpr(*columns, "null as txn"))
    return together(frames).selectExpr(
        *GROUP, "time as at", "1 as turn", "struct(invoked, offset, time, event, txn) as mark", "null as shown",
        "invoked", "time", "event", "null as loose",
    )  # fmt: skip


def _asked(history: History) -> list[DataFrame]:
    """Answers, as points that ask for the mark; at one instant they come before what was acknowledged."""
    told = f"type = {Type.OK:d} and offset is not null and invoked is not null"
    columns = (*GROUP, "invoked as at", "0 as turn", "null as mark", "offset as shown", "invoked", "time", "event")
    frames = [operations(history, F.COMMITTED).where(told).selectExpr(*columns, f"{history.sees_aborted} as loose")]
    if history.has(Kind.EXCHANGE):
        seen = _exchanges(history, OFFSET_FETCH).where(f"{told} and error = 0")
        frames.append(seen.selectExpr(*columns, "true as loose"))
    return frames


def _tried(history: History) -> DataFrame:
    """Commits that may have happened, and until when."""
    ended = f"if(type = {Type.OK:d}, time, {FOR_EVER}L) as until"
    tried = operations(history, F.COMMIT).where(f"type <> {Type.FAIL:d} and offset >= 0")
    frames = [tried.selectExpr(*GROUP, "offset", "invoked", ended)]
    if history.has(Kind.EXCHANGE):
        sent = _exchanges(history, OFFSET_COMMIT, TXN_OFFSET_COMMIT).where(f"type <> {Type.FAIL:d} and offset >= 0")
        sure = f"api = {OFFSET_COMMIT} and type = {Type.OK:d} and error = 0"
        frames.append(sent.selectExpr(*GROUP, "offset", "invoked", f"if({sure}, time, {FOR_EVER}L) as until"))
    return together(frames)


_NONE = "shown < 0 and last is not null"
_BELOW = "shown >= 0 and last.offset > shown and coalesce(again < last.invoked, true)"


def _find_answers(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per group, place and set of tags: the first answer, and how many there were."""
    which = " ".join(f"when {rule.where} then '{rule.anomaly}'" for rule in rules)
    wrong = answers(history).selectExpr("*", "at as time", f"case {which} end as anomaly").where("anomaly is not null")
    tagged = wrong.selectExpr("*", "loose and last.txn is not null as in_txn")
    first = "min_by({}, struct(time, event))"
    keys = ("anomaly", *GROUP, "in_txn")
    found = aggregate(history, tagged, keys, [
        "count(*) as count",
        f"{first.format('struct(shown, time, event, last)')} as one",
        "max(try_subtract(last.offset, shown)) as severity",
    ])  # fmt: skip
    return of_writers(found, {
        "offset": "one.last.offset",
        "time": "one.last.time",
        "until": "one.time",
        "events": "array(one.last.event, one.event)",
        "tags": "array_compact(array(if(in_txn, 'transaction', null)))",
        "severity": "severity",
        "detail": f"format_string('group %s had committed %d by %.3f s, and at %.3f s answered %s; so %d times', group,"
        f" one.last.offset, {seconds(history, 'one.last.time')}, {seconds(history, 'one.time')},"
        " if(one.shown < 0, 'that there is none', cast(one.shown as string)), count)",
    })  # fmt: skip


def of_writers(found: DataFrame, columns: dict[str, str]) -> DataFrame:
    """Rows of `FINDING`; the processes are those that wrote the events."""
    return as_findings(found, {"anomaly": "anomaly", "processes": writers(columns["events"]), **columns})


COMMITTED = Family(
    "committed offsets",
    answers,
    (
        Rule(
            "committed-offset-regression",
            "a group answers with a lower offset than the one committed last",
            _BELOW,
            "shown >= 0 and last is not null",
        ),
        Rule(
            "committed-offset-vanished",
            "a group answers that nothing is committed, after something was",
            _NONE,
            "last is not null",
        ),
    ),
    find=_find_answers,
    needs=lambda history: history.does(F.COMMITTED) or history.asks(OFFSET_FETCH),
)


def find_committed_offset_regressions(history: History) -> DataFrame:
    """Answers of groups below the offset that was committed last."""
    return COMMITTED.findings(history, COMMITTED.of("committed-offset-regression"))


def find_vanished_committed_offsets(history: History) -> DataFrame:
    """Answers of groups that know of no commit."""
    return COMMITTED.findings(history, COMMITTED.of("committed-offset-vanished"))


FAMILIES: tuple[Family, ...] = (COMMITTED,)
STUDIES: tuple[Study, ...] = ()
