"""What checkers find in transactions, and what they leave alone: all histories together, their cycles in one graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import pytest

from checkers import cycles, delivery, log_starts, transactions
from checkers.core.families import families_of
from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.cycles import family as cycle_family
from checkers.cycles import steps as cycle_steps
from checkers.shared import epochs
from checkers.shared import settled_values as values
from checkers.transactions import transaction_values
from harness.judging.policies import RunFacts, judge
from tests.support.histories import Case, Rows, op_of, told, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, findings_of

_TIMES = re.compile(r"\[(\d+)\.\.(\d+)\]")
FAMILIES = [
    *epochs.FAMILIES,
    *values.FAMILIES,
    *families_of(delivery),
    *log_starts.FAMILIES,
    *families_of(transactions),
    *families_of(cycles),
]
OF_TRANSACTIONS = {name for family in families_of(transactions) for name in family.anomalies}
NOBODY_SENT = "c9 poll ─ 7@0:z [0..1]"  # a record without a send: all values are judged from scratch


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
                   g1 commit ─ info 0@2 in U name NAME [24..30]
                   c1 poll ─ 1@0:x 1@1:y 1@4:z""",
                ("offsets-not-atomic b,y,z 0@1 twice",),
            ),
            (
                "an output without an offset, and another one made of its input",
                """g1 txn U ─ ok [2..30]
                   p2 send y ─ ok 1@1 source b in U [5..30]
                   p2 send z ─ ok 1@2 source b in T [5..20]""",
                (),
            ),
            (
                "an output with the offset of another partition, and another one made of its input",
                """g1 txn U ─ ok [2..30]
                   p2 send y ─ ok 1@1 source b in U [5..30]
                   g1 commit ─ ok 1@9 in U name NAME [6..30]
                   p2 send z ─ ok 1@2 source b in T [5..20]""",
                (),
            ),
            (
                "an output with an offset before its input, and another one made of it",
                """g1 txn U ─ ok [2..30]
                   p2 send y ─ ok 1@1 source b in U [5..30]
                   g1 commit ─ ok 0@1 in U name NAME [6..30]
                   p2 send z ─ ok 1@2 source b in T [5..20]""",
                (),
            ),
            (
                "an output whose offset was certainly not committed, and another one made of its input",
                """g1 txn U ─ ok [2..30]
                   p2 send y ─ ok 1@1 source b in U [5..30]
                   g1 commit ─ fail 0@2 in U name NAME [6..30]
                   p2 send z ─ ok 1@2 source b in T [5..20]""",
                (),
            ),
            (
                "two outputs of an input that is there twice",
                """p2 send y ─ ok 1@1 source b in T [5..20]
                   p2 send z ─ ok 1@2 source b in T [5..20]
                   g1 commit ─ ok 0@3 in T name NAME [9..20]
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
                "an output was committed without an offset, and the group is before its input",
                """g1 txn U ─ ok [2..20]
                   p2 send y ─ ok 1@1 source b in U [5..20]
                   g1 committed ─ ok 0@1 name NAME [22..25]""",
                (),
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


def _later(seconds: int, times: re.Match[str]) -> str:
    return f"[{int(times[1]) + seconds}..{int(times[2]) + seconds}]"


def _rows(cases: Sequence[Case], *more: str) -> Rows:
    """Each in a topic of its own, and in a time of its own as far as lines have one: real time knows no topics."""
    rows = Rows()
    for topic, text in enumerate([*(case.text for case in cases), *more]):
        write(rows, topic, _TIMES.sub(partial(_later, 1000 * topic), text))
    return rows


def _named(findings: Sequence[Finding], topic: int) -> list[str]:
    return sorted(" ".join([told(each), *each.tags]) for each in findings if each.topic == f"t{topic}")


@pytest.fixture(
    scope="module",
    params=[(size, more) for size in SIZES for more in ((), (NOBODY_SENT,))],
    ids=lambda param: f"{param[0].stretch}{' from scratch' if param[1] else ''}",
)
def batch(request: pytest.FixtureRequest) -> list[Finding]:
    """What there is: at each size, of what is settled and what is loose, or from scratch."""
    size, more = request.param
    rows = _rows(CASES, *more)
    outcomes, failures = check_rows(rows, FAMILIES, size)
    assert not failures
    late = f"t{next(topic for topic, case in enumerate(CASES) if case.name.startswith('a delayed end'))}"
    lost = {"aborted-read", "lost-write"}
    return [
        each
        for each in findings_of(rows, outcomes)
        if each.anomaly in OF_TRANSACTIONS or (each.anomaly in lost and each.topic == late)
    ]


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, batch: list[Finding]) -> None:
    """Planted and near miss: exactly the findings that the case names."""
    assert _named(batch, topic) == sorted(CASES[topic].expected)


@pytest.fixture(scope="module")
def whole() -> dict[str, FamilyResult]:
    """All cases as one piece."""
    outcomes, failures = check_rows(_rows(CASES), FAMILIES)
    assert not failures
    return outcomes


@pytest.mark.parametrize(
    ("case", "anomaly", "facts"),
    [
        ("a part is visible, and the rest", "torn", {"writes": 2, "visible": 1, "missing": 1}),
        ("it was committed, and is aborted", "wrong-outcome", {"writes": 2, "aborted": 1}),
        ("it was aborted, and is visible", "wrong-outcome", {"writes": 2, "visible": 1}),
        ("an input has no output", "offsets-not-atomic", {"committed": 2}),
        ("two outputs of one input", "offsets-not-atomic", {"outputs": 2}),
        ("an output was committed, and the group", "offsets-not-atomic", {"answer": 1}),
    ],
)
def test_what_proves_it(case: str, anomaly: str, facts: dict[str, int], batch: list[Finding]) -> None:
    """As facts."""
    topic = next(number for number, each in enumerate(CASES) if each.name.startswith(case))
    found = [each for each in batch if each.topic == f"t{topic}" and each.anomaly == anomaly]
    assert [each.facts for each in found] == [facts]


def test_when_it_was_fenced(batch: list[Finding]) -> None:
    """And when what came later was sent."""
    (found,) = [each for each in batch if each.anomaly == "zombie-write"]
    assert found.facts == {"fenced_ns": found.time_ns, "written_ns": found.until_ns}
    assert (found.until_ns or 0) - (found.time_ns or 0) == 1_000_000_000


def test_how_much_was_looked_at(whole: dict[str, FamilyResult]) -> None:
    """Transactions that could be torn, ended otherwise, or fenced; inputs; and what was polled in transactions."""
    looked_at = whole["transactions"].looked_at
    ends = [line for case in CASES for line in case.text.splitlines() if " txn " in line]
    assert 0 < looked_at["zombie-write"] < looked_at["torn"] <= looked_at["wrong-outcome"] <= len(ends)
    assert looked_at["offsets-not-atomic"] > 0
    assert whole["own writes"].looked_at == {"precommitted-read": 2 * 14 + 2}
    assert not whole["transactions"].cut


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.stretch))
def test_of_too_many_inputs_some_are_looked_at(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    """Always the same ones, with all their outputs; and that is said."""
    rows = _rows(CASES)
    sends = sum(event["f"] == 1 for events in rows.events.values() for event in events if "f" in event)
    monkeypatch.setattr(transaction_values, "SENDS", sends // 3)
    outcome = check_rows(rows, FAMILIES, size)[0]["transactions"]
    monkeypatch.undo()
    expected = check_rows(rows, FAMILIES)[0]["transactions"]
    assert outcome.cut.startswith("the outputs of one in ")
    assert 0 < outcome.looked_at["offsets-not-atomic"] < expected.looked_at["offsets-not-atomic"]
    some, every = ({str(row) for kept in each.findings.rows.values() for row in kept} for each in (outcome, expected))
    assert some < every


def test_without_transactions_there_is_nothing_to_look_at() -> None:
    """Nor where nobody wrote in them."""
    outcomes, failures = check_rows(_rows([Case("", "p1 txn T ─ ok [0..20]")]), FAMILIES)
    assert not failures
    assert not outcomes["transactions"].findings.counts
    assert set(outcomes["transactions"].looked_at.values()) == {0}
    assert set(outcomes["cycles"].looked_at.values()) == {1}


@pytest.fixture(
    scope="module",
    params=[(size, more) for size in SIZES for more in ((), (NOBODY_SENT,))],
    ids=lambda param: f"{param[0].stretch}{' from scratch' if param[1] else ''}",
)
def studied(request: pytest.FixtureRequest) -> tuple[list[Finding], FamilyResult]:
    """Every cycle in a topic of its own, all of them in one graph."""
    size, more = request.param
    rows = _rows(CYCLES, *more)
    outcomes, failures = check_rows(rows, [*values.FAMILIES, *cycle_family.FAMILIES], size)
    assert not failures
    return findings_of(rows, outcomes), outcomes["cycles"]


@pytest.mark.parametrize("topic", range(len(CYCLES)), ids=[case.name for case in CYCLES])
def test_it_finds_cycles(topic: int, studied: tuple[list[Finding], FamilyResult]) -> None:
    """Of the class that is meant, and no other."""
    found = [" ".join([each.anomaly, *each.tags]) for each in studied[0] if each.topic == f"t{topic}"]
    assert sorted(found) == sorted(CYCLES[topic].expected)


def test_a_cycle_is_told_edge_by_edge(studied: tuple[list[Finding], FamilyResult]) -> None:
    """With numbers for its transactions, and where."""
    names = {f"t{number}": case.name for number, case in enumerate(CYCLES)}
    findings = {names[str(each.topic)]: each for each in studied[0]}
    one = findings["two read each other's writes"]
    assert one.facts == {
        "kinds": ["wr", "wr"], "sources": [1, 2], "destinations": [2, 1], "topics": ["t7", "t7"],
        "partitions": [0, 1], "offsets": [0, 0],
        "operations": [op_of(7, "T"), op_of(7, "U")],
    }  # fmt: skip
    late = findings["it read what was written after it had ended"].facts
    assert {name: late[name] for name in ("kinds", "sources", "destinations", "topics", "partitions", "offsets")} == {
        "kinds": ["wr", "realtime"], "sources": [1, 2], "destinations": [2, 1], "topics": ["t13", None],
        "partitions": [0, None], "offsets": [0, None],
    }  # fmt: skip


def test_how_many_depend_on_each_other(studied: tuple[list[Finding], FamilyResult]) -> None:
    """The summary says so, by kind."""
    findings, outcome = studied
    assert not outcome.cut
    assert sum(outcome.findings.counts.values()) == len(findings)
    assert set(outcome.looked_at.values()) == {outcome.summary["transactions"]}
    assert outcome.summary["dependencies"] == {"ww": 12, "wr": 9, "rw": 4}


def test_more_components_are_counted_than_told() -> None:
    """Of each class as many as findings are kept of it."""
    cycle = CYCLES[0].text
    outcome = check_rows(_rows([Case("", cycle)] * 3), [*values.FAMILIES, *cycle_family.FAMILIES], limit=2)[0]["cycles"]
    assert outcome.findings.count("G0") == 3
    assert [len(kept) for kept in outcome.findings.rows.values()] == [2]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.stretch))
def test_too_many_dependencies_are_not_put_together(size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted, and said; pieces that have far more than their share keep theirs."""
    monkeypatch.setattr(cycle_steps, "STEPS", 10)
    for of_a_piece in (1000, 0):
        monkeypatch.setattr(cycle_steps, "STEPS_OF_A_PIECE", of_a_piece)
        outcome = check_rows(_rows(CYCLES), [*values.FAMILIES, *cycle_family.FAMILIES], size)[0]["cycles"]
        assert not outcome.findings.counts
        assert re.fullmatch(r"cycles of transactions were not looked for: \d+ dependencies are too many", outcome.cut)


def test_what_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And said."""
    monkeypatch.setattr(cycle_family, "SECONDS", -1.0)
    outcome = check_rows(_rows(CYCLES), [*values.FAMILIES, *cycle_family.FAMILIES], WHOLE)[0]["cycles"]
    assert not outcome.findings.counts
    assert outcome.cut.startswith("there was no time to look for all cycles of transactions: G1c wr, G0")


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
