"""Rules, each on the least evidence that it needs, and on a near miss."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.core.families import FAMILIES
from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures, PartitionRow
from harness.judging.diagnosis import Cause, Diagnosis, diagnose
from harness.judging.diagnosis.harm import HARM_OF
from harness.judging.policies import POLICIES, PlannedFault, RunFacts
from harness.judging.verdict import decide

FACTS: dict[str, Any] = {
    "scenario": {"settings": {"acks": "all", "min_insync_replicas": 2, "client": "kafka-python", "max_in_flight": 5}},
    "cluster": {"nodes": [{"id": 1}, {"id": 2}, {"id": 3}]},
    "tap": {"exchanges": 100},
}
TAGS = (
    ("one epoch", "same node"), ("older epoch", "across nodes"), ("broker",), ("leader",), ("deposed",), ("class 1",),
    ("class 2",), ("class 3",), ("no offset",), ("plain",), ("idempotent",), ("commit",), ("abort",), ("steadfast",),
    (),
)  # fmt: skip


def finding(anomaly: str, *tags: str, **fields: Any) -> Finding:
    """A finding in p0, unless said otherwise."""
    plain = Finding(anomaly, "t", 0, 5, (1,), (6,), (1,), 1_000, 9_000_000_000, (9,), tags)
    return replace(plain, **fields)


def results(*findings: Finding, counts: dict[str, int] | None = None, **fields: Any) -> CheckResults:
    """Results in which everything was looked for, and these were found."""
    anomalies = {name: Anomaly(name, "", looked_at=100) for name in (*POLICIES, "corrupt", "misrouted", "torn")}
    for each in findings:
        anomalies.setdefault(each.anomaly, Anomaly(each.anomaly, "", 100)).findings.append(each)
    for anomaly in anomalies.values():
        anomaly.found = (counts or {}).get(anomaly.name, len(anomaly.findings))
    figures = fields.pop("figures", Figures(sent=200, acknowledged=200, distinct=200))
    coverage = fields.pop("coverage", Coverage({"send": {"ok": 200}}))
    return CheckResults(events=9, anomalies=anomalies, figures=figures, coverage=coverage, **fields)


def diagnosis(found: CheckResults, facts: dict[str, Any] | None = None, **known: Any) -> Diagnosis:
    """As it would be told."""
    return diagnose(found, decide(found, RunFacts(**known)), {**FACTS, **(facts or {})})


def cause(*findings: Finding, **known: Any) -> Cause:
    """The only one."""
    (found,) = diagnosis(results(*findings), **known).causes
    return found


def broken(*faults: Fault) -> Coverage:
    """Of a run with these faults."""
    return Coverage({"send": {"ok": 200}}, faults=[FaultCoverage(fault, None, Span(1, 1), None) for fault in faults])


def settings(**changed: Any) -> dict[str, Any]:
    """Facts of a run that was set up in another way."""
    return {"scenario": {"settings": {**FACTS["scenario"]["settings"], **changed}}}


LOOP = finding(
    "not-leader-loop",
    facts={"client": "c", "refusals": 174, "api": 0, "given_up": 340, "first_ns": 1_000, "last_ns": 9_000_000_000},
)


def test_nothing_found_is_no_cause() -> None:
    """And what was measured is said."""
    found = diagnosis(results())
    assert (found.causes, found.allowed, found.excluded, found.unexplained) == ((), (), (), ())
    assert "watermark lag: measured, none (100 acknowledgements compared)" in map(str, found.measured)


def test_what_was_not_measured_is_neither_none_nor_excluded() -> None:
    """Because nobody looked, or not everywhere."""
    found = results(finding("corrupt"))
    found.anomalies["watermark-behind-ack"].looked_at = 0
    found.anomalies["stall"].unchecked = "it ran out of its budget"
    told = diagnosis(found)
    assert {each.name for each in told.measured if each.outcome == "not measured"} == {
        "watermark lag",
        "partition imbalance",
        "fetch hang",
    }
    assert not {"watermark lag", "partition imbalance", "fetch hang"} & {each.name for each in told.excluded}
    assert "partition imbalance: not measured: it ran out of its budget" in map(str, told.measured)


@pytest.mark.parametrize("listed", [1, 2])
def test_a_node_that_lists_fewer_brokers_is_counted(listed: int) -> None:
    """How many of how many."""
    left_out = [finding("metadata-incomplete", "broker", "always", topic=None, nodes=(1, other)) for other in (2, 3)]
    found = cause(*left_out[: 3 - listed], LOOP)
    assert found.sentence == f"clients cannot find leaders: node 1 lists {listed} of 3 brokers in Metadata"
    assert found.confidence == "certain"
    assert "refused process 6 (Produce) 174 times" in found.because[0]
    assert [each.split()[0] for each in found.remedies] == ["list", "or", "or"]


def test_a_short_list_that_led_nobody_astray_is_not_certain_to_matter() -> None:
    """It is told as what it is."""
    found = cause(finding("metadata-incomplete", "broker", "always", topic=None, nodes=(1, 2)))
    assert found.confidence == "likely"
    assert "no client was seen to go in circles" in found.sentence


def test_one_root_cause_accounts_for_what_follows_from_it() -> None:
    """Loops, waits, and duplicates of a client that was refused: no second cause."""
    follows = [LOOP, finding("stall", "class 2"), finding("no-progress-in-fault"), finding("duplicate", "plain")]
    short = finding("metadata-incomplete", "broker", "always", topic=None, nodes=(1, 2))
    told = diagnosis(results(short, *follows))
    assert [each.name for each in told.causes] == ["clients-cannot-find-leaders"]
    assert told.allowed == ()
    assert {each.anomaly for each in follows} < set(told.causes[0].explains)


def test_two_causes_that_have_nothing_to_do_with_each_other_are_both_told() -> None:
    """Records that rot are not explained by a short list."""
    short = finding("metadata-incomplete", "broker", "always", topic=None, nodes=(1, 2))
    told = diagnosis(results(short, LOOP, finding("corrupt")))
    assert [each.name for each in told.causes] == ["corrupted", "clients-cannot-find-leaders"]


def test_time_outs_of_sends_that_were_refused_are_excluded() -> None:
    """They waited for no answer; others did."""
    rows = [{"f": "send", "error": -192, "name": "_MSG_TIMED_OUT", "type": "info", "count": 340, "classified": True}]
    for more, outcome in ((0, "none"), (1, "seen")):
        rows[0]["count"] = 340 + more
        found = results(LOOP, coverage=Coverage({"send": {"ok": 9, "info": 340}}, errors=rows))
        (told,) = [each for each in diagnosis(found).measured if each.name == "time-outs"]
        assert told.outcome == outcome


def test_a_loop_while_all_agree_is_the_leaders_refusal() -> None:
    """And with a dispute about who leads it is that."""
    assert cause(LOOP).name == "leader-refuses"
    disputed = cause(LOOP, finding("metadata-disagreement", "one epoch"))
    assert disputed.name == "leaders-disputed"


def test_an_impostor_accounts_for_the_marks_of_its_partitions_alone() -> None:
    """Those of others are another cause."""
    impostor = finding("impostor-leader", facts={"answers": 373, "leader": 3, "epoch": 0})
    fell = finding("watermark-regression", "one epoch", "across nodes")
    found = cause(impostor, fell)
    assert found.name == "answers-as-leader"
    assert "which the others say node 3 leads" in found.sentence
    assert "373 answers without an error in all, by nodes that do not lead" in found.because
    elsewhere = replace(fell, partition=1)
    told = diagnosis(results(impostor, fell, elsewhere))
    assert [each.name for each in told.causes] == ["answers-as-leader", "stale-reads"]


def test_who_answers_as_leader_refuses_nobody() -> None:
    """Loops and sends that do not get through are another cause, and its advice names the requests it answered."""
    facts = {"answers": 30, "appends": 0, "fetches": 20, "leader": 3, "epoch": 0}
    impostor = finding("impostor-leader", nodes=(1,), facts=facts)
    dispute = finding(
        "metadata-disagreement", "one epoch", offset=None, nodes=(1, 2),
        facts={"node": 1, "leader": 1, "node_before": 2, "leader_before": 3, "epoch": 0},
    )  # fmt: skip
    refused, waits = replace(LOOP, nodes=(3,)), finding("no-progress-in-fault")
    told = diagnosis(results(impostor, dispute, refused, waits))
    assert [each.name for each in told.causes] == ["leader-refuses", "answers-as-leader"]
    assert told.causes[0].explains == ("not-leader-loop", "no-progress-in-fault")
    assert told.causes[1].remedies[0].startswith("refuse Fetch and ListOffsets with NOT_LEADER_OR_FOLLOWER")
    assert "node 1 names node 1 for p0" in told.causes[1].because
    assert "node 2 names node 3 for p0" in told.causes[1].because


def test_lists_that_conflict_are_told_node_by_node() -> None:
    """A client is sent to a node that names another one: loops come from the dispute. One that names itself refuses."""
    disputes = [
        finding(
            "metadata-disagreement", "one epoch", partition=partition, nodes=(1, 2),
            facts={"node": 1, "leader": 1, "node_before": 2, "leader_before": 2, "epoch": 0},
        )
        for partition in (0, 1)
    ]  # fmt: skip
    told = diagnosis(results(*disputes, replace(LOOP, nodes=(3,))))
    disputed = next(each for each in told.causes if each.name == "leaders-disputed")
    assert disputed.explains == ("metadata-disagreement", "not-leader-loop")
    assert disputed.because[:2] == (
        "node 1 names node 1 for p0 and node 1 for p1",
        "node 2 names node 2 for p0 and node 2 for p1",
    )
    assert told.unexplained == ()
    (refuses, _) = diagnosis(results(*disputes, replace(LOOP, nodes=(1, 2)))).causes
    assert (refuses.name, refuses.confidence) == ("leader-refuses", "likely")
    assert refuses.sentence.endswith("NOT_LEADER from nodes 1 and 2, though their own Metadata names them")


def test_of_two_nodes_that_accuse_each_other_one_may_lead() -> None:
    """It is not said of both that they do not."""
    facts = {"answers": 5, "epoch": 0}
    told = cause(
        finding("impostor-leader", nodes=(1,), facts={**facts, "leader": 2}),
        finding("impostor-leader", nodes=(2,), facts={**facts, "leader": 1}),
        finding("impostor-leader", nodes=(1,), partition=1, facts={**facts, "leader": 3}),
    )
    assert told.sentence == (
        "nodes answer as leaders whom others do not name: nodes 1 and 2 for p0 and p1;"
        " of two that name themselves for p0 one may lead"
    )


def test_a_dispute_accounts_for_loops_in_its_partitions_alone() -> None:
    """Elsewhere those that are named refuse."""
    told = diagnosis(results(finding("metadata-disagreement", "one epoch", partition=1), LOOP))
    assert {each.name for each in told.causes} == {"leaders-disputed", "leader-refuses"}


def test_causes_are_told_by_their_harm_to_acknowledged_data() -> None:
    """Contradicting acknowledgements, then waits, then what nodes say; disputes about what nobody uses come last."""
    row = PartitionRow("t", 0, 2, 2, 0, 0, 1, 1, 1.0, 0, 1, 0)
    found = results(
        finding("metadata-disagreement", "one epoch", topic="unused"),
        finding("log-start-regression"),
        LOOP,
        finding("poll-skip"),
        finding("shared-offset", partition=2),
        figures=Figures(2, 2, table=[row]),
    )
    assert [each.name for each in diagnosis(found).causes] == [
        "offsets-assigned-twice",
        "skipped-by-readers",
        "leader-refuses",
        "log-start-goes-back",
        "leaders-disputed",
    ]


def test_every_cause_has_a_harm() -> None:
    """No misspelt anomaly, and every one of them is judged by the policy."""
    named = {name for family in FAMILIES for name in family.anomalies}
    assert set(HARM_OF) <= named


def test_lost_messages_are_excluded_only_where_all_was_read_back() -> None:
    """Or nobody knows."""
    row = PartitionRow("t", 0, 2, 9, 0, 0, 4, 4, 1.0, 0, 3, 0)
    for missing, unseen, outcome in ((0, 0, "none"), (5, 0, "not excluded"), (0, 3, "not excluded")):
        figures = Figures(9, 9, table=[replace(row, missing=missing)])
        unread = [finding("unseen", offset=offset) for offset in range(unseen)]
        told = diagnosis(results(LOOP, *unread, figures=figures))
        (lost,) = [each for each in told.measured if each.name == "lost messages"]
        assert lost.outcome == outcome
        assert ("lost messages" in {each.name for each in told.excluded}) == (outcome == "none")
        assert [str(missing or unseen) in each.sentence for each in told.not_excluded] == [True] * (outcome != "none")


def test_ends_that_fall_beside_offsets_given_twice_are_no_data_shown_too_early() -> None:
    """They fall in ListOffsets alone."""
    ahead, shared = finding("watermark-ahead", "later append"), finding("shared-offset")
    fell = finding("end-offset-regression", "one epoch", "same node")
    told = diagnosis(results(ahead, shared, fell))
    assert [each.name for each in told.causes] == ["offsets-assigned-twice", "end-offset-goes-back"]


def test_one_node_id_at_several_addresses_is_certain() -> None:
    """And is told as that."""
    told = cause(finding("coordinator-mismatch", "address", topic=None, partition=None, facts={"thing": "node 7"}))
    assert (told.name, told.confidence) == ("coordinator-differs", "certain")
    assert "1 node id at several addresses" in told.sentence
    assert "a node id of its own" in told.remedies[0]


@pytest.mark.parametrize(("group", "alone"), [("g", True), ("h", False)])
def test_a_coordinator_that_differs_is_the_cause_of_its_own_group_alone(group: str, *, alone: bool) -> None:
    """What others are told is another one."""
    differs = finding("coordinator-mismatch", "steadfast", topic=None, facts={"thing": "group g"})
    told = diagnosis(results(differs, finding("committed-offset-vanished", facts={"group": group})))
    assert [each.name for each in told.causes] == [*([] if alone else ["offsets-forgotten"]), "coordinator-differs"]


def test_where_not_all_findings_were_kept_none_is_ruled_out() -> None:
    """The partitions of those that were not are not known."""
    impostor = finding("impostor-leader")
    elsewhere = finding("watermark-regression", "one epoch", "across nodes", partition=9)
    told = diagnosis(results(impostor, elsewhere, counts={"impostor-leader": 30}))
    assert [each.name for each in told.causes] == ["answers-as-leader"]


def test_a_deposed_leader_is_stale_and_in_the_wake_of_a_fault_allowed() -> None:
    """It cannot know better then."""
    stale = finding("impostor-leader", "deposed")
    assert cause(stale).name == "stale-leader"
    fault = FaultCoverage(Fault(1, "isolate", 1, 10_000_000_000, bit=True, detail="cut off"), None, Span(1, 1), None)
    found = results(stale, coverage=Coverage({"send": {"ok": 9}}, faults=[fault]))
    told = diagnosis(found, faults=(PlannedFault("isolate", changes_leaders=True),))
    assert told.causes == ()
    assert [each.name for each in told.allowed] == ["stale-leader"]


def test_a_frozen_mark_is_the_produce_path_only_if_followers_must_have_the_record() -> None:
    """With acks=1, or one replica that is enough, replication may be at fault as well."""
    frozen = finding("watermark-frozen", "one epoch", facts={"mark": 300, "proofs": 351})
    tail = finding("lost-tail")
    found = cause(frozen, tail)
    assert found.sentence.endswith("the produce path, not replication")
    assert found.confidence == "certain"
    assert "351 offsets at or above it were acknowledged meanwhile, with acks=all" in found.because
    for weaker in (settings(acks="1"), settings(min_insync_replicas=1), settings(min_insync_replicas=None)):
        (other,) = diagnosis(results(frozen, tail), weaker).causes
        assert other.sentence.endswith("the produce path, or replication")
        assert other.confidence == "likely"


def test_a_mark_that_stands_above_lost_records_is_not_frozen() -> None:
    """More is missing below it than above it."""
    frozen = finding("watermark-frozen", "one epoch", facts={"mark": 680, "proofs": 1})
    told = diagnosis(results(frozen, finding("lost-write"), counts={"lost-write": 348}))
    assert [each.name for each in told.causes] == ["acknowledged-then-lost"]


def test_a_mark_that_fell_and_then_stood_went_back() -> None:
    """A frozen one never falls."""
    told = cause(finding("watermark-frozen", "one epoch"), finding("end-offset-regression", "one epoch", "same node"))
    assert told.name == "end-offset-goes-back"


@pytest.mark.parametrize(("resends", "confidence"), [(2, "certain"), (3, "likely")])
def test_marks_that_fall_after_resends_are_the_retrys(resends: int, confidence: str) -> None:
    """Surely, if they do so after most of them."""
    found = results(finding("retry-watermark-regression"), finding("watermark-regression", "one epoch", "same node"))
    found.anomalies["retry-watermark-regression"].looked_at = resends
    (told,) = diagnosis(found).causes
    assert (told.name, told.confidence) == ("watermark-not-idempotent", confidence)


def test_marks_above_what_offsets_given_twice_leave_are_no_cause() -> None:
    """Unless marks fell, the acknowledgements are wrong, and not the marks."""
    ahead, shared = finding("watermark-ahead", "later append"), finding("shared-offset")
    assert cause(ahead, shared).name == "offsets-assigned-twice"
    fell = finding("watermark-regression", "one epoch", "same node")
    told = diagnosis(results(ahead, shared, fell))
    assert [each.name for each in told.causes] == ["offsets-assigned-twice", "shown-before-replicated"]


def test_offsets_given_twice_with_one_request_in_flight_did_not_meet_in_flight() -> None:
    """That is said against it, and no such mechanism is claimed."""
    (many,) = diagnosis(results(finding("shared-offset"))).causes
    (one,) = diagnosis(results(finding("shared-offset")), settings(max_in_flight=1)).causes
    assert "in flight together" in many.sentence
    assert "in flight together" not in one.sentence
    assert "cannot have met" in one.against[0]


def test_offsets_given_twice_one_after_the_other_did_not_meet_in_flight_either() -> None:
    """As the order of time tells."""
    after = finding("not-linearizable", "append")
    (told,) = diagnosis(results(finding("shared-offset"), after)).causes
    assert told.name == "offsets-assigned-twice"
    assert "in flight together" not in told.sentence


@pytest.mark.parametrize("tags", [("end", "ahead"), ("end", "behind"), ("end", "fell", "older epoch")])
def test_ends_say_nothing_about_sends(tags: tuple[str, ...]) -> None:
    """However many contradict each other: sends of one offset may have been under way together all the same."""
    shared, end = finding("shared-offset"), finding("not-linearizable", *tags)
    (told,) = diagnosis(results(shared, end, counts={"not-linearizable": 500})).causes
    assert (told.name, told.against) == ("offsets-assigned-twice", ())
    assert "in flight together" in told.sentence
    coverage = broken(Fault(1, "leader-kill", 2_000, 8_000_000_000, bit=True))
    gone = results(shared, end, finding("lost-write"), counts={"not-linearizable": 500}, coverage=coverage)
    assert [each.name for each in diagnosis(gone).causes] == ["offsets-assigned-twice"]


def test_of_ends_and_appends_as_many_came_one_after_the_other_as_can_be_shown() -> None:
    """Of each sort some are kept: how many of all are appends is known from below and from above."""
    shared = [finding("shared-offset", offset=offset) for offset in range(4)]
    order = [finding("not-linearizable", *tags) for tags in (("append",), ("end", "ahead"), ("end", "ahead"))]
    (told,) = diagnosis(results(*shared, *order, counts={"not-linearizable": 4})).causes
    assert told.against == ("up to 2 of them to sends that came one after the other",)
    coverage = broken(Fault(1, "leader-kill", 2_000, 8_000_000_000, bit=True))
    lost = [finding("lost-write", offset=offset) for offset in range(4)]
    mixed = results(*shared, *order, *lost, counts={"not-linearizable": 400}, coverage=coverage)
    assert [each.name for each in diagnosis(mixed).causes] == ["offsets-assigned-twice"]
    appends = results(*shared, order[0], *lost, counts={"not-linearizable": 4}, coverage=coverage)
    assert [each.name for each in diagnosis(appends).causes] == ["leader-lacked-acknowledged"]


@pytest.mark.parametrize(
    ("injected_ns", "healed_ns", "bit", "lost", "name"),
    [
        (2_000, 9_500_000_000, True, 2, "leader-lacked-acknowledged"),
        (2_000, None, True, 1, "leader-lacked-acknowledged"),
        (2_000, 9_500_000_000, False, 2, "offsets-assigned-twice"),  # nothing was broken
        (2_000, 9_500_000_000, True, 0, "offsets-assigned-twice"),  # nothing is lost
        (9_100_000_000, 9_500_000_000, True, 2, "offsets-assigned-twice"),  # it came after both
        (500, 900, True, 2, "offsets-assigned-twice"),  # it was over before the first
    ],
)
def test_offsets_given_away_again_after_a_fault_were_cut_off(
    injected_ns: int, healed_ns: int | None, *, bit: bool, lost: int, name: str
) -> None:
    """By a leader that had less than was acknowledged; not if nothing broke between the two, or nothing is lost."""
    shared = [finding("shared-offset", offset=offset) for offset in (7, 8)]
    later = [finding("not-linearizable", "append", offset=offset) for offset in (7, 8)]
    gone = [finding("lost-write", offset=offset) for offset in range(7, 7 + lost)]
    fault = Fault(1, "late-rejoin", injected_ns, 8_000_000_000, healed_ns, bit=bit, detail="node 2 lost its disk")
    coverage = Coverage({"send": {"ok": 200}}, faults=[FaultCoverage(fault, None, Span(1, 1), None)])
    told = diagnosis(results(*shared, *later, *gone, coverage=coverage))
    assert [each.name for each in told.causes] == [name]
    assert told.unexplained == ()
    if name == "leader-lacked-acknowledged":
        assert "2 offsets given away again" in told.causes[0].sentence
        assert any("node 2 lost its disk" in each for each in told.causes[0].because)
        fell = finding("end-offset-regression", "older epoch", "across nodes")
        both = diagnosis(results(*shared, *later, *gone, fell, coverage=coverage))
        assert [each.name for each in both.causes] == [name]


CUT_OFF = (finding("shared-offset"), finding("realtime-order"), finding("lost-write"))


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([Fault(1, "kill", 2_000, 8_000_000_000, bit=True)], "before and after kill began"),
        ([Fault(1, "kill", 500, 9_500_000_000, 9_800_000_000, bit=True)], "while kill lasted"),  # both are inside
        ([Fault(1, "kill", 500, 900, 2_000, bit=True)], "around kill"),  # the second came when all was whole
        ([Fault(1, "gone-since", 2_000, bit=True)], "before and after gone-since began"),  # it may change leaders
    ],
)
def test_how_a_leader_change_lies_to_acknowledgements_is_said_as_it_is(faults: list[Fault], said: str) -> None:
    """What was acknowledged while it lasted does not lie on both sides of it."""
    (told,) = diagnosis(results(*CUT_OFF, coverage=broken(*faults))).causes
    assert told.name == "leader-lacked-acknowledged"
    assert told.because[1].endswith(f"apart (median), {said}")


@pytest.mark.parametrize("name", ["latency", "client-pause", "min-isr", "replication-cut"])
def test_a_fault_that_changes_no_leader_is_no_new_leader(name: str) -> None:
    """Whatever it does, and although it bit."""
    told = diagnosis(results(*CUT_OFF, coverage=broken(Fault(1, name, 2_000, 8_000_000_000, bit=True))))
    assert [(each.name, each.confidence) for each in told.causes] == [("offsets-assigned-twice", "certain")]


def test_a_log_that_was_cut_off_behind_readers_that_kept_up_is_no_broker_that_counts_wrong() -> None:
    """Nothing is lost then: both values were read where they were acknowledged."""
    shared, later, _ = CUT_OFF
    coverage = broken(Fault(1, "last-standing", 2_000, 8_000_000_000, bit=True))
    two, moved = finding("inconsistent-offset"), finding("duplicate", "idempotent")
    (told,) = diagnosis(results(shared, later, two, coverage=coverage)).causes
    assert (told.name, told.confidence) == ("leader-lacked-acknowledged", "likely")
    assert told.sentence.endswith("1 offset given away again")
    assert "at no other" in told.because[2]
    (told,) = diagnosis(results(shared, later, two, moved, coverage=coverage)).causes
    assert (told.name, told.confidence) == ("offsets-assigned-twice", "likely")  # the acknowledgement may be wrong


@pytest.mark.parametrize("name", ["leader-kill", "latency"])
@pytest.mark.parametrize("after", [True, False])
def test_offsets_given_twice_are_certain_only_if_no_new_leader_can_have_done_it(name: str, *, after: bool) -> None:
    """One that lacks what was acknowledged gives it away again, but not to sends that are under way together."""
    found = [finding("shared-offset"), *([finding("realtime-order")] if after else [])]
    (told,) = diagnosis(results(*found, coverage=broken(Fault(1, name, 2_000, 8_000_000_000, bit=True)))).causes
    doubtful = after and name == "leader-kill"
    assert (told.name, told.confidence) == ("offsets-assigned-twice", "likely" if doubtful else "certain")
    assert any("before and after leader-kill began: a new leader" in each for each in told.against) == doubtful
    assert ("see whether it is gone without leader-kill" in told.remedies) == doubtful


@pytest.mark.parametrize("fault", ["leader-kill", ""])
@pytest.mark.parametrize(("partition", "shared", "lost"), [(2, 2, 1), (2, 2, 10_000), (0, 2, 10_000), (2, 50, 10_000)])
def test_offsets_given_twice_account_for_no_more_losses_than_they_can_have_cost(
    partition: int, shared: int, lost: int, fault: str
) -> None:
    """Those of other partitions, and those that are too many, are another cause."""
    twice = [finding(name, offset=offset) for name in ("shared-offset", "realtime-order") for offset in (7, 8)]
    twice += [finding("inconsistent-offset", offset=7), finding("inconsistent-offset", offset=8)]
    gone = finding("lost-write", partition=partition)
    coverage = broken(*([Fault(1, fault, 2_000, 8_000_000_000, bit=True)] if fault else []))
    counts = {"shared-offset": shared, "realtime-order": shared, "inconsistent-offset": shared, "lost-write": lost}
    told = diagnosis(results(*twice, gone, counts=counts, coverage=coverage))
    first = "leader-lacked-acknowledged" if fault else "offsets-assigned-twice"
    assert [each.name for each in told.causes] == [first, "acknowledged-then-lost"]
    assert "lost" not in " ".join((told.causes[0].sentence, *told.causes[0].because))
    few = diagnosis(results(*twice, replace(gone, partition=0), coverage=coverage))
    assert [each.name for each in few.causes] == [first]
    assert "1 acknowledged message lost" in " ".join((few.causes[0].sentence, *few.causes[0].because))


def test_what_is_seen_in_other_partitions_does_not_follow_from_offsets_given_twice() -> None:
    """It is told by itself, or unexplained."""
    told = diagnosis(results(finding("shared-offset"), finding("poll-skip", partition=2)))
    assert [each.name for each in told.causes] == ["offsets-assigned-twice", "skipped-by-readers"]


def test_each_offset_may_have_been_given_away_again_by_another_leader_change() -> None:
    """But one that no change lies between was not."""
    more = [replace(each, offset=6, time_ns=20_000_000_000, until_ns=30_000_000_000) for each in CUT_OFF]
    first = Fault(1, "double-kill", 2_000, 8_000_000_000, 8_500_000_000, bit=True)
    second = Fault(2, "double-kill", 21_000_000_000, 22_000_000_000, 23_000_000_000, bit=True)
    (told,) = diagnosis(results(*CUT_OFF, *more, coverage=broken(first, second))).causes
    assert told.name == "leader-lacked-acknowledged"
    (told,) = diagnosis(results(*CUT_OFF, *more, coverage=broken(first))).causes
    assert (told.name, told.confidence) == ("offsets-assigned-twice", "certain")


def test_offsets_of_sends_under_way_together_were_not_cut_off() -> None:
    """Whatever was broken meanwhile: a leader that lacks something comes later."""
    fault = Fault(1, "leader-kill", 2_000, 8_000_000_000, bit=True)
    coverage = Coverage({"send": {"ok": 200}}, faults=[FaultCoverage(fault, None, Span(1, 1), None)])
    told = diagnosis(results(finding("shared-offset"), finding("lost-write"), coverage=coverage))
    assert [each.name for each in told.causes] == ["offsets-assigned-twice"]


def test_what_a_client_counts_on_from_no_offset_is_not_given_twice() -> None:
    """Offsets 0, 1, 2 and so on; any other is."""
    none = finding("false-ack", "no offset", offset=-1)
    shared = [finding("shared-offset", offset=offset) for offset in (0, 1)]
    assert cause(none, *shared).name == "acknowledged-without-offset"
    told = diagnosis(results(none, *shared, finding("shared-offset", offset=9)))
    assert {each.name for each in told.causes} == {"acknowledged-without-offset", "offsets-assigned-twice"}


def test_what_the_final_read_does_not_get_to_either_hangs() -> None:
    """Class 2 is certain; a partition that is late, and never read again, is likely."""
    late, unseen = finding("stall", "class 3"), finding("unseen")
    assert cause(finding("stall", "class 2"), unseen).confidence == "certain"
    found = cause(late, unseen)
    assert (found.name, found.confidence) == ("fetch-hangs", "likely")
    assert cause(late).name == "partition-behind"


def test_what_lies_behind_an_open_transaction_may_not_hang() -> None:
    """Readers of what is committed wait for its end."""
    figures = Figures(sent=2, acknowledged=2, transactions={"committed": 1})
    (told,) = diagnosis(results(finding("unseen"), figures=figures)).causes
    assert told.confidence == "possible"
    stuck = finding("lso-stuck")
    assert [each.name for each in diagnosis(results(stuck, finding("unseen"), figures=figures)).causes] == [
        "hanging-transaction"
    ]


def test_rotten_records_account_for_no_more_lost_ones_than_there_are() -> None:
    """The rest is another cause."""
    lost, rotten = finding("lost-write"), finding("corrupt")
    assert cause(lost, rotten).name == "corrupted"
    told = diagnosis(results(lost, rotten, counts={"lost-write": 5, "corrupt": 4}))
    assert [each.name for each in told.causes] == ["corrupted", "acknowledged-then-lost"]


@pytest.mark.parametrize("bit", [True, False])
def test_losses_are_certain_to_be_the_brokers_only_without_any_fault(*, bit: bool) -> None:
    """Also one that nobody saw bite was there; one that was never injected was not."""
    fault = Fault(1, "isolate", 500, 2_000, bit=bit, detail="node 1 is cut off")
    (told,) = diagnosis(results(finding("lost-write"), coverage=broken(fault))).causes
    assert (told.name, told.confidence) == ("acknowledged-then-lost", "likely")
    assert ", with isolate (acks=all)" in told.sentence
    assert ("isolate: node 1 is cut off" in told.because) == bit
    assert told.against == (() if bit else ("isolate was not seen to bite",))
    assert "leader changes" in told.remedies[0]
    (told,) = diagnosis(results(finding("lost-write"), coverage=broken(Fault(1, "isolate", failed=True)))).causes
    assert told.confidence == "certain"
    assert "without any fault" in told.sentence


def torn(missing: int, writes: int = 8) -> Finding:
    """A transaction of which so many writes are not there."""
    facts = {"writes": writes, "visible": writes - missing, "missing": missing}
    return finding("torn", facts=facts, offset=missing)


@pytest.mark.parametrize(
    ("found", "counts", "alone"),
    [
        ([torn(3), torn(2)], {"lost-write": 5}, True),
        ([torn(3), torn(2)], {"lost-write": 6}, False),
        ([torn(3), torn(2)], {"lost-write": 19, "torn": 4}, True),  # seven of each that was not kept, at most
        ([torn(3), torn(2)], {"lost-write": 20, "torn": 4}, False),
        ([torn(3), torn(2)], {"lost-write": 10_000, "torn": 4}, False),
        ([finding("torn")], {"lost-write": 2}, False),
    ],
)
def test_torn_transactions_account_for_no_more_losses_than_they_lack(
    found: list[Finding], counts: dict[str, int], *, alone: bool
) -> None:
    """Wherever those are; the rest is another cause."""
    told = diagnosis(results(*found, finding("lost-write", partition=3), counts=counts))
    assert [each.name for each in told.causes] == ["torn-transactions", *([] if alone else ["acknowledged-then-lost"])]


@pytest.mark.parametrize("lost", [8, 9])
@pytest.mark.parametrize("tag", ["commit", "abort"])
def test_a_commit_that_became_an_abort_lacks_all_its_writes(tag: str, lost: int) -> None:
    """With torn ones beside it or not; what was aborted for certain lacks nothing."""
    facts = {"writes": 8, **({"aborted": 8} if tag == "commit" else {"visible": 8})}
    ended = finding("wrong-outcome", tag, facts=facts, topic=None, partition=None)
    for more in ([], [torn(2)]):
        told = diagnosis(results(*more, ended, finding("lost-write"), counts={"lost-write": lost + 2 * len(more)}))
        names = {each.name for each in told.causes}
        assert ("acknowledged-then-lost" in names) == (lost == 9 or tag == "abort")


@pytest.mark.parametrize("resends", [0, 3])
def test_the_clients_own_duplicates_are_allowed_and_explained(resends: int) -> None:
    """Without idempotence; with resends at the taps that is certain."""
    figures = Figures(sent=2, acknowledged=2, resends=resends)
    told = diagnosis(results(finding("duplicate", "plain"), figures=figures))
    assert told.causes == ()
    assert [(each.name, each.confidence) for each in told.allowed] == [
        ("client-duplicates", "certain" if resends else "likely")
    ]


@pytest.mark.parametrize(
    ("copies", "changed", "confidence"),
    [
        (163, {}, "certain"),
        (164, {}, "likely"),
        (10_000, {}, "likely"),
        (16, {"value_bytes": 1_000}, "certain"),
        (17, {"value_bytes": 1_000}, "likely"),
        (10_000, {"batch_size": 1_000_000}, "certain"),
        (1, {"value_bytes": 900_000}, "certain"),
    ],
)
def test_one_resend_does_not_make_any_number_of_duplicates_the_clients(
    copies: int, changed: dict[str, int], confidence: str
) -> None:
    """No more than a batch can hold."""
    found = results(finding("duplicate", "plain"), counts={"duplicate": copies}, figures=Figures(resends=1))
    (told,) = diagnosis(found, settings(**changed)).allowed
    assert (told.name, told.confidence) == ("client-duplicates", confidence)
    assert bool(told.against) == (confidence == "likely")


def test_duplicates_that_may_be_the_clients_are_no_more_than_likely() -> None:
    """An idempotent confluent-kafka, and a leader change."""
    faults = (PlannedFault("leader-kill", changes_leaders=True),)
    found = results(finding("duplicate", "idempotent"), figures=Figures(resends=2))
    (told,) = diagnosis(found, client="confluent-kafka", faults=faults).causes
    assert (told.name, told.confidence) == ("client-duplicates", "likely")
    assert any("possibly the client" in each for each in told.against)


def test_losses_with_acks_1_are_told_with_the_leader_change_that_caused_them() -> None:
    """They are allowed, and explained."""
    fault = FaultCoverage(Fault(1, "leader-kill", 500, 2_000, bit=True, detail="leader 1 → 3"), None, Span(1, 1), None)
    found = results(finding("lost-write", until_ns=None), coverage=Coverage({"send": {"ok": 9}}, faults=[fault]))
    faults = (PlannedFault("leader-kill", changes_leaders=True),)
    told = diagnosis(found, settings(acks="1"), acks="1", faults=faults)
    assert told.causes == ()
    (why,) = told.allowed
    assert (why.name, why.confidence, why.against) == ("weak-acks", "certain", ())
    assert why.because[0] == "leader-kill: leader 1 → 3"


@pytest.mark.parametrize(
    ("faults", "confidence"),
    [
        ([Fault(1, "leader-kill", 500, 900, 1_000, bit=True)], "certain"),  # it was being healed
        ([Fault(1, "leader-kill", 500, 900, 950, bit=True)], "possible"),  # all was over before it was written
        ([Fault(1, "leader-kill", 500, 900, 950, bit=True), Fault(2, "latency", 960, bit=True)], "possible"),
        (
            [Fault(1, "leader-kill", 500, 2_000), Fault(2, "latency", 500, 2_000, bit=True)],
            "likely",
        ),  # it did not bite
        (
            [Fault(1, "leader-kill", 500, 900, 950, bit=True), Fault(2, "leader-kill", 5_000, bit=True)],
            "certain",
        ),
    ],
)
def test_only_a_leader_change_that_can_have_taken_it_makes_a_loss_with_acks_1_certain(
    faults: list[Fault], confidence: str
) -> None:
    """Neither a fault that changes no leader, nor one that nobody saw bite, nor one that was over."""
    planned = (PlannedFault("leader-kill", changes_leaders=True), PlannedFault("latency", changes_leaders=False))
    found = results(finding("lost-write", until_ns=None), coverage=broken(*faults))
    (why,) = diagnosis(found, settings(acks="1"), acks="1", faults=planned).allowed
    assert (why.name, why.confidence) == ("weak-acks", confidence)
    assert bool(why.against) == (confidence != "certain")
    assert not any("latency" in each for each in why.because)


def test_every_loss_with_acks_1_needs_its_leader_change() -> None:
    """One that was written when all was over is not explained by what took another one."""
    coverage = broken(Fault(1, "leader-kill", 500, 900, 2_000, bit=True))
    lost = [finding("lost-write", until_ns=None, time_ns=time_ns, offset=time_ns) for time_ns in (1_000, 3_000)]
    planned = (PlannedFault("leader-kill", changes_leaders=True),)
    (why,) = diagnosis(results(*lost, coverage=coverage), settings(acks="1"), acks="1", faults=planned).allowed
    assert (why.name, why.confidence) == ("weak-acks", "likely")


def test_losses_with_acks_1_beside_those_of_no_leader_change_are_hardly_explained_by_it() -> None:
    """Whatever loses what a leader keeps may have lost the others, too; how many of each there are is not known."""
    coverage = broken(Fault(1, "leader-kill", 500, 900, 2_000, bit=True))
    lost = [finding("lost-write", until_ns=None), finding("lost-write", "settled", until_ns=None, time_ns=3_000)]
    planned = (PlannedFault("leader-kill", changes_leaders=True),)
    told = diagnosis(results(*lost, coverage=coverage), settings(acks="1"), acks="1", faults=planned)
    assert [cause.name for cause in told.causes] == ["acknowledged-then-lost"]
    (why,) = told.allowed
    assert (why.name, why.confidence, len(why.against)) == ("weak-acks", "possible", 1)
    assert "2 messages" not in why.sentence


def test_a_reorder_that_no_retry_can_have_caused_is_told_though_it_is_allowed() -> None:
    """Only where the taps saw that nothing was sent again, and without any fault."""
    found = results(finding("nonmonotonic-send", "plain"))
    (told,) = diagnosis(found).causes
    assert (told.name, told.confidence) == ("appended-out-of-order", "likely")
    assert "the verdict allows it" in told.against[0]
    assert diagnosis(found, {"tap": {}}).causes == ()
    found.figures.resends = 1
    assert diagnosis(found).causes == ()


def test_a_coordinator_that_refuses_again_and_again_is_told() -> None:
    """Without a fault, and more often than not; a moment of it is no cause."""
    for count, ok, told in ((5, 4, 1), (5, 5, 0), (4, 0, 0)):
        row = {"f": "committed", "error": 16, "name": "NOT_COORDINATOR", "type": "info", "count": count}
        covered = Coverage({"committed": {"ok": ok, "info": count}}, errors=[{**row, "classified": True}])
        assert len(diagnosis(results(coverage=covered)).causes) == told


def test_a_log_line_is_no_evidence() -> None:
    """However much it looks like a cause."""
    still = {"topic": "t", "partition": 0, "class": 2, "since": 0, "until": 9, "at": 5, "lines": 99}
    assert diagnosis(results(summaries={"broker logs": {"lines": [], "stood_still": [still]}})).causes == ()


def test_what_no_rule_knows_is_unexplained() -> None:
    """No cause is made up."""
    told = diagnosis(results(finding("something-new")))
    assert told.causes == ()
    assert told.unexplained == ("something-new ×1",)


def test_what_a_history_with_holes_may_have_lost_is_no_cause() -> None:
    """The verdict says what is missing."""
    told = diagnosis(results(finding("phantom"), has_holes=True))
    assert (told.causes, told.unexplained) == ((), ())


def test_no_cause_is_surer_than_its_findings() -> None:
    """Nobody knows how the run was set up, and that may permit it."""
    (told,) = diagnosis(results(finding("shared-offset")), known=False).causes
    assert told.confidence == "possible"
    assert any("how the run was set up is unknown" in each for each in told.against)


@pytest.mark.parametrize("tags", TAGS)
def test_every_anomaly_is_explained_or_said_to_be_unexplained(tags: tuple[str, ...]) -> None:
    """Alone, with no facts, numbers or places: no rule trips over it, and none is lost."""
    for anomaly in (*POLICIES, "corrupt", "misrouted", "torn", "G2"):
        bare = Finding(anomaly, None, None, None, (), (), (), None, None, (), tags, "")
        told = diagnosis(results(bare))
        explained = {name for each in (*told.causes, *told.allowed) for name in each.explains}
        marks = {seen.mark.status for seen in decide(results(bare), RunFacts()).seen}
        assert anomaly in explained or told.unexplained or marks == {"allowed"}


def test_a_diagnosis_can_be_kept() -> None:
    """As JSON, with pointers to what proves it."""
    row = PartitionRow("t", 0, 2, 2, 0, 0, 1, 1, 1.0, 0, 1, 0)
    found = results(finding("lost-write", detail="acknowledged"), figures=Figures(2, 2, table=[row]))
    told = diagnosis(found).as_json()
    assert [each["name"] for each in told["causes"]] == ["acknowledged-then-lost"]
    first = told["causes"][0]["first"]
    assert (first["place"], first["events"], first["detail"]) == ("t-0@5", [9], "acknowledged")
    assert {"name": "watermark lag", "outcome": "none"}.items() <= told["measured"][0].items()


def test_the_first_counterexample_is_the_first_in_time() -> None:
    """Of those that prove the cause; one without a time only if there is no other."""
    late, early, undated = (finding("lost-write", time_ns=time, offset=time) for time in (9, 3, None))
    assert Cause("c", "s", "certain", (late, undated, early)).first == early
    assert Cause("c", "s", "certain", (undated,)).first == undated
    assert Cause("c", "s", "certain").first is None


def test_the_lag_of_a_watermark_is_the_widest_contradiction() -> None:
    """And not the time from the first to the last one."""
    behind = {"offset": 297, "x_at": 14_990_000_000, "y_at": 16_115_000_000, "y_node": 3, "proofs": 5}
    frozen = {"mark": 300, "offset": 302, "x_at": 15_036_000_000, "y_at": 29_485_000_000, "proofs": 351}
    for anomaly, facts, lag in (
        ("watermark-behind-ack", behind, "1.1 s"),
        ("watermark-frozen", frozen, "14.4 s"),
    ):
        told = diagnosis(results(finding(anomaly, "one epoch", facts=facts)))
        assert str(told.measured[0]) == f"watermark lag: measured, up to {lag}, in p0"


def test_every_cause_is_documented() -> None:
    """With its evidence, in docs/diagnosis.md."""
    root = Path(__file__).parents[3]
    sources = [path.read_text(encoding="utf-8") for path in (root / "harness" / "judging" / "diagnosis").glob("*.py")]
    names = {name for source in sources for name in re.findall(r'\bCause\(\s*"([a-z-]+)"', source)}
    page = (root / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    assert len(names) > 30
    assert not [name for name in names | {"corrupted", "misrouted", "weak-acks"} if name not in page]


def test_a_reader_whose_client_asked_again_asks_for_another_client() -> None:
    """And not for another broker; one that did not is the broker's."""
    again = finding("nonmonotonic-poll", "client asked again")
    found = cause(again)
    assert (found.name, found.confidence, found.remedies) == (
        "reader-goes-back", "likely", ("repeat the run with another client",),
    )  # fmt: skip
    (both,) = diagnosis(results(again, finding("nonmonotonic-poll", partition=1))).causes
    assert both.remedies == ("return from Fetch nothing below the offset that is asked for",)
