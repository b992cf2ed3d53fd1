"""Findings of cycles: each told edge by edge, with what its transactions wrote and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from checkers.core.findings import Findings, make_findings
from checkers.core.run import RunContext
from checkers.cycles.dependencies import Edges, TransactionTable
from checkers.cycles.graph import RW, TIME, WR, WW, CycleStep, FoundCycles
from harness.history.schema import ID_BITS

KINDS = {WW: "ww", WR: "wr", RW: "rw", TIME: "realtime"}


def cycle_findings(each: FoundCycles, edges: Edges, nodes: TransactionTable, run: RunContext) -> Findings:
    """The cycles that are told of a class, and how many there are."""
    table = pl.DataFrame([_row(cycle, edges, nodes, run) for cycle in each.cycles], schema=_ROW, orient="row")
    tagged = table.with_columns(tag=pl.lit(each.tag or None, pl.String))
    findings = make_findings(
        each.anomaly, tagged, run, offset="offset", values="values", processes="processes", time="time",
        until="until", events="events", tags="tag", severity="severity", facts=_FACTS,
    )  # fmt: skip
    untold = each.count - len(each.cycles)
    if untold and findings.counts:
        group = min(findings.counts, key=lambda group: group[2])
        findings.counts[group] += untold
    return findings


_FACTS = ("kinds", "sources", "destinations", "topics", "partitions", "offsets", "operations")
_NUMBERS, _TEXTS = pl.List(pl.Int64), pl.List(pl.String)
_ROW: Mapping[str, Any] = {
    "topic": pl.Int32, "partition": pl.Int32, "offset": pl.Int64, "values": _NUMBERS, "processes": _NUMBERS,
    "time": pl.Int64, "until": pl.Int64, "events": _NUMBERS, "severity": pl.Int64,
    "kinds": _TEXTS, "sources": _NUMBERS, "destinations": _NUMBERS, "topics": _TEXTS, "partitions": _NUMBERS,
    "offsets": _NUMBERS, "operations": _NUMBERS,
}  # fmt: skip


def _row(cycle: Sequence[CycleStep], edges: Edges, nodes: TransactionTable, run: RunContext) -> dict[str, Any]:
    """A cycle, edge by edge; its transactions are numbered from 1 on."""
    numbers = {node: number for number, node in enumerate(dict.fromkeys(step.source for step in cycle), 1)}
    dependent = [step.edge for step in cycle if step.edge >= 0]
    where = [(None, None, None) if step.edge < 0 else _place(edges, step.edge) for step in cycle]
    topic, partition, offset = _place(edges, dependent[0])
    events = [int(nodes.event[node]) for node in numbers]
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "values": [int(edges.value[edge]) for edge in dependent],
        "time": int(min(nodes.invoked[node] for node in numbers)),
        "until": int(max(nodes.ended[node] for node in numbers)),
        "processes": sorted({event >> ID_BITS for event in events}),
        "events": events,
        "severity": len(cycle),
        "kinds": [KINDS[TIME if step.edge < 0 else int(edges.kind[step.edge])] for step in cycle],
        "sources": [numbers[step.source] for step in cycle],
        "destinations": [numbers[step.destination] for step in cycle],
        "topics": [None if number is None else run.topics.get(number, str(number)) for number, _, _ in where],
        "partitions": [each[1] for each in where],
        "offsets": [each[2] for each in where],
        "operations": [int(nodes.op[node]) for node in numbers],
    }


def _place(edges: Edges, edge: int) -> tuple[int, int, int]:
    place = int(edges.place[edge])
    return place >> 32, place & 0xFFFFFFFF, int(edges.offset[edge])
