"""What checkers find in transactions, and what they leave alone: all histories in one job, their cycles in another."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from checkers import cycles, delivery, transactions
from checkers.deletions import read_deletions
from checkers.engine import SMALL
from checkers.frame import History, Studied, together
from checkers.results import CheckResults, Finding, as_finding
from harness.policies import RunFacts, judge
from tests.histories import Case, Rows, told, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_TIMES = re.compile(r"\[(\d+)\.\.(\d+)\]")


CASES = [
    Case(
        "a part is visible, and the rest is not in a partition that was read to its end",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@0 in T [2..20]
           c1 poll ─ 0@0:a [30..31]
           r1 final ─ ok 1@0 of 2 [40..41]""",
        ("torn b,a 1@0",),
    ),
    Case(
        "a part is visible, and readers passed the rest",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@4 in T [2..20]
           p2 send c ─ ok 1@5
           c1 poll ─ 0@0:a 1@5:c""",
        ("torn b,a 1@4",),
    ),
    Case(
        "all of it is visible, be it to different readers",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@0 in T [2..20]
           c1 poll ─ 0@0:a
           c2 poll ─ 1@0:b 1@1:?
           r1 final ─ ok 1@2 [40..41]""",
    ),
    Case(
        "nobody has read as far as the rest",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@4 in T [2..20]
           c1 poll ─ 0@0:a 1@3:?
           r1 final ─ info 1@4 of 6 [40..41]""",
    ),
    Case(
        "members of groups begin where the group is, and who reads uncommitted passes what is open",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@4 in T [2..20]
           g1 poll ─ 0@0:a 1@5:?
           u1 poll ─ 1@6:?
           w1 raw ─ ok 1@7""",
    ),
    Case(
        "a final read that began before the end of the transaction proves nothing by itself",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@4 in T [2..20]
           c1 poll ─ 0@0:a
           r1 final ─ ok 1@4 [19..41]""",
    ),
    Case(
        "nobody knows how it ended, but a part is visible and readers passed the rest",
        """p1 txn T ─ info [0..20]
           p1 send a ─ info 0@0 in T [1..20]
           p1 send b ─ info 1@4 in T [2..20]
           c1 poll ─ 0@0:a
           r1 final ─ ok 1@5 [40..41]""",
        ("torn b,a 1@4",),
    ),
    Case(
        "nobody knows how it ended, nor where the rest should be",
        """p1 txn T ─ info [0..20]
           p1 send a ─ info 0@0 in T [1..20]
           p1 send b ─ info 1@ in T [2..20]
           c1 poll ─ 0@0:a
           r1 final ─ ok 1@5 [40..41]""",
    ),
    Case(
        "sends of a transaction that nobody knows are of none",
        """p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@0 in T [2..20]
           c1 poll ─ 0@0:a
           r1 final ─ ok 1@2 [40..41]""",
    ),
    Case(
        "it was committed, and is aborted",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@0 in T [2..20]
           w1 poll ─ 0@0:a [30..31]
           r1 final ─ ok 0@2 [40..41]
           r1 final ─ ok 1@2 [40..41]""",
        ("wrong-outcome a 0@0 commit",),
    ),
    Case(
        "it was committed, and is lost",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           r1 final ─ ok 0@2 [40..41]""",
    ),
    Case(
        "it was committed, and half of it nobody looked for",
        """p1 txn T ─ ok [0..20]
           p1 send a ─ ok 0@0 in T [1..20]
           p1 send b ─ ok 1@0 in T [2..20]
           w1 poll ─ 0@0:a [30..31]
           r1 final ─ ok 0@2 [40..41]""",
    ),
    Case(
        "it was aborted, and is visible",
        """p1 txn T ─ fail [0..20]
           p1 send a ─ fail 0@0 in T [1..20]
           p1 send b ─ fail 1@4 in T [2..20]
           c1 poll ─ 1@4:b
           r1 final ─ ok 0@2 [40..41]""",
        ("wrong-outcome b 0@ abort",),
    ),
    Case(
        "it was aborted, and is there for those who read uncommitted",
        """p1 txn T ─ fail [0..20]
           p1 send a ─ fail 0@0 in T [1..20]
           u1 poll ─ 0@0:a
           r1 final ─ ok 0@2 [40..41]""",
    ),
    Case(
        "what was sent after another instance had taken the id is visible",
        """p1 txn T ─ info name one [0..50]
           p1 init ─ ok name one [10..12]
           p1 send a ─ info 0@0 in T [11..50]
           p1 send b ─ info 0@1 in T [13..50]
           c1 poll ─ 0@0:a 0@1:b""",
        ("zombie-write b 0@",),
    ),
    Case(
        "what was sent while another instance took the id may have been in time",
        """p1 txn T ─ info name two [0..50]
           p1 init ─ ok name two [10..12]
           p1 send a ─ info 0@0 in T [12..50]
           c1 poll ─ 0@0:a""",
    ),
    Case(
        "what a fenced producer sent is not visible",
        """p1 txn T ─ fail name three [0..50]
           p1 init ─ ok name three [10..12]
           p1 send a ─ fail 0@ in T [13..50]
           c1 poll ─ 0@0:?""",
    ),
    Case(
        "its own instance, another id, and one that did not get it fence nobody",
        """p1 init ─ ok name four [0..10]
           p1 txn T ─ ok name four [0..50]
           p2 init ─ ok name five [11..12]
           p2 init ─ info name four [11..12]
           p1 send a ─ ok 0@0 in T [13..50]
           c1 poll ─ 0@0:a""",
    ),
    Case(
        "it polled what it had written itself",
        """p1 txn T ─ ok [0..50]
           p1 send a ─ ok 0@0 in T [1..50]
           p1 poll ─ 0@0:a in T [10..11]""",
        ("precommitted-read a 0@0",),
    ),
    Case(
        "it polled what its predecessor had written",
        """p1 txn T ─ ok [0..5]
           p1 send a ─ ok 0@0 in T [1..5]
           p1 txn U ─ ok [6..50]
           p1 send b ─ ok 0@2 in U [7..50]
           p1 poll ─ 0@0:a in U [10..11]""",
    ),
    Case(
        "who reads uncommitted may well poll what it has just written",
        """p1 txn T ─ ok [0..50]
           p1 send a ─ ok 0@0 in T [1..50]
           u1 poll ─ 0@0:a in T [10..11]
           c1 poll ─ 0@0:a""",
    ),
    Case(
        "a delayed end decides the next transaction",
        """p1 txn S ─ info [0..5]
           p1 send a ─ info 0@0 in S [1..5]
           p1 txn T ─ fail [10..20]
           p1 send b ─ fail 0@2 in T [11..20]
           p1 send c ─ fail 0@4 in T [12..20]
           p1 txn U ─ ok [30..40]
           p1 send d ─ ok 0@6 in U [31..40]
           p1 send e ─ ok 0@8 in U [32..40]
           p1 txn V ─ ok [50..60]
           p1 send f ─ ok 0@10 in V [51..60]
           w1 poll ─ 0@10:f [90..91]
           c1 poll ─ 0@0:a 0@2:b 0@8:e 0@11:? [92..93]""",
        (
            "aborted-read b 0@2",
            "wrong-outcome b 0@ abort",
            "lost-write d 0@6",
            "torn d,e 0@6",
            "lost-write f 0@10",
            "wrong-outcome f 0@10 commit",
        ),
    ),
]
_EXACTLY_ONCE = """p1 send a ─ ok 0@0 [0..1]
                   p1 send b ─ ok 0@1 [0..1]
                   g1 poll ─ 0@0:a 0@1:b in T [2..3]
                   g1 txn T ─ ok [2..20]
                   g1 commit ─ ok 0@2 in T name NAME [9..20]
                   p2 send x ─ ok 1@0 source a in T [4..20]"""
CASES += [
    Case(
        name, _EXACTLY_ONCE.replace("NAME", f"group{number}") + "\n" + text.replace("NAME", f"group{number}"), expected
    )
    for number, (name, text, expected) in enumerate(
        [
            (
                "each input has its output, and the group is past them",
                """p2 send y ─ ok 1@1 source b in T [5..20]
                   g1 committed ─ ok 0@1 name NAME [19..25]
                   g1 committed ─ ok 0@2 name NAME [21..25]""",
                (),
            ),
            ("an input has no output", "c1 poll ─ 1@0:x", ("offsets-not-atomic b 0@1 no output",)),
            (
                "the output of an input was aborted",
                """g1 txn U ─ fail [2..20]
                   p2 send y ─ fail 1@1 source b in U [5..20]""",
                ("offsets-not-atomic b 0@1 no output",),
            ),
            (
                "the output of an input may be there, where nobody read to the end",
                """g1 txn U ─ info [2..20]
                   p2 send y ─ info 1@ source b in U [5..20]""",
                (),
            ),
            (
                "the output of an input may have been there, but is not",
                """g1 txn U ─ info [2..20]
                   p2 send y ─ info 1@ source b in U [5..20]
                   c1 poll ─ 1@0:x
                   r1 final ─ ok 1@2 [40..41]""",
                ("offsets-not-atomic b 0@1 no output",),
            ),
            (
                "two outputs of one input",
                """p2 send y ─ ok 1@1 source b in T [5..20]
                   g1 txn U ─ info [22..30]
                   p2 send z ─ info 1@4 source b in U [23..30]
                   c1 poll ─ 1@0:x 1@1:y 1@4:z""",
                ("offsets-not-atomic b,y,z 0@1 twice",),
            ),
            (
                "two outputs of an input that is there twice",
                """p2 send y ─ ok 1@1 source b in T [5..20]
                   p2 send z ─ ok 1@2 source b in T [5..20]
                   c1 poll ─ 0@2:b""",
                (),
            ),
            (
                "an output was committed, and the group is before its input",
                """p2 send y ─ ok 1@1 source b in T [5..20]
                   g1 committed ─ ok 0@2 name NAME [21..25]
                   g1 committed ─ ok 0@1 name NAME [22..25]""",
                ("offsets-not-atomic b,y 0@1 not committed",),
            ),
            (
                "two groups read the partition",
                """g2 committed ─ ok 0@0 name other [22..25]""",
                (),
            ),
        ]
    )
]

CYCLES = [
    Case(
        "writes that interleave",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok @0 in T
           p2 send b ─ ok @1 in U
           p1 send c ─ ok @2 in T""",
        ("G0",),
    ),
    Case(
        "writes that interleave far apart",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok @0 in T
           p2 send b ─ ok @300000 in U
           p1 send c ─ ok @900000 in T""",
        ("G0",),
    ),
    Case(
        "writes of two partitions are in no order",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok 0@0 in T
           p2 send b ─ ok 1@1 in U
           p1 send c ─ ok 2@2 in T""",
    ),
    Case(
        "what failed is in no cycle, nor what may have happened and nobody saw",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ fail [0..50]
           p3 txn V ─ info [0..50]
           p1 send a ─ ok @0 in T
           p2 send b ─ fail @1 in U
           p3 send c ─ info @2 in V
           p1 send d ─ ok @3 in T
           u1 poll ─ @2:c""",
    ),
    Case(
        "what may have happened and was seen did",
        """p1 txn T ─ ok [0..50]
           p3 txn V ─ info [0..50]
           p1 send a ─ ok @0 in T
           p3 send c ─ info @2 in V
           p1 send d ─ ok @3 in T
           c1 poll ─ @2:c""",
        ("G0",),
    ),
    Case(
        "nor what was acknowledged in a transaction of which nobody knows how it ended, and nobody saw",
        """p1 txn T ─ ok [0..50]
           p3 txn V ─ info [0..50]
           p1 send a ─ ok @0 in T
           p3 send c ─ ok @2 in V
           p1 send d ─ ok @3 in T
           u1 poll ─ @2:c""",
    ),
    Case(
        "what was acknowledged in a transaction of which nobody knows how it ended, and was seen, took place",
        """p1 txn T ─ ok [0..50]
           p3 txn V ─ info [0..50]
           p1 send a ─ ok @0 in T
           p3 send c ─ ok @2 in V
           p1 send d ─ ok @3 in T
           c1 poll ─ @2:c""",
        ("G0",),
    ),
    Case(
        "two read each other's writes",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok 0@0 in T
           p2 send b ─ ok 1@0 in U
           p1 poll ─ 1@0:b in T
           p2 poll ─ 0@0:a in U""",
        ("G1c wr",),
    ),
    Case(
        "who reads uncommitted may read each other's writes",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok 0@0 in T
           p2 send b ─ ok 1@0 in U
           u1 poll ─ 1@0:b in T
           u2 poll ─ 0@0:a in U""",
    ),
    Case(
        "it wrote before the one whose write it read",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p1 send a ─ ok 0@0 in T
           p2 send b ─ ok 0@1 in U
           p2 send c ─ ok 1@0 in U
           p1 poll ─ 1@0:c in T""",
        ("G1c ww",),
    ),
    Case(
        "it read one write of another and not the other one",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p3 send a ─ ok 0@0
           p2 send b ─ ok 0@1 in U
           p2 send c ─ ok 1@0 in U
           p1 poll ─ 0@0:a in T
           p1 poll ─ 1@0:c in T""",
        ("G-single",),
    ),
    Case(
        "two did not read each other's writes",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..50]
           p3 send a ─ ok 0@0
           p3 send c ─ ok 1@70000
           p2 send b ─ ok 0@1 in U
           p1 send d ─ ok 1@140000 in T
           p1 poll ─ 0@0:a in T
           p2 poll ─ 1@70000:c in U""",
        ("G2",),
    ),
    Case(
        "it read all there was, step by step",
        """p1 txn T ─ ok [0..50]
           p2 txn U ─ ok [0..40]
           p2 send a ─ ok 0@0 in U
           p2 send b ─ ok 0@1 in U
           p1 poll ─ 0@0:a in T
           p1 poll ─ 0@1:b in T""",
    ),
    Case(
        "it read what was written after it had ended",
        """p1 txn T ─ ok [0..5]
           p2 txn U ─ ok [10..15]
           p2 send a ─ ok 0@0 in U [11..15]
           p1 poll ─ 0@0:a in T [1..2]""",
        ("G1c-realtime wr",),
    ),
    Case(
        "nobody knows when a transaction ended of which nobody knows how",
        """p1 txn T ─ info [0..5]
           p2 txn U ─ ok [10..15]
           p2 send a ─ ok 0@0 in U [11..15]
           p1 send b ─ info 1@0 in T [0..5]
           c1 poll ─ 1@0:b
           p1 poll ─ 0@0:a in T [1..2]""",
    ),
    Case(
        "it wrote above what was written later",
        """p1 txn T ─ ok [0..5]
           p2 txn U ─ ok [10..15]
           p1 send a ─ ok 0@7 in T [1..5]
           p2 send b ─ ok 0@3 in U [11..15]""",
        ("G0-realtime",),
    ),
    Case(
        "it wrote after what ended when it began",
        """p1 txn T ─ ok [0..5]
           p2 txn U ─ ok [5..15]
           p1 send a ─ ok 0@7 in T [1..5]
           p2 send b ─ ok 0@3 in U [11..15]""",
    ),
    Case(
        "it did not read what had been written before",
        """p1 txn T ─ ok [0..5]
           p2 txn U ─ ok [10..15]
           p3 send a ─ ok 0@0
           p1 send b ─ ok 0@1 in T [1..5]
           p2 poll ─ 0@0:a in U [11..12]""",
        ("G-single-realtime",),
    ),
    Case(
        "three in a circle of time, writes and reads",
        """p1 txn T ─ ok [0..5]
           p2 txn U ─ ok [10..15]
           p3 txn V ─ ok [0..50]
           p2 send a ─ ok 0@0 in U [11..15]
           p3 send b ─ ok 0@1 in V [11..15]
           p3 send c ─ ok 1@0 in V [1..2]
           p1 poll ─ 1@0:c in T [3..4]""",
        ("G1c-realtime ww",),
    ),
]


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """As a check of a small history has it."""
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    return spark


