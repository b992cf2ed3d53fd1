"""What the checkers of groups find in histories of a few events, and what it means."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from checkers import commits, groups
from checkers.core.families import families_of
from checkers.core.family import Family, FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.groups import handed_offsets
from checkers.summaries.coverage import FaultCoverage
from harness.history.schema import F, Kind
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Case, Rows, value_of, write
from tests.support.kernels import SIZES, Size, check_rows, context, findings_of, steps_of

FAMILIES: tuple[Family, ...] = (*commits.FAMILIES, *families_of(groups))

# expected: anomaly, place, tags
CASES = [
    Case(
        "an answer below the last commit is a regression",
        """g1 commit ─ ok @5 name G
           g1 commit ─ ok @9 name G
           g1 committed ─ ok @5 name G""",
        ("committed-offset-regression 0@9 moved",),
    ),
    Case(
        "an answer that was asked for before the commit was acknowledged is none",
        """g1 commit ─ ok @5 name G [0..1]
           g1 commit ─ ok @9 name G [2..6]
           g1 committed ─ ok @5 name G [6..7]""",
    ),
    Case(
        "a commit that goes back on purpose explains it",
        """g1 commit ─ ok @9 name G
           g1 commit ─ ok @5 name G
           g1 committed ─ ok @5 name G""",
    ),
    Case(
        "a commit that ended after the last one began may have come after it",
        """g2 commit ─ ok @5 name G [0..30]
           g1 commit ─ ok @9 name G [20..25]
           g1 committed ─ ok @5 name G [40..41]""",
    ),
    Case(
        "so may one of which nobody knows what became, and one that failed may not",
        """g2 commit ─ info 0@5 name G
           g2 commit ─ fail 1@5 name G
           g1 commit ─ ok 0@9 name G
           g1 commit ─ ok 1@9 name G
           g1 committed ─ ok 0@5 name G
           g1 committed ─ ok 1@5 name G""",
        ("committed-offset-regression 1@9",),
    ),
    Case(
        "a commit that comes after the answer explains nothing",
        """g1 commit ─ ok @9 name G
           g1 committed ─ ok @5 name G
           g1 commit ─ ok @5 name G""",
        ("committed-offset-regression 0@9 moved",),
    ),
    Case(
        "an answer above everything that was acknowledged may be a commit of somebody who was killed",
        """g1 commit ─ ok @5 name G
           g1 committed ─ ok @9 name G""",
    ),
    Case(
        "other groups and other partitions are something else",
        """g1 commit ─ ok @9 name G
           g1 committed ─ ok @-1 name H
           g1 committed ─ ok 1@-1 name G""",
    ),
    Case(
        "no answer after a commit: it has vanished, and so often",
        """g1 commit ─ ok @5 name G
           g1 committed ─ ok @-1 name G
           g1 committed ─ ok @-1 name G
           g1 committed ─ info @-1 name G""",
        ("committed-offset-vanished 0@5", "committed-offset-vanished 0@5 moved"),
    ),
    Case(
        "a coordinator that another one took the place of, by no fault, may answer before it knows",
        """t1 offset_commit ─ @5 detail G
           t2 offset_commit ─ @9 detail G
           t1 offset_fetch ─ @5 detail G""",
        ("committed-offset-regression 0@9 moved",),
    ),
    Case(
        "it need not take ten seconds for that, and one that coordinates alone knows what it has acknowledged",
        """t1 offset_commit ─ @5 detail G
           t2 offset_commit ─ @9 detail G
           t2 heartbeat ─ detail G
           t1 offset_fetch ─ @5 detail G
           t2 offset_commit ─ 1@5 detail G
           t1 offset_fetch ─ 1@7 detail G error 16
           t2 offset_commit ─ 1@9 detail G
           t2 offset_fetch ─ 1@5 detail G""",
        ("committed-offset-regression 0@9", "committed-offset-regression 1@9"),
    ),
    Case(
        "before the first commit there is none",
        """g1 committed ─ ok @-1 name G
           g1 commit ─ ok @5 name G
           g1 commit ─ info 1@5 name G
           g1 committed ─ ok 1@-1 name G""",
    ),
    Case(
        "what passed a tap counts as well",
        """t1 offset_commit ─ @5 detail G
           t1 offset_fetch ─ @-1 detail G
           t1 offset_commit ─ 1@5 detail G
           t1 offset_fetch ─ 1@3 detail G error 16
           t1 offset_fetch ─ 1@3 detail G lost
           t1 offset_commit ─ 2@5 detail G error 25
           t1 offset_fetch ─ 2@-1 detail G""",
        ("committed-offset-vanished 0@5",),
    ),
    Case(
        "offsets of a transaction may be seen later than its end, by those who do not wait for it",
        """g1 commit ─ ok @5 name G in T
           t1 offset_fetch ─ @-1 detail G""",
        ("committed-offset-vanished 0@5 transaction",),
    ),
    Case(
        "a topic that was deleted has lost its offsets by right",
        """g1 commit ─ ok @5 name G
           k1 delete ─ ok
           g1 committed ─ ok @-1 name G""",
    ),
    Case(
        "a commit above what the group was handed",
        """g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @1:b
           g2 subscribe N ─ ok name G
           g2 commit ─ ok @2 name G
           g2 commit ─ ok @4 name G""",
        ("committed-beyond-read 0@4",),
    ),
    Case(
        "in the second of the record it may have been read",
        """g1 subscribe M ─ ok name G
           g1 poll ─ @0:a [10..11]
           g1 commit ─ ok @4 name G [12..20]
           g1 poll ─ @3:a [19..20]""",
    ),
    Case(
        "a library commits by itself what a poll hands over, before that is recorded",
        """g1 subscribe M ─ ok name G
           g1 poll ─ @0:a [10..11]
           g1 poll ─ @1:b @2:c [20..52]
           g1 commit ─ ok @3 name G [50..51]""",
    ),
    Case(
        "a group that was handed nothing yet may begin anywhere, and a commit that failed is none",
        """g1 subscribe M ─ ok name G
           g1 commit ─ ok @7 name G
           g1 poll ─ @7:a
           g1 commit ─ info @99 name G
           c1 poll ─ @98:b""",
    ),
    Case(
        "positions move past markers where there are transactions",
        """p1 send a ─ ok @0 in T
           p1 txn T ─ ok
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a
           g1 commit ─ ok @2 name G""",
    ),
    Case(
        "given to two members of one generation",
        """g1 assign ─ ok 0@ name G member M generation 3
           g2 assign ─ ok 0@ name G member N generation 3
           g1 revoke ─ info 0@ name G member M generation 3
           g2 revoke ─ ok 0@ name G member N generation 3""",
        ("double-ownership 0@ one generation",),
    ),
    Case(
        "given to the next one while a member that lets go in order had it, in nobody knows which generation",
        """g1 assign ─ ok 0@ name G member M
           g2 assign ─ ok 0@ name G member N
           g1 revoke ─ ok 0@ name G member M""",
        ("double-ownership 0@ generation unknown",),
    ),
    Case(
        "a member that was thrown out does not know it at once",
        """g1 assign ─ ok 0@ name G member M
           g2 assign ─ ok 0@ name G member N
           g1 revoke ─ info 0@ name G member M
           g1 assign ─ ok 1@ name G member M generation 3
           g2 assign ─ ok 1@ name G member N generation 4
           g1 revoke ─ ok 1@ name G member M generation 3""",
    ),
    Case(
        "one that was thrown out may hear of it when it is back in a later generation",
        """g1 assign ─ ok 0@ name G member M generation 5
           g2 assign ─ ok 0@ name G member N generation 6
           g1 revoke ─ info 0@ name G member M generation 7""",
    ),
    Case(
        "one after the other is fine, and so is going back",
        """g1 assign ─ ok 0@ name G member M generation 3
           g1 assign ─ ok 0@7 name G member M generation 3
           g1 revoke ─ ok 0@ name G member M generation 3
           g2 assign ─ ok 0@ name G member N generation 3
           g2 assign ─ ok 1@ name H member N generation 3""",
    ),
    Case(
        "a group went past a record that others were handed",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           p1 send d ─ ok @3
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a
           g2 subscribe N ─ ok name G
           g2 poll ─ @2:c
           r1 poll ─ @0:a @1:b @2:c @3:d""",
        ("rebalance-loss 0@1",),
    ),
    Case(
        "one of the group is enough, whoever commits; what nobody was handed is lost and not skipped",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           p1 send d ─ ok @3
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @3:d
           g2 subscribe N ─ ok name G
           g2 poll ─ @1:b
           r1 poll ─ @1:b @3:d""",
    ),
    Case(
        "a member that was killed in a poll may have had it in its hands, and nothing further up",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           p1 send d ─ ok @3
           p1 send e ─ ok @4
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a
           g1 poll ─ info
           g2 subscribe N ─ ok name G
           g2 poll ─ @2:c @4:e
           r1 poll ─ @1:b @3:d""",
        ("rebalance-loss 0@1 open poll", "rebalance-loss 0@3"),
    ),
    Case(
        "so may one that was given the partition just then, and was handed nothing of it yet",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           g1 subscribe M ─ ok name G
           g1 assign ─ ok 0@ name G member M
           g1 poll ─ @0:a
           g1 revoke ─ ok 0@ name G member M
           g2 subscribe N ─ ok name G
           g2 assign ─ ok 0@ name G member N
           g2 poll ─ info
           g1 assign ─ ok 0@ name G member M
           g1 poll ─ @2:c
           r1 poll ─ @1:b""",
        ("rebalance-loss 0@1 open poll",),
    ),
    Case(
        "or one that reads again what others had read",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           p1 send d ─ ok @3
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @1:b
           g2 subscribe N ─ ok name G
           g2 poll ─ @0:a
           g2 poll ─ info
           g1 poll ─ @3:d
           r1 poll ─ @2:c""",
        ("rebalance-loss 0@2 open poll",),
    ),
    Case(
        "but none that has let go of it, or was killed when the group had gone past it",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           p1 send d ─ ok @3
           p1 send e ─ ok @4
           g1 subscribe M ─ ok name G
           g1 assign ─ ok 0@ name G member M
           g1 poll ─ @0:a
           g1 revoke ─ ok 0@ name G member M
           g1 poll ─ info
           g2 subscribe N ─ ok name G
           g2 assign ─ ok 0@ name G member N
           g2 poll ─ @2:c @4:e
           g2 poll ─ info
           r1 poll ─ @1:b @3:d""",
        ("rebalance-loss 0@1",),
    ),
    Case(
        "what was aborted is rightly passed, though others that read uncommitted are handed it",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1 in T
           p1 send c ─ ok @2
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @2:c
           u1 poll ─ @0:a @1:b @2:c""",
    ),
    Case(
        "what others that read committed are handed was not aborted",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1 in T
           p1 send c ─ ok @2
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @2:c
           c1 poll ─ @0:a @1:b @2:c""",
        ("rebalance-loss 0@1",),
    ),
    Case(
        "who reads uncommitted is believed of what was in no transaction",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @2:c
           u1 poll ─ @0:a @1:b @2:c""",
        ("rebalance-loss 0@1",),
    ),
    Case(
        "a compacted topic need not keep what a group was not handed",
        """p1 send a ─ ok @0
           p1 send b ─ ok @1
           p1 send c ─ ok @2
           g1 subscribe M ─ ok name G
           g1 poll ─ @0:a @2:c
           g1 commit ─ ok @9 name G
           r1 poll ─ @1:b""",
    ),
]


