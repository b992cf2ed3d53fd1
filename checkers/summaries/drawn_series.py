"""What series.json holds: which partitions are drawn, and the tables of `series` as numbers for charts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from checkers.core.node_answers import FETCH
from checkers.core.run import RunContext
from checkers.core.timeline import Timeline
from checkers.summaries.finding_queries import Window
from checkers.summaries.series import (
    CLASSES,
    ENDINGS,
    ERRORS,
    OTHER_ERRORS,
    OTHERS,
    PERCENTILES,
    PLACE,
    REFUSALS,
    Grid,
    Place,
    Tables,
    has_partition,
    most_refused,
)
from checkers.summaries.witnesses import SAMPLED, WITNESSED, window_around
from harness.foundation.error_codes import name_of
from harness.history.schema import Kind

if TYPE_CHECKING:
    from checkers.core.results import Finding


VERSION = 1
PARTITIONS = 24
WITNESSES = 12  # partitions of which appends are shown in the order of the log
Points = list[list[int | None]]


def places(gathered: Tables, findings: Iterable[Finding], run: RunContext) -> list[Place]:
    """The partitions that are drawn, the worst and then the busiest first; in the order of their numbers."""
    busy = _busy(gathered)
    numbers = {name: number for number, name in run.topics.items()}
    found: dict[Place, int] = {}
    for finding in findings:
        if finding.topic in numbers and finding.partition is not None:
            place = (numbers[finding.topic], finding.partition)
            found[place] = found.get(place, 0) + 1
    chosen = sorted({*busy, *found}, key=lambda place: (-found.get(place, 0), -busy.get(place, 0), place))
    return sorted(chosen[:PARTITIONS])


def _busy(gathered: Tables) -> dict[Place, int]:
    """How many sends partitions had or, where nobody recorded any, exchanges."""
    sent = gathered["sends"].select(*PLACE, count=pl.sum_horizontal(ENDINGS).cast(pl.Int64))
    read = gathered["reads"].select(*PLACE, count=pl.lit(0, pl.Int64))
    counted = pl.concat([sent, read] if len(sent) + len(read) else [gathered["exchanges"]])
    totals = counted.filter(has_partition()).group_by(PLACE).agg(pl.col("count").sum())
    return {(row["topic"], row["partition"]): row["count"] for row in totals.to_dicts()}


def witnesses(gathered: Tables, findings: Iterable[Finding], run: RunContext) -> dict[Place, tuple[Window, ...]]:
    """Partitions whose appends are shown in the order of the log, and from which offset to which they are."""
    if run.deletions:
        return {}
    middles: dict[Place, list[int]] = {}
    for row in gathered["middles"].sort("sample").to_dicts():
        middles.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    chosen = places(gathered, findings, run)[:WITNESSES]
    return {place: _windows(middles[place]) for place in chosen if place in middles}


def _windows(offsets: Iterable[int]) -> tuple[Window, ...]:
    """A wide one around the first, narrow ones around the others; none overlaps one before."""
    kept: list[Window] = []
    for offset in offsets:
        low, high = window_around(offset, SAMPLED if kept else WITNESSED)
        if all(high < other[0] or other[1] < low for other in kept):
            kept.append((low, high))
    return tuple(sorted(kept))


def drawn(gathered: Tables, findings: Collection[Finding], run: RunContext) -> dict[str, Any]:
    """Everything that the report draws, but for `checkers.summaries.context` and the findings that it shows (`of`)."""
    grid, chosen = Grid.of(run), places(gathered, findings, run)
    first_ns = run.first_time_ns
    names = {place: f"{run.topics.get(place[0], place[0])}-{place[1]}" for place in chosen}
    tables = {name: _named(table, names) for name, table in gathered.items() if "partition" in table.columns}
    return {
        "version": VERSION,
        "first_ns": first_ns,
        "lasted": run.last_time_ns - first_ns,
        "start": grid.first_ns - first_ns,
        "bucket": grid.bucket_ns,
        **_line(run.line, first_ns),
        "processes": {str(number): dict(about) for number, about in run.processes.items()},
        "partitions": list(names.values()),
        "others": len(_busy(gathered).keys() - names.keys()),
        "flow": _flow(tables["sends"], tables["reads"]),
        "errors": _errors(gathered["errors"]),
        "latency": _latency(gathered["latency"]),
        "marks": _marks(tables["marks"]),
        "leaders": _leaders(tables["leaders"], first_ns),
        "refusals": _refusals(gathered["refusals"], run),
        "seen": {"probes": run.has(Kind.PROBE), "exchanges": run.has(Kind.EXCHANGE)},
    }


def fingerprint(results: Mapping[str, Any]) -> str:
    """What tells the findings of one check from those of another."""
    found = {name: anomaly["findings"] for name, anomaly in results.get("anomalies", {}).items() if anomaly["findings"]}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def _named(table: pl.DataFrame, names: Mapping[Place, str]) -> pl.DataFrame:
    """With the name of each row's partition; null of one that is not drawn."""
    schema = {name: table.schema[name] for name in PLACE} | {"name": pl.String}
    known = pl.DataFrame([(*place, name) for place, name in names.items()], schema=schema, orient="row")
    return table.join(known, on=PLACE, how="left", maintain_order="left")


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


