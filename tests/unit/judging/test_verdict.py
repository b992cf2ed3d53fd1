"""What makes a run valid, invalid or unknown, without a history: results are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures
from harness.foundation.errors import Exit
from harness.foundation.reasons import RUN_FAILED, Reason
from harness.judging.policies import PlannedFault, RunFacts
from harness.judging.verdict import Verdict, decide

KILL = PlannedFault("leader-kill", changes_leaders=True)
FACTS = RunFacts(acks="all", idempotence=True, client="kafka-python", faults=(KILL,), probes=True, exchanges=900)
GOOD_FAULT = FaultCoverage(
    Fault(1, "leader-kill", injected_ns=10, undone_ns=20, bit=True), Span(5, 5), Span(3, 3), Span(5, 5), Span(3, 3)
)


def finding(anomaly: str, *tags: str, processes: tuple[int, ...] = (1,), until_ns: int | None = None) -> Finding:
    """One at offset 7 of t-0; a regression while the fault of `GOOD_FAULT` lasts."""
    time_ns = 15 if "regression" in anomaly else 5
    return Finding(anomaly, "t", 0, 7, (1,), processes, (), time_ns, until_ns, (1,), tags, "what was seen")


def results(*findings: Finding, **changes: Any) -> CheckResults:
    """A run that covered everything, with these findings."""
    names = ("lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "inconsistent-offset",
             "shared-offset", "false-ack", "corrupt", "misrouted", "watermark-regression",
             "end-offset-regression")  # fmt: skip
    anomalies = {name: Anomaly(name, "", looked_at=100) for name in names}
    for one in findings:
        anomalies[one.anomaly].found += 1
        anomalies[one.anomaly].findings.append(one)
    covered = Coverage(
        operations={"send": {"ok": 13}},
        records=26,
        load_records=13,
        probes=[{"api": 1, "node": 1, "asked": 9, "answered": 9}],
        faults=[GOOD_FAULT],
        finals_complete=1,
    )
    whole = CheckResults(events=100, anomalies=anomalies, coverage=covered)
    coverage_changes = changes.pop("coverage", {})
    return replace(whole, coverage=replace(covered, **coverage_changes), **changes)


def said(verdict: Verdict) -> tuple[str, ...]:
    """The sentences of its reasons."""
    return tuple(reason.sentence for reason in verdict.reasons)


def test_a_run_that_covered_everything_and_shows_nothing_is_valid() -> None:
    """With no reasons, and how much was looked for."""
    verdict = decide(results(), FACTS)
    assert (verdict.outcome, verdict.reasons, verdict.exit_code) == ("valid", (), Exit.VALID)
    assert verdict.looked_for == 13


@pytest.mark.parametrize(("until_ns", "mark"), [(9, "illegal"), (10, "allowed"), (None, "allowed")])
@pytest.mark.parametrize("anomaly", ["shared-offset", "inconsistent-offset"])
def test_no_leader_change_excuses_what_came_before_it(anomaly: str, until_ns: int | None, mark: str) -> None:
    """With acks=1 one offset may be given away twice by two leaders, and never by one."""
    verdict = decide(results(finding(anomaly, until_ns=until_ns)), replace(FACTS, acks="1"))
    assert verdict.seen[0].mark.status == mark


@pytest.mark.parametrize("anomaly", ["lost-write", "lost-tail", "unseen"])
@pytest.mark.parametrize("weak", [{"acks": "1"}, {"unclean_election": True}])
def test_no_leader_change_excuses_what_was_lost_when_all_was_over(anomaly: str, weak: dict[str, Any]) -> None:
    """What was acknowledged by a leader that went on leading has to be there, with whatever acks."""
    facts = replace(FACTS, **weak)
    assert decide(results(finding(anomaly)), facts).seen[0].mark.status == "allowed"
    verdict = decide(results(finding(anomaly), finding(anomaly, "settled")), facts)
    assert (verdict.outcome, verdict.seen[0].mark.status) == ("invalid", "illegal")


UNSEEN_RETRIES = Figures(unsettled=0)


@pytest.mark.parametrize(
    ("figures", "faults", "status"),
    [
        (UNSEEN_RETRIES, (), "illegal"),
        (UNSEEN_RETRIES, (KILL,), "allowed"),  # a client may have sent it before, and no tap saw it
        (replace(UNSEEN_RETRIES, resends=1), (), "allowed"),
        (replace(UNSEEN_RETRIES, unsettled=1), (), "allowed"),
        (Figures(), (), "allowed"),  # no taps: nobody knows
    ],
)
def test_a_duplicate_of_what_was_sent_once_is_the_brokers(
    figures: Figures, faults: tuple[PlannedFault, ...], status: str
) -> None:
    """Without idempotence only a retry excuses it, and the taps would have seen that."""
    facts = replace(FACTS, idempotence=False, faults=faults)
    assert decide(results(finding("duplicate", "plain"), figures=figures), facts).seen[0].mark.status == status


def test_what_is_unproven_is_never_valid() -> None:
    """Whatever else was covered."""
    gap = Anomaly("gap", "", looked_at=9, found=1, findings=[finding("gap")])
    whole = results(coverage={"operations": {"send": {"ok": 13}, "final": {"ok": 1}}})
    whole.anomalies["gap"] = gap
    verdict = decide(whole, replace(FACTS, imported=True))
    assert (verdict.outcome, verdict.seen[0].mark.status) == ("unknown", "unproven")
    assert said(verdict)[0].startswith("gap was seen: ")


def with_fault(fault: Fault, **spans: Any) -> dict[str, Any]:
    """A run that had this fault alone."""
    return {"faults": [replace(GOOD_FAULT, fault=fault, **spans)]}


RECREATE = PlannedFault("recreate-topic", changes_leaders=True, blocks=True, deletes=True)
UNCLEAN = PlannedFault("unclean-election", changes_leaders=True, unclean=True)


@pytest.mark.parametrize(
    ("anomaly", "time_ns", "until_ns", "topic", "mark"),
    [
        ("lost-write", 5, None, "t", "allowed: a fault deleted the topic"),
        ("lost-tail", 5, None, None, "illegal"),
        ("lost-write", 20, None, "t", "allowed: a fault deleted the topic"),
        ("lost-write", 21, None, "t", "illegal"),
        ("lost-tail", 21, None, "t", "illegal"),
        ("false-ack", 21, None, "t", "illegal"),
        ("shared-offset", 20, 30, "t", "allowed: a fault deleted the topic"),
        ("shared-offset", 21, 30, "t", "illegal"),
        ("inconsistent-offset", 21, 30, "t", "illegal"),
        ("duplicate", 30, None, "t", "allowed: a fault deleted the topic"),
        ("lost-write", 5, None, "other", "illegal"),
        ("inconsistent-offset", 5, 10, "t", "allowed: a fault deleted the topic"),
        ("shared-offset", 5, 9, "t", "illegal"),
        ("duplicate", 5, None, "t", "allowed: a fault deleted the topic"),
        ("false-ack", 5, None, "t", "allowed: a fault deleted the topic"),
        ("watermark-regression", 10, None, "t", "allowed: a fault deleted the topic"),
        ("end-offset-regression", 10, None, "t", "allowed: a fault deleted the topic"),
        ("end-offset-regression", 9, None, "t", "illegal"),
        ("phantom", 15, None, "t", "illegal"),
        ("corrupt", 15, None, "t", "illegal"),
        ("misrouted", 15, None, "t", "illegal"),
    ],
)
def test_a_topic_that_a_fault_deleted_begins_again(
    anomaly: str, time_ns: int, until_ns: int | None, topic: str | None, mark: str
) -> None:
    """What follows from that is allowed from the injection on, in the topic it was about.

    What was acknowledged after it was undone has to be there, and no two events after it may contradict each other.
    """
    fault = Fault(1, "recreate-topic", injected_ns=10, undone_ns=20, bit=True, topic=topic)
    one = replace(finding(anomaly, "one epoch", until_ns=until_ns), time_ns=time_ns)
    verdict = decide(results(one, coverage=with_fault(fault)), replace(FACTS, faults=(RECREATE,)))
    assert str(verdict.seen[0].mark) == mark


@pytest.mark.parametrize(
    ("anomaly", "time_ns", "until_ns", "mark"),
    [
        ("lost-write", 5, None, "allowed: unclean leader election is on, and a fault changes leaders"),
        ("inconsistent-offset", 5, 10, "allowed: unclean leader election is on, and a fault changes leaders"),
        ("inconsistent-offset", 5, 9, "illegal"),
        ("end-offset-regression", 10, None, "allowed: unclean leader election is on, and a fault changes leaders"),
        ("end-offset-regression", 9, None, "illegal"),
    ],
)
def test_an_unclean_fault_is_as_unclean_election_from_then_on(
    anomaly: str, time_ns: int, until_ns: int | None, mark: str
) -> None:
    """And not before."""
    fault = Fault(1, "unclean-election", 10, 20, bit=True, topic="t")
    one = replace(finding(anomaly, until_ns=until_ns), time_ns=time_ns)
    verdict = decide(results(one, coverage=with_fault(fault)), replace(FACTS, faults=(UNCLEAN,), elections={1: True}))
    assert str(verdict.seen[0].mark) == mark


@pytest.mark.parametrize(
    ("changes", "elections", "mark"),
    [
        ({}, {1: True}, "allowed"),
        ({"topic": "other"}, {1: True}, "illegal"),
        ({"topic": None}, {1: True}, "illegal"),
        ({}, {1: False}, "illegal"),
        ({"evidence": "an unclean election"}, {2: True}, "unproven"),
        ({"bit": False}, {}, "unproven"),
        ({"bit": False, "topic": "other"}, {}, "illegal"),
        ({"failed": True, "detail": "still there"}, {1: True}, "allowed"),
    ],
)
@pytest.mark.parametrize("anomaly", ["lost-write", "end-offset-regression"])
def test_an_unclean_fault_excuses_its_topic_after_an_election_that_was_unclean(
    anomaly: str, changes: dict[str, Any], elections: dict[int, bool], mark: str
) -> None:
    """Nothing else; whether there was one may be unknown, and then the run is, too."""
    fault = Fault(1, "unclean-election", 10, 20, bit=True, topic="t")
    told = results(replace(finding(anomaly), time_ns=15), coverage=with_fault(replace(fault, **changes)))
    verdict = decide(told, replace(FACTS, faults=(UNCLEAN,), elections=elections))
    assert verdict.seen[0].mark.status == mark
    assert mark != "unproven" or verdict.outcome == "unknown"


@pytest.mark.parametrize(
    ("tags", "time_ns", "facts", "mark"),
    [
        (("older epoch", "across nodes"), 10, FACTS, "allowed"),
        (("older epoch", "across nodes"), 9, FACTS, "unproven"),
        (("older epoch", "same node"), 10, FACTS, "illegal"),
        (("one epoch", "across nodes"), 9, replace(FACTS, unclean_election=True), "illegal"),
    ],
)
def test_a_regression_is_excused_by_a_fault_that_had_come(
    tags: tuple[str, ...], time_ns: int, facts: RunFacts, mark: str
) -> None:
    """A leader was deposed by nobody before that, and answers of one node are in its own order."""
    one = replace(finding("end-offset-regression", *tags), time_ns=time_ns)
    assert decide(results(one), facts).seen[0].mark.status == mark


def test_a_fault_that_blocks_need_let_nothing_through_while_it_lasts() -> None:
    """Before and after it clients have to work."""
    fault = Fault(1, "recreate-topic", injected_ns=10, undone_ns=20, bit=True)
    facts = replace(FACTS, faults=(RECREATE,))
    blocked = Span(0, 0, short=True)
    assert decide(results(coverage=with_fault(fault, during=Span(0, 0), clear=blocked)), facts).outcome == "valid"
    nothing = with_fault(fault, before=Span(0, 0), after=Span(5, 0))
    assert said(decide(results(coverage=nothing), facts)) == (
        "nothing was sent or read before fault 1 (recreate-topic)",
        "nothing was read after fault 1 (recreate-topic)",
    )


@pytest.mark.parametrize(
    ("began_s", "until_s", "planned", "mark"),
    [
        (11, 25, PlannedFault("stale-heir", changes_leaders=True, blocks=True), "allowed"),
        (11, 36, PlannedFault("stale-heir", changes_leaders=True, blocks=True), "illegal"),
        (1, 9, PlannedFault("stale-heir", changes_leaders=True, blocks=True), "illegal"),
        (11, 25, PlannedFault("stale-heir", changes_leaders=True), "illegal"),
        (11, 25, PlannedFault("stale-heir", changes_leaders=False, blocks=True), "illegal"),
    ],
)
def test_a_new_leader_that_a_fault_keeps_from_its_followers_cannot_know_the_mark(
    began_s: int, until_s: int, planned: PlannedFault, mark: str
) -> None:
    """As long as that lasts, and until the cluster was whole again; KIP-207 is about what it tells of the end."""
    second = 1_000_000_000
    fault = Fault(1, "stale-heir", injected_ns=10 * second, undone_ns=20 * second, healed_ns=30 * second, bit=True)
    frozen = replace(finding("watermark-frozen"), time_ns=began_s * second, until_ns=until_s * second)
    whole = results(coverage=with_fault(fault))
    whole.anomalies["watermark-frozen"] = Anomaly("watermark-frozen", "", looked_at=9, found=1, findings=[frozen])
    verdict = decide(whole, replace(FACTS, faults=(planned,)))
    assert [seen.mark.status for seen in verdict.seen] == [mark]


def test_requests_that_a_fault_sends_twice_are_appended_twice() -> None:
    """Without idempotence that is no wonder, however often the client tries; with it the broker has to see it."""
    twice = PlannedFault("duplicate-requests", changes_leaders=False)
    facts = replace(FACTS, idempotence=False, retries=0, faults=(twice,))
    fault = Fault(1, "duplicate-requests", injected_ns=10, undone_ns=20, bit=True)
    told = results(finding("duplicate"), coverage=with_fault(fault))
    assert decide(told, facts).outcome == "valid"
    assert decide(told, replace(facts, idempotence=True)).outcome == "invalid"
    never = results(finding("duplicate"), coverage=with_fault(replace(fault, injected_ns=None)))
    assert decide(never, facts).outcome == "invalid"
    holes = results(finding("duplicate"), has_holes=True)
    assert decide(holes, replace(facts, faults=(KILL,))).outcome == "invalid"


@pytest.mark.parametrize(
    ("anomaly", "tags", "facts", "mark"),
    [
        ("lost-write", (), FACTS, "illegal"),
        ("lost-write", (), replace(FACTS, acks="1"), "allowed: acks=1, and a fault changes leaders"),
        ("lost-write", (), replace(FACTS, acks="1", faults=()), "illegal"),
        ("lost-tail", (), replace(FACTS, unclean_election=True), "allowed: unclean leader election is on"),
        ("inconsistent-offset", (), replace(FACTS, acks="1"), "allowed: acks=1"),
        ("shared-offset", (), replace(FACTS, acks="1"), "allowed: acks=1"),
        ("false-ack", (), replace(FACTS, acks="1"), "illegal"),
        ("false-ack", ("no offset",), FACTS, "illegal"),
        ("false-ack", ("no offset",), replace(FACTS, client="confluent-kafka"), "possibly the client: "),
        ("false-ack", ("no offset",), replace(FACTS, client="confluent-kafka", faults=()), "illegal"),
        ("false-ack", (), replace(FACTS, client="confluent-kafka"), "illegal"),
        ("corrupt", (), replace(FACTS, acks="1"), "illegal"),
        ("duplicate", (), FACTS, "illegal"),
        ("duplicate", (), replace(FACTS, idempotence=False), "allowed: without idempotence"),
        ("duplicate", (), replace(FACTS, client="confluent-kafka"), "possibly the client: "),
        ("duplicate", (), replace(FACTS, client="confluent-kafka", faults=()), "illegal"),
        ("duplicate", ("plain",), FACTS, "allowed: without idempotence"),
        ("duplicate", ("plain",), replace(FACTS, retries=0), "illegal"),
        ("duplicate", ("idempotent",), replace(FACTS, idempotence=False), "illegal"),
        ("duplicate", ("idempotent",), replace(FACTS, client="confluent-kafka"), "possibly the client: "),
        ("duplicate", ("idempotent", "numbered anew"), FACTS, "possibly the client: "),
        ("duplicate", ("idempotent",), replace(FACTS, exchanges=0), "possibly the client: a fault came"),
        ("duplicate", ("idempotent",), replace(FACTS, exchanges=0, faults=()), "illegal"),
        ("duplicate", ("transactional",), replace(FACTS, exchanges=0), "illegal"),
        ("duplicate", ("transactional", "numbered anew"), FACTS, "illegal"),
        ("duplicate", ("transactional",), replace(FACTS, client="confluent-kafka", idempotence=False), "illegal"),
        ("duplicate", ("idempotent", "deleted topic"), FACTS, "allowed: the workload deleted the topic"),
        ("lost-write", ("deleted topic",), FACTS, "allowed: the workload deleted the topic"),
        ("shared-offset", ("deleted topic",), FACTS, "allowed: the workload deleted the topic"),
        ("end-offset-regression", ("one epoch", "same node", "deleted topic"), FACTS, "allowed: the workload deleted"),
        ("corrupt", ("deleted topic",), FACTS, "illegal"),
        ("aborted-read", ("deleted topic",), FACTS, "illegal"),
        ("lost-write", ("last of its key",), FACTS, "illegal"),
        ("watermark-regression", ("one epoch", "same node"), FACTS, "illegal"),
        ("watermark-regression", ("one epoch", "across nodes"), FACTS, "illegal"),
        ("watermark-regression", ("epoch rose", "across nodes"), FACTS, "allowed: a new leader does not know"),
        ("watermark-regression", ("epoch unknown", "across nodes"), FACTS, "allowed: another node"),
        ("watermark-regression", ("epoch unknown", "same node"), FACTS, "unproven: no leader epoch is known"),
        ("watermark-regression", ("epoch unknown", "same node"), replace(FACTS, faults=()), "illegal"),
        ("watermark-regression", ("epoch unknown", "across nodes"), replace(FACTS, faults=()), "unproven: no leader"),
        ("end-offset-regression", ("epoch rose", "across nodes"), FACTS, "illegal"),
        ("end-offset-regression", ("older epoch", "across nodes"), FACTS, "allowed: a leader that a fault had deposed"),
        ("end-offset-regression", ("older epoch", "across nodes"), replace(FACTS, faults=()), "unproven"),
        ("end-offset-regression", ("one epoch",), replace(FACTS, unclean_election=True), "allowed: unclean"),
    ],
)
def test_the_policy_marks_a_finding(anomaly: str, tags: tuple[str, ...], facts: RunFacts, mark: str) -> None:
    """Row by row; only what is illegal makes a run invalid."""
    verdict = decide(results(finding(anomaly, *tags)), facts)
    (seen,) = verdict.seen
    assert str(seen.findings[0].mark).startswith(mark)
    assert (verdict.outcome == "invalid") == (mark == "illegal")


def test_one_illegal_finding_among_allowed_ones_decides() -> None:
    """The gravest mark is the anomaly's."""
    allowed = finding("watermark-regression", "epoch rose", "across nodes")
    verdict = decide(results(allowed, finding("watermark-regression", "one epoch", "same node"), allowed), FACTS)
    assert verdict.outcome == "invalid"
    assert said(verdict) == ("watermark-regression ×3",)


