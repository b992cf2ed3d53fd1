"""The kernels and a slow, obvious implementation of the catalogue find the same, in histories nobody thought of.

Hundreds of small histories are checked at once, each in a topic and of processes of its own: as one piece, and cut into
stretches as small as four offsets, whose pieces know nothing of each other. And histories are checked alone, since what
is settled in a piece and what is not depends on everything else in a history.

    TIDEGAUGE_ORACLE=delivery .venv/bin/python -m pytest tests/property/test_oracle.py    # histories of one module
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.core.families import FAMILIES
from tests.oracle import Oracle, Told, compacted, oracles
from tests.support.histories import Rows
from tests.support.kernels import SIZES, Size, check_rows, findings_of

HISTORIES = 1_000  # of a batch
ALONE = 60  # histories that are checked by themselves
BATCHES = 16  # of the nightly test
AT_LEAST = 50  # findings of each anomaly in them
ONLY = os.environ.get("TIDEGAUGE_ORACLE", "")
# how often a family makes up a history, against others: some of their anomalies are rare
OFTEN = {
    "cycles": 6,
    "groups": 5,
    "linearizability": 5,
    "transactions": 4,
    "watermarks": 4,
    "delivery": 3,
    "leadership": 3,
    "liveness": 3,
    "metadata": 3,
}
ORACLES = [oracle for oracle in oracles() if not ONLY or getattr(oracle, "__name__", "").endswith(ONLY)]


def _name(oracle: Oracle) -> str:
    return str(getattr(oracle, "__name__", "")).rpartition(".")[2]


TURNS = [oracle for oracle in ORACLES for _ in range(OFTEN.get(_name(oracle), 2))]


def _made_up(seed: int, histories: int) -> Rows:
    """Histories of all modules."""
    random, rows = Random(seed), Rows()
    for topic in range(histories):
        rows.topics[topic] = f"t{topic}"
        TURNS[topic * len(TURNS) // histories].write(rows, topic, random)
    return rows


def _compare(rows: Rows, size: Size, expected: dict[str, Counter[Told]]) -> None:
    """Both find the same."""
    compact = [topic for topic in rows.topics if compacted(rows, topic)]
    outcomes, failures = check_rows(rows, FAMILIES, size, compact=compact)
    assert not failures
    assert not [outcome.cut for outcome in outcomes.values() if outcome.cut]
    numbers = {name: number for number, name in rows.topics.items()} | {None: None}
    findings = findings_of(rows, outcomes)
    for oracle in ORACLES:
        mine = Counter(oracle.key(each, numbers[each.topic]) for each in findings if each.anomaly in oracle.ANOMALIES)
        assert not _differences(rows, mine, expected[_name(oracle)])
        counted = sum(outcome.findings.count(name) for outcome in outcomes.values() for name in oracle.ANOMALIES)
        assert counted == mine.total()


def _expected(rows: Rows) -> dict[str, Counter[Told]]:
    return {_name(oracle): Counter(oracle.find(rows)) for oracle in ORACLES}


def _seen(expected: dict[str, Counter[Told]]) -> Counter[str]:
    return Counter(told[0] for of in expected.values() for told in of.elements())


def _differences(rows: Rows, mine: Counter[Told], expected: Counter[Told]) -> str:
    """One history of which they say different things, with all of its events; nothing if they agree."""
    wrong = {told[1] for told in (mine - expected) + (expected - mine)}
    if not wrong:
        return ""
    topic = min(wrong, key=lambda topic: sum(1 for _ in _events(rows, topic)))
    lines = [f"{len(wrong)} histories differ; of topic {topic}"]
    for name, told in (("only the kernels", mine - expected), ("only the oracle", expected - mine)):
        lines += [f"{name} found {each}" for each in sorted(told, key=str) if each[1] == topic]
    return "\n".join([*lines, *_events(rows, topic)])


def _events(rows: Rows, topic: Any) -> Iterator[str]:
    for kind, events in rows.events.items():
        for event in events:
            if event.get("topic") == topic:
                yield f"  {kind.name} { ({name: value for name, value in event.items() if name != 'topic'}) }"


def test_kernels_and_the_oracle_agree() -> None:
    """On the same thousand histories every time, which have every anomaly among them."""
    rows = _made_up(0, HISTORIES)
    expected = _expected(rows)
    for size in SIZES:
        _compare(rows, size, expected)
    assert set(_seen(expected)) == {name for oracle in ORACLES for name in oracle.ANOMALIES}


def test_they_agree_on_histories_by_themselves() -> None:
    """Where nothing of others is loose, more is settled in its piece."""
    random = Random(1)
    for number in range(ALONE):
        rows = Rows()
        rows.topics[0] = "t0"
        TURNS[number * len(TURNS) // ALONE].write(rows, 0, random)
        expected = _expected(rows)
        for size in (SIZES[0], replace(random.choice(SIZES[1:]), rows=1 + number % 4)):
            _compare(rows, size, expected)


@pytest.mark.nightly
def test_they_agree_on_thousands() -> None:
    """On many thousands more, which have every anomaly often enough."""
    seen: Counter[str] = Counter()
    for seed in range(1, 1 + BATCHES):
        rows = _made_up(seed, HISTORIES)
        expected = _expected(rows)
        for size in SIZES:
            _compare(rows, size, expected)
        seen.update(_seen(expected))
    assert {name for oracle in ORACLES for name in oracle.ANOMALIES if seen[name] < AT_LEAST} == set()


@pytest.mark.nightly
@settings(max_examples=3, derandomize=False, database=None)
@given(
    seed=st.integers(1 + BATCHES, 2**32),
    size=st.builds(
        Size,
        st.sampled_from([1, 2, 4, 64, 1 << 16]),
        st.integers(1, 20),
        st.integers(10, 10_000),
        st.sampled_from([50, 1000, 1 << 17]),
    ),
)
def test_they_agree_on_what_nobody_saw_before(seed: int, size: Size) -> None:
    """On other histories every night, cut in other ways."""
    rows = _made_up(seed, HISTORIES)
    _compare(rows, size, _expected(rows))
