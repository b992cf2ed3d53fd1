"""Leaders: who can be found, who answers, and who refuses.

The first rules of all: a client that finds nobody, or two leaders of one partition, account for nearly everything else
that is seen.

clients-cannot-find-leaders   metadata-incomplete: nodes leave brokers out that answer, or name leaders that they do not
                              list. Certain if clients went in circles meanwhile (not-leader-loop) or a leader is named
                              that cannot be looked up, else likely. Accounts for loops, disagreement about leaders,
                              nodes that take themselves for leaders in the same lists, waits where clients are refused
                              or a leader cannot be looked up, and what clients that are refused send twice or out of
                              order as far as that is allowed
split-brain                   split-brain: appends acknowledged by two nodes. Accounts for all that is seen in the same
                              partitions of values, offsets, watermarks and leaders
stale-leader                  impostor-leader of a node that had been the leader (deposed), beyond the time that a fault
                              excuses; in that time it is allowed
answers-as-leader             impostor-leader of any other. Both account for watermarks, ends and reads of the same
                              partitions that its answers can have caused, and for disputes that it takes part in; not
                              for loops, for who answers refuses nobody, nor for disputes where that node refuses as
                              well, nor for sends that do not get through
leaders-disputed              metadata-disagreement, epoch-regression, and loops in the same partitions. Each node is
                              told with its list of leaders
leader-refuses                the loops that are left: those that are named as leaders refuse
no-leader                     leaderless
"""

from __future__ import annotations

from checkers.core.results import Finding
from harness.judging.diagnosis.cause import Cause, counted, listed, when
from harness.judging.diagnosis.evidence import Evidence, lasted_s, nodes_of, times, total

PRODUCE = 0
REQUESTS = {PRODUCE: "Produce", 1: "Fetch", 2: "ListOffsets"}
OF_LEADERS = ("not-leader-loop", "metadata-disagreement", "epoch-regression", "impostor-leader", "leaderless")
DISPUTES = ("metadata-disagreement", "epoch-regression")
WAITS = ("stall", "no-progress-in-fault", "slow-recovery", "unseen")
RESENT = ("duplicate", "nonmonotonic-send")
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
PLACES_SHOWN = 6  # of the leaders that a node names


def clients_cannot_find_leaders(evidence: Evidence) -> Cause | None:
    """Metadata that leaves brokers out."""
    proof = evidence.wrong("metadata-incomplete")
    if not proof:
        return None
    loops = evidence.wrong("not-leader-loop")
    brokers = len(evidence.nodes) or len({node for each in proof for node in each.nodes})
    left_out: dict[int, set[int]] = {}
    for each in proof:
        if "broker" in each.tags and len(each.nodes) > 1:
            left_out.setdefault(each.nodes[0], set()).add(each.nodes[1])
    unlisted = [each for each in proof if "leader" in each.tags]
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
        (*_misled(evidence, proof), *evidence.beside([*loops, *unlisted], *WAITS), *resent),
        because=(*_circles(evidence, loops), *(each.detail for each in unlisted[:SHOWN]), *_given_up(evidence)),
        remedies=(
            "list every broker in Metadata, whichever node is asked",
            "or forward to the leader what a node does not lead",
            f"or bootstrap with all brokers{' (these clients were, and it was not enough)' if had_all else ''}",
        ),
    )


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


def _circles(evidence: Evidence, loops: list[Finding]) -> list[str]:
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


def _given_up(evidence: Evidence) -> list[str]:
    figures = evidence.results.figures
    lost = figures.sent - figures.acknowledged - figures.aborted
    return [f"{lost:,} of {figures.sent:,} sends were not acknowledged"] if lost > 0 else []


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
        f"a leader that was deposed goes on: {nodes_of(proof)} still answered for {evidence.places(proof)}",
        "certain",
        tuple(proof),
        tuple(_of_its_answers(evidence, proof)),
        because=(*evidence.quotes(proof), *_falls(evidence, proof), *_changes(evidence)),
        remedies=("let a node that hears of a higher epoch refuse at once, and one that hears of nobody step down",),
        allowed=allowed,
    )