def _text(topic: int, text: str) -> str:
    """The members of a case are processes of its own, in groups of its own."""
    alone = re.sub(r"\bg(\d) ", lambda match: f"g{10 * topic + int(match[1])} ", text)
    return re.sub(r"\b(name|detail) ([GH])\b", rf"\1 \g<2>{topic}", alone)


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Every case in a topic of its own."""
    made = Rows()
    for topic, case in enumerate(CASES):
        write(made, topic, _text(topic, case.text))
    return made


COMPACTED = [topic for topic, case in enumerate(CASES) if "compacted" in case.name]


@pytest.fixture(scope="module")
def outcomes(rows: Rows) -> dict[str, FamilyResult]:
    """As one task makes them."""
    return check_rows(rows, FAMILIES, compact=COMPACTED)[0]


@pytest.fixture(scope="module")
def found(rows: Rows, outcomes: dict[str, FamilyResult]) -> list[Finding]:
    """All findings."""
    return findings_of(rows, outcomes)


def _told(finding: Finding) -> str:
    offset = "" if finding.offset is None else finding.offset
    return " ".join([finding.anomaly, f"{finding.partition}@{offset}", *finding.tags])


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, found: list[Finding]) -> None:
    """Planted and near miss: exactly the findings that the case names."""
    assert sorted(_told(each) for each in found if each.topic == f"t{topic}") == sorted(CASES[topic].expected)


def test_what_is_found_was_looked_at(outcomes: dict[str, FamilyResult]) -> None:
    """Of each anomaly."""
    looked_at = {name: count for outcome in outcomes.values() for name, count in outcome.looked_at.items()}
    found = {name: outcome.findings.count(name) for outcome in outcomes.values() for name in outcome.looked_at}
    assert set(looked_at) == {name for family in FAMILIES for name in family.anomalies}
    assert all(looked_at[name] >= count > 0 for name, count in found.items())


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
@pytest.mark.parametrize("runs", [handed_offsets.RUNS_AT_MOST, 0])
def test_many_tasks_find_what_one_finds(
    rows: Rows, outcomes: dict[str, FamilyResult], size: Size, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where surveys leave out what is too much to tell."""
    monkeypatch.setattr(handed_offsets, "RUNS_AT_MOST", runs)
    others = check_rows(rows, FAMILIES, size, compact=COMPACTED)[0]
    assert sorted(map(repr, findings_of(rows, others))) == sorted(map(repr, findings_of(rows, outcomes)))
    assert {name: each.looked_at for name, each in others.items()} == {
        name: each.looked_at for name, each in outcomes.items()
    }


