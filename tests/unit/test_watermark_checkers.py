"""Watermarks: what is found in histories of a few answers and acknowledgements, and what is left alone; in one job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from checkers import visibility, watermarks
from checkers.coverage import Coverage, Fault, FaultCoverage, Timeline
from checkers.engine import Setting, check
from checkers.frame import History
from checkers.results import CheckResults, Finding
from harness.policies import PlannedFault, RunFacts, judge
from tests.histories import Case, Rows, told, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAMILIES = ("linearizability", "watermarks", "standing-transactions")


CASES = [
    Case(
        "an answer that shows no more than was acknowledged before it was asked for is behind",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [5..6]
           n1 fetch ─ @4 epoch 1 [7..8]
           n1 list ─ @5 epoch 1 [7..8]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "one that was asked for before the acknowledgement is not, nor is that of a follower",
        """p1 send a ─ ok @4 [5..6]
           n1 fetch ─ @4 [6..8]
           t1 fetch ─ @4 version 12 epoch 1 [7..8]
           t1 fetch ─ @4 version 10 [7..8]
           t1 fetch ─ @4 version 10 epoch 1 lost [7..8]
           n1 fetch ─ @4 error 6 [7..8]
           n1 fetch ─ 1@0 [7..8]""",
    ),
    Case(
        "what passed the tap counts if only a leader can have said it",
        """p1 send a ─ ok @4 [5..6]
           t2 fetch ─ @4 version 10 epoch 1 [7..8]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "without any leader epoch that is said",
        """p1 send a ─ ok @4 [5..6]
           n1 fetch ─ @3 [7..8]""",
        ("watermark-behind-ack a 0@4 epoch unknown",),
    ),
    Case(
        "a new leader has to learn the watermark, and what was acknowledged under it counts",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [5..6]
           n2 metadata ─ epoch 2 [10..11]
           n2 fetch ─ @4 epoch 2 [12..13]
           n2 fetch ─ @4 epoch 2 [14..15]
           p1 send b ─ ok @6 [16..17]
           n3 fetch ─ @6 epoch 2 [18..19]""",
        ("watermark-behind-ack a 0@4 epoch rose", "watermark-behind-ack b 0@6 one epoch"),
    ),
    Case(
        "what a leader broke its word with is not forgotten when its successor has to learn the same",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [5..6]
           n1 fetch ─ @4 epoch 1 [7..8]
           n2 metadata ─ epoch 2 [20..21]
           n2 fetch ─ @4 epoch 2 [30..31]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "nor if it had a predecessor",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [3..4]
           p1 send a ─ ok @4 [8..9]
           n2 fetch ─ @4 epoch 2 [10..11]
           n3 metadata ─ epoch 3 [20..21]
           n3 fetch ─ @4 epoch 3 [30..31]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "without that answer only the successor is behind",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [3..4]
           p1 send a ─ ok @4 [8..9]
           n2 fetch ─ @4 epoch 2 [8..11]
           n3 metadata ─ epoch 3 [20..21]
           n3 fetch ─ @4 epoch 3 [30..31]""",
        ("watermark-behind-ack a 0@4 epoch rose",),
    ),
    Case(
        "an answer that names its leader epoch says more than a later one of which nobody knows it",
        """p1 send a ─ ok @4 [5..6]
           t1 fetch ─ @4 version 10 epoch 1 [7..8]
           n2 fetch ─ @4 [9..10]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "a deposed leader is told from one that broke its word",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [11..12]
           n1 fetch ─ @4 epoch 1 [13..14]
           n2 metadata ─ epoch 2 [14..15]""",
        ("watermark-behind-ack a 0@4 older epoch",),
    ),
    Case(
        "a watermark that stands still for five seconds while acknowledgements go on is frozen",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [2..3]
           n1 fetch ─ @4 epoch 1 [8..9]""",
        ("watermark-behind-ack a 0@4 one epoch", "watermark-frozen a 0@4 one epoch"),
    ),
    Case(
        "one that stood for less than five seconds after an acknowledgement, or before any, is not",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [20..21]
           n1 fetch ─ @4 epoch 1 [25..26]
           n1 fetch ─ @5 epoch 1 [27..28]
           n1 fetch ─ @5 epoch 1 [87..88]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "acknowledgements from before the standstill prove nothing about it",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [1..2]
           n1 fetch ─ @4 epoch 1 [2..3]
           n1 fetch ─ @4 epoch 1 [9..10]""",
        ("watermark-behind-ack a 0@4 one epoch",),
    ),
    Case(
        "the watermark of a deposed leader stands, and that is said",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           n2 metadata ─ epoch 2 [3..4]
           p1 send a ─ ok @4 [5..6]
           n1 fetch ─ @4 epoch 1 [12..13]""",
        ("watermark-behind-ack a 0@4 older epoch", "watermark-frozen a 0@4 older epoch"),
    ),
    Case(
        "a new leader that does not know the watermark yet has not let it stand, and that is said",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [2..3]
           n1 fetch ─ @5 epoch 1 [3..4]
           n2 metadata ─ epoch 2 [9..10]
           n2 fetch ─ @4 epoch 2 [10..11]""",
        (
            "watermark-behind-ack a 0@4 epoch rose",
            "watermark-frozen a 0@4 new leader",
            "watermark-regression 0@4 epoch rose across nodes",
        ),
    ),
    Case(
        "one that had stood before a new leader showed it was frozen",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [2..3]
           n1 fetch ─ @4 epoch 1 [9..10]
           n2 metadata ─ epoch 2 [12..13]
           n2 fetch ─ @4 epoch 2 [13..14]""",
        ("watermark-behind-ack a 0@4 one epoch", "watermark-frozen a 0@4 one epoch"),
    ),
    Case(
        "a watermark above an offset that was given out later was ahead",
        """n1 fetch ─ @7 [1..2]
           p1 send a ─ ok @6 [3..4]""",
        ("watermark-ahead a 0@7 later append",),
    ),
    Case(
        "one that was shown while the send was under way was not",
        """n1 fetch ─ @7 [1..3]
           p1 send a ─ ok @6 [3..4]
           p1 send b ─ ok @7 [5..6]""",
    ),
    Case(
        "an end below a watermark that was shown before: what was there is missing",
        """n1 fetch ─ @7 [1..2]
           r1 final ─ ok @5 [3..4]
           r1 final ─ ok 1@5 [3..4]""",
        ("watermark-ahead 0@7 missing",),
    ),
    Case(
        "a final read that did not end, or began before the watermark was shown, proves nothing",
        """n1 fetch ─ @7 [1..4]
           r1 final ─ ok @5 [3..5]
           r1 final ─ info @5 of 5 [6..7]""",
    ),
    Case(
        "last stable offsets and log starts fall as watermarks do",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 from 3 last_stable_offset 8 epoch 1 [1..2]
           n1 fetch ─ @9 from 2 last_stable_offset 7 epoch 1 [3..4]""",
        ("log-start-regression 0@2 one epoch same node", "lso-regression 0@7 one epoch same node"),
    ),
    Case(
        "those that are negative are none, nor is such an epoch",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 from 3 last_stable_offset 8 epoch 1 [1..2]
           n1 fetch ─ @9 from -1 last_stable_offset -1 epoch 1 [3..4]
           t2 fetch ─ @7 version 10 epoch -1 [5..6]""",
    ),
    Case(
        "of ListOffsets each view is compared with itself",
        """n1 metadata ─ epoch 1 [0..1]
           n1 list ─ @9 view 2 epoch 1 [1..2]
           n1 list ─ @8 view 3 epoch 1 [3..4]
           n1 list ─ @3 view 1 epoch 0 [5..6]
           n1 list ─ @7 view 3 epoch 1 [7..8]
           n1 list ─ @2 view 1 epoch 0 [9..10]""",
        ("log-start-regression 0@2 one epoch same node", "lso-regression 0@7 one epoch same node"),
    ),
    Case(
        "answers at one time are in no order, and a follower's are its own",
        """n1 fetch ─ @9 from 3 last_stable_offset 8 [1..3]
           n1 fetch ─ @9 from 2 last_stable_offset 7 [3..4]
           t2 fetch ─ @9 from 1 last_stable_offset 6 [5..6]""",
    ),
    Case(
        "a last stable offset above a watermark that is shown later",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 last_stable_offset 9 epoch 1 [1..2]
           n1 fetch ─ @8 last_stable_offset 9 epoch 1 [3..4]""",
        (
            "lso-above-hw 0@8 one answer",
            "lso-above-hw 0@8 one epoch same node",
            "watermark-regression 0@8 one epoch same node",
        ),
    ),
    Case(
        "or above that of its own answer, which may have risen in between",
        """n1 fetch ─ @8 last_stable_offset 9 [1..2]
           n1 fetch ─ @9 last_stable_offset 9 [3..4]""",
        ("lso-above-hw 0@8 one answer",),
    ),
    Case(
        "a last stable offset that stands for half a minute below the watermark is stuck",
        """p1 txn T ─ ok [0..1]
           n1 fetch ─ @9 last_stable_offset 5 epoch 1 [1..2]
           n1 fetch ─ @10 last_stable_offset 5 epoch 1 [32..33]""",
        ("lso-stuck 0@5",),
    ),
    Case(
        "at the watermark, for less than that, or on another node it is not",
        """n1 fetch ─ @5 last_stable_offset 5 [1..2]
           n1 fetch ─ @9 last_stable_offset 5 [2..3]
           n1 fetch ─ @9 last_stable_offset 5 [32..33]
           n2 fetch ─ @9 last_stable_offset 5 [40..41]""",
    ),
    Case(
        "that of a deposed leader is known as such",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 last_stable_offset 5 epoch 1 [1..2]
           n2 metadata ─ epoch 2 [3..4]
           n1 fetch ─ @9 last_stable_offset 5 epoch 1 [32..33]""",
        ("lso-stuck 0@5 older epoch",),
    ),
    Case(
        "lives of a topic are apart, and what may be of two proves nothing",
        """n1 fetch ─ @7 [1..2]
           k1 delete ─ ok [10..11]
           k1 create ─ ok [12..13]
           n1 fetch ─ @7 [13..14]
           p1 send a ─ ok @0 [20..21]""",
    ),
]
NAMES = [case.name for case in CASES]


@pytest.fixture(scope="module")
def batch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[History, CheckResults]:
    """All cases in one history, each in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    sealed = rows.store(tmp_path_factory.mktemp("history"))
    return History(spark, sealed), check(spark, sealed, Setting(only=FAMILIES), limit=1000)


def _findings(results: CheckResults) -> list[Finding]:
    """Those of marks; what linearizability says of the same has tests of its own."""
    others = {"not-linearizable", "realtime-order"}
    return [finding for each in results.anomalies.values() if each.name not in others for finding in each.findings]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=NAMES)