def _flow(sent: pl.DataFrame, read: pl.DataFrame) -> dict[str, dict[str, list[list[int]]]]:
    flow: dict[str, dict[str, list[list[int]]]] = {}

    def add(table: pl.DataFrame, what: str, value: pl.Expr) -> None:
        told = table.group_by("name", "bucket").agg(value=value).filter(pl.col("value") > 0)
        for (name,), rows in told.sort("bucket").partition_by("name", as_dict=True, include_key=False).items():
            flow.setdefault(OTHERS if name is None else str(name), {})[what] = [list(row) for row in rows.rows()]

    for what in ("ok", "info", "fail"):
        add(sent, what, pl.col(what).sum())
    add(sent.filter(pl.col("name").is_not_null()), "acknowledged", pl.col("last").max() + 1)
    add(read, "read", pl.col("count").sum())
    return flow


def _errors(rows: pl.DataFrame) -> dict[str, list[list[int]]]:
    """The most frequent first."""
    codes = rows["error"].unique().to_list()
    names = {code: name_of(code) for code in codes}
    told = rows.with_columns(name=pl.col("error").replace_strict(names, return_dtype=pl.String))
    totals = told.group_by("name").agg(pl.col("count").sum()).sort(-pl.col("count"), "name")
    kept = totals["name"].head(ERRORS).to_list()
    shown = pl.when(pl.col("name").is_in(kept)).then("name").otherwise(pl.lit(OTHER_ERRORS))
    counted = told.group_by(shown.alias("name"), "bucket").agg(pl.col("count").sum()).sort("bucket")
    parts = counted.partition_by("name", as_dict=True, include_key=False)
    return {name: [list(row) for row in parts[name,].rows()] for name in (*kept, OTHER_ERRORS) if (name,) in parts}


def _latency(rows: pl.DataFrame) -> list[list[float]]:
    """Per bucket: the percentiles, each the middle of the class that holds it, and the maximum, in milliseconds."""
    whole = pl.col("count").sum().over("bucket")
    so_far = rows.sort("bucket", "class").with_columns(passed=pl.col("count").cum_sum().over("bucket"), whole=whole)
    shares = [
        pl.col("class").filter(pl.col("passed") >= share * pl.col("whole")).first().alias(f"class_{number}")
        for number, share in enumerate(PERCENTILES)
    ]
    told = so_far.group_by("bucket").agg(*shares, pl.col("longest").max()).sort("bucket")
    return [
        [bucket, *(min(_middle(each), longest / 1e3) for each in classes), longest / 1e3]
        for bucket, *classes, longest in told.rows()
    ]


def _middle(number: int) -> float:
    return round(float(2 ** ((number + 0.5) / CLASSES)) / 1e3, 3)


def _marks(rows: pl.DataFrame) -> dict[str, dict[str, dict[str, Points]]]:
    lines: dict[str, dict[str, dict[str, Points]]] = {}
    told = rows.filter(pl.col("name").is_not_null()).select("name", "node", "api", "bucket", "value")
    for (name, node, api), mine in told.partition_by("name", "node", "api", as_dict=True, include_key=False).items():
        what = "high_watermark" if api == FETCH else "end"
        lines.setdefault(str(name), {}).setdefault(str(node), {})[what] = [list(row) for row in mine.rows()]
    return lines


def _leaders(rows: pl.DataFrame, first_ns: int) -> dict[str, dict[str, list[list[Any]]]]:
    """Per partition and node: time, leader, epoch and in-sync replicas, where they changed."""
    said: dict[str, dict[str, list[list[Any]]]] = {}
    told = rows.filter(pl.col("name").is_not_null()).with_columns(pl.col("time") - first_ns)
    chosen = told.select("name", "node", "time", "leader", "leader_epoch", "isr")
    for (name, node), mine in chosen.partition_by("name", "node", as_dict=True, include_key=False).items():
        said.setdefault(str(name), {})[str(node)] = [list(row) for row in mine.rows()]
    return said


def _refusals(rows: pl.DataFrame, run: RunContext) -> list[dict[str, Any]]:
    return [
        {
            **{name: row[name] for name in ("client", "node", "api", "partition", "count")},
            "topic": run.topics.get(row["topic"]),
            "first": row["first"] - run.first_time_ns,
            "last": row["last"] - run.first_time_ns,
        }
        for row in most_refused(rows).head(REFUSALS).to_dicts()
    ]