def test_a_finding_that_may_be_the_clients_leaves_the_verdict_open() -> None:
    """It is neither a broken promise nor nothing."""
    verdict = decide(results(finding("duplicate")), replace(FACTS, client="confluent-kafka"))
    assert verdict.outcome == "unknown"
    assert "repeat the run with another client" in said(verdict)[0]


def test_what_an_interrupted_run_did_not_get_to_read_is_not_stuck() -> None:
    """Its final read was interrupted with it; otherwise whatever is stuck is illegal."""
    marks = [
        str(decide(results(finding("unseen")), replace(FACTS, interrupted=each)).seen[0].mark) for each in (False, True)
    ]
    assert marks == ["illegal", "unproven: the run was interrupted, and with it the final read"]


@pytest.mark.parametrize("anomaly", ["lost-write", "lost-tail", "unseen", "phantom"])
def test_absence_proves_nothing_in_a_history_with_holes(anomaly: str) -> None:
    """What rests on it is shown, and does not decide."""
    verdict = decide(results(finding(anomaly), has_holes=True, damage=["0001.segment is torn"]), FACTS)
    assert verdict.outcome == "unknown"
    assert str(verdict.seen[0].mark).startswith("unproven")
    assert "0001.segment is torn" in said(verdict)


@pytest.mark.parametrize("anomaly", ["duplicate", "inconsistent-offset", "shared-offset", "false-ack", "corrupt"])
def test_presence_proves_whatever_else_is_missing(anomaly: str) -> None:
    """Holes, an interrupt and a dead worker change nothing about what is there."""
    facts = replace(FACTS, interrupted=True, dead_workers=("producer 1 died",))
    verdict = decide(results(finding(anomaly), has_holes=True, damage=["0001.segment is torn"]), facts)
    assert (verdict.outcome, verdict.exit_code) == ("invalid", Exit.INVALID)


