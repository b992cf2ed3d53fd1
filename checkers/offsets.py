"""Offsets: what each place of a log holds, and records that say of themselves that something is wrong.

*Log(p)* maps the offsets of partition p to values; it is made of every record read there and of every acknowledgement
with an offset. (What an `info` or failed send says of its offset proves nothing by itself, and once somebody read it
the record tells.)

inconsistent-offset   one offset with two or more values.
shared-offset         one offset acknowledged to two or more sends: acknowledgements alone prove it.
false-ack             offset 0 acknowledged to three or more sends.
corrupt               a record whose checksum does not hold.
misrouted             a record in another topic or partition than it was sent to. It counts as a read of its value.
phantom               a record that is none of this run's.

The rules of the log are counted together with those about its order (`checkers.linearizability`): its rows are the
same, and are put together once.

A topic that the workload deletes begins again at offset 0. So each era of it (`checkers.deletions`) has a log of its
own, and what may belong to two eras has another one, whose findings are tagged `deleted topic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import PLACE, Family, History, Rule, Study
from checkers.log import log
from harness.history import Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZEROS = 3  # acknowledgements of offset 0 that are one too many

_OK = f"type = {Type.OK:d}"
_TOLD = f"status in ({Status.GOOD:d}, {Status.MISROUTED:d})"  # of a record: its value can be believed


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


_GONE = f"array(if(era = {UNSURE}, 'deleted topic', null))"
_TWO_VALUES = {
    "offset": "offset",
    "time": "least(low_time, high_time)",
    "until": "greatest(low_time, high_time)",
    "tags": _GONE,
}
_TWO_ACKS = {
    "offset": "offset",
    "tags": _GONE,
    "time": "least(low_ack_time, high_ack_time)",
    "until": "greatest(low_ack_time, high_ack_time)",
    "values": "array(low_ack, high_ack)",
    "events": "array(low_ack_event, high_ack_event)",
    "severity": "acks",
}
_ODD = {"offset": "offset", "values": "array(value)", "time": "seen", "events": "array(event)"}

OFFSETS = Family(
    "offsets",
    log,
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


def find_inconsistent_offsets(history: History) -> DataFrame:
    """One offset, two or more values."""
    return OFFSETS.findings(history, OFFSETS.of("inconsistent-offset"))


def find_shared_offsets(history: History) -> DataFrame:
    """One offset acknowledged to two or more sends."""
    return OFFSETS.findings(history, OFFSETS.of("shared-offset"))


def find_corrupt(history: History) -> DataFrame:
    """Records whose checksum does not hold."""
    return ODD.findings(history, ODD.of("corrupt"))


def find_misrouted(history: History) -> DataFrame:
    """Records in another topic or partition than they were sent to."""
    return ODD.findings(history, ODD.of("misrouted"))


FAMILIES: tuple[Family, ...] = (ODD,)  # what is asked of the log is asked together with its order, in one scan
STUDIES: tuple[Study, ...] = ()
