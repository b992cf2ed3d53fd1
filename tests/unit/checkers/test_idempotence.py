"""What the checkers of retries and idempotence find and leave alone."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkers.core.arrays import NONE
from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.idempotence import FAMILIES, highest_over
from checkers.summaries.coverage import FaultCoverage
from harness.history.schema import ID_BITS
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Case, Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, findings_of

N = "producer_id 7 producer_epoch 0"
WIDE = "producer_id 4611686018427387904 producer_epoch 30000"


# expected: anomaly, tags, offset
CASES = [
    Case(
        "a resend that was appended again, as acknowledgements say",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N}
            t1 produce ─ @8 op 2 sequence 0 crc 9 {N}""",
        ("retry-duplicate acknowledged twice 5", "retry-offset-changed  5"),
    ),
    Case(
        "a resend that was appended again, as readers say",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N} lost
            t1 produce ─ @5 op 2 sequence 0 crc 9 {N}
            t1 fetch ─ @99 op 3 offset 5 sequence 0 {N}
            t2 fetch ─ @99 op 4 offset 8 sequence 0 {N}""",
        ("retry-duplicate read twice 5",),
    ),
    Case(
        "a resend that was recognised, and one that was refused",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N}
            t1 produce ─ @5 op 2 sequence 0 crc 9 {N}
            t1 produce ─ @8 op 3 sequence 0 crc 9 error 46 {N}
            t1 fetch ─ @99 op 4 offset 5 sequence 0 {N}
            t1 fetch ─ @99 op 5 offset 5 sequence 0 {N}""",
    ),
    Case(
        "another producer, epoch or partition, no number, a wrong acknowledgement: no batch twice",
        """t1 produce ─ @5 op 1 sequence 0 crc 9 producer_id 7 producer_epoch 0
           t1 produce ─ @6 op 2 sequence 0 crc 9 producer_id 8 producer_epoch 0
           t1 produce ─ @7 op 3 sequence 0 crc 9 producer_id 7 producer_epoch 1
           t1 produce ─ 1@8 op 4 sequence 0 crc 9 producer_id 7 producer_epoch 0
           t1 produce ─ @9 op 5 crc 9
           t1 produce ─ @10 op 6 crc 9
           t1 fetch ─ @99 op 7 offset 3 sequence 0 producer_id 7 producer_epoch 0""",
    ),
    Case(
        "other contents under one number are no resend with another offset",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N}
            t1 produce ─ @8 op 2 sequence 0 crc 10 {N}""",
        ("retry-duplicate acknowledged twice 5",),
    ),
    Case(
        "nor is one whose contents nobody knows",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N}
            t1 produce ─ @8 op 2 sequence 0 {N}""",
        ("retry-duplicate acknowledged twice 5",),
    ),
    Case(
        "a batch that overtook the one before it",
        f"""t1 produce ─ @5 op 1 sequence 10 crc 9 {N}
            t1 produce ─ @8 op 2 sequence 0 crc 8 {N}
            t1 produce ─ @11 op 3 sequence 20 crc 7 {N}""",
        ("retry-reorder acknowledged 5",),
    ),
    Case(
        "where it is in the log counts, not where it is said to be",
        f"""t1 produce ─ @5 op 1 sequence 10 crc 9 {N}
            t1 produce ─ @8 op 2 sequence 0 crc 8 {N}
            t1 fetch ─ @99 op 3 offset 20 sequence 10 {N}""",
    ),
    Case(
        "as readers say",
        f"""t1 fetch ─ @99 op 3 offset 20 sequence 10 {N}
            t1 fetch ─ @99 op 3 offset 21 sequence 0 {N}""",
        ("retry-reorder read 20",),
    ),
    Case(
        "a copy further on is a duplicate, and out of no order",
        f"""t1 fetch ─ @99 op 3 offset 20 sequence 0 {N}
            t1 fetch ─ @99 op 3 offset 25 sequence 10 {N}
            t1 fetch ─ @99 op 3 offset 30 sequence 0 {N}""",
        ("retry-duplicate read twice 20",),
    ),
    Case(
        "sequences begin again",
        f"""t1 fetch ─ @99 op 3 offset 20 sequence 2147483640 {N}
            t1 fetch ─ @99 op 3 offset 30 sequence 0 {N}""",
    ),
    Case(
        "sequences far apart, in two chunks",
        f"""t1 fetch ─ @99 op 3 offset 20 sequence 3000000 {N}
            t1 fetch ─ @99 op 3 offset 30 sequence 0 {N}""",
        ("retry-reorder read 20",),
    ),
    Case(
        "numbers that are too wide to be compared side by side",
        f"""t1 fetch ─ @99 op 3 offset 30 sequence 1152921504606846976 {WIDE}
            t1 fetch ─ @99 op 3 offset 20 sequence 1152921504606846977 {WIDE}
            t1 fetch ─ @99 op 3 offset 40 sequence 1152921504606846977 {WIDE}
            t1 fetch ─ @99 op 3 offset 10 sequence 0 {N}""",
        ("retry-duplicate read twice 20", "retry-reorder read 20"),
    ),
    Case(
        "what may be of two lives is told apart",
        f"""t1 produce ─ @5 op 1 sequence 0 crc 9 {N}
            k1 delete ─ ok
            t1 produce ─ @2 op 2 sequence 0 crc 9 {N} [11..12]
            t1 produce ─ @3 op 3 sequence 0 crc 9 {N} [13..14]
            k1 create ─ ok
            t1 produce ─ @0 op 4 sequence 0 crc 9 {N} [60..61]""",
        ("retry-duplicate acknowledged twice,deleted topic 2", "retry-offset-changed deleted topic 2"),
    ),
    Case(
        "a watermark that fell after a resend",
        """n1 fetch ─ @9 [8..9]
           t1 produce ─ @5 op 1 crc 9 client x [1..3]
           t1 produce ─ @5 op 2 crc 9 client x [10..11]
           n1 fetch ─ @7 [12..13]
           n1 list ─ @7 [12..13]""",
        ("retry-watermark-regression watermark 7",),
    ),
    Case(
        "an end that fell after a resend",
        f"""n1 list ─ @9 [8..9]
            t1 produce ─ @5 op 1 crc 9 sequence 3 {N} [1..3]
            t1 produce ─ @5 op 2 crc 8 sequence 3 {N} [10..11]
            t1 list ─ @8 [12..13]
            n1 list ─ @7 [12..13]""",
        ("retry-watermark-regression end offset 7",),
    ),
    Case(
        "the highest of all marks before, and the lowest of all after, of each resend by itself",
        """n1 fetch ─ @9 [8..9]
           n1 fetch ─ @8 [8..9]
           n1 fetch ─ @5 [9..9]
           t1 produce ─ @5 op 1 crc 9 client x [1..3]
           t1 produce ─ @5 op 2 crc 9 client x [10..11]
           t1 produce ─ @6 op 3 crc 8 client x [1..3]
           t1 produce ─ @6 op 4 crc 8 client x [11..11]
           n1 fetch ─ @8 [12..12]
           n1 fetch ─ @7 [12..13]
           n1 fetch ─ @10 [13..13]""",
        ("retry-watermark-regression watermark 7", "retry-watermark-regression watermark 7"),
    ),
    Case(
        "a watermark that fell because the topic was deleted after the resend",
        """n1 fetch ─ @9 [8..9]
           t1 produce ─ @5 op 1 crc 9 client x [1..3]
           t1 produce ─ @5 op 2 crc 9 client x [10..11]
           k1 delete ─ ok [12..12]
           n1 fetch ─ @0 [13..13]
           k1 create ─ ok [14..15]""",
    ),
    Case(
        "a watermark that fell after a resend, while the topic was deleted",
        """k1 delete ─ ok [7..7]
           n1 fetch ─ @9 [8..9]
           t1 produce ─ @5 op 1 crc 9 client x [8..8]
           t1 produce ─ @5 op 2 crc 9 client x [10..11]
           n1 fetch ─ @0 [12..13]
           k1 create ─ ok [14..15]""",
        ("retry-watermark-regression watermark,deleted topic 0",),
    ),
    Case(
        "long before, long after, meanwhile, on another node, or with an error",
        """n1 fetch ─ @9 [6..7]
           n1 fetch ─ @5 [8..8]
           t1 produce ─ @5 op 1 crc 9 client x [1..3]
           t1 produce ─ @5 op 2 crc 9 client x [10..11]
           n1 fetch ─ @3 [11..12]
           n1 fetch ─ @3 [12..14]
           n2 fetch ─ @3 [12..13]
           n1 fetch ─ @3 error 6 [12..13]
           n1 fetch ─ @5 [12..13]""",
    ),
    Case(
        "what was sent once, to two nodes, by two clients, or never accepted, is no resend",
        """n1 fetch ─ @9 [8..9]
           t1 produce ─ @5 op 1 crc 1 client x [10..11]
           t1 produce ─ @5 op 2 crc 2 client x [10..11]
           t1 produce ─ @5 op 3 crc 2 client y [10..11]
           t1 produce ─ @5 op 4 crc 3 client x [10..11]
           t2 produce ─ @5 op 5 crc 3 client x [10..11]
           t1 produce ─ @ op 6 crc 4 client x error 7 [10..11]
           t1 produce ─ @ op 7 crc 4 client x error 7 [10..11]
           n1 fetch ─ @7 [12..13]""",
    ),
]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Every case in a topic of its own."""
    made = Rows()
    for topic, case in enumerate(CASES):
        write(made, topic, case.text)
    return made


def _checked(rows: Rows, size: Size = WHOLE) -> dict[str, FamilyResult]:
    outcomes, failures = check_rows(rows, FAMILIES, size)
    assert not failures
    return outcomes


@pytest.fixture(scope="module")
def outcomes(rows: Rows) -> dict[str, FamilyResult]:
    """All of them checked at once."""
    return _checked(rows)


@pytest.fixture(scope="module")
def found(rows: Rows, outcomes: dict[str, FamilyResult]) -> list[Finding]:
    """All findings."""
    return findings_of(rows, outcomes)


def _told(finding: Finding) -> str:
    return f"{finding.anomaly} {','.join(finding.tags)} {finding.offset}"


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, found: list[Finding]) -> None:
    """Planted, near miss: exactly the findings that the case names."""
    mine = [_told(each) for each in found if each.topic == f"t{topic}"]
    assert sorted(mine) == sorted(CASES[topic].expected)


def test_counts_are_those_of_the_findings(outcomes: dict[str, FamilyResult], found: list[Finding]) -> None:
    """Every anomaly was found, and looked for in more places than it was found in."""
    for family in FAMILIES:
        outcome = outcomes[family.name]
        for name in family.anomalies:
            assert outcome.findings.count(name) == sum(each.anomaly == name for each in found)
            assert outcome.looked_at[name] >= outcome.findings.count(name) > 0


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_pieces_find_what_one_finds(
    size: Size, rows: Rows, outcomes: dict[str, FamilyResult], found: list[Finding]
) -> None:
    """Of partitions that lie in different pieces."""
    cut = _checked(rows, size)
    assert sorted(map(_told, findings_of(rows, cut))) == sorted(map(_told, found))
    assert {name: each.looked_at for name, each in cut.items()} == {n: each.looked_at for n, each in outcomes.items()}


def test_nothing_is_found_in_nothing() -> None:
    """A history without any exchange."""
    outcomes, failures = check_rows(Rows(), FAMILIES)
    assert (outcomes, failures) == ({}, [])


def test_the_evidence_names_the_batch(found: list[Finding]) -> None:
    """Producer, epoch and sequence, and both places."""
    first = next(each for each in found if each.anomaly == "retry-duplicate" and each.topic == "t0")
    batch = {"producer_id": 7, "producer_epoch": 0, "sequence": 0}
    assert first.facts == batch | {"low_offset": 5, "high_offset": 8}
    assert [event >> ID_BITS for event in first.events] == [501, 501]
    assert first.processes == ()
    changed = next(each for each in found if each.anomaly == "retry-offset-changed")
    assert changed.facts == batch | {"low_offset": 5, "high_offset": 8, "acks": 2}
    late = next(each for each in found if each.anomaly == "retry-reorder" and "acknowledged" in each.tags)
    assert late.facts == batch | {"sequence": 10, "sequence_before": 0, "place_before": 8}


def test_the_evidence_tells_how_far_a_mark_fell(found: list[Finding]) -> None:
    """Which node showed what, and when the batch was sent again and handled."""
    fell = next(each for each in found if each.anomaly == "retry-watermark-regression" and "watermark" in each.tags)
    seconds = {"resent_ns": 10 * SECOND_NS, "handled_ns": 11 * SECOND_NS}
    assert fell.facts == {"node": 1, "before": 9, "after": 7} | seconds
    assert (fell.nodes, fell.time_ns, fell.until_ns) == ((1,), 10 * SECOND_NS, 11 * SECOND_NS)


@pytest.mark.parametrize("seed", range(20))
def test_the_highest_of_spans_is_that_of_all_that_cover_a_point(seed: int) -> None:
    """However long they are."""
    random = Random(seed)
    count = random.randint(1, 40)
    first = [random.randrange(count) for _ in range(random.choice([0, 1, 30]))]
    last = [random.randrange(each, count) for each in first]
    value = [random.randint(-9, 9) for _ in first]
    expected = [
        max((v for a, b, v in zip(first, last, value, strict=True) if a <= point <= b), default=NONE)
        for point in range(count)
    ]
    spans = [np.array(each, np.int64) for each in (first, last, value)]
    assert highest_over(spans[0], spans[1], spans[2], count).tolist() == expected


@pytest.mark.parametrize("anomaly", ["retry-duplicate", "retry-offset-changed", "retry-reorder"])
def test_weak_acknowledgements_permit_it_when_leaders_change(anomaly: str) -> None:
    """What a new leader does not have it cannot recognise."""
    finding = Finding(anomaly, "t", 0, 5, (), (), (1,), 12 * SECOND_NS, 13 * SECOND_NS, (), (), "")
    faults = (PlannedFault("leader-kill", changes_leaders=True),)
    seen = CheckResults()
    seen.coverage.faults = [FaultCoverage(Fault(1, "leader-kill", 10 * SECOND_NS), None, None, None)]
    assert judge(finding, seen, RunFacts(acks="1", faults=faults)).status == "allowed"
    assert judge(finding, seen, RunFacts(acks="all", faults=faults)).status == "illegal"
    assert judge(finding, CheckResults(), RunFacts(acks="1")).status == "illegal"


def test_a_mark_may_fall_in_the_wake_of_a_fault_that_changes_leaders() -> None:
    """And only there."""
    finding = Finding("retry-watermark-regression", "t", 0, 5, (), (), (1,), 12 * SECOND_NS, 13 * SECOND_NS, (), (), "")
    faults = (PlannedFault("leader-kill", changes_leaders=True),)
    seen = CheckResults()
    seen.coverage.faults = [FaultCoverage(Fault(1, "leader-kill", 10 * SECOND_NS), None, None, None)]
    assert judge(finding, seen, RunFacts(faults=faults)).status == "allowed"
    assert judge(finding, CheckResults(), RunFacts()).status == "illegal"
