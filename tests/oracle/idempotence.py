"""Retries and idempotence, as the taps saw them; the specification is in `checkers.idempotence`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from checkers.core.results import Finding
from harness.history.schema import F, Kind, OffsetView, Type
from tests.oracle import Event, Told, who
from tests.oracle.common import op_of
from tests.oracle.eras import UNSURE, Eras
from tests.support.histories import SECOND_NS, Rows

ANOMALIES = frozenset({"retry-duplicate", "retry-offset-changed", "retry-reorder", "retry-watermark-regression"})
PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
HALF_NS = SECOND_NS // 2
NEAR_NS = 2 * SECOND_NS
WRAP = 1 << 30
STEPS = (0, 0, 1, HALF_NS, HALF_NS, SECOND_NS, NEAR_NS)
LASTS = (0, 0, 1, HALF_NS, SECOND_NS)
SEQUENCES = (0, 1, 2, 3, WRAP, WRAP + 1, 2 * WRAP - 1)
NUMBERS = ("producer_id", "producer_epoch", "sequence")


@dataclass
class _World:
    """One partition, its node and its producers."""

    rows: Rows
    topic: int
    random: Random
    now: int
    end: int = 5  # the next offset
    shown: int = 5
    log: list[Event] = field(default_factory=list)
    ops: int = 0
    broken: float = 0.0

    def add(self, api: int, **columns: object) -> None:
        """An exchange, or a probe of the same."""
        span = {"invoked": self.now, "time": self.now + self.random.choice(LASTS)}
        place = {"topic": self.topic, "partition": 0 if self.random.random() < 0.95 else self.random.choice((1, None))}
        node = 1 if self.random.random() < 0.95 else self.random.choice((2, None))
        told: Event = {"api": api, "error": 0, "node": node, **place, **span, **columns}
        if api != PRODUCE and self.random.random() < 0.5:
            names = (
                "api",
                "error",
                "node",
                "topic",
                "partition",
                "invoked",
                "time",
                "offset",
                "view",
                "high_watermark",
            )
            told = {name: told[name] for name in names if name in told}
            self.rows.add(Kind.PROBE, who("n", 0, self.topic), **told)
            return
        self.ops += self.random.random() < 0.95
        told = {"op": op_of(self.topic, self.ops, who("t", 0, self.topic)), "type": Type.OK} | told
        if self.random.random() < 0.04:
            told["type"] = Type.INFO
        self.rows.add(Kind.EXCHANGE, who("t", 0, self.topic), **told)

    def send(self, batch: Event) -> None:
        """A batch for the first time, or again; the broker may not recognise it."""
        known = [each for each in self.log if each["crc"] == batch["crc"]]
        if known and self.random.random() >= self.broken:
            offset = known[0]["offset"]
        else:
            offset = self.end
            self.log.append({**batch, "offset": offset})
            self.end += 1
        if known and self.random.random() < self.broken:
            self.shown = max(0, self.shown - 2)
        else:
            self.shown = self.end
        told = {**batch, "offset": offset, "acks": -1}
        if self.random.random() < 0.12:
            told |= self.random.choice(({"error": 7}, {"error": 46}, {"error": None, "offset": None}, {"offset": -1}))
        if self.random.random() < 0.06:
            told |= self.random.choice(({"crc": None}, {"crc": 77}, {"sequence": -1}, {"producer_id": None}))
        self.add(PRODUCE, **told)

    def fetch(self) -> None:
        """A batch of the log, and the watermark."""
        if self.log and self.random.random() < 0.6:
            batch = self.random.choice(self.log)
            self.add(
                FETCH, high_watermark=self.shown, **{name: batch.get(name) for name in (*NUMBERS, "crc", "offset")}
            )
        elif self.random.random() < 0.6:
            self.add(FETCH, high_watermark=self.random.choice((self.shown,) * 9 + (None,)), offset=None, count=0)
        else:
            view = self.random.choice(
                (OffsetView.LATEST, OffsetView.LATEST, OffsetView.LATEST, OffsetView.EARLIEST, None)
            )
            self.add(LIST_OFFSETS, view=view, offset=self.random.choice((self.shown,) * 9 + (None,)))

    def delete(self) -> None:
        """The topic, and create it again."""
        for f, when in ((F.DELETE, self.now), (F.CREATE, self.now + HALF_NS)):
            self.rows.add(Kind.COMPLETE, who("k", 0, self.topic), f=f, type=Type.OK, topic=self.topic, invoked=when,
                          time=when + HALF_NS)  # fmt: skip
        self.log, self.end, self.shown = [], 0, 0


def write(rows: Rows, topic: int, random: Random) -> None:
    """A producer or two whose batches are sent again; the broker may append them twice, and forget its watermark."""
    world = _World(rows, topic, random, random.randrange(60) * HALF_NS, broken=random.choice((0, 0.3, 0.5, 0.7)))
    sent: list[Event] = []
    numbered = random.random() < 0.75
    sequences = sorted(random.sample(SEQUENCES, 4)) if random.random() < 0.5 else [0, 1, 2, 3]
    for _ in range(random.randint(6, 18)):
        world.now += random.choice(STEPS)
        chance = random.random()
        if sent and chance < 0.3:
            world.fetch()
            world.now += random.choice(STEPS)
            world.send(random.choice(sent))
            world.now += random.choice((*STEPS, SECOND_NS))
            world.fetch()
        elif chance < 0.5:
            number = len(sent)
            if random.random() < 0.3:
                number = random.randrange(4)
            batch = {"client": random.choice((f"a{topic}", f"a{topic}", None)), "crc": len(sent)}
            if numbered:
                batch |= {"producer_id": topic, "producer_epoch": 0, "sequence": sequences[number % 4]}
            sent.append(batch)
            world.send(batch)
        elif chance > 0.99:
            world.delete()
        else:
            world.fetch()


def find(rows: Rows) -> Iterator[Told]:
    """Of each batch, of the batches of each producer, and of those that were sent again."""
    eras = Eras(rows)
    sendings: dict[Told, list[Event]] = defaultdict(list)
    copies: dict[Told, list[Event]] = defaultdict(list)
    for event in rows.events[Kind.EXCHANGE]:
        if event.get("topic") is None or event.get("partition") is None or not _numbered(event):
            continue
        batch = (event["topic"], event["partition"], eras.of(event), *(event[name] for name in NUMBERS))
        if event.get("error") != 0 or event.get("offset") is None or event["offset"] < 0:
            continue
        if event.get("api") == PRODUCE:
            sendings[batch].append(event)
        elif event.get("api") == FETCH and event.get("type") == Type.OK:
            copies[batch].append(event)
    for batch in {*sendings, *copies}:
        yield from _twice(batch, sendings[batch], copies[batch])
    yield from _reorders(sendings, copies)
    yield from _fallen(rows)


def _numbered(event: Event) -> bool:
    return all(event.get(name) is not None and event[name] >= 0 for name in NUMBERS)


def _told(anomaly: str, batch: Told, tags: tuple[str, ...], offset: int, seen: list[Event]) -> Told:
    topic, partition, life, *numbers = batch
    deleted = ("deleted topic",) if life == UNSURE else ()
    span = (min(event["time"] for event in seen), max(event["time"] for event in seen))
    return (anomaly, topic, partition, offset, tags + deleted, tuple(numbers), *span)


def _twice(batch: Told, sendings: list[Event], copies: list[Event]) -> Iterator[Told]:
    acknowledged, read = ({event["offset"] for event in each} for each in (sendings, copies))
    seen = sendings + copies
    if len(read) > 1:
        yield _told("retry-duplicate", batch, ("read twice",), min(read), seen)
    elif len(acknowledged) > 1:
        yield _told("retry-duplicate", batch, ("acknowledged twice",), min(acknowledged), seen)
    checksums = {event.get("crc") for event in sendings}
    if len(acknowledged) > 1 and len(checksums) == 1 and None not in checksums:
        yield _told("retry-offset-changed", batch, (), min(acknowledged), seen)


def _reorders(sendings: dict[Told, list[Event]], copies: dict[Told, list[Event]]) -> Iterator[Told]:
    producers: dict[Told, list[int]] = defaultdict(list)
    for batch in {batch for each in (sendings, copies) for batch, events in each.items() if events}:
        producers[batch[:-1]].append(batch[-1])
    for producer, sequences in producers.items():
        for before, sequence in pairwise(sorted(sequences)):
            batch = (*producer, sequence)
            place = _place(sendings, copies, batch)
            if place < _place(sendings, copies, (*producer, before)) and sequence - before <= WRAP:
                tag = "read" if copies[batch] else "acknowledged"
                yield _told("retry-reorder", batch, (tag,), place, sendings[batch] + copies[batch])


def _place(sendings: dict[Told, list[Event]], copies: dict[Told, list[Event]], batch: Told) -> int:
    return int(min(event["offset"] for event in copies[batch] or sendings[batch]))


def _fallen(rows: Rows) -> Iterator[Told]:
    eras = Eras(rows)
    marks: dict[Told, list[tuple[Event, int]]] = defaultdict(list)
    answers = [event for event in rows.events[Kind.EXCHANGE] if event.get("type") == Type.OK]
    for event in answers + rows.events[Kind.PROBE]:
        latest = event.get("api") == LIST_OFFSETS and event.get("view") == OffsetView.LATEST
        mark = event.get("offset") if latest else event.get("high_watermark")
        shown = (latest or event.get("api") == FETCH) and event.get("error") == 0 and event.get("topic") is not None
        if shown and mark is not None:
            marks[event["topic"], event.get("partition"), eras.of(event), event.get("node")].append((event, mark))
    for (topic, partition, of_life, *_), sendings in _resent(rows).items():
        (node,) = {event.get("node") for event in sendings}
        resent = max(event["invoked"] for event in sendings)
        handled = max(event["time"] for event in sendings)
        near = marks.get((topic, partition, of_life, node), [])
        for api, name in ((FETCH, "watermark"), (LIST_OFFSETS, "end offset")):
            of_api = [(event, mark) for event, mark in near if event["api"] == api]
            before = [mark for event, mark in of_api if resent - NEAR_NS <= event["time"] < resent]
            after = [
                mark for event, mark in of_api if event["invoked"] > handled and event["time"] <= handled + NEAR_NS
            ]
            if before and after and min(after) < max(before):
                tags = (name,) if of_life != UNSURE else (name, "deleted topic")
                fall = (max(before), min(after))
                yield ("retry-watermark-regression", topic, partition, min(after), tags, node, fall, resent, handled)


def _resent(rows: Rows) -> dict[Told, list[Event]]:
    eras = Eras(rows)
    batches: dict[Told, list[Event]] = defaultdict(list)
    for event in rows.events[Kind.EXCHANGE]:
        if event.get("api") != PRODUCE or event.get("topic") is None or event.get("partition") is None:
            continue
        place = (event["topic"], event["partition"], eras.of(event))
        if _numbered(event):
            batches[*place, "numbered", *(event[name] for name in NUMBERS)].append(event)
        elif event.get("crc") is not None:
            batches[*place, "not", event.get("client"), event["crc"]].append(event)
    return {
        batch: sendings
        for batch, sendings in batches.items()
        if len({event["op"] for event in sendings if "op" in event}) > 1
        and len({event.get("node") for event in sendings}) == 1
        and sendings[0].get("node") is not None
        and any(event.get("error") == 0 for event in sendings)
    }


def key(finding: Finding, topic: int | None) -> Told:
    """The batch, and how far a mark fell, are facts."""
    of: Told = (tuple(finding.facts.get(name) for name in NUMBERS),)
    if finding.anomaly == "retry-watermark-regression":
        of = (*finding.nodes, (finding.facts["before"], finding.facts["after"]))
    place = (finding.anomaly, topic, finding.partition, finding.offset)
    return (*place, finding.tags, *of, finding.time_ns, finding.until_ns)
