"""The operations around findings, what replicas have of them, and witnesses of linearizability: what timelines show.

Of each anomaly the first FINDINGS findings are shown, FINDINGS_AT_MOST in all. To each belong, of each kind of event,
at most ROWS that are named or of it, and NEAR_ROWS that are near, or ROWS of exchanges:

named       the events that the finding names
of it       sends and records of its values, and what is at its offset in its partition; exchanges whose batch covers it
near        what happened in its partition within `near_ns` of its time or its end, the nearest first; what the harness
            asked by itself at the taps is left out, and other clients than those it blames come last

Of rows that are equally good candidates only the nearest matter. So for each finding no more than SCANNED rows before
and after each of its moments are looked at, of those that share a key with it (its partition, one of its values, its
offset); with other findings in the same place, or a value that was read a million times, it is still that many. Near
are those of the SCANNED that are neither named nor of it.

replica     what a node had of it when all was over: a record of one of its values at its offset, another one, or none;
            or nobody looked, because its read did not cover that offset (`checkers.replicas` says what it covers)
witness     per partition, around the first fault or else the middle of the load: sends that were acknowledged with
            consecutive offsets, each with the moment at which it can have taken effect: the latest invocation of any
            acknowledged send at its offset or a lower one, or of an end() that shows no more than its offset (those
            that show the same are one: invoked when the last of them was, over when the first was)

It takes one look at each part of the history (`look`), which brings back the best candidates of that part; `told` puts
those of all parts together. Parts may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from checkers.core.arrays import NONE, Bools, Ints, distinct, ints
from checkers.core.nearest import Keyed, Shelf, among, rank_among, stretched
from checkers.core.node_answers import FETCH, LIST_OFFSETS, PRODUCE
from checkers.core.piece import Piece
from checkers.core.run import REPLICA_ROLE, RunContext, by
from checkers.core.tables import TABLES, place_of, schema_of
from checkers.summaries.series import PLACE, Place
from harness.history.schema import F, Kind, OffsetView, Type

if TYPE_CHECKING:
    from checkers.core.results import Anomaly

FINDINGS = 3
FINDINGS_AT_MOST = 120
ROWS = 10
NEAR_ROWS = 5
SCANNED = 100
WITNESSED = 12  # offsets on each side
WITNESSES_AT_MOST = 4 * WITNESSED + 2  # operations
NEAR_LEAST_NS, NEAR_MOST_NS, NEAR_PACES = 20_000_000, 1_000_000_000, 40
TEXT_CHARACTERS = 300
STRANGER_NS = 3_600_000_000_000
OWN = "^tidegauge(-(final|raw|probe|replica).*)?$"
NAMED, OF_IT, NEAR = 0, 1, 2
COLUMNS: dict[str, Any] = {
    "event": pl.Int64, "time": pl.Int64, "invoked": pl.Int64, "process": pl.Int32, "f": pl.Int32, "type": pl.Int32,
    "topic": pl.Int32, "partition": pl.Int32, "offset": pl.Int64, "value": pl.Int64, "node": pl.Int32, "api": pl.Int32,
    "view": pl.Int32, "error": pl.Int32, "high_watermark": pl.Int64, "leader": pl.Int32, "leader_epoch": pl.Int32,
    "isr": pl.String, "count": pl.Int32, "client": pl.String, "name": pl.String, "detail": pl.String,
}  # fmt: skip
KINDS_OF_TABLES = {"sends": "complete", "ops": "complete", "records": "record", "copies": "replica", "probes": "probe",
                   "exchanges": "exchange"}  # fmt: skip


def _read(table: str) -> tuple[str, ...]:
    more = ("end",) if table == "ops" else ()
    return tuple(name for name in schema_of(TABLES[table]) if name in {*COLUMNS, *more})


READS: dict[str, tuple[str, ...]] = {table: _read(table) for table in KINDS_OF_TABLES}
Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Shown:
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

    @property
    def place(self) -> Place | None:
        """Where it is, if that is known."""
        return None if self.topic is None or self.partition is None else (self.topic, self.partition)


@dataclass(frozen=True)
class Wanted:
    """What is looked up: findings, and partitions with the offset around which their appends are shown."""

    findings: tuple[Shown, ...] = ()
    witnesses: Mapping[Place, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.findings or self.witnesses)

    def near_ns(self, run: RunContext) -> int:
        """How far around a finding is looked: so far that it holds some operations of its partition."""
        places = len({(each.topic, each.partition) for each in self.findings})
        lasted_ns = run.last_time_ns - run.first_time_ns
        pace_ns = lasted_ns * max(1, places) // max(1, run.rows.get(Kind.COMPLETE, 0))
        return min(NEAR_MOST_NS, max(NEAR_LEAST_NS, NEAR_PACES * pace_ns))


def wanted(anomalies: Mapping[str, Anomaly], run: RunContext, witnesses: Mapping[Place, int] | None = None) -> Wanted:
    """The first findings of each anomaly; and `checkers.summaries.series.witnesses`."""
    topics = {name: number for number, name in run.topics.items()}
    shown = [
        Shown(
            key=f"{name}/{number}",
            topic=None if finding.topic is None else topics.get(finding.topic),
            partition=finding.partition,
            offset=finding.offset,
            values=finding.values,
            events=finding.events,
            since=finding.time_ns,
            until=finding.until_ns or finding.time_ns,
            blamed=finding.processes,
        )
        for name, anomaly in anomalies.items()
        for number, finding in enumerate(anomaly.findings[:FINDINGS])
    ]
    return Wanted(tuple(shown[:FINDINGS_AT_MOST]), witnesses or {})


def look(piece: Piece, wanted: Wanted, run: RunContext) -> dict[str, pl.DataFrame]:
    """What a part of the history has of all that."""
    return {
        "around": _around(piece, wanted, run),
        "replicas": _covered(piece.ops, wanted, run),
        **_witness(piece, wanted),
    }


class Asked:
    """What is asked about findings, as tables whose rows are questions; `finding` is the number of a finding."""

    def __init__(self, wanted: Wanted, run: RunContext) -> None:
        self.near_ns = wanted.near_ns(run)
        shown = wanted.findings
        self.findings = pl.DataFrame(
            [(n, _code(each), each.offset, each.since, each.until) for n, each in enumerate(shown)],
            schema=dict.fromkeys(("finding", "f_place", "f_offset", "since", "until"), pl.Int64), orient="row",
        )  # fmt: skip
        self.named = _lists("event", ((n, each.events) for n, each in enumerate(shown)))
        self.values = _lists("value", ((n, each.values) for n, each in enumerate(shown)))
        self.blamed = _lists("worker", ((n, each.blamed) for n, each in enumerate(shown)))
        self.moments = _lists("moment", ((n, {each.since, each.until} - {None}) for n, each in enumerate(shown)))
        self.start_ns = run.first_time_ns

    @cached_property
    def events(self) -> Ints:
        """Those that findings name."""
        return _unique(self.named, "event")

    @cached_property
    def workers(self) -> Ints:
        """Those that findings blame."""
        return _unique(self.blamed, "worker")

    @cached_property
    def placed(self) -> pl.DataFrame:
        """Findings whose partition is known."""
        return self.findings.drop_nulls("f_place")

    @cached_property
    def places(self) -> Ints:
        """Their partitions."""
        return _unique(self.placed, "f_place")

    @cached_property
    def offsets(self) -> Shelf:
        """Their offsets."""
        return _shelf(self.placed.drop_nulls("f_offset"), "f_offset")

    @cached_property
    def instants(self) -> Shelf:
        """Their moments."""
        return _shelf(self.placed.join(self.moments, on="finding"), "moment")

    def when(self, questions: pl.DataFrame) -> pl.DataFrame:
        """Questions, once for each moment of their finding; those of one without a moment ask for what was first."""
        known = questions.join(self.moments, on="finding", how="left")
        return known.with_columns(pl.col("moment").fill_null(self.start_ns))


def _code(finding: Shown) -> int | None:
    """Its place as one number (`checkers.tables.place_of`)."""
    return None if finding.place is None else (finding.place[0] << 32) | finding.place[1]


def _lists(name: str, lists: Iterable[tuple[int, Iterable[int | None]]]) -> pl.DataFrame:
    rows = [(finding, each) for finding, found in lists for each in found]
    return pl.DataFrame(rows, schema={"finding": pl.Int64, name: pl.Int64}, orient="row").unique()


def _unique(frame: pl.DataFrame, name: str) -> Ints:
    return distinct(ints(frame, name))


def _shelf(questions: pl.DataFrame, number: str) -> Shelf:
    return Shelf.of(*(ints(questions, name) for name in ("f_place", number, "finding")))


_NARROW = ("time", *PLACE, "offset", "count", "api")


class Rows:
    """Rows of one table, and which of them belong to findings."""

    def __init__(self, table: str, frame: pl.DataFrame, asked: Asked) -> None:
        self.table, self.frame, self.asked = table, frame, asked

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def place(self) -> Ints:
        """Where they are."""
        return place_of(self.frame)

    @cached_property
    def time(self) -> Ints:
        """When they were over."""
        return ints(self.frame, "time")

    @cached_property
    def event(self) -> Ints:
        """What they are called."""
        return ints(self.frame, "event")

    @cached_property
    def value(self) -> Ints:
        """What they are about; answers of nodes are about none."""
        return ints(self.frame, "value") if "value" in self.frame.columns else np.full(len(self), NONE)

    @cached_property
    def extent(self) -> tuple[Ints, Ints]:
        """The first and last offset of what sends, records and batches have; the last is lower where there are none."""
        if self.table in {"ops", "probes"}:
            return np.zeros(len(self), np.int64), np.full(len(self), -1)
        first, length = ints(self.frame, "offset"), np.ones(len(self), np.int64)
        if self.table == "exchanges":
            api = ints(self.frame, "api")
            of_batches = (api == PRODUCE) | (api == FETCH)
            length = np.where(of_batches, np.maximum(ints(self.frame, "count", 1), 1), 0)
        return first, first + np.where(first == NONE, 0, length - 1)

    @cached_property
    def own(self) -> Bools:
        """What the harness asked by itself."""
        if self.table != "exchanges":
            return np.zeros(len(self), np.bool_)
        own: Bools = self.frame["client"].str.contains(OWN).fill_null(value=False).to_numpy()
        return own

    @cached_property
    def worker(self) -> Ints:
        """The process that a client has in its name; NONE if there is none."""
        if self.table != "exchanges":
            return np.full(len(self), NONE)
        numbers = self.frame.select(worker=pl.col("client").str.extract(r"-(\d+)$").cast(pl.Int64, strict=False))
        return ints(numbers, "worker")

    @cached_property
    def tells(self) -> Bools:
        """What may be shown because it is near: of probes only those that show a mark, of replicas nothing."""
        if self.table == "copies":
            return np.zeros(len(self), np.bool_)
        if self.table != "probes":
            return ~self.own
        api, view, error = (ints(self.frame, name) for name in ("api", "view", "error"))
        shows: Bools = (error == 0) & ((api == FETCH) | ((api == LIST_OFFSETS) & (view == OffsetView.LATEST)))
        return shows

    def close(self) -> Bools:
        """Whether a finding of their partition has a moment next to them."""
        first, end = self.asked.instants.between(
            self.place, self.time - self.asked.near_ns, self.time + self.asked.near_ns
        )
        return end > first

    def candidates(self) -> Rows:
        """Those that may belong to any finding."""
        asked = self.asked
        chosen = among(self.event, asked.events) | among(self.value, _unique(asked.values, "value"))
        here = np.flatnonzero(among(self.place, asked.places) & ~chosen)
        narrow = self.frame.select(name for name in _NARROW if name in self.frame.columns)
        rows = Rows(self.table, narrow[here], asked)
        first, end = asked.offsets.between(rows.place, *rows.extent)
        chosen[here] = (end > first) | rows.close()
        return Rows(self.table, self.frame.filter(pl.Series(chosen)), asked)

    def pairs(self) -> pl.DataFrame:
        """Each of these rows with each finding that it may be among the nearest of."""
        named = pl.DataFrame({"row": np.arange(len(self)), "event": self.event}).join(self.asked.named, on="event")
        routes = [named.select("row", "finding"), *self._by_value(), *self._by_offset(), *self._by_place()]
        return pl.concat(routes).unique()

    def _by_value(self) -> Iterator[pl.DataFrame]:
        values = _unique(self.asked.values, "value")
        mine = np.flatnonzero(among(self.value, values) & ~self.own)
        if len(mine):
            keys = self.asked.values.with_columns(key=pl.Series(rank_among(ints(self.asked.values, "value"), values)))
            yield from self._routes(mine, rank_among(self.value[mine], values), keys, ROWS)

    def _by_offset(self) -> Iterator[pl.DataFrame]:
        shelf = self.asked.offsets
        first, end = shelf.between(self.place, *self.extent)
        mine = np.flatnonzero((end > first) & ~self.own)
        if len(mine):
            width = len(shelf.question) + 1  # rows that cover the same offsets of findings are alike
            alike, key = np.unique(first[mine] * width + end[mine], return_inverse=True)
            began, count = alike // width, alike % width - alike // width
            keys = pl.DataFrame({
                "key": np.repeat(np.arange(len(alike)), count), "finding": shelf.question[stretched(began, count)],
            })  # fmt: skip
            yield from self._routes(mine, key, keys, ROWS)

    def _by_place(self) -> Iterator[pl.DataFrame]:
        asked = self.asked
        mine = np.flatnonzero(self.tells & self.close())
        if len(mine):
            timed = asked.placed.join(asked.moments, on="finding", how="semi")
            keys = timed.with_columns(key=pl.Series(rank_among(ints(timed, "f_place"), asked.places)))
            yield from self._routes(mine, rank_among(self.place[mine], asked.places), keys, SCANNED)

    def _routes(self, mine: Ints, key: Ints, keys: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
        """The nearest rows with the same key; and the nearest of those clients that a finding blames."""
        yield self._nearest(mine, key, keys, most)
        blamed, workers = self.asked.blamed, self.asked.workers
        if self.table != "exchanges" or not len(workers):
            return
        nobody, worker = self.worker[mine] == NONE, self.worker[mine]
        rank = np.where(nobody, 0, rank_among(worker, workers) + 1)
        known = nobody | among(worker, workers)
        width = len(workers) + 1
        of_findings = pl.concat([
            blamed.select("finding", rank=pl.Series(rank_among(ints(blamed, "worker"), workers) + 1)),
            blamed.select("finding", rank=pl.lit(0, pl.Int64)).unique(),
        ])  # fmt: skip
        each = keys.join(of_findings, on="finding").with_columns(key=pl.col("key") * width + pl.col("rank"))
        yield self._nearest(mine[known], key[known] * width + rank[known], each, most)

    def _nearest(self, mine: Ints, key: Ints, keys: pl.DataFrame, most: int) -> pl.DataFrame:
        questions = self.asked.when(keys)
        rows = Keyed(key, self.time[mine], self.event[mine])
        row, question = rows.nearest(ints(questions, "key"), ints(questions, "moment"), most)
        return pl.DataFrame({"row": mine[row], "finding": ints(questions, "finding")[question]})

    def ranked(self) -> pl.DataFrame:
        """Pairs with how a row belongs to a finding (`rank`) and how far it is from it (`away`), without the others."""
        first, last = self.extent
        rows = pl.DataFrame({
            "row": np.arange(len(self)), "event": self.event, "time": self.time, "place": self.place, "first": first,
            "last": last, "own": self.own, "tells": self.tells, "value": self.value, "worker": self.worker,
        })  # fmt: skip
        pairs = self.pairs().join(rows, on="row").join(self.asked.findings, on="finding")
        for name, table in (("event", self.asked.named), ("value", self.asked.values), ("worker", self.asked.blamed)):
            known = table.with_columns(pl.lit(value=True).alias(f"of_{name}"))
            pairs = pairs.join(known, on=["finding", name], how="left")
        here = pl.col("place") == pl.col("f_place")
        covers = here & pl.col("f_offset").is_between("first", "last")
        of_it = ~pl.col("own") & (pl.col("of_value").is_not_null() | covers.fill_null(value=False))
        rank = pl.when(pl.col("of_event")).then(NAMED).when(of_it).then(OF_IT).otherwise(NEAR)
        away = pl.min_horizontal((pl.col("time") - pl.col(name)).abs() for name in ("since", "until"))
        is_near = pl.col("tells") & here & (away <= self.asked.near_ns)
        blames = pl.col("finding").is_in(self.asked.blamed["finding"].implode())
        stranger = blames & (pl.col("worker") != NONE) & pl.col("of_worker").is_null()
        farther = pl.when(stranger).then(STRANGER_NS).otherwise(0)
        return (
            pairs.with_columns(rank=rank)
            .filter((pl.col("rank") != NEAR) | is_near.fill_null(value=False))
            .select("row", "finding", "rank", away=away.fill_null(pl.col("time") - self.asked.start_ns) + farther)
        )

    def told(self) -> pl.DataFrame:
        """The best of them, with all that is told of an operation."""
        ranked = self.ranked()
        shaped = self.frame[ints(ranked, "row")].select(
            _shaped(name, type_) if name in self.frame.columns else pl.lit(None, type_).alias(name)
            for name, type_ in COLUMNS.items()
        )
        kind = pl.lit(KINDS_OF_TABLES[self.table]).alias("kind")
        return best(pl.concat([ranked.select("finding", kind, "rank", "away"), shaped], how="horizontal"))


def _shaped(name: str, type_: Any) -> pl.Expr:
    return pl.col(name).str.head(TEXT_CHARACTERS) if type_ == pl.String else pl.col(name).cast(type_)


def best(candidates: pl.DataFrame) -> pl.DataFrame:
    """Of each finding and kind of event the first ones, by themselves those that are only near."""
    group = ["finding", "kind", pl.col("rank") == NEAR]
    ordered = candidates.sort("finding", "kind", "rank", "away", "event")
    place = pl.int_range(pl.len()).over(group)
    of_clients = (pl.col("rank") == NEAR) & (pl.col("kind") != "exchange")
    return ordered.filter(place < pl.when(of_clients).then(NEAR_ROWS).otherwise(ROWS))


_FOUND = {"finding": pl.Int64, "kind": pl.String, "rank": pl.Int32, "away": pl.Int64, **COLUMNS}


def _around(piece: Piece, wanted: Wanted, run: RunContext) -> pl.DataFrame:
    """The rows that belong to findings."""
    asked = Asked(wanted, run)
    parts = [pl.DataFrame(schema=_FOUND)]
    for table in KINDS_OF_TABLES:
        if wanted.findings and len(piece[table]):
            candidates = Rows(table, piece[table], asked).candidates()
            parts += [candidates.told()] if len(candidates) else []
    return best(pl.concat(parts))


def _covered(ops: pl.DataFrame, wanted: Wanted, run: RunContext) -> pl.DataFrame:
    """From where to where each replica was read, in the partitions of findings."""
    places = np.unique([code for each in wanted.findings if (code := _code(each)) is not None]).astype(np.int64)
    of_replicas = pl.col("f").is_in([F.ASSIGN, F.REPLICA]) & by(run.replica_readers)
    here = ops.filter(of_replicas)
    here = here.filter(pl.Series(among(place_of(here), places)))
    whole = pl.all_horizontal(pl.col("offset", "end").is_not_null())
    reached = pl.when(pl.col("f") == F.ASSIGN).then("offset").when(whole).then(pl.min_horizontal("offset", "end"))
    return _last_ones(here.select("process", *PLACE, "f", "event", reached=reached))


def _last_ones(rows: pl.DataFrame) -> pl.DataFrame:
    """Per replica and partition the last assignment and the last read."""
    return rows.sort("event").group_by("process", *PLACE, "f").agg(pl.col("event", "reached").last())


def _witness(piece: Piece, wanted: Wanted) -> dict[str, pl.DataFrame]:
    """Per partition the sends around an offset, and the latest invocation of all that is below them."""
    schema = dict.fromkeys(PLACE, pl.Int32) | {"middle": pl.Int64}
    rows = [(*place, offset) for place, offset in wanted.witnesses.items()]
    middles = pl.DataFrame(rows, schema=schema, orient="row")
    columns = (*PLACE, "offset", "invoked", "time", "process", "value", "event")
    acknowledged = piece.sends.filter((pl.col("type") == Type.OK) & (pl.col("offset") >= 0))
    sends = acknowledged.select(columns).join(middles, on=PLACE)
    ends = pl.concat([_ends(piece.probes, middles), _ends(piece.exchanges.filter(pl.col("type") == Type.OK), middles)])
    inside = pl.col("offset").is_between(pl.col("middle") - WITNESSED, pl.col("middle") + WITNESSED)
    below = pl.col("offset") < pl.col("middle") - WITNESSED
    invoked = pl.concat([rows.filter(below).select(*PLACE, "invoked") for rows in (sends, ends)])
    return {
        "sends": _first_ones(sends.filter(inside).select(columns)),
        "ends": _as_one(ends.filter(inside)),
        "below": invoked.group_by(PLACE).agg(pl.col("invoked").max()),
    }


def _ends(answers: pl.DataFrame, middles: pl.DataFrame) -> pl.DataFrame:
    """Answers that show an end."""
    latest = (pl.col("api") == LIST_OFFSETS) & (pl.col("view") == OffsetView.LATEST) & (pl.col("error") == 0)
    columns = (*PLACE, "offset", "invoked", "time", "process", "event")
    return answers.filter(latest & (pl.col("offset") >= 0)).select(columns).join(middles, on=PLACE)


def _as_one(ends: pl.DataFrame) -> pl.DataFrame:
    """Those that show the same end are one operation."""
    return (
        ends.sort("invoked", "event")
        .group_by(*PLACE, "offset")
        .agg(pl.col("invoked").last(), pl.col("time").min(), pl.col("process", "event").last())
    )


def _first_ones(rows: pl.DataFrame) -> pl.DataFrame:
    ordered = rows.sort(*PLACE, "offset", "event")
    return ordered.filter(pl.int_range(pl.len()).over(PLACE) < WITNESSES_AT_MOST)


def told(parts: Sequence[Tables], wanted: Wanted, run: RunContext) -> dict[str, Any]:
    """The operations of each finding, what replicas have of it, and the witnesses; times since the history began."""
    whole = parts or [look(Piece({}, run), wanted, run)]
    tables = {name: pl.concat([part[name] for part in whole]) for name in whole[0]}
    covered = {
        (row["topic"], row["partition"], row["process"], row["f"]): row["reached"]
        for row in _last_ones(tables["replicas"]).to_dicts()
    }
    operations: dict[str, list[dict[str, Any]]] = {}
    for row in best(tables["around"]).to_dicts():
        operations.setdefault(wanted.findings[row["finding"]].key, []).append(_operation(row, run))
    for of in operations.values():
        of.sort(key=lambda each: (each["from"], each["to"], each["event"]))
    return {
        "around": operations,
        "replicas": {
            each.key: _held(each, operations.get(each.key, []), covered, run)
            for each in wanted.findings
            if each.offset is not None and each.values
        },
        "witness": _witnesses(tables["sends"], tables["ends"], tables["below"], run),
    }


def _operation(row: Mapping[str, Any], run: RunContext) -> dict[str, Any]:
    began = row["invoked"] if row["invoked"] is not None else row["time"]
    kept = {name: row[name] for name in COLUMNS if name not in {"time", "invoked", "topic"} and row[name] is not None}
    if row["topic"] is not None:
        kept["topic"] = run.topics.get(row["topic"], str(row["topic"]))
    since = {"from": began - run.first_time_ns, "to": row["time"] - run.first_time_ns}
    return {"kind": row["kind"], "rank": row["rank"], **since, **kept}


def _held(
    finding: Shown,
    operations: Sequence[Mapping[str, Any]],
    covered: Mapping[tuple[Any, ...], int | None],
    run: RunContext,
) -> list[Any]:
    """Per node: `has it`, `another record`, `nothing there` or `not looked at`; and what it has of it, and where."""
    found = run.processes.items()
    nodes = {n: about["node"] for n, about in found if about.get("role") == REPLICA_ROLE and "node" in about}
    held: dict[int, tuple[str, list[list[int]]]] = {}
    for process, node in sorted(nodes.items()):
        begin, stop = (covered.get((finding.topic, finding.partition, process, f)) for f in (F.ASSIGN, F.REPLICA))
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


def _witnesses(sends: pl.DataFrame, ends: pl.DataFrame, below: pl.DataFrame, run: RunContext) -> dict[str, Any]:
    """Per partition sends and ends in the order of offsets, each with its moment."""
    of_ends = _as_one(ends).with_columns(value=pl.lit(None, pl.Int64), is_end=pl.lit(value=True))
    rows = _first_ones(pl.concat([sends.with_columns(is_end=pl.lit(value=False)), of_ends], how="diagonal"))
    latest = below.group_by(PLACE).agg(below=pl.col("invoked").max())
    told = rows.join(latest, on=PLACE, how="left").with_columns(pl.col("below").fill_null(run.first_time_ns))
    ordered = told.sort(*PLACE, "offset", ~pl.col("is_end"), "invoked", "event").with_columns(
        point=pl.max_horizontal("below", pl.col("invoked").cum_max().over(PLACE))
    )
    return {
        f"{run.topics.get(topic, topic)}-{partition}": {"operations": [_point(row, run) for row in mine.to_dicts()]}
        for (topic, partition), mine in ordered.partition_by(PLACE, as_dict=True, maintain_order=True).items()
    }


def _point(row: Mapping[str, Any], run: RunContext) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("offset", "process", "value", "event")},
        "end": row["is_end"],
        "from": row["invoked"] - run.first_time_ns,
        "to": row["time"] - run.first_time_ns,
        "point": row["point"] - run.first_time_ns,
    }
