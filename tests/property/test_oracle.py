"""Spark and a slow, obvious implementation of the catalogue find the same, in histories nobody thought of.

Hundreds of small histories are checked in one job, each in a topic and of processes of its own.

    TIDEGAUGE_ORACLE=delivery .venv/bin/python -m pytest tests/property/test_oracle.py    # histories of one module
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.engine import Setting, check
from tests.histories import Rows
from tests.oracle import Oracle, Told, compacted, oracles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 1_000  # of a batch
EVERYTHING = 100_000  # findings of each anomaly; Spark keeps no more
BATCHES = 12  # of the nightly test
AT_LEAST = 50  # findings of each anomaly in them
ONLY = os.environ.get("TIDEGAUGE_ORACLE", "")
# how often a family makes up a history, against others: some of their anomalies are rare
OFTEN = {
    "cycles": 6,
    "groups": 5,
    "linearizability": 4,
    "transactions": 4,
    "watermarks": 4,
    "delivery": 3,
    "leadership": 3,
    "liveness": 3,
}
ORACLES = [oracle for oracle in oracles() if not ONLY or getattr(oracle, "__name__", "").endswith(ONLY)]


def _compare(spark: SparkSession, seed: int, histories: int = HISTORIES) -> Counter[str]:
    """Both find the same in the histories of a seed: how often each anomaly is there."""
    random, rows = Random(seed), Rows()
    turns = [oracle for oracle in ORACLES for _ in range(OFTEN.get(_name(oracle), 2))]
    for topic in range(histories):
        rows.topics[topic] = f"t{topic}"
        turns[topic * len(turns) // histories].write(rows, topic, random)
    numbers = {name: number for number, name in rows.topics.items()} | {None: None}
    seen: Counter[str] = Counter()
    setting = Setting(compacted=[rows.topics[topic] for topic in rows.topics if compacted(rows, topic)])
    with tempfile.TemporaryDirectory() as directory:
        results = check(spark, rows.store(Path(directory)), setting, limit=EVERYTHING)
    assert not results.failures
    for oracle in ORACLES:
        findings = [finding for name in oracle.ANOMALIES for finding in results.anomalies[name].findings]
        by_spark = Counter(oracle.key(finding, numbers[finding.topic]) for finding in findings)
        expected = Counter(oracle.find(rows))
        assert not _differences(rows, by_spark, expected)
        assert len(findings) == sum(results.anomalies[name].found for name in oracle.ANOMALIES)
        seen += Counter(told[0] for told in expected.elements())
    return seen


def _name(oracle: Oracle) -> str:
    return str(getattr(oracle, "__name__", "")).rpartition(".")[2]


def _differences(rows: Rows, by_spark: Counter[Told], expected: Counter[Told]) -> str:
    """One history of which they say different things, with all of its events; nothing if they agree."""
    wrong = {told[1] for told in (by_spark - expected) + (expected - by_spark)}
    if not wrong:
        return ""
    topic = min(wrong, key=lambda topic: sum(1 for _ in _events(rows, topic)))
    lines = [f"{len(wrong)} histories differ; of topic {topic}"]
    for name, told in (("only Spark", by_spark - expected), ("only the oracle", expected - by_spark)):
        lines += [f"{name} found {each}" for each in sorted(told, key=str) if each[1] == topic]
    return "\n".join([*lines, *_events(rows, topic)])


def _events(rows: Rows, topic: Any) -> Iterator[str]:
    for kind, events in rows.events.items():
        for event in events:
            if event.get("topic") == topic:
                yield f"  {kind.name} { ({name: value for name, value in event.items() if name != 'topic'}) }"


def test_spark_and_the_oracle_agree(spark: SparkSession) -> None:
    """On the same thousand histories every time, which have every anomaly among them."""
    seen = _compare(spark, seed=0)
    assert set(seen) == {name for oracle in ORACLES for name in oracle.ANOMALIES}


@pytest.mark.nightly
def test_spark_and_the_oracle_agree_on_thousands(spark: SparkSession) -> None:
    """On many thousands more, which have every anomaly often enough."""
    seen: Counter[str] = Counter()
    for seed in range(1, 1 + BATCHES):
        seen.update(_compare(spark, seed))
    assert {name for oracle in ORACLES for name in oracle.ANOMALIES if seen[name] < AT_LEAST} == set()


@pytest.mark.nightly
@settings(max_examples=3, derandomize=False, database=None)
@given(seed=st.integers(1 + BATCHES, 2**32))
def test_spark_and_the_oracle_agree_on_what_nobody_saw_before(spark: SparkSession, seed: int) -> None:
    """On other histories every night."""
    _compare(spark, seed)