def test_a_phantom_of_a_damaged_producer_is_not_proven() -> None:
    """Its send may have been lost with the tail of the producer's segment; one that is foreign is proven by itself."""
    damaged = {"damaged_processes": frozenset({1}), "damage": ["0001.segment is torn"]}
    assert decide(results(finding("phantom"), **damaged), FACTS).outcome == "unknown"
    assert decide(results(finding("phantom", processes=(2,)), **damaged), FACTS).outcome == "invalid"
    assert decide(results(finding("phantom", "foreign"), **damaged), FACTS).outcome == "invalid"


def test_findings_without_evidence_decide_nothing() -> None:
    """When the job that brings it failed, the failure is the reason."""
    counted = results(failures=["the check of the evidence of values failed (no memory)"])
    counted.anomalies["lost-write"].found = 3
    verdict = decide(counted, FACTS)
    assert verdict.outcome == "unknown"
    assert said(verdict) == ("the check of the evidence of values failed (no memory)",)


def around(**changes: Any) -> dict[str, Any]:
    """Coverage with a fault that differs."""
    fault = replace(GOOD_FAULT.fault, **{k: v for k, v in changes.items() if k not in {"before", "during", "after"}})
    spans = {k: v for k, v in changes.items() if k in {"before", "during", "after"}}
    spans["clear"] = spans.get("during", GOOD_FAULT.clear)
    return {"faults": [replace(GOOD_FAULT, fault=fault, **spans)]}


