"""Liveness: what consumers of the load did not get in time, and why. Whether sends got through: `checkers.progress`.

Limits are seconds, of the scenario (`[limits]`, harness/limits.py). Topics that the workload deleted are left out, and
events without a topic or a partition. A *second* is `time` div 10^9.

**stall**: nobody in the load is handed anything of a partition, though something is there.

The *load* is the processes with the role consumer; an acknowledgement is an `ok` send with an offset >= 0. Seconds of a
partition with a record of the load (any, with an offset) cut its time into *stretches*: a stretch begins with the last
record of such a second (the first stretch: with nothing) and ends with the first record of the next such second or,
after the last one, with the last poll of the load (the latest `time` of those with a count; no stretch without any). A
second of a partition is *behind* if the highest offset acknowledged up to and in it is above the highest handed to the
load up to and in it (-1 if nothing was). A stretch of which a second is behind (from the one that begins it to the one
before that which ends it) has a stall, which begins with the latest of: the stretch; the last acknowledgement in its
first second that is behind (without one there, the last record in it); the first `ok` ASSIGN of the partition by the
load, or without one the first poll of the load (the earliest `invoked` of those with a count). It is found if it
lasts, to the end of the stretch, for `stall_s` or more. (What is acknowledged in the second that ends a stretch does
not count for it. A partition without such an ASSIGN, of which the load never was handed anything, is nobody's to read.)

A partition is *late* if it was not stalled at its end, and of what was acknowledged in seconds at least `stall_s` (in
whole seconds) before that of the load's last poll, the highest offset is above the highest handed to the load, by more
than a tenth of the number of these acknowledgements; and all records of the load there were handed to one process, and
another partition of the topic with such acknowledgements was read by the same process alone, and up to the highest of
them. One that is late is found as well, at the time of the last poll.

Its *class* is a tag. It is told by answers that began at or after the begin of the stall and ended at or before its
end: those without error to Fetch (the high watermark) and to ListOffsets(latest), of probes and, of type 1, at the tap.

class 1          they never showed more than 1 + the highest offset handed to the load: the watermark does not advance
class 2          they did; nothing was sent to the partition in a transaction; and of the load's clients Fetch exchanges
                 of the partition were seen that overlap with the stall, but none inside of it that was answered (type
                 1, error 0) with records (count not 0; null in an older format): the fetch hangs. Of clients whose id
                 begins with `tidegauge` those are not the load's that are named just so, or go on with `-final`,
                 `-raw`, `-probe`, `-replica`
class 3          it is late
data available   they did, and it is not class 2: nobody saw the fetches, or the client had what it did not hand on
class unknown    there were no such answers

Also tagged: `within the limit` if it lasted for less than its limit (never, if late). That is `stall_s` for classes 1
and 2, else `stuck_s`; of a partition with sends in transactions (whatever became of them) at least `lso_stuck_s`, for
readers of what is committed wait for the end of others; of one with a record or an `ok` ASSIGN of a process of the load
that the manifest calls a member (`group`) at least `group_stall_s`, for a group waits for whoever is gone. And `stood
still` (never, if late) if without those seconds between its first and its last one, in which no operation of any
process was completed and no probe ended, it would have been shorter than `stall_s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers import progress
from checkers.frame import PLACE, Family, History, Rule, Study, aggregate, as_findings, seconds, together
from checkers.stretches import READS, SECOND, SECOND_NS, limit_ns, stretches, there
from harness.history import F, Kind, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FETCH, LIST_OFFSETS = 1, 2
_NOT_THE_LOAD = "client rlike '^tidegauge(-(final|raw|probe|replica).*)?$'"


def evidence_of_watermarks(history: History) -> DataFrame:
    """What nodes showed of a partition, and when: topic, partition, invoked, time, high_watermark, end, source."""
    shown = f"error = 0 and (api = {FETCH} or (api = {LIST_OFFSETS} and view = {View.LATEST:d})) and {there(history)}"
    columns = (
        *PLACE, "invoked", "time", f"if(api = {FETCH}, high_watermark, null) as high_watermark",
        f"if(api = {LIST_OFFSETS}, offset, null) as end",
    )  # fmt: skip
    frames = [history.probes.where(shown).selectExpr(*columns, "'probe' as source")]
    if history.has(Kind.EXCHANGE):
        seen = history.kind(Kind.EXCHANGE).where(f"{shown} and type = {Type.OK:d}")
        frames.append(seen.selectExpr(*columns, "'tap' as source"))
    return together(frames)


def _find_stalls(history: History) -> DataFrame:
    """Stalls with their class."""
    found = stretches(history).where("stalled or late").selectExpr(
        *PLACE, "if(stalled, since, last_poll) as since", "if(stalled, until, last_poll) as until", "position",
        "stalled", "in_txn", "by_group", "early", "early_acks",
    )  # fmt: skip
    told = found.join(_answers_in(history, found), [*PLACE, "since"], "left")
    told = told.join(_active_in(history, found), [*PLACE, "since"], "left")
    class_ = (
        "case when not stalled then 'class 3' when shown is null then 'class unknown'"
        " when shown <= try_add(position, 1L) then 'class 1' when not in_txn and asked and given = 0 then 'class 2'"
        " else 'data available' end"
    )
    stall_ns = limit_ns(history, "stall_s")
    named = told.selectExpr("*", f"{class_} as class", "try_subtract(until, since) as lasted")
    limit = (
        f"greatest(if(class like 'class _', {stall_ns}L, {limit_ns(history, 'stuck_s')}L),"
        f" if(in_txn, {limit_ns(history, 'lso_stuck_s')}L, 0L),"
        f" if(by_group, {limit_ns(history, 'group_stall_s')}L, 0L))"
    )
    # the first and the last second are not whole
    empty = f"greatest(0L, until div {SECOND_NS}L - since div {SECOND_NS}L - 1 - coalesce(active, 0))"
    judged = named.selectExpr(
        "*", f"stalled and lasted < {limit} as within",
        f"stalled and try_subtract(lasted, try_multiply({empty}, {SECOND_NS}L)) < {stall_ns}L as still",
    )  # fmt: skip
    seen = "if(shown is null, 'no node said how far it is', format_string('nodes showed %d', shown))"
    return as_findings(judged, {
        "anomaly": "'stall'",
        "offset": "try_add(position, 1L)",
        "time": "since",
        "until": "until",
        "tags": "array_compact(array(class, if(within, 'within the limit', null), if(still, 'stood still', null)))",
        "severity": "lasted",
        "detail": "if(stalled, format_string('no record from %d on for %.1f s, from %.3f s on, though more was"
        f" acknowledged; %s', try_add(position, 1L), lasted / 1e9, {seconds(history, 'since')}, {seen}),"
        " format_string('the load got to %d, while %d was acknowledged in time; other partitions are not behind',"
        " position, early))",
    })  # fmt: skip


def _answers_in(history: History, found: DataFrame) -> DataFrame:
    """Per stall: the most that nodes showed in it, and what the load's clients asked for and were given in it."""
    from pyspark.sql import functions as sql

    spans = sql.broadcast(found.select(*PLACE, "since", "until"))
    inside = "invoked >= since and time <= until"
    marks = evidence_of_watermarks(history).join(spans, [*PLACE]).where(inside)
    frames = [
        marks.selectExpr(*PLACE, "since", "greatest(high_watermark, end) as shown", "0 as given", "false as asked")
    ]
    if history.has(Kind.EXCHANGE):
        ours = f"api = {FETCH} and {there(history)} and not coalesce({_NOT_THE_LOAD}, false)"
        fetches = history.kind(Kind.EXCHANGE).where(ours).join(spans, [*PLACE])
        given = f"if({inside} and type = {Type.OK:d} and error = 0 and coalesce(count, 1) > 0, 1, 0) as given"
        overlap = fetches.where("invoked <= until and time >= since")
        frames.append(overlap.selectExpr(*PLACE, "since", "null as shown", given, "true as asked"))
    totals = ["max(shown) as shown", "sum(given) as given", "bool_or(asked) as asked"]
    return aggregate(history, together(frames), (*PLACE, "since"), totals)


