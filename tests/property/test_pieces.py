"""All that a check says is the same of one piece and of many: findings, counts, summaries, and what the report draws.

The history has findings of every family of checkers; it is cut into stretches of few and of many offsets, and into
pieces that know nothing of each other (tests/integration/test_spark_elsewhere.py lets Spark cut recorded ones).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import polars as pl
import pytest

from checkers.core.conclusion import concluded
from checkers.core.families import FAMILIES
from tests.oracle import compacted, oracles
from tests.support.histories import Rows
from tests.support.kernels import WHOLE, Size, context, steps_of

HISTORIES = 1000
SIZES = [Size(1, 1, 1 << 40, 500), Size(2, 11, 700, 25), Size(64, 2, 50, 60), Size(1 << 16, 5, 4_000)]


@cache
def history() -> Rows:
    """Of all oracles in turn."""
    random, rows, turns = Random(24), Rows(), oracles()
    for topic in range(HISTORIES):
        rows.topics[topic] = f"t{topic}"
        turns[topic * len(turns) // HISTORIES].write(rows, topic, random)
    return rows


def said(size: Size) -> dict[str, Any]:
    """Everything, but for tables that the report is drawn from."""
    rows = history()
    compact = [topic for topic in rows.topics if compacted(rows, topic)]
    steps = steps_of(rows, FAMILIES, context(rows, compact=compact), size)
    told = concluded(steps)
    assert not steps.errors
    return told


whole = cache(lambda: said(WHOLE))


def plain(value: Any) -> Any:
    """Tables as rows in order, for they are put together in any order."""
    if isinstance(value, pl.DataFrame):
        return sorted(map(repr, value.rows()))
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def test_every_family_has_findings() -> None:
    """Of those that find anything."""
    found = {name for name, anomaly in whole()["anomalies"].items() if anomaly.found}
    assert [family.name for family in FAMILIES if family.anomalies and not found.intersection(family.anomalies)] == []


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("part", ["anomalies", "summaries", "cut", "failures", "series"])
def test_pieces_say_what_the_whole_says(part: str, size: Size) -> None:
    """However they are cut."""
    mine, expected = plain(in_pieces(size)[part]), plain(whole()[part])
    if isinstance(expected, dict):
        assert mine.keys() == expected.keys()
        assert {name for name in mine if mine[name] != expected[name]} == set()
    assert mine == expected


in_pieces = cache(said)
