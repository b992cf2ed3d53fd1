"""What each checker finds, and what it leaves alone, in histories of a few events: all of them in one Spark job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkers import coverage, delivery, offsets, watermarks
from checkers.deletions import read_deletions
from checkers.engine import Setting, check
from checkers.frame import History
from checkers.results import CheckResults, Finding
from checkers.warm_up import warm_up
from harness.history import F, Kind, Type
from harness.policies import RunFacts
from harness.verdict import decide
from tests.histories import ROLES, Case, Rows, told, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What these histories are about; the other families have their own, in modules of their own.
ABOUT = Setting(
    only=(
        "lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "false-ack", "inconsistent-offset",
        "shared-offset", "corrupt", "misrouted", "watermark-regression", "end-offset-regression",
    )
)  # fmt: skip

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
        "offset 0 acknowledged three times is a false acknowledgement",
        """p1 send a ─ ok @0
           p1 send b ─ ok @0
           p1 send c ─ ok @0""",
        ("false-ack a,c 0@0", "inconsistent-offset a,c 0@0", "shared-offset a,c 0@0"),
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


@pytest.fixture(scope="module")
def batch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[History, CheckResults]:
    """Every case in a topic of its own, checked at once."""
    rows = Rows()
    for topic, text in enumerate([*(case.text for case in CASES), *TAGS.values()]):
        write(rows, topic, text)
    sealed = rows.store(tmp_path_factory.mktemp("batch"))
    return History(spark, sealed, deletions=read_deletions(sealed)), check(spark, sealed, ABOUT, limit=1000)


def _findings(results: CheckResults, topic: int) -> list[Finding]:
    return [finding for anomaly in results.found for finding in anomaly.findings if finding.topic == f"t{topic}"]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, batch: tuple[History, CheckResults]) -> None:
    """Planted, near miss, allowed: exactly the findings that the case names."""
    found = [told(finding) + " gone" * ("deleted topic" in finding.tags) for finding in _findings(batch[1], topic)]
    assert sorted(found) == sorted(CASES[topic].expected)


@pytest.mark.parametrize("number", range(len(TAGS)), ids=list(TAGS))
def test_a_regression_says_whose_and_whether_the_leader_changed(
    number: int, batch: tuple[History, CheckResults]
) -> None:
    """By the epochs that metadata answers showed, within the settling time."""
    (finding,) = _findings(batch[1], len(CASES) + number)
    assert ", ".join(finding.tags) == ", ".join(list(TAGS)[number].split(", ")[:2])
    assert finding.detail.startswith("node 1 showed 7 at ")


def test_watermarks_need_no_probes(spark: SparkSession, tmp_path: Path) -> None:
    """What passed a tap is enough, and its clean part has no findings."""
    rows = Rows()
    write(rows, 0, "t1 fetch ─ @7\nt1 fetch ─ @6\nt1 list ─ @3\nt1 list ─ @3")
    write(rows, 1, "t1 fetch ─ @6\nt1 fetch ─ @7\nt2 fetch ─ @6\nt1 list ─ @6\nt1 list ─ @7")
    history = History(spark, rows.store(tmp_path))
    found = watermarks.find_watermark_regressions(history).select("topic", "offset", "tags").collect()
    assert [tuple(row) for row in found] == [(0, 6, ["epoch unknown", "same node"])]
    assert watermarks.find_end_offset_regressions(history).count() == 0


def test_watermarks_of_a_fetch_with_many_batches_are_one_answer(spark: SparkSession, tmp_path: Path) -> None:
    """It has a row for each batch; and a topic that has no number is not compared with another one."""
    rows = Rows()
    for topic in (0, None):
        for number, (mark, batches) in enumerate([(7, 2), (6, 5)]):
            for _ in range(batches):
                rows.add(
                    Kind.EXCHANGE, "t1", op=number, type=1, api=1, api_version=12, error=0, node=1, topic=topic,
                    partition=0, high_watermark=mark, invoked=10 * number, time=10 * number + 5,
                )  # fmt: skip
    found = watermarks.find_watermark_regressions(History(spark, rows.store(tmp_path))).collect()
    assert [(row.topic, row.detail.split(", ")[-1]) for row in found] == [(0, "and so in 1 answers")]


def test_counts_are_those_of_the_findings(batch: tuple[History, CheckResults]) -> None:
    """The job that counts and the job that brings the evidence agree, and no check failed."""
    _, results = batch
    assert not results.failures
    assert all(anomaly.found == len(anomaly.findings) for anomaly in results.anomalies.values())
    assert all(anomaly.looked_at >= anomaly.found for anomaly in results.anomalies.values())


def test_every_anomaly_is_found_by_its_function_alone(batch: tuple[History, CheckResults]) -> None:
    """The public functions give what the engine gives."""
    history, results = batch
    functions = {
        "lost-write": delivery.find_lost_writes,
        "lost-tail": delivery.find_lost_tails,
        "unseen": delivery.find_unseen,
        "phantom": delivery.find_phantoms,
        "aborted-read": delivery.find_aborted_reads,
        "duplicate": delivery.find_duplicates,
        "false-ack": delivery.find_false_acks,
        "inconsistent-offset": offsets.find_inconsistent_offsets,
        "shared-offset": offsets.find_shared_offsets,
        "corrupt": offsets.find_corrupt,
        "misrouted": offsets.find_misrouted,
        "watermark-regression": watermarks.find_watermark_regressions,
        "end-offset-regression": watermarks.find_end_offset_regressions,
    }
    assert set(functions) == set(ABOUT.only)
    for name, find in functions.items():
        assert find(history).count() == results.anomalies[name].found, name


def test_many_tasks_find_what_one_finds(
    batch: tuple[History, CheckResults], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large history is spread over tasks; that changes nothing."""
    history, results = batch
    monkeypatch.setattr(History, "small", property(lambda _: False))
    spread = check(spark, history.sealed, ABOUT, limit=1000)
    assert not spread.failures
    assert spread.anomalies == results.anomalies
    assert spread.figures == results.figures