def _log(length: int) -> Rows:
    """That many acknowledged records of one partition, which a final reader is handed."""
    rows = Rows(topics={0: "t0"})
    for offset in range(length):
        common = {"topic": 0, "partition": 0, "offset": offset, "value": offset, "invoked": offset, "time": offset}
        rows.add(Kind.COMPLETE, "p1", f=F.SEND, type=1, op=offset, **common)
        rows.add(Kind.RECORD, "r1", **common)
    return rows


def _member(rows: Rows, member: str, group: str, *offsets: int) -> None:
    """A member that is handed these."""
    rows.add(Kind.COMPLETE, member, f=F.SUBSCRIBE, type=1, name=group, time=0, invoked=0)
    for turn, offset in enumerate(offsets, start=100):
        common = {"topic": 0, "partition": 0, "offset": offset, "invoked": turn, "time": turn}
        rows.add(Kind.RECORD, member, value=offset, **common)


def _losses(rows: Rows, size: Size) -> set[tuple[object, ...]]:
    return {
        (*(each.facts[name] for name in ("group", "lost", "first", "last")), each.values, *each.tags)
        for each in findings_of(rows, check_rows(rows, families_of(groups), size)[0])
    }


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_is_lost_may_reach_over_stretches_of_a_log(size: Size) -> None:
    """Some of which the group was handed nothing of; a killed member may have had it in its hands all the same."""
    rows = _log(40)
    _member(rows, "g1", "G", 3, 30)
    _member(rows, "g2", "H", 2, 4, 3)
    _member(rows, "g3", "H", 21)
    _member(rows, "g4", "H", 6, 39)
    rows.add(Kind.COMPLETE, "g2", f=F.POLL, op=1, type=3, time=200, invoked=200)
    rows.add(Kind.COMPLETE, "g3", f=F.POLL, op=2, type=3, time=200, invoked=100)
    assert _losses(rows, size) == {
        ("G", 26, 4, 29, (4,)), ("H", 15, 5, 20, (5,)), ("H", 17, 22, 38, (22,), "open poll"),
    }  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_process_of_two_groups_reads_for_both(size: Size) -> None:
    """Each of them has members of its own beside it."""
    rows = _log(8)
    _member(rows, "g1", "G", 0, 1, 2, 3)
    _member(rows, "g1", "H")
    _member(rows, "g2", "G", 4, 7)
    _member(rows, "g3", "H", 5)
    assert _losses(rows, size) == {("G", 2, 5, 6, (5,)), ("H", 1, 4, 4, (4,))}


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_group_that_passes_nothing_is_not_looked_at_again(size: Size) -> None:
    """However often a partition goes from one member to another, and is read again."""
    rows = _log(60)
    for offset in range(5, 55):
        for member in ("g1", "g2", "g3")[: 1 + offset % 3]:
            _member(rows, member, "G", offset)
    (family,) = (each for each in families_of(groups) if each.name == "skipped by groups")
    steps = steps_of(rows, [family], context(rows), size)
    assert family.name not in steps.judged
    assert steps.conclude()[family.name].looked_at == {"rebalance-loss": 50}


