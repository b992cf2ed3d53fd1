"""Replicas: what each node has of a partition, asked of that node whoever leads, when all is over.

A *replica read* is a completed REPLICA operation of a process with the role `replica`; the manifest says its `node`.
It covers the offsets from where its ASSIGN of that place began (the process's only one there; the last one by `event`
counts) to the least of where it stopped (`offset`) and the high watermark that its node showed (`end`), exclusive. It
covers nothing if either is null, or if there is no such ASSIGN. However it ended: what it covers was read. Of a process
with more than one for a place the last one, by `event`, counts.

replica-divergence   an offset that the reads of two or more nodes cover, and that was handed out by one of them at
                     least, inside of what it covers: with two different values (a null is a value), or two different
                     statuses; or, tagged `missing` and only if that is not so, not by all of those nodes. The latter
                     not in a compacted topic: each replica is compacted by itself. Records at one offset and of one
                     era (`checkers.deletions`, by `invoked` and `time`) are one finding; `deleted topic` if the era is
                     UNSURE.

Records of replicas are no reads of clients: no other checker sees them. Markers of transactions are handed out by
nobody; what was aborted is by all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from checkers.deletions import UNSURE
from checkers.frame import PLACE, REPLICA_ROLE, Family, History, Rule, Study, aggregate, first_of
from harness.history import F, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DIFFERENT = "(coalesce(low < high, false) or valued not in (0, records) or low_status < high_status)"
_COMPARED = "bit_count(covering) > 1"
_MISSING = f"keeps_all and not {_DIFFERENT} and (covering & ~holders) <> 0"
_NODES = "array_join({}, ', ')"


def _nodes(history: History) -> dict[int, int]:
    """By the process that asked it, each node."""
    found = sorted(history.sealed.processes.items())
    return {n: int(about["node"]) for n, about in found if about.get("role") == REPLICA_ROLE and "node" in about}


def copies(history: History) -> DataFrame:
    """One row per offset that a replica handed out: who covers it, who had it, and what."""
    from pyspark.sql import functions as sql

    nodes = sorted(set(_nodes(history).values()))
    ranges = _ranges(history, {process: 1 << nodes.index(node) for process, node in _nodes(history).items()})
    era = history.deletions.era("invoked", "time") if history.deletions else "0"
    records = history.kind(Kind.RECORD).where(history.by_role(REPLICA_ROLE))
    covered = records.join(sql.broadcast(ranges), ["process", *PLACE]).where("offset >= begin and offset < stop")
    rows = covered.selectExpr(*PLACE, f"{era} as era", "offset", "bit", "value", "status", "event", "time")
    known = aggregate(
        history,
        history.spread(rows, *PLACE, "offset"),
        [*PLACE, "era", "offset"],
        [
            "bit_or(bit) as holders",
            "count(*) as records",
            "count(value) as valued",
            "min(value) as low",
            "max(value) as high",
            "min(status) as low_status",
            "max(status) as high_status",
            "min(time) as first_time",
            "max(time) as last_time",
            "min(event) as any_event",
            f"{first_of('event', 'lowest', 'value')} as low_event",
            f"{first_of('event', 'highest', 'value')} as high_event",
        ],
    )
    whole = aggregate(history, ranges, PLACE, ["collect_list(struct(bit, begin, stop)) as ranges"])
    covers = "if(offset >= r.begin and offset < r.stop, r.bit, 0L)"
    compacted = ", ".join(map(str, sorted(history.compacted))) or "null"
    return known.join(sql.broadcast(whole), [*PLACE]).selectExpr(
        "*", f"aggregate(ranges, 0L, (all, r) -> all | {covers}) as covering",
        f"not coalesce(topic in ({compacted}), false) as keeps_all",
        f"array({', '.join(map(str, nodes))}) as nodes",
    )  # fmt: skip


def _ranges(history: History, bits: Mapping[int, int]) -> DataFrame:
    """Per process and place, from where to where it read; with the bit of its node."""
    from pyspark.sql import functions as sql

    of_process = history.spark.createDataFrame(list(bits.items()), "process int, bit bigint")
    asked = history.completions.where(f"f in ({F.ASSIGN:d}, {F.REPLICA:d}) and {history.by_role(REPLICA_ROLE)}")
    read = f"if(f = {F.REPLICA:d}, event, null)"
    return (
        aggregate(
            history,
            asked,
            ["process", *PLACE],
            [
                f"max_by(offset, if(f = {F.ASSIGN:d}, event, null)) as begin",
                f"max_by(if(offset is null or end is null, null, least(offset, end)), {read}) as stop",
            ],
        )
        .where("begin is not null and stop is not null")
        .join(sql.broadcast(of_process), "process")
    )


def _which(bits: str) -> str:
    """SQL: the nodes of these bits."""
    return f"filter(nodes, (node, i) -> ({bits} & shiftleft(1L, i)) <> 0)"


_EVIDENCE = {"offset": "offset", "time": "first_time", "until": "last_time"}
_GONE = f"if(era = {UNSURE}, 'deleted topic', null)"
REPLICAS = Family(
    "replicas",
    copies,
    (
        Rule(
            "replica-divergence",
            "two replicas hold different records at one offset below the watermark",
            f"{_COMPARED} and {_DIFFERENT}",
            _COMPARED,
            {
                **_EVIDENCE,
                "values": "if(low < high, array(low, high), array(low))",
                "nodes": _which("holders"),
                "events": "array(low_event, high_event, any_event)",
                "tags": f"array({_GONE})",
                "severity": "bit_count(holders)",
                "detail": f"format_string('nodes %s hold different records', {_NODES.format(_which('holders'))})",
            },
        ),
        Rule(
            "replica-divergence",
            "a replica lacks a record below the watermark that another one holds",
            f"{_COMPARED} and {_MISSING}",
            _COMPARED,
            {
                **_EVIDENCE,
                "values": "array(low)",
                "nodes": _which("covering"),
                "events": "array(any_event)",
                "tags": f"array('missing', {_GONE})",
                "severity": "bit_count(covering & ~holders)",
                "detail": f"format_string('held by node %s, and not by node %s', {_NODES.format(_which('holders'))},"
                f" {_NODES.format(_which('(covering & ~holders)'))})",
            },
        ),
    ),
    needs=lambda history: bool(_nodes(history)) and history.has(Kind.RECORD),
)


def find_replica_divergences(history: History) -> DataFrame:
    """Offsets below the watermark at which replicas do not hold the same."""
    return REPLICAS.findings(history)


FAMILIES: tuple[Family, ...] = (REPLICAS,)
STUDIES: tuple[Study, ...] = ()
