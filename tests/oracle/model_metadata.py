"""Clusters in which nodes hear of leaders late, leave out brokers, or have coordinators of their own.

Brokers and coordinators are those of a cluster, not of a topic: the nodes of such histories have numbers of their own,
and those that list brokers have a part of the time that few others have.
"""

from __future__ import annotations

from random import Random
from typing import Any

from harness.history.schema import F, Kind, Type
from tests.oracle import Event, who
from tests.support.histories import SECOND_NS, Rows

HALF_NS = SECOND_NS // 2
SETTLING_NS = 2 * SECOND_NS
LEADERLESS_NS = 10 * SECOND_NS
SILENT_S = 5
METADATA, COORDINATOR = 3, 10
OWN = "tidegauge"
NODES_OF_A_TOPIC = 10
BANDS, BAND_NS = 128, 16 * SECOND_NS  # parts of the time
STEPS = (0, 0, HALF_NS, HALF_NS, SECOND_NS, SETTLING_NS, SETTLING_NS + 1, 3 * SECOND_NS)
ASKED_AGAIN = (4 * SECOND_NS, 5 * SECOND_NS - 1, 5 * SECOND_NS)  # of a partition without a leader
LASTS = (0, 0, 1, HALF_NS, SECOND_NS, SETTLING_NS)
NO_CLAIM: tuple[tuple[str, int | None], ...] = (
    ("node", None), ("leader", -1), ("leader", None), ("leader_epoch", None), ("leader_epoch", -1), ("topic", None),
    ("partition", None), ("api", 2),
)  # fmt: skip
NO_COORDINATOR: tuple[tuple[str, Any], ...] = (
    ("error", 15), ("error", None), ("leader", -1), ("leader", None), ("node", None), ("type", Type.INFO),
    ("detail", None),
)  # fmt: skip


def make_up(rows: Rows, topic: int, random: Random) -> None:
    """Nodes that hear of leaders late, or that go without; a cluster that loses brokers; or coordinators."""
    sort = random.random()
    if sort < 0.38:
        _write_leaders(rows, topic, random)
    elif sort < 0.6:
        _write_dark(rows, topic, random)
    elif sort < 0.73:
        _write_brokers(rows, topic, random)
    else:
        _write_coordinators(rows, topic, random)


def _write_leaders(rows: Rows, topic: int, random: Random) -> None:
    now, epoch, leader = random.randrange(60) * HALF_NS, random.randint(1, 2), random.randint(1, 3)
    known: dict[int, tuple[int, int]] = {}
    deleted = random.randrange(3, 10) if random.random() < 0.1 else None
    for number in range(random.randint(5, 16)):
        now += random.choice(STEPS)
        if random.random() < 0.2:
            epoch, leader = epoch + 1, random.randint(1, 3)
        node = random.randint(1, 3)
        if node not in known or random.random() < 0.8:
            known[node] = (epoch, leader)
        told_epoch, told_leader = known[node]
        told_leader = random.randint(1, 3) if random.random() < 0.03 else told_leader
        told_epoch -= random.random() < 0.2
        _answer(rows, topic, random, node, now, leader=told_leader, leader_epoch=told_epoch)
        if number == deleted:
            _delete(rows, topic, random, now)
            epoch = 0


def _write_dark(rows: Rows, topic: int, random: Random) -> None:
    now = random.randrange(60) * HALF_NS
    light, hush = random.choice((0.02, 0.02, 0.05, 0.2)), random.choice((0.01, 0.05, 0.2))
    for number in range(random.randint(6, 24)):
        silent_s = random.choice((SILENT_S, SILENT_S + 1, 10))
        now += silent_s * SECOND_NS if random.random() < hush else random.choice((*STEPS[4:], *ASKED_AGAIN))
        leader = random.randint(1, 3) if random.random() < light else random.choice((-1, -1, None))
        error = 5 if leader is None else random.choice((0, 0, 0, 5, None))
        _answer(rows, topic, random, random.randint(1, 3), now, leader=leader, leader_epoch=number, error=error)
        if random.random() < 0.01:
            _delete(rows, topic, random, now)


