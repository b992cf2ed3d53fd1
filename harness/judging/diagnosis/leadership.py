"""Leaders: who can be found, and who answers. Who refuses: `refusals`.

The first rules of all: a client that finds nobody, or two leaders of one partition, account for nearly everything else
that is seen.

clients-cannot-find-leaders   metadata-incomplete: nodes leave brokers out that answer, or name leaders that they do not
                              list. Certain if clients went in circles meanwhile (not-leader-loop) or a leader is named
                              that cannot be looked up, else likely. A client that got to all whom the lists leave out
                              does not go in circles because of them. Accounts for loops, disagreement about leaders,
                              nodes that take themselves for leaders in the same lists, waits where clients are refused
                              or a leader cannot be looked up, and what clients that are refused send twice or out of
                              order as far as that is allowed
split-brain                   split-brain: appends acknowledged by two nodes. Accounts for all that is seen in the same
                              partitions of values, offsets, watermarks and leaders
stale-leader                  impostor-leader of a node that had been the leader (deposed), beyond the time that a fault
                              excuses; in that time it is allowed
answers-as-leader             impostor-leader of any other. Both account for watermarks, ends and reads of the same
                              partitions that its answers can have caused, and for disputes that it takes part in; not
                              for loops, for who answers refuses nobody, nor for disputes that explain loops, nor for
                              sends that do not get through. Of two nodes that name themselves for a partition each may
                              be an impostor by the list of the other: then one may lead, and that is said
no-leader                     leaderless
"""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, listed, when
from harness.judging.diagnosis.evidence import Evidence, lasted_s, nodes_of, total
from harness.judging.diagnosis.refusals import RESENT, circles, given_up, lists_of_leaders, refused_by_leaders

OF_LEADERS = ("not-leader-loop", "metadata-disagreement", "epoch-regression", "impostor-leader", "leaderless")
WAITS = ("stall", "no-progress-in-fault", "slow-recovery", "unseen")
OF_WATERMARKS = (
    "watermark-regression",
    "end-offset-regression",
    "lso-regression",
    "lso-above-hw",
    "log-start-regression",
    "watermark-behind-ack",
    "watermark-frozen",
    "watermark-ahead",
    "retry-watermark-regression",
    "not-linearizable",
)
OF_LOGS = (
    "inconsistent-offset",
    "shared-offset",
    "lost-write",
    "lost-tail",
    "gap",
    "duplicate",
    "aborted-read",
    "realtime-order",
    "poll-skip",
    "int-poll-skip",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "nonmonotonic-send",
    "retry-duplicate",
    "retry-offset-changed",
    "retry-reorder",
    "replica-divergence",
)
SHOWN = 2  # findings that a cause quotes


def clients_cannot_find_leaders(evidence: Evidence) -> Cause | None:
    """Metadata that leaves brokers out."""
    proof = evidence.wrong("metadata-incomplete")
    if not proof:
        return None
    brokers = len(evidence.nodes) or len({node for each in proof for node in each.nodes})
    left_out: dict[int, set[int]] = {}
    for each in proof:
        if "broker" in each.tags and len(each.nodes) > 1:
            left_out.setdefault(each.nodes[0], set()).add(each.nodes[1])
    unlisted = [each for each in proof if "leader" in each.tags]
    loops, reached = _loops(evidence, proof, left_out)
    resent = [each for each in evidence.seen(*RESENT) if each not in evidence.wrong(*RESENT)]
    harmed = bool(loops or unlisted)
    had_all = evidence.settings.get("bootstrap") == "all" and loops
    most = "" if evidence.whole("metadata-incomplete") else "at most "
    what = (
        _lists(left_out, brokers, most) if left_out else f"{nodes_of(unlisted[:1])} names leaders that it does not list"
    )
    return Cause(
        "clients-cannot-find-leaders",
        f"clients cannot find leaders: {what} in Metadata"
        if harmed
        else f"{what} in Metadata; no client was seen to go in circles because of it",
        "certain" if harmed else "likely",
        tuple(proof),
        (
            *(each for each in _misled(evidence, proof) if each not in reached),
            *evidence.beside([*loops, *unlisted], *WAITS),
            *resent,
        ),
        because=(*circles(evidence, loops), *(each.detail for each in unlisted[:SHOWN]), *given_up(evidence)),
        remedies=(
            "list every broker in Metadata, whichever node is asked",
            "or forward to the leader what a node does not lead",
            f"or bootstrap with all brokers{' (these clients were, and it was not enough)' if had_all else ''}",
        ),
    )


