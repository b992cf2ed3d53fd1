"""What is out of order, and what only looks so, in histories of a few events: all of them in one go."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest

from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.order import family as order
from checkers.order import gathered_steps, odd_steps
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures
from harness.history.schema import F, Kind, Status, Type
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support import histories
from tests.support.histories import Rows, told, write
from tests.support.kernels import WHOLE, Size, check_rows, findings_of


@dataclass(frozen=True)
class Case(histories.Case):
    """A history and what is to be found in it, with the tags that it is to have."""

    compacted: bool = False


CASES = [
    Case(
        "a reader that is handed everything in order",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           c1 poll ─ @0:a @1:b
           c1 poll ─ @2:c
           c1 poll ─ @3:d @4:e""",
    ),
    Case(
        "a poll that begins at an offset that was handed out before",
        """c1 poll ─ @0:a @1:b
           c1 poll ─ @1:b @2:c""",
        ("nonmonotonic-poll 0@1",),
    ),
    Case(
        "a poll that begins below, and the next one that goes on from there",
        """c1 poll ─ @7:a
           c1 poll ─ @3:b
           c2 poll ─ @4:d @5:e @6:f
           c1 poll ─ @7:a""",
        ("nonmonotonic-poll 0@3", "poll-skip 0@4"),
    ),
    Case(
        "what another reader, or another partition, was handed is no step",
        """c1 poll ─ 0@5:a
           c2 poll ─ 0@4:b 0@5:a
           c1 poll ─ 1@3:c 0@6:d""",
    ),
    Case(
        "an assignment begins anew, also one that failed",
        """c1 poll ─ @4:a @5:b
           c1 assign ─ ok @0
           c1 poll ─ @0:c @1:d @2:e @3:f @4:a
           c1 assign ─ fail @9
           c1 poll ─ @1:d""",
    ),
    Case(
        "an assignment of another partition, or of another reader, does not",
        """c1 poll ─ 0@4:a
           c1 assign ─ ok 1@0
           c2 assign ─ ok 0@0
           c1 poll ─ 0@2:b""",
        ("nonmonotonic-poll 0@2",),
    ),
    Case(
        "an acknowledged offset that a reader was not handed, and neither was anybody else",
        """p1 send a ─ ok @1
           c1 poll ─ @0:b
           c1 poll ─ @2:c""",
        ("poll-skip 0@1",),
    ),
    Case(
        "an offset that another reader was handed",
        """c1 poll ─ @0:a @1:b @2:c @3:d
           c2 poll ─ @0:a
           c2 poll ─ @3:d""",
        ("poll-skip 0@1",),
    ),
    Case(
        "an offset beyond the next 64",
        """c1 poll ─ @60:a @300:b
           c2 poll ─ @299:c""",
        ("int-poll-skip 0@299",),
    ),
    Case(
        "the last of 64 offsets, and the first",
        """c1 poll ─ @62:a @63:b @64:c
           c2 poll ─ @62:a @64:c @127:d
           c3 poll ─ @126:e @127:d @128:f
           c2 poll ─ @128:f""",
        ("int-poll-skip 0@63", "int-poll-skip 0@126"),
    ),
    Case(
        "a send whose end nobody knows proves no offset",
        """p1 send a ─ info @1
           p1 send b ─ fail @2
           c1 poll ─ @0:c
           c1 poll ─ @3:d""",
        ("gap 0@1",),
    ),
    Case(
        "the same inside of a poll",
        """p1 send a ─ ok @1
           c1 poll ─ @0:b @2:c @2:c @1:a""",
        ("int-poll-skip 0@1", "int-nonmonotonic-poll 0@2", "int-nonmonotonic-poll 0@1"),
    ),
    Case(
        "records of two partitions by turns are two readings",
        """c1 poll ─ 0@0:a 1@0:b 0@1:c 1@1:d 0@2:e 1@2:f""",
    ),
    Case(
        "an event and an offset left out at once",
        """c1 poll ─ 0@0:a 1@0:b 0@2:c
           c2 poll ─ 0@1:d""",
        ("int-poll-skip 0@1",),
    ),
    Case(
        "a transaction is one whole, an assignment in it notwithstanding",
        """c1 txn T ─ ok
           c1 poll ─ @5:a in T
           c1 poll ─ @3:b in T
           c1 assign ─ ok @0
           c1 poll ─ @0:c in T""",
        ("int-nonmonotonic-poll 0@3",),
    ),
    Case(
        "two transactions are two",
        """c1 poll ─ @5:a in T
           c1 poll ─ @3:b in U""",
        ("nonmonotonic-poll 0@3",),
    ),
    Case(
        "a record that is damaged shows where its reader is",
        """c1 poll ─ @0:a @1:!
           c1 poll ─ @1:?""",
        ("nonmonotonic-poll 0@1",),
    ),
    Case(
        "what only readers of uncommitted records were handed is none of another's business",
        """p1 send a ─ fail @1 in T
           u1 poll ─ @0:b @1:a @3:c
           c1 poll ─ @0:b
           c1 poll ─ @3:c""",
    ),
    Case(
        "readers of uncommitted records have to be handed all",
        """p1 send a ─ fail @1 in T
           u1 poll ─ @0:b @1:a @2:c
           u2 poll ─ @0:b
           u2 poll ─ @2:c""",
        ("poll-skip 0@1",),
    ),
    Case(
        "what a reader of committed records was handed, another one has to be handed",
        """p1 send a ─ info @1 in T
           c1 poll ─ @0:b @1:a @2:c
           c2 poll ─ @0:b @2:c""",
        ("int-poll-skip 0@1",),
    ),
    Case(
        "a gap is found once, whoever went past it",
        """c1 poll ─ @0:a @5:b
           c2 poll ─ @0:a
           c2 poll ─ @5:b
           c3 poll ─ @5:b""",
        ("gap 0@1",),
    ),
    Case(
        "two gaps, of which transactions explain too little",
        """p1 send a ─ ok @0 in T
           c1 poll ─ @0:a @2:b @5:c""",
        ("gap 0@1 transactions", "gap 0@3 transactions"),
    ),
    Case(
        "as much as a marker, one that was written again, and what was aborted may leave",
        """p1 send a ─ ok @0 in T
           p1 send x ─ fail in T
           p1 send y ─ info
           p1 send b ─ ok @2
           p1 send c ─ ok @6
           c1 poll ─ @0:a @2:b @6:c""",
    ),
    Case(
        "and not more: of two that nobody placed one was read",
        """p1 send a ─ ok @0 in T
           p1 send x ─ fail in T
           p1 send y ─ info
           p1 send c ─ ok @6
           c1 poll ─ @0:a @2:y @6:c""",
        ("gap 0@1 transactions", "gap 0@3 transactions"),
    ),
    Case(
        "transactions of another partition explain nothing",
        """p1 send a ─ ok 1@0 in T
           c1 poll ─ 0@0:a 0@2:b""",
        ("gap 0@1",),
    ),
    Case(
        "compaction leaves out what it likes, and turns nobody back",
        """p1 send a ─ ok @1
           c1 poll ─ @0:b @2:c @9:d
           c1 poll ─ @8:e""",
        ("nonmonotonic-poll 0@8",),
        compacted=True,
    ),
    Case(
        "a topic that the workload deletes begins again",
        """c1 poll ─ @0:a @1:b @2:c [1..2]
           k1 delete ─ ok [3..4]
           k1 create ─ ok [4..5]
           r1 poll ─ @0:d @1:e [10..11]
           r2 poll ─ @0:d [10..12]
           r2 poll ─ @0:d [12..13]""",
        ("nonmonotonic-poll 0@0",),
    ),
    Case(
        "what a reader of the load is handed afterwards may be of another life",
        """c1 poll ─ @1:a [1..2]
           k1 delete ─ ok [3..4]
           k1 create ─ ok [4..5]
           c1 poll ─ @0:b [8..9]
           c1 poll ─ @0:b [10..11]""",
        ("nonmonotonic-poll 0@0 deleted topic",),
    ),
    Case(
        "a member that goes back while its group moves partitions",
        """g1 assign ─ ok 0@ [1..2]
           g1 poll ─ @3:a [3..5]
           g1 revoke ─ ok 1@ [6..7]
           g1 poll ─ @2:b [8..9]
           g1 poll ─ @1:c [20..21]""",
        ("nonmonotonic-poll 0@2 rebalance", "nonmonotonic-poll 0@1"),
    ),
    Case(
        "a seek is no rebalance",
        """g2 assign ─ ok 0@ [1..2]
           g2 poll ─ @3:a [3..5]
           g2 assign ─ ok 1@7 [6..7]
           g2 poll ─ @2:b [8..9]""",
        ("nonmonotonic-poll 0@2",),
    ),
    Case(
        "of somebody who subscribed and was never seen to be given anything nobody knows when it was",
        """c7 subscribe M ─ ok
           c7 poll ─ @3:a
           c7 poll ─ @2:b""",
        ("nonmonotonic-poll 0@2 rebalance",),
    ),
    Case(
        "a client that asks again for what it had fetched, and is given that",
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ offset 0 count 7 asked 0 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @4:a @5:b @0:c [0..4]
           c1 poll ─ @3:d [12..14]
           c1 poll ─ @2:e [13..15]
           c1 poll ─ @1:f [14..16]""",
        (
            "int-nonmonotonic-poll 0@0 client asked again",
            "poll-skip 0@1",
            "nonmonotonic-poll 0@2 client asked again",
            "nonmonotonic-poll 0@1 client asked again",
        ),
    ),
    Case(
        "one that asked again more than ten seconds before, or only afterwards",
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ offset 0 count 7 asked 0 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @5:a [14..15]
           c1 poll ─ @4:b [15..16]
           c2 poll ─ @5:a [2..2]
           c2 poll ─ @4:b [3..3]
           t1 fetch ─ @ offset 5 count 1 asked 5 client tidegauge-consumer-102 [1..2]
           t1 fetch ─ @ offset 4 count 1 asked 4 client tidegauge-consumer-102 [3..4]""",
        ("nonmonotonic-poll 0@4", "nonmonotonic-poll 0@4"),
    ),
    Case(
        "one that asked again for less than it got, or had not got so far before",
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ offset 2 count 4 asked 2 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @5:a @1:b @7:c @6:d [3..5]""",
        ("int-nonmonotonic-poll 0@1", "int-nonmonotonic-poll 0@6", "int-poll-skip 0@5"),
    ),
    Case(
        "another client, another partition, or none of ours",
        """t1 fetch ─ 0@ offset 4 count 2 asked 4 client tidegauge-consumer-102 [1..2]
           t1 fetch ─ 0@ offset 0 count 7 asked 0 client tidegauge-consumer-102 [3..4]
           t1 fetch ─ 1@ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ 1@ offset 0 count 7 asked 0 client tidegauge-consumer-101 [3..4]
           t1 fetch ─ 0@ offset 4 count 2 asked 4 client consumer-101 [1..2]
           t1 fetch ─ 0@ offset 0 count 7 asked 0 client consumer-101 [3..4]
           c1 poll ─ 0@5:a 0@4:b [3..5]""",
        ("int-nonmonotonic-poll 0@4",),
    ),
    Case(
        "a broker that refused what was asked for made its client go back",
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ error 1 client tidegauge-consumer-101 [2..3]
           t1 fetch ─ @ offset 0 count 3 asked 0 client tidegauge-consumer-101 [3..4]
           t1 fetch ─ @ offset 3 count 3 asked 3 client tidegauge-consumer-101 [4..5]
           c1 poll ─ @5:a @4:b [3..5]""",
        ("int-nonmonotonic-poll 0@4",),
    ),
    Case(
        "a client that is sent back goes back, and what it gets from there on is in order",
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           c1 assign ─ ok @0 [2..3]
           t1 fetch ─ @ offset 0 count 7 asked 0 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @1:a @0:b [3..5]""",
        ("int-nonmonotonic-poll 0@0",),
    ),
    Case(
        "an answer that the client never got shows no more than what was asked for",
        """t1 fetch ─ @ offset 4 count 2 asked 4 lost client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @5:a @4:b [3..5]""",
        ("int-nonmonotonic-poll 0@4",),
    ),
    Case(
        "sends in the order of their numbers, whenever they were invoked",
        """i1 send b ─ ok @1 sequence 1
           i1 send a ─ ok @0 sequence 0
           i1 send d ─ ok @9 sequence 3
           i1 send c ─ ok @5 sequence 2""",
    ),
    Case(
        "a later send at a lower offset",
        """i1 send a ─ ok @3 sequence 0
           i1 send b ─ ok @2 sequence 1
           j1 send c ─ ok @9 sequence 0
           j1 send d ─ ok @8 sequence 1""",
        ("nonmonotonic-send a,b 0@3 idempotent", "nonmonotonic-send c,d 0@9 plain"),
    ),
    Case(
        "two that were overtaken by the last of three, and one far away",
        """p1 send a ─ ok @70000 sequence 0
           p1 send b ─ ok @3 sequence 1
           p1 send c ─ ok @2 sequence 2""",
        ("nonmonotonic-send a,c 0@70000", "nonmonotonic-send b,c 0@3"),
    ),
    Case(
        "the same offset is not lower, and neither is one of another partition, producer or end",
        """p1 send a ─ ok 0@3 sequence 0
           p1 send b ─ ok 0@3 sequence 1
           p1 send c ─ ok 1@0 sequence 2
           p2 send d ─ ok 0@0 sequence 3
           p1 send e ─ info 0@1 sequence 4
           p1 send f ─ ok 0@-1 sequence 5""",
    ),
    Case(
        "without numbers it is the time of the invocation that counts",
        """p1 send a ─ ok @5 [1..9]
           p1 send b ─ ok @4 [2..3]
           p2 send c ─ ok @9 [5..9]
           p2 send d ─ ok @10 [5..6]
           p2 send e ─ ok @8 [5..6]
           p3 send f ─ ok @1 sequence 7 [1..2]
           p3 send g ─ ok @0 [3..4]""",
        ("nonmonotonic-send a,b 0@5",),
    ),
    Case(
        "inside of a transaction, and between two",
        """p1 send a ─ ok @3 sequence 0 in T
           p1 send b ─ ok @2 sequence 1 in T
           p2 send c ─ ok @9 sequence 0 in U
           p2 send d ─ ok @8 sequence 1 in V""",
        ("int-nonmonotonic-send a,b 0@3 transactional", "nonmonotonic-send c,d 0@9 transactional"),
    ),
    Case(
        "a transaction that is spread over many offsets",
        """p1 send a ─ ok @70000 sequence 2 in T
           p1 send b ─ ok @1 sequence 5 in T
           p1 send c ─ ok @3 sequence 3 in T
           p1 send d ─ ok @2 sequence 4 in T
           p1 send e ─ ok @70001 sequence 1""",
        (
            "int-nonmonotonic-send a,b 0@70000 transactional",
            "int-nonmonotonic-send c,b 0@3 transactional",
            "int-nonmonotonic-send d,b 0@2 transactional",
            "nonmonotonic-send e,b 0@70001",
        ),
    ),
    Case(
        "of two that were sent last at one time the one at the higher offset is named",
        """p1 send a ─ ok @9 sequence 1
           p1 send b ─ ok @1 sequence 5
           p1 send c ─ ok @6 sequence 5""",
        ("nonmonotonic-send a,c 0@9",),
    ),
    Case(
        "polls that end in another order than they were handed out",
        """c1 poll ─ @0:a @1:b [1..20]
           c1 poll ─ @2:c @3:d [2..10]
           c1 poll ─ @3:d @4:e [3..15]""",
        ("nonmonotonic-poll 0@3",),
    ),
    Case(
        "a gap that is also one from one chunk of the file to the next",
        """c1 poll ─ @0:a @1:b @5:c @6:d
           c2 poll ─ @0:a @1:b
           c2 poll ─ @5:c @6:d
           c3 poll ─ @1:b @5:c""",
        ("gap 0@2",),
    ),
]  # fmt: skip


FARTHEST, LATEST_NS = 1 << 44, 1 << 61  # what offsets, times and sequences are cut to
CUTS = [Size(1, 7, 1), Size(2, 3, 2), Size(4, 2, 3), Size(64, 3, 10), Size(1 << 16, 1, 1000)]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Every case in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    return rows


def _check(rows: Rows, size: Size = WHOLE, **more: Any) -> FamilyResult:
    compacted = [topic for topic in rows.topics if topic < len(CASES) and CASES[topic].compacted]
    outcomes, failures = check_rows(rows, order.FAMILIES, size, **({"compact": compacted} | more))
    assert not failures
    return outcomes["order"]


def _findings(rows: Rows, outcome: FamilyResult) -> list[Finding]:
    return findings_of(rows, {"order": outcome})


def _told(rows: Rows, outcome: FamilyResult) -> dict[str, list[str]]:
    """By topic, what was found."""
    found: dict[str, list[str]] = {name: [] for name in rows.topics.values()}
    for finding in _findings(rows, outcome):
        found[str(finding.topic)].append(" ".join([told(finding), *finding.tags]))
    return {name: sorted(each) for name, each in found.items()}


@pytest.fixture(scope="module")
def outcome(rows: Rows) -> FamilyResult:
    """All of them at once."""
    return _check(rows)


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, rows: Rows, outcome: FamilyResult) -> None:
    """Planted, near miss, allowed: exactly the findings that the case names."""
    assert _told(rows, outcome)[f"t{topic}"] == sorted(CASES[topic].expected)


def _counts(outcome: FamilyResult) -> dict[str, int]:
    return {name: count for name in order.ABOUT if (count := outcome.findings.count(name))}


def test_all_is_counted(rows: Rows, outcome: FamilyResult) -> None:
    """As often as it was found, and not more often than it was looked at."""
    assert _counts(outcome) == Counter(finding.anomaly for finding in _findings(rows, outcome))
    assert set(outcome.looked_at) == set(order.ABOUT)
    assert all(outcome.looked_at[name] >= count for name, count in _counts(outcome).items())


@pytest.mark.parametrize("carried", [100_000, 0], ids=["few", "too many"])
@pytest.mark.parametrize("size", CUTS, ids=str)
def test_chunks_and_pieces_change_nothing(
    size: Size, carried: int, rows: Rows, outcome: FamilyResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large history is cut into chunks and pieces; if too much of it is odd, these are judged by themselves."""
    monkeypatch.setattr(odd_steps, "CARRIED", carried)
    monkeypatch.setattr(odd_steps, "AT_LEAST", carried)
    cut = _check(rows, size)
    assert sorted(map(repr, _findings(rows, cut))) == sorted(map(repr, _findings(rows, outcome)))
    assert cut.looked_at == outcome.looked_at
    assert cut.findings.counts == outcome.findings.counts


def test_everything_can_travel(rows: Rows, outcome: FamilyResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pieces say, and what is made of it."""
    for step in ("survey", "gather", "judge"):
        made = getattr(order.Order, step)

        def travelling(self: Any, *given: Any, made: Any = made) -> Any:
            return pickle.loads(pickle.dumps(made(self, *given)))

        monkeypatch.setattr(order.Order, step, travelling)
    assert _told(rows, _check(rows, Size(4, 3, 5))) == _told(rows, outcome)


def test_every_anomaly_can_be_asked_for_alone(rows: Rows, outcome: FamilyResult) -> None:
    """Whether somebody wants the others or not."""
    for name in order.ABOUT:
        alone = _check(rows, unasked=frozenset(order.ABOUT) - {name})
        assert _counts(alone) == {name: outcome.findings.count(name)}, name


def _sole(rows: Rows, outcome: FamilyResult, topic: int) -> Finding:
    (finding,) = (each for each in _findings(rows, outcome) if each.topic == f"t{topic}")
    return finding


def test_evidence_names_both_records(rows: Rows, outcome: FamilyResult) -> None:
    """Their events, their reader, and when either was handed out."""
    finding = _sole(rows, outcome, 1)
    assert [event % (1 << 40) for event in finding.events] == [10, 12]
    assert finding.processes == (101,)
    assert (finding.time_ns, finding.until_ns) == (5_000_000_000, 15_000_000_000)
    assert finding.facts == {"from_offset": 1, "to_offset": 1}


def _one(text: str) -> tuple[Rows, Finding]:
    rows = Rows()
    write(rows, 0, text)
    (finding,) = _findings(rows, _check(rows, compact=()))
    return rows, finding


def test_facts_of_a_skip_and_of_a_gap() -> None:
    """From where to where, and how much is missing."""
    _, skip = _one(
        """p1 send a ─ ok @2
           c1 poll ─ @0:b @5:c"""
    )
    assert (skip.anomaly, skip.offset, skip.facts) == ("int-poll-skip", 2, {"from_offset": 0, "to_offset": 5})
    _, gap = _one("c1 poll ─ @0:b @5:c")
    assert (gap.anomaly, gap.offset, gap.facts) == ("gap", 1, {"from_offset": 0, "to_offset": 5, "missing": 4})


def test_facts_of_sends() -> None:
    """The offset of the later one, and by what it is later."""
    _, numbered = _one(
        """p1 send a ─ ok @5 sequence 3
           p1 send b ─ ok @4 sequence 7"""
    )
    assert numbered.facts == {"later_offset": 4, "sequence": 3, "later_sequence": 7}
    _, timed = _one(
        """p1 send a ─ ok @5 [1..9]
           p1 send b ─ ok @4 [2..3]"""
    )
    assert timed.facts == {"later_offset": 4, "invoked_ns": 1_000_000_000, "later_invoked_ns": 2_000_000_000}


def _with_markers(transactions: int) -> str:
    """Transactions of one message, each with its marker, and a reader of all."""
    sends = [f"p1 send a ─ ok @{2 * number} in {chr(ord('A') + number)}" for number in range(transactions)]
    return "\n".join([*sends, "c1 poll ─ " + " ".join(f"@{2 * number}:a" for number in range(transactions))])


def test_markers_are_no_reason_to_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if there are more gaps than can be carried: it is enough to know how much is missing."""
    monkeypatch.setattr(odd_steps, "CARRIED", 0)
    monkeypatch.setattr(odd_steps, "AT_LEAST", 1)
    monkeypatch.setattr(order.Order, "judge", lambda *_: pytest.fail("pieces were looked at again"))
    rows = Rows()
    write(rows, 0, _with_markers(20))
    outcome = _check(rows, Size(64, 3, 1000), compact=())
    assert not outcome.findings.counts
    assert outcome.looked_at["gap"] == 19


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_gaps_that_are_too_many_are_counted(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the worst of them are kept, whoever was part of it."""
    monkeypatch.setattr(odd_steps, "CARRIED", 0)
    monkeypatch.setattr(odd_steps, "AT_LEAST", 0)
    rows = Rows()
    polls = " ".join(f"@{number * (number + 3)}:a" for number in range(20))
    write(rows, 0, f"c1 poll ─ {polls}\nc2 poll ─ {polls}\nc3 poll ─ @0:a @4:a\np1 send b ─ ok 1@0 in T")
    write(rows, 1, f"c4 poll ─ {polls}")
    whole = _check(rows, compact=(), limit=limit, damaged=frozenset({104}))
    cut = _check(rows, Size(16, 3, 7), compact=(), limit=limit, damaged=frozenset({104}))
    assert cut.findings == whole.findings
    assert cut.findings.counts == {("gap", (), False): 19, ("gap", (), True): 19}
    assert len(cut.findings.rows["gap", (), False]) == min(limit, 19)


TANGLED = """c1 poll ─ @0:a @1:b [1..20]
             c1 poll ─ @2:c @3:d [2..10]
             c1 poll ─ @3:d @4:e [3..15]"""


def test_a_file_that_is_not_in_the_order_of_events() -> None:
    """Then chunks of it do not follow each other, and steps are made of the runs in them."""
    rows = Rows()
    write(rows, 0, TANGLED)
    for size in CUTS:
        assert _told(rows, _check(rows, size, compact=()))["t0"] == ["nonmonotonic-poll 0@3"]


def test_rewinds_that_are_too_many_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that go back least: what they would explain may be called a broker's doing."""
    monkeypatch.setattr(odd_steps, "REWINDS", 0)
    monkeypatch.setattr(odd_steps, "AT_LEAST", 1)
    rows = Rows()
    write(
        rows,
        0,
        """t1 fetch ─ @ offset 4 count 2 asked 4 client tidegauge-consumer-101 [1..2]
           t1 fetch ─ @ offset 0 count 1 asked 0 client tidegauge-consumer-101 [3..4]
           c1 poll ─ @5:a @0:b [0..5]
           t1 fetch ─ @ offset 1 count 3 asked 1 client tidegauge-consumer-102 [2..3]
           t1 fetch ─ @ offset 1 count 3 asked 1 client tidegauge-consumer-102 [4..5]
           c2 poll ─ @3:a @1:b [0..5]""",
    )
    both = ["int-nonmonotonic-poll 0@0 client asked again", "int-nonmonotonic-poll 0@1"]
    assert _told(rows, _check(rows, Size(64, 1, 1000), compact=()))["t0"] == both
    assert _told(rows, _check(rows, compact=()))["t0"] == [both[0], f"{both[1]} client asked again"]


def test_what_is_too_tangled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out in silence."""
    monkeypatch.setattr(gathered_steps, "RUNS", 0)
    monkeypatch.setattr(odd_steps, "AT_LEAST", 0)
    rows = Rows()
    write(rows, 0, TANGLED)
    assert "not in the order of its events" in _check(rows, Size(64, 1, 3), compact=()).cut
    assert not _check(rows, compact=()).cut


def test_a_history_without_events_of_its_kind() -> None:
    """Nothing to look at is nothing found."""
    rows = Rows(topics={0: "t"})
    for size in (WHOLE, CUTS[0]):
        rows.add(Kind.COMPLETE, "c1", f=F.ASSIGN, type=Type.OK, topic=0, partition=0, invoked=1, time=2)
        outcome = _check(rows, size, compact=())
        assert (outcome.findings.counts, set(outcome.looked_at.values())) == ({}, {0})


@pytest.mark.parametrize("size", [WHOLE, Size(1 << 16, 3, 2)], ids=["whole", "cut"])
def test_absurd_numbers_break_nothing(size: Size) -> None:
    """Offsets, numbers and times up to the limits, and rows without a place."""
    rows = Rows(topics={0: "t"})
    common = {"topic": 0, "partition": 0, "invoked": -LATEST_NS, "time": LATEST_NS, "status": Status.GOOD}
    for op, offset in enumerate((0, FARTHEST, 0, -5, FARTHEST - 1, FARTHEST)):
        rows.add(Kind.RECORD, "c1", op=op, offset=offset, value=op, **common)
    rows.add(Kind.RECORD, "c1", op=9, offset=3, value=1, **(common | {"partition": None}))
    for value, (offset, sequence) in enumerate(
        ((FARTHEST, -LATEST_NS), (0, LATEST_NS), (FARTHEST, 0), (5, None), (6, None))
    ):
        rows.add(
            Kind.COMPLETE, "p1", f=F.SEND, type=Type.OK, op=value, value=value, offset=offset, sequence=sequence,
            topic=0, partition=0, invoked=LATEST_NS - value, time=LATEST_NS,
        )  # fmt: skip
    assert _counts(_check(rows, size, compact=())) == {"poll-skip": 2, "nonmonotonic-poll": 1, "nonmonotonic-send": 3}


def test_numbers_beyond_the_limits_are_cut() -> None:
    """And nothing overflows."""
    last = (1 << 63) - 1
    rows = Rows(topics={0: "t"})
    for op, offset in enumerate((0, last, 0, last)):
        rows.add(
            Kind.RECORD, "c1", op=op, offset=offset, value=op, topic=0, partition=0, invoked=-last, time=last,
            status=Status.GOOD,
        )  # fmt: skip
    outcome = _check(rows, compact=())
    assert _counts(outcome) == {"nonmonotonic-poll": 1, "gap": 1}


KILL = PlannedFault("leader-kill", changes_leaders=True)
KILLED = FaultCoverage(Fault(1, "leader-kill", injected_ns=10, undone_ns=20, bit=True), *[Span(3, 3)] * 4)
FACTS = RunFacts(acks="all", idempotence=True, client="kafka-python", faults=(KILL,))
NO_FAULT = replace(FACTS, faults=(), idempotence=False)


@pytest.mark.parametrize(
    ("anomaly", "tags", "facts", "until_ns", "status"),
    [
        ("poll-skip", (), FACTS, 15, "illegal"),
        ("poll-skip", ("rebalance",), FACTS, 15, "allowed"),
        ("nonmonotonic-poll", ("rebalance",), FACTS, 15, "allowed"),
        ("nonmonotonic-poll", ("deleted topic",), FACTS, 15, "allowed"),
        ("nonmonotonic-poll", ("client asked again",), FACTS, 15, "possibly the client"),
        ("int-nonmonotonic-poll", ("client asked again",), FACTS, 15, "possibly the client"),
        ("int-nonmonotonic-poll", ("rebalance", "client asked again"), FACTS, 15, "allowed"),
        ("nonmonotonic-poll", (), replace(FACTS, acks="1"), 15, "allowed"),
        ("nonmonotonic-poll", (), replace(FACTS, acks="1"), 9, "illegal"),
        ("int-poll-skip", (), replace(FACTS, unclean_election=True), 15, "allowed"),
        ("int-poll-skip", (), replace(FACTS, unclean_election=True, faults=()), 15, "illegal"),
        ("gap", (), FACTS, 15, "illegal"),
        ("gap", (), replace(FACTS, imported=True), 15, "unproven"),
        ("gap", ("transactions",), replace(FACTS, imported=True), 15, "illegal"),
        ("nonmonotonic-send", ("idempotent",), FACTS, 15, "illegal"),
        ("nonmonotonic-send", ("plain",), FACTS, 15, "allowed"),
        ("nonmonotonic-send", ("plain",), replace(FACTS, retries=0), 15, "illegal"),
        ("nonmonotonic-send", (), FACTS, 15, "illegal"),
        ("nonmonotonic-send", (), replace(FACTS, idempotence=False), 15, "allowed"),
        ("nonmonotonic-send", ("idempotent",), replace(FACTS, client="confluent-kafka"), 15, "possibly the client"),
        ("nonmonotonic-send", ("idempotent",), replace(FACTS, client="confluent-kafka"), 9, "illegal"),
        ("int-nonmonotonic-send", ("transactional",), replace(FACTS, client="confluent-kafka"), 15, "illegal"),
    ],
)  # fmt: skip
def test_what_is_allowed(anomaly: str, tags: tuple[str, ...], facts: RunFacts, until_ns: int, status: str) -> None:
    """By how the run was set up, and by what was done to it before it was seen."""
    finding = Finding(anomaly, "t", 0, 7, (), (1,), (), 5, until_ns, (1,), tags, "")
    results = CheckResults(events=9, anomalies={}, coverage=Coverage(faults=[KILLED]))
    assert judge(finding, results, facts).status == status


@pytest.mark.parametrize(
    ("figures", "facts", "status"),
    [
        (Figures(unsettled=0), NO_FAULT, "illegal"),
        (Figures(unsettled=0), replace(NO_FAULT, faults=FACTS.faults), "allowed"),
        (Figures(unsettled=1), NO_FAULT, "allowed"),
        (Figures(unsettled=0, resends=1), NO_FAULT, "allowed"),
        (Figures(), NO_FAULT, "allowed"),
        (Figures(unsettled=0), replace(NO_FAULT, garbled=1), "allowed"),
        (Figures(unsettled=0), replace(NO_FAULT, dead_workers=("the taps were killed",)), "allowed"),
    ],
    ids=[
        "every batch passed once",
        "a fault",
        "an unanswered batch",
        "a batch that passed twice",
        "no taps",
        "an exchange that nobody understood",
        "taps that died",
    ],
)
def test_a_retry_excuses_nothing_where_there_was_none(figures: Figures, facts: RunFacts, status: str) -> None:
    """Without idempotence a retry may change the order; taps know whether there can have been one."""
    finding = Finding("nonmonotonic-send", "t", 0, 7, (), (1,), (), 5, 15, (1,), ("plain",), "")
    results = CheckResults(events=9, anomalies={}, coverage=Coverage(), figures=figures)
    assert judge(finding, results, facts).status == status


def test_holes_in_a_history_prove_no_skip() -> None:
    """What a reader seems to have left out may have been lost with its history; going back cannot."""
    results = CheckResults(events=9, anomalies={}, coverage=Coverage(), has_holes=True)
    marks = {
        name: judge(Finding(name, "t", 0, 7, (), (1,), (), 5, 6, (1,), (), ""), results, FACTS).status
        for name in ("poll-skip", "int-poll-skip", "gap", "nonmonotonic-poll")
    }
    assert marks == dict.fromkeys(("poll-skip", "int-poll-skip", "gap"), "unproven") | {"nonmonotonic-poll": "illegal"}