def _later(seconds: int, times: re.Match[str]) -> str:
    return f"[{int(times[1]) + seconds}..{int(times[2]) + seconds}]"


def _stored(spark: SparkSession, cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> History:
    """Each in a topic of its own, and in a time of its own as far as lines have one: real time knows no topics."""
    rows = Rows()
    for topic, case in enumerate(cases):
        write(rows, topic, _TIMES.sub(partial(_later, 1000 * topic), case.text))
    sealed = rows.store(tmp_path_factory.mktemp("batch"))
    return History(spark, sealed, deletions=read_deletions(sealed))


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Every case in a topic of its own."""
    return _stored(spark, CASES, tmp_path_factory)


@pytest.fixture(scope="module")
def batch(history: History) -> list[Finding]:
    """What there is, all of it asked for at once."""
    late = len(CASES) - 10
    assert CASES[late].name.startswith("a delayed end")
    losses = [delivery.find_aborted_reads(history), delivery.find_lost_writes(history)]
    found = [family.findings(history) for family in transactions.FAMILIES]
    rows = together([*found, *(loss.where(f"topic = {late}") for loss in losses)]).collect()
    return [as_finding(row.asDict(), history.sealed.topics) for row in rows]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, batch: list[Finding]) -> None:
    """Planted and near miss: exactly the findings that the case names."""
    found = [" ".join([told(each), *each.tags]) for each in batch if each.topic == f"t{topic}"]
    assert sorted(found) == sorted(CASES[topic].expected)


def test_a_large_history_is_asked_the_same(
    history: History, batch: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There topics without transactions are left out early."""
    names = {rule.anomaly for rule in transactions.TRANSACTIONS.rules}
    monkeypatch.setattr(History, "small", property(lambda _: False))
    rows = transactions.TRANSACTIONS.findings(history).collect()
    large = [as_finding(row.asDict(), history.sealed.topics) for row in rows]
    assert sorted(map(str, large)) == sorted(str(each) for each in batch if each.anomaly in names)


@pytest.fixture(scope="module")
def studied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Studied]:
    """Every cycle in a topic of its own, all of them in one graph."""
    history = _stored(spark, CYCLES, tmp_path_factory)
    return history, cycles.study(history, 1000)


