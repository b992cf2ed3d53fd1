"""What each node has of a partition; the specification is in `checkers.replicas`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from random import Random

from checkers.core.results import Finding
from harness.history.schema import F, Kind, Status, Type
from tests.oracle import COMPACTED, Event, Told, compacted, who
from tests.oracle.common import op_of, operations, value_of
from tests.oracle.eras import UNSURE, Eras
from tests.support.histories import SECOND_NS, Rows, process_of

ANOMALIES = frozenset({"replica-divergence"})
ROLE = "replica"
OFFSETS = 6


def write(rows: Rows, topic: int, random: Random) -> None:
    """Two to four readers of the replicas of a log, each of which may differ in one place."""
    if random.random() < 0.2:
        rows.topics[topic] = f"{COMPACTED}{topic}"
    begin = random.randrange(2)
    log: dict[int, tuple[int | None, Status]] = {
        offset: (value_of(topic, offset, who("p", 0, topic)), Status.GOOD)
        for offset in range(begin, OFFSETS)
        if random.random() < 0.85
    }
    deleted_ns = random.randrange(6) * SECOND_NS if random.random() < 0.06 else None
    nodes = {}
    odd = random.random() < 0.7
    for number in range(random.randint(2, 4)):
        reader = who("s", number, topic)
        held = dict(log)
        if odd and random.random() < 0.5:
            _differ(held, topic, random)
        _read(rows, topic, random, reader, held)
        nodes[reader] = random.choice((number,) * 8 + (1, None))
    for reader, node in nodes.items():
        about = {"node": node} if node is not None else {}
        rows.processes[process_of(reader)] = {"role": ROLE, **about}
    if deleted_ns is not None:
        for f, when in ((F.DELETE, deleted_ns), (F.CREATE, deleted_ns + SECOND_NS)):
            rows.add(Kind.COMPLETE, who("k", 0, topic), f=f, type=Type.OK, topic=topic, invoked=when, time=when)


def _differ(held: dict[int, tuple[int | None, Status]], topic: int, random: Random) -> None:
    offset = random.randrange(OFFSETS)
    what = random.random()
    if what < 0.4:
        held.pop(offset, None)
    elif what < 0.7:
        held[offset] = (value_of(topic, 50 + random.randrange(2), who("p", 0, topic)), Status.GOOD)
    elif what < 0.85:
        held[offset] = (None, random.choice((Status.CORRUPT, Status.FOREIGN)))
    else:
        held[offset] = (held.get(offset, (None, Status.GOOD))[0], Status.MISROUTED)


def _read(rows: Rows, topic: int, random: Random, reader: str, held: dict[int, tuple[int | None, Status]]) -> None:
    """From where it begins to where it stops; mostly all of it, and mostly once."""
    now = random.randrange(10) * SECOND_NS
    place = {"topic": topic, "partition": 0 if random.random() < 0.95 else random.choice((1, None))}
    times = {"invoked": now, "time": now + random.randrange(3) * SECOND_NS}
    common = {**place, **times}
    for _ in range(random.choice((1,) * 15 + (0, 2))):
        begin = random.choice((0,) * 10 + (1, 2, None))
        op = op_of(topic, random.randrange(900), reader)
        rows.add(Kind.COMPLETE, reader, op=op, f=F.ASSIGN, type=Type.OK, offset=begin, **common)
    op = op_of(topic, 0, reader)
    for offset, (value, status) in sorted(held.items()):
        for _ in range(random.choice((1,) * 80 + (0, 2))):
            rows.add(Kind.RECORD, reader, op=op, offset=offset, value=value, status=status, **common)
    for _ in range(random.choice((1,) * 15 + (0, 2))):
        stop, end = (random.choice((OFFSETS,) * 10 + (OFFSETS - 1, 2, 0, None)) for _ in range(2))
        type_ = random.choice((Type.OK, Type.OK, Type.OK, Type.INFO, Type.FAIL))
        rows.add(Kind.COMPLETE, reader, op=op, f=F.REPLICA, type=type_, offset=stop, end=end, **common)


def find(rows: Rows) -> Iterator[Told]:
    """At each offset that a replica handed out."""
    eras, covered = Eras(rows), _covered(rows)
    handed: dict[Told, list[Event]] = defaultdict(list)
    readers: dict[Told, list[int]] = defaultdict(list)
    for process, topic, partition in covered:
        readers[topic, partition].append(process)
    for record in rows.events[Kind.RECORD]:
        topic, partition = record.get("topic"), record.get("partition")
        if record["offset"] in covered.get((record["process"], topic, partition), ()):
            handed[topic, partition, record["offset"], eras.of(record)].append(record)
    for (topic, partition, offset, era), records in handed.items():
        among = [each for each in readers[topic, partition] if offset in covered[each, topic, partition]]
        cover = {rows.processes[each]["node"] for each in among}
        hold = {rows.processes[record["process"]]["node"] for record in records}
        values = {record.get("value") for record in records}
        gone = ("deleted topic",) if era == UNSURE else ()
        times = [record["time"] for record in records]
        if len(cover) < 2:
            continue
        if len(values) > 1 or len({record["status"] for record in records}) > 1:
            tags, nodes = gone, hold
        elif hold < cover and not compacted(rows, topic):
            tags, nodes = ("missing", *gone), cover
        else:
            continue
        known = sorted(value for value in values if value is not None)
        shown = tuple(known if len(known) < 2 else (known[0], known[-1]))
        told = ("replica-divergence", topic, partition, offset, shown)
        yield (*told, tags, tuple(sorted(nodes)), min(times), max(times))


def _covered(rows: Rows) -> dict[tuple[int, int | None, int | None], range]:
    """By process and place, the offsets that a read covers."""
    begins: dict[tuple[int, int | None, int | None], Event] = {}
    ends: dict[tuple[int, int | None, int | None], Event] = {}
    for event in sorted(operations(rows, F.ASSIGN, F.REPLICA), key=lambda event: int(event["event"])):
        about = rows.processes[event["process"]]
        placed = event.get("topic") is not None and event.get("partition") is not None
        if placed and about["role"] == ROLE and "node" in about:
            which = begins if event["f"] == F.ASSIGN else ends
            which[event["process"], event["topic"], event["partition"]] = event
    covered = {}
    for key_, end in ends.items():
        begin, stop, watermark = begins.get(key_, {}).get("offset"), end.get("offset"), end.get("end")
        if begin is not None and stop is not None and watermark is not None:
            covered[key_] = range(begin, min(stop, watermark))
    return covered


def key(finding: Finding, topic: int | None) -> Told:
    """All of it is there."""
    place = (finding.anomaly, topic, finding.partition, finding.offset)
    return (*place, finding.values, finding.tags, finding.nodes, finding.time_ns, finding.until_ns)
