"""What the report draws: small series over the time of a run, asked of Spark in one job.

Time from the begin of the load on is cut into at most BUCKETS buckets of a round length. At most PARTITIONS partitions
are drawn: those with findings first, then the busiest; the sends and reads of all others are one sum, `others`. All
times are nanoseconds since the history began, and a point of a series is `[bucket, …]`.

flow       per partition: sends that ended `ok` or `fail` in a bucket, or that were sent in it and ended `info`; the
           highest offset acknowledged in it, plus one; and records that the load's consumers were handed
errors     how many operations of clients ended with which error
latency    of sends that were acknowledged, from the call to its end: percentiles, which a histogram of 8 classes an
           octave gives to within 9 percent, and the exact maximum
marks      per partition and node: the high watermark (Fetch) and the end (ListOffsets) that it showed to anybody; a
           point where it changed, both where it fell and rose again inside a bucket, and a null where it said
           nothing for SILENCE_NS or longer
leaders    per partition and node: leader, epoch and in-sync replicas that its Metadata told, where they changed
refusals   who asked whom and was told that it does not lead
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from checkers import around
from checkers.answers import FETCH, METADATA, answers
from checkers.coverage import Timeline, read_timeline
from checkers.deletions import read_deletions
from checkers.engine import collected, section, tuning, with_settings
from checkers.frame import LOAD_ROLE, History, aggregate
from checkers.metadata import LEADER_NOT_AVAILABLE, OF_OTHERS
from harness.history import F, Kind, Type
from workloads.error_codes import name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from harness.seal import Sealed

VERSION = 1
BUCKETS = 300
PARTITIONS = 24
REFUSALS = 200
CLASSES = 8  # of latencies, an octave
PERCENTILES = (0.5, 0.9, 0.99)
OTHERS = "others"
NOT_LEADER = "error in (6, 74, 75)"
ERRORS = 12  # different ones that are told apart
SILENCE_NS = 2_000_000_000  # of a node; what it shows after that does not go on from what it showed before
Place = tuple[int, int]
Points = list[list[int | None]]
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Grid:
    """How time is cut."""

    first_ns: int
    last_ns: int

    @property
    def bucket_ns(self) -> int:
        """The shortest of 1, 2, 5, 10, … milliseconds of which few enough cover all."""
        lasted_ns, unit = self.last_ns - self.first_ns, 1_000_000
        while True:
            for step in (1, 2, 5):
                if lasted_ns // (step * unit) < BUCKETS:
                    return step * unit
            unit *= 10

    @property
    def number(self) -> str:
        """SQL: the bucket in which a row's `time` is."""
        return f"cast((time - {self.first_ns}L) div {self.bucket_ns}L as int) as bucket"


