"""The order in which readers received records, and sends got offsets: `checkers.order.family`, word by word."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, Kind, Type
from tests.oracle import COMPACTED, Event, Told, compacted, who
from tests.oracle.common import op_of, operations, reads_uncommitted, records
from tests.oracle.eras import UNSURE, Eras
from tests.oracle.model_log import World
from tests.support.histories import SECOND_NS, Rows, process_of

ANOMALIES = frozenset(
    {
        "poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "gap", "nonmonotonic-send",
        "int-nonmonotonic-send",
    }
)  # fmt: skip
WAITS_NS = 10 * SECOND_NS
MOVES = (F.SUBSCRIBE, F.REVOKE, F.LEAVE, F.CRASH)
Place = tuple[int, int]
Log = tuple[int, int, int]  # a place and an era


def write(rows: Rows, topic: int, random: Random) -> None:
    """Readers and producers of a model log."""
    if random.random() < 0.1:
        rows.topics[topic] = f"{COMPACTED}{topic}"
    world = World(rows, topic, random)
    world.ends = {partition: random.choice([0, 0, 0, 61, 63, 126]) for partition in world.ends}
    producers = [who(random.choice("pij"), number, topic) for number in range(2)]
    readers = [who(random.choice("ccugr"), number, topic) for number in range(2)]
    writing = {_send: 6, _transact: random.choice([0, 0, 6]), _spoil: random.choice([0, 0, 2])}
    reading = {_poll: 7, _move: random.choice([0, 1, 3]), _spoil: random.choice([0, 0, 2])}
    reading |= {_go_back: random.choice([0, 0, 3]), _fetch: random.choice([0, 0, 2])}
    both = writing | reading | {_delete: random.choice([0] * 9 + [4])}
    for acts, most in ((writing, 6), (both, 4), (reading, 5)):
        for act in random.choices(list(acts), list(acts.values()), k=random.randint(1, most)):
            act(world, random.choice(producers), random.choice(readers))


def _send(world: World, producer: str, _reader: str) -> None:
    if world.maybe(20):
        world.sequences[producer, 0] += world.random.choice([-2, -2, -1, 5])
    if world.maybe(15):
        world.now = max(0, world.now - 3 * SECOND_NS)
    world.send(producer, world.partition())


def _transact(world: World, producer: str, _reader: str) -> None:
    """Its messages may be numbered the other way round."""
    world.step = world.random.choice([1, -1])
    world.transact(producer)
    world.step = 1


def _poll(world: World, _producer: str, reader: str) -> None:
    """One poll, or two of one transaction or of one operation, with records of one partition or of both."""
    times = world.lasting()
    txn = op_of(world.topic, world.number(), reader) if world.maybe(25) else None
    op = op_of(world.topic, world.number(), reader) if world.maybe(15) else None
    for _ in range(2 if txn or op else 1):
        partition = world.partition()
        world.cursors[reader, partition] += world.random.choice([0] * 8 + [-2, -1, 1, 1, 2, 2])
        world.poll(reader, partition, txn=txn, op=op, **times)
    if txn:
        type_ = world.random.choice([Type.OK, Type.OK, Type.INFO, Type.FAIL])
        world.add(Kind.COMPLETE, reader, f=F.TXN, op=txn, type=type_, **times)


def _move(world: World, _producer: str, reader: str) -> None:
    """The reader goes elsewhere, or its group does something to it."""
    f = world.random.choice([F.ASSIGN] * 5 + [*MOVES])
    partition, op = world.partition(), op_of(world.topic, world.number(), reader)
    place: dict[str, int | None] = {"partition": partition} if f in {F.ASSIGN, F.REVOKE} else {}
    if f == F.ASSIGN:
        place["offset"] = world.cursors[reader, partition] = world.random.randint(0, 1 + world.ends[partition])
        if world.maybe(40):
            place["offset"] = None
    type_ = world.random.choice([Type.OK, Type.OK, Type.INFO, Type.FAIL])
    world.add(Kind.COMPLETE, reader, f=f, op=op, type=type_, **place, **world.lasting())


def _fetch(world: World, _producer: str, reader: str) -> None:
    """The tap of a node sees the reader's client ask for an offset, and what it gets."""
    _ask(world, reader, world.partition(), world.random.randint(-1, 3 + world.ends[0]))


