"""A little world: a log of two partitions, producers, readers, a keeper, probes, and everything that may go wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from harness.history.schema import ID_BITS, F, Kind, OffsetView, Status, Type
from tests.oracle import COMPACTED, who
from tests.oracle.common import op_of, value_of
from tests.support.histories import NOBODY, SECOND_NS, VALUES_OF_A_TOPIC, Rows, process_of

PARTITIONS = 2
MAY_SEE_ABORTED = "uw"


ENDS = (*[Type.OK] * 14, Type.FAIL, Type.INFO)  # of polls


@dataclass(frozen=True)
class Slot:
    """What an offset holds."""

    offset: int
    value: int | None
    key: int | None = None
    status: Status = Status.GOOD
    committed: bool = True


class World:
    """One topic. Times are whole seconds, mostly, so that things happen at one instant, or five seconds apart."""

    def __init__(self, rows: Rows, topic: int, random: Random) -> None:
        self.rows, self.topic, self.random = rows, topic, random
        self.now = random.choice([0, 0, 10]) * SECOND_NS
        self.logs: dict[int, list[Slot]] = {partition: [] for partition in range(PARTITIONS)}
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.keyed = rows.topics[topic].startswith(COMPACTED)
        self.sequences: dict[tuple[str, int], int] = defaultdict(int)
        self.cursors: dict[tuple[str, int], int] = defaultdict(int)
        self.lives = 1
        self.step = 1  # from one sequence to the next
        self._counter = 0
        self._polls: set[int] = set()

    def maybe(self, percent: float) -> bool:
        """As likely as that."""
        return self.random.random() * 100 < percent

    def number(self) -> int:
        """One that the topic did not have yet."""
        self._counter += 1
        return self._counter

    def partition(self) -> int:
        """Mostly the first."""
        return self.random.choice([0, 0, 0, 1])

    def lasting(self, *seconds: int) -> dict[str, int]:
        """From now on; what comes next may begin before it ends."""
        invoked, lasted = self.now, self.random.choice(seconds or (0, 1, 1, 2, 4)) * SECOND_NS
        self.now += self.random.choice([0, lasted, lasted, lasted, lasted + 1, SECOND_NS])
        return {"invoked": invoked, "time": invoked + lasted}

    def add(self, kind: Kind, process: str, **columns: Any) -> None:
        """An event of this topic."""
        self.rows.add(kind, process, topic=self.topic, **columns)

    def append(self, partition: int, slot: Slot) -> int:
        """The offset that it got."""
        offset = self.ends[partition]
        self.logs[partition].append(replace(slot, offset=offset))
        self.ends[partition] += 1
        return offset

    def send(self, producer: str, partition: int, *, type_: Type | None = None, **more: Any) -> None:
        """One message, with whatever may become of it and of its acknowledgement."""
        type_ = type_ or self.random.choice([Type.OK] * 7 + [Type.FAIL, Type.INFO, Type.INFO])
        value = value_of(self.topic, self.number(), producer)
        columns: dict[str, Any] = {"op": value, "value": value, "type": type_, **more}
        if self.keyed and not self.maybe(5):
            columns["key"] = self.random.randint(1, 2)
        if self.maybe(50):
            columns["sequence"] = self.sequences[producer, partition]
            self.sequences[producer, partition] += self.step
        arrived = self.maybe({Type.OK: 96, Type.INFO: 60, Type.FAIL: 25 if "txn" not in more else 80}[type_])
        committed = type_ == Type.OK or "txn" not in more or self.maybe(30 if type_ == Type.INFO else 20)
        offset: int | None = self.ends[partition]
        if arrived:
            place = 1 - partition if self.maybe(3) else partition
            status = Status.GOOD if place == partition or self.maybe(40) else Status.MISROUTED
            slot = Slot(0, value, columns.get("key"), status, committed)
            self.append(place, slot)
            if self.maybe(40 if self.lives > 1 else 3):  # there is more to tell of duplicates in a second life
                self.append(place, slot)
        if not arrived and self.maybe(60):
            self.ends[partition] += 1
        if self.maybe(7):
            offset = self.random.choice([None, -1, 0, 0, (offset or 0) + 1, max(0, (offset or 0) - 1)])
        if type_ == Type.OK or self.maybe(70 if "txn" in more else 30):
            columns["offset"] = offset
        if "time" not in columns:
            columns |= self.lasting()
        self.add(Kind.COMPLETE, producer, f=F.SEND, partition=partition, **columns)

    def transact(self, producer: str) -> None:
        """Some messages, which end as their transaction does and when it does; markers follow them."""
        txn, type_ = op_of(self.topic, self.number(), producer), self.random.choice([Type.OK, Type.OK, *Type])
        times = self.lasting(1, 2, 3)
        touched = [self.partition() for _ in range(self.random.randint(1, 4))]
        for partition in touched:
            begun = {"invoked": self.random.choice([times["invoked"], times["time"]]), "time": times["time"]}
            self.send(producer, partition, type_=type_, txn=txn, **begun)
        for partition in {*touched}:
            self.ends[partition] += self.random.choice([0, 1, 1, 1, 2, 3, 4])
        name = f"model-{self.topic}-{producer}"
        self.rows.add(Kind.COMPLETE, producer, f=F.TXN, op=txn, type=type_, name=name, **times)

    def damage(self) -> None:
        """The log loses a record, or gets one twice, or has another one in its place."""
        log = self.logs[self.partition()]
        if not log:
            return
        place = self.random.randrange(len(log))
        slot = log[place]
        nobodys = (NOBODY << ID_BITS) + self.topic * VALUES_OF_A_TOPIC + self.number()
        log[place : place + 1] = self.random.choice(
            [
                *[[]] * 2,
                *[[replace(slot, status=Status.CORRUPT, value=None)]] * 4,
                *[[replace(slot, status=Status.FOREIGN, value=None, key=None)]] * 2,
                *[[replace(slot, value=nobodys)]] * 2,
                [replace(slot, value=nobodys, status=self.random.choice([Status.GOOD, Status.MISROUTED]))],
                [replace(slot, value=log[0].value, status=log[0].status)],
                [replace(slot, offset=slot.offset + 1)],
                [slot, replace(slot, offset=slot.offset + 1)],
            ]
        )

    def poll(self, reader: str, partition: int, **more: Any) -> None:
        """Some records, from where the reader is."""
        begin = self.cursors[reader, partition]
        if self.maybe(12):
            begin = self.random.randint(0, 1 + self.ends[partition])
        committed = reader[0] not in MAY_SEE_ABORTED
        log = [slot for slot in self.logs[partition] if slot.offset >= begin and (slot.committed or not committed)]
        handed = log[: self.random.choice([1, 2, 3, 9])]
        if len(handed) > 1 and self.maybe(25):
            handed.remove(self.random.choice(handed))
        if handed and self.maybe(4):
            handed.insert(self.random.randint(0, len(handed)), self.random.choice(handed))
        self.hand_out(reader, partition, handed, **(more or self.lasting()))

    def hand_out(self, reader: str, partition: int, slots: list[Slot], **more: Any) -> None:
        """As records of one poll."""
        if slots:
            self.cursors[reader, partition] = slots[-1].offset + 1
        op = more.pop("op", None) or op_of(self.topic, self.number(), reader)
        if op not in self._polls:
            self._polls.add(op)
            self.add(Kind.COMPLETE, reader, f=F.POLL, op=op, type=self.random.choice(ENDS), count=len(slots), **more)
        for slot in slots:
            sender = None if slot.value is None else slot.value >> ID_BITS
            self.add(
                Kind.RECORD, reader, op=op, partition=partition, offset=slot.offset, value=slot.value, producer=sender,
                key=slot.key, status=slot.status, **more,
            )  # fmt: skip

    def begin_anew(self) -> None:
        """The keeper deletes the topic, and creates it again, unless something is wrong with that."""
        pool, type_ = who("k", 0, self.topic), self.random.choice([Type.OK] * 4 + [Type.INFO, Type.FAIL])
        for f, each in ((F.DELETE, type_), (F.CREATE, self.random.choice([Type.OK] * 4 + [Type.INFO]))):
            op = op_of(self.topic, self.number(), pool)
            self.add(Kind.COMPLETE, pool, f=f, op=op, type=each, **self.lasting())
        self.now += self.random.choice([0, 1, 2, 2, 3]) * SECOND_NS
        if type_ != Type.FAIL:
            self.logs = {partition: [] for partition in range(PARTITIONS)}
            self.ends = dict.fromkeys(range(PARTITIONS), 0)
            self.cursors.clear()
            self.lives += 1

    def probe(self) -> None:
        """A node is asked for its marks."""
        partition = self.partition()
        shown = self.ends[partition] + self.random.choice([-1, 0, 0, 0, 1])
        start = self.random.choice([0, 0, 1, 2, self.ends[partition]])
        answer: dict[str, Any] = self.random.choice(
            [
                {"api": 1, "high_watermark": shown, "log_start": start},
                {"api": 2, "view": OffsetView.LATEST, "offset": shown},
                {"api": 2, "view": OffsetView.EARLIEST, "offset": start},
            ]
        )
        node = self.random.randint(1, 3)
        self.add(
            Kind.PROBE, who("n", node, self.topic), node=node, partition=partition,
            error=self.random.choice([0, 0, 0, 0, 6]), **answer, **self.lasting(0, 1),
        )  # fmt: skip

    def number_anew(self, producer: str) -> None:
        """The tap sees two batches of a producer, which may be of two epochs."""
        for epoch in (0, self.random.choice([0, 1, 1, None])):
            self.add(
                Kind.EXCHANGE, who("t", 0, self.topic), op=op_of(self.topic, self.number(), who("t", 0, self.topic)),
                type=Type.OK, client=f"tidegauge-load-{process_of(producer)}", api=0, api_version=9, partition=0,
                producer_id=process_of(producer), producer_epoch=epoch, node=1, error=self.random.choice([0, 6]),
                **self.lasting(),
            )  # fmt: skip

    def read_to_the_end(self, partition: int, role: str) -> None:
        """The final or the raw read of a partition, which may give up before its end, or claim to have got there."""
        reader, number = who(role, self.random.choice([0, 0, 0, 1]), self.topic), self.number()
        begun = self.now
        log = [slot for slot in self.logs[partition] if slot.committed or role in MAY_SEE_ABORTED]
        gave_up = self.maybe(40)
        handed = log[: self.random.randint(0, len(log))] if gave_up else log
        if handed and self.maybe(10):
            handed = handed[:-1]
        if handed or self.maybe(20):
            self.hand_out(reader, partition, handed, invoked=begun, time=begun + self.random.choice([0, 1]) * SECOND_NS)
        lasted = self.random.choice([1, 4, 5, 5, 6, 6, 7]) * SECOND_NS + self.random.choice([0, 0, 0, -1])
        self.add(
            Kind.COMPLETE, reader, f=F.FINAL if role == "r" else F.RAW, op=op_of(self.topic, number, reader),
            type=Type.INFO if gave_up else Type.OK, partition=partition, invoked=begun, time=begun + lasted,
            offset=handed[-1].offset + 1 if handed else 0,
            end=None if self.maybe(35 if gave_up else 5) else self.ends[partition] + self.random.choice([0, 0, 0, 1]),
        )  # fmt: skip
        self.now += self.random.choice([0, lasted])


def make_up(rows: Rows, topic: int, random: Random) -> None:
    """A history of deliveries."""
    if random.random() < 0.2:
        rows.topics[topic] = f"{COMPACTED}{topic}"
    world = World(rows, topic, random)
    producers = [who(random.choice("pij"), number, topic) for number in range(2)]
    readers = [who(random.choice("cccug"), number, topic) for number in range(2)]
    deleted = random.random() < 0.1
    acts = {
        "send": 10,
        "transact": random.choice([0, 0, 4]),
        "poll": 8 if deleted else random.choice([0, 2, 4]),
        "damage": 4 if deleted else random.choice([0, 0, 7]),
        "begin_anew": 4 if deleted else 0,
        "probe": random.choice([0, 0, 3]),
        "number_anew": random.choice([0, 0, 0, 3]),
    }
    for act in random.choices(list(acts), list(acts.values()), k=random.randint(4, 12 if deleted else 8)):
        if act == "send":
            world.send(random.choice(producers), world.partition())
        elif act in {"transact", "number_anew"}:
            getattr(world, act)(random.choice(producers))
        elif act == "poll":
            world.poll(random.choice(readers), world.partition())
        else:
            getattr(world, act)()
    world.now += random.choice([0, 0, 5]) * SECOND_NS
    for role in random.choice(["", "r", "r", "r", "rw", "rr"]):
        for partition in range(PARTITIONS):
            if random.random() < 0.8:
                world.read_to_the_end(partition, role)
