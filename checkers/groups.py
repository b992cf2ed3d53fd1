"""Groups: who owns a partition, what a group commits that it never read, and what it never got.

A group is a name. Events without a group, a topic or a partition are left out of everything here, and so are topics
that the workload deleted. What groups answer about their commits is in `checkers.commits`.

**Reads.** A process belongs to each group that it ever subscribed to (SUBSCRIBE, however it ended), and what it is
handed at any time is handed to those groups.

committed-beyond-read    an `ok` COMMIT operation of an offset above 1 + the highest one that the group had been handed
                         there; not asked before it was handed anything, in compacted topics, and in topics with sends
                         in transactions (positions move past markers). By the second: `time` div 10^9 of the record is
                         at most that of the commit's `time`. A second of a group and place counts once, with its
                         highest commit; seconds of one group and place are one finding
rebalance-loss           an offset, between the lowest and the highest that the group was ever handed there, with an
                         acknowledged send (`ok`), of which a process outside of the group was handed a record, and none
                         in the group was: the group went past it. Of a send in a transaction that process is one which
                         is not known to read uncommitted: what was aborted is rightly passed. Not in compacted topics.
                         Offsets of one group, place and set of tags are one finding. Tagged `open poll` if a member may
                         have had it in its hands when it was killed: a process of the group has a poll that is `info`
                         and has no count, and the offset lies above the last record that this process was handed there
                         (by time, then event) and below the next one above that which the group was handed

**Ownership.** A member is given a partition by an ASSIGN that is `ok` and has no offset. It has it for certain if what
comes next for that member and place (by time, then event) is a REVOKE and not another such ASSIGN: from the `time` of
the one to the `invoked` of the other.

double-ownership   of two such assignments of a group and place that follow each other (by time, then event), to
                   different members, the second one is given (`time`) before the first one is revoked (`invoked`), and
                   either the generation of the second lies between those of the first and of its revoke (of the first
                   alone if the revoke has none), or one of the two assignments has no generation (null or below 0),
                   and the revoke is `ok`: that member let go in order, and was not thrown out unknowingly. Tagged
                   `one generation` or `generation unknown`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers import commits
from checkers.commits import GROUP, of_writers, operations
from checkers.frame import PLACE, Family, History, Rule, Study, aggregate, seconds, together
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECOND_NS = 1_000_000_000
_OPEN_POLL = f"f = {F.POLL:d} and type = {Type.INFO:d} and count is null"


def _groups_of(history: History) -> DataFrame:
    """The groups that each process ever subscribed to."""
    from pyspark.sql import functions as sql

    subscribed = history.completions.where(f"f = {F.SUBSCRIBE:d} and name is not null")
    return sql.broadcast(subscribed.selectExpr("process", "name as group").distinct())


def _readable(history: History, rows: DataFrame) -> DataFrame:
    """Rows with a place, of topics whose offsets stay what they are."""
    kept = f"topic not in ({', '.join(map(str, sorted(history.compacted)))})" if history.compacted else "true"
    place = "topic is not null and partition is not null and offset is not null"
    return rows.where(f"{place} and {kept} and {history.deletions.untouched()}")


def commits_by_second(history: History) -> DataFrame:
    """Per group, place and second: the highest commit, and the highest offset that was handed to the group by then."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    second = f"time div {SECOND_NS}L as second"
    made = _readable(history, operations(history, F.COMMIT)).where(f"type = {Type.OK:d}")
    if history.does(F.TXN):
        marked = history.sends.where("txn is not null").select("topic").distinct()
        made = made.join(sql.broadcast(marked), "topic", "left_anti")
    reads = _readable(history, history.records).join(_groups_of(history), "process")
    rows = together(
        [
            made.selectExpr(*GROUP, second, "offset as committed", "null as handed", "time", "event"),
            reads.selectExpr(*GROUP, second, "null as committed", "offset as handed", "null as time", "null as event"),
        ]
    )
    first = "struct(committed, try_subtract(0L, time), -event)"  # of the highest ones
    by_second = aggregate(history, rows, (*GROUP, "second"), [
        "max(committed) as committed",
        "max(handed) as handed",
        f"max_by(struct(time, event), if(committed is null, null, {first})) as commit",
    ])  # fmt: skip
    so_far = Window.partitionBy(*GROUP).orderBy("second").rowsBetween(Window.unboundedPreceding, 0)
    return by_second.select(*GROUP, "committed", "commit", sql.max("handed").over(so_far).alias("handed"))