def _active_in(history: History, found: DataFrame) -> DataFrame:
    """Per stall: the whole seconds in it in which anything was completed or answered anywhere."""
    from pyspark.sql import functions as sql

    seconds = together([frame.selectExpr(SECOND) for frame in (history.completions, history.probes)]).distinct()
    spans = found.selectExpr(*PLACE, "since", f"since div {SECOND_NS}L as low", f"until div {SECOND_NS}L as high")
    inside = spans.join(sql.broadcast(seconds), sql.expr("second > low and second < high"))
    return inside.groupBy(*PLACE, "since").agg(sql.count("*").alias("active"))


def _find(history: History, rules: Sequence[Rule]) -> DataFrame:
    """Stalls by themselves, for they need more to be told."""
    frames = []
    if any(rule.anomaly == "stall" for rule in rules):
        frames.append(_find_stalls(history))
    if waits := [rule for rule in rules if rule.anomaly != "stall"]:
        frames.append(progress.find_waits(history, waits))
    return together(frames)


LIVENESS = Family(
    "liveness",
    stretches,
    (
        Rule(
            "stall",
            "the load was handed nothing of a partition, though something was there",
            "stalled or late",
            f"kind = {READS}",
        ),
        *progress.RULES,
    ),
    find=_find,
    needs=lambda history: history.does(F.SEND),
)


def find_stalls(history: History) -> DataFrame:
    """Stretches in which the load was handed nothing of a partition, and partitions that are behind."""
    return LIVENESS.findings(history, LIVENESS.of("stall"))


def find_no_progress(history: History) -> DataFrame:
    """Stretches in which no send to a partition got through."""
    return LIVENESS.findings(history, LIVENESS.of("no-progress-in-fault"))


def find_slow_recoveries(history: History) -> DataFrame:
    """The same after a fault was undone."""
    return LIVENESS.findings(history, LIVENESS.of("slow-recovery"))


FAMILIES: tuple[Family, ...] = (LIVENESS, *progress.FAMILIES)
STUDIES: tuple[Study, ...] = ()
