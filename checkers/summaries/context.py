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
witness     per partition, around the first fault or else the middle of the load, and in samples of the load: sends that
            were acknowledged with consecutive offsets, each with the moment at which it can have taken effect: the
            latest invocation of any acknowledged send at its offset or a lower one, or of an end() that shows no more
            than its offset (those that show the same are one: invoked when the last of them was, over when the first
            was)

`find_context` looks once at each part of the history, and returns its best candidates; `merge_context` puts those of
all parts together. Parts may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from checkers.core.nearest import in_sorted
from checkers.core.piece import Piece
from checkers.core.run import REPLICA_ROLE, RunContext, by
from checkers.core.tables import TABLES, place_of, schema_of
from checkers.summaries.candidate_rows import COLUMNS, KINDS_OF_TABLES, CandidateRows, best
from checkers.summaries.finding_queries import ContextRequest, FindingQueries, ShownFinding, place_code
from checkers.summaries.series import PLACE
from checkers.summaries.witnesses import WITNESS_COLUMNS, merged_witnesses, witness_tables
from harness.history.schema import F


def _read(table: str) -> tuple[str, ...]:
    more = ("end",) if table == "ops" else ()
    return tuple(name for name in schema_of(TABLES[table]) if name in {*COLUMNS, *more})


READS: dict[str, tuple[str, ...]] = {table: _read(table) for table in KINDS_OF_TABLES}
Tables = Mapping[str, pl.DataFrame]


def columns_for(request: ContextRequest) -> dict[str, tuple[str, ...]]:
    """What has to be read for a request: where nothing was found, nothing but what witnesses are made of."""
    return READS if request.findings else WITNESS_COLUMNS


def find_context(piece: Piece, request: ContextRequest, run: RunContext) -> dict[str, pl.DataFrame]:
    """What a part of the history has of all that."""
    return {
        "around": _around(piece, request, run),
        "replicas": _covered(piece.ops, request, run),
        **witness_tables(piece, request),
    }


_FOUND = {"finding": pl.Int64, "kind": pl.String, "rank": pl.Int32, "away": pl.Int64, **COLUMNS}


def _around(piece: Piece, request: ContextRequest, run: RunContext) -> pl.DataFrame:
    """The rows that belong to findings."""
    asked = FindingQueries(request, run)
    parts = [pl.DataFrame(schema=_FOUND)]
    for table in KINDS_OF_TABLES:
        if request.findings and len(piece[table]):
            candidates = CandidateRows(table, piece[table], asked).candidates()
            parts += [candidates.columns()] if len(candidates) else []
    return best(pl.concat(parts))


def _covered(ops: pl.DataFrame, request: ContextRequest, run: RunContext) -> pl.DataFrame:
    """From where to where each replica was read, in the partitions of findings."""
    places = np.unique([code for each in request.findings if (code := place_code(each)) is not None]).astype(np.int64)
    of_replicas = pl.col("f").is_in([F.ASSIGN, F.REPLICA]) & by(run.replica_readers)
    here = ops.filter(of_replicas)
    here = here.filter(pl.Series(in_sorted(place_of(here), places)))
    whole = pl.all_horizontal(pl.col("offset", "end").is_not_null())
    reached = pl.when(pl.col("f") == F.ASSIGN).then("offset").when(whole).then(pl.min_horizontal("offset", "end"))
    return _last_ones(here.select("process", *PLACE, "f", "event", reached=reached))


def _last_ones(rows: pl.DataFrame) -> pl.DataFrame:
    """Per replica and partition the last assignment and the last read."""
    return rows.sort("event").group_by("process", *PLACE, "f").agg(pl.col("event", "reached").last())


def merge_context(parts: Sequence[Tables], request: ContextRequest, run: RunContext) -> dict[str, Any]:
    """The operations of each finding, what replicas have of it, and the witnesses; times since the history began."""
    whole = parts or [find_context(Piece({}, run), request, run)]
    tables = {name: pl.concat([part[name] for part in whole]) for name in whole[0]}
    covered = {
        (row["topic"], row["partition"], row["process"], row["f"]): row["reached"]
        for row in _last_ones(tables["replicas"]).to_dicts()
    }
    operations: dict[str, list[dict[str, Any]]] = {}
    for row in best(tables["around"]).to_dicts():
        operations.setdefault(request.findings[row["finding"]].key, []).append(_operation(row, run))
    for of in operations.values():
        of.sort(key=lambda each: (each["from"], each["to"], each["event"]))
    return {
        "around": operations,
        "replicas": {
            each.key: _held(each, operations.get(each.key, []), covered, run)
            for each in request.findings
            if each.offset is not None and each.values
        },
        "witness": merged_witnesses(tables, request, run),
    }


def _operation(row: Mapping[str, Any], run: RunContext) -> dict[str, Any]:
    began = row["invoked"] if row["invoked"] is not None else row["time"]
    kept = {name: row[name] for name in COLUMNS if name not in {"time", "invoked", "topic"} and row[name] is not None}
    if row["topic"] is not None:
        kept["topic"] = run.topics.get(row["topic"], str(row["topic"]))
    since = {"from": began - run.first_time_ns, "to": row["time"] - run.first_time_ns}
    return {"kind": row["kind"], "rank": row["rank"], **since, **kept}


def _held(
    finding: ShownFinding,
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