def _ask(world: World, reader: str, partition: int, asked: int | None, *, times: dict[str, int] | None = None) -> None:
    """A fetch, of one batch or of two, or of none."""
    tap, client = who("t", 0, world.topic), f"tidegauge-consumer-{process_of(reader)}"
    if world.maybe(5):
        client = world.random.choice(["tidegauge", f"{client}-raw", "x"])
    common: dict[str, Any] = {
        "op": op_of(world.topic, world.number(), tap), "api": 1, "api_version": 12, "node": 1, "client": client,
        "partition": partition, "asked": None if world.maybe(5) else asked,
        "type": world.random.choice([Type.OK] * 6 + [Type.INFO]), "error": world.random.choice([0] * 8 + [1, 6]),
        **(times or world.lasting(0, 1)),
    }  # fmt: skip
    if world.maybe(5):
        del common["op"]
    offset = (asked or 0) + world.random.choice([0, 0, 0, 1, -1])
    for _ in range(world.random.choice([1, 1, 2])):
        count = world.random.choice([0, 1, 2, 4, None])
        batch = {"offset": offset, "count": count} if count != 0 else {"count": 0}
        world.add(Kind.EXCHANGE, tap, **common, **batch)
        offset += count or 1


def _go_back(world: World, _producer: str, reader: str) -> None:
    """Its client asks for something, then for less; and mostly the reader is handed that, some time later."""
    partition = world.partition()
    reached = world.cursors[reader, partition] + world.random.choice([-1, 0, 0, 2])
    asked = max(0, reached - world.random.choice([1, 1, 2, 3]))
    if world.maybe(30):
        world.poll(reader, partition)
    _ask(world, reader, partition, reached)
    if world.maybe(10):
        _move(world, "", reader)
    _ask(world, reader, partition, asked, times=world.lasting(0, 1, 4))
    if world.maybe(80):
        world.cursors[reader, partition] = asked + world.random.choice([0, 0, 0, 1, -1])
    world.now += world.random.choice([0, 0, 0, 2, 9]) * SECOND_NS
    if world.maybe(80):
        world.poll(reader, partition)


def _spoil(world: World, _producer: str, _reader: str) -> None:
    """The log loses something, or begins to count further up."""
    if world.maybe(50):
        world.damage()
    else:
        world.ends[world.partition()] += world.random.choice([1, 2, 3, 70])


def _delete(world: World, _producer: str, _reader: str) -> None:
    world.begin_anew()


def key(finding: Finding, topic: int | None) -> Told:
    """All of it but its words."""
    times = (finding.time_ns, finding.until_ns)
    place = (topic, finding.partition, finding.offset)
    return (finding.anomaly, *place, finding.values, finding.events, times, tuple(sorted(finding.tags)))


def find(rows: Rows) -> Iterator[Told]:
    """Everything."""
    known = _Known(rows)
    steps = list(_judged(known))
    yield from _of_steps(known, steps)
    yield from _gaps(known, steps)
    yield from _sends(known)


def _placed(event: Event) -> bool:
    return None not in (event.get("topic"), event.get("partition"), event.get("offset")) and event["offset"] >= 0


def _acknowledged(send: Event) -> bool:
    return send["type"] == Type.OK and _placed(send)


def _place(event: Event) -> Place:
    return event["topic"], event["partition"]


