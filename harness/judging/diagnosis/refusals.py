"""Refusals: clients that are refused again and again, and nodes that do not agree who leads.

leaders-disputed   metadata-disagreement, or epoch-regression alone (then epochs go back, and no more is said), and
                   loops in the same partitions that they explain: a client is sent to a node whose own list has
                   another leader. Each node is told with the leaders that it names
leader-refuses     the loops that are left: those that are named as leaders refuse. Certain if nodes agree in their
                   lists; else likely, and a loop counts although who leads is disputed where each node that refuses
                   names itself, or where all whom anybody names refuse: whoever is right, the leader does
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, listed, when
from harness.judging.diagnosis.evidence import Evidence, lasted_s, nodes_of, times, total

PRODUCE = 0
REQUESTS = {PRODUCE: "Produce", 1: "Fetch", 2: "ListOffsets"}
DISPUTES = ("metadata-disagreement", "epoch-regression")
RESENT = ("duplicate", "nonmonotonic-send")
SHOWN = 2  # findings that a cause quotes
PLACES_SHOWN = 6  # of the leaders that a node names


def leaders_disputed(evidence: Evidence) -> Cause | None:
    """Nodes that name different leaders, or older epochs."""
    proof = evidence.wrong(*DISPUTES)
    if not proof:
        return None
    proof.sort(key=lambda each: not evidence.uses(each.topic))
    own = refused_by_leaders(evidence)
    loops = [each for each in evidence.beside(proof, "not-leader-loop") if each not in own]
    disputed = [each for each in proof if each.anomaly == DISPUTES[0]]
    return Cause(
        "leaders-disputed",
        f"nodes do not agree who leads {evidence.places(disputed)}: what they tell depends on who is asked, and when"
        if disputed
        else f"leader epochs go back for {evidence.places(proof)}: a client was told an older one after a newer one",
        "certain",
        tuple(proof),
        (*loops, *_waits(evidence, loops)),
        because=(
            *lists_of_leaders(evidence.kept("metadata-disagreement")),
            *evidence.quotes(proof),
            *circles(evidence, loops),
        ),
        remedies=("answer Metadata from replicated state, with its leader epoch, and never with an older one",),
    )


def leader_refuses(evidence: Evidence) -> Cause | None:
    """Loops, though all agree on the leader."""
    proof = evidence.wrong("not-leader-loop")
    if not proof:
        return None
    agree = evidence.looked_at("metadata-disagreement") > 0 and not evidence.found("metadata-disagreement")
    resent = [each for each in evidence.seen(*RESENT) if each not in evidence.wrong(*RESENT)]
    own = [each for each in _refused_by_themselves(evidence) if each in proof]
    places = evidence.places(proof)
    what = (
        f"clients bounce between brokers for {places}"
        if _served(evidence, proof)
        else (f"no node serves {places}: clients bounce between brokers")
    )
    return Cause(
        "leader-refuses",
        f"{what}; NOT_LEADER from {nodes_of(proof)}"
        + (", though their own Metadata names them" if len(own) == len(proof) else ""),
        "certain" if agree else "likely",
        tuple(proof),
        (*evidence.seen("not-leader-loop"), *_waits(evidence, proof), *resent),
        because=(
            *circles(evidence, proof),
            *given_up(evidence),
            *(() if agree else lists_of_leaders(evidence.kept("metadata-disagreement"))),
            *when(
                agree,
                "all nodes name the same leaders and list every broker: clients asked the node that Metadata named",
            ),
        ),
        remedies=("let a node that Metadata names as leader lead, or name the one that does",),
    )


def _served(evidence: Evidence, proof: list[Finding]) -> bool:
    """Whether something was acknowledged or read in one of their partitions."""
    places = {(each.topic, each.partition) for each in proof}
    rows = [row for row in evidence.results.figures.table if (row.topic, row.partition) in places]
    return any(row.acknowledged or row.read for row in rows)


def circles(evidence: Evidence, loops: list[Finding]) -> list[str]:
    """Who asked whom, how often, for how long: the loops that cost most."""
    told = [each for each in loops if {"refusals", "given_up", "api"} <= each.facts.keys()]
    costly = sorted(told, key=lambda each: (-each.facts["given_up"], -each.facts["refusals"]))
    lines = [
        f"{evidence.place(each)}: {nodes_of([each])} refused {_who(each)} ({_request(each)})"
        f" {times(each.facts['refusals'])} in {lasted_s([each]):.1f} s, also after it had refreshed its metadata;"
        f" {counted(each.facts['given_up'], 'send')} given up meanwhile"
        for each in costly[:SHOWN]
    ]
    if len(loops) > len(lines):
        refused = total(loops, "refusals")
        lines.append(f"{refused:,} refusals in {len(loops):,} such circles")
    return lines


def _request(finding: Finding) -> str:
    api = finding.facts["api"]
    return REQUESTS.get(api, f"request {api}")


def _who(finding: Finding) -> str:
    return f"process {finding.processes[0]}" if finding.processes else "a client"


def given_up(evidence: Evidence) -> list[str]:
    """How many sends were not acknowledged, of all."""
    figures = evidence.results.figures
    lost = figures.sent - figures.acknowledged - figures.aborted
    return [f"{lost:,} of {figures.sent:,} sends were not acknowledged"] if lost > 0 else []


def refused_by_leaders(evidence: Evidence) -> list[Finding]:
    """Loops in partitions with a dispute that whoever leads is to blame for."""
    themselves = _refused_by_themselves(evidence)
    loops, named = evidence.wrong("not-leader-loop"), _named(evidence)
    asked: dict[tuple[str | None, int | None, int], set[int]] = {}
    for each in loops:
        asked.setdefault((each.topic, each.partition, each.facts.get("api", PRODUCE)), set()).update(each.nodes)
    all_refuse = {place[:2] for place, nodes in asked.items() if named.get(place[:2], {None}) <= nodes}
    by_all = [each for each in loops if (each.topic, each.partition) in all_refuse]
    return [*themselves, *(each for each in by_all if named[each.topic, each.partition].issuperset(each.nodes))]


def _named(evidence: Evidence) -> dict[tuple[str | None, int | None], set[int]]:
    """Whom nodes name as leaders of the partitions in which they disagree."""
    named: dict[tuple[str | None, int | None], set[int]] = {}
    for each in evidence.kept("metadata-disagreement"):
        leaders = {each.facts[name] for name in ("leader", "leader_before") if name in each.facts}
        named.setdefault((each.topic, each.partition), set()).update(leaders)
    return named


def _refused_by_themselves(evidence: Evidence) -> list[Finding]:
    """Loops in partitions with a dispute in which each node that refuses names itself."""
    claims: dict[tuple[str | None, int | None], set[int]] = {}
    for each in evidence.kept("metadata-disagreement"):
        for node, leader in (("node", "leader"), ("node_before", "leader_before")):
            if node in each.facts and each.facts[node] == each.facts.get(leader):
                claims.setdefault((each.topic, each.partition), set()).add(each.facts[node])
    loops = evidence.wrong("not-leader-loop")
    return [
        each for each in loops if each.nodes and claims.get((each.topic, each.partition), set()).issuperset(each.nodes)
    ]


def lists_of_leaders(disputes: Sequence[Finding]) -> list[str]:
    """Each node with the leaders that it names, where nodes do not agree."""
    named: dict[int, dict[tuple[str, int], set[int]]] = {}
    for each in disputes:
        for node, leader in (("node", "leader"), ("node_before", "leader_before")):
            if {node, leader} <= each.facts.keys() and each.topic is not None and each.partition is not None:
                of_node = named.setdefault(each.facts[node], {})
                of_node.setdefault((each.topic, each.partition), set()).add(each.facts[leader])
    several = len({topic for of_node in named.values() for topic, _ in of_node}) > 1
    return [
        f"node {node} names "
        + listed(
            [
                f"{'nodes' if len(leaders) > 1 else 'node'} {listed(sorted(leaders))} for"
                f" {f'{topic}-{partition}' if several else f'p{partition}'}"
                for (topic, partition), leaders in sorted(of_node.items())[:PLACES_SHOWN]
            ]
        )
        + (f", and {len(of_node) - PLACES_SHOWN} more" if len(of_node) > PLACES_SHOWN else "")
        for node, of_node in sorted(named.items())
    ]


def _waits(evidence: Evidence, loops: list[Finding]) -> list[Finding]:
    """Who waits because of these: readers in their partitions, and senders, which wait with all that they send."""
    of_sends = any(each.facts.get("api", PRODUCE) == PRODUCE for each in loops)
    sends = evidence.seen("no-progress-in-fault", "slow-recovery") if of_sends else []
    return [*(evidence.beside(loops, "unseen", "stall") if loops else []), *sends]
