"""Delivery: what clients sent, what was acknowledged, and what readers were handed.

Values are unique: the value of a record is the operation of its send. An acknowledgement is a send that ended `ok`. A
read is a record that anybody was handed, in whatever phase. *Log(p)* maps the offsets of partition p to values; it is
made of every record read there and of every acknowledgement with an offset. (What an `info` send says of its offset
proves nothing by itself, and once somebody read it the record tells.)

lost-write            acknowledged, at or below the highest offset read in its partition, and in no read. Offsets are
                      handed out in the order of the log, so that the order of offsets is the order of indexes. A value
                      that was acknowledged without a usable offset is lost when nobody read it although the final
                      read, begun after the acknowledgement, ended at the end of the partition.
lost-tail             acknowledged above everything that was read, although the final read of the partition, begun
                      after the acknowledgement, ended at its end offset.
phantom               read, and nobody sent it; a record that is none of this run's is one too.
aborted-read          read, although its send certainly failed.
duplicate             one value at two or more offsets of its partition.
inconsistent-offset   one offset with two or more values.
shared-offset         one offset acknowledged to two or more sends: acknowledgements alone prove it.
false-ack             acknowledged without a usable offset (none, or negative), or below a log start that a node had
                      shown before the send was invoked, or offset 0 acknowledged to three or more sends.
corrupt               a record whose checksum does not hold.
misrouted             a record in another topic or partition than it was sent to. It counts as a read of its value.

A record that is corrupt or foreign shows how far a reader got, and is a read of no value.

Everything about values is one hash aggregate by value, with the acknowledgement and the reads as flags side by side:
half the price of joining what was sent against what was read. Everything about offsets is a second one. What a
partition as a whole shows (how far readers got, how the final read ended) is small and broadcast to the first.

With acks=0 nothing is acknowledged, and rules about acknowledgements do not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.frame import LOAD_ROLE, PLACE, Family, History, Rule, aggregate, process_of
from harness.history import Kind, Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZEROS = 3  # acknowledgements of offset 0 that are one too many

_OK = f"type = {Type.OK:d}"
_TOLD = f"status in ({Status.GOOD:d}, {Status.MISROUTED:d})"  # of a record: its value can be believed
_USABLE = "coalesce(acknowledged, -1) >= 0"
_END_READ = "final_invoked is not null and completed <= final_invoked"  # by a read begun after the acknowledgement


def _first(wanted: str, which: str, column: str) -> str:
    """SQL: the event or time at which the lowest or highest of a column was there first."""
    function, since = ("min_by", "time") if which == "lowest" else ("max_by", "-time")
    return f"{function}({wanted}, if({column} is null, null, struct({column}, {since}, event)))"


def values(history: History) -> DataFrame:
    """One row per value: how its send ended, how often it was read, the lowest and highest offset it is known at."""
    from pyspark.sql import functions as sql

    sends = history.sends.selectExpr(
        "value", "topic", "partition", "type", "offset as acknowledged", "invoked", "time as completed",
        "event as send_event", f"if({_OK} and offset >= 0, offset, null) as place", "event", "time",
    )  # fmt: skip
    right = f"status = {Status.GOOD:d}"
    reads = history.records.where(f"value is not null and {_TOLD}").selectExpr(
        "value", f"if({right}, topic, null) as topic", f"if({right}, partition, null) as partition",
        f"if({right}, offset, null) as place", "1 as read", f"if({history.by_role(LOAD_ROLE)}, 1, null) as load",
        "event", "time",
    )  # fmt: skip
    rows = sends.unionByName(reads, allowMissingColumns=True)
    known = aggregate(
        history,
        history.spread(rows, "value"),
        ["value"],
        [
            *(
                f"max({name}) as {name}"
                for name in (*PLACE, "type", "acknowledged", "invoked", "completed", "send_event")
            ),
            "count(read) as reads",
            "count(load) as load_reads",
            "min(place) as low",
            "max(place) as high",
            f"{_first('event', 'lowest', 'place')} as low_event",
            f"{_first('event', 'highest', 'place')} as high_event",
            "min(event) filter (where read = 1) as read_event",
            "min(time) as seen",
        ],
    )
    joined = known.join(sql.broadcast(_partitions(history)), [*PLACE], "left")
    if not history.has(Kind.PROBE):
        return joined.selectExpr("*", "cast(null as array<struct<start: bigint, shown: bigint>>) as starts")
    return joined.join(sql.broadcast(_log_starts(history)), [*PLACE], "left")


def _partitions(history: History) -> DataFrame:
    """One row per partition: how far readers got, and how the final read ended."""
    from pyspark.sql import functions as sql

    records = history.records.selectExpr(*PLACE, "offset as reached", "event")
    finals = history.finals.selectExpr(
        *PLACE, f"if({_OK}, invoked, null) as final_invoked", "offset as final_offset", "end as final_end", "time"
    )
    return (
        records.unionByName(finals, allowMissingColumns=True)
        .groupBy(*PLACE)
        .agg(
            sql.max("reached").alias("reached"),
            sql.max_by("event", "reached").alias("reached_event"),
            sql.max("final_invoked").alias("final_invoked"),
            sql.max_by("final_offset", "time").alias("final_offset"),
            sql.max_by("final_end", "time").alias("final_end"),
        )
    )


def _log_starts(history: History) -> DataFrame:
    """Per partition the log starts above 0 that nodes showed, each with the first moment."""
    from pyspark.sql import functions as sql

    shown = history.probes.where("error = 0 and log_start > 0").groupBy(*PLACE, "log_start")
    return (
        shown.agg(sql.min("time").alias("shown"))
        .groupBy(*PLACE)
        .agg(sql.expr("collect_list(struct(log_start as start, shown))").alias("starts"))
    )


def offsets(history: History) -> DataFrame:
    """One row per offset of Log(p): the lowest and highest value known there, and how often it was acknowledged."""
    sends = history.sends.where(f"{_OK} and offset >= 0").selectExpr(
        *PLACE, "offset", "value", "value as acknowledged", "event", "time"
    )
    reads = history.records.selectExpr(
        *PLACE, "offset", f"if({_TOLD}, value, null) as value", "event", "time",
        f"if({history.by_role(LOAD_ROLE)}, 1, null) as load",
    )  # fmt: skip
    rows = sends.unionByName(reads, allowMissingColumns=True)
    return aggregate(
        history,
        history.spread(rows, *PLACE, "offset"),
        [*PLACE, "offset"],
        [
            "min(value) as low",
            "max(value) as high",
            "min(acknowledged) as low_ack",
            "max(acknowledged) as high_ack",
            "count(acknowledged) as acks",
            "count(load) as load_reads",
            f"{_first('event', 'lowest', 'value')} as low_event",
            f"{_first('event', 'highest', 'value')} as high_event",
            f"{_first('event', 'lowest', 'acknowledged')} as low_ack_event",
            f"{_first('event', 'highest', 'acknowledged')} as high_ack_event",
            f"{_first('time', 'lowest', 'value')} as low_time",
            f"{_first('time', 'highest', 'value')} as high_time",
            f"{_first('time', 'lowest', 'acknowledged')} as low_ack_time",
            f"{_first('time', 'highest', 'acknowledged')} as high_ack_time",
        ],
    )


def odd(history: History) -> DataFrame:
    """Records that say of themselves that something is wrong, each place once. A healthy history skips their scan."""
    from pyspark.sql import functions as sql

    return (
        history.records.where(f"status > {Status.GOOD:d}")
        .groupBy(*PLACE, "offset", "status")
        .agg(
            sql.max("value").alias("value"),
            sql.max("producer").alias("producer"),
            sql.min("event").alias("event"),
            sql.min("time").alias("seen"),
        )
    )


_SEND = {"offset": "acknowledged", "values": "array(value)", "time": "completed", "events": "array(send_event)"}
_TWO_VALUES = {"offset": "offset", "time": "least(low_time, high_time)", "until": "greatest(low_time, high_time)"}
_TWO_ACKS = {
    "offset": "offset",
    "time": "least(low_ack_time, high_ack_time)",
    "until": "greatest(low_ack_time, high_ack_time)",
    "values": "array(low_ack, high_ack)",
    "events": "array(low_ack_event, high_ack_event)",
    "severity": "acks",
}
_ODD = {"offset": "offset", "values": "array(value)", "time": "seen", "events": "array(event)"}

VALUES = Family(
    "values",
    values,
    (
        Rule(
            "lost-write",
            "acknowledged, at or below the highest offset read, and in no read",
            f"{_OK} and reads = 0 and {_USABLE} and acknowledged <= reached",
            f"{_OK} and {_USABLE} and reached is not null",
            {
                **_SEND,
                "events": "array(send_event, reached_event)",
                "detail": "format_string('acknowledged at offset %d; readers got to offset %d without it',"
                " acknowledged, reached)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "lost-write",
            "acknowledged without an offset, and not in the whole partition",
            f"{_OK} and reads = 0 and not {_USABLE} and {_END_READ}",
            f"{_OK} and not {_USABLE} and {_END_READ}",
            {
                **_SEND,
                "tags": "array('no offset')",
                "detail": "format_string('acknowledged without an offset; the final read ended at offset %d"
                " without it', final_end)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "lost-tail",
            "acknowledged above everything read, although the final read ended at the partition's end",
            f"{_OK} and reads = 0 and {_USABLE} and (reached is null or acknowledged > reached) and {_END_READ}",
            f"{_OK} and {_USABLE} and {_END_READ}",
            {
                **_SEND,
                "detail": "format_string('acknowledged at offset %d; the final read ended at offset %d without it',"
                " acknowledged, final_end)",
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
                "processes": f"array({process_of('value')}, {process_of('read_event')})",
                "time": "seen",
                "events": "array(read_event)",
                "detail": f"format_string('process %d should have sent it and did not', {process_of('value')})",
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
                "detail": "'its send ended as certainly failed'",
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
                "detail": "format_string('at offset %d and at offset %d', low, high)",
            },
        ),
        Rule(
            "false-ack",
            "acknowledged without a usable offset",
            f"{_OK} and not {_USABLE}",
            _OK,
            {**_SEND, "tags": "array('no offset')", "detail": "'acknowledged without a usable offset'"},
            needs_acknowledgements=True,
        ),
        Rule(
            "false-ack",
            "acknowledged below the log start",
            f"{_OK} and {_USABLE} and exists(starts, s -> s.start > acknowledged and s.shown < invoked)",
            f"{_OK} and {_USABLE} and starts is not null",
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
        "distinct": "count_if(load_reads > 0 and type is not null)",
        "never_read": f"count_if({_OK} and reads = 0)",
        "reached": "max(reached)",
        "final_ok": "max(final_invoked is not null)",
        "final_offset": "max(final_offset)",
        "final_end": "max(final_end)",
    },
)

OFFSETS = Family(
    "offsets",
    offsets,
    (
        Rule(
            "inconsistent-offset",
            "one offset, two or more values",
            "low < high",
            "low is not null",
            {
                **_TWO_VALUES,
                "values": "array(low, high)",
                "events": "array(low_event, high_event)",
                "detail": "format_string('offset %d holds two values', offset)",
            },
        ),
        Rule(
            "shared-offset",
            "one offset acknowledged to two or more sends",
            "low_ack < high_ack",
            "acks > 0",
            {
                **_TWO_ACKS,
                "detail": "format_string('offset %d was acknowledged to %d sends', offset, acks)",
            },
            needs_acknowledgements=True,
        ),
        Rule(
            "false-ack",
            "offset 0 acknowledged again and again",
            f"offset = 0 and acks >= {ZEROS}",
            "offset = 0 and acks > 0",
            {
                **_TWO_ACKS,
                "detail": "format_string('offset 0 was acknowledged to %d sends', acks)",
            },
            needs_acknowledgements=True,
        ),
    ),
    figures={
        "first_offset": "min(if(load_reads > 0, offset, null))",
        "last_offset": "max(if(load_reads > 0, offset, null))",
        "offsets_read": "count_if(load_reads > 0)",
    },
)

ODD = Family(
    "odd records",
    odd,
    (
        Rule(
            "corrupt",
            "a record whose checksum does not hold",
            f"status = {Status.CORRUPT:d}",
            None,
            {**_ODD, "detail": "format_string('the record at offset %d fails its checksum', offset)"},
        ),
        Rule(
            "misrouted",
            "a record in another topic or partition than it was sent to",
            f"status = {Status.MISROUTED:d}",
            None,
            {**_ODD, "detail": "format_string('the record at offset %d was sent elsewhere', offset)"},
        ),
        Rule(
            "phantom",
            "a record that is none of this run's",
            f"status = {Status.FOREIGN:d}",
            None,
            {
                **_ODD,
                "tags": "array('foreign')",
                "detail": "format_string('the record at offset %d is none of this run', offset)",
            },
        ),
    ),
)


def find_lost_writes(history: History) -> DataFrame:
    """Acknowledged, at or below the highest offset read, and in no read."""
    return VALUES.findings(history, VALUES.of("lost-write"))


def find_lost_tails(history: History) -> DataFrame:
    """Acknowledged above everything read, although the final read ended at the partition's end."""
    return VALUES.findings(history, VALUES.of("lost-tail"))


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


def find_inconsistent_offsets(history: History) -> DataFrame:
    """One offset, two or more values."""
    return OFFSETS.findings(history, OFFSETS.of("inconsistent-offset"))


def find_shared_offsets(history: History) -> DataFrame:
    """One offset acknowledged to two or more sends."""
    return OFFSETS.findings(history, OFFSETS.of("shared-offset"))


def find_false_acks(history: History) -> DataFrame:
    """Acknowledged without an offset that can be true."""
    without = VALUES.findings(history, VALUES.of("false-ack"))
    return without.unionByName(OFFSETS.findings(history, OFFSETS.of("false-ack")))


def find_corrupt(history: History) -> DataFrame:
    """Records whose checksum does not hold."""
    return ODD.findings(history, ODD.of("corrupt"))


def find_misrouted(history: History) -> DataFrame:
    """Records in another topic or partition than they were sent to."""
    return ODD.findings(history, ODD.of("misrouted"))