@pytest.mark.parametrize("families", [[each] for each in FAMILIES], ids=[each.name for each in FAMILIES])
def test_a_history_without_events_says_nothing(families: list[Family]) -> None:
    """Nor does it fail."""
    steps = steps_of(Rows(), families, context(Rows()))
    for family in families:
        outcome = family.conclude(family.gather([], steps.run, {}), [], steps.run, {})
        assert (outcome.findings.counts, set(outcome.looked_at.values())) == ({}, {0})


def test_the_evidence_says_who_and_when(found: list[Finding]) -> None:
    """The commit, the answer and how often; the events name the process."""
    mine = [each for each in found if each.anomaly == "committed-offset-vanished" and each.topic == "t8"]
    soon, late = sorted(mine, key=lambda each: each.until_ns or 0)
    for vanished, second in ((soon, 15), (late, 25)):
        assert vanished.facts == {
            "group": "G8", "committed": 5, "shown": -1, "times": 1,
            "committed_ns": 5 * SECOND_NS, "shown_ns": second * SECOND_NS,
        }  # fmt: skip
        assert vanished.processes == (1181,)
        assert (vanished.time_ns, vanished.until_ns) == (5 * SECOND_NS, second * SECOND_NS)
    assert (soon.tags, late.tags) == (("moved",), ())


