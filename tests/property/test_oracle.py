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
from tests.histories import Rows, spark_session
from tests.oracle import Told, compacted, oracles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 1_000  # of a batch
EVERYTHING = 100_000  # findings of each anomaly; Spark keeps no more
AT_LEAST = 50  # findings of each anomaly, in 5,000 histories
ONLY = os.environ.get("TIDEGAUGE_ORACLE", "")
ORACLES = [oracle for oracle in oracles() if not ONLY or getattr(oracle, "__name__", "").endswith(ONLY)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """One session for all."""
    with spark_session() as session:
        yield session


def _compare(spark: SparkSession, seed: int, histories: int = HISTORIES) -> Counter[str]:
    """Both find the same in the histories of a seed: in how many of them each anomaly is."""
    random, rows = Random(seed), Rows()
    for topic in range(histories):
        rows.topics[topic] = f"t{topic}"
        ORACLES[topic * len(ORACLES) // histories].write(rows, topic, random)
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
        seen += Counter(name for name, _ in {(told[0], told[1]) for told in expected})
    return seen


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
    """On 10,000 more, which have every anomaly often enough."""
    seen: Counter[str] = Counter()

    @settings(max_examples=10)
    @given(seed=st.integers(0, 2**32))
    def compare(seed: int) -> None:
        seen.update(_compare(spark, seed))

    compare()
    assert {name for oracle in ORACLES for name in oracle.ANOMALIES if seen[name] < AT_LEAST} == set()
