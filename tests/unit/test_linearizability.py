"""Linearizability: what is found in histories of a few operations, and what is left alone; all of them in one job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from checkers import linearizability
from checkers.coverage import Coverage, Fault, FaultCoverage
from checkers.engine import Setting, check
from checkers.frame import History
from checkers.results import CheckResults, Finding
from harness.history import Kind
from harness.policies import PlannedFault, RunFacts, judge
from tests import histories
from tests.histories import SECOND_NS, Rows, told, value_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANOMALIES = ("realtime-order", "not-linearizable")


@dataclass(frozen=True)
class Case(histories.Case):
    """A history and what is to be found in it."""

    verdict: str = "linearizable but for end(), which nobody asked for"


CASES = [
    Case(
        "a send begun after another was acknowledged gets a lower offset",
        """p1 send a ─ ok @5 [1..2]
           p2 send b ─ ok @4 [3..4]""",
        ("realtime-order a,b 0@5",),
        "violated",
    ),
    Case(
        "sends that touch, or of two partitions, are in no order",
        """p1 send a ─ ok @5 [1..3]
           p2 send b ─ ok @4 [3..4]
           p3 send c ─ ok 1@4 [5..6]""",
    ),
    Case(
        "each offset that is too high is one finding, with the send that began last",
        """p1 send a ─ ok @5 [1..2]
           p2 send b ─ ok @6 [1..2]
           p3 send c ─ ok @3 [4..6]
           p4 send d ─ ok @4 [3..6]""",
        ("realtime-order a,c 0@5", "realtime-order b,c 0@6"),
        "violated",
    ),
    Case(
        "read before a lower one was begun, though acknowledged later",
        """p1 send a ─ ok @5 [1..9]
           c1 poll ─ @5:a [2..3]
           p2 send b ─ ok @4 [4..5]""",
        ("not-linearizable a,b 0@5 append",),
        "violated",
    ),
    Case(
        "read before it was sent",
        """c1 poll ─ @5:a [1..2]
           p1 send a ─ ok @5 [3..4]""",
        ("not-linearizable a 0@5 append",),
        "violated",
    ),
    Case(
        "a send of which nobody knew has its place by what was read",
        """p1 send a ─ ok @5 [1..2]
           p2 send b ─ info [3..4]
           c1 poll ─ @4:b @5:a [6..7]""",
        ("not-linearizable a,b 0@5 append",),
        "violated",
    ),
    Case(
        "one that nobody read, that failed, or that was read elsewhere has none",
        """p1 send a ─ ok @5 [1..2]
           p2 send b ─ info @4 [3..4]
           p2 send c ─ fail @4 [3..4]
           p3 send d ─ info [3..4]
           c1 poll ─ 1@4:d [6..7]
           c1 poll ─ @3:~d [6..7]""",
    ),
    Case(
        "such a send is never complete but by a read",
        """p1 send a ─ info [1..2]
           p2 send b ─ ok @4 [5..6]
           c1 poll ─ @5:a [6..7]""",
    ),
    Case(
        "an end that is asked for after an acknowledgement has to be above it",
        """p1 send a ─ ok @4 [1..2]
           n1 list ─ @4 [3..4]
           n1 list ─ @5 [5..6]""",
        ("not-linearizable a 0@4 end behind",),
        "monotonic only",
    ),
    Case(
        "one that was asked for before may be below",
        """p1 send a ─ ok @4 [1..3]
           n1 list ─ @4 [3..4]
           n1 list ─ @5 [1..4]
           n1 list ─ @5 [5..6]
           n1 list ─ 1@0 [5..6]
           n1 list ─ @0 view 3 [5..6]
           n1 list ─ @0 error 6 [5..6]
           t1 list ─ @0 lost [5..6]""",
        verdict="linearizable",
    ),
    Case(
        "an end above what was begun only later",
        """n1 list ─ @5 [1..2]
           p1 send a ─ ok @4 [3..4]""",
        ("not-linearizable a 0@5 end ahead",),
        "monotonic only",
    ),
    Case(
        "an end that falls, and clients at the tap count as probes do",
        """t1 list ─ @5 [1..2]
           n1 list ─ @4 [3..4]
           p1 send a ─ ok @9 [5..6]""",
        ("not-linearizable 0@5 end fell",),
        "monotonic only",
    ),
    Case(
        "what realtime order or appends explain is told once",
        """p1 send a ─ ok @5 [1..2]
           p2 send b ─ ok @4 [3..4]
           c1 poll ─ @5:a [2..3]
           n1 list ─ @5 [3..4]""",
        ("realtime-order a,b 0@5",),
        "violated",
    ),
    Case(
        "a deposed leader is told from one that broke its word",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [2..3]
           n1 list ─ @4 epoch 1 [5..6]
           n2 metadata ─ epoch 2 [5..7]""",
        ("not-linearizable a 0@4 end behind older epoch",),
        "monotonic only",
    ),
    Case(
        "and does not hide it",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [0..1]
           p1 send a ─ ok @4 [2..3]
           n2 list ─ @4 epoch 2 [4..5]
           n1 list ─ @4 epoch 1 [6..7]""",
        ("not-linearizable a 0@4 end behind",),
        "monotonic only",
    ),
    Case(
        "a deposed leader's end is lower than one before it",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [0..1]
           p1 send a ─ ok @4 [1..9]
           n2 list ─ @5 epoch 2 [4..5]
           n1 list ─ @4 epoch 1 [6..7]""",
        ("not-linearizable 0@5 end fell older epoch",),
        "monotonic only",
    ),
    Case(
        "what is sent in a transaction completes with it",
        """p1 send a ─ ok @5 txn [1..6]
           p2 send b ─ ok @4 txn [5..9]
           u1 poll ─ @5:a [5..6]""",
    ),
    Case(
        "one offset with two values is violated, whatever the times",
        """p1 send a ─ ok @5 [1..5]
           c1 poll ─ @5:b [4..5]""",
        (),
        "violated",
    ),
    Case(
        "lives of a topic are apart",
        """p1 send a ─ ok @5 [1..2]
           k1 delete ─ ok [10..11]
           k1 create ─ ok [12..13]
           p1 send b ─ ok @4 [13..14]
           p1 send c ─ ok @0 [20..21]
           n1 list ─ @1 [22..23]""",
        verdict="linearizable",
    ),
]