def answers_as_leader(evidence: Evidence) -> Cause | None:
    """A node that never led and answers."""
    proof = evidence.wrong("impostor-leader")
    if not proof:
        return None
    resent = [each for each in evidence.seen("nonmonotonic-send") if each not in evidence.wrong("nonmonotonic-send")]
    led = sorted({each.facts["leader"] for each in proof if "leader" in each.facts})
    others = f", which the others say node {led[0]} leads" if len(led) == 1 else ""
    return Cause(
        "answers-as-leader",
        f"a node answers as leader and is not: {nodes_of(proof)} for {evidence.places(proof)}{others}",
        "certain",
        tuple(proof),
        (*_of_its_answers(evidence, proof), *resent),
        because=(
            *evidence.quotes(proof),
            *_falls(evidence, proof),
            f"{total(proof, 'answers'):,} answers without an error in all, by nodes that do not lead",
            *_lists_of_leaders(evidence.kept("metadata-disagreement")),
        ),
        remedies=(
            f"refuse {_answered(proof)} with NOT_LEADER_OR_FOLLOWER where a node does not lead",
            "take the leader that Metadata names from the same state on every node",
        ),
    )


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
    loops = [each for each in evidence.wrong("not-leader-loop") if nodes.intersection(each.nodes)]
    refused = evidence.beside(loops, "metadata-disagreement") if loops else []
    disputes = [each for each in evidence.seen("metadata-disagreement") if each not in refused]
    told = [*disputes, *evidence.beside(proof, *OF_WATERMARKS)]
    its = [each for each in told if not whole or not each.nodes or nodes.intersection(each.nodes)]
    return [*its, *evidence.beside(proof, "stall", "unseen", "lost-tail", "impostor-leader")]


def _lists_of_leaders(disputes: list[Finding]) -> list[str]:
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


def _falls(evidence: Evidence, proof: list[Finding]) -> list[str]:
    fell = [
        each
        for each in evidence.beside(proof, "watermark-regression", "end-offset-regression")
        if "across nodes" in each.tags
    ]
    return list(evidence.quotes(fell))


def _changes(evidence: Evidence) -> list[str]:
    return [f"{fault.name}: {fault.detail}" for fault in evidence.faults if fault.bit and fault.detail][:SHOWN]


def leaders_disputed(evidence: Evidence) -> Cause | None:
    """Nodes that name different leaders, or older epochs."""
    proof = evidence.wrong(*DISPUTES)
    if not proof:
        return None
    proof.sort(key=lambda each: not evidence.uses(each.topic))
    loops = evidence.beside(proof, "not-leader-loop")
    return Cause(
        "leaders-disputed",
        f"nodes do not agree who leads {evidence.places(proof)}: what they tell depends on who is asked, and when",
        "certain",
        tuple(proof),
        (*loops, *_waits(evidence, loops)),
        because=(
            *_lists_of_leaders(evidence.kept("metadata-disagreement")),
            *evidence.quotes(proof),
            *_circles(evidence, loops),
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
    return Cause(
        "leader-refuses",
        f"nobody feels responsible for {evidence.places(proof)}: clients go in circles, refused by {nodes_of(proof)}",
        "certain" if agree else "likely",
        tuple(proof),
        (*evidence.seen("not-leader-loop"), *_waits(evidence, proof), *resent),
        because=(
            *_circles(evidence, proof),
            *_given_up(evidence),
            *when(agree, "all nodes name the same leaders, and every broker: clients asked whom they were told to"),
        ),
        remedies=("let a node that Metadata names as leader lead, or name the one that does",),
    )


def _waits(evidence: Evidence, loops: list[Finding]) -> list[Finding]:
    """Who waits because of these: readers in their partitions, and senders, which wait with all that they send."""
    of_sends = any(each.facts.get("api", PRODUCE) == PRODUCE for each in loops)
    sends = evidence.seen("no-progress-in-fault", "slow-recovery") if of_sends else []
    return [*(evidence.beside(loops, "unseen", "stall") if loops else []), *sends]


def no_leader(evidence: Evidence) -> Cause | None:
    """Partitions without a leader."""
    proof = evidence.wrong("leaderless")
    if not proof:
        return None
    return Cause(
        "no-leader",
        f"{evidence.places(proof)} had no leader for {lasted_s(proof):.1f} s",
        "certain",
        tuple(proof),
        tuple(evidence.beside(proof, *WAITS)),
        because=evidence.quotes(proof, SHOWN),
        remedies=("elect a leader among the in-sync replicas that are alive",),
    )
