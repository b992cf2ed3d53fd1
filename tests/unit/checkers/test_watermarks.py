"""Watermarks: what is found in histories of a few answers and acknowledgements, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checkers.core.arrays import NONE, Ints
from checkers.core.families import FAMILIES
from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.run import RunContext
from checkers.core.timeline import Fault, Timeline
from checkers.core.timeline import Fault as Injected
from checkers.shared.epochs import FAMILIES as EPOCHS
from checkers.summaries.coverage import Coverage, FaultCoverage
from checkers.watermarks.earlier_answers import EarlierAnswers, numbered
from checkers.watermarks.fallen_marks import in_faults
from checkers.watermarks.family import FAMILIES as WATERMARKS
from harness.history.schema import FaultStage, Kind, OffsetView
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Case, Rows, op_of, told, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, findings_of

OF_ACKNOWLEDGEMENTS = ("watermark-behind-ack", "watermark-frozen", "watermark-ahead")
OF_MARKS = tuple(name for family in WATERMARKS for name in family.anomalies)
CHOSEN = [
    *EPOCHS,
    *(family for family in FAMILIES if {*family.anomalies} & {*OF_ACKNOWLEDGEMENTS, *OF_MARKS}),
]


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
           n1 metadata ─ epoch 1 [10..11]
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
           n2 metadata ─ epoch 2 [13..14]
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
        ("watermark-behind-ack a 0@4 older epoch",),
    ),
    Case(
        "a new leader that does not know the watermark yet has not let it stand",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [2..3]
           n1 fetch ─ @5 epoch 1 [3..4]
           n2 metadata ─ epoch 2 [9..10]
           n2 fetch ─ @4 epoch 2 [10..11]""",
        (
            "watermark-behind-ack a 0@4 epoch rose",
            "watermark-regression 0@4 epoch rose across nodes",
        ),
    ),
    Case(
        "one that had stood before a new leader showed it was frozen",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 epoch 1 [1..2]
           p1 send a ─ ok @4 [2..3]
           n1 fetch ─ @4 epoch 1 [9..10]
           n3 metadata ─ epoch 1 [12..13]
           n2 metadata ─ epoch 2 [12..14]
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
        "a leader that was there before Metadata showed it is not held to what its predecessor showed",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 [4..5]
           n2 fetch ─ @7 [9..10]
           n2 metadata ─ epoch 2 [29..30]""",
        ("watermark-regression 0@7 epoch rose across nodes",),
    ),
    Case(
        "nor if it is the same node, as long as nobody was asked who leads",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 [4..5]
           n1 fetch ─ @7 [9..10]
           n1 metadata ─ epoch 3 [29..30]""",
        ("watermark-regression 0@7 epoch rose same node",),
    ),
    Case(
        "it is, if the old epoch was shown after both",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @9 [4..5]
           n1 fetch ─ @7 [9..10]
           n1 metadata ─ epoch 1 [13..14]
           n1 metadata ─ epoch 3 [29..30]""",
        ("watermark-regression 0@7 one epoch same node",),
    ),
    Case(
        "before anybody said which epoch there was, it may have been another",
        """n1 fetch ─ @9 [1..2]
           n1 fetch ─ @7 [3..4]
           n1 metadata ─ epoch 5 [20..21]""",
        ("watermark-regression 0@7 epoch rose same node",),
    ),
    Case(
        "the first epoch of all was there from the beginning",
        """n1 fetch ─ @9 [1..2]
           n1 fetch ─ @7 [3..4]
           n1 metadata ─ epoch 0 [20..21]""",
        ("watermark-regression 0@7 one epoch same node",),
    ),
    Case(
        "what a deposed leader shows, which does not say its epoch, is not held against its successor",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [1..2]
           n1 fetch ─ @9 [10..11]
           n2 fetch ─ @7 [12..13]""",
        ("watermark-regression 0@7 epoch rose across nodes",),
    ),
    Case(
        "but what it showed itself is",
        """n1 metadata ─ epoch 1 [0..1]
           n2 metadata ─ epoch 2 [1..2]
           n1 fetch ─ @9 [10..11]
           n2 fetch ─ @8 [10..11]
           n2 fetch ─ @7 [12..13]""",
        ("watermark-regression 0@7 one epoch same node",),
    ),
    Case(
        "an acknowledgement is not held against whoever may not have known of a new leader for long",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [10..11]
           n1 fetch ─ @4 epoch 1 [12..13]
           n2 metadata ─ epoch 2 [29..30]""",
        ("watermark-behind-ack a 0@4 older epoch",),
    ),
    Case(
        "nor a standstill against a leader of which nobody knew for long",
        """n1 metadata ─ epoch 1 [0..1]
           n1 fetch ─ @4 [5..6]
           p1 send a ─ ok @4 [7..8]
           n1 fetch ─ @4 [14..15]
           n2 metadata ─ epoch 2 [29..30]""",
        ("watermark-behind-ack a 0@4 older epoch",),
    ),
    Case(
        "an epoch that Metadata never showed is that of a new leader",
        """n1 metadata ─ epoch 1 [0..1]
           p1 send a ─ ok @4 [10..11]
           n2 fetch ─ @4 epoch 2 [12..13]""",
        ("watermark-behind-ack a 0@4 epoch rose",),
    ),
    Case(
        "without epochs the leader that Metadata names may change",
        """n1 metadata ─ leader 1 [0..1]
           n1 fetch ─ @9 [5..6]
           n2 metadata ─ leader 2 [7..8]
           n1 metadata ─ leader 1 [9..10]
           n1 fetch ─ @7 [20..21]""",
        ("watermark-regression 0@7 epoch rose same node",),
    ),
    Case(
        "or not, as far as anybody saw",
        """n1 metadata ─ leader 1 [0..1]
           n1 fetch ─ @9 [5..6]
           n1 metadata ─ leader 1 [9..10]
           n1 fetch ─ @7 [20..21]""",
        ("watermark-regression 0@7 epoch unknown same node",),
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


Outcomes = dict[str, FamilyResult]


def _rows(*texts: str) -> Rows:
    """Each in a topic of its own."""
    rows = Rows()
    for topic, text in enumerate(texts):
        write(rows, topic, text)
    return rows


def _checked(rows: Rows, size: Size = WHOLE, **more: Any) -> tuple[list[Finding], Outcomes]:
    """What is found of marks; what linearizability says of the same has tests of its own."""
    outcomes, failures = check_rows(rows, CHOSEN, size, **more)
    assert not failures
    wanted = {*OF_ACKNOWLEDGEMENTS, *OF_MARKS}
    return [finding for finding in findings_of(rows, outcomes) if finding.anomaly in wanted], outcomes


def _of_marks(rows: Rows, **more: Any) -> list[Finding]:
    """What the families of watermarks alone find."""
    outcomes, failures = check_rows(rows, [*EPOCHS, *WATERMARKS], **more)
    assert not failures
    return findings_of(rows, outcomes)


@pytest.fixture(scope="module")
def batch() -> tuple[list[Finding], Outcomes]:
    """All cases in one history, each in a topic of its own."""
    return _checked(_rows(*(case.text for case in CASES)))


@pytest.mark.parametrize("topic", range(len(CASES)), ids=NAMES)
def test_findings(batch: tuple[list[Finding], Outcomes], topic: int) -> None:
    """Exactly what is expected."""
    found = sorted(" ".join([told(each), *each.tags]) for each in batch[0] if each.topic == f"t{topic}")
    assert found == sorted(CASES[topic].expected)


def test_counts_are_those_of_the_findings(batch: tuple[list[Finding], Outcomes]) -> None:
    """Of everything that these cases have."""
    findings, outcomes = batch
    without = {"end-offset-regression"}
    for name in {*OF_ACKNOWLEDGEMENTS, *OF_MARKS} - without:
        found = sum(each.anomaly == name for each in findings)
        assert found == sum(outcome.findings.count(name) for outcome in outcomes.values()) > 0, name
        assert found <= max(outcome.looked_at.get(name, 0) for outcome in outcomes.values()), name


@pytest.mark.parametrize("size", SIZES[1:])
def test_stretches_and_many_tasks_find_the_same(batch: tuple[list[Finding], Outcomes], size: Size) -> None:
    """A large history is cut into stretches of offsets, here of a few each."""
    findings, outcomes = _checked(_rows(*(case.text for case in CASES)), size)
    assert sorted(findings, key=repr) == sorted(batch[0], key=repr)
    for family in WATERMARKS:
        assert outcomes[family.name].looked_at == batch[1][family.name].looked_at


STANDS = NAMES.index("at the watermark, for less than that, or on another node it is not")


@pytest.mark.parametrize(("limit_s", "faults", "found"), [(29, (), 1), (30, (), 0), (25, (5, 7), 1), (26, (5, 7), 0)])
def test_the_limit_of_a_stuck_offset_is_the_scenarios(limit_s: float, faults: tuple[int, ...], found: int) -> None:
    """In seconds, and those do not count in which a fault lasted."""
    rows = _rows(f"p1 txn T ─ ok [0..1]\n{CASES[STANDS].text}")
    for number, begun in enumerate(faults):
        for stage, at in ((FaultStage.INJECTED, begun), (FaultStage.UNDONE, 9)):
            rows.add(Kind.FAULT, "x1", fault=number, stage=stage, name="x", time=at * SECOND_NS)
    assert len(_of_marks(rows, limits={"lso_stuck_s": limit_s})) == found


@pytest.mark.parametrize(("healed", "found"), [(9, 1), (10, 0)])
def test_a_fault_counts_until_the_cluster_was_whole_again(healed: int, found: int) -> None:
    """Its undoing alone ends no transaction that waits for a coordinator."""
    rows = _rows(f"p1 txn T ─ ok [0..1]\n{CASES[STANDS].text}")
    for stage, at in ((FaultStage.INJECTED, 5), (FaultStage.UNDONE, 6), (FaultStage.HEALED, healed)):
        rows.add(Kind.FAULT, "x1", fault=0, stage=stage, name="x", time=at * SECOND_NS)
    assert len(_of_marks(rows, limits={"lso_stuck_s": 25})) == found


@pytest.mark.parametrize(
    ("text", "injected", "change"),
    [
        ("t1 fetch ─ @9 version 12 epoch 1 [1..2]\nt1 fetch ─ @7 version 12 epoch 1 [30..31]", 5, "restarted"),
        ("t1 fetch ─ @9 version 12 epoch 1 [1..2]\nt1 fetch ─ @7 version 12 epoch 1 [30..31]", 40, "one epoch"),
        ("t2 fetch ─ @9 version 12 epoch 1 [1..2]\nt2 fetch ─ @7 version 12 epoch 1 [30..31]", 5, "one epoch"),
        ("t1 fetch ─ @9 version 10 epoch 1 [1..2]\nt1 fetch ─ @7 version 10 epoch 1 [30..31]", 5, "one epoch"),
        ("t1 list ─ @9 epoch 1 [1..2]\nt1 list ─ @7 epoch 1 [30..31]", 5, "one epoch"),
    ],
    ids=["a follower", "that was not restarted", "the leader", "who must be the leader", "who told its end"],
)
def test_a_follower_that_restarts_knows_an_older_watermark(text: str, injected: int, change: str) -> None:
    """Until it hears from its leader; a leader that restarts leads another epoch."""
    rows = _rows(f"n2 metadata ─ leader 2 epoch 1 [0..1]\n{text}")
    for stage, at in ((FaultStage.INJECTED, injected), (FaultStage.UNDONE, injected + 3)):
        rows.add(Kind.FAULT, "x1", fault=0, stage=stage, name="kill", time=at * SECOND_NS)
    (finding,) = _of_marks(rows)
    assert finding.tags == (change, "same node")


def test_nothing_is_stuck_where_there_are_no_transactions() -> None:
    """Whatever it looks like."""
    assert not _of_marks(_rows(CASES[STANDS].text), limits={"lso_stuck_s": 1})


def test_what_stands_says_for_how_long_and_below_what() -> None:
    """From the end of the first answer to the invocation of the last one."""
    (finding,) = _of_marks(
        _rows("""p1 txn T ─ ok [0..1]
                 n1 fetch ─ @9 last_stable_offset 5 epoch 1 [1..3]
                 n1 fetch ─ @12 last_stable_offset 5 epoch 1 [2..90]
                 n1 fetch ─ @10 last_stable_offset 5 epoch 1 [40..41]""")
    )
    assert finding.facts == {"node": 1, "stable": 5, "highest": 12, "lasted_ns": 37 * SECOND_NS}
    assert (finding.nodes, finding.processes, finding.time_ns) == ((1,), (), 3 * SECOND_NS)
    assert finding.until_ns == 90 * SECOND_NS
    assert [event & 0xFF for event in finding.events] == [0, 2]


def test_a_fall_says_who_had_shown_more_and_who_fell_farthest() -> None:
    """Answers of one node and set of tags are one finding."""
    (finding,) = _of_marks(
        _rows("""n1 metadata ─ epoch 3 [0..1]
                 n2 fetch ─ @20 epoch 3 [2..3]
                 n2 fetch ─ @20 epoch 3 [3..4]
                 n1 fetch ─ @18 epoch 3 [5..6]
                 n1 fetch ─ @11 epoch 3 [7..8]
                 n1 fetch ─ @15 epoch 3 [9..10]""")
    )
    assert finding.facts == {
        "shown_before": 20, "before_node": 2, "before_ns": 4 * SECOND_NS, "before_epoch": 3,
        "shown": 11, "node": 1, "at_ns": 8 * SECOND_NS, "epoch": 3, "answers": 3,
    }  # fmt: skip
    assert finding.tags == ("one epoch", "across nodes")
    assert (finding.offset, finding.nodes, finding.time_ns, finding.until_ns) == (11, (2, 1), 6 * SECOND_NS, None)
    assert (len(finding.events), finding.processes, finding.values) == (2, (), ())


@pytest.mark.parametrize(
    ("text", "node", "change"),
    [
        ("n1 fetch ─ @9 epoch 1 [1..2]\nn3 fetch ─ @9 epoch 1 [1..2]\nn2 fetch ─ @9 epoch 1 [1..2]", 3, "one epoch"),
        ("n3 fetch ─ @9 epoch 1 [1..2]\nn1 fetch ─ @9 epoch 1 [1..3]", 1, "one epoch"),
        ("n3 fetch ─ @9 epoch 1 [1..2]\nn1 fetch ─ @10 epoch 2 [1..3]", 3, "one epoch"),
        ("n3 fetch ─ @5 epoch 1 [1..2]\nn1 fetch ─ @10 epoch 2 [1..3]", 1, "older epoch"),
        ("n3 fetch ─ @11 epoch 0 [1..2]\nn1 fetch ─ @10 epoch 2 [1..3]", 3, "epoch rose"),
        ("n3 fetch ─ @9 [1..2]", 3, "epoch rose"),
    ],
    ids=["highest node", "ended last", "same era first", "only others", "shown most", "nobody knows its epoch"],
)
def test_of_several_that_had_shown_more_one_is_told(text: str, node: int, change: str) -> None:
    """Of the same era, if there are any; the one that had shown most, then the last, then of the highest node."""
    (finding,) = [each for each in _of_marks(_rows(f"{text}\nn4 fetch ─ @5 epoch 1 [7..8]")) if each.nodes[-1] == 4]
    assert (finding.facts["before_node"], finding.tags[0]) == (node, change)


def test_epochs_that_answers_do_not_tell_are_those_that_metadata_showed() -> None:
    """As evidence; an answer that contradicts itself needs none."""
    findings = _of_marks(
        _rows("""n1 metadata ─ epoch 3 [0..1]
                 n1 fetch ─ @9 last_stable_offset 7 [2..3]
                 n1 metadata ─ epoch 5 [10..11]
                 n1 fetch ─ @8 last_stable_offset 12 [20..21]
                 n1 fetch ─ @8 last_stable_offset 12 [22..23]""")
    )
    of = {(each.anomaly, each.tags[0]): each.facts for each in findings}
    fell, itself = of["watermark-regression", "epoch rose"], of["lso-above-hw", "one answer"]
    assert (fell["before_epoch"], fell["epoch"], fell["answers"]) == (3, 5, 2)
    assert {"before_epoch", "epoch"}.isdisjoint(itself)
    assert (itself["shown_before"], itself["shown"], itself["answers"]) == (12, 8, 2)
    assert itself["before_ns"] == itself["at_ns"] == 23 * SECOND_NS


def test_the_batches_of_a_fetch_are_one_answer() -> None:
    """Each has a row of its own."""
    rows = _rows("t1 fetch ─ @9 epoch 1 [1..2]")
    for batch in range(3):
        rows.add(
            Kind.EXCHANGE, "t1", type=1, api=1, api_version=12, error=0, topic=0, partition=0, node=1, op=op_of(0, "F"),
            high_watermark=4, leader_epoch=1, offset=batch, invoked=3 * SECOND_NS, time=4 * SECOND_NS,
        )  # fmt: skip
    (finding,) = _of_marks(rows)
    assert finding.facts["answers"] == 1


def test_answers_of_which_nobody_knows_the_node_are_compared_with_each_other() -> None:
    """And nobody says that it was the same one. To Fetch they may be of followers, and are compared with nothing."""
    rows = _rows("t1 list ─ @9 epoch 1 [5..6]")
    for at, mark in ((1, 20), (8, 7), (10, 5)):
        common = {
            "type": 1, "error": 0, "topic": 0, "partition": 0, "node": None, "leader_epoch": 1,
            "invoked": at * SECOND_NS, "time": (at + 1) * SECOND_NS,
        }  # fmt: skip
        rows.add(Kind.EXCHANGE, "t1", api=2, api_version=7, view=OffsetView.LATEST, offset=mark, **common)
        rows.add(Kind.EXCHANGE, "t1", api=1, api_version=12, high_watermark=mark, **common)
    (finding,) = _of_marks(rows)
    assert finding.tags == ("one epoch", "across nodes")
    assert finding.nodes == ()
    assert {"node", "before_node"}.isdisjoint(finding.facts)
    assert (finding.facts["shown_before"], finding.facts["shown"], finding.facts["answers"]) == (20, 5, 2)


def test_what_was_looked_at_is_what_could_be_held_against_something() -> None:
    """By anomaly; the first answer of all cannot."""
    rows = _rows("""n1 fetch ─ @9 from 3 last_stable_offset 8 epoch 1 [1..2]
                    n1 fetch ─ @9 from 3 last_stable_offset 8 epoch 1 [3..4]
                    n1 list ─ @9 epoch 1 [5..6]
                    n1 list ─ @9 epoch 1 [7..8]
                    n1 list ─ @9 view 3 epoch 1 [9..10]""")
    outcomes, failures = check_rows(rows, [*EPOCHS, *WATERMARKS])
    assert not failures
    assert outcomes["watermarks"].looked_at == {
        "watermark-regression": 1,
        "end-offset-regression": 2,  # the last one asked for something else, and ended after an end was shown
        "lso-regression": 1,
        "log-start-regression": 1,
        "lso-above-hw": 2,  # of the ends none had a last stable offset before it
    }


def test_what_nobody_wants_is_not_looked_for() -> None:
    """The others are."""
    rows = _rows("n1 fetch ─ @9 from 3 [1..2]\nn1 fetch ─ @8 from 2 [3..4]")
    outcomes, _ = check_rows(rows, [*EPOCHS, *WATERMARKS], unasked=frozenset({*OF_MARKS} - {"log-start-regression"}))
    assert [each.anomaly for each in findings_of(rows, outcomes)] == ["log-start-regression"]
    assert {name for name, count in outcomes["watermarks"].looked_at.items() if count} == {"log-start-regression"}
    outcomes, _ = check_rows(rows, [*EPOCHS, *WATERMARKS], unasked=frozenset(OF_MARKS))
    assert not findings_of(rows, outcomes)


def test_all_are_counted_and_the_first_and_the_widest_are_kept() -> None:
    """Partitions that fall by one each, and the last by more than that."""
    rows = Rows()
    for topic in range(40):
        write(
            rows, topic, f"n1 fetch ─ @90 [{topic}..{topic + 1}]\nn1 fetch ─ @{89 - topic} [{topic + 2}..{topic + 3}]"
        )
    outcomes, failures = check_rows(rows, [*EPOCHS, *WATERMARKS], limit=20)
    assert not failures
    assert outcomes["watermarks"].findings.count("watermark-regression") == 40
    kept = {int((each.topic or "t")[1:]) for each in findings_of(rows, outcomes)}
    assert kept == {*range(15), *range(35, 40)}


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([], [0, 0, 0, 0]),
        ([(10, 20)], [0, 0, 5, 10]),
        ([(10, 20), (10, 12), (11, 13)], [0, 0, 5, 10]),
        ([(10, 13), (13, 16)], [0, 0, 5, 6]),
        ([(30, 40), (14, 16), (2, 4)], [0, 2, 3, 14]),
        ([(10, 10), (15, 15)], [0, 0, 0, 0]),
    ],
)
def test_what_faults_take_of_a_time(windows: list[tuple[int, int]], expected: list[int]) -> None:
    """Windows may overlap, touch, lie in each other, or take no time."""
    faults = [Injected(number, "x", begun, undone) for number, (begun, undone) in enumerate(windows)]
    run = RunContext(line=Timeline((0, 100), faults=[*faults, Injected(99, "never")]))
    assert in_faults(np.array([0, 10, 15, 50]), run).tolist() == expected


HUGE = 1 << 61


@pytest.mark.parametrize(
    "columns",
    [
        ([0, 1, 0, 1], [5, 5, 5, 5]),
        ([NONE, 7, NONE, HUGE], [-HUGE, 1, -HUGE, 1]),
        ([0, 1, 2, 1 << 30], [0, 1 << 30, 2, 5], [3, NONE, 3, HUGE]),
    ],
)
def test_rows_are_numbered_by_what_they_have_in_common(columns: tuple[list[int], ...]) -> None:
    """However far apart the numbers in their columns are."""
    number = numbered(*(np.array(column, np.int64) for column in columns)).tolist()
    pairs = list(zip(zip(*columns, strict=True), number, strict=True))
    assert len(set(pairs)) == len({row for row, _ in pairs}) == len(set(number))
    assert min(number) >= 0
    assert max(number) <= 2 * len(number)


@pytest.mark.parametrize("shift", [1, HUGE // 10], ids=["near", "far apart"])
def test_only_what_had_ended_counts(shift: int) -> None:
    """Also where moments are too far apart to be numbers of lanes as well."""
    lane, when, ended, mark = ([0, 0, 0, 5, 5, 0], [0, 2, 3, 3, 9, 9], [2, 2, 3, 4, 9, 9], [7, 9, 8, 20, NONE, 1])
    before = EarlierAnswers(_ints(lane), _ints(when) * shift, _ints(ended) * shift, _ints([0, 1, 2, 3, 4, 5]))
    assert before.highest(_ints(mark)).tolist() == [NONE, NONE, 9, NONE, 20, 9]
    assert before.who(_ints(mark)).tolist() == [-1, -1, 1, -1, 3, 1]


def _ints(values: list[int]) -> Ints:
    return np.array(values, np.int64)


KILL = {"faults": (PlannedFault("leader-kill", changes_leaders=True),)}


@pytest.mark.parametrize(
    ("anomaly", "tags", "facts", "status"),
    [
        ("watermark-behind-ack", "one epoch", {}, "illegal"),
        ("watermark-behind-ack", "one epoch", {"acks": "1"}, "allowed"),
        ("watermark-behind-ack", "one epoch", KILL, "illegal"),
        ("watermark-behind-ack", "one epoch", {"known": False}, "unproven"),
        ("watermark-behind-ack", "epoch rose", {}, "allowed"),
        ("watermark-behind-ack", "older epoch", {}, "unproven"),
        ("watermark-behind-ack", "older epoch", KILL, "allowed"),
        ("watermark-behind-ack", "epoch unknown", {}, "illegal"),
        ("watermark-behind-ack", "epoch unknown", KILL, "allowed"),
        ("watermark-frozen", "one epoch", {"acks": "1"}, "illegal"),
        ("watermark-frozen", "one epoch", {"acks": "1", **KILL}, "allowed"),
        ("watermark-frozen", "one epoch", KILL, "illegal"),
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
        ("lso-stuck", "older epoch", {}, "unproven"),
        ("watermark-regression", "one epoch,same node", KILL, "illegal"),
        ("watermark-regression", "epoch unknown,same node", {}, "illegal"),
        ("watermark-regression", "epoch unknown,same node", KILL, "unproven"),
        ("end-offset-regression", "epoch unknown,same node", KILL, "unproven"),
        ("end-offset-regression", "epoch unknown,across nodes", KILL, "unproven"),
        ("watermark-regression", "epoch unknown,across nodes", KILL, "allowed"),
        ("watermark-regression", "epoch unknown,across nodes", {}, "unproven"),
        ("end-offset-regression", "epoch unknown,across nodes", {}, "unproven"),
        ("watermark-regression", "older epoch,across nodes", {}, "unproven"),
        ("watermark-regression", "older epoch,same node", {}, "illegal"),
        ("watermark-regression", "restarted,same node", KILL, "allowed"),
        ("watermark-regression", "restarted,same node", {}, "illegal"),
    ],
)
def test_policy(anomaly: str, tags: str, facts: dict[str, Any], status: str) -> None:
    """What correct Kafka may show is allowed, and nothing else."""
    fault = FaultCoverage(Fault(1, "leader-kill", injected_ns=5, undone_ns=50), None, None, None)
    results = CheckResults(coverage=Coverage(faults=[fault] if "faults" in facts else []))
    finding = Finding(anomaly, "t", 0, 4, (), (), (), 10, 100, (), tuple(tags.split(",")) if tags else (), "")
    assert judge(finding, results, RunFacts(**facts)).status == status