@pytest.mark.parametrize("topic", range(len(CYCLES)), ids=[case.name for case in CYCLES])
def test_it_finds_cycles(topic: int, studied: tuple[History, Studied]) -> None:
    """Of the class that is meant, and no other."""
    rows = [row for row in studied[1].findings if row["topic"] == topic]
    assert sorted(" ".join([row["anomaly"], *row["tags"]]) for row in rows) == sorted(CYCLES[topic].expected)


def test_a_cycle_is_told_edge_by_edge(studied: tuple[History, Studied]) -> None:
    """With names for its transactions, and where."""
    details = {CYCLES[row["topic"]].name: row["detail"] for row in studied[1].findings}
    assert details["two read each other's writes"].startswith(
        "T1 wrote t7-0@0 and T2 read it; T2 wrote t7-1@0 and T1 read it; T1 is transaction "
    )
    assert details["it read what was written after it had ended"].startswith(
        "T1 wrote t13-0@0 and T2 read it; T2 had ended before T1 was invoked; "
    )
    assert not studied[1].cut
    assert sum(studied[1].found.values()) == len(studied[1].findings)


def test_too_many_dependencies_are_not_fetched(
    studied: tuple[History, Studied], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted, and said."""
    monkeypatch.setattr(cycles, "EDGES", 10)
    result = cycles.study(studied[0], 1000)
    assert not result.findings
    assert "dependencies are too many" in result.cut


def test_what_takes_too_long_is_left_out(studied: tuple[History, Studied], monkeypatch: pytest.MonkeyPatch) -> None:
    """And said."""
    monkeypatch.setattr(cycles, "SECONDS", -1.0)
    result = cycles.study(studied[0], 1000)
    assert not result.findings
    assert result.cut.startswith("there was no time to look for all cycles of transactions: G1c wr, G0")


@pytest.mark.parametrize(
    ("anomaly", "tags", "holes", "status"),
    [
        ("G0", (), False, "allowed"),
        ("G0-realtime", (), False, "allowed"),
        ("G1c", ("ww",), False, "allowed"),
        ("G1c", ("wr",), False, "illegal"),
        ("G1c-realtime", ("ww",), False, "allowed"),
        ("G1c-realtime", ("wr",), False, "illegal"),
        ("G-single", (), False, "allowed"),
        ("G2-realtime", (), False, "allowed"),
        ("torn", (), False, "illegal"),
        ("torn", (), True, "unproven"),
        ("wrong-outcome", ("commit",), True, "unproven"),
        ("wrong-outcome", ("abort",), True, "illegal"),
        ("offsets-not-atomic", ("no output",), True, "unproven"),
        ("offsets-not-atomic", ("twice",), True, "illegal"),
        ("precommitted-read", (), True, "illegal"),
        ("zombie-write", (), True, "illegal"),
    ],
)
def test_what_is_allowed(anomaly: str, tags: tuple[str, ...], status: str, *, holes: bool) -> None:
    """Writes are not isolated, and readers may be behind; everything else is a promise."""
    finding = Finding(anomaly, "t", 0, 0, (), (), (), 1, 2, (), tags, "")
    assert judge(finding, CheckResults(has_holes=holes), RunFacts()).status == status
