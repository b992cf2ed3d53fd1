"""What the checkers of leadership and metadata find and leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.coordinators import FAMILIES as COORDINATORS
from checkers.core.family import FamilyResult
from checkers.core.results import CheckResults, Finding
from checkers.core.run import RunContext
from checkers.core.timeline import Fault
from checkers.leadership import FAMILIES as LEADERSHIP
from checkers.metadata.family import FAMILIES as METADATA
from checkers.refusals import FAMILIES as REFUSALS
from checkers.shared.epochs import FAMILIES as EPOCHS
from checkers.summaries.coverage import FaultCoverage
from harness.history.schema import F, Kind, Type
from harness.judging.policies import PlannedFault, RunFacts, judge
from tests.support.histories import SECOND_NS, Case, Rows, write
from tests.support.kernels import SIZES, WHOLE, Size, check_rows, findings_of

FAMILIES = [*EPOCHS, *METADATA, *COORDINATORS, *LEADERSHIP, *REFUSALS]
Checked = tuple[list[Finding], dict[str, FamilyResult]]

# expected: anomaly, tags, nodes
CASES = [
    Case(
        "two nodes that name two leaders of one epoch disagree",
        """n1 metadata ─ leader 1 epoch 3
           n2 metadata ─ leader 2 epoch 3""",
        ("metadata-disagreement one epoch 1,2",),
    ),
    Case(
        "a node that has not heard yet is no disagreement",
        """n1 metadata ─ leader 1 epoch 3
           n2 metadata ─ leader 2 epoch 4
           n1 metadata ─ leader 1 epoch 3 [14..17]""",
    ),
    Case(
        "a node that goes on with an old leader is stale",
        """n1 metadata ─ leader 1 epoch 3
           n2 metadata ─ leader 2 epoch 4
           n1 metadata ─ leader 1 epoch 3 [18..19]""",
        ("metadata-disagreement stale 1,2",),
    ),
    Case(
        "a new epoch of the same leader is nothing that others have to know",
        """n1 metadata ─ leader 1 epoch 3
           n2 metadata ─ leader 1 epoch 4
           n1 metadata ─ leader 1 epoch 3""",
    ),
    Case(
        "errors, and answers that name no leader or no epoch, claim nothing",
        """n1 metadata ─ leader 1 epoch 3
           n2 metadata ─ leader 2 epoch 3 error 5
           n2 metadata ─ leader -1 epoch 3
           n2 metadata ─ leader 2""",
    ),
    Case(
        "what a client was not given claims nothing",
        """n1 metadata ─ leader 1 epoch 3
           t2 metadata ─ leader 2 epoch 3 lost client x
           t2 metadata ─ leader 2 epoch 3 client tidegauge""",
    ),
    Case(
        "before and after a deletion are two things",
        """n1 metadata ─ leader 1 epoch 3
           k1 delete ─ ok
           n2 metadata ─ leader 3 epoch 3
           k1 create ─ ok
           n1 metadata ─ leader 2 epoch 1""",
    ),
    Case(
        "a node whose epoch goes backward",
        """n1 metadata ─ leader 1 epoch 3
           n1 metadata ─ leader 1 epoch 2""",
        ("epoch-regression one node 1",),
    ),
    Case(
        "answers of one node at once are in no order",
        """n1 metadata ─ leader 1 epoch 3 [0..5]
           n1 metadata ─ leader 1 epoch 2 [5..9]""",
    ),
    Case(
        "a client that is told an older epoch by another node",
        """t1 metadata ─ leader 1 epoch 3 client x
           t2 metadata ─ leader 1 epoch 2 client x""",
        ("epoch-regression one client 1,2",),
    ),
    Case(
        "two clients, or one within the settling time",
        """t1 metadata ─ leader 1 epoch 3 client x
           t2 metadata ─ leader 1 epoch 2 client y
           t2 metadata ─ leader 1 epoch 2 client x [6..9]""",
    ),
    Case(
        "a leader that is not in the list",
        """n1 metadata ─ leader 3 epoch 1 brokers 1,2 [1000..1001]
           n1 metadata ─ leader 3 epoch 1 brokers 1,2 [1010..1011]""",
        ("metadata-incomplete leader 1,3",),
    ),
    Case(
        "a leader that is not in the list, once",
        """n1 metadata ─ leader 13 epoch 1 brokers 1,3 [1100..1101]
           n1 metadata ─ leader 3 epoch 1 brokers 1,3 [1100..1101]""",
        ("metadata-disagreement one epoch 1", "metadata-incomplete leader,brief 1,13"),
    ),
    Case(
        "no leader for long",
        """n1 metadata ─ leader 1 epoch 1
           n1 metadata ─ leader -1 epoch 2 [10..15]
           n1 metadata ─ leader -1 epoch 2 [20..20]
           n1 metadata ─ leader -1 epoch 2 [22..25]
           n2 metadata ─ leader -1 epoch 2 error 5 [26..27]
           n1 metadata ─ leader 1 epoch 3""",
        ("leaderless  ",),
    ),
    Case(
        "no leader for a moment twice, and nobody asked between them",
        """n1 metadata ─ leader -1 epoch 2 [10..10]
           n1 metadata ─ leader -1 epoch 2 [11..11]
           n2 metadata ─ leader -1 epoch 4 error 5 [29..30]
           n1 metadata ─ leader 1 epoch 5 [31..32]""",
    ),
    Case(
        "no leader, and for long enough only as one node had it",
        """n1 metadata ─ leader -1 epoch 2
           n2 metadata ─ leader 1 epoch 3
           n1 metadata ─ leader -1 epoch 2 [17..18]
           n2 metadata ─ error 3 [40..41]""",
    ),
    Case(
        "no leader for as long as it may be",
        """n1 metadata ─ leader -1 epoch 2
           n1 metadata ─ leader -1 epoch 2 [15..16]""",
    ),
    Case(
        "a client that is refused again and again",
        """t1 fetch ─ @ error 6 client tidegauge-consumer-101
           t1 fetch ─ @ error 74 client tidegauge-consumer-101
           t3 metadata ─ leader 1 client tidegauge-consumer-101
           t1 fetch ─ @ error 6 client tidegauge-consumer-101
           t2 fetch ─ @ error 6 client tidegauge-consumer-101
           t1 fetch ─ @ error 75 client tidegauge-consumer-101
           t1 produce ─ @4 client tidegauge-consumer-101""",
        ("not-leader-loop  1,2",),
    ),
    Case(
        "four refusals, a success, and four more",
        """t1 fetch ─ @ error 6 client x
           t1 fetch ─ @ error 6 client x
           t3 metadata ─ leader 1 client x
           t1 fetch ─ @ error 6 client x
           t1 fetch ─ @ error 6 client x
           t1 fetch ─ @7 client x
           t1 fetch ─ @ error 6 client x
           t3 metadata ─ leader 1 client x
           t1 fetch ─ @ error 6 client x""",
    ),
    Case(
        "a success that may be of the life before is none of this one",
        """k1 delete ─ ok [0..1]
           k1 create ─ ok [2..3]
           t1 fetch ─ @ error 6 client x [6..7]
           t1 fetch ─ @ error 6 client x [7..8]
           t1 fetch ─ @7 client x [4..9]
           t3 metadata ─ leader 1 client x [10..11]
           t1 fetch ─ @ error 6 client x [12..13]
           t1 fetch ─ @ error 6 client x [14..15]
           t1 fetch ─ @ error 6 client x [16..17]""",
        ("not-leader-loop  1",),
    ),
    Case(
        "a loop while a new leader may have come, of which nobody spoke before",
        """n1 metadata ─ leader 1 epoch 1 [0..1]
           n2 metadata ─ leader 1 epoch 1 [0..1]
           t1 fetch ─ @ error 6 client x [6..7]
           t1 fetch ─ @ error 6 client x [7..8]
           t1 fetch ─ @ error 6 client x [8..9]
           t3 metadata ─ leader 1 client x [9..10]
           t1 fetch ─ @ error 6 client x [11..12]
           t1 fetch ─ @ error 6 client x [12..13]
           n2 metadata ─ leader 2 epoch 2 [30..31]""",
        ("not-leader-loop moved 1",),
    ),
    Case(
        "a loop with a leader that had come long before, or came long after",
        """n1 metadata ─ leader 3 epoch 1 [0..0]
           n1 metadata ─ leader 1 epoch 2 [0..1]
           t1 fetch ─ @ error 6 client x [6..7]
           t1 fetch ─ @ error 6 client x [7..8]
           t1 fetch ─ @ error 6 client x [8..9]
           t3 metadata ─ leader 1 client x [9..10]
           t1 fetch ─ @ error 6 client x [11..12]
           t1 fetch ─ @ error 6 client x [12..13]
           n2 metadata ─ leader 1 epoch 2 [20..21]
           n2 metadata ─ leader 2 epoch 3 [30..31]""",
        ("not-leader-loop  1",),
    ),
    Case(
        "without a refresh in between, or of another client, or too late, it is only impatience",
        """t3 metadata ─ leader 1 client x
           t1 fetch ─ @ error 6 client x
           t3 metadata ─ leader 1 client y
           t1 fetch ─ @ error 6 client x
           t1 fetch ─ @ error 6 client x
           t1 fetch ─ @ error 6 client x
           t3 metadata ─ leader 1 client x [50..61]
           t1 fetch ─ @ error 6 client x [61..66]""",
    ),
    Case(
        "who asks everybody on purpose, and time-outs, are no loop",
        """t1 fetch ─ @ error 6 client tidegauge
           t1 fetch ─ @ error 6 client tidegauge
           t3 metadata ─ leader 1 client tidegauge
           t1 fetch ─ @ error 6 client tidegauge
           t1 fetch ─ @ error 6 client tidegauge
           t1 fetch ─ @ error 6 client tidegauge
           t1 fetch ─ @ error 7 client z""",
    ),
    Case(
        "a loop that is over soon",
        """t1 produce ─ @ error 6 client x [0..1]
           t1 produce ─ @ error 6 client x [0..1]
           t3 metadata ─ leader 1 client x [2..2]
           t1 produce ─ @ error 6 client x [3..3]
           t1 produce ─ @ error 6 client x [3..3]
           t1 produce ─ @ error 6 client x [3..3]""",
        ("not-leader-loop brief 1",),
    ),
    Case(
        "a node that answers although others lead",
        """n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 1 epoch 1
           n2 list ─ @7
           n1 list ─ @7
           n1 metadata ─ leader 1 epoch 1""",
        ("impostor-leader  2",),
    ),
    Case(
        "a new leader of which the others had no occasion to speak",
        """n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 1 epoch 1
           t1 produce ─ @6 acks -1
           t2 produce ─ @7 acks -1
           n1 metadata ─ leader 2 epoch 2
           n3 metadata ─ leader 2 epoch 2""",
    ),
    Case(
        "a leader that was deposed, before and after it can know",
        """n1 metadata ─ leader 2 epoch 1
           n1 metadata ─ leader 1 epoch 2
           t2 produce ─ @7 acks -1 [11..16]
           t2 produce ─ @8 acks 1 [18..19]
           n1 list ─ @7 [21..22]
           n1 metadata ─ leader 1 epoch 2 [30..31]""",
        ("impostor-leader deposed 2",),
    ),
    Case(
        "errors, appends without an offset or acknowledgement, and fetches of followers are no acts of a leader",
        """n1 metadata ─ leader 1 epoch 1
           n2 fetch ─ @7 error 6
           t2 produce ─ @-1 acks 1
           t2 produce ─ @7 acks 0
           t2 produce ─ @7 acks 1 lost
           t2 fetch ─ @7 version 11
           n1 metadata ─ leader 1 epoch 1""",
    ),
    Case(
        "a fetch that followers refuse",
        """n1 metadata ─ leader 1 epoch 1
           t2 fetch ─ @7 version 10
           n1 metadata ─ leader 1 epoch 1""",
        ("impostor-leader  2",),
    ),
    Case(
        "others that contradict each other prove nothing, nor does what was known too late",
        """n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 3 epoch 1
           n2 list ─ @7
           n4 list ─ @7 [4..5]
           n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 3 epoch 1""",
        ("metadata-disagreement one epoch 1,3",),
    ),
    Case(
        "two nodes that append in one epoch",
        """n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 1 epoch 1
           t1 produce ─ @7 acks -1
           t2 produce ─ @7 acks -1
           n3 metadata ─ leader 1 epoch 1""",
        ("impostor-leader  2", "split-brain one epoch 1,2"),
    ),
    Case(
        "one after the other, with a new epoch between",
        """n1 metadata ─ leader 1 epoch 1
           n3 metadata ─ leader 1 epoch 1
           t1 produce ─ @7 acks -1
           n1 metadata ─ leader 2 epoch 2
           n3 metadata ─ leader 2 epoch 2
           t2 produce ─ @8 acks -1""",
    ),
    Case(
        "a lonely tap: one after the other",
        """t1 produce ─ @7 acks 1 [1..2]
           t2 produce ─ @8 acks 1 [2..2]""",
    ),
    Case(
        "a new leader of which nobody spoke for long, though somebody spoke of the old one",
        """n1 metadata ─ leader 1 epoch 1 [0..1]
           n2 list ─ @7 [10..11]
           n1 metadata ─ leader 1 epoch 1 [12..13]
           n1 metadata ─ leader 2 epoch 2 [29..30]""",
    ),
    Case(
        "a node that answered long before the others heard of a new leader",
        """n1 metadata ─ leader 1 epoch 1 [0..1]
           n2 list ─ @7 [10..11]
           n1 metadata ─ leader 1 epoch 1 [14..15]
           n1 metadata ─ leader 2 epoch 2 [29..30]""",
        ("impostor-leader  2",),
    ),
    Case(
        "a new leader that was asked late, while a third node had not heard of it for long",
        """n1 metadata ─ leader 1 epoch 1 [0..1]
           n2 metadata ─ leader 1 epoch 1 [8..9]
           n3 metadata ─ leader 1 epoch 1 [0..1]
           n2 list ─ @7 [10..11]
           n3 metadata ─ leader 1 epoch 1 [14..15]
           n2 metadata ─ leader 2 epoch 2 [29..30]""",
    ),
    Case(
        "a node that answered although it said itself, later, that another one leads",
        """n1 metadata ─ leader 1 epoch 1 [0..1]
           n2 metadata ─ leader 1 epoch 1 [8..9]
           n2 list ─ @7 [10..11]
           n2 metadata ─ leader 1 epoch 1 [14..15]
           n1 metadata ─ leader 1 epoch 1 [16..17]
           n2 metadata ─ leader 2 epoch 2 [29..30]""",
        ("impostor-leader  2",),
    ),
]
# a second is as fine as the text goes
OVERLAPPING = [("t1", 0, 100), ("t2", 200, 300), ("t1", 400, 500), ("t2", 500, 600)]

IMPOSTOR_AT_FIRST = """n3 metadata ─ leader 1 epoch 1 [0..1]
                       n2 list ─ @7 [8..9]
                       n1 metadata ─ leader 3 epoch 1 [10..11]
                       n2 list ─ @7 [18..19]
                       n3 metadata ─ leader 1 epoch 1 [20..21]"""
ONE_EPOCH = """n1 metadata ─ leader 2 epoch 3 [0..1]
               n2 metadata ─ leader 1 epoch 3 [50..51]
               n1 metadata ─ leader 2 epoch 3 [100..101]"""


def _overlapping(rows: Rows, topic: int, appends: list[tuple[str, int, int]]) -> None:
    rows.topics[topic] = f"t{topic}"
    for number, (who, invoked_ms, time_ms) in enumerate(appends):
        rows.add(
            Kind.EXCHANGE, who, op=number, type=1, api=0, acks=-1, error=0, node=int(who[1:]), topic=topic, partition=0,
            offset=number, invoked=invoked_ms * 1_000_000, time=time_ms * 1_000_000,
        )  # fmt: skip


def _coordinators(rows: Rows) -> None:
    """What nodes say of groups, of which the first and the fourth contradict, and of the addresses of two nodes."""
    said = [
        ("group steadfast", 1, 1, "h:1", (0, 20)), ("group steadfast", 2, 2, "h:2", (10,)),
        ("group once", 1, 1, "h:1", (0,)), ("group once", 2, 2, "h:2", (10, 20)),
        ("group soon", 1, 1, "h:1", (0, 2)), ("group soon", 2, 2, "h:2", (0, 3)),
        ("group moved", 1, 1, "h:1", (0, 20)), ("group moved", 1, 2, "h:2", (10,)), ("group moved", 2, 2, "h:2", (10,)),
        ("group elsewhere", 3, 7, "h:7", (0, 20)), ("group elsewhere", 4, 7, "h:8 (bent)", (10,)),
        ("group at two", 5, 9, "h:9", (10,)), ("group at two", 5, 9, "h:10", (10,)),
    ]  # fmt: skip
    for thing, node, leader, address, times in said:
        for time in times:
            rows.add(
                Kind.EXCHANGE, f"t{node}", op=time, type=1, api=10, error=0, node=node, leader=leader,
                detail=f"{thing} at {address}", invoked=time * SECOND_NS, time=time * SECOND_NS,
            )  # fmt: skip


def _left_out(rows: Rows) -> None:
    """Broker 3 answers and lists itself; node 1 leaves it out for long, node 2 for a slot."""
    for time in range(2000, 2010, 2):
        lists = {1: "1,2", 2: "1,2" if time == 2004 else "1,2,3", 3: "1,2,3"}
        for node, brokers in lists.items():
            rows.add(
                Kind.PROBE, f"n{node}", api=3, error=3, node=node, brokers=brokers, invoked=time * SECOND_NS,
                time=time * SECOND_NS,
            )  # fmt: skip
    rows.add(Kind.PROBE, "n1", api=3, error=0, node=1, brokers="1", invoked=2100 * SECOND_NS, time=2100 * SECOND_NS)


def _checked(rows: Rows, size: Size = WHOLE, **more: Any) -> Checked:
    outcomes, failures = check_rows(rows, FAMILIES, size, **more)
    assert not failures
    return findings_of(rows, outcomes), outcomes


def _batch() -> Rows:
    """Every case in a topic of its own."""
    rows = Rows()
    for topic, case in enumerate(CASES):
        write(rows, topic, case.text)
    ends = {"a": "fail [0..3]", "b": "ok @0 [0..3]", "c": "info [0..5]", "d": "fail [0..6]"}
    write(rows, 90, "\n".join(f"p1 send {name} ─ {end}" for name, end in ends.items()))
    for start, end in ((0, 0), (0, 0), (1, 2), (2, 3), (3, 3), (3, 3)):
        what = "metadata ─ leader 1" if end == 2 else "produce ─ @ error 6"
        write(rows, 90, f"t1 {what} client tidegauge-producer-1 [{start}..{end}]")
    _overlapping(rows, 91, OVERLAPPING)
    _overlapping(rows, 92, OVERLAPPING[:2])
    _overlapping(rows, 93, [*OVERLAPPING, ("t3", 600, 700)])
    write(rows, 94, IMPOSTOR_AT_FIRST)
    write(rows, 95, ONE_EPOCH)
    _coordinators(rows)
    _left_out(rows)
    return rows


@pytest.fixture(scope="module", params=SIZES, ids=["whole", "in small pieces", "in larger pieces"])
def batch(request: pytest.FixtureRequest) -> Checked:
    """All of them at once, however the history is cut."""
    return _checked(_batch(), request.param)


def _of(checked: Checked, topic: str | None) -> list[Finding]:
    return [finding for finding in checked[0] if finding.topic == topic]


def _told(finding: Finding) -> str:
    return f"{finding.anomaly} {','.join(finding.tags)} {','.join(map(str, sorted(finding.nodes)))}"


@pytest.mark.parametrize("topic", range(len(CASES)), ids=[case.name for case in CASES])
def test_it_finds_what_is_there_and_nothing_else(topic: int, batch: Checked) -> None:
    """Planted, near miss, allowed: exactly the findings that the case names."""
    assert sorted(map(_told, _of(batch, f"t{topic}"))) == sorted(CASES[topic].expected)


def test_a_loop_says_what_it_cost(batch: Checked) -> None:
    """Sends of the worker whose client it is, until a settling time after the last refusal."""
    (finding,) = _of(batch, "t90")
    assert (finding.processes, finding.nodes) == ((1,), (1,))
    assert finding.facts == {
        "client": "tidegauge-producer-1",
        "refusals": 5,
        "api": 0,
        "first_ns": 0,
        "last_ns": 3 * SECOND_NS,
        "given_up": 2,
    }


def test_appends_overlap_only_when_each_node_went_on_after_the_other(batch: Checked) -> None:
    """Without epochs a leader may have moved once, but not back in the same second."""
    (finding,) = _of(batch, "t91")
    assert _told(finding) == "split-brain overlapping 1,2"
    assert finding.facts == {
        "appends": [2, 2],
        "began_ns": [SECOND_NS // 10, 3 * SECOND_NS // 10],
        "ended_ns": [4 * SECOND_NS // 10, SECOND_NS // 2],
    }
    assert not _of(batch, "t92")
    assert [_told(finding) for finding in _of(batch, "t93")] == ["split-brain overlapping 1,2"]


def _span_s(finding: Finding) -> tuple[float, float]:
    return ((finding.time_ns or 0) / SECOND_NS, (finding.until_ns or 0) / SECOND_NS)


def test_only_the_acts_of_an_impostor_are_told(batch: Checked) -> None:
    """Not those of the same node after the others had contradicted each other."""
    (finding,) = [each for each in _of(batch, "t94") if each.anomaly == "impostor-leader"]
    assert (_told(finding), _span_s(finding)) == ("impostor-leader  2", (8, 9))
    span = {"began_ns": 8 * SECOND_NS, "ended_ns": 9 * SECOND_NS}
    assert finding.facts == {"answers": 1, "appends": 0, "fetches": 0, "leader": 1, "epoch": 1, **span}


def test_two_leaders_of_one_epoch_contradict_from_the_second_to_the_last(batch: Checked) -> None:
    """Whichever of them has the lower number."""
    (finding,) = _of(batch, "t95")
    assert (_told(finding), _span_s(finding)) == ("metadata-disagreement one epoch 1,2", (51, 100))
    before = {"node_before": 2, "leader_before": 1, "epoch_before": 3, "since_ns": 51 * SECOND_NS}
    assert finding.facts == {**before, "node": 1, "leader": 2, "epoch": 3, "until_ns": 100 * SECOND_NS}


def test_of_coordinators_only_those_contradict_that_nodes_went_on_to_name(batch: Checked) -> None:
    """Each after the other had said something else, and only while both did; one node id has one address, always."""
    findings = [each for each in batch[0] if each.anomaly == "coordinator-mismatch"]
    found = {finding.facts["thing"]: finding.tags for finding in findings}
    assert found == {
        "group steadfast": ("steadfast",),
        "group moved": ("moved",),
        "node 7": ("address",),
        "node 9": ("address",),
    }
    assert {_span_s(finding) for finding in findings} == {(10, 10)}
    (elsewhere,) = [each.facts for each in findings if each.facts["thing"] == "node 7"]
    assert elsewhere == {
        "thing": "node 7",
        "node": 3,
        "said": "h:7",
        "since_ns": 0,
        "until_ns": 20 * SECOND_NS,
        "other": 4,
        "other_said": "h:8",
        "other_since_ns": 10 * SECOND_NS,
        "other_until_ns": 10 * SECOND_NS,
    }


def test_a_broker_that_answers_has_to_be_listed(batch: Checked) -> None:
    """For longer than a moment."""
    found = [each for each in batch[0] if "broker" in each.tags]
    assert [(finding.nodes, finding.facts, _span_s(finding)) for finding in found] == [
        ((1, 3), {"node": 1, "other": 3}, (2000, 2008))
    ]


def test_counts_are_those_of_the_findings(batch: Checked) -> None:
    """And all of them were looked for in something."""
    findings, outcomes = batch
    for name in {each for family in FAMILIES for each in family.anomalies}:
        found = sum(outcome.findings.count(name) for outcome in outcomes.values())
        assert found == len([each for each in findings if each.anomaly == name]) > 0, name
        assert max(outcome.looked_at.get(name, 0) for outcome in outcomes.values()) >= found, name


def _answers(*rows: tuple[int, float, str | None, int, int]) -> Rows:
    """Of nodes to probes: who, when in seconds, brokers, leader and epoch."""
    made = Rows(topics={0: "t0"})
    for node, second, brokers, leader, epoch in rows:
        now = int(second * SECOND_NS)
        told: dict[str, Any] = {"brokers": brokers, "leader": leader, "leader_epoch": epoch, "error": 0}
        made.add(Kind.PROBE, f"n{node}", api=3, node=node, topic=0, partition=0, invoked=now, time=now, **told)
    return made


def test_of_several_lists_of_one_slot_any_lists_a_broker_and_only_all_of_them_vouch_for_it() -> None:
    """Node 1 lists broker 3 in one of two answers, and node 2 vouches for it only if it always lists it."""
    named = [(3, second, "3", 3, 0) for second in range(0, 10, 2)]
    both = [(1, second + half, "1,3" if half else "1", 1, 0) for second in range(0, 10, 2) for half in (0, 0.5)]
    without = [(1, second + half, "1,2" if half else "1", 1, 0) for second in range(0, 10, 2) for half in (0, 0.5)]
    for of_node, expected in ((both, [(3, 1)]), (without, [(1, 3), (3, 1)])):
        for size in SIZES:
            found = [each for each in _checked(_answers(*named, *of_node), size)[0] if "broker" in each.tags]
            assert sorted(each.nodes for each in found) == expected
    unsure = [(3, second + half, "3" if half else "1", 3, 0) for second in range(0, 10, 2) for half in (0, 0.5)]
    found = [each for each in _checked(_answers(*unsure, *without))[0] if "broker" in each.tags]
    assert not found


def test_lists_of_one_slot_are_put_together_from_several_pieces() -> None:
    """What a node says beside one partition counts beside the others."""
    rows = Rows(topics={0: "t0"})
    for second in range(0, 10, 2):
        for partition in range(40):
            for node, brokers in ((1, "1,2" if partition % 2 else "1"), (2, "2,1" if partition % 3 else "2")):
                now = second * SECOND_NS
                place = {"topic": 0, "partition": partition, "invoked": now, "time": now}
                rows.add(Kind.PROBE, f"n{node}", api=3, error=3, node=node, brokers=brokers, **place)
                short = {"api": 3, "error": 3, "node": node + 2, "brokers": str(node + 2)}
                rows.add(Kind.PROBE, f"n{node + 2}", **short, **place)
    for size in SIZES:
        found = {each.nodes for each in _checked(rows, size)[0]}
        assert found == {(node, other) for node in (1, 2) for other in (3, 4)} | {(3, 4), (4, 3)} | {
            (node, other) for node in (3, 4) for other in (1, 2)
        }


def test_the_first_of_several_pairs_is_told_and_of_those_at_once_that_of_the_lowest_nodes() -> None:
    """Claims that are first at one instant are in the order of nodes, leaders, epochs and lists."""
    at_once = _answers((3, 0, None, 3, 1), (2, 0, "1", 2, 1), (1, 0, "2", 2, 1), (1, 0, "1", 2, 1))
    (finding,) = [each for each in _checked(at_once)[0] if each.anomaly == "metadata-disagreement"]
    assert (finding.facts["node"], finding.facts["node_before"]) == (1, 3)
    assert finding.events == tuple(at_once.events[Kind.PROBE][number]["event"] for number in (0, 3))


def test_a_stale_node_is_compared_with_other_nodes_that_name_other_leaders_alone() -> None:
    """Of the higher epochs the first is of the same node, the second names the same leader, the third counts."""
    higher = [(1, 1, None, 2, 9), (2, 2, None, 1, 8), (1, 3, None, 3, 7), (2, 4, None, 1, 6), (3, 5, None, 3, 5)]
    rows = _answers((1, 0, None, 1, 0), *higher, (1, 60, None, 1, 0))
    stale = [each for each in _checked(rows)[0] if "stale" in each.tags and each.facts["epoch"] == 0]
    assert [(each.facts["node_before"], each.facts["epoch_before"]) for each in stale] == [(3, 5)]


def _refused(rows: Rows, client: str, *, partition: int | None = 0) -> None:
    """Five times, with a refresh after the first; and a send of process 1 that failed meanwhile."""
    for number in range(6):
        span = {"invoked": number * SECOND_NS, "time": number * SECOND_NS + SECOND_NS // 2}
        asked = {"api": 3, "leader": 1} if number == 1 else {"api": 1}
        told = {"error": 0 if number == 1 else 6, "node": 1, "client": client, "type": Type.OK, "op": number}
        rows.add(Kind.EXCHANGE, "t1", topic=0, partition=0, **asked, **told, **span)
    send = {"f": F.SEND, "type": Type.INFO, "topic": 0, "partition": partition, "op": 99, "value": 99}
    rows.add(Kind.COMPLETE, "p1", invoked=0, time=2 * SECOND_NS, **send)


@pytest.mark.parametrize(
    ("client", "partition", "processes", "given_up"),
    [
        ("tidegauge-producer-1", 0, (1,), 1),
        ("tidegauge-producer-1", None, (1,), 1),
        ("tidegauge-producer-1", 1, (1,), 0),
        ("tidegauge-producer-2", 0, (2,), 0),
        ("tidegauge-producer-99999999999999999999", 0, (), 0),
        ("someone", 0, (), 0),
    ],
)
def test_a_loop_costs_sends_of_its_own_process(
    client: str, partition: int | None, processes: tuple[int, ...], given_up: int
) -> None:
    """To its partition, or to none that is known; a client that is no worker of ours has no process."""
    rows = Rows(topics={0: "t0"})
    _refused(rows, client, partition=partition)
    for size in SIZES:
        (finding,) = _checked(rows, size)[0]
        assert (finding.processes, finding.facts["given_up"]) == (processes, given_up)


def test_what_nobody_asked_for_is_not_found() -> None:
    """And what has nothing to be found in is not looked at."""
    findings, _ = _checked(_batch(), unasked={"metadata-disagreement", "epoch-regression"})
    told = {each.anomaly for each in findings}
    assert not told & {"metadata-disagreement", "epoch-regression"}
    assert "metadata-incomplete" in told
    assert not any(family.needs(RunContext()) for family in FAMILIES if family.anomalies)
    rows = Rows(topics={0: "t0"})
    nothing: dict[str, Any] = {"topic": 0, "partition": 0, "invoked": 0, "time": 1, "error": 7}
    rows.add(Kind.PROBE, "n1", api=1, node=1, **nothing)
    rows.add(Kind.EXCHANGE, "t1", api=1, node=1, type=Type.OK, **nothing)
    for size in SIZES:
        findings, outcomes = _checked(rows, size)
        assert not findings
        assert not any(count for outcome in outcomes.values() for count in outcome.looked_at.values())


LEADER_KILL = RunFacts(faults=(PlannedFault("leader-kill", changes_leaders=True),))
MARKS = [
    ("not-leader-loop", (), 12, 20, "allowed"),
    ("not-leader-loop", (), 12, 31, "illegal"),
    ("not-leader-loop", (), 5, 20, "illegal"),
    ("not-leader-loop", ("brief",), 5, 6, "allowed"),
    ("not-leader-loop", ("moved",), 2, 6, "unproven"),
    ("not-leader-loop", (), 2, 6, "illegal"),
    ("not-leader-loop", ("moved",), -3, 8, "illegal"),
    ("metadata-disagreement", ("stale",), 12, 29, "allowed"),
    ("metadata-disagreement", ("one epoch",), 12, 20, "illegal"),
    ("epoch-regression", ("one client",), 12, 20, "allowed"),
    ("epoch-regression", ("one node",), 12, 20, "illegal"),
    ("metadata-incomplete", ("broker",), 12, 20, "allowed"),
    ("metadata-incomplete", ("leader",), 12, 20, "illegal"),
    ("metadata-incomplete", ("leader", "brief"), 12, 13, "allowed"),
    ("metadata-incomplete", ("leader", "brief"), 1, 2, "unproven"),
    ("metadata-incomplete", ("leader",), 1, 4, "illegal"),
    ("metadata-incomplete", ("broker",), 1, 9, "unproven"),
    ("metadata-incomplete", ("broker",), -2, 9, "illegal"),
    ("metadata-incomplete", ("broker",), 40, 44, "unproven"),
    ("metadata-incomplete", ("broker", "always"), 1, 4, "illegal"),
    ("metadata-incomplete", ("broker", "always"), 12, 20, "allowed"),
    ("impostor-leader", ("deposed",), 12, 20, "allowed"),
    ("impostor-leader", (), 12, 20, "illegal"),
    ("impostor-leader", ("deposed",), 35, 36, "unproven"),
    ("impostor-leader", ("deposed",), 35, 46, "illegal"),
    ("coordinator-mismatch", ("steadfast",), 12, 20, "allowed"),
    ("coordinator-mismatch", ("steadfast",), 12, 40, "illegal"),
    ("coordinator-mismatch", ("moved",), 12, 40, "allowed"),
    ("coordinator-mismatch", ("moved",), 5, 6, "unproven"),
    ("coordinator-mismatch", ("steadfast",), 5, 6, "unproven"),
    ("coordinator-mismatch", ("steadfast",), -6, 5, "illegal"),
    ("coordinator-mismatch", ("address",), 12, 20, "allowed"),
    ("coordinator-mismatch", ("address",), 5, 6, "illegal"),
    ("metadata-disagreement", ("stale",), 2, 6, "unproven"),
    ("metadata-disagreement", ("one epoch",), 2, 6, "illegal"),
    ("metadata-disagreement", ("stale",), -3, 8, "illegal"),
    ("epoch-regression", ("one client",), 2, 6, "unproven"),
    ("epoch-regression", ("one node",), 2, 6, "illegal"),
    ("impostor-leader", ("deposed",), 2, 6, "unproven"),
    ("impostor-leader", (), 2, 6, "illegal"),
    ("split-brain", ("overlapping",), 12, 13, "unproven"),
    ("split-brain", ("overlapping",), 5, 6, "illegal"),
    ("split-brain", ("one epoch",), 12, 20, "illegal"),
    ("leaderless", (), 12, 29, "allowed"),
    ("leaderless", (), 12, 31, "illegal"),
]


@pytest.mark.parametrize(("anomaly", "tags", "began", "ended", "status"), MARKS)
def test_what_lies_in_the_wake_of_a_fault_may_be_allowed(
    anomaly: str, tags: tuple[str, ...], began: int, ended: int, status: str
) -> None:
    """A leader was killed at 10 s, and the cluster was whole again at 20 s: its wake ends at 30 s."""
    finding = Finding(anomaly, "t", 0, None, (), (), (1,), began * SECOND_NS, ended * SECOND_NS, (), tags, "")
    fault = Fault(1, "leader-kill", 10 * SECOND_NS, 15 * SECOND_NS, 20 * SECOND_NS)
    results = CheckResults()
    results.coverage.faults = [FaultCoverage(fault, None, None, None)]
    assert judge(finding, results, LEADER_KILL).status == status


@pytest.mark.parametrize(("ended", "status"), [(20, "allowed"), (31, "illegal")])
def test_a_fault_that_gives_old_answers_makes_a_node_name_an_older_epoch(ended: int, status: str) -> None:
    """No longer than it lasts, and the cluster needs to be whole again."""
    finding = Finding(
        "epoch-regression", "t", 0, None, (), (), (1,), 12 * SECOND_NS, ended * SECOND_NS, (), ("one node",), ""
    )
    results = CheckResults()
    fault = Fault(1, "stale-metadata", 10 * SECOND_NS, 15 * SECOND_NS, 20 * SECOND_NS)
    results.coverage.faults = [FaultCoverage(fault, None, None, None)]
    stale = RunFacts(faults=(PlannedFault("stale-metadata", changes_leaders=True),))
    assert judge(finding, results, stale).status == status


def test_weak_acknowledgements_permit_two_leaders_at_once() -> None:
    """One that is cut off acknowledges with acks=1 until it knows."""
    finding = Finding("split-brain", "t", 0, None, (), (), (1,), 12, 13, (), ("one epoch",), "")
    results = CheckResults()
    results.coverage.faults = [FaultCoverage(Fault(1, "leader-kill", 10), None, None, None)]
    assert judge(finding, results, RunFacts(acks="1", faults=LEADER_KILL.faults)).status == "allowed"
    assert judge(finding, results, RunFacts(acks="1")).status == "illegal"


@pytest.mark.parametrize("anomaly", ["metadata-disagreement", "impostor-leader", "split-brain", "coordinator-mismatch"])
def test_of_stateless_brokers_any_node_may_lead(anomaly: str) -> None:
    """Nobody's data lies on one of them; a cluster that does not say so is held to one leader."""
    finding = Finding(anomaly, "t", 0, None, (), (), (1,), 12, 13, (), ("one epoch",), "")
    mark = judge(finding, CheckResults(), RunFacts(stateless=True))
    assert (mark.status, mark.code) == ("allowed", "stateless")
    assert judge(finding, CheckResults(), RunFacts()).status == "illegal"


@pytest.mark.parametrize("anomaly", ["inconsistent-offset", "lost-write", "duplicate", "not-leader-loop", "leaderless"])
def test_stateless_brokers_promise_what_all_do(anomaly: str) -> None:
    """Their store gives out offsets once, and somebody has to take what clients send."""
    finding = Finding(anomaly, "t", 0, None, (), (), (1,), 12, 13, (), (), "")
    stateless = judge(finding, CheckResults(), RunFacts(stateless=True))
    assert stateless == judge(finding, CheckResults(), RunFacts())