class _Known:
    """Known offsets, and what else is to be looked up."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.eras = rows, Eras(rows)
        self.offsets: dict[Log, set[int]] = defaultdict(set)
        self.committed: dict[Log, set[int]] = defaultdict(set)
        self.acknowledged: dict[Log, set[int]] = defaultdict(set)
        self.sends: dict[Place, list[Event]] = defaultdict(list)
        self.moves: dict[int, list[Event]] = defaultdict(list)
        self.rewinds: dict[tuple[int, Log], list[Rewind]] = {}
        self.taken_back = {each["op"] for each in operations(rows, F.TXN, F.POLL) if each["type"] != Type.OK}
        for send in operations(rows, F.SEND):
            if send.get("partition") is not None:
                self.sends[_place(send)].append(send)
            if _acknowledged(send):
                for offsets in (self.offsets, self.committed, self.acknowledged):
                    offsets[*_place(send), self.eras.of(send)].add(send["offset"])
        for record in filter(_placed, records(rows)):
            log = (*_place(record), self.eras.of_read(record))
            self.offsets[log].add(record["offset"])
            if not reads_uncommitted(rows, record["process"]):
                self.committed[log].add(record["offset"])
        for move in operations(rows, F.ASSIGN, *MOVES):
            self.moves[move["process"]].append(move)
        for reader, fetches in _fetches(rows, self.eras).items():
            self.rewinds[reader] = list(_rewinds(reader, fetches, self.moves[reader[0]]))


@dataclass(frozen=True)
class Rewind:
    """A client that asks again for what it had fetched."""

    invoked: int
    asked: int
    reached: int


def _fetches(rows: Rows, eras: Eras) -> dict[tuple[int, Log], list[list[Event]]]:
    """Of each process, partition and era the fetches of its client that say anything, in order."""
    found: dict[tuple[int, Log], dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.events[Kind.EXCHANGE]:
        named = re.fullmatch(r"tidegauge-[a-z]+-(\d+)", row.get("client") or "")
        placed = None not in (row.get("topic"), row.get("partition"))
        if named and placed and row["api"] == 1 and (_reach(row) is not None or _refused(row)):
            log = (*_place(row), eras.of(row))
            found[int(named[1]), log][row.get("op", row["event"])].append(row)
    return {
        reader: sorted(fetches.values(), key=lambda fetch: min((row["invoked"], row["event"]) for row in fetch))
        for reader, fetches in found.items()
    }


def _reach(row: Event) -> int | None:
    """How far it asked, or got."""
    ends = [row["asked"]] if row.get("asked") is not None else []
    if row["type"] == Type.OK and row.get("error") == 0 and None not in (row.get("offset"), row.get("count")):
        ends.append(row["offset"] + row["count"])
    return max(ends, default=None)


def _refused(row: Event) -> bool:
    return bool(row["type"] == Type.OK and row.get("error"))


def _rewinds(reader: tuple[int, Log], fetches: list[list[Event]], moves: list[Event]) -> Iterator[Rewind]:
    """Those that no broker and no assignment brought about."""
    reaches = [max([-1, *(reach for row in fetch if (reach := _reach(row)) is not None)]) for fetch in fetches]
    for number, (before, fetch) in enumerate(pairwise(fetches), 1):
        asked = min((row["asked"] for row in fetch if row.get("asked") is not None), default=-1)
        refused = any(map(_refused, before))
        sent_there = any(
            move["f"] == F.ASSIGN
            and (move.get("topic"), move.get("partition")) == reader[1][:2]
            and move["invoked"] <= fetch[0]["invoked"]
            and move["time"] >= before[0]["invoked"]
            for move in moves
        )
        if 0 <= asked < reaches[number - 1] and not refused and not sent_there:
            yield Rewind(fetch[0]["invoked"], asked, max(reaches[:number]))


@dataclass(frozen=True)
class Step:
    """From one record of a place to the next one that its reader was handed."""

    x: Event
    y: Event
    era: int

    @property
    def inside(self) -> bool:
        """Of one operation, or of one transaction."""
        return _together(self.x, self.y)

    @property
    def log(self) -> Log:
        """Where it is a step in."""
        return (*_place(self.y), self.era)

    def passes(self, offsets: set[int]) -> list[int]:
        """Those of them that it leaves out."""
        return [offset for offset in offsets if self.x["offset"] < offset < self.y["offset"]]

    def told(self, known: _Known, anomaly: str, offset: int, *tags: str) -> Told:
        """As a finding."""
        more = {"deleted topic": self.era == UNSURE, "rebalance": _may_be_moved(known, self)}
        all_tags = [*tags, *(tag for tag, is_so in more.items() if is_so)]
        events, times = (self.x["event"], self.y["event"]), (self.x["time"], self.y["time"])
        return (anomaly, *_place(self.y), offset, (), events, times, tuple(sorted(all_tags)))


def _together(x: Event, y: Event) -> bool:
    return any(x.get(name) is not None and x.get(name) == y.get(name) for name in ("op", "txn"))


def _may_be_moved(known: _Known, step: Step) -> bool:
    """Whether its reader is of a group that may have moved partitions meanwhile."""
    process = step.y["process"]
    moves = known.moves[process]
    if not known.rows.processes[process].get("group") and all(move["f"] != F.SUBSCRIBE for move in moves):
        return False
    return all(move["f"] != F.ASSIGN for move in moves) or any(
        move["invoked"] <= step.y["time"] and move["time"] >= step.x["invoked"]
        for move in moves
        if move["f"] != F.ASSIGN or move.get("offset") is None
    )


def _asked_again(known: _Known, step: Step) -> bool:
    """Whether its client went back by itself, so far, and not long before."""
    return any(
        rewind.asked <= step.y["offset"] < rewind.reached
        and step.x["invoked"] - WAITS_NS <= rewind.invoked < step.y["time"]
        for rewind in known.rewinds.get((step.y["process"], step.log), ())
    )


def _judged(known: _Known) -> Iterator[Step]:
    """All steps that are."""
    handed: dict[tuple[int, Place], list[Event]] = defaultdict(list)
    for record in filter(_placed, records(known.rows)):
        handed[record["process"], _place(record)].append(record)
    for (process, place), mine in handed.items():
        assigned = [
            move["event"]
            for move in known.moves[process]
            if move["f"] in {F.ASSIGN, F.REVOKE} and (move.get("topic"), move.get("partition")) == place
        ]
        for x, y in _pairs(known, sorted(mine, key=lambda record: record["event"])):
            era = known.eras.of_read(y)
            if known.eras.of_read(x) == era and not any(x["event"] < event < y["event"] for event in assigned):
                yield Step(x, y, era)


def _pairs(known: _Known, mine: list[Event]) -> Iterator[tuple[Event, Event]]:
    """Each record with the one that its reader goes on from."""
    before: Event | None = None
    kept: Event | None = None
    for y in mine:
        x = before if before and _together(before, y) else kept
        if x:
            yield x, y
        before = y
        kept = kept if known.taken_back & {y.get("txn"), y.get("op")} else y


def _of_steps(known: _Known, steps: list[Step]) -> Iterator[Told]:
    """Readers that went back, and those that left something out."""
    for step in steps:
        int_ = "int-" if step.inside else ""
        to_see = known.offsets if reads_uncommitted(known.rows, step.y["process"]) else known.committed
        if step.y["offset"] <= step.x["offset"]:
            tags = ["client asked again"] if _asked_again(known, step) else []
            yield step.told(known, f"{int_}nonmonotonic-poll", step.y["offset"], *tags)
        elif (skipped := step.passes(to_see[step.log])) and not compacted(known.rows, step.y["topic"]):
            yield step.told(known, f"{int_}poll-skip", min(skipped))


def _gaps(known: _Known, steps: list[Step]) -> Iterator[Told]:
    """What was read past that nobody knows of."""
    gaps: dict[Place, dict[tuple[int, int, int], list[Step]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        a, b = step.x["offset"], step.y["offset"]
        if a + 1 < b and not step.passes(known.offsets[step.log]) and not compacted(known.rows, step.y["topic"]):
            gaps[_place(step.y)][step.era, a, b].append(step)
    unsent: dict[Place, int] = defaultdict(int)
    for log, offsets in known.offsets.items():
        unsent[log[:2]] += len(offsets - known.acknowledged[log])
    for place, found in gaps.items():
        missing = sum(b - a - 1 for _, a, b in found)
        sends = known.sends[place]
        transactions = {send["txn"] for send in sends if send.get("txn") is not None}
        unheard = max(0, sum(not _acknowledged(send) for send in sends) - unsent[place])
        if not transactions or missing > 2 * len(transactions) + unheard:
            for (_, a, _), same in found.items():
                first = min(same, key=lambda step: step.y["event"])
                yield first.told(known, "gap", a + 1, *(["transactions"] if transactions else []))


def _sends(known: _Known) -> Iterator[Told]:
    """Sends of which a later one got a lower offset."""
    by_sender: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for send in filter(_acknowledged, operations(known.rows, F.SEND)):
        numbered = send.get("sequence") is not None
        by_sender[send["process"], *_place(send), known.eras.of(send), numbered].append(send)
    for (*_, era, _), sends in by_sender.items():
        for send in sends:
            later = _overtaker(send, sends)
            if later and not (send.get("txn") is not None and later.get("txn") == send["txn"]):
                yield _told_send(known.rows, "nonmonotonic-send", send, later, era)
            if send.get("txn") is not None:
                later = _overtaker(send, [other for other in sends if other.get("txn") == send["txn"]])
                if later:
                    yield _told_send(known.rows, "int-nonmonotonic-send", send, later, era)


def _rank(send: Event) -> int:
    return int(send["invoked"] if send.get("sequence") is None else send["sequence"])


def _overtaker(send: Event, others: list[Event]) -> Event | None:
    """Of all with lower offsets the one that was sent last, if that was after it."""
    lower = [other for other in others if other["offset"] < send["offset"]]
    last = max(lower, key=lambda other: (_rank(other), other["offset"], other["event"]), default=None)
    return last if last and _rank(last) > _rank(send) else None


def _told_send(rows: Rows, anomaly: str, send: Event, later: Event, era: object) -> Told:
    idempotent = rows.processes[send["process"]].get("idempotent")
    tags = ["deleted topic"] if era == UNSURE else []
    if send.get("txn") is not None:
        tags.append("transactional")
    elif idempotent is not None:
        tags.append("idempotent" if idempotent else "plain")
    times = (min(send["time"], later["time"]), max(send["time"], later["time"]))
    values, events = (send["value"], later["value"]), (send["event"], later["event"])
    return (anomaly, *_place(send), send["offset"], values, events, times, tuple(sorted(tags)))