def test_warming_up_is_a_whole_check(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something found, so that both jobs were planned and run, and nothing that failed."""
    seen: list[CheckResults] = []
    monkeypatch.setattr("checkers.warm_up.check", lambda *args: seen.append(check(*args)))
    warm_up(spark, tmp_path)
    assert not seen[0].failures
    assert seen[0].found


def test_the_evidence_names_events_and_processes(batch: tuple[History, CheckResults]) -> None:
    """A lost write names the acknowledgement, and the read that went past it."""
    history, results = batch
    (lost,) = _findings(results, 0)
    send = next(row for row in _rows(history, Kind.COMPLETE) if row["value"] == lost.values[0])
    assert lost.events[0] == send["event"]
    assert lost.processes == (1, 101)
    assert lost.time_ns == send["time"]


def _rows(history: History, kind: Kind) -> list[dict[str, int]]:
    return [row.asDict() for row in history.kind(kind).collect()]


def test_more_than_the_limit_is_counted_and_the_first_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    """And of findings that differ in weight, the worst."""
    rows = Rows()
    sends = [f"p1 send {chr(97 + n)} ─ ok @{n}" for n in range(20)]
    falls = [f"n1 fetch ─ {n}@{10 * n}\nn1 fetch ─ {n}@0" for n in range(1, 9)]
    write(rows, 0, "\n".join([*sends, "p1 send z ─ ok @20", "c1 poll ─ @20:z", *falls]))
    results = check(spark, rows.store(tmp_path), limit=4)
    lost, fallen = results.anomalies["lost-write"], results.anomalies["watermark-regression"]
    assert (lost.found, [finding.offset for finding in lost.findings]) == (20, [0, 1, 2, 3])
    assert fallen.found == 8
    assert {finding.partition for finding in fallen.findings} == {8, 7, 6, 5}


def test_nothing_is_acknowledged_with_acks_0(spark: SparkSession, tmp_path: Path) -> None:
    """Rules about acknowledgements do not apply, and the others do."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok 0@-1\np1 send b ─ ok 0@-1\nc1 poll ─ @0:b @0:x\nr1 final ─ ok @1")
    results = check(spark, rows.store(tmp_path), Setting(acks="0"))
    assert {anomaly.name for anomaly in results.found} == {"phantom", "inconsistent-offset", "int-nonmonotonic-poll"}
    assert results.anomalies["lost-write"].not_applicable


def test_an_empty_history_is_looked_at_by_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """It has no findings and no evidence."""
    results = check(spark, Rows().store(tmp_path))
    assert (results.events, results.looked_for, results.found) == (0, [], [])


