"""Keys: of a compacted topic the last record of each key has to stay; all earlier ones may go.

The *last write* of a key is the acknowledged send with the highest offset in the key's partition. Values and tombstones
are alike: brokers keep a tombstone for longer than a run lasts.

lost-write   the last write of a key, when the final read of its partition, begun after the acknowledgement, ended at
             the end and returned neither it nor a record of that key at a higher offset (tag `last of its key`).

A record at a higher offset may be of a send that nobody knows the end of: it supersedes the last write, as compaction
goes by keys and offsets alone. For the same reason it need not be whole: that it is not is an anomaly of its own. At
the offset itself another value is not the write. What compaction has left of earlier writes is nobody's concern. An
acknowledgement without a usable offset cannot be a last write: it is a false one (`checkers.delivery`).

One aggregate by topic, partition and key, with writes and reads side by side; how the final reads of partitions ended
is small, and broadcast to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.frame import PLACE, Family, History, Rule, Study, aggregate
from harness.history import Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINAL_ROLE = "final"
LAST_OF_ITS_KEY = "last of its key"

_JUDGED = "written is not null and completed <= final_invoked"  # by a final read that was begun after it
_GONE = "(found is null or found < written or (found = written and not (found_value <=> value)))"


def keys(history: History) -> DataFrame:
    """One row per key of compacted topics: its last write, and the last record of it that the final read returned."""
    from pyspark.sql import functions as sql

    topics = ", ".join(map(str, sorted(history.compacted))) or "null"
    ours = f"topic in ({topics}) and key is not null"
    sends = history.sends.where(f"{ours} and type = {Type.OK:d} and offset >= 0").selectExpr(
        *PLACE, "key", "offset as write", "struct(value, time, event) as sent"
    )
    reads = history.records.where(f"{ours} and {history.by_role(FINAL_ROLE)}").selectExpr(
        *PLACE, "key", "offset as read", "struct(value, event) as got"
    )
    rows = sends.unionByName(reads, allowMissingColumns=True)
    known = aggregate(
        history,
        history.spread(rows, *PLACE, "key"),
        [*PLACE, "key"],
        [
            "max(write) as written",
            "max_by(sent, write) as sent",
            "max(read) as found",
            "max_by(got, read) as got",
        ],
    ).selectExpr(
        *PLACE, "key", "written", "sent.value as value", "sent.time as completed", "sent.event as send_event",
        "found", "got.value as found_value", "got.event as read_event",
    )  # fmt: skip
    ends = (
        history.finals.where(f"type = {Type.OK:d}")
        .groupBy(*PLACE)
        .agg(sql.max("invoked").alias("final_invoked"), sql.max_by("end", "invoked").alias("final_end"))
    )
    return known.join(sql.broadcast(ends), [*PLACE], "left")


KEYS = Family(
    "keys",
    keys,
    (
        Rule(
            "lost-write",
            "the last acknowledged of its key, and the final read had neither it nor a later one",
            f"{_JUDGED} and {_GONE}",
            _JUDGED,
            {
                "offset": "written",
                "values": "array(value)",
                "time": "completed",
                "events": "array(send_event, read_event)",
                "tags": f"array('{LAST_OF_ITS_KEY}')",
                "detail": "format_string('the last write of key %d, acknowledged at offset %d; the final read ended at"
                " offset %d and had %s', key, written, final_end,"
                " if(found is null, 'nothing of that key', format_string('offset %d of that key', found)))",
            },
            needs_acknowledgements=True,
        ),
    ),
    figures={"keys": "count(written)", "keys_found": "count(found)"},
    needs=lambda history: bool(history.compacted),
)


FAMILIES: tuple[Family, ...] = (KEYS,)
STUDIES: tuple[Study, ...] = ()
