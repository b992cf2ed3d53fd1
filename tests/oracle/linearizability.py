"""Points and visibility, every operation against every other: `checkers.linearizability` and its modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers.core.results import Finding
from harness.history.schema import F, Kind, OffsetView, Status, Type
from tests.oracle import Event, Told, who
from tests.oracle.answers import FETCH, LIST_OFFSETS, METADATA, SETTLING_NS, Answer, Epochs, answers, deposed, epochs
from tests.oracle.common import operations, records, value_of
from tests.oracle.eras import NEVER_NS, UNSURE, Eras
from tests.support.histories import SECOND_NS, Rows

FROZEN_NS = 5 * SECOND_NS
ANOMALIES = frozenset(
    ["realtime-order", "not-linearizable", "watermark-behind-ack", "watermark-frozen", "watermark-ahead"]
)


def write(rows: Rows, topic: int, random: Random) -> None:
    """A log to which producers append, while others read it and ask where it ends; some of it is wrong."""
    world = _World(rows, topic, random)
    if random.random() < 0.04:
        world.delete()
    for number, at in enumerate(world.appends):
        world.send(number, at)
    for _ in range(random.randint(2, 12)):
        world.answer()
    if random.random() < 0.5:
        world.final()


class _World:
    """One partition; appends happen at moments, in the order of their offsets unless somebody lies."""

    def __init__(self, rows: Rows, topic: int, random: Random) -> None:
        self.rows, self.topic, self.random = rows, topic, random
        self.unit = random.choice([1, SECOND_NS // 2, SECOND_NS, SECOND_NS])
        self.honest = random.choice([0.7, 0.9, 1.0])
        self.appends = sorted(random.choices(range(1, 24), k=random.randint(1, 7)))
        self.changes = sorted(random.choices(range(24), k=random.choice([0, 1, 1, 2])))  # of the leader
        self.tells_epochs = random.random() < 0.7
        self.stuck = random.choice([None, random.randint(0, 12)])  # from when on the marks stand still

    def lies(self) -> bool:
        """Whether something is wrong here."""
        return self.random.random() > self.honest

    def when(self, begun: int, over: int) -> dict[str, int]:
        """A time with its place."""
        nudge = self.random.choice([0, 0, 0, 0, -1, 1]) if self.unit > 1 else 0
        invoked = begun * self.unit
        return {"topic": self.topic, "partition": 0, "invoked": invoked, "time": max(invoked, over * self.unit + nudge)}

    def send(self, offset: int, at: int) -> None:
        """An append, and who reads it."""
        random = self.random
        sender = who(random.choice("pi"), 1, self.topic)
        value = value_of(self.topic, 1 + offset, sender)
        type_ = random.choice([Type.OK] * 6 + [Type.INFO, Type.INFO, Type.FAIL])
        begun, over = at - random.randint(0, 2), at + random.choice([0, 1, 1, 2, 8])
        told = offset + (random.choice([-4, -3, -2, -1, 1, 2, 3]) if self.lies() or self.lies() else 0)
        acknowledged = told if type_ == Type.OK or random.random() < 0.1 else None
        columns = {"f": F.SEND, "op": value, "value": value, "type": type_, "offset": acknowledged}
        self.rows.add(Kind.COMPLETE, sender, **columns, **self.when(begun, over))
        for _ in range(0 if type_ == Type.FAIL else random.choice([0, 1, 1, 2])):
            reader = who(random.choice("cccurs"), 1, self.topic)
            handed = at + (random.randint(-5, -1) if self.lies() else random.randint(0, 6))
            place = offset + (random.choice([-1, 1]) if self.lies() else 0)
            status = random.choice([Status.GOOD] * 9 + [Status.CORRUPT])
            known = value if status == Status.GOOD else None
            columns = {"op": value + 1, "offset": max(0, place), "status": status, "value": known}
            self.rows.add(Kind.RECORD, reader, **columns, **self.when(handed - 1, handed))

    def answer(self) -> None:
        """Where the log ends, as a node says, or who leads it."""
        random = self.random
        begun = random.randint(0, 26)
        over = begun + random.choice([0, 0, 1, 1, 3])
        at = random.randint(begun, over)
        knows = at if random.random() < 0.7 else at - 5  # one that does not know of its successor
        epoch = 1 + sum(change <= knows for change in self.changes)
        if self.stuck is not None and random.random() < 0.8:
            knows = min(knows, self.stuck)
        shown = sum(append <= knows for append in self.appends) + (random.choice([-2, -1, 1, 2]) if self.lies() else 0)
        columns: dict[str, Any] = {"error": random.choice([0] * 14 + [6, None]), "node": epoch % 3 + 1}
        if self.tells_epochs and random.random() < 0.8:
            columns["leader_epoch"] = epoch
        sort = random.choice([FETCH, FETCH, LIST_OFFSETS, LIST_OFFSETS, METADATA, METADATA])
        if sort == FETCH:
            columns |= {"high_watermark": random.choice([shown] * 19 + [None])}
        elif sort == LIST_OFFSETS:
            columns |= {"view": random.choice([OffsetView.LATEST] * 9 + [OffsetView.EARLIEST]), "offset": shown}
        if random.random() < 0.3:
            seen = random.choice([Type.OK] * 8 + [Type.INFO])
            columns |= {"type": seen, "api_version": random.choice([10, 10, 12])}
            self.rows.add(Kind.EXCHANGE, who("t", 1, self.topic), api=sort, **columns, **self.when(begun, over))
        else:
            self.rows.add(Kind.PROBE, who("n", 1, self.topic), api=sort, **columns, **self.when(begun, over))

    def final(self) -> None:
        """Somebody reads to the end when all is over, or too early."""
        random, begun = self.random, self.random.choice([26, 26, 30, 12])
        end = len(self.appends) - (random.randint(1, 3) if self.lies() else 0)
        columns = {"f": F.FINAL, "type": random.choice([Type.OK, Type.OK, Type.INFO]), "offset": end, "end": end}
        self.rows.add(Kind.COMPLETE, who("r", 1, self.topic), **columns, **self.when(begun, begun + 2))

    def delete(self) -> None:
        """The topic is deleted, and most often created again."""
        random, at, pool = self.random, self.random.randint(3, 12), who("k", 1, self.topic)
        outcome = random.choice([Type.OK, Type.OK, Type.INFO, Type.FAIL])
        self.rows.add(Kind.COMPLETE, pool, f=F.DELETE, type=outcome, **self.when(at, at + 1))
        if random.random() < 0.8:
            self.rows.add(Kind.COMPLETE, pool, f=F.CREATE, type=Type.OK, **self.when(at + 2, at + 3))


@dataclass(frozen=True, order=True)
class Moment:
    """When something began or was over, and the other end of it."""

    at: int
    event: int
    other: int = field(compare=False)
    value: int | None = field(compare=False, default=None)
    node: int | None = field(compare=False, default=None)


@dataclass(frozen=True)
class Mark:
    """A mark that an answer shows, with what is known of its leader."""

    answer: Answer
    offset: int
    epoch: int | None
    fresh: int | None  # until when that epoch is new; None if it is the first one or nobody knows
    old: bool

    @property
    def begun(self) -> Moment:
        """Its invocation."""
        return Moment(self.answer.invoked, self.answer.event, self.answer.time, node=self.answer.node)

    @property
    def over(self) -> Moment:
        """Its end."""
        return Moment(self.answer.time, self.answer.event, self.answer.invoked, node=self.answer.node)

    @property
    def new(self) -> bool:
        """Whether it is that of a new leader."""
        return self.fresh is not None and self.answer.invoked <= self.fresh


@dataclass
class Log:
    """What is known of one life of a partition."""

    sent: list[tuple[int, Moment]] = field(default_factory=list)  # offsets, and when the send was invoked
    acked: list[tuple[int, Moment]] = field(default_factory=list)
    read: list[tuple[int, Moment]] = field(default_factory=list)
    late: list[tuple[int, Moment]] = field(default_factory=list)
    finals: list[tuple[int, Moment]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    epochs: Epochs = field(default_factory=dict)


def find(rows: Rows) -> Iterator[Told]:
    """All of these anomalies."""
    proofs: dict[tuple[Any, ...], list[tuple[Moment, Moment]]] = defaultdict(list)
    for (topic, partition), log in _logs(rows):
        for anomaly, offset, tags, x, y in _contradictions(log):
            yield anomaly, topic, partition, offset, tags, x.at, max(y.at, y.other)
        for anomaly, more, x, y in (*_behind_acks(log), *_frozen(log), *_ahead(log)):
            proofs[anomaly, topic, partition, more].append((x, y))
    for (anomaly, topic, partition, more), pairs in proofs.items():
        first, last = min(x.at for x, _ in pairs), max(y.other for _, y in pairs)
        yield anomaly, topic, partition, *more, first, last, len(pairs)


def _logs(rows: Rows) -> Iterator[tuple[tuple[Any, Any], Log]]:
    eras = Eras(rows)
    logs: dict[tuple[tuple[Any, Any], int], Log] = defaultdict(Log)
    unknown: dict[tuple[Any, ...], Event] = {}
    for row in operations(rows, F.SEND, F.FINAL):
        place = (row["topic"], row["partition"])
        log = logs[place, eras.of(row)]
        begun = Moment(row["invoked"], row["event"], row["time"], row.get("value"))
        over = Moment(row["time"], row["event"], row["invoked"], row.get("value"))
        if row["f"] == F.SEND and row["type"] == Type.INFO:
            unknown[*place, row["value"]] = row
        elif row["f"] == F.SEND and row["type"] == Type.OK and _usable(row.get("offset")):
            log.sent.append((row["offset"], begun))
            log.acked.append((row["offset"], over))
        elif row["f"] == F.FINAL and row["type"] == Type.OK and _usable(row.get("end")):
            log.finals.append((row["end"], begun))
    for row in records(rows):
        log = logs[(row["topic"], row["partition"]), eras.of_read(row)]
        log.read.append((row["offset"], Moment(row["time"], row["event"], row["time"], row.get("value"))))
        send = unknown.get((row["topic"], row["partition"], row.get("value")))
        if send is not None and row["status"] == Status.GOOD:
            log.late.append((row["offset"], Moment(send["invoked"], send["event"], send["time"], send["value"])))
    shown = epochs(rows, eras)
    for answer in answers(rows, eras):
        if _usable(answer.shown):
            logs[answer.place, answer.life].marks.append(_mark(answer, shown.get((answer.place, answer.life), {})))
    for key, log in logs.items():
        log.epochs = shown.get(key, {})
    return ((place, log) for (place, era), log in logs.items() if era != UNSURE)


def _usable(offset: int | None) -> bool:
    return offset is not None and offset >= 0


def _mark(answer: Answer, shown: Epochs) -> Mark:
    known = [epoch for epoch, rise in shown.items() if rise.seen <= answer.invoked]
    epoch = max(known, default=None) if answer.told is None else answer.told
    fresh = None
    if epoch is not None and shown and epoch > min(shown):
        as_high = [rise.seen for each, rise in shown.items() if each >= epoch]
        fresh = min(as_high) + SETTLING_NS if as_high else NEVER_NS
    assert answer.shown is not None
    return Mark(answer, answer.shown, epoch, fresh, deposed(shown, epoch, answer.invoked))


def _last(moments: Iterable[Moment], after: Moment) -> Moment | None:
    """The last of these, if it comes after that."""
    last = max(moments, default=None)
    return last if last is not None and last.at > after.at else None


def _contradictions(log: Log) -> Iterator[tuple[str, int, tuple[str, ...], Moment, Moment]]:
    """What cannot have happened in the order of offsets: anomaly, offset, tags, and the two operations."""
    appended = log.sent + log.late
    ends = [mark for mark in log.marks if mark.answer.api == LIST_OFFSETS]
    for offset in {offset for offset, _ in log.acked + log.read}:
        acked = min((x for o, x in log.acked if o == offset), default=None)
        done = min(x for o, x in log.acked + log.read if o == offset)
        behind = [end for end in ends if end.offset <= offset]
        if acked and (y := _last((y for o, y in log.sent if o < offset), acked)):
            yield "realtime-order", offset, (), acked, y
        elif y := _last((y for o, y in appended if o <= offset), done):
            yield "not-linearizable", offset, ("append",), done, y
        elif y := _last((end.begun for end in behind if not end.old), done):
            yield "not-linearizable", offset, ("end", "behind"), done, y
        elif y := _last((end.begun for end in behind), done):
            yield "not-linearizable", offset, ("end", "behind", "older epoch"), done, y
    for offset in {end.offset for end in ends}:
        over = min(end.over for end in ends if end.offset == offset)
        lower = [end for end in ends if end.offset < offset]
        if y := _last((y for o, y in appended if o < offset), over):
            yield "not-linearizable", offset, ("end", "ahead"), over, y
        elif y := _last((end.begun for end in lower if not end.old), over):
            yield "not-linearizable", offset, ("end", "fell"), over, y
        elif y := _last((end.begun for end in lower), over):
            yield "not-linearizable", offset, ("end", "fell", "older epoch"), over, y


Proof = tuple[str, tuple[Any, ...], Moment, Moment]


def _first_acks(log: Log) -> Iterator[tuple[int, Moment]]:
    """Of each offset."""
    for offset in {offset for offset, _ in log.acked}:
        yield offset, min(x for o, x in log.acked if o == offset)


def _behind_acks(log: Log) -> Iterator[Proof]:
    for offset, acked in _first_acks(log):
        led = [mark for mark in log.marks if mark.answer.led and mark.offset <= offset]
        settled = [mark for mark in led if not mark.old and not mark.new]
        known = [mark for mark in settled if mark.epoch is not None]
        sorts: Sequence[tuple[str, list[Mark]]] = (
            ("one epoch", [mark for mark in known if mark.fresh is None or mark.fresh <= acked.at]),
            ("epoch unknown", [mark for mark in settled if mark.epoch is None]),
            ("epoch rose", [mark for mark in known if mark.fresh is not None and mark.fresh > acked.at]),
            ("epoch rose", [mark for mark in led if mark.new and not mark.old]),
            ("older epoch", [mark for mark in led if mark.old]),
        )
        for tag, marks in sorts:
            if y := _last((mark.begun for mark in marks), acked):
                yield "watermark-behind-ack", (y.node, tag), acked, y
                break


def _frozen(log: Log) -> Iterator[Proof]:
    """Marks that one leader showed in one epoch for long, while it acknowledged offsets above them."""
    led: dict[tuple[int, Any, Any], list[Mark]] = defaultdict(list)
    for mark in log.marks:
        if mark.answer.led and not mark.old:
            led[mark.offset, mark.answer.node, mark.epoch].append(mark)
    stood = {
        (offset, epoch, min(mark.over for mark in marks), max(mark.begun for mark in marks))
        for (offset, _, epoch), marks in led.items()
        if max(mark.begun for mark in marks).at - min(mark.over for mark in marks).at >= FROZEN_NS
    }
    for offset, acked in _first_acks(log):
        at = max((mark for mark, *_ in stood if mark <= offset), default=None)
        begun = [each for each in stood if each[0] == at and each[2].at < acked.at]
        if not begun:
            continue
        _, epoch, _, last = max(begun, key=lambda each: each[2])
        if last.at - acked.at >= FROZEN_NS and not deposed(log.epochs, epoch, acked.at):
            yield "watermark-frozen", (at, "epoch unknown" if epoch is None else "one epoch"), acked, last


def _ahead(log: Log) -> Iterator[Proof]:
    appended = log.sent + log.late
    for offset in {mark.offset for mark in log.marks}:
        shown = min(mark.over for mark in log.marks if mark.offset == offset)
        if y := _last((y for o, y in appended if o < offset), shown):
            yield "watermark-ahead", ("later append",), shown, y
        elif y := _last((y for o, y in log.finals if o < offset), shown):
            yield "watermark-ahead", ("missing",), shown, y


def key(finding: Finding, topic: int | None) -> Told:
    """All but the pair that contradicts most."""
    place, span = (finding.anomaly, topic, finding.partition), (finding.time_ns, finding.until_ns)
    if finding.anomaly in {"realtime-order", "not-linearizable"}:
        return *place, finding.offset, finding.tags, *span
    more: tuple[Any, ...] = ()
    if finding.anomaly == "watermark-behind-ack":
        more = (finding.nodes[0] if finding.nodes else None,)
    elif finding.anomaly == "watermark-frozen":
        more = (finding.offset,)
    return *place, *more, finding.tags[0], *span, finding.facts["proofs"]