def _one_event(rows: Rows) -> None:
    write(rows, 0, "p1 send a ─ ok @0")


def _only_faults(rows: Rows) -> None:
    for stage in (1, 2, 3):
        rows.add(Kind.FAULT, "x1", fault=1, stage=stage, name="leader-kill", detail="1 → 2", time=stage * 10**9)


def _only_failures(rows: Rows) -> None:
    write(
        rows,
        0,
        "p1 send a ─ fail @\np1 send b ─ info @\nc1 poll ─ info\nr1 final ─ info @0 of 0\nn1 fetch ─ @0 error 6",
    )


@pytest.mark.parametrize("made_of", [_one_event, _only_faults, _only_failures])
def test_a_history_that_covers_nothing_is_unknown(
    spark: SparkSession, tmp_path: Path, made_of: Callable[[Rows], None]
) -> None:
    """No check fails on it, nobody is accused, and it is not valid."""
    rows = Rows()
    made_of(rows)
    results = check(spark, rows.store(tmp_path))
    verdict = decide(results, RunFacts())
    assert (results.failures, verdict.outcome) == ([], "unknown")
    assert verdict.reasons


def test_absurd_offsets_and_times_break_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers at both ends of their range are compared, never added."""
    rows = Rows()
    huge = 2**63 - 1
    common = {"topic": 0, "partition": 0}
    for value, (offset, time) in enumerate([(huge, huge), (0, -huge)]):
        rows.add(
            Kind.COMPLETE, "p1", f=1, type=1, op=value, value=value, offset=offset, time=time, invoked=time, **common
        )
        rows.add(Kind.RECORD, "c1", status=0, value=value, offset=offset, time=time, invoked=time, **common)
        rows.add(Kind.COMPLETE, "c1", f=2, type=1, count=1, time=time, invoked=time)
        rows.add(Kind.PROBE, "n1", api=1, error=0, node=1, high_watermark=-offset, time=time, invoked=time, **common)
        rows.add(Kind.PROBE, "n1", api=3, error=0, node=1, leader_epoch=value, time=time, invoked=time, **common)
    results = check(spark, rows.store(tmp_path))
    assert not results.failures
    assert {anomaly.name for anomaly in results.found} == {"watermark-regression", "nonmonotonic-poll"}


def test_a_check_that_fails_is_named_and_the_others_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broken family takes nothing with it."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\np1 send b ─ ok @1\nc1 poll ─ @1:b\nn1 fetch ─ @2")

    def broken(_: History) -> None:
        raise RuntimeError("no such column")

    monkeypatch.setattr(coverage, "probes", broken)
    results = check(spark, rows.store(tmp_path))
    assert results.failures == ["the check of probes failed (no such column)"]
    assert {anomaly.name for anomaly in results.found} == {"lost-write", "stall"}


def test_figures_and_coverage_come_with_the_same_job(spark: SparkSession, tmp_path: Path) -> None:
    """The table, the rates, a stall, what happened around a fault, and how the final reads ended."""
    rows = Rows()
    text = """p1 send a ─ ok 0@0 [10..11]
        p1 send b ─ ok 1@0 [21..22]
        p1 send c ─ fail 1@ [22..23]
        p1 send d ─ ok 1@1 [41..42]
        c1 poll ─ 0@0:a [11..12]
        c1 poll ─ nothing [13..14]
        c1 poll ─ 1@0:b 1@1:d [42..43]
        c1 poll ─ nothing [43..58]
        r1 final ─ ok 0@1 [60..61]
        r1 final ─ info 1@1 of 2 [60..61]
        n1 fetch ─ @1 [11..12]
        n1 fetch ─ @1 error 6 [11..12]"""
    write(rows, 0, text)
    for name, second in (("load", 10), ("heal", 50)):
        rows.add(Kind.PHASE, "x1", name=name, time=second * 10**9)
    for stage, second in ((1, 20), (2, 25), (3, 40)):
        rows.add(Kind.FAULT, "x1", fault=1, stage=stage, name="leader-kill", detail="1 → 2", time=second * 10**9)
    results = check(spark, rows.store(tmp_path))
    figures, covered = results.figures, results.coverage
    assert not results.failures
    assert [(row.sent, row.acknowledged, row.failed, row.distinct) for row in figures.table] == [
        (1, 1, 0, 1),
        (3, 2, 1, 2),
    ]
    assert (figures.produce_s, figures.consume_s) == (32.0, 32.0)
    assert [(stall.began_ns, stall.lasted_ns) for stall in figures.stalls] == [(12 * 10**9, 31 * 10**9)]
    (fault,) = covered.faults
    spans = [fault.before, fault.during, fault.after]
    assert [span and (span.sends, span.reads) for span in spans] == [(1, 1), (1, 0), (1, 2)]
    assert fault.fault.bit
    assert covered.operations["send"] == {"ok": 3, "fail": 1}
    assert covered.probes == [{"api": 1, "node": 1, "asked": 2, "answered": 1}]
    assert covered.finals_complete == 1
    assert covered.finals_incomplete == [{"topic": "t0", "partition": 1, "final_offset": 1, "final_end": 2}]


def test_a_consumer_that_was_killed_did_not_wait(spark: SparkSession, tmp_path: Path) -> None:
    """Sealing ends its open poll with the history, and it was there for no time of that."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok 0@0 [10..11]\np1 send b ─ ok 0@1 [21..22]\nc1 poll ─ 0@0:a [11..12]")
    rows.add(Kind.COMPLETE, "c1", f=F.POLL, type=Type.INFO, invoked=12 * 10**9, time=60 * 10**9)
    results = check(spark, rows.store(tmp_path))
    assert (results.failures, results.figures.stalls) == ([], [])
    assert results.coverage.operations["poll"] == {"ok": 1, "info": 1}