def _loops(
    evidence: Evidence, proof: list[Finding], left_out: dict[int, set[int]]
) -> tuple[list[Finding], list[Finding]]:
    """The loops that such lists explain; and those of clients that had reached every broker that is left out."""
    loops, missing = evidence.wrong("not-leader-loop"), set[int]().union(*left_out.values())
    if not evidence.whole("metadata-incomplete") or any("leader" in each.tags for each in proof):
        return loops, []
    reached = [each for each in loops if missing and missing.issubset(each.nodes)]
    return [each for each in loops if each not in reached], reached


def _misled(evidence: Evidence, proof: list[Finding]) -> list[Finding]:
    """What else is said of leaders; of a node that answers as one, only if its list is among the incomplete ones."""
    short, whole = {each.nodes[0] for each in proof if each.nodes}, evidence.whole("metadata-incomplete")
    others = [name for name in OF_LEADERS if name != "impostor-leader"]
    impostors = [each for each in evidence.seen("impostor-leader") if not whole or short.issuperset(each.nodes)]
    return [*evidence.seen(*others), *impostors]


def _lists(left_out: dict[int, set[int]], brokers: int, most: str) -> str:
    """Who lists how many, or how many at most if not all that is left out is known."""
    by_count: dict[int, list[int]] = {}
    for node, others in sorted(left_out.items()):
        by_count.setdefault(brokers - len(others), []).append(node)
    said = [
        (f"node {nodes[0]} lists" if len(nodes) == 1 else f"nodes {listed(nodes)} each list")
        + f" {most}{count} of {brokers}"
        for count, nodes in sorted(by_count.items())
    ]
    return f"{listed(said)} brokers"


def split_brain(evidence: Evidence) -> Cause | None:
    """Two nodes that acknowledge."""
    proof = evidence.wrong("split-brain")
    if not proof:
        return None
    both = next((each for each in proof if "one epoch" in each.tags), proof[0])
    follows = evidence.beside(proof, *OF_LEADERS, *OF_WATERMARKS, *OF_LOGS, *WAITS, "split-brain")
    return Cause(
        "split-brain",
        f"two nodes lead {evidence.places(proof)} at once: {nodes_of(proof)} acknowledged appends"
        f" {'in one epoch' if 'one epoch' in both.tags else 'in overlapping time'}",
        "certain",
        tuple(proof),
        (*follows, *evidence.wrong("metadata-disagreement")),
        because=(*evidence.quotes([both]), *_what_it_cost(follows)),
        remedies=(
            "let a leader append only as long as it holds its epoch: followers and the controller refuse older ones",
            "acknowledge acks=all only when the in-sync replicas of that epoch have the batch",
        ),
    )


def _what_it_cost(findings: list[Finding]) -> list[str]:
    seen = {each.anomaly for each in findings}
    names = [name for name in ("lost-write", "lost-tail", "shared-offset", "inconsistent-offset") if name in seen]
    return [f"in the same partitions: {listed(names)}"] if names else []


def stale_leader(evidence: Evidence) -> Cause | None:
    """A leader that was deposed and goes on."""
    proof = evidence.wrong("impostor-leader", tag="deposed")
    allowed = not proof
    proof = proof or evidence.seen("impostor-leader", tag="deposed")
    if not proof:
        return None
    return Cause(
        "stale-leader",
        f"a deposed leader continues: {nodes_of(proof)} still answered for {evidence.places(proof)}",
        "certain",
        tuple(proof),
        tuple(_of_its_answers(evidence, proof)),
        because=(*evidence.quotes(proof), *_falls(evidence, proof), *_changes(evidence)),
        remedies=(
            "make a node reject requests once it learns of a higher epoch, and step down if it hears from no peer",
        ),
        allowed=allowed,
    )


def answers_as_leader(evidence: Evidence) -> Cause | None:
    """A node that never led and answers."""
    proof = evidence.wrong("impostor-leader")
    if not proof:
        return None
    resent = [each for each in evidence.seen("nonmonotonic-send") if each not in evidence.wrong("nonmonotonic-send")]
    return Cause(
        "answers-as-leader",
        _who_answers(evidence, proof),
        "certain",
        tuple(proof),
        (*_of_its_answers(evidence, proof), *resent),
        because=(
            *evidence.quotes(proof),
            *_falls(evidence, proof),
            f"{total(proof, 'answers'):,} answers without an error in all, by nodes that do not lead",
            *lists_of_leaders(evidence.kept("metadata-disagreement")),
        ),
        remedies=(
            f"refuse {_answered(proof)} with NOT_LEADER_OR_FOLLOWER where a node does not lead",
            "take the leader that Metadata names from the same state on every node",
        ),
    )