def test_the_evidence_of_a_loss_is_the_send(found: list[Finding]) -> None:
    """Its value, its time and its process, not those of whoever was handed it."""
    topic = next(number for number, case in enumerate(CASES) if "went past a record" in case.name)
    loss = next(each for each in found if each.anomaly == "rebalance-loss" and each.topic == f"t{topic}")
    assert loss.values == (value_of(topic, "b", 1),)
    assert (loss.time_ns, loss.processes) == (15 * SECOND_NS, (1,))
    assert loss.facts == {"group": f"G{topic}", "lost": 1, "first": 1, "last": 1}


def test_the_evidence_of_a_commit_beyond_reads_is_the_commit(found: list[Finding]) -> None:
    """With what the group had been handed."""
    (beyond,) = (each for each in found if each.anomaly == "committed-beyond-read")
    group = f"G{beyond.topic}".replace("t", "")
    assert beyond.facts == {"group": group, "committed": 4, "handed": 1, "seconds": 1}
    assert (beyond.time_ns, len(beyond.events), beyond.values) == (45 * SECOND_NS, 1, ())


def test_the_evidence_of_two_owners_is_how_long_both_were(found: list[Finding]) -> None:
    """And in which generations, if anybody knows."""
    owned = {each.tags[0]: each for each in found if each.anomaly == "double-ownership"}
    known, unknown = owned["one generation"], owned["generation unknown"]
    assert {name: known.facts[name] for name in ("generation_before", "generation", "overlap_ns")} == {
        "generation_before": 3, "generation": 3, "overlap_ns": 5 * SECOND_NS
    }  # fmt: skip
    assert set(unknown.facts) == {"group", "member_before", "member", "overlap_ns"}
    assert known.facts["member_before"] != known.facts["member"]
    assert (known.time_ns, known.until_ns, len(known.events)) == (5 * SECOND_NS, 15 * SECOND_NS, 3)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_absurd_numbers_break_nothing(size: Size) -> None:
    """Numbers at both ends of their range are compared, never added."""
    rows, huge = Rows(), 2**63 - 1
    for f in (F.SUBSCRIBE, F.COMMIT, F.COMMITTED, F.ASSIGN, F.REVOKE, F.SEND):
        for number in (huge, 0, -huge):
            rows.add(
                Kind.COMPLETE, "g1", f=f, type=1, op=1, name="G", member=1, topic=0, partition=0, offset=number,
                value=1, time=number, invoked=-number,
            )  # fmt: skip
            rows.add(Kind.RECORD, "g1", topic=0, partition=0, offset=number, time=number, invoked=number)
    found = {each.anomaly for each in findings_of(rows, check_rows(rows, FAMILIES, size)[0])}
    assert found <= {"committed-offset-regression", "committed-offset-vanished", "committed-beyond-read"}