def _write_brokers(rows: Rows, topic: int, random: Random) -> None:
    """Three nodes of which one may not be in all lists."""
    now, end = random.randrange(BANDS) * BAND_NS, 3 * random.choice((2, 3, 5))
    nodes = [topic * NODES_OF_A_TOPIC + number for number in (1, 2, 3)]
    forgotten, forgetful = random.choice(nodes), random.sample(nodes, random.choice((0, 1, 1, 1, 2, 3)))
    for node in nodes * (end // 3):
        now += random.choice((0, 0, HALF_NS, HALF_NS, SECOND_NS, SECOND_NS, SETTLING_NS))
        forgets = node in forgetful and random.random() < 0.9
        listed = [each for each in nodes if not (forgets and each == forgotten)]
        brokers = random.choice((",".join(map(str, listed)),) * 12 + ("", None))
        leader = random.choice((nodes[0], nodes[0], forgotten, -1, NODES_OF_A_TOPIC * topic))
        _answer(rows, topic, random, node, now, leader=leader, leader_epoch=0, brokers=brokers)


def _answer(rows: Rows, topic: int, random: Random, node: int, now: int, **columns: Any) -> None:
    """Of a probe, or seen by a tap; some of them do not count."""
    place = {"topic": topic, "partition": random.choice((0, 0, 0, 0, 0, 0, 1))}
    span = {"invoked": now, "time": now + random.choice(LASTS)}
    told: Event = {"node": node, "api": METADATA, "error": random.choice((0,) * 18 + (3, 5, None))}
    told |= place | span | columns
    if random.random() < 0.08:
        name, value = random.choice(NO_CLAIM)
        told[name] = value
    number = node % NODES_OF_A_TOPIC
    if random.random() < 0.5:
        rows.add(Kind.PROBE, who("n", number, topic), **told)
        return
    client = random.choice((f"a{topic}", f"a{topic}", f"a{topic}", f"b{topic}", "", None, OWN))
    type_ = random.choice((Type.OK,) * 12 + (Type.INFO, Type.FAIL))
    rows.add(Kind.EXCHANGE, who("t", number, topic), client=client, type=type_, api_version=12, **told)


def _delete(rows: Rows, topic: int, random: Random, now: int) -> None:
    """And perhaps create it again."""
    for f, when in ((F.DELETE, now), (F.CREATE, now + HALF_NS)):
        type_ = random.choice((Type.OK,) * 6 + (Type.INFO, Type.FAIL))
        rows.add(Kind.COMPLETE, who("k", 0, topic), f=f, type=type_, topic=topic, invoked=when, time=when + HALF_NS)


def _write_coordinators(rows: Rows, topic: int, random: Random) -> None:
    now = random.randrange(60) * HALF_NS
    nodes = [topic * NODES_OF_A_TOPIC + number for number in (1, 2, 3)]
    things = [f"group g{topic}", f"group g{topic} at x", f"transaction x{topic}"][: random.choice((1, 1, 2, 3))]
    belief = {(node, thing): random.choice((nodes[0], nodes[0], node)) for node in nodes for thing in things}
    addresses = dict.fromkeys(nodes, f"h{topic}:9092")
    for _ in range(random.randint(6, 16)):
        now += random.choice(STEPS)
        node, thing = random.choice(nodes), random.choice(things)
        if random.random() < 0.15:
            belief[node, thing] = random.choice(nodes)
        address = addresses[node] if random.random() < 0.85 else f"k{topic}:9092"
        detail = f"{thing} at {address}{random.choice(('', '', '', ' (bent by a rule)'))}"
        told: Event = {"error": 0, "leader": belief[node, thing], "node": node, "type": Type.OK, "detail": detail}
        if random.random() < 0.08:
            name, value = random.choice((*NO_COORDINATOR, ("detail", thing)))
            told[name] = value
        client = random.choice((f"a{topic}", None, OWN))
        rows.add(Kind.EXCHANGE, who("t", node % NODES_OF_A_TOPIC, topic), api=COORDINATOR, client=client, invoked=now,
                 time=now + random.choice(LASTS), **told)  # fmt: skip
