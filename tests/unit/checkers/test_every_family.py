"""What each checker finds, and what it leaves alone, in histories of a few events: all at once, at every size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from checkers.core.families import FAMILIES
from checkers.core.family import Family, FamilyResult
from checkers.core.results import Finding
from checkers.delivery.acknowledged_values import GatheredDelivery
from harness.history.schema import FaultStage, Kind
from tests.support.histories import SECOND_NS, Case, Rows, told, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, context, findings_of, steps_of

HELPERS = {"epochs", "fates", "coverage", "values"}
# What these histories are about; the other families have their own, in modules of their own.
ABOUT = {
    "lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "false-ack", "inconsistent-offset",
    "shared-offset", "corrupt", "misrouted", "watermark-regression", "end-offset-regression",
}  # fmt: skip

CASES = [
    Case(
        "a write nobody read below one that was read is lost",
        """p1 send a ─ ok @0
           p2 send b ─ ok @1
           c1 poll ─ @1:b""",
        ("lost-write a 0@0",),
    ),
    Case(
        "a write above everything read is not lost as long as nobody read to the end",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           c1 poll ─ @0:a
           r1 final ─ info @1 of 2 [30..34]""",
    ),
    Case(
        "it is stuck when the final read gave up before it",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           c1 poll ─ @0:a
           r1 final ─ info @1 of 2 [30..35]""",
        ("unseen b 0@1",),
    ),
    Case(
        "a final read that was handed something within five seconds is not stuck, nor is what lies beyond the end",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok 1@2
           r1 poll ─ @0:a [30..32]
           r1 final ─ info @1 of 2 [30..36]
           r1 final ─ info 1@0 of 2 [30..36]""",
    ),
    Case(
        "a final read that somebody ended is believed, and so is one read of several",
        """p1 send a ─ ok @0 [0..50]
           r1 final ─ info @0 of 1 [10..20]
           r2 final ─ ok @0 [20..21]""",
    ),
    Case(
        "of two final reads that ended at one moment the higher end counts",
        """p1 send a ─ ok @0
           r1 final ─ info @0 of 1 [30..40]
           r2 final ─ info @0 of 0 [30..40]
           p1 send b ─ ok 1@0 [0..5]
           r1 final ─ info 1@0 of 0 [30..40]
           r2 final ─ info 1@0 of 1 [30..39]""",
        ("unseen a 0@0",),
    ),
    Case(
        "where the final read knew no end the highest that was shown counts, but not for a transaction",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1 txn
           p1 send c ─ ok @2
           n1 fetch ─ @1 [30..31]
           n1 list ─ @2 [32..33]
           r1 final ─ info 0@ [40..50]""",
        ("unseen a 0@0",),
    ),
    Case(
        "a write above everything read is lost when the final read ended at the end",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           c1 poll ─ @0:a
           r1 final ─ ok @1""",
        ("lost-tail b 0@1",),
    ),
    Case(
        "a partition that was read to its end and held nothing has lost all",
        """p1 send a ─ ok @0
           r1 final ─ ok @0""",
        ("lost-tail a 0@0",),
    ),
    Case(
        "a final read that began before the acknowledgement proves nothing about it",
        """p1 send a ─ ok @0 [2..9]
           r1 final ─ ok @0 [8..10]""",
    ),
    Case(
        "what another partition's readers reached says nothing about this one",
        """p1 send a ─ ok 0@0
           p1 send b ─ ok 1@5
           c1 poll ─ 1@5:b
           r1 final ─ ok 1@6""",
    ),
    Case(
        "sends that failed or that nobody knows about are not lost",
        """p1 send a ─ fail
           p1 send b ─ info
           p1 send c ─ ok @2
           c1 poll ─ @2:c
           r1 final ─ ok @3""",
    ),
    Case(
        "what only a final reader was handed is read",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           c1 poll ─ @1:b
           r1 poll ─ @0:a @1:b
           r1 final ─ ok @2""",
    ),
    Case(
        "without an offset it is a false acknowledgement, and lost when it is nowhere",
        """p1 send a ─ ok 0@-1
           r1 final ─ ok @0""",
        ("false-ack a 0@-1", "lost-write a 0@-1"),
    ),
    Case(
        "without an offset it is a false acknowledgement although it arrived",
        """p1 send a ─ ok 0@
           c1 poll ─ @0:a
           r1 final ─ ok @1""",
        ("false-ack a 0@",),
    ),
    Case(
        "an offset below a log start that was shown before is a false acknowledgement",
        """n1 fetch ─ @9 from 5
           p1 send a ─ ok @4
           p1 send b ─ ok @5""",
        ("false-ack a 0@4",),
    ),
    Case(
        "a log start that was shown only after the send began proves nothing",
        """p1 send a ─ ok @4 [1..5]
           n1 fetch ─ @9 from 5 [0..1]""",
    ),
    Case(
        "offset 0 acknowledged again and again is shared like any other",
        """p1 send a ─ ok @0
           p1 send b ─ ok @0
           p1 send c ─ ok @0""",
        ("inconsistent-offset a,c 0@0", "shared-offset a,c 0@0"),
    ),
    Case(
        "offset 0 acknowledged twice is shared",
        """p1 send a ─ ok @0
           p2 send b ─ ok @0""",
        ("inconsistent-offset a,b 0@0", "shared-offset a,b 0@0"),
    ),
    Case(
        "one offset of two partitions is not shared",
        """p1 send a ─ ok 0@3
           p1 send b ─ ok 1@3""",
    ),
    Case(
        "a value that nobody sent is a phantom",
        """c1 poll ─ @0:x""",
        ("phantom x 0@0",),
    ),
    Case(
        "a value whose send nobody knows about is no phantom",
        """p1 send a ─ info
           c1 poll ─ @0:a""",
    ),
    Case(
        "a value whose send failed must not be read",
        """p1 send a ─ fail
           c1 poll ─ @0:a""",
        ("aborted-read a 0@0",),
    ),
    Case(
        "one value at two offsets is a duplicate",
        """p1 send a ─ ok @0
           c1 poll ─ @0:a @1:a""",
        ("duplicate a 0@0",),
    ),
    Case(
        "a value read elsewhere than acknowledged is a duplicate",
        """p1 send a ─ ok @0
           c1 poll ─ @3:a""",
        ("duplicate a 0@0",),
    ),
    Case(
        "one record read again and again is no duplicate",
        """p1 send a ─ ok @0
           c1 poll ─ @0:a
           c1 poll ─ @0:a
           c2 poll ─ @0:a""",
    ),
    Case(
        "one offset with two values is inconsistent",
        """p1 send a ─ info
           p1 send b ─ info
           c1 poll ─ @7:a
           c2 poll ─ @7:b""",
        ("inconsistent-offset a,b 0@7",),
    ),
    Case(
        "an acknowledged offset that holds another value is inconsistent",
        """p1 send a ─ ok @0
           p1 send b ─ info
           c1 poll ─ @0:b""",
        ("inconsistent-offset a,b 0@0", "lost-write a 0@0"),
    ),
    Case(
        "a corrupt record is told once however often it is read, and is a read of nothing",
        """p1 send a ─ ok @0
           c1 poll ─ @0:!
           c2 poll ─ @0:!""",
        ("corrupt 0@0", "lost-write a 0@0"),
    ),
    Case(
        "a record of somebody else is a phantom without a value",
        """c1 poll ─ @0:?""",
        ("phantom 0@0",),
    ),
    Case(
        "a misrouted record is told, and its value is not lost",
        """p1 send a ─ ok 0@0
           p1 send b ─ ok 0@1
           c1 poll ─ 0@1:b 1@0:~a""",
        ("misrouted a 1@0",),
    ),
    Case(
        "a later answer that shows less is a regression",
        """n1 fetch ─ @7
           n1 fetch ─ @6""",
        ("watermark-regression 0@6",),
    ),
    Case(
        "answers that overlap are in no order",
        """n1 fetch ─ @7 [0..4]
           n2 fetch ─ @6 [3..9]""",
    ),
    Case(
        "an answer that begins when another ends is not after it",
        """n1 fetch ─ @7 [0..4]
           n2 fetch ─ @6 [4..9]""",
    ),
    Case(
        "an answer with an error shows nothing",
        """n1 fetch ─ @7
           n1 fetch ─ @0 error 6
           n1 fetch ─ @7""",
    ),
    Case(
        "watermarks of two partitions have nothing to do with each other",
        """n1 fetch ─ 0@7
           n1 fetch ─ 1@6""",
    ),
    Case(
        "watermarks and end offsets have nothing to do with each other",
        """n1 fetch ─ @7
           n1 list ─ @6""",
    ),
    Case(
        "an end offset that falls is a regression of its own",
        """n1 list ─ @7
           n2 list ─ @6""",
        ("end-offset-regression 0@6",),
    ),
    Case(
        "a fall in the middle of slow answers is found",
        """n1 fetch ─ @1 [0..90]
           n1 fetch ─ @7 [1..2]
           n1 fetch ─ @8 [10..11]
           n1 fetch ─ @7 [20..21]
           n1 fetch ─ @8 [30..31]""",
        ("watermark-regression 0@7",),
    ),
    Case(
        "a regression that only a client's own requests show is found",
        """t1 fetch ─ @7
           t1 fetch ─ @6
           t1 list ─ 1@7
           t1 list ─ 1@6""",
        ("watermark-regression 0@6", "end-offset-regression 1@6"),
    ),
    Case(
        "a follower that a client reads from may lag",
        """t1 fetch ─ @7 epoch 3
           t2 fetch ─ @6 epoch 3
           t2 fetch ─ @7 epoch 3
           t1 fetch ─ @8 epoch 3
           t2 list ─ @6""",
    ),
    Case(
        "requests of clients and probes are compared where only leaders answer",
        """n1 fetch ─ @7 epoch 3
           t2 fetch ─ @6 epoch 3
           t2 fetch ─ @5 epoch 3 version 10""",
        ("watermark-regression 0@5",),
    ),
    Case(
        "an answer that no client got, and one with an error, show nothing",
        """t1 fetch ─ @9 lost
           t1 fetch ─ @9 error 6
           t1 fetch ─ @7""",
    ),
    Case(
        "what was aborted is there for those who read uncommitted",
        """p1 send a ─ fail @0 txn
           u1 poll ─ @0:a
           w1 poll ─ @0:a
           w1 raw ─ ok @2""",
    ),
    Case(
        "what was aborted is not for those who read committed",
        """p1 send a ─ fail @0 txn
           u1 poll ─ @0:a
           c1 poll ─ @0:a""",
        ("aborted-read a 0@0",),
    ),
    Case(
        "what failed outside of a transaction is for nobody",
        """p1 send a ─ fail @0
           u1 poll ─ @0:a""",
        ("aborted-read a 0@0",),
    ),
    Case(
        "what was committed is lost when only those have seen it who read uncommitted",
        """p1 send a ─ ok @0 txn
           p1 send b ─ ok @2 txn
           u1 poll ─ @0:a @2:b
           c1 poll ─ @2:b""",
        ("lost-write a 0@0",),
    ),
    Case(
        "how far readers of uncommitted records got says nothing about what was committed",
        """p1 send a ─ ok @0 txn
           p1 send b ─ ok @1 txn
           u1 poll ─ @1:b""",
    ),
    Case(
        "what was committed is lost when the final read does not find it, whatever the log holds",
        """p1 send a ─ ok @0 txn
           w1 poll ─ @0:a
           w1 raw ─ ok @2
           r1 final ─ ok @2""",
        ("lost-tail a 0@0",),
    ),
    Case(
        "a transaction of which nobody knows how it ended may be seen or not",
        """p1 send a ─ info @0 txn
           p1 send b ─ info @1 txn
           p1 send c ─ ok @3 txn
           c1 poll ─ @1:b @3:c
           r1 final ─ ok @5""",
    ),
    Case(
        "outside of transactions everybody's reads count",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           u1 poll ─ @0:a
           c1 poll ─ @1:b""",
    ),
    Case(
        "a log that holds a value of a transaction twice has a duplicate",
        """p1 send a ─ ok @0 txn
           w1 poll ─ @0:a @1:a
           c1 poll ─ @0:a""",
        ("duplicate a 0@0",),
    ),
    Case(
        "what was written before its topic was deleted may be gone",
        """p1 send a ─ ok @0
           k1 delete ─ ok
           k1 create ─ ok
           p1 send b ─ ok @0
           r1 poll ─ @0:b
           r1 final ─ ok @1""",
        ("lost-write a 0@0 gone",),
    ),
    Case(
        "what was written after its topic was created again has to be there",
        """k1 delete ─ ok
           k1 create ─ ok
           p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           r1 poll ─ @1:b
           r1 final ─ ok @2""",
        ("lost-write a 0@0", "lost-tail c 0@2"),
    ),
    Case(
        "offsets are handed out once in each life of a topic",
        """p1 send a ─ ok @0
           k1 delete ─ ok
           k1 create ─ ok
           p1 send b ─ ok @0
           k1 delete ─ ok
           k1 create ─ ok
           p1 send c ─ ok @0
           p1 send d ─ ok @0""",
        ("inconsistent-offset c,d 0@0", "shared-offset c,d 0@0"),
    ),
    Case(
        "an offset that was handed out twice while the topic was being deleted may be that of two topics",
        """k1 delete ─ ok [0..5]
           p1 send a ─ ok @0 [3..8]
           p1 send b ─ ok @0 [4..9]
           k1 create ─ ok [6..10]""",
        ("inconsistent-offset a,b 0@0 gone", "shared-offset a,b 0@0 gone"),
    ),
    Case(
        "nodes learn late that a topic was created again",
        """k1 delete ─ ok [0..1]
           k1 create ─ ok [2..3]
           p1 send a ─ ok @0 [4..5]
           r1 final ─ ok @0""",
        ("lost-tail a 0@0 gone",),
    ),
    Case(
        "what certainly failed was in no life of a topic",
        """p1 send a ─ fail
           c1 poll ─ @0:a
           k1 delete ─ ok
           k1 create ─ ok""",
        ("aborted-read a 0@0",),
    ),
    Case(
        "a value may be there once in each life of a topic",
        """p1 send a ─ ok @0
           k1 delete ─ ok
           k1 create ─ ok
           r1 poll ─ @1:a""",
        ("duplicate a 0@0 gone",),
    ),
    Case(
        "a value is not there twice in one life of a topic, be it the first",
        """p1 send a ─ ok @0
           c1 poll ─ @1:a
           k1 delete ─ ok
           k1 create ─ ok""",
        ("duplicate a 0@0",),
    ),
    Case(
        "nor in the last one",
        """k1 delete ─ ok [0..1]
           k1 create ─ ok [2..3]
           p1 send a ─ ok @0
           r1 poll ─ @0:a @1:a""",
        ("duplicate a 0@0",),
    ),
    Case(
        "nor there when a consumer was handed both before",
        """k1 delete ─ ok [0..1]
           k1 create ─ ok [2..3]
           p1 send a ─ ok @0
           c1 poll ─ @0:a @1:a
           r1 poll ─ @0:a @1:a""",
        ("duplicate a 0@0",),
    ),
    Case(
        "what the consumer alone was handed may be of two lives",
        """k1 delete ─ ok [0..1]
           k1 create ─ ok [2..3]
           p1 send a ─ ok @0
           c1 poll ─ @0:a @1:a
           r1 poll ─ @0:a""",
        ("duplicate a 0@0 gone",),
    ),
    Case(
        "a member of a group begins where the group is, and what it skips is not lost",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           g1 poll ─ @1:b""",
    ),
    Case(
        "but others who got there did miss it",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           g1 poll ─ @1:b
           c1 poll ─ @1:b""",
        ("lost-write a 0@0",),
    ),
    Case(
        "what a member of a group read was read",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           g1 poll ─ @0:a
           c1 poll ─ @1:b""",
    ),
    Case(
        "a deletion that certainly failed excuses nothing",
        """p1 send a ─ ok @0
           k1 delete ─ fail
           r1 final ─ ok @0""",
        ("lost-tail a 0@0",),
    ),
    Case(
        "a topic that was perhaps deleted and never created again excuses all",
        """p1 send a ─ ok @0
           k1 delete ─ info
           p1 send b ─ ok @0
           p1 send c ─ ok @1
           r1 poll ─ @1:c""",
        ("lost-write a 0@0 gone", "lost-write b 0@0 gone"),
    ),
    Case(
        "a consumer may be handed late what it fetched before the topic was deleted",
        """p1 send a ─ ok @0
           k1 delete ─ ok
           k1 create ─ ok
           p1 send b ─ ok @0
           c1 poll ─ @0:a
           r1 poll ─ @0:b
           r1 final ─ ok @1""",
    ),
    Case(
        "how far readers got before the topic was deleted says nothing about the one after it",
        """p1 send a ─ ok @7
           c1 poll ─ @7:a
           k1 delete ─ ok
           k1 create ─ ok
           p1 send b ─ ok @3""",
    ),
    Case(
        "watermarks begin again with their topic",
        """n1 fetch ─ @7
           k1 delete ─ ok
           k1 create ─ ok
           n1 fetch ─ @3
           n1 fetch ─ @2""",
        ("watermark-regression 0@2",),
    ),
    Case(
        "while a topic is being deleted nobody knows whose watermark a node shows",
        """k1 delete ─ ok [0..2]
           n1 fetch ─ @7 [3..4]
           n1 fetch ─ @3 [5..6]
           k1 create ─ ok [7..8]""",
        ("watermark-regression 0@3 gone",),
    ),
]

TAGS = {
    "one epoch, same node, of a leader that goes on after its successor": """n1 fetch ─ @7 epoch 3
        n2 fetch ─ @8 epoch 4
        n1 fetch ─ @6 epoch 3""",
    "one epoch, same node, as the answers themselves say": """n1 metadata ─ epoch 4
        n1 fetch ─ @7 epoch 3 [20..21]
        n2 metadata ─ epoch 5 [22..23]
        n1 fetch ─ @6 epoch 3 [24..25]""",
    "epoch rose, across nodes, as the answers themselves say": """n1 metadata ─ epoch 3
        n1 fetch ─ @7 epoch 3
        n2 fetch ─ @6 epoch 4""",
    "older epoch, across nodes, of a leader that does not know its successor": """n1 metadata ─ epoch 3
        n1 list ─ @7 epoch 4
        n2 list ─ @6 epoch 3""",
    "epoch rose, across nodes, of a successor that shows less": """n1 metadata ─ epoch 3
        n1 list ─ @7 epoch 3
        n2 list ─ @6 epoch 4""",
    "one epoch, same node": """n1 metadata ─ epoch 3
        n1 fetch ─ @7
        n1 fetch ─ @6""",
    "one epoch, across nodes": """n1 metadata ─ epoch 3
        n1 fetch ─ @7
        n2 fetch ─ @6""",
    "epoch rose, across nodes": """n1 metadata ─ epoch 3
        n1 fetch ─ @7
        n2 metadata ─ epoch 4
        n2 fetch ─ @6""",
    "epoch rose, same node": """n1 metadata ─ epoch 3
        n1 fetch ─ @7 [10..11]
        n1 metadata ─ epoch 5 [13..14]
        n1 fetch ─ @6 [12..13]""",
    "one epoch, same node, in requests of clients": """t1 fetch ─ @7 epoch 3
        t1 fetch ─ @6 epoch 3""",
    "epoch unknown, same node, in requests of clients": """t1 fetch ─ @7
        t1 fetch ─ @6""",
    "epoch rose, same node, as metadata says that clients got": """t1 metadata ─ epoch 3
        t1 fetch ─ @7
        t2 metadata ─ epoch 4
        t1 fetch ─ @6""",
    "one epoch, across nodes, in requests of clients that only leaders answer": """t1 fetch ─ @7 epoch 3 version 10
        t2 fetch ─ @6 epoch 3 version 10""",
    "epoch rose, same node, in the second life of a topic": """n1 metadata ─ epoch 0
        n1 metadata ─ epoch 1
        k1 delete ─ ok
        k1 create ─ ok
        n1 metadata ─ epoch 0
        n1 fetch ─ @7
        n1 metadata ─ epoch 1
        n1 fetch ─ @6""",
    "epoch unknown, across nodes": """n1 fetch ─ @7
        n2 fetch ─ @6""",
}


@dataclass(frozen=True)
class Batch:
    """What was found in all cases."""

    rows: Rows
    outcomes: dict[str, FamilyResult]
    known: GatheredDelivery

    @property
    def findings(self) -> list[Finding]:
        """Those that these histories are about."""
        return [finding for finding in findings_of(self.rows, self.outcomes) if finding.anomaly in ABOUT]

    def of(self, topic: int) -> list[Finding]:
        """Those of a case."""
        return [finding for finding in self.findings if finding.topic == f"t{topic}"]

    def looked_at(self, anomaly: str) -> int:
        """In how much it was looked for."""
        return max(outcome.looked_at.get(anomaly, 0) for outcome in self.outcomes.values())


def families_of(*anomalies: str) -> list[Family]:
    """Families that look for any of these, and those that they need."""
    return [each for each in FAMILIES if each.name in HELPERS or set(anomalies) & set(each.anomalies)]


def look(rows: Rows, size: Size = WHOLE, anomalies: tuple[str, ...] = tuple(ABOUT)) -> Batch:
    """All steps of a check."""
    steps = steps_of(rows, families_of(*anomalies), context(rows), size)
    outcomes = steps.conclude()
    assert not steps.failures
    return Batch(rows, outcomes, steps.gathered["values"])


@pytest.fixture(scope="module", params=SIZES, ids=str)
def batch(request: pytest.FixtureRequest) -> Batch:
    """Every case in a topic of its own, checked at once."""
    rows = Rows()
    for topic, text in enumerate([*(case.text for case in CASES), *TAGS.values()]):
        write(rows, topic, text)
    return look(rows, request.param)


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, batch: Batch) -> None:
    """Planted, near miss, allowed: exactly the findings that the case names."""
    found = [told(finding) + " gone" * ("deleted topic" in finding.tags) for finding in batch.of(topic)]
    assert sorted(found) == sorted(CASES[topic].expected)


@pytest.mark.parametrize("number", range(len(TAGS)), ids=list(TAGS))
def test_a_regression_says_whose_and_whether_the_leader_changed(number: int, batch: Batch) -> None:
    """By the epochs that metadata answers showed, within the settling time."""
    (finding,) = batch.of(len(CASES) + number)
    assert ", ".join(finding.tags) == ", ".join(list(TAGS)[number].split(", ")[:2])
    assert (finding.facts["before_node"], finding.facts["shown_before"]) == (1, 7)


def test_counts_are_those_of_the_findings(batch: Batch) -> None:
    """As many were counted as were kept, and no more than were looked at."""
    kept = Counter(finding.anomaly for finding in batch.findings)
    assert set(kept) == ABOUT
    for anomaly in ABOUT:
        assert sum(outcome.findings.count(anomaly) for outcome in batch.outcomes.values()) == kept[anomaly]
        assert batch.looked_at(anomaly) >= kept[anomaly]


def test_every_anomaly_is_found_by_its_families_alone(batch: Batch) -> None:
    """Nobody needs all the others."""
    for anomaly in ABOUT:
        alone, all_of_them = (
            sorted(repr(finding) for finding in found.findings if finding.anomaly == anomaly)
            for found in (look(batch.rows, anomalies=(anomaly,)), batch)
        )
        assert alone == all_of_them


def test_many_pieces_say_what_one_says(batch: Batch) -> None:
    """A large history is cut into pieces; that changes nothing."""
    whole = look(batch.rows)
    assert sorted(map(repr, batch.findings)) == sorted(map(repr, whole.findings))
    assert {name: batch.looked_at(name) for name in ABOUT} == {name: whole.looked_at(name) for name in ABOUT}
    assert batch.known.places.sort("topic", "partition").equals(whole.known.places.sort("topic", "partition"))


ALL_OVER = {FaultStage.INJECTED: 20, FaultStage.UNDONE: 30, FaultStage.HEALED: 40}
LOST_LATE = """n1 metadata ─ {first} [1..2]
    p1 send a ─ ok @0 [41..42]
    n1 metadata ─ {second} [{at}..{at}]
    p1 send b ─ ok @1 [60..61]
    n1 metadata ─ {second} [{until}..{until}]
    c1 poll ─ @1:b [70..71]
    r1 final ─ ok @2 [80..81]"""


def lost_late(stages: dict[FaultStage, int], **told_of_leaders: str | int) -> Finding:
    """What is found of the write that was lost after all."""
    rows = Rows()
    write(rows, 0, LOST_LATE.format(**told_of_leaders))
    for stage, second_s in stages.items():
        rows.add(Kind.FAULT, "x1", time=second_s * SECOND_NS, fault=1, stage=stage, name="leader-kill")
    outcomes, failures = check_rows(rows, families_of("lost-write"))
    assert not failures
    (lost,) = [each for each in findings_of(rows, outcomes) if each.anomaly == "lost-write"]
    return lost


@pytest.mark.parametrize(
    ("stages", "told_of_leaders", "tags"),
    [
        (ALL_OVER, ("epoch 1", "epoch 1", 50), ("settled",)),
        (ALL_OVER, ("epoch 1", "epoch 2", 35), ("settled",)),  # a new leader, while the fault lasted
        (ALL_OVER, ("epoch 1", "epoch 2", 41), ()),  # a new leader that the last one may not have heard of
        (ALL_OVER, ("epoch 1", "epoch 2", 50), ()),  # a new leader afterwards
        (ALL_OVER, ("epoch -1", "epoch -1", 50), ()),  # nobody knows
        (ALL_OVER, ("error 0", "error 0", 50), ()),
        (ALL_OVER | {FaultStage.HEALED: 42}, ("epoch 1", "epoch 1", 50), ()),
        ({FaultStage.INJECTED: 20, FaultStage.UNDONE: 30}, ("epoch 1", "epoch 1", 50), ()),  # never seen to be whole
        ({FaultStage.INJECTED: 20}, ("epoch 1", "epoch 1", 50), ()),
        ({}, ("epoch 1", "epoch 1", 50), ()),
    ],
)
def test_what_is_lost_after_all_faults_and_leader_changes_is_told(
    stages: dict[FaultStage, int], told_of_leaders: tuple[str, str, int], tags: tuple[str, ...]
) -> None:
    """Whoever loses it cannot say that its leader was gone."""
    first, second, at = told_of_leaders
    lost = lost_late(stages, first=first, second=second, at=at, until=65)
    assert (told(lost), lost.tags) == ("lost-write a 0@0", tags)


def test_a_leader_that_nobody_was_told_of_afterwards_may_have_changed() -> None:
    """Whoever asked last asked before it was acknowledged."""
    lost = lost_late(ALL_OVER, first="epoch 1", second="epoch 1", at=30, until=42)
    assert (told(lost), lost.tags) == ("lost-write a 0@0", ())


def test_the_evidence_names_events_and_processes(batch: Batch) -> None:
    """A lost write names the acknowledgement, and the read that went past it."""
    (lost,) = batch.of(0)
    send = next(row for row in batch.rows.events[Kind.COMPLETE] if row.get("value") == lost.values[0])
    read = next(row for row in batch.rows.events[Kind.RECORD] if row["topic"] == 0)
    assert lost.events == (send["event"], read["event"])
    assert lost.processes == (1, 101)
    assert lost.time_ns == send["time"]