@pytest.mark.parametrize(
    ("coverage", "reason"),
    [
        ({"operations": {"send": {"info": 13}}}, "no send was acknowledged"),
        ({"load_records": 0}, "the load's consumers read nothing"),
        ({"faults": []}, "the history holds 0 of the faults asked for (leader-kill)"),
        ({"probes": []}, "no probe was answered"),
        ({"probes": [{"api": 1, "node": 1, "asked": 9, "answered": 0}]}, "no probe was answered"),
        (around(bit=False), "fault 1 (leader-kill) did not bite"),
        (around(bit=False, detail="the leader stayed"), "fault 1 (leader-kill) did not bite: the leader stayed"),
        (around(failed=True, detail="no such node"), "fault 1 (leader-kill) failed: no such node"),
        (around(injected_ns=None), "fault 1 (leader-kill) was never injected"),
        (around(undone_ns=None), "fault 1 (leader-kill) was not undone"),
        (around(before=Span(0, 5)), "no send was acknowledged before fault 1 (leader-kill)"),
        (around(during=Span(5, 0)), "nothing was read during fault 1 (leader-kill)"),
        (around(after=Span(0, 5)), "no send was acknowledged after fault 1 (leader-kill)"),
        (
            {"finals_incomplete_count": 1, "finals_incomplete": [
                {"topic": "t", "partition": 2, "final_offset": 1000, "final_end": 2000}]},
            "the final read of t-2 got to offset 1,000 of 2,000",
        ),
        (
            {"finals_incomplete_count": 1, "finals_incomplete": [
                {"topic": "t", "partition": 2, "final_offset": None, "final_end": None}]},
            "t-2 was not read to its end",
        ),
        (
            {"raws_incomplete_count": 1, "raws_incomplete": ["t-2"]}, "the raw read of t-2 did not get to its end",
        ),
    ],
)  # fmt: skip
def test_what_was_not_covered_makes_the_run_unknown(coverage: dict[str, Any], reason: str) -> None:
    """And the reason says what was missing."""
    verdict = decide(results(coverage=coverage), FACTS)
    assert (verdict.outcome, verdict.exit_code) == ("unknown", Exit.UNKNOWN)
    assert said(verdict) == (reason,)


