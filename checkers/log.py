"""Log(p): what each offset of a partition holds, as clients know it. One row per offset, which many rules look at.

It is made of every record that anybody was handed and of every acknowledgement with an offset. What an `info` or
failed send says of its offset proves nothing by itself, and once somebody read it the record tells.

Rows of one stretch of offsets (`chunk`) are in one task, and no stretch is longer than CHUNK. Who needs the order of
offsets sorts inside of a stretch, and carries what is needed from one stretch to the next in a second, small step. So
one shuffle serves everything that is asked of a log, and no partition has to fit into a task.

topic, partition, era, chunk, offset   the place; `era`: lives of a topic that the workload deleted, else 0
low, high                              the lowest and highest value known there
acks, low_ack, high_ack                acknowledgements of this offset: how many, and of which values
invoked, completed                     of the acknowledged send: the latest invocation, the earliest completion
producer, sequence, txn                of the acknowledged send
reads, committed_reads, load_reads     records handed out: to anybody, to readers of committed ones, to the load's
first_read                             when a record of this place was first handed out (the end of that poll)
…_event, …_time                        evidence; whoever does not ask for it does not pay for it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE, Deletions
from checkers.frame import FRESH_ROLES, LOAD_ROLE, PLACE, History, aggregate, first_of
from harness.history import Status, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHUNK = 1 << 16
KEYS = (*PLACE, "era", "chunk")
_OK = f"type = {Type.OK:d}"
_TOLD = f"status in ({Status.GOOD:d}, {Status.MISROUTED:d})"  # of a record: its value can be believed


def log(history: History, more: Sequence[DataFrame] = (), totals: Sequence[str] = ()) -> DataFrame:
    """One row per offset. `more` are rows of others that have a place in the same order, `totals` what is made of them.

    A row that has nothing but what others brought has neither `acks` nor `reads`.
    """
    gone = history.deletions
    of_sends, of_reads = (gone.era("invoked", "time"), era_read(history)) if gone else ("0", "0")
    sends = history.sends.where(f"{_OK} and offset >= 0").selectExpr(
        *PLACE, f"{of_sends} as era", f"offset div {CHUNK} as chunk", "offset", "value", "value as acknowledged",
        "invoked", "time as completed", "process as producer", "sequence", "txn", "event", "time",
    )  # fmt: skip
    reads = history.records.selectExpr(
        *PLACE, f"{of_reads} as era", f"offset div {CHUNK} as chunk", "offset", f"if({_TOLD}, value, null) as value",
        "1 as read", f"if({history.sees_aborted}, null, 1) as committed",
        f"if({history.by_role(LOAD_ROLE)}, 1, null) as load", "time as read_time", "event", "time",
    )  # fmt: skip
    rows = sends.unionByName(reads, allowMissingColumns=True)
    for others in more:
        rows = rows.unionByName(others, allowMissingColumns=True)
    return aggregate(
        history,
        history.spread(rows, *KEYS),
        [*KEYS, "offset"],
        [
            *totals,
            "min(value) as low",
            "max(value) as high",
            "count(acknowledged) as acks",
            "min(acknowledged) as low_ack",
            "max(acknowledged) as high_ack",
            "max(invoked) as invoked",
            "min(completed) as completed",
            "max(producer) as producer",
            "max(sequence) as sequence",
            "max(txn) as txn",
            "count(read) as reads",
            "count(committed) as committed_reads",
            "count(load) as load_reads",
            "min(read_time) as first_read",
            *(
                f"{first_of(what, which, of)} as {which_name}{suffix}_{what}"
                for of, suffix in (("value", ""), ("acknowledged", "_ack"))
                for which, which_name in (("lowest", "low"), ("highest", "high"))
                for what in ("event", "time")
            ),
        ],
    )


def era_read(history: History) -> str:
    """SQL: the era of a record; what a reader of the load was handed after a deletion may be from before it."""
    first = {topic: windows[:1] for topic, windows in history.deletions.windows.items()}
    era = history.deletions.era("invoked", "time")
    in_first = Deletions(first).era("invoked", "time")
    return f"if({history.by_role(*FRESH_ROLES)}, {era}, if({in_first} = 0, 0, {UNSURE}))"
