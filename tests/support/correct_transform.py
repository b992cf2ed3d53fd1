"""Consume, transform and produce with a correct broker (`tests.support.correct_broker`): offsets go with their outputs.

Partitions go from one member to another in the middle of transactions, whose offsets the group refuses then; who gets
a partition begins where the group is. Nobody knows how some transactions ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.history.schema import F, Type
from tests.support.correct_broker import Entry, Log, Producers, Readers, Sending, World

MEMBERS = 2


class Transform:
    """A group that reads the partitions of a load, and sends to one more partition."""

    def __init__(self, world: World, producers: Producers, readers: Readers) -> None:
        self.world, self._producers, self._readers = world, producers, readers
        self._inputs = list(world.logs)
        self._output = Log(len(world.logs))
        world.logs.append(self._output)
        self._owners = {log.number: self._member(0) for log in self._inputs}
        self._committed = {log.number: 0 for log in self._inputs}

    @property
    def name(self) -> str:
        """One of this history alone."""
        return f"E{self.world.topic}"

    def goes_on(self, meanwhile: Callable[[], None]) -> None:
        """A transaction of whoever has some partition, or somebody else gets it."""
        log = self.world.random.choice(self._inputs)
        who = self._owners[log.number]
        if self.world.chance(0.2):
            self._goes_to_another(log)
        elif self.world.is_free(who):
            self._transacts(who, log, meanwhile)

    def asks(self) -> None:
        """When all is over."""
        for log in self._inputs:
            who = self._owners[log.number]
            self.world.now = max(self.world.now, self.world.busy_until[who] + 1)
            told: dict[str, Any] = {"offset": self._committed[log.number], "name": self.name, **self.world.place(log)}
            self.world.completes(who, F.COMMITTED, invoked=self.world.invoked(who), time=self.world.ended(who), **told)

    def _member(self, number: int) -> str:
        return self.world.who("g", 5 + number)

    def _goes_to_another(self, log: Log) -> None:
        """It begins where the group is."""
        who = self._member(self.world.random.randrange(MEMBERS))
        self._owners[log.number] = who
        self._readers.positions[who, log.number] = self._committed[log.number]

    def _transacts(self, who: str, log: Log, meanwhile: Callable[[], None]) -> None:
        world = self.world
        begun, txn = world.invoked(who), world.op(who)
        polled = self._readers.polled(who, log, committed=True)
        self._readers.hands_out(who, log, polled, txn)
        world.now = max(world.now, world.busy_until[who] + 1)
        sendings = [self._producers.send(who, txn, self._output, value) for _, value in polled.records]
        meanwhile()
        took, began = self._owners[log.number] == who, world.invoked(who)
        type_ = world.random.choice([Type.OK, Type.OK, Type.OK, Type.FAIL, Type.INFO]) if took else Type.FAIL
        commits = type_ is Type.OK or (type_ is Type.INFO and world.chance(0.5))
        offset = self._readers.positions[who, log.number]
        if commits:
            self._committed[log.number] = offset
        else:
            world.aborted.add(txn)
        self._ends(who, txn, type_, sendings, begun)
        told: dict[str, Any] = {"offset": offset, "name": self.name, "txn": txn, **world.place(log)}
        world.completes(who, F.COMMIT, type_, invoked=began, time=world.busy_until[who], **told)
        self._readers.positions[who, log.number] = self._committed[log.number]
        meanwhile()
        if sendings:
            self._output.entries.append(Entry(None, txn))

    def _ends(self, who: str, txn: int, type_: Type, sendings: list[Sending], begun: int) -> None:
        """All parts as the whole."""
        world = self.world
        ended = max([world.now, *(sending.answered for sending in sendings)]) + world.delay()
        for sending in sendings:
            self._producers.ends(sending, type_, ended, txn)
        world.completes(who, F.TXN, type_, op=txn, name=f"e-{who}", invoked=begun, time=ended, count=len(sendings))
        world.busy_until[who] = ended
