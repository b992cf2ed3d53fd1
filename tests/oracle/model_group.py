"""Groups that are made up: what they commit and are asked for, what their members are handed, and who owns what."""

from __future__ import annotations

from random import Random
from typing import Any

from harness.history.schema import F, Kind, Status, Type
from tests.oracle import COMPACTED, who
from tests.oracle.common import op_of, value_of
from tests.support.histories import SECOND_NS, Rows

OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT = 8, 9, 28


class _World:
    """A group and its clock; half a second is a step, and things often happen at one instant."""

    def __init__(self, rows: Rows, topic: int, random: Random) -> None:
        self.rows, self.topic, self.random = rows, topic, random
        self.members = [who("g", number, topic) for number in range(3)]
        self.others = [who(role, 0, topic) for role in "ccrrwwu"]
        self.now = random.randrange(6) * SECOND_NS // 2
        self._ops = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def op(self, process: str) -> int:
        self._ops += 1
        return op_of(self.topic, self._ops, process)

    def times(self, lasts: int = 3) -> dict[str, int]:
        """From now on, or from a little earlier; time goes on."""
        random = self.random
        self.now += random.choice([0, 0, 1, 1, 2, 3]) * SECOND_NS // 2
        invoked = max(0, self.now - random.choice([0, 0, 0, 1, 4]) * SECOND_NS // 2)
        return {
            "invoked": invoked,
            "time": invoked + random.randrange(lasts + 1) * SECOND_NS // 2 + random.choice([0, 0, 1]),
        }

    def group(self) -> str | None:
        return self.random.choice([*["G"] * 20, "H"]) + str(self.topic) if not self.chance(0.02) else None

    def place(self, share: float = 0.15) -> dict[str, int | None]:
        """Mostly one partition."""
        partition = None if self.chance(0.02) else int(self.chance(share))
        return {"topic": self.topic, "partition": partition}

    def does(self, process: str, f: F, type_: Type = Type.OK, **columns: Any) -> int:
        """An operation."""
        op = self.op(process)
        self.rows.add(Kind.COMPLETE, process, **{"f": f, "type": type_, "op": op, **self.times(), **columns})
        return op


def make_up(rows: Rows, topic: int, random: Random) -> None:
    """Commits and answers, or reads, or owners, or two of these."""
    world = _World(rows, topic, random)
    if world.chance(0.04):
        rows.topics[topic] = COMPACTED + str(topic)
    for part in random.sample([_commit, _read, _own], random.choice([1, 1, 2])):
        part(world)
    if world.chance(0.03):
        world.does(who("k", 0, topic), F.DELETE, random.choice(list(Type)), topic=topic)


def _commit(world: _World) -> None:
    """What a group commits and is asked for; an answer may be any that it ever was."""
    random, low = world.random, world.random.choice([0, 0, 7])
    for _ in range(random.randrange(4, 12)):
        process = random.choice(world.members)
        world.now += random.choice([*[0] * 9, 19, 20]) * SECOND_NS // 2
        offset = low + random.choice([0, 1, 1, 2, 3])
        kind = random.choice(["commit"] * 4 + ["seen commit"] + ["answer"] * 4 + ["seen answer"])
        if kind == "commit":
            type_ = random.choice([*[Type.OK] * 6, Type.FAIL, Type.INFO])
            txn = {"txn": op_of(world.topic, 800, process)} if world.chance(0.15) else {}
            shown = random.choice([*[offset] * 12, -1, None])
            world.does(process, F.COMMIT, type_, offset=shown, name=world.group(), **txn, **world.place())
        elif kind == "answer":
            process = random.choice([*world.members, who("u", 0, world.topic)])
            type_ = random.choice([*[Type.OK] * 9, Type.FAIL, Type.INFO])
            shown = random.choice([*[low] * 3, *[offset] * 3, -1, -1, None])
            world.does(process, F.COMMITTED, type_, offset=shown, name=world.group(), **world.place())
        else:
            api = OFFSET_FETCH if kind == "seen answer" else random.choice([OFFSET_COMMIT] * 3 + [TXN_OFFSET_COMMIT])
            _seen(world, process, api, random.choice([*[offset] * 9, -1, None]))


def _seen(world: _World, process: str, api: int, offset: int | None) -> None:
    """A request that a tap saw."""
    random, tap = world.random, who("t", 0, world.topic)
    world.rows.add(
        Kind.EXCHANGE, tap, op=world.op(tap), api=api, api_version=7, node=random.choice([*[1] * 12, 2, None]),
        connection=1, client=f"{process} of {world.topic}", type=random.choice([*[Type.OK] * 6, Type.FAIL, Type.INFO]),
        offset=offset, error=random.choice([*[0] * 8, 22, None]), detail=world.group(), **world.place(),
        **world.times(),
    )  # fmt: skip


def _read(world: _World) -> None:
    """A log, of which members and others are handed parts; members commit where they are, or somewhere else."""
    random, topic, producer = world.random, world.topic, who("p", 0, world.topic)
    low, length, partition = random.choice([0, 0, 7]), random.randrange(3, 8), int(world.chance(0.3))
    place = {"topic": topic, "partition": partition}
    values = {low + number: value_of(topic, 100 + number, producer) for number in range(length)}
    in_transactions = random.choice([0.0, 0.0, 0.0, 0.3])
    for offset, value in values.items():
        type_ = random.choice([*[Type.OK] * 7, Type.FAIL, Type.INFO])
        at = None if type_ == Type.FAIL or world.chance(0.05) else offset
        txn = {"txn": op_of(topic, 801, producer)} if world.chance(in_transactions) else {}
        columns = {"f": F.SEND, "op": value, "value": value, "type": type_, "offset": at}
        world.rows.add(Kind.COMPLETE, producer, **columns, **place, **txn, **world.times(1))
    for member in world.members[: random.choice([1, 2, 2, 3])]:
        world.does(member, F.SUBSCRIBE, random.choice([*[Type.OK] * 5, Type.INFO]), name=world.group())
    at, assigns = low, random.choice([0.0, 0.0, 0.3])
    for _ in range(random.randrange(3, 8)):
        process = random.choice([*world.members * 4, *world.others])
        if world.chance(assigns):
            f = random.choice([F.ASSIGN, F.ASSIGN, F.REVOKE])
            taken = {"member": op_of(topic, 900, process), "name": world.group(), **place}
            world.does(process, f, random.choice([*[Type.OK] * 4, Type.INFO]), **taken)
        elif world.chance(0.3):
            offset = random.choice([at, at + 1, at + 1, at + 2])
            world.does(process, F.COMMIT, Type.OK, offset=offset, name=world.group(), **place)
        elif world.chance(0.15):
            world.does(
                process, F.POLL, random.choice([Type.INFO, Type.INFO, Type.OK]), count=random.choice([None, None, 0])
            )
        else:
            first = random.choice([at, at, at + 1, low])
            found = [each for each in values if first <= each <= first + random.randrange(5) and world.chance(0.75)]
            _poll(world, process, {offset: values[offset] for offset in found}, partition)
            at = max([at, *found])
            if world.chance(0.15):  # it is killed with the next ones in its hands
                world.does(process, F.POLL, Type.INFO, count=None)
                world.now += SECOND_NS
                at += random.choice([1, 2, 3])
    if world.chance(0.8):
        _poll(world, random.choice(world.others), values, partition)


def _poll(world: _World, process: str, values: dict[int, int], partition: int) -> None:
    """Records; some of them say nothing of themselves."""
    times, op = world.times(), world.op(process)
    of_poll = {"op": op, "topic": world.topic, **times}
    world.rows.add(Kind.COMPLETE, process, f=F.POLL, type=Type.OK, count=len(values), **of_poll)
    for offset, value in values.items():
        good = {"status": Status.GOOD, "value": value, "producer": value >> 40}
        said = good if world.chance(0.95) else {"status": Status.CORRUPT, "value": None, "producer": None}
        world.rows.add(Kind.RECORD, process, partition=partition, offset=offset, **said, **of_poll)


def _own(world: _World) -> None:
    """Members are given a partition, and let go of it in time or too late."""
    random, generation, owners = world.random, 1, []
    ids = {member: op_of(world.topic, 900 + number, member) for number, member in enumerate(world.members)}
    for _ in range(random.randrange(3, 8)):
        member, place, group = random.choice(world.members), world.place(0.05), world.group()
        generation += random.choice([0, 0, 1])
        common = {"member": None if world.chance(0.03) else ids[member], "name": group, **place}
        told = {"generation": random.choice([*[generation] * 8, generation - 1, -1, None])}
        offset = random.choice([*[None] * 8, 3])
        world.does(member, F.ASSIGN, random.choice([*[Type.OK] * 8, Type.FAIL]), offset=offset, **told, **common)
        owners.append((member, common))
        while owners and world.chance(0.4):
            member, common = owners.pop(random.randrange(len(owners)))
            told = {"generation": random.choice([*[generation] * 4, generation + 1, -1, None])}
            world.does(member, F.REVOKE, random.choice([*[Type.OK] * 3, Type.INFO]), **told, **common)
