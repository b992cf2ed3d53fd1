"""Order: what each reader was handed one after the other, and what each producer's sends got.

Steps of readers. Take all records that one process was handed of one place (topic and partition) with an offset of 0
or more, whatever their status, in the order of `event`. Two that follow each other there, x and then y, are a *step*
from offset a to offset b. It is *judged* unless the process completed an ASSIGN of that place, however it ended, with
an `event` between theirs, and, where the workload deleted the topic, unless x and y are of different eras
(`checkers.log.era_read`). It is *inside* if x and y have the same `op`, or the same `txn`, which is not null;
otherwise it lies between two polls. Replicas (`checkers.replicas`) are no readers.

Known offsets of a place (and era) are those of all records that any reader was handed, and of all sends that ended
`ok`, of 0 or more. *Committed* ones are those of `ok` sends, and of records that a reader was handed whom the manifest
does not call read_uncommitted. A step *skips* the lowest known offset between a and b, exclusive; if its reader is not
called read_uncommitted, the lowest committed one.

nonmonotonic-poll       a judged step between two polls, with b <= a.
int-nonmonotonic-poll   the same inside.
poll-skip               a judged step between two polls with a < b that skips an offset. Not in a compacted topic.
int-poll-skip           the same inside.
gap                     a judged step, of either sort, with a + 1 < b and no known offset between a and b; once for each
                        place, era, a and b. Not in a compacted topic, and not in a partition where transactions explain
                        as much: let *missing* be the sum of b - a - 1 over all such (a, b) of the partition and of all
                        its eras, T the number of different `txn` of sends to it, however they ended, S the number of
                        sends to it, in or out of transactions, that did not end `ok` with an offset of 0 or more, and R
                        the number of known offsets (of all eras) that no `ok` send has. It is explained if T > 0 and
                        missing <= 2 T + max(0, S - R). A transaction leaves a marker in each partition that it wrote
                        to, and a coordinator that has to try again another one; S - R is what was aborted or never
                        heard of, and that nobody read.

Sends. Take the sends of one process to one place, and era (of their `invoked` and `time`), that ended `ok` with an
offset of 0 or more. Their rank is their `sequence`, or, of those without one, `invoked`; sends with and without a
sequence are not compared.

nonmonotonic-send       a send, if among those with a lower offset one has a higher rank. The one with the highest rank
                        (of these the highest offset, then event) is named with it; if that one is of the same
                        transaction, it is not this anomaly.
int-nonmonotonic-send   the same among the sends of one transaction alone.

A finding of a step is at offset b, one of a skip at the offset that was skipped, one of a gap at a + 1, and one of a
send at its offset. Events and times are those of x and y (of a gap: of the step whose y has the lowest event), or of
the send and of the one that is named with it. Tags:

deleted topic           the era is UNSURE: it may be two lives of the topic.
rebalance               of a step: its reader is a member of a group (the manifest says `group`, or it completed a
                        SUBSCRIBE), and either never completed an ASSIGN, so that nobody knows of rebalances, or a
                        SUBSCRIBE, REVOKE, LEAVE or CRASH of it, or an ASSIGN without an offset, overlaps the time from
                        the `invoked` of x to the `time` of y, ends included. Libraries may hand out late what they
                        had fetched before.
transactions            of a gap: T > 0.
transactional, idempotent, plain   of a send: in a transaction; else as the manifest calls its producer, if it does.

In a healthy history without transactions or compaction nothing is out of order and no step leaves anything out: that is
found out first, in one pass over sums of records and sends (`checkers.reading`, `checkers.sending`). Only for places
where it is not so is the rest asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkers.deletions import UNSURE
from checkers.frame import FINDING, PLACE, Family, History, Studied, Study, aggregate, together
from checkers.reading import BLOCK_BITS, next_occupied, occupied, steps
from checkers.sending import disorder, overtaken
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORST = 5  # findings of each sort that are kept for being the worst, beside the first
MARKERS_OF_A_TRANSACTION = 2
ABOUT = {
    "poll-skip": "from one poll to the next, a known offset was left out",
    "nonmonotonic-poll": "from one poll to the next, a reader went back",
    "int-poll-skip": "inside of a poll or a transaction, a known offset was left out",
    "int-nonmonotonic-poll": "inside of a poll or a transaction, a reader went back",
    "gap": "offsets that were read past, that nobody knows of, and that nothing explains",
    "nonmonotonic-send": "of two sends of a producer, the later one got the lower offset",
    "int-nonmonotonic-send": "the same inside of a transaction",
}
BACK, SKIP, GAP = "back", "skip", "gap"  # sorts of steps
_SHAPE = ", ".join(f"`{name}` {type_}" for name, (type_, _) in FINDING.items())
_STEP = {
    "anomaly": f"concat(if(within, 'int-', ''), if(sort = '{BACK}', 'nonmonotonic-poll', 'poll-skip'))",
    "offset": f"if(sort = '{BACK}', low, skipped)",
    "severity": f"if(sort = '{BACK}', try_add(before.offset - low, 1L), low - before.offset - 1)",
    "detail": f"concat(format_string('handed offset %d, and after it offset %d', before.offset, low),"
    f" if(sort = '{BACK}', '', format_string('; offset %d lies between', skipped)))",
}
_GAP = {
    "anomaly": "'gap'",
    "offset": "start + 1",
    "severity": "low - start - 1",
    "detail": "format_string('handed offset %d, and after it offset %d; nobody knows what lies between', start, low)",
}
_GONE = f"if(era = {UNSURE}, 'deleted topic', null)"


def _finding(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    def cast(name: str, type_: str, default: str) -> str:
        value = columns.get(name, default)
        return f"cast({f'array_compact({value})' if type_.startswith('array') else value} as {type_}) as `{name}`"

    return rows.selectExpr(*(cast(name, type_, default) for name, (type_, default) in FINDING.items()))


def _of_steps(history: History, rows: DataFrame, columns: Mapping[str, str], *tags: str) -> DataFrame:
    """Findings of steps, with what the memberships of their readers say."""
    from pyspark.sql import functions as sql

    member = f"({history.by_about('group', [True])}) or coalesce(subscribed, false)"
    moved = "coalesce(exists(moves, m -> m.ended >= before.invoked and m.began <= time), false)"
    rebalance = f"if(({member}) and (not coalesce(assigns, false) or {moved}), 'rebalance', null)"
    return _finding(
        rows.join(sql.broadcast(_members(history)), ["process"], "left"),
        {
            "offset": "low",
            "processes": "array(process)",
            "time": "before.time",
            "until": "time",
            "events": "array(before.event, first)",
            "tags": f"array({', '.join([_GONE, rebalance, *tags])})",
            **columns,
        },
    )


def _members(history: History) -> DataFrame:
    """Per process: whether it subscribed, whether it ever took a partition, and when its group may have moved some."""
    functions = (F.ASSIGN, F.SUBSCRIBE, F.REVOKE, F.LEAVE, F.CRASH)
    rows = history.completions.where(f"f in ({', '.join(f'{f:d}' for f in functions)})")
    moves = f"if(f = {F.ASSIGN:d} and offset is not null, null, struct(invoked as began, time as ended))"
    return aggregate(
        history,
        rows,
        ["process"],
        [
            f"max(f = {F.SUBSCRIBE:d}) as subscribed",
            f"max(f = {F.ASSIGN:d}) as assigns",
            f"collect_list({moves}) as moves",
        ],
    )


def _odd_steps(history: History, where: str) -> DataFrame:
    """Judged steps that go back, that skip something, or that leave out what nobody knows of: `sort` says which."""
    compacted = f"topic in ({', '.join(map(str, sorted(history.compacted)))})" if history.compacted else "false"
    odd = steps(history, where).where(f"compared and (back or (jump and not {compacted}))")
    known = odd.selectExpr("*", f"shiftright(before.offset, {BLOCK_BITS}) as block").join(
        occupied(history, where), [*PLACE, "era", "block"], "left"
    )
    nexts = {name: next_occupied(name, "before.offset") for name in ("any", "committed")}
    return (
        known.selectExpr(
            "process", *PLACE, "era", "low", "first", "time", "within", "back", "before",
            f"if({history.sees_aborted}, {nexts['any']}, {nexts['committed']}) as skipped",
            f"coalesce({nexts['any']} >= low, true) as unknown",
        )
        .selectExpr(
            "*", f"case when back then '{BACK}' when skipped < low then '{SKIP}' when unknown then '{GAP}' end as sort"
        )
        .where("sort is not null")
    )  # fmt: skip


def _judgement(history: History, where: str) -> DataFrame:
    """Per place: how many steps go back or skip, how much is missing, and what transactions may account for."""
    unplaced = f"count_if(not (type = {Type.OK:d} and coalesce(offset >= 0, false)))"
    unread = "greatest(0L, coalesce(sum(unplaced), 0L) - coalesce(sum(unsent), 0L))"
    by_txn = aggregate(history, history.sends.where(where), [*PLACE, "txn"], [f"{unplaced} as unplaced"])
    once = _odd_steps(history, where).selectExpr(*PLACE, "era", "sort", "before.offset as start", "low").distinct()
    rows = (
        once.selectExpr(*PLACE, f"if(sort = '{GAP}', null, 1) as odd",
                        f"if(sort = '{GAP}', cast(low - start - 1 as double), null) as missing")
        .unionByName(by_txn.selectExpr(*PLACE, "txn", "unplaced"), allowMissingColumns=True)
        .unionByName(occupied(history, where).selectExpr(*PLACE, "bit_count(any & ~acked) as unsent"),
                     allowMissingColumns=True)
    )  # fmt: skip
    return aggregate(
        history,
        rows,
        PLACE,
        [
            "count(odd) as odd",
            "sum(missing) as missing",
            "count(txn) as transactions",
            f"{MARKERS_OF_A_TRANSACTION} * count(txn) + {unread} as may_miss",
        ],
    ).where("odd > 0 or missing is not null")


def _of_reads(history: History, where: str = "true") -> list[DataFrame]:
    """All findings of steps in these places."""
    rows = _judgement(history, where).collect()
    left = [row for row in rows if row["missing"] and not (row["transactions"] and row["missing"] <= row["may_miss"])]
    odd = [row for row in rows if row["odd"]]
    if not odd and not left:
        return []
    found = _odd_steps(history, _in([*odd, *left]))
    frames = [_of_steps(history, found.where(f"sort in ('{BACK}', '{SKIP}')"), _STEP)] if odd else []
    if left:
        gaps = aggregate(
            history,
            found.where(f"sort = '{GAP}' and ({_in(left)})").selectExpr("*", "before.offset as start"),
            [*PLACE, "era", "start", "low"],
            ["min_by(struct(process, first, time, before), first) as step"],
        ).selectExpr(*PLACE, "era", "start", "low", "step.*")
        of_transactions = _in([row for row in left if row["transactions"]])
        frames.append(_of_steps(history, gaps, _GAP, f"if({of_transactions}, 'transactions', null)"))
    return frames


def _sends(history: History, where: str, *, inside: bool) -> DataFrame:
    """Findings of sends that a later one overtook."""
    rows = overtaken(history, where, in_transaction=inside)
    kinds = {"idempotent": True, "plain": False}
    sender = " ".join(f"when {history.by_about('idempotent', [is_so])} then '{name}'" for name, is_so in kinds.items())
    return _finding(
        rows if inside else rows.where("not coalesce(later.txn = txn, false)"),
        {
            "anomaly": "'int-nonmonotonic-send'" if inside else "'nonmonotonic-send'",
            "offset": "offset",
            "values": "array(value, later.value)",
            "processes": "array(process)",
            "time": "least(time, later.time)",
            "until": "greatest(time, later.time)",
            "events": "array(event, later.event)",
            "tags": f"array({_GONE}, case when txn is not null then 'transactional' {sender} end)",
            "severity": "offset - later.offset",
            "detail": "format_string('acknowledged at offset %d, and one that was sent after it at offset %d', offset,"
            " later.offset)",
        },
    )


def _of_sends(history: History, where: str = "true") -> list[DataFrame]:
    """All findings of sends to these places."""
    return [_sends(history, where, inside=False), _sends(history, where, inside=True)]


def _find(history: History, anomaly: str) -> DataFrame:
    frames = _of_reads(history)
    found = together(frames) if frames else history.spark.createDataFrame([], _SHAPE)
    return found.where(f"anomaly = '{anomaly}'")


def find_poll_skips(history: History) -> DataFrame:
    """From one poll to the next, a known offset was left out."""
    return _find(history, "poll-skip")


def find_nonmonotonic_polls(history: History) -> DataFrame:
    """From one poll to the next, a reader went back."""
    return _find(history, "nonmonotonic-poll")


def find_int_poll_skips(history: History) -> DataFrame:
    """Inside of a poll or a transaction, a known offset was left out."""
    return _find(history, "int-poll-skip")


def find_int_nonmonotonic_polls(history: History) -> DataFrame:
    """Inside of a poll or a transaction, a reader went back."""
    return _find(history, "int-nonmonotonic-poll")


def find_gaps(history: History) -> DataFrame:
    """Offsets that were read past, that nobody knows of, and that nothing explains."""
    return _find(history, "gap")


def find_nonmonotonic_sends(history: History) -> DataFrame:
    """Of two sends of a producer, the later one got the lower offset."""
    return _sends(history, "true", inside=False)


def find_int_nonmonotonic_sends(history: History) -> DataFrame:
    """The same inside of a transaction."""
    return _sends(history, "true", inside=True)


def study(history: History, limit: int) -> Studied:
    """First whether anything is out of order at all, then what it is, where it may be."""
    places = _suspects(history).collect()
    looked_at = {
        "poll-skip": sum(row["between"] for row in places),
        "int-poll-skip": sum(row["inside"] for row in places),
        "gap": sum(row["between"] + row["inside"] for row in places),
        "nonmonotonic-send": sum(row["sends"] for row in places),
        "int-nonmonotonic-send": sum(row["in_transactions"] for row in places),
    }
    looked_at |= {f"{of}nonmonotonic-poll": looked_at[f"{of}poll-skip"] for of in ("", "int-")}
    frames: list[DataFrame] = []
    for sort, ask in (("odd_steps", _of_reads), ("odd_sends", _of_sends)):
        odd = [row for row in places if row[sort]]
        frames += ask(history, _in(odd)) if odd else []
    kept = _kept(together(frames), limit) if frames else []
    found: dict[str, int] = {}
    for row in kept:
        found[row["anomaly"]] = found.get(row["anomaly"], 0) + row["count"]
    findings = [
        finding.asDict()
        for row in kept
        for finding in [*row["first"], *(each for each in row["worst"] or () if each not in row["first"])]
    ]
    return Studied(findings=findings, found=found, looked_at=looked_at)


def _suspects(history: History) -> DataFrame:
    """A row for each place where something is to be looked at, and one for all others of a topic."""
    reads = aggregate(
        history,
        steps(history),
        PLACE,
        [
            "count_if(compared and not within) as between",
            "count_if(compared and within) + sum(high - low) as inside",
            "count_if(compared and (back or jump)) as odd_steps",
        ],
    ).selectExpr(*PLACE, "between", "inside", "odd_steps", "0L as sends", "0L as in_transactions", "0L as odd_sends")
    sends = disorder(history).selectExpr(
        *PLACE, "0L as between", "0L as inside", "0L as odd_steps", "sends", "in_transactions", "odd as odd_sends"
    )
    odd = "odd_steps > 0 or odd_sends > 0"
    names = ("between", "inside", "odd_steps", "sends", "in_transactions", "odd_sends")
    return aggregate(
        history,
        reads.unionByName(sends).selectExpr("topic", f"if({odd}, partition, -1) as partition", *names),
        PLACE,
        [f"sum({name}) as {name}" for name in names],
    )


def _in(places: Iterable[Any]) -> str:
    """SQL: one of the places that these rows name."""
    by_topic: dict[int, set[int]] = {}
    for row in places:
        by_topic.setdefault(row["topic"], set()).add(row["partition"])
    either = [
        f"(topic = {topic} and partition in ({', '.join(map(str, sorted(partitions)))}))"
        for topic, partitions in sorted(by_topic.items())
    ]
    return " or ".join(either) or "false"


def _kept(findings: DataFrame, limit: int) -> list[dict[str, Any]]:
    """Of each anomaly and set of tags: how many there are, the first and the worst."""
    from pyspark.sql import functions as sql

    whole = f"struct({', '.join(f'`{name}`' for name in FINDING)})"
    return [
        row.asDict()
        for row in findings.selectExpr(
            "anomaly", "tags", "severity", f"{whole} as finding", "struct(time, topic, partition, offset, events) as at"
        )
        .groupBy("anomaly", "tags")
        .agg(
            sql.count("*").alias("count"),
            sql.expr(f"min_by(finding, at, {limit})").alias("first"),
            sql.expr(f"max_by(finding, severity, {min(WORST, limit)})").alias("worst"),
        )
        .collect()
    ]


ORDER = Study("order", ABOUT, study, needs=lambda history: history.has(Kind.RECORD) or history.does(F.SEND))

FAMILIES: tuple[Family, ...] = ()
STUDIES: tuple[Study, ...] = (ORDER,)
