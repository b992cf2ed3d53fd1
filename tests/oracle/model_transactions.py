"""Transactions that are made up: producers, some of which write what they read, and readers of all sorts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.history.schema import F, Kind, Status, Type
from tests.oracle import COMPACTED, who
from tests.oracle.common import alone_ns, op_of, value_of
from tests.support.histories import Rows

STEP_NS = 1000
INPUTS, OUTPUTS = 0, 1  # partitions


@dataclass
class _World:
    """Partitions as the broker has them: at each offset a value, and whether it counts as committed."""

    rows: Rows
    topic: int
    random: Random
    logs: dict[int, list[tuple[int, bool]]] = field(default_factory=lambda: {INPUTS: [], OUTPUTS: []})
    numbers: int = 0
    now: int = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def times(self) -> dict[str, int]:
        """Time goes on, now and then; an operation may have begun a little earlier."""
        self.now += self.random.choice([0, 1, 1, 2]) * STEP_NS
        invoked = self.now - self.random.choice([0, 0, 0, 1, 2]) * STEP_NS
        return {"invoked": alone_ns(self.topic) + max(0, invoked), "time": alone_ns(self.topic) + self.now}

    def does(self, process: str, f: F, type_: Type = Type.OK, **columns: Any) -> None:
        """An operation."""
        given = {"op": op_of(self.topic, self.number(), process), "f": f, "type": type_, **self.times()}
        self.rows.add(Kind.COMPLETE, process, **(given | columns))

    def send(self, process: str, partition: int, *, committed: bool, **columns: Any) -> int:
        """A value goes into the log, unless it fails; the offset may not be known."""
        value, log = value_of(self.topic, self.number(), process), self.logs[partition]
        type_ = self.random.choice([*[Type.OK] * 8, Type.FAIL, Type.INFO, Type.INFO])
        told = {"topic": self.topic, "partition": partition, "value": value, "op": value, **columns}
        known = type_ == Type.OK or self.chance(0.2)
        self.does(process, F.SEND, type_, offset=len(log) if known and not self.chance(0.05) else None, **told)
        if type_ == Type.OK or self.chance(0.5):
            log.append((value, committed))
        return value

    def handed(self, process: str, partition: int, first: int, last: int, *, raw: bool, **columns: Any) -> None:
        """A poll of a part of the log."""
        found = [
            (offset, value)
            for offset, (value, committed) in enumerate(self.logs[partition])
            if first <= offset <= last and value and (raw or committed)
        ]
        of_poll = {"op": op_of(self.topic, self.number(), process), "topic": self.topic, **self.times(), **columns}
        self.rows.add(Kind.COMPLETE, process, f=F.POLL, type=Type.OK, count=len(found), **of_poll)
        for offset, value in found:
            good = not self.chance(0.04)
            said = {"status": Status.GOOD if good else Status.CORRUPT, "value": value if good else None}
            columns = {"partition": partition, "offset": offset, "producer": value >> 40 if good else None}
            self.rows.add(Kind.RECORD, process, **columns, **said, **of_poll)


def make_up(rows: Rows, topic: int, random: Random) -> None:
    """Producers that write in transactions, some of them what others had sent, and readers of all sorts."""
    world = _World(rows, topic, random)
    if world.chance(0.05):
        rows.topics[topic] = COMPACTED + str(topic)
    inputs = [world.send(who("p", 0, topic), INPUTS, committed=True) for _ in range(random.choice([0, 2, 3]))]
    taken = 0
    for _ in range(random.choice([1, 2, 2, 3])):
        taken = _transaction(world, inputs, taken)
    if inputs and world.chance(0.8):
        _ask(world, taken)
    _read(world)
    if world.chance(0.03):
        world.does(who("k", 0, topic), F.DELETE, random.choice(list(Type)), topic=topic)


def _transaction(world: _World, inputs: list[int], taken: int) -> int:
    """It takes inputs one after the other, if there are any, and commits where it got to; says where that is."""
    random, topic = world.random, world.topic
    producer, began = who("i", random.randrange(2), topic), world.times()
    op, name = op_of(topic, world.number(), producer), None if world.chance(0.04) else f"X{topic}"
    outcome = random.choice([*[Type.OK] * 5, Type.FAIL, Type.FAIL, Type.INFO, Type.INFO])
    fate = (outcome == Type.OK or (outcome == Type.INFO and world.chance(0.5))) != world.chance(0.2)
    tears = 0.35 if world.chance(0.25) else 0.0
    zombie = world.chance(0.25)
    for _ in range(random.randrange(1, 4)):
        if zombie and world.chance(0.6):
            other = who("i", random.randrange(2), topic)
            columns = {"name": random.choice([name, name, name, f"Y{topic}", None])}
            world.does(other, F.INIT, random.choice([*[Type.OK] * 5, Type.INFO]), **columns)
        source = {"source": inputs[taken]} if taken < len(inputs) and not world.chance(0.1) else {}
        again = source and world.chance(0.12)
        taken += 1 if taken < len(inputs) and not again else 0
        partition = OUTPUTS if inputs else random.randrange(2)
        world.send(producer, partition, committed=fate != world.chance(tears), txn=op, **source)
    if world.chance(0.15):
        for partition in (INPUTS, OUTPUTS):
            process = who(random.choice("ccu"), 1, topic)
            txn = op if world.chance(0.8) else op + 1
            world.handed(process, partition, random.randrange(3), len(world.logs[partition]), raw=True, txn=txn)
    if inputs and not world.chance(0.15):
        type_ = outcome if not world.chance(0.1) else random.choice(list(Type))
        offset = random.choice([*[taken] * 5, taken - 1, taken + 1, None])
        place = {"topic": topic, "partition": INPUTS, "offset": offset, "txn": op if not world.chance(0.05) else None}
        group = random.choice([*[f"G{topic}"] * 30, f"H{topic}", None])
        world.does(producer, F.COMMIT, type_, name=group, **place)
    if not world.chance(0.05):
        world.does(producer, F.TXN, outcome, op=op, name=name, invoked=began["invoked"])
    for log in world.logs.values():
        log.append((0, False))  # the marker
    return taken


def _ask(world: _World, taken: int) -> None:
    """Where the group is, by those who wait for transactions and those who do not."""
    for _ in range(world.random.choice([1, 1, 2])):
        process = who(world.random.choice("ggu"), 0, world.topic)
        type_ = world.random.choice([*[Type.OK] * 5, Type.INFO])
        offset = world.random.choice([*[taken] * 3, taken - 1, -1, None])
        group = world.random.choice([*[f"G{world.topic}"] * 30, f"H{world.topic}", None])
        place = {"topic": world.topic, "partition": INPUTS, "offset": offset}
        world.does(process, F.COMMITTED, type_, name=group, **place)


def _read(world: _World) -> None:
    """Readers get part of it, or all; the final one says where the end was."""
    random = world.random
    for partition, log in world.logs.items():
        for role in random.sample("cuguw", random.choice([1, 2, 2])):
            last = random.choice([len(log), len(log), len(log) - 2, random.randrange(len(log) + 1)])
            first = random.choice([0, 0, 0, 0, 1])
            world.handed(who(role, 0, world.topic), partition, first, last, raw=role in "uw")
        if world.chance(0.6):
            reader, times = who(random.choice("rrrw"), 0, world.topic), world.times()
            if not world.chance(0.1):
                world.handed(reader, partition, 0, len(log) - random.choice([0, 0, 0, 2]), raw=reader[0] == "w")
            end = random.choice([len(log), len(log), len(log) - 1])
            type_ = random.choice([Type.OK, Type.OK, Type.OK, Type.INFO])
            f = F.RAW if reader[0] == "w" else F.FINAL
            place = {"topic": world.topic, "partition": partition, "offset": end, "end": end}
            world.does(reader, f, type_, invoked=times["invoked"], **place)
