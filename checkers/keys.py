"""Keys: of a compacted topic the last record of each key has to stay; all earlier ones may go.

The *last write* of a key is the acknowledged send with the highest offset in the key's partition; of several that were
acknowledged at that offset one that the final readers did not return, and of these the highest value. Values and
tombstones are alike: brokers keep a tombstone for longer than a run lasts. What was sent before the end of the last
deletion of its topic (`checkers.deletions`) may be gone, and is no last write.

lost-write   the last write of a key, when a final read of its partition, begun at or after the acknowledgement, ended
             at the end, and final readers returned neither its value nor a record at a higher offset, of that key and
             partition (tag `last of its key`).

A record at a higher offset may be of a send that nobody knows the end of: it supersedes the last write, as compaction
goes by keys and offsets alone. For the same reason it need not be whole: that it is not is an anomaly of its own. At
the offset itself another value is not the write; at a lower one its value is, and is a duplicate. What compaction has
left of earlier writes is nobody's concern. An acknowledgement without a usable offset cannot be a last write: it is a
false one (`checkers.delivery`).

One shuffle by topic, partition and key, with writes and reads side by side: first of each value, then of each key. How
the final reads of partitions ended is small, and broadcast to it.
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
_GONE = "returned is null and coalesce(found <= written, true)"


def keys(history: History) -> DataFrame:
    """One row per key of compacted topics: its last write, and the last record of it that the final read returned."""
    from pyspark.sql import functions as sql

    topics = ", ".join(map(str, sorted(history.compacted))) or "null"
    ours = f"topic in ({topics}) and key is not null"
    lasting = f"not coalesce(invoked < {history.deletions.until()}, false)"
    sends = history.sends.where(f"{ours} and type = {Type.OK:d} and offset >= 0 and {lasting}").selectExpr(
        *PLACE, "key", "value", "offset as write", "time", "event as send_event"
    )
    reads = history.records.where(f"{ours} and {history.by_role(FINAL_ROLE)}").selectExpr(
        *PLACE, "key", "value", "offset as read", "event as read_event"
    )
    rows = history.spread(sends.unionByName(reads, allowMissingColumns=True), *PLACE, "key")
    of_values = aggregate(
        history,
        rows,
        [*PLACE, "key", "value"],
        [
            "max(write) as write",
            "max(read) as read",
            "max(time) as time",
            "max(send_event) as send_event",
            "max_by(read_event, read) as read_event",
        ],
    )
    last = "if(write is null, null, struct(write, read is null, value))"
    known = aggregate(
        history,
        of_values,
        [*PLACE, "key"],
        [
            "max(write) as written",
            f"max_by(struct(value, read, time, send_event), {last}) as last",
            "max(read) as found",
            "max_by(read_event, read) as read_event",
        ],
    ).selectExpr(
        *PLACE, "key", "written", "last.value as value", "last.read as returned", "last.time as completed",
        "last.send_event as send_event", "found", "read_event",
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