LEADER_KILL = PlannedFault("leader-kill", changes_leaders=True)
LATENCY = PlannedFault("latency", changes_leaders=False)
JUDGED = {
    ("committed-offset-regression", "", LEADER_KILL): "allowed",
    ("committed-offset-vanished", "", LATENCY): "illegal",
    ("committed-offset-vanished", "transaction", None): "allowed",
    ("committed-offset-regression", "", None): "illegal",
    ("committed-offset-regression", "moved", None): "unproven",
    ("committed-offset-vanished", "moved", LEADER_KILL): "allowed",
    ("double-ownership", "generation unknown", LATENCY): "allowed",
    ("double-ownership", "generation unknown", None): "unproven",
    ("double-ownership", "one generation", LEADER_KILL): "illegal",
    ("rebalance-loss", "open poll", None): "allowed",
    ("rebalance-loss", "", LEADER_KILL): "illegal",
    ("committed-beyond-read", "", LEADER_KILL): "illegal",
}
WITHOUT_FAULT = {
    "transaction": "allowed", "open poll": "allowed", "moved": "unproven", "generation unknown": "unproven"
}  # fmt: skip


@pytest.mark.parametrize(("case", "status"), JUDGED.items(), ids=[f"{each[0]} {each[1]} {each[2]}" for each in JUDGED])
def test_what_it_means(case: tuple[str, str, PlannedFault | None], status: str) -> None:
    """A fault counts while it lasts and a little longer."""
    anomaly, tag, fault = case
    finding = _finding(anomaly, tag, until_s=100)
    assert _judged(finding, fault, undone_s=95) == status
    assert _judged(finding, fault, undone_s=80) == WITHOUT_FAULT.get(tag, "illegal")


def _finding(anomaly: str, tag: str, until_s: int) -> Finding:
    tags = (tag,) if tag else ()
    return Finding(anomaly, "t0", 0, 1, (), (), (), 0, until_s * SECOND_NS, (), tags)


def _judged(finding: Finding, fault: PlannedFault | None, undone_s: int) -> str:
    results = CheckResults()
    if fault is not None:
        came = Fault(1, fault.name, injected_ns=70 * SECOND_NS, undone_ns=undone_s * SECOND_NS, bit=True)
        results.coverage.faults.append(FaultCoverage(came, None, None, None))
    return judge(finding, results, RunFacts(faults=(fault,) if fault else ())).status


@pytest.mark.parametrize(("overlap_s", "status"), [(9, "unproven"), (10, "illegal")])
def test_a_member_hears_in_time_that_it_was_thrown_out(overlap_s: int, status: str) -> None:
    """Without any fault it has both for no longer than a heartbeat and a busy machine take."""
    finding = replace(
        _finding("double-ownership", "generation unknown", 100), facts={"overlap_ns": overlap_s * SECOND_NS}
    )
    assert _judged(finding, None, 0) == status
