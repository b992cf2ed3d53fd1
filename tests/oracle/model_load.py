"""A load of producers and consumers, for histories of who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from harness.history.schema import F, FaultStage, Kind, Status, Type
from tests.oracle import who
from tests.oracle.answers import FETCH, LIST_OFFSETS
from tests.oracle.common import op_of, value_of
from tests.support.histories import SECOND_NS, Rows

BEGIN_S, LASTS_S = 3000, 120  # of the load
SILENCE_S, SILENT_S = 60, 8  # since the begin, seconds in which nothing happens anywhere
FAULTS_AT_MOST = 6


def make_up(rows: Rows, topic: int, random: Random) -> None:
    """Producers and consumers of a partition or two, who wait now and then; once in a while, a fault for everybody."""
    if not rows.events[Kind.FAULT] or (len(rows.events[Kind.FAULT]) < 2 * FAULTS_AT_MOST and random.random() < 0.04):
        _write_fault(rows, topic, random)
    world = _World(rows, topic, random)
    if random.random() < 0.02:
        world.done("k", F.DELETE, 10, 11)
    if random.random() < 0.2:
        world.fall_behind()
    elif random.random() < 0.15:
        world.recover()
    else:
        for partition in range(random.choice([1, 1, 2])):
            world.go_on(partition)
    world.poll("c", LASTS_S - random.choice([0, 0, 1, 4, 5, 6]), 0, [])


def _at(second: int, nudge: int = 0) -> int:
    """A moment, since the begin of the load; there is none in the silence."""
    return (BEGIN_S + second + (SILENT_S if second >= SILENCE_S else 0)) * SECOND_NS + nudge


def _write_fault(rows: Rows, topic: int, random: Random) -> None:
    """One that lasts for some seconds; perhaps nobody undid it, or it never began."""
    if not rows.events[Kind.PHASE]:
        for name, second in (("start", -20), ("load", -10), ("heal", LASTS_S), ("final", LASTS_S + 5)):
            rows.add(Kind.PHASE, "x1", time=_at(second), name=name)
    first = not rows.events[Kind.FAULT]
    begun = (
        random.randint(5, 15) if first else random.randint(60, 95)
    )  # so that there is time to recover from the first
    stages = {FaultStage.INJECTED: begun, FaultStage.UNDONE: begun + (10 if first else random.choice([3, 10, 25, 40]))}
    if not first and random.random() < 0.2:
        stages.pop(random.choice(list(stages)))
    for stage, second in stages.items():
        rows.add(Kind.FAULT, "x1", time=_at(second, topic), fault=topic, stage=stage, name=f"fault-{topic}")


class _World:
    """A topic; seconds are those since the begin of the load."""

    def __init__(self, rows: Rows, topic: int, random: Random) -> None:
        self.rows, self.topic, self.random = rows, topic, random
        self.numbers = iter(range(1, 900))
        self.reader = random.choice("cccgu")
        self.txn = random.choice([None, None, None, op_of(topic, 0, who("p", 1, topic))])

    def done(self, role: str, f: F, begun: int, over: int, **columns: Any) -> None:
        """An operation."""
        nudge = self.random.choice([0, 0, 0, 1, 300_000_000]) if f == F.SEND else 0
        process = who(role, 1, self.topic)
        given = {"op": op_of(self.topic, next(self.numbers), process), "type": Type.OK, "topic": self.topic} | columns
        when = {"invoked": _at(begun), "time": max(_at(begun), _at(over, nudge))}
        self.rows.add(Kind.COMPLETE, process, **given, f=f, **when)

    def send(
        self, partition: int, over: int, offset: int | None, type_: Type = Type.OK, took: int | None = None
    ) -> None:
        """A send that took a while."""
        value = value_of(self.topic, next(self.numbers), who("p", 1, self.topic))
        begun = over - (self.random.choice([0, 0, 1, 1, 3, 21, 32]) if took is None else took)
        columns = {"value": value, "op": value, "offset": offset, "type": type_, "partition": partition}
        self.done("p", F.SEND, begun, over, txn=self.txn if self.random.random() < 0.5 else None, **columns)

    def poll(self, role: str, over: int, partition: int, offsets: Sequence[int], number: int = 1) -> None:
        """A poll with records."""
        process = who(role, number, self.topic)
        op = op_of(self.topic, next(self.numbers), process)
        common = {"op": op, "topic": self.topic, "invoked": _at(over - 1), "time": _at(over)}
        outcome = {"type": Type.OK, "count": len(offsets)}
        self.rows.add(Kind.COMPLETE, process, f=F.POLL, **common, **outcome)
        for offset in offsets:
            self.rows.add(Kind.RECORD, process, partition=partition, offset=offset, status=Status.FOREIGN, **common)

    def assign(self, partition: int, over: int) -> None:
        """A partition is the load's to read."""
        type_ = self.random.choice([Type.OK, Type.OK, Type.OK, Type.FAIL])
        self.done(self.reader, F.ASSIGN, over - 1, over, partition=partition, type=type_)

    def answer(self, partition: int, begun: int, shown: int) -> None:
        """A node is asked how far it is, or somebody fetches."""
        random = self.random
        over = begun + random.choice([0, 1, 1, 3])
        api = random.choice([FETCH, LIST_OFFSETS])
        columns: dict[str, Any] = {"api": api, "topic": self.topic, "partition": partition, "node": 1}
        columns |= {"error": random.choice([0, 0, 0, 0, 6, None]), "invoked": _at(begun), "time": _at(over)}
        columns |= {"high_watermark": shown} if api == FETCH else {"offset": shown, "view": random.choice([2, 2, 2, 1])}
        if random.random() < 0.5:
            columns |= {"type": random.choice([1, 1, 1, 3]), "count": random.choice([0, 0, 0, 1, None])}
            clients = ["tidegauge-consumer-1", "tidegauge-consumer-1", "tidegauge-finally", "tidegauge", None, "else"]
            self.rows.add(Kind.EXCHANGE, who("t", 1, self.topic), client=random.choice(clients), **columns)
        else:
            self.rows.add(Kind.PROBE, who("n", 1, self.topic), **columns)

    def go_on(self, partition: int) -> None:
        """Sends, reads and answers, with pauses between them."""
        random, end, position = self.random, 0, 0
        now = random.choice([random.randint(0, 60), random.randint(50, 60)])
        if random.random() < 0.7:
            self.assign(partition, now)
        for _ in range(random.randint(3, 10)):
            now += random.choice([0, 0, 1, 1, 2, 4, 5, 6, 20, 21, 31, 41])
            if now > LASTS_S:
                break
            action = random.choice(["send", "send", "send", "read", "answer", "answer"])
            if action == "send":
                type_ = random.choice([Type.OK, Type.OK, Type.OK, Type.INFO, Type.FAIL])
                self.send(partition, now, end if type_ == Type.OK and random.random() < 0.95 else None, type_)
                end += type_ == Type.OK
            elif action == "read" and position < end:
                upto = random.randint(position + 1, end)
                self.poll(random.choice([self.reader] * 4 + ["r"]), now, partition, range(position, upto))
                position = upto
            else:
                self.answer(partition, now, random.choice([position, position, position + 1, end]))

    def recover(self) -> None:
        """Sends that nothing came of until long after the first fault; perhaps one got through before it was over."""
        random = self.random
        for second in (random.randint(8, 26), *([random.randint(15, 50)] if random.random() < 0.3 else [])):
            self.send(0, second, 0, random.choice([Type.OK, Type.INFO]))
        over = random.randint(45, 62)
        self.send(0, over, 1, random.choice([Type.OK, Type.OK, Type.FAIL]), took=random.randint(25, 45))

    def fall_behind(self) -> None:
        """A reader of two partitions, or two readers, of which one is not read to its end."""
        random = self.random
        ends, jump = [random.randint(1, 5) for _ in range(2)], random.choice([0, 0, 20])
        for partition, end in enumerate(ends):
            for offset in range(end):
                self.send(partition, LASTS_S - random.choice([4, 5, 6, 9, 20]), offset + (0 if partition else jump))
            got = end if partition or random.random() < 0.2 else random.randint(0, end)
            reader = random.choice([1, 1, 1, 2])
            self.poll("c", LASTS_S - random.randint(0, 6), partition, range(got), number=reader)