@pytest.fixture(scope="module")
def batch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[History, CheckResults]:
    """All cases in one history, each in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    sealed = rows.store(tmp_path_factory.mktemp("history"))
    return History(spark, sealed), check(spark, sealed, Setting(only=ANOMALIES), limit=1000)


def _findings(results: CheckResults) -> list[Finding]:
    return [finding for name in ANOMALIES for finding in results.anomalies[name].findings]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_findings(batch: tuple[History, CheckResults], topic: int) -> None:
    """Exactly what is expected."""
    _, results = batch
    assert not results.failures
    found = sorted(" ".join([told(each), *each.tags]) for each in _findings(results) if each.topic == f"t{topic}")
    assert found == sorted(CASES[topic].expected)


def test_each_partition_has_a_verdict(batch: tuple[History, CheckResults]) -> None:
    """Those that are violated come first, with the first offset of it."""
    _, results = batch
    summary = results.summaries["linearizability"]
    verdicts = {each["partition"]: each["verdict"] for each in summary["partitions"]}
    assert {case.name: verdicts[f"t{topic}-0"] for topic, case in enumerate(CASES)} == {
        case.name: case.verdict for case in CASES
    }
    assert summary["partitions"][0] == {"partition": "t0-0", "verdict": "violated", "offset": 5}
    assert summary["violated"] == sum(verdict == "violated" for verdict in verdicts.values())


def test_a_finding_is_the_pair(batch: tuple[History, CheckResults]) -> None:
    """Both events; the time of the one that was over, and of the other's end."""
    _, results = batch
    (first,) = [each for each in _findings(results) if each.topic == "t0"]
    assert first.values == (value_of(0, "a", 1), value_of(0, "b", 2))
    assert (first.time_ns, first.until_ns, len(first.events)) == (2 * SECOND_NS, 4 * SECOND_NS, 2)
    assert first.processes == (1, 2)