def read_series(spark: SparkSession, sealed: Sealed, results: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the report draws of a history, given what the check said of it (results.json)."""
    history = History(spark, sealed, deletions=read_deletions(sealed, spark))
    line = read_timeline(history)
    history = replace(history, line=line)
    grid = Grid(max(sealed.first_time_ns, min(line.load_ns[0], sealed.last_time_ns)), sealed.last_time_ns)
    with with_settings(spark, tuning(history)):
        drawn = _drawn(history, results)
        wanted = around.wanted(results, {name: number for number, name in sealed.topics.items()})
        questions = {**_questions(history, grid, drawn), **around.questions(history, wanted, drawn)}
        told = collected([section(name, ask()) for name, ask in questions.items()])
    told = {name: [row for row in rows if row.get("bucket", 0) >= 0] for name, rows in told.items()}
    names = [_name(history, place) for place in drawn]
    partitions = int(results.get("figures", {}).get("partitions", 0))
    return {
        "version": VERSION,
        "of": fingerprint(results),
        "first_ns": sealed.first_time_ns,
        "lasted": sealed.last_time_ns - sealed.first_time_ns,
        "start": grid.first_ns - sealed.first_time_ns,
        "bucket": grid.bucket_ns,
        **_line(line, sealed.first_time_ns),
        "processes": {str(number): dict(about) for number, about in sealed.processes.items()},
        "partitions": names,
        "others": max(0, partitions - len(drawn)),
        "flow": _flow(told.get("sends", []), told.get("reads", []), names),
        "errors": _errors(told.get("errors", [])),
        "latency": _latency(told.get("latency", [])),
        "marks": _marks(told.get("marks", []), names, max(2, SILENCE_NS // grid.bucket_ns)),
        "leaders": _leaders(told.get("leaders", []), names, sealed.first_time_ns),
        "refusals": _refusals(told.get("refusals", []), sealed, sealed.first_time_ns),
        "seen": {"probes": history.has(Kind.PROBE), "exchanges": history.has(Kind.EXCHANGE)},
        **around.told(history, told, wanted, drawn),
    }


def fingerprint(results: Mapping[str, Any]) -> str:
    """What tells the findings of one check from those of another."""
    found = {name: anomaly["findings"] for name, anomaly in results.get("anomalies", {}).items() if anomaly["findings"]}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def _drawn(history: History, results: Mapping[str, Any]) -> list[Place]:
    """The partitions that are drawn, the worst and then the busiest first."""
    numbers = {name: number for number, name in history.sealed.topics.items()}
    table = results.get("figures", {}).get("table", [])
    busy = {(numbers[row["topic"]], row["partition"]): row["sent"] for row in table if row["topic"] in numbers}
    if not busy:
        busy = {(row["topic"], row["partition"]): row["count"] for row in _busiest(history)}
    found: dict[Place, int] = {}
    for anomaly in results.get("anomalies", {}).values():
        for finding in anomaly["findings"]:
            if finding["topic"] in numbers and finding["partition"] is not None:
                place = (numbers[finding["topic"]], finding["partition"])
                found[place] = found.get(place, 0) + 1
    chosen = sorted({*busy, *found}, key=lambda place: (-found.get(place, 0), -busy.get(place, 0), place))
    return sorted(chosen[:PARTITIONS])


def _busiest(history: History) -> list[dict[str, Any]]:
    """Of the sends or, where nobody recorded any, of what passed the taps."""
    rows = history.sends if history.does(F.SEND) else history.kind(Kind.EXCHANGE)
    places = rows.where("topic is not null and partition is not null")
    counted = aggregate(history, places, ("topic", "partition"), ["count(*) as count"])
    return [row.asDict() for row in counted.orderBy("count", ascending=False).limit(PARTITIONS).collect()]


def place_number(drawn: Sequence[Place]) -> str:
    """SQL: the number of a partition among those that are drawn; -1 of any other."""
    cases = " ".join(f"when topic = {t} and partition = {p} then {n}" for n, (t, p) in enumerate(drawn))
    return f"{f'case {cases} else -1 end' if cases else '-1'} as place"


def _questions(history: History, grid: Grid, drawn: Sequence[Place]) -> dict[str, Callable[[], DataFrame]]:
    place, bucket = place_number(drawn), grid.number
    # of a send of which nobody knows the end, when it was sent: how long its client waited says nothing
    told = f"if(type = {Type.INFO:d}, invoked, time) as time"
    sends = history.sends.selectExpr("type", "offset", "topic", "partition", told).selectExpr(
        "type", "offset", place, bucket
    )
    took = "greatest(1, (time - invoked) div 1000)"  # microseconds
    class_ = f"cast(floor({CLASSES} * log2({took})) as int) as class"
    ended = history.sends.where(f"type = {Type.OK:d}").selectExpr(bucket, class_, f"{took} as took")
    failed = history.completions.where("coalesce(error, 0) <> 0").selectExpr("error", bucket)
    reads = history.records.where(history.by_role(LOAD_ROLE)).selectExpr("offset", place, bucket)
    by_place = ("bucket", "place")
    ends = [f"count_if(type = {type_:d}) as {type_.name.lower()}" for type_ in Type]
    times = ["count(*) as count", "max(took) as longest"]
    asked: dict[str, Callable[[], DataFrame]] = {
        "sends": lambda: aggregate(
            history,
            sends,
            by_place,
            [*ends, f"max(if(type = {Type.OK:d}, offset, null)) as last"],
        ),
        "latency": lambda: aggregate(history, ended, ("bucket", "class"), times),
        "errors": lambda: aggregate(history, failed, ("bucket", "error"), ["count(*) as count"]),
        "reads": lambda: aggregate(history, reads, by_place, ["count(*) as count", "max(offset) as last"]),
    }
    if history.has(Kind.PROBE) or history.has(Kind.EXCHANGE):
        shown = answers(history, every_view=False).where("shown >= 0")
        marks = shown.selectExpr("api", "node", "shown", "time", place, bucket)
        totals = ["min(shown) as low", "max(shown) as high", "max_by(shown, time) as last"]
        asked["marks"] = lambda: aggregate(history, marks.where("place >= 0"), (*by_place, "node", "api"), totals)
        asked["leaders"] = lambda: _claims(history, place, bucket)
    if history.has(Kind.EXCHANGE):
        asked["refusals"] = lambda: _refused(history)
    return asked


def _claims(history: History, place: str, bucket: str) -> DataFrame:
    """What nodes said of leaders; to probes, and to others where there were none."""
    rows = history.probes if history.probes_by(METADATA) else history.kind(Kind.EXCHANGE).where(f"type = {Type.OK:d}")
    told = rows.where(f"api = {METADATA} and error in (0, {LEADER_NOT_AVAILABLE}) and partition is not null")
    keys = ("bucket", "place", "node", "leader", "leader_epoch", "isr")
    claims = told.selectExpr("node", "coalesce(leader, -1) as leader", "leader_epoch", "isr", "time", place, bucket)
    return aggregate(history, claims.where("place >= 0"), keys, ["min(time) as time"])


def _refused(history: History) -> DataFrame:
    """The harness's own requests, which ask every node on purpose, are left out."""
    refused = history.kind(Kind.EXCHANGE).where(f"{NOT_LEADER} and type = {Type.OK:d} and {OF_OTHERS}")
    keys = ("client", "node", "api", "topic", "partition")
    counted = aggregate(history, refused, keys, ["count(*) as count", "min(time) as first", "max(time) as last"])
    return counted.orderBy("count", ascending=False).limit(REFUSALS)


def _line(line: Timeline, first_ns: int) -> dict[str, Any]:
    def since(instant: int | None) -> int | None:
        return None if instant is None else instant - first_ns

    return {
        "load": [since(instant) for instant in line.load_ns],
        "phases": [[name, since(instant)] for name, instant in line.phases],
        "faults": [
            {
                "number": fault.number,
                "name": fault.name,
                "from": since(window[0]) if (window := line.window_ns(fault)) else None,
                "to": since(window[1]) if window else None,
                "healed": since(fault.healed_ns),
                "bit": fault.bit,
                "detail": fault.detail,
                "evidence": fault.evidence,
            }
            for fault in line.faults
        ],
    }


def _name(history: History, place: Place) -> str:
    return f"{history.sealed.topics.get(place[0], place[0])}-{place[1]}"


def _flow(sends: Rows, reads: Rows, names: Sequence[str]) -> dict[str, dict[str, list[list[int]]]]:
    flow: dict[str, dict[str, list[list[int]]]] = {}

    def add(row: Mapping[str, Any], what: str, value: int | None) -> None:
        if value:
            of = flow.setdefault(names[row["place"]] if row["place"] >= 0 else OTHERS, {})
            of.setdefault(what, []).append([row["bucket"], value])

    for row in sorted(sends, key=lambda row: int(row["bucket"])):
        for what in ("ok", "info", "fail"):
            add(row, what, row[what])
        if row["place"] >= 0 and row["last"] is not None:
            add(row, "acknowledged", row["last"] + 1)
    for row in sorted(reads, key=lambda row: int(row["bucket"])):
        add(row, "read", row["count"])
    return flow


def _errors(rows: Rows) -> dict[str, list[list[int]]]:
    totals: dict[str, int] = {}
    for row in rows:
        totals[name_of(row["error"])] = totals.get(name_of(row["error"]), 0) + row["count"]
    kept = sorted(totals, key=lambda name: (-totals[name], name))[:ERRORS]
    counted: dict[str, dict[int, int]] = {}
    for row in rows:
        name = name_of(row["error"]) if name_of(row["error"]) in kept else "other errors"
        of = counted.setdefault(name, {})
        of[row["bucket"]] = of.get(row["bucket"], 0) + row["count"]
    return {name: [[bucket, of[bucket]] for bucket in sorted(of)] for name, of in counted.items()}


def _latency(rows: Rows) -> list[list[float]]:
    """Per bucket: the percentiles and the maximum, in milliseconds."""
    classes: dict[int, dict[int, int]] = {}
    longest: dict[int, int] = {}
    for row in rows:
        classes.setdefault(row["bucket"], {})[row["class"]] = row["count"]
        longest[row["bucket"]] = max(longest.get(row["bucket"], 0), row["longest"])
    percentiles = {bucket: [_percentile(of, share) for share in PERCENTILES] for bucket, of in classes.items()}
    most = {bucket: took / 1e3 for bucket, took in longest.items()}
    return [
        [bucket, *(min(value, most[bucket]) for value in percentiles[bucket]), most[bucket]]
        for bucket in sorted(classes)
    ]


def _percentile(counts: Mapping[int, int], share: float) -> float:
    """The middle of the class that holds it, in milliseconds."""
    wanted, so_far = share * sum(counts.values()), 0
    for number in sorted(counts):
        so_far += counts[number]
        if so_far >= wanted:
            break
    return round(2 ** ((number + 0.5) / CLASSES) / 1e3, 3)


def _marks(rows: Rows, names: Sequence[str], silence: int) -> dict[str, dict[str, dict[str, Points]]]:
    marks: dict[str, dict[str, dict[str, Points]]] = {}
    for row in sorted(rows, key=lambda row: int(row["bucket"])):
        what = "high_watermark" if row["api"] == FETCH else "end"
        points = marks.setdefault(names[row["place"]], {}).setdefault(str(row["node"]), {}).setdefault(what, [])
        if points and row["bucket"] - int(points[-1][0] or 0) > silence:
            points.append([points[-1][0], None])
        before = next((value for _, value in reversed(points) if value is not None), row["low"])
        # what fell and rose again inside of a bucket is the point of it all
        values = [row["low"], row["last"]] if row["low"] < before else [row["high"], row["last"]]
        points += [[row["bucket"], value] for value in dict.fromkeys(values)]
    for nodes in marks.values():
        for of in nodes.values():
            for what, points in of.items():
                of[what] = thinned(points)
    return marks


def thinned(points: Points) -> Points:
    """Without the points between two of the same value."""
    last = len(points) - 1
    return [
        point
        for n, point in enumerate(points)
        if n in {0, last} or points[n - 1][1] != point[1] or points[n + 1][1] != point[1]
    ]


def _leaders(rows: Rows, names: Sequence[str], first_ns: int) -> dict[str, dict[str, list[list[Any]]]]:
    """Per partition and node: time, leader, epoch and in-sync replicas, where they changed."""
    leaders: dict[str, dict[str, list[list[Any]]]] = {}
    for row in sorted(rows, key=lambda row: int(row["time"])):
        changes = leaders.setdefault(names[row["place"]], {}).setdefault(str(row["node"]), [])
        said = [row["leader"], row["leader_epoch"], row["isr"]]
        if not changes or changes[-1][1:] != said:
            changes.append([row["time"] - first_ns, *said])
    return leaders


def _refusals(rows: Rows, sealed: Sealed, first_ns: int) -> list[dict[str, Any]]:
    return [
        {
            **{name: row[name] for name in ("client", "node", "api", "partition", "count")},
            "topic": sealed.topics.get(row["topic"]),
            "first": row["first"] - first_ns,
            "last": row["last"] - first_ns,
        }
        for row in sorted(rows, key=lambda row: (-row["count"], str(row["client"]), row["node"] or 0))
    ]
