"""What the checkers of retries and idempotence find and leave alone: all histories in one Spark job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkers import engine, idempotence
from checkers.coverage import Fault, FaultCoverage
from checkers.deletions import read_deletions
from checkers.engine import check
from checkers.frame import History
from checkers.results import CheckResults, Finding
from harness.history import ID_BITS
from harness.policies import PlannedFault, RunFacts, judge
from tests.histories import SECOND_NS, Case, Rows, write
from tests.spark_sessions import spark_session

N = "producer_id 7 producer_epoch 0"


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
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Every case in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    sealed = rows.store(tmp_path_factory.mktemp("batch"))
    with spark_session() as spark:
        yield History(spark, sealed, deletions=read_deletions(sealed))


@pytest.fixture(scope="module")
def results(history: History) -> CheckResults:
    """All of them checked at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FAMILIES", idempotence.FAMILIES)
        patch.setattr(engine, "STUDIES", ())
        return check(history.spark, history.sealed, limit=1000)


def _told(anomaly: str, tags: list[str] | tuple[str, ...], offset: int | None) -> str:
    return f"{anomaly} {','.join(tags)} {offset}"


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, results: CheckResults) -> None:
    """Planted, near miss: exactly the findings that the case names."""
    found = [each for anomaly in results.found for each in anomaly.findings if each.topic == f"t{topic}"]
    assert sorted(_told(each.anomaly, each.tags, each.offset) for each in found) == sorted(CASES[topic].expected)


def test_counts_are_those_of_the_findings(results: CheckResults) -> None:
    """The job that counts and the job that brings the evidence agree, and no check failed."""
    assert not results.failures
    assert all(anomaly.found == len(anomaly.findings) for anomaly in results.anomalies.values())
    assert all(anomaly.looked_at >= anomaly.found > 0 for anomaly in results.anomalies.values())


def test_chunks_find_what_one_finds(history: History) -> None:
    """Sequences that are cut into chunks are compared across their borders."""
    cut = History(history.spark, history.sealed, chunk_rows=1, deletions=history.deletions)
    found = [_told(row.anomaly, row.tags, row.offset) for row in idempotence.find_retry_reorders(cut).collect()]
    assert sorted(found) == sorted(each for case in CASES for each in case.expected if each.startswith("retry-reorder"))


def test_the_evidence_names_the_batch(results: CheckResults) -> None:
    """Producer, epoch and sequence, and both places."""
    (first, *_) = results.anomalies["retry-duplicate"].findings
    assert first.detail == "producer 7 (epoch 0), sequence 0: acknowledged at offset 5 and at offset 8"
    assert [event >> ID_BITS for event in first.events] == [501, 501]


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