def test_functions_find_what_the_check_finds(batch: tuple[History, CheckResults]) -> None:
    """Lives of topics are known to the check alone."""
    history, results = batch
    functions = {
        "realtime-order": linearizability.find_realtime_order,
        "not-linearizable": linearizability.find_not_linearizable,
    }
    for name, find in functions.items():
        rows = [row for row in find(history).collect() if row.topic != len(CASES) - 1]
        assert len(rows) == results.anomalies[name].found, name


def test_stretches_and_many_tasks_find_the_same(
    batch: tuple[History, CheckResults], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large history is cut into stretches of offsets, here of one or two each."""
    history, results = batch
    monkeypatch.setattr(History, "small", property(lambda _: False))
    for module in ("checkers.log", "checkers.points"):
        monkeypatch.setattr(f"{module}.CHUNK", 2)
    spread = check(spark, history.sealed, Setting(only=ANOMALIES), limit=1000)
    assert not spread.failures
    assert spread.anomalies == results.anomalies
    assert spread.summaries == results.summaries


def test_absurd_times_break_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers at both ends of their range are compared, and never added."""
    rows = Rows()
    huge = 2**63 - 1
    for value, (offset, begun, over) in enumerate([(huge, -huge, -huge), (0, huge, huge)]):
        at = {"topic": 0, "partition": 0, "offset": offset, "invoked": begun, "time": over}
        rows.add(Kind.COMPLETE, "p1", f=1, type=1, op=value, value=value, **at)
        rows.add(Kind.PROBE, "n1", api=2, view=2, error=0, node=1, leader_epoch=value, **at)
    results = check(spark, rows.store(tmp_path), Setting(only=("linearizability",)))
    assert not results.failures
    assert results.anomalies["realtime-order"].found == 1


KILL = {"faults": (PlannedFault("leader-kill", changes_leaders=True),)}


@pytest.mark.parametrize(
    ("anomaly", "tags", "facts", "status"),
    [
        ("realtime-order", (), {}, "illegal"),
        ("realtime-order", (), KILL, "illegal"),
        ("realtime-order", (), {"acks": "1"}, "illegal"),
        ("realtime-order", (), {"acks": "1", **KILL}, "allowed"),
        ("realtime-order", (), {"unclean_election": True, **KILL}, "allowed"),
        ("realtime-order", (), {"known": False}, "unproven"),
        ("not-linearizable", ("append",), {"acks": "1"}, "illegal"),
        ("not-linearizable", ("end", "behind"), {}, "illegal"),
        ("not-linearizable", ("end", "behind"), {"acks": "1"}, "allowed"),
        ("not-linearizable", ("end", "ahead"), {"acks": "1"}, "illegal"),
        ("not-linearizable", ("end", "fell"), {"acks": "1"}, "illegal"),
        ("not-linearizable", ("end", "behind", "older epoch"), {}, "illegal"),
        ("not-linearizable", ("end", "behind", "older epoch"), KILL, "allowed"),
        ("not-linearizable", ("end", "fell", "older epoch"), KILL, "allowed"),
    ],
)
def test_policy(anomaly: str, tags: tuple[str, ...], facts: dict[str, Any], status: str) -> None:
    """What correct Kafka may show is allowed, and nothing else."""
    fault = FaultCoverage(Fault(1, "leader-kill", injected_ns=5, undone_ns=50), None, None, None)
    results = CheckResults(coverage=Coverage(faults=[fault] if "faults" in facts else []))
    finding = Finding(anomaly, "t", 0, 4, (), (), (), 10, 100, (), tags, "")
    assert judge(finding, results, RunFacts(**facts)).status == status
