"""Delivery: what clients sent, what was acknowledged, and what readers were handed.

Values are unique: the value of a record is the operation of its send. An acknowledgement is a send that ended `ok`. A
read is a record that anybody was handed, in whatever phase. What was sent in a transaction is acknowledged or failed
with its transaction; of such a value only those reads count, and only so far as their readers got, that were made with
read_committed. Others see what is open or was aborted, rightly. A reader of which nobody says how it read counts.

lost-write     acknowledged, at or below the highest offset read in its partition, and in no read. Offsets are handed
               out in the order of the log, so that the order of offsets is the order of indexes. How far readers got
               is not told by members of groups, who begin where the group is: what they skip is not lost. A value
               that was acknowledged without a usable offset is lost when nobody read it although a final read, begun
               at or after the acknowledgement, ended at the end of the partition. Not in a compacted topic, which need
               keep no more than the last record of each key (`checkers.keys`).
lost-tail      acknowledged above everything that was read, although a final read of the partition, begun at or after
               the acknowledgement, ended at its end offset. Not in a compacted topic.
unseen         acknowledged above everything that was read and below the end of the partition, of which no final read
               ended `ok`, and at least one gave up: stuck, not lost. It gave up when its last record of that partition
               (or its own invocation, if it was handed none) was STUCK_NS or more before its end; of several final
               reads the last record or invocation and the last end count. The end is the one that the final read knew
               (of several, the highest of those that ended last); where that is null, and the value is in no
               transaction, the highest that a probe without an error was shown: the high watermark by Fetch, the
               offset by ListOffsets(latest), in a topic that the workload never deleted. Not in a compacted topic.
phantom        read, and nobody sent it.
aborted-read   read, although its send certainly failed, or its transaction did.
duplicate      one value at two or more offsets of its partition. Tagged by its producer, as the manifest knows it:
               `transactional`, `idempotent` or `plain`; and `numbered anew` if the taps saw that producer go on with
               another producer id or epoch: a client that begins to number anew may write again what is there already.
false-ack      acknowledged without a usable offset (none, or negative), or below a log start that a node had shown to a
               probe before the send was invoked, in a topic that the workload never deleted.

What is lost or unseen is tagged `settled` if it was acknowledged when every fault was over: all that were injected had
been undone, and the cluster was seen to be whole after each (there was one, at least); and no leader of its partition
changed since, or SETTLING_NS and more before the acknowledgement: of the highest leader epoch that nodes told probes,
the first moment counts, and unless one was told after the acknowledgement there is no such tag. What weak
acknowledgements cost is lost with a leader.

A finding of an acknowledgement is at its offset and at the end of its send. Any other is at the lowest offset at which
the value was read in its partition, or acknowledged, and at the moment at which it was first read, or its send ended.

A record that is corrupt or foreign shows how far a reader got, and is a read of no value. A value that was sent or
seen before the last deletion of its topic by the workload (`checkers.deletions`) may be gone: what is found of it is
tagged `deleted topic`; but what failed was never there, and of a duplicate that is said unless two of its offsets are
certainly of one life of the topic. How far readers of such a topic got is told by final and raw readers alone.

Everything about values is one hash aggregate by value, with the acknowledgement and the reads as flags side by side:
half the price of joining what was sent against what was read. Everything about offsets is a second one
(`checkers.offsets`). What a partition as a whole shows (how far readers got, how the final read ended) is small and
broadcast to the first.

With acks=0 nothing is acknowledged, and rules about acknowledgements do not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import (
    FRESH_ROLES,
    LOAD_ROLE,
    PLACE,
    Family,
    History,
    Rule,
    Study,
    aggregate,
    find,
    first_of,
    process_of,
)
from checkers.log import era_read
from checkers.offsets import ODD, OFFSETS
from harness.history import F, Kind, Status, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OK = f"type = {Type.OK:d}"
_TOLD = f"status in ({Status.GOOD:d}, {Status.MISROUTED:d})"  # of a record: its value can be believed
_USABLE = "coalesce(acknowledged, -1) >= 0"
_UNREAD = "keeps_all and reads = 0"  # and that is wrong
_ABORTED = f"type = {Type.FAIL:d} and txn is not null"
_END_READ = "final_invoked is not null and completed <= final_invoked"  # by a read begun after the acknowledgement
_UNREACHED = "(reached is null or acknowledged > reached)"
STUCK_NS = 5_000_000_000
SETTLING_NS = 10_000_000_000  # after a new leader was seen, for the one before it to hear of it
SETTLED = "settled"
UNSEEN = "unseen"
FINAL_ROLE = "final"
FETCH, LIST_OFFSETS = 1, 2
_STUCK = f"final_invoked is null and try_subtract(final_time, final_moved) >= {STUCK_NS}"
_STANDING_AT_MOST = 5  # readers that the evidence names


def values(history: History) -> DataFrame:
    """One row per value: how its send ended, how often it was read, the lowest and highest offset it is known at."""
    from pyspark.sql import functions as sql

    gone = history.deletions
    of_sends, of_reads = ([f"{era} as era"] if gone else [] for era in (gone.era("invoked", "time"), era_read(history)))
    sends = history.sends.selectExpr(
        "value", "topic", "partition", "type", "offset as acknowledged", "invoked", "time as completed", "txn",
        "event as send_event", f"if({_OK} and offset >= 0, offset, null) as place", "event", "time",
        *of_sends,
    )  # fmt: skip
    right = f"status = {Status.GOOD:d}"
    reads = history.records.where(f"value is not null and {_TOLD}").selectExpr(
        "value", f"if({right}, topic, null) as topic", f"if({right}, partition, null) as partition",
        f"if({right}, offset, null) as place", "1 as read", f"if({history.by_role(LOAD_ROLE)}, 1, null) as load",
        f"if({history.sees_aborted}, null, 1) as committed", "event", "time", *of_reads,
    )  # fmt: skip
    rows = sends.unionByName(reads, allowMissingColumns=True)
    certain = f"if(place is null or era = {UNSURE}, null, struct(era, place))"
    known = aggregate(
        history,
        history.spread(rows, "value"),
        ["value"],
        [
            *(
                f"max({name}) as {name}"
                for name in (*PLACE, "type", "acknowledged", "invoked", "completed", "txn", "send_event")
            ),
            "count(read) as all_reads",
            "count(committed) as committed_reads",
            "count(load) as load_reads",
            "min(place) as low",
            "max(place) as high",
            f"{first_of('event', 'lowest', 'place')} as low_event",
            f"{first_of('event', 'highest', 'place')} as high_event",
            *([f"collect_set({certain}) as places"] if gone else []),
            "min(event) filter (where read = 1) as any_event",
            "min(event) filter (where committed = 1) as committed_event",
            "min(time) as seen",
        ],
    )
    joined = known.join(sql.broadcast(_partitions(history)), [*PLACE], "left")
    judged = joined.selectExpr("*", *_judged(history))
    if not history.has(Kind.PROBE):
        none = "cast(null as array<struct<start: bigint, shown: bigint>>) as starts"
        return judged.selectExpr("*", none, "final_end as known_end", "cast(null as string) as settled")
    shown = judged.join(sql.broadcast(_shown(history)), [*PLACE], "left")
    known_end = "coalesce(final_end, if(txn is null, shown_end, null)) as known_end"
    return shown.selectExpr("*", known_end, f"if({_settled(history)}, '{SETTLED}', null) as settled")


def _settled(history: History) -> str:
    """SQL: whether it was acknowledged when all faults were over and no leader of its partition changed any more."""
    faults = [fault for fault in history.line.faults if fault.injected_ns is not None] if history.line else []
    if not faults or any(fault.undone_ns is None or fault.healed_ns is None for fault in faults):
        return "false"
    over = max(instant for fault in faults for instant in (fault.undone_ns, fault.healed_ns) if instant is not None)
    since = f"led_since <= {over} or completed > led_since + {SETTLING_NS}"
    return f"completed > {over} and completed < led_until and ({since})"


def _judged(history: History) -> list[str]:
    """SQL: what rules ask of a value, given what is known of its send, its readers and its topic."""
    numbered, plain = (history.by_about("idempotent", [each], process_of("send_event")) for each in (True, False))
    compacted = ", ".join(map(str, sorted(history.compacted)))
    chosen = {
        "reads": ("all_reads", "committed_reads"),
        "read_event": ("any_event", "committed_event"),
        "reached": ("any_reached", "committed_reached"),
        "reached_event": ("any_reached_event", "committed_reached_event"),
    }
    sender = f"when txn is not null then 'transactional' when {numbered} then 'idempotent' when {plain} then 'plain'"
    anew = ", ".join(map(str, sorted(history.renumbered))) or "null"
    apart = "if(size(array_distinct(places.era)) < size(places), null, 'deleted topic')"
    return [
        *(f"if(txn is null, {anybody}, {committed}) as {name}" for name, (anybody, committed) in chosen.items()),
        f"case {sender} end as sender",
        f"if({process_of('send_event')} in ({anew}), 'numbered anew', null) as anew",
        f"if(least(invoked, seen) < {history.deletions.until()}, 'deleted topic', null) as gone",
        f"{apart if history.deletions else 'cast(null as string)'} as apart",
        f"{f'topic not in ({compacted})' if compacted else 'true'} as keeps_all",
        f"{str(history.foreign).lower()} as foreign",
    ]


def _partitions(history: History) -> DataFrame:
    """One row per partition: how far readers got, and how the final reads ended."""
    from pyspark.sql import functions as sql

    # what was read of a topic before it was deleted says nothing about the one of the same name
    lasting = f"({history.deletions.untouched()}) or {history.by_role(*FRESH_ROLES)}"
    by_itself = f"not ({history.by_about('group', [True])})"
    records = history.records.where(f"({lasting}) and {by_itself}").selectExpr(
        *PLACE, "offset as any_reached", f"if({history.sees_aborted}, null, offset) as committed_reached", "event",
        f"if({history.by_role(FINAL_ROLE)}, time, null) as final_moved",
    )  # fmt: skip
    final, raw = f"f = {F.FINAL:d}", f"f = {F.RAW:d}"
    ends = history.completions.where(f"{final} or {raw}").selectExpr(
        *PLACE, f"if({final} and {_OK}, invoked, null) as final_invoked", "offset as final_offset",
        "end as final_end", f"if({final}, time, null) as final_time", f"if({final}, invoked, null) as final_moved",
        f"if({raw}, {_OK}, null) as raw_ok",
    )  # fmt: skip
    return (
        records.unionByName(ends, allowMissingColumns=True)
        .groupBy(*PLACE)
        .agg(
            *(sql.max(f"{who}_reached").alias(f"{who}_reached") for who in ("any", "committed")),
            *(sql.max_by("event", f"{who}_reached").alias(f"{who}_reached_event") for who in ("any", "committed")),
            *(sql.max(name).alias(name) for name in ("final_invoked", "final_time", "final_moved")),
            sql.max_by("final_offset", "final_time").alias("final_offset"),
            sql.expr("max_by(final_end, if(final_time is null, null, struct(final_time, final_end)))").alias(
                "final_end"
            ),
            sql.max("raw_ok").alias("raw_ok"),
        )
    )


def _shown(history: History) -> DataFrame:
    """Per partition: log starts above 0 that nodes showed, with the first moment; the highest end; the last leader."""
    from pyspark.sql import functions as sql

    latest = f"api = {LIST_OFFSETS} and view = {View.LATEST:d}"
    mark = f"case when api = {FETCH} then high_watermark when {latest} then offset end"
    shown = history.probes.where(f"error = 0 and {history.deletions.untouched()}").selectExpr(
        *PLACE, "if(log_start > 0, log_start, null) as start", "time", f"{mark} as mark",
        "if(leader_epoch >= 0, struct(leader_epoch, -time as since), null) as led",
        "if(leader_epoch >= 0, time, null) as told",
    )  # fmt: skip
    return (
        shown.groupBy(*PLACE, "start")
        .agg(sql.min("time").alias("shown"), *(sql.max(name).alias(name) for name in ("mark", "led", "told")))
        .groupBy(*PLACE)
        .agg(
            sql.expr("collect_list(if(start is null, null, struct(start, shown)))").alias("starts"),
            sql.max("mark").alias("shown_end"),
            sql.expr("-max(led).since").alias("led_since"),
            sql.max("told").alias("led_until"),
        )
    )


def _standing(history: History) -> DataFrame:
    """Per partition how far its readers by themselves got, and when, in words."""
    readers = history.records.where(f"not ({history.by_about('group', [True])})")
    told = "format_string('process %d stands at offset %d since %.3f s', process, reached, since)"
    since = f"(cast(max(time) as double) - {history.sealed.first_time_ns}D) / 1e9"
    each = aggregate(history, readers, [*PLACE, "process"], ["max(offset) as reached", f"{since} as since"])
    first = f"slice(sort_array(collect_list({told})), 1, {_STANDING_AT_MOST})"
    return aggregate(history, each, PLACE, [f"array_join({first}, ', ') as standing"])


def _find(history: History, rules: Sequence[Rule]) -> DataFrame:
    """The general way, with the readers that stand before what is unseen."""
    from pyspark.sql import functions as sql

    frame = values(history)
    if any(rule.anomaly == UNSEEN for rule in rules):
        frame = frame.join(sql.broadcast(_standing(history)), [*PLACE], "left")
    return find(frame, rules)


_SEND = {
    "offset": "acknowledged",
    "values": "array(value)",
    "time": "completed",
    "events": "array(send_event)",
    "tags": "array(gone)",
}
_UNREAD_SEND = {**_SEND, "tags": "array(gone, settled)"}
VALUES = Family(
    "values",
    values,
    (
        Rule(
            "lost-write",
            "acknowledged, at or below the highest offset read, and in no read",
            f"{_OK} and {_UNREAD} and {_USABLE} and acknowledged <= reached",
            f"{_OK} and keeps_all and {_USABLE} and reached is not null",
            {
                **_UNREAD_SEND,
                "events": "array(send_event, reached_event)",
                "detail": "format_string('acknowledged at offset %d; readers got to offset %d without it',"
                " acknowledged, reached)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "lost-write",
            "acknowledged without an offset, and not in the whole partition",
            f"{_OK} and {_UNREAD} and not {_USABLE} and {_END_READ}",
            f"{_OK} and keeps_all and not {_USABLE} and {_END_READ}",
            {
                **_UNREAD_SEND,
                "tags": "array('no offset', gone, settled)",
                "detail": "format_string('acknowledged without an offset; the final read ended at offset %d"
                " without it', final_end)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "lost-tail",
            "acknowledged above everything read, although the final read ended at the partition's end",
            f"{_OK} and {_UNREAD} and {_USABLE} and {_UNREACHED} and {_END_READ}",
            f"{_OK} and keeps_all and {_USABLE} and {_END_READ}",
            {
                **_UNREAD_SEND,
                "detail": "format_string('acknowledged at offset %d; the final read ended at offset %d without it',"
                " acknowledged, final_end)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            UNSEEN,
            "acknowledged below the partition's end, and nobody got there before the final read gave up",
            f"{_OK} and {_UNREAD} and {_USABLE} and {_UNREACHED} and {_STUCK} and acknowledged < known_end",
            f"{_OK} and keeps_all and {_USABLE} and {_STUCK}",
            {
                **_UNREAD_SEND,
                "detail": "format_string('acknowledged at offset %d, the partition ends at %d; %s', acknowledged,"
                " known_end, coalesce(standing, 'nobody was handed anything of it'))",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "phantom",
            "read, and nobody sent it",
            "type is null",
            "reads > 0",
            {
                "offset": "low",
                "values": "array(value)",
                "processes": f"array(if(foreign, null, {process_of('value')}), {process_of('read_event')})",
                "time": "seen",
                "events": "array(read_event)",
                "detail": "if(foreign, 'nobody sent it', format_string('process %d should have sent it and did not',"
                f" {process_of('value')}))",
            },
        ),
        Rule(
            "aborted-read",
            "read, although its send certainly failed",
            f"type = {Type.FAIL:d} and reads > 0",
            f"type = {Type.FAIL:d}",
            {
                "offset": "low",
                "values": "array(value)",
                "time": "seen",
                "events": "array(send_event, read_event)",
                "detail": "if(txn is null, 'its send ended as certainly failed', 'its transaction was aborted')",
            },
        ),
        Rule(
            "duplicate",
            "one value at two or more offsets",
            "low < high",
            "low is not null",
            {
                "offset": "low",
                "values": "array(value)",
                "time": "seen",
                "events": "array(low_event, high_event)",
                "tags": "array(sender, anew, apart)",
                "detail": "format_string('at offset %d and at offset %d', low, high)",
            },
        ),
        Rule(
            "false-ack",
            "acknowledged without a usable offset",
            f"{_OK} and not {_USABLE}",
            _OK,
            {**_SEND, "tags": "array('no offset', gone)", "detail": "'acknowledged without a usable offset'"},
            needs_acknowledgements=True,
        ),
        Rule(
            "false-ack",
            "acknowledged below the log start",
            f"{_OK} and {_USABLE} and exists(starts, s -> s.start > acknowledged and s.shown < invoked)",
            f"{_OK} and {_USABLE} and size(starts) > 0",
            {**_SEND, "detail": "'acknowledged below a log start that had been shown before it was sent'"},
            needs_acknowledgements=True,
        ),
    ),
    figures={
        "sent": "count(type)",
        "acknowledged": f"count_if({_OK})",
        "failed": f"count_if(type = {Type.FAIL:d})",
        "info": f"count_if(type = {Type.INFO:d})",
        "read": "sum(load_reads)",
        "distinct": f"count_if(load_reads > 0 and type is not null and not ({_ABORTED}))",
        "aborted": f"count_if({_ABORTED})",
        "transactional": "count(txn)",
        "never_read": f"count_if({_OK} and reads = 0)",
        "reached": "max(reached)",
        "final_ok": "max(final_invoked is not null)",
        "final_offset": "max(final_offset)",
        "final_end": "max(final_end)",
        "raw_ok": "max(raw_ok)",
    },
    find=_find,
)


def find_lost_writes(history: History) -> DataFrame:
    """Acknowledged, at or below the highest offset read, and in no read."""
    return VALUES.findings(history, VALUES.of("lost-write"))


def find_lost_tails(history: History) -> DataFrame:
    """Acknowledged above everything read, although the final read ended at the partition's end."""
    return VALUES.findings(history, VALUES.of("lost-tail"))


def find_unseen(history: History) -> DataFrame:
    """Acknowledged below the partition's end, and nobody got there before the final read gave up."""
    return VALUES.findings(history, VALUES.of(UNSEEN))


def find_duplicates(history: History) -> DataFrame:
    """One value at two or more offsets."""
    return VALUES.findings(history, VALUES.of("duplicate"))


def find_aborted_reads(history: History) -> DataFrame:
    """Read, although the send certainly failed."""
    return VALUES.findings(history, VALUES.of("aborted-read"))


def find_phantoms(history: History) -> DataFrame:
    """Read, and nobody sent it."""
    sent = VALUES.findings(history, VALUES.of("phantom"))
    return sent.unionByName(ODD.findings(history, ODD.of("phantom")))


def find_false_acks(history: History) -> DataFrame:
    """Acknowledged without an offset that can be true."""
    without = VALUES.findings(history, VALUES.of("false-ack"))
    return without.unionByName(OFFSETS.findings(history, OFFSETS.of("false-ack")))


FAMILIES: tuple[Family, ...] = (VALUES,)
STUDIES: tuple[Study, ...] = ()