def test_findings(batch: tuple[History, CheckResults], topic: int) -> None:
    """Exactly what is expected."""
    _, results = batch
    assert not results.failures
    found = sorted(" ".join([told(each), *each.tags]) for each in _findings(results) if each.topic == f"t{topic}")
    assert found == sorted(CASES[topic].expected)


def test_functions_find_what_the_check_finds(batch: tuple[History, CheckResults]) -> None:
    """Each anomaly has one; lives of topics are known to the check alone."""
    history, results = batch
    functions = {
        "watermark-behind-ack": visibility.find_behind_acks,
        "watermark-frozen": visibility.find_frozen,
        "watermark-ahead": visibility.find_ahead,
        "lso-regression": watermarks.find_lso_regressions,
        "log-start-regression": watermarks.find_log_start_regressions,
        "lso-above-hw": watermarks.find_lso_above_hw,
        "lso-stuck": watermarks.find_lso_stuck,
    }
    for name, find in functions.items():
        rows = [row for row in find(history).collect() if row.topic != len(CASES) - 1]
        assert len(rows) == results.anomalies[name].found > 0, name


def test_stretches_and_many_tasks_find_the_same(
    batch: tuple[History, CheckResults], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large history is cut into stretches of offsets, here of one or two each."""
    history, results = batch
    monkeypatch.setattr(History, "small", property(lambda _: False))
    for module in ("checkers.log", "checkers.points"):
        monkeypatch.setattr(f"{module}.CHUNK", 2)
    spread = check(spark, history.sealed, Setting(only=FAMILIES), limit=1000)
    assert not spread.failures
    assert spread.anomalies == results.anomalies


def test_the_limit_of_a_stuck_offset_is_the_scenarios(spark: SparkSession, tmp_path: Path) -> None:
    """In seconds, and those do not count in which a fault lasted."""
    rows = Rows()
    write(rows, 0, CASES[NAMES.index("at the watermark, for less than that, or on another node it is not")].text)
    sealed = rows.store(tmp_path)
    second = 10**9
    line = Timeline((0, 99), faults=[Fault(n, "x", begun * second, 9 * second) for n, begun in ((1, 5), (2, 7))])
    for limit_s, lasted, found in ((29, None, 1), (30, None, 0), (25, line, 1), (26, line, 0)):
        history = History(spark, sealed, limits={"lso_stuck_s": limit_s}, line=lasted)
        assert watermarks.find_lso_stuck(history).count() == found, (limit_s, lasted)


KILL = {"faults": (PlannedFault("leader-kill", changes_leaders=True),)}


@pytest.mark.parametrize(
    ("anomaly", "tags", "facts", "status"),
    [
        ("watermark-behind-ack", "one epoch", {}, "illegal"),
        ("watermark-behind-ack", "one epoch", {"acks": "1"}, "allowed"),
        ("watermark-behind-ack", "one epoch", KILL, "illegal"),
        ("watermark-behind-ack", "one epoch", {"known": False}, "unproven"),
        ("watermark-behind-ack", "epoch rose", {}, "allowed"),
        ("watermark-behind-ack", "older epoch", {}, "illegal"),
        ("watermark-behind-ack", "older epoch", KILL, "allowed"),
        ("watermark-behind-ack", "epoch unknown", {}, "illegal"),
        ("watermark-behind-ack", "epoch unknown", KILL, "allowed"),
        ("watermark-frozen", "one epoch", {"acks": "1"}, "illegal"),
        ("watermark-frozen", "one epoch", {"acks": "1", **KILL}, "allowed"),
        ("watermark-frozen", "one epoch", KILL, "illegal"),
        ("watermark-frozen", "older epoch", KILL, "allowed"),
        ("watermark-frozen", "new leader", KILL, "allowed"),
        ("watermark-frozen", "epoch rose", KILL, "illegal"),
        ("watermark-ahead", "later append", {"acks": "1", **KILL}, "illegal"),
        ("watermark-ahead", "missing", {"unclean_election": True, **KILL}, "allowed"),
        ("lso-regression", "one epoch,same node", KILL, "illegal"),
        ("lso-regression", "epoch rose,across nodes", KILL, "allowed"),
        ("log-start-regression", "epoch rose,across nodes", {}, "allowed"),
        ("lso-above-hw", "one answer", {}, "allowed"),
        ("lso-above-hw", "one epoch,same node", {}, "illegal"),
        ("lso-stuck", "", {}, "illegal"),
        ("lso-stuck", "", KILL, "illegal"),
        ("lso-stuck", "older epoch", KILL, "allowed"),
    ],
)
def test_policy(anomaly: str, tags: str, facts: dict[str, Any], status: str) -> None:
    """What correct Kafka may show is allowed, and nothing else."""
    fault = FaultCoverage(Fault(1, "leader-kill", injected_ns=5, undone_ns=50), None, None, None)
    results = CheckResults(coverage=Coverage(faults=[fault] if "faults" in facts else []))
    finding = Finding(anomaly, "t", 0, 4, (), (), (), 10, 100, (), tuple(tags.split(",")) if tags else (), "")
    assert judge(finding, results, RunFacts(**facts)).status == status
