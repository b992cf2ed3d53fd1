"""What nodes say of brokers, leaders and coordinators; the specification is in `checkers.metadata.family`.

Findings of brokers and coordinators, which are of no topic, count for the one that the number of a node, or the name of
a group, has in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from random import Random

from checkers.core.results import Finding
from harness.history.schema import Kind, Type
from tests.oracle import Event, Told
from tests.oracle.eras import UNSURE, Eras
from tests.oracle.model_metadata import (
    COORDINATOR,
    LEADERLESS_NS,
    METADATA,
    NODES_OF_A_TOPIC,
    OWN,
    SETTLING_NS,
    SILENT_S,
    make_up,
)
from tests.support.histories import SECOND_NS, Rows

ANOMALIES = frozenset({
    "metadata-disagreement", "epoch-regression", "metadata-incomplete", "leaderless", "coordinator-mismatch",
})  # fmt: skip


def write(rows: Rows, topic: int, random: Random) -> None:
    """Of a partition or of a cluster."""
    make_up(rows, topic, random)


@dataclass
class Claim:
    """What one node said of one partition, always the same."""

    node: int
    leader: int
    epoch: int
    brokers: str | None
    first: int
    last: int
    begun: int


def answers(rows: Rows, *, of_clients: bool = False) -> list[Event]:
    """Every answer to Metadata; or those alone that clients with a name were told."""
    told = [each for each in rows.events[Kind.EXCHANGE] if each.get("type") == Type.OK and each.get("client") != OWN]
    if of_clients:
        told = [each for each in told if each.get("client") is not None]
    else:
        told += rows.events[Kind.PROBE]
    return [each for each in told if each.get("api") == METADATA and each.get("node") is not None]


def claims(rows: Rows, *, of_clients: bool = False) -> dict[Told, list[Claim]]:
    """By topic, partition, life and perhaps client."""
    eras = Eras(rows)
    made: dict[Told, dict[Told, Claim]] = defaultdict(dict)
    for event in answers(rows, of_clients=of_clients):
        leader, epoch = event.get("leader"), event.get("leader_epoch")
        if not _placed(event) or event.get("error") != 0 or leader is None or epoch is None or min(leader, epoch) < 0:
            continue
        if eras.of(event) == UNSURE:
            continue
        key = (event["topic"], event["partition"], eras.of(event), event["client"] if of_clients else None)
        same = (event["node"], leader, epoch, event.get("brokers"))
        claim = made[key].setdefault(same, Claim(*same, event["time"], event["invoked"], event["invoked"]))
        claim.first = min(claim.first, event["time"])
        claim.last = max(claim.last, event["invoked"])
        claim.begun = min(claim.begun, event["invoked"])
    return {key: list(found.values()) for key, found in made.items()}


def _placed(event: Event) -> bool:
    return event.get("topic") is not None and event.get("partition") is not None


def find(rows: Rows) -> Iterator[Told]:
    """Of each partition, then of the cluster."""
    for (topic, partition, _, _), made in claims(rows).items():
        for told in _disagreements(made):
            yield ("metadata-disagreement", topic, partition, *told)
        for told in _regressions(made):
            yield ("epoch-regression", topic, partition, "one node", *told)
        for claim in made:
            if claim.brokers is not None and str(claim.leader) not in claim.brokers.split(","):
                tags = ("leader",) if claim.last > claim.first + SETTLING_NS else ("leader", "brief")
                said = (claim.node, claim.leader, str(claim.epoch), claim.brokers)
                yield ("metadata-incomplete", topic, partition, tags, said, claim.first, max(claim.first, claim.last))
    for (topic, partition, _, client), made in claims(rows, of_clients=True).items():
        for told in _regressions_across(made):
            yield ("epoch-regression", topic, partition, "one client", client, *told)
    yield from _dark(rows)
    yield from _left_out(rows)
    yield from _coordinators(rows)


def _disagreements(made: list[Claim]) -> Iterator[Told]:
    for epoch in sorted({claim.epoch for claim in made}):
        apart = [(a, b) for a, b in permutations(made, 2) if a.epoch == b.epoch == epoch and a.leader != b.leader]
        if apart:
            since = min(max(a.first, b.first) for a, b in apart)
            yield ("one epoch", epoch, since, max(max(a.first, a.last) for a, _ in apart))
    for epoch, node in sorted({(claim.epoch, claim.node) for claim in made}):
        late = [(a, b) for a, b in permutations(made, 2)
                if (a.epoch, a.node) == (epoch, node) and b.epoch > a.epoch and b.node != a.node
                and b.leader != a.leader and a.last > b.first + SETTLING_NS]  # fmt: skip
        if late:
            yield ("stale", epoch, node, min(b.first for _, b in late), max(a.last for a, _ in late))


def _regressions(made: list[Claim]) -> Iterator[Told]:
    for epoch, node in sorted({(claim.epoch, claim.node) for claim in made}):
        back = [(a, b) for a, b in permutations(made, 2)
                if (a.epoch, a.node) == (epoch, node) and b.node == a.node and b.epoch > a.epoch
                and a.last > b.first]  # fmt: skip
        if back:
            yield (epoch, node, min(b.first for _, b in back), max(a.last for a, _ in back))


def _regressions_across(made: list[Claim]) -> Iterator[Told]:
    for epoch in sorted({claim.epoch for claim in made}):
        back = [(a, b) for a, b in permutations(made, 2)
                if a.epoch == epoch < b.epoch and a.node != b.node and a.last > b.first + SETTLING_NS]  # fmt: skip
        if back:
            yield (epoch, min(b.first for _, b in back), max(a.last for a, _ in back))


def _dark(rows: Rows) -> Iterator[Told]:
    eras = Eras(rows)
    said: dict[Told, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in answers(rows):
        if _placed(event) and eras.of(event) != UNSURE and _leads(event) is not None:
            said[event["topic"], event["partition"], eras.of(event)][event["time"] // SECOND_NS].append(event)
    for (topic, partition, _), seconds in said.items():
        parts: list[list[Event] | None] = []
        for before, second in pairwise([-SILENT_S, *sorted(seconds)]):
            parts += [None] if second - before > SILENT_S else []
            parts.append(None if any(map(_leads, seconds[second])) else seconds[second])
        for stretch in _stretches(parts):
            since, until = min(event["time"] for event in stretch), max(event["invoked"] for event in stretch)
            if until > since + LEADERLESS_NS:
                yield ("leaderless", topic, partition, since, until)


def _leads(event: Event) -> bool | None:
    """Whether it names a leader, or says that there is none."""
    if event.get("error") == 5:
        return False
    return event["leader"] >= 0 if event.get("error") == 0 and event.get("leader") is not None else None


def _stretches(parts: Iterable[list[Event] | None]) -> Iterator[list[Event]]:
    """What lies between interruptions."""
    stretch: list[Event] = []
    for part in [*parts, None]:
        if part is not None:
            stretch += part
        elif stretch:
            yield stretch
            stretch = []


def _left_out(rows: Rows) -> Iterator[Told]:
    slots: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in answers(rows):
        if event.get("brokers") is not None:
            slots[event["time"] // SETTLING_NS][event["node"]].append(event)
    seen: dict[tuple[int, int], list[list[Event] | None]] = defaultdict(list)
    for slot in sorted(slots):
        said = slots[slot]
        for node, other in permutations(said, 2):
            if any(_lists(event, other) for event in said[node]):
                seen[node, other].append(None)
            elif any(third != node and all(_lists(event, other) for event in said[third]) for third in said):
                seen[node, other].append(said[node])
    for (node, other), parts in seen.items():
        always = not any(_lists(event, other) for said in slots.values() for event in said.get(node, []))
        tags = ("broker", "always") if always else ("broker",)
        for stretch in _stretches(parts):
            since, until = min(event["time"] for event in stretch), max(event["invoked"] for event in stretch)
            if until > since + SETTLING_NS:
                yield ("metadata-incomplete", node // NODES_OF_A_TOPIC, None, tags, (node, other), since, until)


def _lists(event: Event, node: int) -> bool:
    return str(node) in event["brokers"].split(",")


def _coordinators(rows: Rows) -> Iterator[Told]:
    said: dict[str, dict[int, dict[str, list[Event]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for event in rows.events[Kind.EXCHANGE]:
        if event.get("api") != COORDINATOR or event.get("type") != Type.OK or event.get("error") != 0:
            continue
        detail, leader = event.get("detail"), event.get("leader")
        if event.get("node") is None or leader is None or leader < 0 or detail is None or " at " not in detail:
            continue
        thing, address = detail.split(" (")[0].rsplit(" at ", 1)
        said[thing][event["node"]][f"node {leader}"].append(event)
        said[f"node {leader}"][event["node"]][address].append(event)
    for thing, by_node in said.items():
        spans: list[tuple[int, int]] = []
        steadfast = False
        address = thing.startswith("node ")
        for one, two in product(by_node, repeat=2):
            for (a_said, a), (b_said, b) in product(by_node[one].items(), by_node[two].items()):
                lasted = one != two and _long_after(a, b) and _long_after(b, a)
                if a_said != b_said and (address or lasted):
                    since = max(min(event["time"] for event in each) for each in (a, b))
                    spans.append((since, max(since, min(max(event["invoked"] for event in each) for each in (a, b)))))
                    steadfast |= len(by_node[one]) == len(by_node[two]) == 1
        if spans:
            tag = "address" if address else "steadfast" if steadfast else "moved"
            yield ("coordinator-mismatch", _of(thing), thing, tag, min(spans)[0], max(until for _, until in spans))


def _long_after(one: list[Event], two: list[Event]) -> bool:
    return bool(max(event["invoked"] for event in one) > min(event["time"] for event in two) + SETTLING_NS)


def _of(thing: str) -> int | None:
    """The topic in its name."""
    number = re.search(r"\d+", thing)
    if number is None:
        return None
    return int(number[0]) // NODES_OF_A_TOPIC if thing.startswith("node ") else int(number[0])


def key(finding: Finding, topic: int | None) -> Told:
    """The lower epoch, who told it, or the coordinator are facts alone."""
    span, facts = (finding.time_ns, finding.until_ns), finding.facts
    if finding.anomaly == "leaderless":
        return ("leaderless", topic, finding.partition, *span)
    if finding.anomaly == "coordinator-mismatch":
        return (finding.anomaly, _of(facts["thing"]), facts["thing"], *finding.tags, *span)
    if "broker" in finding.tags:
        return (finding.anomaly, finding.nodes[0] // NODES_OF_A_TOPIC, None, finding.tags, finding.nodes, *span)
    if finding.anomaly == "metadata-incomplete":
        said = (facts["node"], facts["leader"], str(facts["epoch"]), facts["brokers"])
        return (finding.anomaly, topic, finding.partition, finding.tags, said, *span)
    (tag,) = finding.tags
    of = {"one epoch": (facts["epoch"],), "one client": (facts.get("client"), facts["epoch"])}
    return (finding.anomaly, topic, finding.partition, tag, *of.get(tag, (facts["epoch"], facts["node"])), *span)
