"""Kernels without Spark: the steps of a check of made-up rows, as one piece, or as small pieces that are put together.

python -m tests.support.kernels delivery 500 3      # 500 histories of tests/oracle/delivery.py, seed 3, every size
"""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

from checkers.core.cutting import cut, put_together
from checkers.core.deletions import deletions
from checkers.core.engine import CheckState, check_piece, wanted_columns
from checkers.core.family import Family, FamilyResult
from checkers.core.long_tables import blob_of
from checkers.core.piece import Piece
from checkers.core.results import CheckResults, Finding, as_finding
from checkers.core.run import RunContext
from checkers.core.spark import READ, CheckJob
from checkers.core.tables import schema_of, tables_of
from checkers.core.timeline import timeline
from harness.foundation.limits import DEFAULTS
from harness.history.schema import F, Kind, Type
from harness.history.sealed import Sealed
from tests.oracle import Oracle, compacted, oracles
from tests.support.histories import Rows

if TYPE_CHECKING:
    from checkers.core.check import CheckSettings

EVERYTHING = 100_000


@dataclass(frozen=True)
class Size:
    """How a history is cut; by default all of it is one piece."""

    stretch: int = 0  # offsets
    buckets: int = 1
    chunk: int = 1 << 40  # rows that are cut at once
    rows: int = 1 << 17  # of long tables that are looked at together


WHOLE = Size()
SIZES = (WHOLE, Size(4, 7, 300, 60), Size(16, 3, 5000, 400))


def context(rows: Rows, *, compact: Collection[int] = (), limit: int = EVERYTHING, **more: Any) -> RunContext:
    """What is known of a run that has these rows."""
    control = [*rows.events[Kind.FAULT], *rows.events[Kind.PHASE]]
    times = [
        row[name] for events in rows.events.values() for row in events for name in ("time", "invoked") if name in row
    ]
    first, last = min(times, default=0), max(times, default=0)
    ended = rows.events[Kind.COMPLETE]
    changed = [{"offset": None, **row} for row in ended if row["f"] in {F.CREATE, F.DELETE}]
    return RunContext(
        first_time_ns=first,
        last_time_ns=last,
        processes=rows.processes,
        topics=rows.topics,
        rows={kind: len(events) for kind, events in rows.events.items()},
        rewound=tuple(sorted(row["op"] for row in ended if row["f"] in {F.TXN, F.POLL} and row["type"] != Type.OK)),
        compacted=frozenset(compact),
        deletions=deletions({"topic": None, **row} for row in changed),
        line=timeline(control, first, last, rows.topics),
        limits={**DEFAULTS, **more.pop("limits", {})},
        limit=limit,
        **more,
    )


def frame_of(rows: Rows, kind: Kind) -> pl.DataFrame:
    """The events of a kind, in the order of time, as they are read from a file."""
    schema = schema_of(kind)
    events = sorted(rows.events.get(kind, []), key=lambda row: row["time"])
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in events], schema=schema, orient="row")


def steps_of(rows: Rows, families: Sequence[Family], run: RunContext, size: Size = WHOLE) -> CheckState:
    """All steps but the last."""
    wanted = wanted_columns(families)
    kinds = {kind: frame_of(rows, kind) for kind in Kind if rows.events.get(kind)}
    families = [family for family in families if family.needs(run)]
    if not size.stretch:
        tables: dict[str, pl.DataFrame] = {}
        for kind, frame in kinds.items():
            if kind in READ:
                tables |= tables_of(kind, frame, wanted, run)
        return check_piece(Piece(tables, run), run, families)
    run = replace(run, many=True, stretch=size.stretch, rows_at_once=size.rows)
    state = CheckState(run, families)
    for piece in _pieces(kinds, wanted, run, size, by_value=False):
        state.survey(piece)
    state.gather()
    if by_value := state.by_value():
        for piece in _pieces(kinds, wanted, run, size, by_value=True):
            state.judge(piece, by_value)
        state.resume(by_value)
    if again := state.to_judge():
        for piece in _pieces(kinds, wanted, run, size, by_value=False):
            state.judge(piece, again)
    return state


def _pieces(
    kinds: dict[Kind, pl.DataFrame], wanted: Any, run: RunContext, size: Size, *, by_value: bool
) -> Iterator[Piece]:
    blobs: dict[int, list[tuple[str, bytes]]] = {}
    for kind, frame in kinds.items():
        if kind in READ:
            for start in range(0, len(frame), size.chunk):
                for bucket, table, part in cut(
                    kind, frame[start : start + size.chunk], wanted, run, size.buckets, by_value=by_value
                ):
                    blobs.setdefault(bucket, []).append((table, blob_of(part)))
    for bucket in sorted(blobs):
        yield Piece(put_together(blobs[bucket]), run)