def test_an_imported_history_without_a_final_read_is_unknown_for_one_reason() -> None:
    """Whatever the number of its partitions; with final reads it is as any other."""
    short = {"finals_incomplete_count": 1, "finals_incomplete": [
        {"topic": "t", "partition": 2, "final_offset": None, "final_end": None}]}  # fmt: skip
    facts = replace(FACTS, imported=True)
    (reason,) = said(decide(results(coverage=short), facts))
    assert reason.startswith("there is no final read, ")
    covered = short | {"operations": {"send": {"ok": 1}, "final": {"info": 1}}}
    (reason,) = said(decide(results(coverage=covered), facts))
    assert reason == "t-2 was not read to its end"


def test_faults_that_overlap_have_no_before_and_after() -> None:
    """What cannot be told apart is not asked for."""
    assert decide(results(coverage=around(before=None, after=None)), FACTS).outcome == "valid"


def test_of_a_moment_nothing_is_expected() -> None:
    """A load has its pace, and two faults may follow each other closely."""
    nothing = Span(0, 0, short=True)
    assert decide(results(coverage=around(before=nothing, during=nothing, after=nothing)), FACTS).outcome == "valid"


def test_a_workload_that_reads_afterwards_needs_either_around_a_fault() -> None:
    """Sends or reads, not both."""
    facts = replace(FACTS, reads_beside_sends=False)
    covered = around(before=Span(5, 0), during=Span(0, 5), after=Span(0, 0))
    verdict = decide(results(coverage=covered), facts)
    assert said(verdict) == ("nothing was sent or read after fault 1 (leader-kill)",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"interrupted": True}, "the run was interrupted"),
        ({"dead_workers": ("producer 1 was killed",)}, "producer 1 was killed"),
        ({"failures": (Reason(RUN_FAILED, "the run did not come to its end"),)}, "the run did not come to its end"),
        ({"damage": ("a file is missing",)}, "a file is missing"),
    ],
)
def test_a_run_that_did_not_go_as_planned_is_unknown(changes: dict[str, Any], reason: str) -> None:
    """However clean it looks."""
    assert said(decide(results(), replace(FACTS, **changes))) == (reason,)