def _who_answers(evidence: Evidence, proof: list[Finding]) -> str:
    led = sorted({each.facts["leader"] for each in proof if "leader" in each.facts})
    accused = {(each.topic, each.partition, node) for each in proof for node in each.nodes}
    mutual = [each for each in proof if (each.topic, each.partition, each.facts.get("leader")) in accused]
    if mutual:
        return (
            f"nodes answer as leaders whom others do not name: {nodes_of(proof)} for {evidence.places(proof)};"
            f" of two that name themselves for {evidence.places(mutual)} one may lead"
        )
    others = f", which the others say node {led[0]} leads" if len(led) == 1 else ""
    return f"a node answers as leader and is not: {nodes_of(proof)} for {evidence.places(proof)}{others}"


def _answered(proof: list[Finding]) -> str:
    """The requests that such a node was seen to answer; all that leaders answer if nobody counted them."""
    if not all({"appends", "fetches"} <= each.facts.keys() for each in proof):
        return "what only a leader may answer"
    appends, fetches = total(proof, "appends"), total(proof, "fetches")
    of_ends = total(proof, "answers") - appends - fetches
    return listed([*when(appends, "Produce"), *when(fetches, "Fetch"), *when(of_ends > 0, "ListOffsets")])


def _of_its_answers(evidence: Evidence, proof: list[Finding]) -> list[Finding]:
    """What readers and probes saw because that node answered them; not what it refused."""
    nodes, whole = {node for each in proof for node in each.nodes}, evidence.whole("impostor-leader")
    own = refused_by_leaders(evidence)
    loops = [each for each in evidence.wrong("not-leader-loop") if nodes.intersection(each.nodes) and each not in own]
    refused = evidence.beside(loops, "metadata-disagreement") if loops else []
    disputes = [each for each in evidence.seen("metadata-disagreement") if each not in refused]
    told = [*disputes, *evidence.beside(proof, *OF_WATERMARKS)]
    its = [each for each in told if not whole or not each.nodes or nodes.intersection(each.nodes)]
    return [
        *its,
        *_found_less(evidence, proof),
        *evidence.beside(proof, "stall", "unseen", "lost-tail", "impostor-leader"),
    ]


def _found_less(evidence: Evidence, proof: list[Finding]) -> list[Finding]:
    """Marks of others above what a final read found that began while such a node answered in its partition."""
    whole = evidence.whole("impostor-leader")
    return [
        each
        for each in evidence.beside(proof, "watermark-ahead")
        if "missing" in each.tags and (not whole or any(_answered_at(one, each) for one in proof))
    ]


def _answered_at(impostor: Finding, mark: Finding) -> bool:
    same = (impostor.topic, impostor.partition) == (mark.topic, mark.partition)
    known = {"began_ns", "ended_ns"} <= impostor.facts.keys() and "y_at" in mark.facts
    return same and known and impostor.facts["began_ns"] <= mark.facts["y_at"] <= impostor.facts["ended_ns"]


def _falls(evidence: Evidence, proof: list[Finding]) -> list[str]:
    fell = [
        each
        for each in evidence.beside(proof, "watermark-regression", "end-offset-regression")
        if "across nodes" in each.tags
    ]
    return list(evidence.quotes(fell))


def _changes(evidence: Evidence) -> list[str]:
    return [f"{fault.name}: {fault.detail}" for fault in evidence.faults if fault.bit and fault.detail][:SHOWN]


def no_leader(evidence: Evidence) -> Cause | None:
    """Partitions without a leader."""
    proof = evidence.wrong("leaderless")
    if not proof:
        return None
    return Cause(
        "no-leader",
        f"{evidence.places(proof)} had no leader for {'up to ' if len(proof) > 1 else ''}{lasted_s(proof):.1f} s",
        "certain",
        tuple(proof),
        tuple(evidence.beside(proof, *WAITS)),
        because=evidence.quotes(proof, SHOWN),
        remedies=("elect a leader among the in-sync replicas that are alive",),
    )