def test_a_duplicate_says_what_its_producer_was(spark: SparkSession, tmp_path: Path) -> None:
    """As the manifest knows it; where it does not, nothing is said."""
    rows = Rows()
    for topic, send in enumerate(
        ["p1 send a ─ ok @0", "i1 send a ─ ok @0", "j1 send a ─ info", "j1 send a ─ ok @0 txn"]
    ):
        write(rows, topic, f"{send}\nc1 poll ─ @0:a @1:a")
    duplicates = check(spark, rows.store(tmp_path)).anomalies["duplicate"].findings
    assert {finding.topic: finding.tags for finding in duplicates} == {
        "t0": (),
        "t1": ("idempotent",),
        "t2": ("plain",),
        "t3": ("transactional",),
    }


def test_a_duplicate_of_a_producer_that_numbers_anew_is_known_as_such(spark: SparkSession, tmp_path: Path) -> None:
    """As the taps saw it, by the epochs under one client id; another client with one epoch is not meant."""
    rows = Rows()
    write(rows, 0, "i1 send a ─ ok @0\nc1 poll ─ @0:a @1:a")
    write(rows, 1, "i2 send a ─ ok @0\nc1 poll ─ @0:a @1:a")
    for who, epoch in ((1, 0), (1, 1), (2, 0), (2, 0)):
        rows.add(
            Kind.EXCHANGE, "t1", api=0, client=f"tidegauge-producer-{ROLES['i'][1] + who}", producer_id=7,
            producer_epoch=epoch, type=Type.OK, time=1, invoked=0,
        )  # fmt: skip
    results = check(spark, rows.store(tmp_path))
    assert not results.failures
    assert {finding.topic: finding.tags for finding in results.anomalies["duplicate"].findings} == {
        "t0": ("idempotent", "numbered anew"),
        "t1": ("idempotent",),
    }