def test_an_empty_history_is_unknown() -> None:
    """Nothing was looked at, and that is all that is said."""
    verdict = decide(CheckResults(), RunFacts())
    assert (verdict.outcome, said(verdict), verdict.looked_for) == ("unknown", ("the history is empty",), 0)


def test_what_was_not_looked_at_is_named() -> None:
    """With the reason."""
    silent = results()
    silent.anomalies["corrupt"].looked_at = 0
    silent.anomalies["lost-write"].not_applicable = "acks=0: nothing is acknowledged"
    assert decide(silent, FACTS).not_looked_at == {
        "corrupt": "nothing to look at",
        "lost-write": "acks=0: nothing is acknowledged",
    }


def test_reasons_are_bounded() -> None:
    """A thousand of them are told as twenty."""
    verdict = decide(results(damage=[f"file {n} is missing" for n in range(1000)]), FACTS)
    assert len(verdict.reasons) == 20
    assert said(verdict)[-1] == "and 981 reasons more"


def test_it_can_be_stored() -> None:
    """As plain data."""
    plain = decide(results(finding("duplicate")), FACTS).as_json()
    assert plain["outcome"] == "invalid"
    assert plain["reasons"] == [{"code": "illegal", "sentence": "duplicate ×1"}]
    mark = {"status": "illegal", "code": "", "why": ""}
    assert plain["seen"] == [{"anomaly": "duplicate", "found": 1, "mark": mark, "marks": [mark]}]
    weak = decide(results(finding("lost-write")), replace(FACTS, acks="1")).as_json()
    mark = {"status": "allowed", "code": "weak-acks", "why": "acks=1, and a fault changes leaders"}
    assert weak["seen"] == [{"anomaly": "lost-write", "found": 1, "mark": mark, "marks": [mark]}]


