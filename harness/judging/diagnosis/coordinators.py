"""Coordinators of groups and transactions: whether nodes agree on them, and whether they take the requests.

coordinator-differs   coordinator-mismatch: certain if the nodes never said anything else, or one node id is given
                      several addresses; else likely. Accounts for stalls and for what groups are told
coordinator-refuses   without one: operations that end with NOT_COORDINATOR (LOOP times or more, and more often than
                      they succeed) in a run without faults. Likely, for who named whom was not compared
"""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, when
from harness.judging.diagnosis.evidence import Evidence, nodes_of, times

LOOP = 5
SHOWN = 2
NOT_COORDINATOR = "NOT_COORDINATOR"
OF_GROUPS = ("committed-offset-vanished", "committed-offset-regression", "double-ownership", "rebalance-loss")


def coordinator_differs(evidence: Evidence) -> Cause | None:
    """FindCoordinator that depends on who is asked."""
    proof = evidence.wrong("coordinator-mismatch")
    if not proof:
        return None
    steadfast = any("steadfast" in each.tags for each in proof)
    named = [each for each in proof if "address" not in each.tags]
    ids = [each for each in proof if "address" in each.tags]
    held = ", and each held to its own" if steadfast else ""
    return Cause(
        "coordinator-differs",
        f"the coordinator differs by who is asked: {nodes_of(named)} do not agree{held}"
        if named
        else f"the coordinator is at another address in another answer: {counted(len(ids), 'node id')} at several"
        " addresses",
        "certain" if steadfast or ids else "likely",
        tuple(proof),
        (*evidence.seen("stall"), *_of_its_groups(evidence, proof)),
        because=(*(each.detail for each in (*named[:SHOWN], *ids[:SHOWN])), *_refusals(evidence)),
        remedies=(
            *when(
                named,
                "name as coordinator, on every node, the leader of the partition that keeps the group or transaction",
            ),
            *when(ids, "give each broker a node id of its own, and its own address in every answer"),
        ),
    )


def _of_its_groups(evidence: Evidence, proof: list[Finding]) -> list[Finding]:
    """What groups are told whose coordinator differs; all groups if a node has several addresses, or none is named."""
    things = {each.facts.get("thing") for each in proof}
    every = any("address" in each.tags or "thing" not in each.facts for each in proof)
    told = evidence.wrong(*OF_GROUPS)
    return [each for each in told if every or "group" not in each.facts or f"group {each.facts['group']}" in things]


def coordinator_refuses(evidence: Evidence) -> Cause | None:
    """NOT_COORDINATOR again and again, from whom FindCoordinator had named."""
    refused = {
        str(row["f"]): int(row["count"])
        for row in evidence.results.coverage.errors
        if row["name"] == NOT_COORDINATOR and row["type"] != "ok"
    }
    succeeded = {f: evidence.results.coverage.operations.get(f, {}).get("ok", 0) for f in refused}
    often = [f for f, count in refused.items() if count >= LOOP and count > succeeded[f]]
    if evidence.faults or not often or evidence.found("coordinator-mismatch"):
        return None
    return Cause(
        "coordinator-refuses",
        "the coordinator that clients are sent to is none: it refuses them as not the coordinator",
        "likely",
        because=tuple(_refusals(evidence)),
        against=("no two nodes were caught that name different coordinators for long",),
        remedies=("let FindCoordinator name, whichever node is asked, the one that takes the requests",),
    )


def _refusals(evidence: Evidence) -> list[str]:
    coverage = evidence.results.coverage
    return [
        f"{row['f']}: {times(int(row['count']))} {NOT_COORDINATOR}, and"
        f" {counted(coverage.operations.get(row['f'], {}).get('ok', 0), 'success', 'successes')}, without any fault"
        for row in coverage.errors
        if row["name"] == NOT_COORDINATOR and not evidence.faults
    ]
