"""Who acts as a leader, and whether clients find it: `checkers.leadership` and `checkers.refusals`, word by word."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, Kind, Type
from tests.oracle import Event, Told, who
from tests.oracle.answers import Epochs, Place, deposed, epochs
from tests.oracle.common import op_of, operations, value_of
from tests.oracle.eras import UNSURE, Eras
from tests.oracle.metadata import Claim, claims
from tests.oracle.model_metadata import METADATA, OWN, SETTLING_NS
from tests.support.histories import SECOND_NS, Rows, process_of

ANOMALIES = frozenset({"not-leader-loop", "impostor-leader", "split-brain"})
PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
REFUSALS = (6, 74, 75)
LOOP = 5
OF_FOLLOWERS = 11
HALF_NS, TENTH_NS = SECOND_NS // 2, SECOND_NS // 10
STEPS = (0, 0, 1, HALF_NS, HALF_NS, SECOND_NS, SETTLING_NS)
LASTS = (0, 0, 1, HALF_NS, SECOND_NS)
LEFT_OUT: tuple[tuple[str, Any], ...] = (
    ("node", None), ("topic", None), ("partition", None), ("partition", 1), ("type", Type.INFO), ("type", Type.FAIL),
    ("error", None), ("error", 7), ("client", OWN), ("client", None), ("api", FETCH),
)  # fmt: skip


def write(rows: Rows, topic: int, random: Random) -> None:
    """A client that is refused; or nodes that lead, or did, or never did."""
    sort = random.random()
    if sort < 0.24:
        _write_refusals(rows, topic, random)
    elif sort < 0.68:
        _write_leaders(rows, topic, random)
    else:
        _write_appends(rows, topic, random)


def _write_refusals(rows: Rows, topic: int, random: Random) -> None:
    now = random.randrange(60) * HALF_NS
    worker = who("p", 0, topic)
    client = random.choice((f"tidegauge-producer-{process_of(worker)}", f"x{topic}"))
    api = random.choice((PRODUCE, FETCH, LIST_OFFSETS))
    steps = random.choice((STEPS, (0, 1, HALF_NS)))
    for number in range(random.randint(6, 20)):
        now += random.choice(steps)
        span = {"topic": topic, "partition": 0, "invoked": now, "time": now + random.choice(LASTS)}
        chance = random.random()
        if chance < 0.1:
            outcome = {"op": value_of(topic, number, worker), "f": F.SEND, "type": random.choice(list(Type))}
            place = {"partition": random.choice((0, 0, 1, None)), "offset": None, "value": outcome["op"]}
            rows.add(Kind.COMPLETE, worker, **(outcome | span | place))
        elif chance < 0.3:
            refresh = {"api": METADATA, "leader": 1, "leader_epoch": 0, "error": random.choice((0, 0, 5))}
            _pass(rows, topic, random, client=client, node=3, **span, **refresh)
        elif chance < 0.34:
            success = {"api": api, "error": 0, "offset": number, "acks": 1, "api_version": 12}
            _pass(rows, topic, random, client=client, node=1, **span, **success)
        else:
            node = random.choice((1, 1, 1, 2))
            _pass(rows, topic, random, client=client, node=node, api=api, error=random.choice(REFUSALS), **span)
        if random.random() < 0.004:
            _delete(rows, topic, now)


def _pass(rows: Rows, topic: int, random: Random, /, **columns: Any) -> None:
    """By a tap; perhaps as two rows of one exchange, perhaps as something that does not count."""
    tap = who("t", 0, topic)
    if random.random() < 0.06:
        columns |= dict([random.choice(LEFT_OUT)])
    op = op_of(topic, len(rows.events[Kind.EXCHANGE]) % 900, tap)
    for _ in range(random.choice((1,) * 15 + (2,))):
        rows.add(Kind.EXCHANGE, tap, **({"op": op, "type": Type.OK} | columns))


def _delete(rows: Rows, topic: int, now: int) -> None:
    for f, when in ((F.DELETE, now), (F.CREATE, now + HALF_NS)):
        span = {"invoked": when, "time": when + HALF_NS}
        rows.add(Kind.COMPLETE, who("k", 0, topic), f=f, type=Type.OK, topic=topic, **span)


def _write_leaders(rows: Rows, topic: int, random: Random) -> None:
    now, epoch, leaders = random.randrange(60) * HALF_NS, 0, [random.randint(1, 3)]
    known: dict[int, tuple[int, int]] = {}
    for _ in range(random.randint(6, 20)):
        now += random.choice(STEPS)
        if random.random() < 0.06:
            epoch, leaders = epoch + 1, [*leaders, random.randint(1, 3)]
        node = random.randint(1, 3)
        span = {"topic": topic, "partition": 0, "invoked": now, "time": now + random.choice(LASTS)}
        if random.random() < 0.45:
            if node not in known or random.random() < 0.8:
                known[node] = (epoch, leaders[-1])
            told_epoch, leader = known[node] if random.random() < 0.95 else (epoch, random.randint(1, 3))
            claim = {"node": node, "api": METADATA, "error": 0, "leader": leader, "leader_epoch": told_epoch}
            rows.add(Kind.PROBE, who("n", node, topic), **claim, **span)
        else:
            _act(rows, topic, random, node=random.choice((leaders[-1],) * 3 + (random.choice(leaders), node)), **span)
        if random.random() < 0.004:
            _delete(rows, topic, now)


def _write_appends(rows: Rows, topic: int, random: Random) -> None:
    """At once, while nobody tells who leads; or too late."""
    now = random.randrange(30) * SECOND_NS
    for _ in range(random.randint(8, 16)):
        now += random.choice((0, 1, TENTH_NS, TENTH_NS, TENTH_NS, 2 * TENTH_NS, 2 * TENTH_NS, HALF_NS))
        span = {"topic": topic, "partition": 0, "invoked": now, "time": now + random.choice((0, 1, TENTH_NS))}
        _act(rows, topic, random, node=random.choice((1, 1, 1, 2, 2, 2, 3)), **span)
        if random.random() < 0.05:
            claim = {"node": 3, "api": METADATA, "error": 0, "leader": 1, "leader_epoch": 1}
            rows.add(Kind.PROBE, who("n", 3, topic), **claim, **span)


def _act(rows: Rows, topic: int, random: Random, /, **columns: Any) -> None:
    """As a leader does; or nearly so."""
    told: Event = columns | {"error": random.choice((0,) * 9 + (6,))}
    chance = random.random()
    if chance < 0.15:
        probe = {"api": random.choice((FETCH, LIST_OFFSETS)), "high_watermark": 0}
        rows.add(Kind.PROBE, who("n", columns["node"], topic), **told, **probe)
        return
    if chance < 0.8:
        told |= {"api": PRODUCE, "offset": random.choice((3,) * 9 + (-1, None)), "acks": random.choice((-1, 1, None))}
        told["acks"] = 0 if random.random() < 0.05 else told["acks"]
    else:
        told |= {"api": random.choice((FETCH, LIST_OFFSETS)), "api_version": random.choice((4, 10, 11, 12, None))}
    _pass(rows, topic, random, client=random.choice((f"x{topic}", None)), **told)


def find(rows: Rows) -> Iterator[Told]:
    """Of clients, then of nodes."""
    eras = Eras(rows)
    claimed, shown = claims(rows), epochs(rows, eras)
    yield from _loops(rows, eras, shown)
    acts = _acts(rows, eras)
    for place, of_place in acts.items():
        known = claimed.get((*place, None), [])
        for act in of_place:
            act.judge(known, shown.get((place[:2], place[2]), {}))
        yield from _impostors(place[:2], of_place, known)
        yield from _split(place[:2], of_place)


def _passed(rows: Rows, eras: Eras) -> Iterator[Event]:
    """Exchanges of others that count for one life of a partition."""
    for event in rows.events[Kind.EXCHANGE]:
        placed = all(event.get(name) is not None for name in ("node", "topic", "partition"))
        if placed and event.get("type") == Type.OK and event.get("client") != OWN and eras.of(event) != UNSURE:
            yield event


def _moved(shown: Epochs, since: int, until: int) -> bool:
    """Whether an epoch that nobody had seen may have begun, beside the lowest."""
    known = max((number for number, rise in shown.items() if rise.seen <= since), default=min(shown, default=0))
    return any(number > known and rise.since <= until for number, rise in shown.items())


def _loops(rows: Rows, eras: Eras, shown: Mapping[tuple[Place, int], Epochs]) -> Iterator[Told]:
    by_client: dict[Told, list[Event]] = defaultdict(list)
    for event in _passed(rows, eras):
        if event.get("client") is not None:
            by_client[event["client"], event["topic"], event["partition"], eras.of(event)].append(event)
    given_up = [send for send in operations(rows, F.SEND) if send["type"] != Type.OK]
    for (client, topic, partition, era), events in by_client.items():
        refreshes = [event for event in events if event.get("api") == METADATA]
        for api in (PRODUCE, FETCH, LIST_OFFSETS):
            for run in _runs([event for event in events if event.get("api") == api]):
                if len(run) >= LOOP and any(_asked_again(run, node, refreshes) for node in {r["node"] for r in run}):
                    first, last = run[0]["time"], run[-1]["time"]
                    named = re.fullmatch(r"tidegauge-[a-z]+-(\d+)", client)
                    worker = int(named[1]) if named else None
                    cost = {send["op"] for send in given_up if send["process"] == worker
                            and send.get("topic") == topic and send.get("partition") in {None, partition}
                            and first <= send["time"] <= last + SETTLING_NS}  # fmt: skip
                    moved = _moved(shown.get(((topic, partition), era), {}), first - SETTLING_NS, last + SETTLING_NS)
                    tags = tuple(
                        tag for tag, is_so in (("brief", last <= first + SETTLING_NS), ("moved", moved)) if is_so
                    )
                    nodes = tuple(sorted({refusal["node"] for refusal in run}))
                    figures = (len(run), api, len(cost))
                    yield ("not-leader-loop", topic, partition, tags, nodes, client, figures, worker, first, last)


def _runs(answers: list[Event]) -> Iterator[list[Event]]:
    """Refusals in the order of time, with no success between."""
    refused = {event.get("op", event["event"]): event for event in answers if event.get("error") in REFUSALS}
    successes = [event["time"] for event in answers if event.get("error") == 0]
    run: list[Event] = []
    for refusal in sorted(refused.values(), key=lambda event: event["time"]):
        if run and any(run[-1]["time"] <= success < refusal["time"] for success in successes):
            yield run
            run = []
        run.append(refusal)
    if run:
        yield run


def _asked_again(run: list[Event], node: int, refreshes: list[Event]) -> bool:
    mine = [refusal for refusal in run if refusal["node"] == node]
    return any(
        refresh["invoked"] > mine[0]["time"] and refresh["time"] < refusal["invoked"]
        for refresh in refreshes
        for refusal in mine
    )


@dataclass
class Act:
    """What one node did in one second as only a leader does."""

    node: int
    second: int
    events: list[Event]
    epoch: int | None = None
    impostor: bool = False

    @property
    def began(self) -> int:
        """When the first was asked for."""
        return int(min(event["invoked"] for event in self.events))

    @property
    def ended(self) -> int:
        """When the last was answered."""
        return int(max(event["time"] for event in self.events))

    @property
    def appends(self) -> list[Event]:
        """Those that append."""
        return [event for event in self.events if event["api"] == PRODUCE]

    def judge(self, known: list[Claim], shown: Epochs) -> None:
        """By what the other nodes claim."""
        others = [claim for claim in known if claim.node != self.node and claim.first < self.began - SETTLING_NS]
        newest = max((claim.epoch for claim in others), default=None)
        if newest is None or any(c.epoch > newest and c.begun <= self.ended + SETTLING_NS for c in known):
            return
        if deposed(shown, newest, self.ended):
            return
        if not any(claim.epoch == newest and claim.last > self.ended for claim in others):
            return  # nobody said so any more
        self.epoch = newest
        leaders = {claim.leader for claim in others if claim.epoch == newest}
        self.impostor = len(leaders) == 1 and self.node not in leaders


def _acts(rows: Rows, eras: Eras) -> dict[Told, list[Act]]:
    led = [event for event in _passed(rows, eras) if _leads(event)]
    for event in rows.events[Kind.PROBE]:
        placed = all(event.get(name) is not None for name in ("node", "topic", "partition"))
        if placed and event.get("api") in {FETCH, LIST_OFFSETS} and event.get("error") == 0:
            led += [event] if eras.of(event) != UNSURE else []
    made: dict[Told, dict[Told, Act]] = defaultdict(dict)
    for event in led:
        node, second = event["node"], event["time"] // SECOND_NS
        place = (event["topic"], event["partition"], eras.of(event))
        made[place].setdefault((node, second), Act(node, second, [])).events.append(event)
    return {place: list(acts.values()) for place, acts in made.items()}


def _leads(event: Event) -> bool:
    if event.get("error") != 0:
        return False
    if event.get("api") == PRODUCE:
        return event.get("acks") != 0 and event.get("offset") is not None and event["offset"] >= 0
    version = event.get("api_version")
    of_leaders = event.get("api") == FETCH and version is not None and version < OF_FOLLOWERS
    return event.get("api") == LIST_OFFSETS or of_leaders


def _impostors(place: Told, acts: list[Act], known: list[Claim]) -> Iterator[Told]:
    for node, epoch in {(act.node, act.epoch) for act in acts if act.impostor}:
        assert epoch is not None
        caught = [act for act in acts if act.impostor and (act.node, act.epoch) == (node, epoch)]
        deposed = any(claim.node != node and claim.epoch < epoch and claim.leader == node for claim in known)
        tags = ("deposed",) if deposed else ()
        span = (min(act.began for act in caught), max(act.ended for act in caught))
        first = min(event["event"] for act in caught for event in act.events)
        answers = sum(len(act.events) for act in caught)
        yield ("impostor-leader", *place, tags, (node,), epoch, answers, (first,), *span)


def _split(place: Told, acts: list[Act]) -> Iterator[Told]:
    groups: dict[Told, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for act in acts:
        if act.appends:
            group = ("one epoch", act.epoch) if act.epoch is not None else ("overlapping", act.second)
            groups[group][act.node] += act.appends
    for (tag, number), nodes in groups.items():
        both = set(nodes)
        if tag == "overlapping":
            both = {one for one, two in permutations(nodes, 2)
                    if _ended_before(nodes[one], nodes[two]) and _ended_before(nodes[two], nodes[one])}  # fmt: skip
        if len(both) > 1:
            appends = [event for node in both for event in nodes[node]]
            acknowledged = [min(event["time"] for event in nodes[node]) for node in both]
            span = (min(acknowledged), max(*acknowledged, *(event["invoked"] for event in appends)))
            first = tuple(sorted(min(event["event"] for event in nodes[node]) for node in both))
            epoch = number if tag == "one epoch" else None
            yield ("split-brain", *place, (tag,), tuple(sorted(both)), epoch, len(appends), first, *span)


def _ended_before(one: list[Event], two: list[Event]) -> bool:
    return any(a["time"] < b["invoked"] for a in one for b in two)


def key(finding: Finding, topic: int | None) -> Told:
    """Epochs and figures are facts alone."""
    place = (finding.anomaly, topic, finding.partition, finding.tags, finding.nodes)
    span, facts = (finding.time_ns, finding.until_ns), finding.facts
    if finding.anomaly == "not-leader-loop":
        figures = (facts["refusals"], facts["api"], facts["given_up"])
        return (*place, facts["client"], figures, *(finding.processes or (None,)), *span)
    counted = facts["answers"] if finding.anomaly == "impostor-leader" else sum(facts["appends"])
    return (*place, facts.get("epoch"), counted, tuple(sorted(finding.events)), *span)