def test_a_history_with_holes_excuses_what_a_leader_change_may_have_done() -> None:
    """When the fault came is not known for certain: what acks=1 permits is not called illegal."""
    told = results(finding("inconsistent-offset", until_ns=1), coverage={"faults": []}, has_holes=True)
    assert decide(told, replace(FACTS, acks="1")).seen[0].mark.status == "allowed"


NO_RUN = Reason(RUN_FAILED, "there is no run.json")


@pytest.mark.parametrize("anomaly", ["lost-write", "duplicate", "end-offset-regression"])
def test_nothing_is_illegal_by_a_configuration_that_nobody_knows(anomaly: str) -> None:
    """Without run.json the run is unknown, with what was seen."""
    verdict = decide(results(finding(anomaly)), replace(FACTS, known=False, failures=(NO_RUN,)))
    assert (verdict.outcome, verdict.seen[0].mark.status) == ("unknown", "unproven")


@pytest.mark.parametrize("facts", [replace(FACTS, known=False), replace(FACTS, known=False, imported=True)])
def test_what_may_be_permitted_is_not_called_valid(facts: RunFacts) -> None:
    """However much was looked at: of a lost write nobody knows whether it was to be expected."""
    covered = {"operations": {"send": {"ok": 13}, "final": {"ok": 1}}}
    assert decide(results(coverage=covered), facts).outcome == "valid"
    verdict = decide(results(finding("lost-write"), coverage=covered), facts)
    assert (verdict.outcome, verdict.exit_code) == ("unknown", Exit.UNKNOWN)
    assert said(verdict) == ("lost-write was seen: how the run was set up is unknown, and that may permit it",)


