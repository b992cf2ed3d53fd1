"""Diagnosis: from what was found to why, with the evidence for and against, how sure that is, and what to do.

It works from results.json and run.json alone, so that an old run can be diagnosed again: nothing here reads a history
or needs Spark.

**Evidence** is what was measured on the wire: findings with their marks, in how much each was looked for, figures, how
operations ended. No rule rests on a broker's log, and none knows how a run was named or bent.

**Rules** (`harness.judging.diagnosis.rules`) are asked one after the other, those first that account for most. A rule
sees what is left: what a cause accounts for is gone for those after it. So one root cause explains its consequences,
and two that have nothing to do with each other are both told. A cause accounts only for what its evidence reaches: the
partitions, nodes and requests that it names.

**Confidence**: `certain`, nothing else that we know of gives this evidence; `likely`, something that would settle it
was not measured; `possible`, a symptom that is told as such. No cause is surer than the marks of its findings: unproven
ones make it `possible`, and those that may be the client's `likely`.

**Order** (`harness.judging.diagnosis.harm`): the cause that harms acknowledged data most comes first.

**Allowed**: a cause of what the configuration permits is told apart. A correct cluster has no other.

**Unexplained** is what is not allowed and no rule accounts for: it is said, and no cause is made up.

**Measured, excluded** (`harness.judging.diagnosis.excluded`): the usual suspects are asked of every run. In one with a
cause, those that were measured and are not there are excluded; one that was not measured never is, and lost messages
are not where acknowledged ones could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkers.core.results import CheckResults
from harness.judging.diagnosis.cause import Cause, Diagnosis, Excluded, Measured
from harness.judging.diagnosis.evidence import Evidence
from harness.judging.diagnosis.excluded import excluded, measured
from harness.judging.diagnosis.harm import in_order
from harness.judging.diagnosis.rules import RULES
from harness.judging.verdict import Verdict

__all__ = ["Cause", "Diagnosis", "Excluded", "Measured", "diagnose"]


def diagnose(results: CheckResults, verdict: Verdict, facts: Mapping[str, Any]) -> Diagnosis:
    """Ask every rule, given what a check found, the verdict on it, and run.json."""
    whole = evidence = Evidence.of(results, verdict, facts)
    told = measured(evidence)
    found: list[Cause] = []
    for rule in RULES:
        if cause := rule(evidence):
            found.append(evidence.capped(cause))
            evidence = evidence.without(cause)
    causes = in_order((each for each in found if not each.allowed), whole)
    out = [Excluded(each.name, f"{each.name} is not the cause", each.sentence) for each in excluded(told)]
    return Diagnosis(
        tuple(causes),
        tuple(each for each in found if each.allowed),
        tuple(out) if causes else (),
        told,
        evidence.unexplained,
    )
