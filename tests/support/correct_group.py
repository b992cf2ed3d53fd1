"""A group of a correct broker (`tests.support.correct_broker`), whose members come, go, starve and are killed.

Its coordinator moves without any fault, and the one before answers for some seconds before it knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.foundation.protocol import Api
from harness.history.schema import F, Type
from tests.support.correct_broker import Log, Readers, World
from tests.support.histories import SECOND_NS

MEMBERS = 3
NODES = 3
UNAWARE_S = 8  # for how long a coordinator that was deposed may answer
APART_S = 3  # from one move of the coordinator to the next
THE_END_NS = 10_000 * SECOND_NS  # of the history, when open operations are completed


@dataclass
class Owned:
    """A partition, and whose it is."""

    member: str
    generation: int


@dataclass
class ThrownOut:
    """A member that does not know yet that somebody else has its partition."""

    member: str
    log: Log
    membership: int


@dataclass
class Deposed:
    """A coordinator that does not know that it is none any more."""

    node: int
    committed: dict[int, int]
    until: int = 0


@dataclass
class Group:
    """Who is in it, who has what, and what is committed."""

    world: World
    readers: Readers
    committed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._coordinator, self._deposed = 1, Deposed(1, {})
        self._generation = 0
        self._memberships: dict[str, int] = {}
        self._owned: dict[int, Owned] = {}
        self._thrown_out: list[ThrownOut] = []

    @property
    def name(self) -> str:
        """One of this history alone."""
        return f"G{self.world.topic}"

    def goes_on(self) -> None:
        """One member does something."""
        world = self.world
        member = world.who("g", world.random.randrange(MEMBERS))
        if not world.is_free(member):
            return
        if member not in self._memberships:
            self._joins(member)
            return
        mine = [log for log in world.logs if log.number in self._owned and self._owned[log.number].member == member]
        if not mine or world.chance(0.12):
            self._is_given(member, world.random.choice(world.logs))
            return
        log = world.random.choice(mine)
        if world.chance(0.04):
            self._is_killed(member, log)
        elif world.chance(0.55):
            self.readers.hands_out(member, log, self.readers.polled(member, log, committed=True))
        elif world.chance(0.6):
            self._commits(member, log)
        else:
            self._asks(member, log)

    def moves(self) -> None:
        """To another coordinator, by no fault."""
        now = self.world.now
        if now > self._deposed.until + APART_S * SECOND_NS:
            unaware_ns = int(self.world.random.uniform(0, UNAWARE_S) * SECOND_NS)
            self._deposed = Deposed(self._coordinator, dict(self.committed), now + unaware_ns)
            self._coordinator = self._coordinator % NODES + 1

    def hears(self) -> None:
        """Whoever was thrown out hears of it."""
        for each in [each for each in self._thrown_out if self.world.is_free(each.member)]:
            self._lets_go_late(each)

    def _joins(self, member: str) -> None:
        world, membership = self.world, self.world.op(member)
        times: dict[str, Any] = {"invoked": world.invoked(member), "time": world.ended(member)}
        world.completes(member, F.SUBSCRIBE, op=membership, name=self.name, **times)
        self._memberships[member] = membership

    def _is_given(self, member: str, log: Log) -> None:
        """Who had it lets go in order, or is thrown out; whoever gets it begins where the group is."""
        world = self.world
        owned = self._owned.pop(log.number, None)
        if owned is not None and owned.member != member:
            self._taken_from(owned.member, log)
            world.passes()
        for each in [each for each in self._thrown_out if each.member == member]:
            self._lets_go_late(each)
        world.now = max(world.now, world.busy_until[member] + 1)
        self._generation += 1
        self._owned[log.number] = Owned(member, self._generation)
        self.readers.positions[member, log.number] = self.committed.get(log.number, 0)
        self._moved(member, log, F.ASSIGN, generation=self._generation)

    def _taken_from(self, member: str, log: Log) -> None:
        if not self.world.is_free(member) or self.world.chance(0.4):
            self._thrown_out.append(ThrownOut(member, log, self._memberships[member]))
            return
        if self.world.chance(0.7):
            self._commits(member, log)
            self.world.now = max(self.world.now, self.world.busy_until[member] + 1)
        told = self._generation if self.world.chance(0.8) else None
        self._moved(member, log, F.REVOKE, generation=told)
        self.world.now = max(self.world.now, self.world.busy_until[member] + 1)

    def _lets_go_late(self, each: ThrownOut) -> None:
        """It may be in a later generation by then, or in none."""
        told = self.world.random.choice([None, self._generation, self._generation + 1])
        self.world.now = max(self.world.now, self.world.busy_until[each.member] + 1)
        self._moved(each.member, each.log, F.REVOKE, Type.INFO, generation=told, member=each.membership)
        self._thrown_out.remove(each)

    def _moved(self, who: str, log: Log, f: F, type_: Type = Type.OK, **columns: int | None) -> None:
        told: dict[str, Any] = {
            "member": self._memberships.get(who),
            "name": self.name,
            **columns,
            **self.world.place(log),
        }
        self.world.completes(who, f, type_, invoked=self.world.invoked(who), time=self.world.ended(who), **told)

    def _is_killed(self, member: str, log: Log) -> None:
        """In a poll; its library may have committed what it was about to hand over."""
        polled = self.readers.polled(member, log, committed=True)
        if polled.records and self.world.chance(0.7):
            self._committed(log, self.readers.positions[member, log.number], Type.OK)
        self.world.completes(member, F.POLL, Type.INFO, op=polled.op, invoked=polled.invoked, time=THE_END_NS)
        self.world.busy_until[member] = THE_END_NS
        self._owned = {number: owned for number, owned in self._owned.items() if owned.member != member}

    def _commits(self, member: str, log: Log) -> None:
        """Where it is; the answer may be lost."""
        world, offset = self.world, self.readers.positions[member, log.number]
        type_ = Type.OK if world.chance(0.9) else Type.INFO
        invoked = world.invoked(member)
        self._committed(log, offset, type_)
        told: dict[str, Any] = {
            "offset": offset,
            "member": self._memberships[member],
            "name": self.name,
            **world.place(log),
        }
        world.completes(member, F.COMMIT, type_, invoked=invoked, time=world.ended(member), **told)

    def _committed(self, log: Log, offset: int, type_: Type) -> None:
        world = self.world
        self.committed[log.number] = offset
        world.passes_tap(
            self._coordinator, Api.OFFSET_COMMIT, type_, offset=offset, detail=self.name, invoked=world.now - 1,
            time=world.now + 1, **world.place(log),
        )  # fmt: skip
        world.now += 2

    def _asks(self, member: str, log: Log) -> None:
        """The coordinator, or the one before."""
        world, node, known = self.world, self._coordinator, self.committed
        if world.now < self._deposed.until and world.chance(0.5):
            node, known = self._deposed.node, self._deposed.committed
        shown = known.get(log.number, -1)
        world.passes_tap(
            node, Api.OFFSET_FETCH, offset=shown, detail=self.name, invoked=world.now - 1, time=world.now + 1,
            **world.place(log),
        )  # fmt: skip
        told: dict[str, Any] = {
            "offset": shown,
            "member": self._memberships[member],
            "name": self.name,
            **world.place(log),
        }
        invoked = world.invoked(member)
        world.now += 2
        world.completes(member, F.COMMITTED, invoked=invoked, time=world.ended(member), **told)
