"""Linearizability: what is found in histories of a few operations, and what is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage
from harness.history.schema import Kind
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support import histories
from tests.support.histories import SECOND_NS, Rows, told, value_of, write
from tests.support.kernels import WHOLE, Size, check_rows, chosen, context, findings_of, steps_of

ANOMALIES = ("realtime-order", "not-linearizable")


@dataclass(frozen=True)
class Case(histories.Case):
    """A history and what is to be found in it."""

    verdict: str = "linearizable; end() was never called"


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


Checked = tuple[list[Finding], dict[str, FamilyResult]]


def _check(size: Size) -> Checked:
    """All cases in one history, each in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    outcomes, failures = check_rows(rows, chosen(*ANOMALIES), size)
    assert not failures
    found = [each for each in findings_of(rows, outcomes) if each.anomaly in ANOMALIES]
    return sorted(found, key=lambda each: (each.topic, each.anomaly, each.time_ns, each.events)), outcomes


@pytest.fixture(scope="module")
def batch() -> Checked:
    """As one piece."""
    return _check(WHOLE)


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_findings(batch: Checked, topic: int) -> None:
    """Exactly what is expected."""
    found = sorted(" ".join([told(each), *each.tags]) for each in batch[0] if each.topic == f"t{topic}")
    assert found == sorted(CASES[topic].expected)


def test_each_partition_has_a_verdict(batch: Checked) -> None:
    """Those that are violated come first, with the first offset of it."""
    summary = batch[1]["linearizability"].summary
    verdicts = {each["partition"]: each["verdict"] for each in summary["partitions"]}
    assert {case.name: verdicts[f"t{topic}-0"] for topic, case in enumerate(CASES)} == {
        case.name: case.verdict for case in CASES
    }
    assert summary["partitions"][0]["verdict"] == "violated"
    assert {"partition": "t0-0", "verdict": "violated", "offset": 5} in summary["partitions"]
    assert summary["violated"] == sum(verdict == "violated" for verdict in verdicts.values())


def test_a_finding_is_the_pair(batch: Checked) -> None:
    """Both events; the time of the one that was over, and of the other's end."""
    (first,) = [each for each in batch[0] if each.topic == "t0"]
    assert first.values == (value_of(0, "a", 1), value_of(0, "b", 2))
    assert (first.time_ns, first.until_ns, len(first.events)) == (2 * SECOND_NS, 4 * SECOND_NS, 2)
    assert first.processes == (1, 2)
    assert first.facts["by_ns"] == SECOND_NS


@pytest.mark.parametrize("size", [Size(2, 5, 7), Size(1, 3, 1000), Size(1 << 16, 2, 50)])
def test_stretches_and_many_tasks_find_the_same(batch: Checked, size: Size) -> None:
    """A large history is cut into stretches of offsets."""
    found, outcomes = _check(size)
    assert found == batch[0]
    spread, whole = outcomes["linearizability"], batch[1]["linearizability"]
    assert (spread.looked_at, spread.summary) == (whole.looked_at, whole.summary)


def test_a_healthy_history_is_looked_at_once() -> None:
    """Nothing contradicts anything, in whatever pieces it is."""
    rows = Rows()
    write(rows, 0, "\n".join(f"p1 send {name} ─ ok @{at}\nn1 list ─ @{at + 1}" for at, name in enumerate("abcdef")))
    for size in (WHOLE, Size(2, 5, 3)):
        assert "linearizability" not in steps_of(rows, chosen(*ANOMALIES), context(rows), size).judged


def test_absurd_times_break_nothing() -> None:
    """Numbers at both ends of their range are compared, and never added."""
    rows = Rows()
    huge = 2**63 - 1
    for value, (offset, begun, over) in enumerate([(huge, -huge, -huge), (0, huge, huge)]):
        at = {"topic": 0, "partition": 0, "offset": offset, "invoked": begun, "time": over}
        rows.add(Kind.COMPLETE, "p1", f=1, type=1, op=value, value=value, **at)
        rows.add(Kind.PROBE, "n1", api=2, view=2, error=0, node=1, leader_epoch=value, **at)
    outcomes, _ = check_rows(rows, chosen(*ANOMALIES))
    assert outcomes["linearizability"].findings.count("realtime-order") == 1


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
        ("not-linearizable", ("end", "behind", "older epoch"), {}, "unproven"),
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
