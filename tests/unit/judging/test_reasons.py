"""Reasons for a verdict, and marks of findings: a code for programs, a sentence for people."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.core.results import Anomaly, CheckResults, Finding
from checkers.core.timeline import Fault
from checkers.summaries.coverage import Coverage, FaultCoverage, Span
from checkers.summaries.figures import Figures
from harness.foundation import reasons
from harness.foundation.reasons import (
    CHECK_FAILED,
    DAMAGE,
    FAULT_FAILED,
    ILLEGAL,
    LOAD_NOT_OVER,
    NOT_BITTEN,
    NOT_INJECTED,
    NOT_UNDONE,
    NOT_WHOLE,
    NOTED,
    OF_THE_HARNESS,
    RUN_FAILED,
    WORKER_DIED,
    Reason,
)
from harness.judging.policies import PlannedFault, RunFacts
from harness.judging.policies.case import Mark
from harness.judging.policies.marks import WORDS, mark_of, words
from harness.judging.verdict import decide

REPOSITORY = Path(__file__).parents[3]
KILL = PlannedFault("leader-kill", changes_leaders=True)
FACTS = RunFacts(faults=(KILL,), probes=True)
FAULT = FaultCoverage(Fault(1, "leader-kill", 10, 20, bit=True), Span(5, 5), Span(3, 3), Span(5, 5), Span(3, 3))
COVERED = Coverage({"send": {"ok": 13}}, 26, 13, [{"api": 1, "node": 1, "asked": 9, "answered": 9}], [FAULT], 1)


def codes(facts: RunFacts = FACTS, findings: tuple[Finding, ...] = (), **changes: Any) -> list[str]:
    """Of the reasons for the verdict on a run that covered everything, but for these changes."""
    anomalies = {name: Anomaly(name, "", 9) for name in ("lost-write", "duplicate", "watermark-regression")}
    for each in findings:
        anomalies[each.anomaly].findings.append(each)
        anomalies[each.anomaly].found += 1
    covered = replace(COVERED, **changes.pop("coverage", {}))
    results = replace(CheckResults(events=9, anomalies=anomalies, coverage=covered), **changes)
    return [reason.code for reason in decide(results, facts).reasons]


def faulty(**changes: Any) -> dict[str, Any]:
    """Coverage with a fault that differs."""
    return {"faults": [replace(FAULT, fault=replace(FAULT.fault, **changes))]}


def finding(anomaly: str) -> Finding:
    """One."""
    return Finding(anomaly, "t", 0, 7, (1,), (1,), (), 5, None, (1,), ())


def test_a_reason_is_kept_and_read_again() -> None:
    """As an object; what older runs kept is a sentence that somebody noted."""
    reason = Reason(NOT_WHOLE, "the cluster was not whole after 30 s")
    assert json.loads(json.dumps(reason.as_json())) == {"code": NOT_WHOLE, "sentence": reason.sentence}
    assert Reason.of(reason.as_json()) == reason
    assert Reason.of(reason.sentence) == Reason(NOTED, reason.sentence)
    assert f"{reason}" == reason.sentence


def test_whose_doing_it_may_be_is_told_by_the_code() -> None:
    """A cluster that is not whole, and a load that does not end, may be the broker's; so may whatever was seen."""
    known = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert known - OF_THE_HARNESS == {ILLEGAL, NOT_WHOLE, LOAD_NOT_OVER, RUN_FAILED}
    assert known > OF_THE_HARNESS
    said = "the cluster was not whole"
    assert [Reason(code, said).is_ours for code in (NOTED, DAMAGE, NOT_WHOLE, "no-acknowledgement")] == [
        True, True, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("only-some-checkers", {"only": ["delivery"]}),
        ("interrupted", {"facts": replace(FACTS, interrupted=True)}),
        (WORKER_DIED, {"facts": replace(FACTS, dead_workers=("producer 1 was killed",))}),
        (DAMAGE, {"damage": ["0001.segment is torn"]}),
        (DAMAGE, {"facts": replace(FACTS, damage=("0001.segment is torn",))}),
        (CHECK_FAILED, {"failures": ["the check of gaps failed"]}),
        (RUN_FAILED, {"facts": replace(FACTS, failures=(Reason(RUN_FAILED, "the run failed: x"),))}),
        ("empty-history", {"events": 0}),
        ("connections-refused", {"facts": replace(FACTS, refused=1)}),
        ("not-understood", {"facts": replace(FACTS, traffic_only=True, garbled=1)}),
        ("no-acknowledgement", {"coverage": {"operations": {"send": {"info": 13}}}}),
        ("nothing-read", {"coverage": {"load_records": 0}}),
        ("faults-missing", {"coverage": {"faults": []}}),
        ("no-probe-answered", {"coverage": {"probes": []}}),
        ("consumers-gave-up", {
            "facts": replace(FACTS, reads_everything=True), "figures": Figures(acknowledged=50, distinct=40)}),
        ("no-final-read", {"facts": replace(FACTS, imported=True)}),
        ("not-read-raw", {"coverage": {"raws_incomplete": ["t-2"], "raws_incomplete_count": 1}}),
        (FAULT_FAILED, {"coverage": faulty(failed=True)}),
        (NOT_INJECTED, {"coverage": faulty(injected_ns=None)}),
        (NOT_BITTEN, {"coverage": faulty(bit=False)}),
        (NOT_UNDONE, {"coverage": faulty(undone_ns=None)}),
        (ILLEGAL, {"findings": (finding("lost-write"),)}),
        ("possibly-the-client", {
            "findings": (finding("duplicate"),),
            "facts": replace(FACTS, client="confluent-kafka", idempotence=True)}),
        ("unproven", {"findings": (finding("lost-write"),), "facts": replace(FACTS, known=False)}),
    ],
)  # fmt: skip
def test_every_reason_has_its_code(code: str, changes: dict[str, Any]) -> None:
    """And it is the only one; without such a change there is none."""
    assert codes() == []
    assert codes(**changes) == [code]


def test_a_mark_is_a_code_with_its_words() -> None:
    """Which name what the code is about; a status that says it all has neither."""
    weak = Mark("allowed", "weak-acks", (("acks", "1"),))
    assert weak.as_json() == {
        "status": "allowed", "code": "weak-acks", "why": "acks=1, and a fault changes leaders"
    }  # fmt: skip
    assert (str(weak), mark_of(weak.as_json())) == (f"allowed: {weak.why}",) * 2
    assert (str(Mark("illegal")), mark_of(Mark("illegal").as_json())) == ("illegal",) * 2


def test_every_mark_that_is_given_has_words() -> None:
    """And no words are there for nothing."""
    given = {
        node.value
        for path in (REPOSITORY / "harness" / "judging" / "policies").glob("*.py")
        if path.name != "marks.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    } | {"no-evidence"}
    assert [code for code in WORDS if code not in given] == []
    for code in WORDS:
        assert "{" not in words(code, {"acks": "1", "death": "producer 1 was killed", "client": "kafka-python"})
    for path in (REPOSITORY / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Mark":
                given_code = node.args[1] if len(node.args) > 1 else None
                known = not isinstance(given_code, ast.Constant) or given_code.value in WORDS
                assert known, f"{path}:{node.lineno}"
