"""Warming up: a check of a handful of events, so that the first real one finds its plans loaded and its code compiled.

The first check of a session costs several times the next one. This pays for it while the cluster starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkers.engine import check
from checkers.frame import TINY_ROWS
from harness.history import COLUMNS, KINDS, TEXT, Kind
from harness.seal import Sealed, parquet_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Something is found, so that the way of the evidence is warm as well.
EVENTS: dict[Kind, dict[str, Any]] = {
    Kind.COMPLETE: {},
    Kind.RECORD: {"status": 0, "value": 2},
    Kind.PROBE: {"error": 0},
    Kind.EXCHANGE: {"error": 0},
    Kind.FAULT: {},
    Kind.PHASE: {},
}


def warm_up(spark: SparkSession, scratch: Path) -> None:
    """Check one event of each kind, written to the scratch directory; the session may not be used meanwhile."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files: dict[Kind, list[Path]] = {}
    for kind, given in EVENTS.items():
        ones = {name: "1" if COLUMNS[name].type == TEXT else 1 for name in KINDS[kind]}
        files[kind] = [scratch / f"warm-up-{kind.name.lower()}.parquet"]
        pq.write_table(pa.Table.from_pylist([ones | given], parquet_schema(kind)), files[kind][0])
    history = Sealed(
        directory=scratch,
        files=files,
        rows=dict.fromkeys(files, TINY_ROWS),  # not true: so that it is read as runs are, which are not so tiny
        processes={1: {"role": "consumer"}},
        topics={1: "warm-up"},
        damage=[],
        damaged_processes=frozenset(),
        has_holes=False,
        first_time_ns=0,
        last_time_ns=1,
    )
    check(spark, history)