def test_a_compacted_topic_need_not_keep_everything(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing but that is excused, in no other topic; and gaps say nothing there, as with transactions."""
    rows = Rows()
    text = "p1 send a ─ ok @0\np1 send b ─ ok @2\nc1 poll ─ @1:x @3:b\nr1 poll ─ @3:b\nr1 final ─ ok @4"
    write(rows, 0, text)
    write(rows, 1, text)
    write(rows, 2, "p1 send a ─ ok @0 txn\np1 send b ─ ok @2 txn\nc1 poll ─ @0:a @2:b\nr1 final ─ ok @4")
    results = check(spark, rows.store(tmp_path), Setting(compacted=["t0", "another"]))
    assert not results.failures
    lost = [finding.topic for finding in results.anomalies["lost-write"].findings]
    assert lost == ["t1"]
    assert [finding.topic for finding in results.anomalies["phantom"].findings] == ["t0", "t1"]
    assert [row.gaps for row in results.figures.table] == [None, 1, None]


def test_of_a_foreign_history_nobody_is_blamed(spark: SparkSession, tmp_path: Path) -> None:
    """The upper bits of its values say nothing."""
    rows = Rows()
    write(rows, 0, "c1 poll ─ @0:x")
    (phantom,) = check(spark, rows.store(tmp_path), Setting(foreign=True)).anomalies["phantom"].findings
    assert (phantom.detail, phantom.processes) == ("nobody sent it", (101,))


@pytest.mark.parametrize(("setting", "incomplete"), [(Setting(), ["t1-0"]), (Setting(foreign=True), [])])
def test_transactions_ask_for_a_raw_read(
    spark: SparkSession, tmp_path: Path, setting: Setting, incomplete: list[str]
) -> None:
    """Of our own runs: one that never took place is missed, others need not have made any."""
    rows = Rows()
    write(rows, 0, "p1 send a ─ ok @0\nc1 poll ─ @0:a\nr1 final ─ ok @1")
    write(rows, 1, "p1 send a ─ ok @0 txn\nc1 poll ─ @0:a\nr1 final ─ ok @1")
    write(rows, 2, "p1 send a ─ ok @0 txn\nc1 poll ─ @0:a\nr1 final ─ ok @1\nw1 raw ─ ok @1")
    covered = check(spark, rows.store(tmp_path), setting).coverage
    assert (covered.raws_incomplete, covered.raws_incomplete_count) == (incomplete, len(incomplete))


def test_what_was_done_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Transactions, groups, topics, resends, errors, and raw reads that did not get to the end."""
    rows = Rows()
    write(
        rows,
        0,
        "p1 send a ─ ok 0@0 txn\np1 send b ─ fail 1@0 txn\nc1 poll ─ @0:a\nw1 raw ─ info 0@1 of 2\nw1 raw ─ ok 1@2",
    )
    at = {"topic": 0, "partition": 0, "invoked": 1, "time": 2_000_000_001}
    for type_ in (Type.OK, Type.OK, Type.FAIL, Type.INFO):
        rows.add(Kind.COMPLETE, "p1", f=F.TXN, type=type_, **at)
    for member, invoked in ((7, 1), (7, 1), (7, 2), (8, 2), (None, 3)):
        rows.add(Kind.COMPLETE, "c1", f=F.ASSIGN, type=Type.OK, member=member, **(at | {"invoked": invoked}))
    rows.add(Kind.COMPLETE, "c1", f=F.ASSIGN, type=Type.OK, member=8, offset=4, **(at | {"invoked": 4}))  # goes back
    rows.add(Kind.COMPLETE, "c1", f=F.COMMIT, type=Type.OK, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.OK, value=5, offset=5, source=3, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.INFO, value=6, source=3, error=7, **at)
    rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=Type.INFO, value=7, error=-999, **at)
    rows.add(Kind.COMPLETE, "k1", f=F.GROW, type=Type.OK, **at)
    for crc in (1, 1, 1, 2, None):
        rows.add(Kind.EXCHANGE, "t1", api=0, type=1, error=0, crc=crc, client="x", **at)
    for type_, error in ((Type.OK, 6), (Type.INFO, None)):
        rows.add(Kind.EXCHANGE, "t1", api=0, type=type_, error=error, crc=3 + type_, client="x", **at)
    results = check(spark, rows.store(tmp_path))
    assert not results.failures
    figures = results.figures
    assert (figures.transactions, figures.transaction_rate) == ({"committed": 2, "aborted": 1, "unknown": 1}, 1.0)
    assert (figures.rebalances, figures.commits, figures.made, figures.resends) == (3, 1, 1, 2)
    assert (figures.topics, figures.aborted, figures.unsettled, figures.offsetless) == ({"grown": 1}, 1, 2, 4)
    assert results.coverage.raws_incomplete == ["t0-0"]
    assert results.coverage.errors == [
        {"f": "send", "error": -999, "name": "error -999", "type": "info", "count": 1, "classified": False},
        {"f": "send", "error": 7, "name": "REQUEST_TIMED_OUT", "type": "info", "count": 1, "classified": True},
    ]
    told = results.as_json()
    assert (told["unclassified"], told["errors"]) == (1, results.coverage.errors)