def test_a_duplicate_without_retries_is_the_brokers() -> None:
    """A client that never sends again cannot have done it."""
    facts = replace(FACTS, idempotence=False, retries=0)
    assert decide(results(finding("duplicate")), facts).outcome == "invalid"


def test_every_node_has_to_answer_probes() -> None:
    """One that never did was not looked at."""
    probes = [{"api": 3, "node": 1, "asked": 9, "answered": 9}, {"api": 3, "node": 2, "asked": 9, "answered": 0}]
    verdict = decide(results(coverage={"probes": probes}), replace(FACTS, probes=True))
    assert (verdict.outcome, said(verdict)) == ("unknown", ("node 2 answered no probe",))


def test_probes_that_show_no_watermark_are_no_look_at_watermarks() -> None:
    """Metadata alone is not enough."""
    told = results()
    told.anomalies["watermark-regression"].looked_at = 0
    verdict = decide(told, replace(FACTS, probes=True))
    assert said(verdict) == ("nothing was there to look at for watermark-regression",)


@pytest.mark.parametrize(
    ("distinct", "lost", "outcome"), [(5000, 0, "valid"), (4391, 0, "unknown"), (4999, 1, "valid")]
)
def test_consumers_that_gave_up_are_a_reason(distinct: int, lost: int, outcome: str) -> None:
    """4,391 of 5,000, and a final read that gets the rest: nobody should call that valid."""
    told = results(*[finding("lost-write")] * lost, figures=Figures(sent=5000, acknowledged=5000, distinct=distinct))
    assert decide(told, replace(FACTS, acks="1", reads_everything=True)).outcome == outcome


@pytest.mark.parametrize(
    ("offsetless", "has_holes", "status"),
    [(0, False, "allowed"), (1, False, "illegal"), (0, True, "possibly the client"), (1, True, "illegal")],
)
def test_what_a_client_concluded_is_no_broker_s_false_acknowledgement(
    offsetless: int, status: str, *, has_holes: bool
) -> None:
    """Taps know whether any broker acknowledged without an offset, unless something of theirs is lost."""
    seen = results(finding("false-ack", "no offset"), figures=Figures(offsetless=offsetless), has_holes=has_holes)
    assert decide(seen, replace(FACTS, client="confluent-kafka")).seen[0].mark.status == status