def check_rows(
    rows: Rows, families: Sequence[Family], size: Size = WHOLE, **more: Any
) -> tuple[dict[str, FamilyResult], list[str]]:
    """What each family concludes, and what failed."""
    state = steps_of(rows, families, context(rows, **more), size)
    outcomes = state.conclude()
    for error in state.errors.values():  # in the product it is a sentence
        raise error
    return outcomes, list(state.failures.values())


def check_here(sealed: Sealed, setting: CheckSettings | None = None, *, limit: int = EVERYTHING) -> CheckResults:
    """A whole check of the files of a history, in this process."""
    from checkers.core.check import check

    return check(None, sealed, setting, limit=limit, run_steps=_here)


def _here(sealed: Sealed, job: CheckJob) -> dict[str, Any]:
    from checkers.core.conclusion import answer_of
    from checkers.core.families import FAMILIES
    from checkers.summaries.context import READS

    families = [family for family in FAMILIES if family.name in job.families]
    wanted = wanted_columns(families, READS)
    tables: dict[str, pl.DataFrame] = {}
    for kind, files in sealed.files.items():
        if kind in READ and files and sealed.rows.get(kind):
            rows = pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in files])
            tables |= tables_of(kind, rows, wanted, job.run)
    piece = Piece(tables, job.run)
    return answer_of(check_piece(piece, job.run, families, job.budget_s, job.progress_file), piece)


def chosen(*names: str) -> list[Family]:
    """The families of these anomalies, and those that they need."""
    from checkers.core.check import HELPERS
    from checkers.core.families import FAMILIES

    return [each for each in FAMILIES if each.name in {*HELPERS, *names} or {*each.anomalies} & {*names}]


def findings_of(rows: Rows, outcomes: dict[str, FamilyResult]) -> list[Finding]:
    """All findings, by anomaly and in the order of time."""
    found = [row for outcome in outcomes.values() for kept in outcome.findings.rows.values() for row in kept]
    findings = [as_finding(row, rows.topics) for row in found]
    return sorted(
        findings, key=lambda each: (each.anomaly, each.time_ns or 0, each.place, each.values, each.tags, each.events)
    )


def compare(
    oracle: Oracle, families: Sequence[Family], rows: Rows, size: Size
) -> tuple[list[Any], list[Any], Counter[str]]:
    """What only the kernels found, what only the oracle found, and how often each anomaly is there."""
    compact = [topic for topic in rows.topics if compacted(rows, topic)]
    outcomes, failures = check_rows(rows, families, size, compact=compact)
    assert not failures, failures
    numbers = {name: number for number, name in rows.topics.items()} | {None: None}
    mine = [each for each in findings_of(rows, outcomes) if each.anomaly in oracle.ANOMALIES]
    told = Counter(oracle.key(each, numbers[each.topic]) for each in mine)
    expected = Counter(oracle.find(rows))
    counted = sum(outcome.findings.count(name) for outcome in outcomes.values() for name in oracle.ANOMALIES)
    assert counted == len(mine), (counted, len(mine))
    seen = Counter(each[0] for each in expected.elements())
    return list((told - expected).elements()), list((expected - told).elements()), seen


def main(module: str, histories: str = "500", seed: str = "0", *families: str) -> None:
    """Compare the kernels with the oracle of a module, on histories of its own."""
    from checkers.core.families import FAMILIES

    oracle = next(each for each in oracles() if each.__name__.endswith(f".{module}"))  # type: ignore[attr-defined]
    chosen = [each for each in FAMILIES if not families or each.name in families]
    rows, random = Rows(), Random(int(seed))
    for topic in range(int(histories)):
        rows.topics[topic] = f"t{topic}"
        oracle.write(rows, topic, random)
    for size in SIZES:
        began = time.process_time()
        mine, expected, seen = compare(oracle, chosen, rows, size)
        took = time.process_time() - began
        sys.stdout.write(f"{size}: {sum(seen.values())} findings, {took:.1f} s\n  {dict(seen)}\n")
        for name, told in (("only kernels", mine), ("only the oracle", expected)):
            for each in told[:5]:
                sys.stdout.write(f"  {name}: {each}\n")
            if told:
                sys.stdout.write(f"  {name}: {len(told)} in all\n")


if __name__ == "__main__":
    importlib.import_module("checkers.core.families")
    main(*sys.argv[1:])