_BEYOND = "committed > try_add(handed, 1L)"


def _find_beyond(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per group and place."""
    beyond = commits_by_second(history).where(_BEYOND)
    found = aggregate(history, beyond, GROUP, [
        "count(*) as count",
        "min_by(struct(committed, handed, commit), struct(commit.time, commit.event)) as one",
        "max(try_subtract(committed, handed)) as severity",
    ])  # fmt: skip
    return of_writers(found, {
        "anomaly": f"'{rules[0].anomaly}'",
        "offset": "one.committed",
        "time": "one.commit.time",
        "events": "array(one.commit.event)",
        "severity": "severity",
        "detail": "format_string('group %s committed %d at %.3f s, and the last that it had been handed was %d; so in"
        f" %d seconds', group, one.committed, {seconds(history, 'one.commit.time')}, one.handed, count)",
    })  # fmt: skip


def handed(history: History) -> DataFrame:
    """Per group and offset between the ends of what the group was handed: acknowledged, handed to it, to others."""
    from pyspark.sql import functions as sql

    members = _groups_of(history)
    reads = _readable(history, history.records)
    reach = reads.join(members, "process").groupBy(*GROUP)
    ends = sql.broadcast(reach.agg(sql.expr("min(offset) as lowest"), sql.expr("max(offset) as highest")))
    inside = "offset between lowest and highest"
    sends = _readable(history, history.sends).where(f"type = {Type.OK:d}").join(ends, [*PLACE]).where(inside)
    mine = members.selectExpr("process", "group", "1 as own")
    read = reads.join(ends, [*PLACE]).where(inside).join(sql.broadcast(mine), ["process", "group"], "left")
    rows = together(
        [
            sends.selectExpr(
                *GROUP, "offset", "1 as ack", "if(txn is null, 1, null) as plain", "null as own", "null as other",
                "null as committed", "struct(value, time, event) as send",
            ),
            read.selectExpr(
                *GROUP, "offset", "null as ack", "null as plain", "own", "if(own is null, 1, null) as other",
                f"if(own is null and not ({history.sees_aborted}), 1, null) as committed", "null as send",
            ),
        ]
    )  # fmt: skip
    return aggregate(history, history.spread(rows, *PLACE, "offset"), (*GROUP, "offset"), [
        "count(ack) as acks",
        "count(plain) as plain",
        "count(own) as own",
        "count(other) as others",
        "count(committed) as committed",
        "min_by(send, if(send is null, null, struct(send.time, send.event))) as send",
    ])  # fmt: skip


_SKIPPED = "own = 0 and ((plain > 0 and others > 0) or (acks > 0 and committed > 0))"


def _find_skipped(history: History, rules: Sequence[Rule]) -> DataFrame:
    """A finding per group, place and tag."""
    from pyspark.sql import functions as sql

    rows = handed(history)
    hands = sql.broadcast(_open_hands(history, rows))
    lost = rows.where(_SKIPPED).join(hands, [*GROUP], "left")
    between = "coalesce(exists(hands, h -> offset > h.last and (h.next is null or offset < h.next)), false)"
    found = aggregate(history, lost.selectExpr("*", f"{between} as in_hand"), (*GROUP, "in_hand"), [
        "count(*) as count",
        "min_by(struct(offset, send), offset) as one",
        "max(offset) as highest",
    ])  # fmt: skip
    return of_writers(found, {
        "anomaly": f"'{rules[0].anomaly}'",
        "offset": "one.offset",
        "values": "array(one.send.value)",
        "time": "one.send.time",
        "events": "array(one.send.event)",
        "tags": "array_compact(array(if(in_hand, 'open poll', null)))",
        "severity": "count",
        "detail": "format_string('group %s went past %d acknowledged records that others were handed, from %d to %d',"
        " group, count, one.offset, highest)",
    })  # fmt: skip


def _open_hands(history: History, rows: DataFrame) -> DataFrame:
    """Where processes of a group were killed in a poll: after their last record, and before the group's next one."""
    from pyspark.sql import functions as sql

    killed = sql.broadcast(history.completions.where(_OPEN_POLL).select("process").distinct())
    last = (
        _readable(history, history.records)
        .join(killed, "process")
        .join(_groups_of(history), "process")
        .groupBy("process", *GROUP)
        .agg(sql.expr("max_by(offset, struct(time, event)) as last"))
    )
    following = rows.where("own > 0").select(*GROUP, "offset").join(sql.broadcast(last), [*GROUP])
    return (
        following.groupBy(*GROUP, "process", "last")
        .agg(sql.expr("min(if(offset > last, offset, null)) as next"))
        .groupBy(*GROUP)
        .agg(sql.expr("collect_list(struct(last, next)) as hands"))
    )


def assignments(history: History) -> DataFrame:
    """One row per assignment: until when the member had it for certain, and the assignment before it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    taken = f"f = {F.REVOKE:d} or (type = {Type.OK:d} and offset is null)"
    rows = operations(history, F.ASSIGN, F.REVOKE).where(f"member is not null and ({taken})")
    known = "if(generation >= 0, generation, null)"
    slim = rows.selectExpr(*GROUP, "member", "f", "type", "invoked", "time", "event", f"{known} as generation")
    of_member = Window.partitionBy(*GROUP, "member").orderBy("time", "event")
    here = Window.partitionBy(*GROUP).orderBy("time", "event")
    ended = slim.select("*", sql.expr("struct(f, type, invoked, event, generation)").alias("this")).select(
        "*", sql.lead("this").over(of_member).alias("then")
    )
    given = ended.where(f"f = {F.ASSIGN:d}").selectExpr(
        *GROUP, "member", "time", "event", "generation", f"if(then.f = {F.REVOKE:d}, then, null) as revoke"
    )
    mine = given.selectExpr("*", "struct(member, time, event, generation, revoke) as mine")
    return mine.select("*", sql.lag("mine").over(here).alias("before")).drop("mine", "revoke")


_ONE_GENERATION = "generation between before.generation and coalesce(before.revoke.generation, before.generation)"
_UNKNOWN = f"(generation is null or before.generation is null) and before.revoke.type = {Type.OK:d}"
_OWNED_TWICE = (
    f"before.member <> member and before.revoke.invoked > time and coalesce(({_ONE_GENERATION}) or ({_UNKNOWN}), false)"
)

BEYOND = Family(
    "committed reads",
    commits_by_second,
    (
        Rule(
            "committed-beyond-read",
            "an offset was committed that nobody in the group had read up to",
            _BEYOND,
            "committed is not null and handed is not null",
        ),
    ),
    find=_find_beyond,
    needs=lambda history: history.does(F.COMMIT) and history.does(F.SUBSCRIBE),
)
OWNERS = Family(
    "owners",
    assignments,
    (
        Rule(
            "double-ownership",
            "two members of a group had one partition at the same time",
            _OWNED_TWICE,
            "before.member <> member",
            {
                "time": "before.time",
                "until": "time",
                "events": "array(before.event, before.revoke.event, event)",
                "tags": f"array(if({_UNKNOWN}, 'generation unknown', 'one generation'))",
                "severity": "try_subtract(before.revoke.invoked, time)",
                "detail": "format_string('group %s gave it to member %d (generation %s), and to member %d (generation"
                " %s) %.3f s before the first one let go', group, before.member,"
                " coalesce(cast(before.generation as string), 'unknown'), member,"
                " coalesce(cast(generation as string), 'unknown'),"
                " (cast(before.revoke.invoked as double) - cast(time as double)) / 1e9)",
            },
        ),
    ),
    needs=lambda history: history.does(F.ASSIGN) and history.does(F.SUBSCRIBE),
)
SKIPPED = Family(
    "skipped by groups",
    handed,
    (
        Rule(
            "rebalance-loss",
            "a group went past an acknowledged record that none of its members was handed",
            _SKIPPED,
            "acks > 0",
        ),
    ),
    find=_find_skipped,
    needs=lambda history: history.does(F.SUBSCRIBE) and history.has(Kind.RECORD),
)


def find_commits_beyond_reads(history: History) -> DataFrame:
    """Commits above what the group had been handed."""
    return BEYOND.findings(history)


def find_double_ownership(history: History) -> DataFrame:
    """Partitions that two members of a group had at once."""
    return OWNERS.findings(history)


def find_rebalance_losses(history: History) -> DataFrame:
    """Acknowledged records that a group went past."""
    return SKIPPED.findings(history)


FAMILIES: tuple[Family, ...] = (*commits.FAMILIES, BEYOND, OWNERS, SKIPPED)
STUDIES: tuple[Study, ...] = ()
