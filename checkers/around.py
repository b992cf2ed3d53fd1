"""The operations around findings, what replicas have of them, and witnesses of linearizability: what timelines show.

Of each anomaly the first FINDINGS findings are shown, FINDINGS_AT_MOST in all. To each belong, of each kind of event,
at most ROWS that are named or of it, and NEAR_ROWS that are near, or ROWS of exchanges:

named       the events that the finding names
of it       sends and records of its values, and what is at its offset in its partition; exchanges whose batch covers it
near        what happened in its partition within `near_ns` of its time or its end, the nearest first; what the harness
            asked by itself at the taps is left out, and other clients than those it blames come last

replica     what a node had of it when all was over: a record of one of its values at its offset, another one, or none;
            or nobody looked, because its read did not cover that offset (`checkers.replicas` says what it covers)
witness     per partition, around the first fault or else the middle of the load: sends that were acknowledged with
            consecutive offsets, each with the moment at which it can have taken effect: the latest invocation of any
            acknowledged send at its offset or a lower one, or of an end() that shows no more than its offset (those
            that show the same are one: invoked when the last of them was, over when the first was)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkers.answers import FETCH, LIST_OFFSETS
from checkers.coverage import PRODUCE
from checkers.frame import PLACE, REPLICA_ROLE, History, aggregate, together
from harness.history import F, Kind, Type, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINDINGS = 3
FINDINGS_AT_MOST = 40
ROWS = 10
NEAR_ROWS = 5
WITNESSES = 12  # partitions
WITNESSED = 12  # offsets on each side
NEAR_LEAST_NS, NEAR_MOST_NS, NEAR_PACES = 20_000_000, 1_000_000_000, 40
TEXT_CHARACTERS = 300
STRANGER_NS = 3_600_000_000_000
OWN = "client rlike '^tidegauge(-(final|raw|probe|replica).*)?$'"
COLUMNS: dict[str, str] = {
    "event": "bigint", "time": "bigint", "invoked": "bigint", "process": "int", "f": "int", "type": "int",
    "topic": "int", "partition": "int", "offset": "bigint", "value": "bigint", "node": "int", "api": "int",
    "view": "int", "error": "int", "high_watermark": "bigint", "leader": "int", "leader_epoch": "int", "isr": "string",
    "count": "int", "client": "string", "name": "string", "detail": "string",
}  # fmt: skip
WANTED = (
    "number int, topic int, partition int, offset bigint, `values` array<bigint>, events array<bigint>, since bigint,"
    " until bigint, blamed array<int>"
)
_END = f"api = {LIST_OFFSETS} and view = {View.LATEST:d} and error = 0 and offset >= 0"
Place = tuple[int, int]
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """A finding of which the operations are shown."""

    key: str  # the anomaly and its number among the findings that were kept
    topic: int | None
    partition: int | None
    offset: int | None
    values: tuple[int, ...]
    events: tuple[int, ...]
    since: int | None
    until: int | None
    blamed: tuple[int, ...]

    def row(self, number: int) -> tuple[Any, ...]:
        """As `WANTED` has it."""
        lists = (list(self.values), list(self.events))
        return (number, self.topic, self.partition, self.offset, *lists, self.since, self.until, list(self.blamed))


def wanted(results: Mapping[str, Any], topics: Mapping[str, int]) -> list[Wanted]:
    """The first of each anomaly; what is illegal comes first."""
    marks = {seen["anomaly"]: str(seen["mark"]) for seen in results.get("seen", [])}
    found = [anomaly for anomaly in results.get("anomalies", {}).values() if anomaly["findings"]]
    found.sort(key=lambda anomaly: marks.get(anomaly["name"]) != "illegal")
    kept = [
        Wanted(
            key=f"{anomaly['name']}/{number}",
            topic=topics.get(finding["topic"]),
            partition=finding["partition"],
            offset=finding["offset"],
            values=tuple(finding["values"]),
            events=tuple(finding["events"]),
            since=finding["time_ns"],
            until=finding["until_ns"] or finding["time_ns"],
            blamed=tuple(finding["processes"]),
        )
        for anomaly in found
        for number, finding in enumerate(anomaly["findings"][:FINDINGS])
    ]
    return kept[:FINDINGS_AT_MOST]


def questions(history: History, chosen: Sequence[Wanted], drawn: Sequence[Place]) -> dict[str, Callable[[], DataFrame]]:
    """What has to be asked."""
    asked: dict[str, Callable[[], DataFrame]] = {}
    if chosen:
        asked["around"] = lambda: _around(history, chosen)
        if history.does(F.REPLICA):
            asked["replicas"] = lambda: _covered(history, chosen)
    if drawn and history.does(F.SEND) and not history.deletions:
        asked["witness"] = lambda: _witness(history, drawn[:WITNESSES])
    return asked


def near_ns(history: History, places: int) -> int:
    """How far around a finding is looked: so far that it holds some operations of its partition."""
    lasted_ns = history.sealed.last_time_ns - history.sealed.first_time_ns
    pace_ns = lasted_ns * max(1, places) // max(1, history.sealed.rows.get(Kind.COMPLETE, 0))
    return min(NEAR_MOST_NS, max(NEAR_LEAST_NS, NEAR_PACES * pace_ns))


def _around(history: History, chosen: Sequence[Wanted]) -> DataFrame:
    """Per finding and kind of event, the rows that belong to it."""
    from pyspark.sql import functions as sql

    near = near_ns(history, len({(each.topic, each.partition) for each in chosen}))
    events = together(
        [
            _shaped(history.completions, "complete"),
            _shaped(history.records, "record"),
            _shaped(history.kind(Kind.RECORD).where(history.by_role(REPLICA_ROLE)), "replica"),
            *([_shaped(history.probes, "probe")] if history.has(Kind.PROBE) else []),
            *([_shaped(history.kind(Kind.EXCHANGE), "exchange")] if history.has(Kind.EXCHANGE) else []),
        ]
    ).where(_candidates(chosen, near))
    findings = history.spark.createDataFrame([each.row(number) for number, each in enumerate(chosen)], WANTED)
    here = "e.topic = w.topic and e.partition = w.partition"
    covers = (
        f"{here} and w.offset between e.offset and e.offset + if(e.kind = 'exchange', greatest(e.count, 1) - 1, 0)"
        f" and (e.kind <> 'exchange' or e.api in ({PRODUCE}, {FETCH})) and e.kind <> 'probe'"
        f" and (e.kind <> 'complete' or e.f = {F.SEND:d})"
    )
    named = "array_contains(w.events, e.event)"
    of_it = f"coalesce(not e.own and (array_contains(w.`values`, e.value) or ({covers})), false)"
    distance = "least(abs(e.time - w.since), abs(e.time - w.until))"
    shows = f"e.api = {FETCH} or (e.api = {LIST_OFFSETS} and e.view = {View.LATEST:d})"
    tells = f"e.kind <> 'probe' or (e.error = 0 and ({shows}))"
    is_near = f"{here} and {distance} <= {near}L and e.kind <> 'replica' and not e.own and ({tells})"
    stranger = "e.kind = 'exchange' and size(w.blamed) > 0 and not array_contains(w.blamed, e.worker)"
    joined = events.alias("e").join(
        sql.broadcast(findings.alias("w")), sql.expr(f"{named} or {of_it} or coalesce({is_near}, false)")
    )
    rank = f"case when {named} then 0 when {of_it} then 1 else 2 end"
    order = f"struct({rank}, coalesce({distance}, 0L) + if({stranger}, {STRANGER_NS}L, 0L), e.event)"
    columns = ", ".join(f"e.`{name}`" for name in COLUMNS)
    rows = joined.selectExpr(
        "w.number", "e.kind", f"{rank} = 2 as near", f"{order} as place", f"struct({rank} as rank, {columns}) as row"
    )
    return rows.groupBy("number", "kind", "near").agg(sql.expr(f"min_by(row, place, {ROWS}) as rows"))


def _shaped(rows: DataFrame, kind: str) -> DataFrame:
    def column(name: str, type_: str) -> str:
        if name not in rows.columns:
            return f"cast(null as {type_}) as `{name}`"
        read = f"left(`{name}`, {TEXT_CHARACTERS})" if type_ == "string" else f"cast(`{name}` as {type_})"
        return f"{read} as `{name}`"

    client = "client" in rows.columns
    worker = "try_cast(regexp_extract(client, '-(\\\\d+)$', 1) as int)" if client else "cast(null as int)"
    return rows.selectExpr(
        f"'{kind}' as kind",
        f"{f'coalesce({OWN}, false)' if client else 'false'} as own",
        f"{worker} as worker",
        *(column(name, type_) for name, type_ in COLUMNS.items()),
    )


def _candidates(chosen: Sequence[Wanted], near: int) -> str:
    """SQL: all that may belong to any of them. Sets of numbers cost the same however many there are."""
    instants = {instant for each in chosen for instant in (each.since, each.until) if instant is not None}
    buckets = {instant // near + step for instant in instants for step in (-1, 0, 1)}
    terms = []
    for column, found in (
        (f"time div {near}L", buckets),
        ("event", {event for each in chosen for event in each.events}),
        ("value", {value for each in chosen for value in each.values}),
        ("offset", {each.offset for each in chosen if each.offset is not None}),
    ):
        if found:
            terms.append(f"{column} in ({', '.join(f'{number}L' for number in sorted(found))})")
    return " or ".join(terms) or "false"


def _covered(history: History, chosen: Sequence[Wanted]) -> DataFrame:
    """From where to where each replica was read, in the partitions of the findings."""
    places = sorted({(each.topic, each.partition) for each in chosen if None not in {each.topic, each.partition}})
    here = " or ".join(f"(topic = {topic} and partition = {partition})" for topic, partition in places) or "false"
    of_replicas = history.completions.where(
        f"f in ({F.ASSIGN:d}, {F.REPLICA:d}) and {history.by_role(REPLICA_ROLE)} and ({here})"
    )
    read = f"if(f = {F.REPLICA:d}, event, null)"
    return aggregate(
        history,
        of_replicas,
        ["process", *PLACE],
        [
            f"max_by(offset, if(f = {F.ASSIGN:d}, event, null)) as begin",
            f"max_by(if(offset is null or end is null, null, least(offset, end)), {read}) as stop",
        ],
    )


def _witness(history: History, drawn: Sequence[Place]) -> DataFrame:
    """Per partition the sends around a moment, and the latest invocation of all that is below them."""
    from pyspark.sql import functions as sql

    here = " or ".join(f"(topic = {topic} and partition = {partition})" for topic, partition in drawn)
    sends = history.sends.where(f"type = {Type.OK:d} and offset >= 0 and ({here})").selectExpr(
        *PLACE, "offset", "invoked", "time", "process", "value", "event", "false as is_end"
    )
    middle = f"min_by(offset, abs(time - {_moment(history)}L)) as middle"
    about = aggregate(history, sends, PLACE, [middle])
    columns = (*PLACE, "offset", "invoked", "time", "process", "event")
    answered = {Kind.PROBE: _END, Kind.EXCHANGE: f"{_END} and type = {Type.OK:d}"}
    ends = [
        history.kind(kind).where(f"{is_end} and ({here})").select(*columns)
        for kind, is_end in answered.items()
        if history.has(kind)
    ]
    rows = [sends]
    if ends:  # those that show the same end are one operation
        totals = ["max(invoked) as invoked", "min(time) as time", "max_by(process, invoked) as process"]
        same = aggregate(history, together(ends), (*PLACE, "offset"), [*totals, "max_by(event, invoked) as event"])
        rows.append(same.selectExpr(*columns[:-1], "cast(null as bigint) as value", "event", "true as is_end"))
    inside = f"offset between middle - {WITNESSED} and middle + {WITNESSED}"
    row = "struct(offset, invoked, time, process, value, event, is_end)"
    return aggregate(
        history,
        together(rows).join(sql.broadcast(about), [*PLACE]),
        PLACE,
        [
            f"max(invoked) filter (where offset < middle - {WITNESSED}) as below",
            f"min_by({row}, struct(offset, event), {4 * WITNESSED + 2}) filter (where {inside}) as rows",
        ],
    )


def _moment(history: History) -> int:
    """When something was broken first, or else the middle of the load."""
    assert history.line is not None
    began = [fault.injected_ns for fault in history.line.faults if fault.injected_ns is not None]
    return min(began, default=sum(history.line.load_ns) // 2)


def told(
    history: History, sections: Mapping[str, Rows], chosen: Sequence[Wanted], drawn: Sequence[Place]
) -> dict[str, Any]:
    """The operations of each finding, what replicas have of it, and the witnesses; times since the history began."""
    first_ns = history.sealed.first_time_ns
    names = {place: f"{history.sealed.topics.get(place[0], place[0])}-{place[1]}" for place in drawn}
    operations: dict[str, list[dict[str, Any]]] = {}
    for row in sections.get("around", []):
        of = operations.setdefault(chosen[row["number"]].key, [])
        kept = row["rows"][:NEAR_ROWS] if row["near"] and row["kind"] != "exchange" else row["rows"]
        of += [_operation(row["kind"], each, history, first_ns) for each in kept]
    for of in operations.values():
        of.sort(key=lambda each: (each["from"], each["to"], each["event"]))
    return {
        "around": operations,
        "replicas": {
            each.key: _held(each, operations.get(each.key, []), sections.get("replicas", []), history)
            for each in chosen
            if each.offset is not None and each.values
        },
        "witness": {
            names[row["topic"], row["partition"]]: _points(row, first_ns) for row in sections.get("witness", [])
        },
    }


def _operation(kind: str, row: Mapping[str, Any], history: History, first_ns: int) -> dict[str, Any]:
    began = row["invoked"] if row["invoked"] is not None else row["time"]
    kept = {name: row[name] for name in COLUMNS if name not in {"time", "invoked", "topic"} and row[name] is not None}
    if row["topic"] is not None:
        kept["topic"] = history.sealed.topics.get(row["topic"], str(row["topic"]))
    return {"kind": kind, "rank": row["rank"], "from": began - first_ns, "to": row["time"] - first_ns, **kept}


def _held(finding: Wanted, operations: Sequence[Mapping[str, Any]], covered: Rows, history: History) -> list[Any]:
    """Per node: `has it`, `another record`, `nothing there` or `not looked at`; and what it has of it, and where."""
    found = history.sealed.processes.items()
    nodes = {n: about["node"] for n, about in found if about.get("role") == REPLICA_ROLE and "node" in about}
    ranges = {
        row["process"]: (row["begin"], row["stop"])
        for row in covered
        if (row["topic"], row["partition"]) == (finding.topic, finding.partition)
    }
    held: dict[int, tuple[str, list[list[int]]]] = {}
    for process, node in sorted(nodes.items()):
        begin, stop = ranges.get(process, (None, None))
        mine = [
            each
            for each in operations
            if each["kind"] == "replica" and each["process"] == process and each.get("partition") == finding.partition
        ]
        there = [[each["value"], each["offset"]] for each in mine if each.get("value") in finding.values]
        if there:
            state = "has it"
        elif begin is None or stop is None or not begin <= (finding.offset or 0) < stop:
            state = "not looked at"
        elif any(each.get("offset") == finding.offset for each in mine):
            state = "another record"
        else:
            state = "nothing there"
        if held.get(node, ("not looked at", []))[0] == "not looked at":
            held[node] = state, there
    return [[node, *held[node]] for node in sorted(held)]


def _points(row: Mapping[str, Any], first_ns: int) -> dict[str, Any]:
    """Sends in the order of offsets, each with its moment."""
    latest = row["below"] or first_ns
    shown = []
    for each in sorted(row["rows"], key=lambda each: (each["offset"], not each["is_end"], each["invoked"])):
        latest = max(latest, each["invoked"])
        shown.append(
            {
                **{name: each[name] for name in ("offset", "process", "value", "event")},
                "end": each["is_end"],
                "from": each["invoked"] - first_ns,
                "to": each["time"] - first_ns,
                "point": latest - first_ns,
            }
        )
    return {"operations": shown}
