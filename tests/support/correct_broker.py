"""A correct broker and clients with bad timing: histories in which nothing may be called illegal.

The broker does one thing after the other, at `now`. Whoever asks may have been invoked long before that, and may hear
of it long afterwards: answers are late, requests are sent again, processes are not scheduled, and transactions are
acknowledged before their markers are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.foundation.protocol import Api
from harness.history.schema import ID_BITS, F, Kind, Status, Type
from tests.support.histories import SECOND_NS, Rows, process_of

MS = SECOND_NS // 1000
RIVAL = 7  # its number among producers
LATE_S = 2  # at most: several of these in a row reach no limit of liveness
FIRST_OP, OPS_OF_A_TOPIC = 1 << 30, 10_000
BYTES_OF_CRC = (1 << 31) - 1


@dataclass
class Entry:
    """What is at an offset; a marker has no value."""

    value: int | None
    txn: int | None


@dataclass
class Log:
    """One partition."""

    number: int
    entries: list[Entry] = field(default_factory=list)

    @property
    def stable_end(self) -> int:
        """The first offset of a transaction that has no marker yet."""
        ended = {entry.txn for entry in self.entries if entry.value is None}
        is_open = (n for n, entry in enumerate(self.entries) if entry.txn is not None and entry.txn not in ended)
        return min(is_open, default=len(self.entries))


@dataclass
class Sending:
    """A send on its way."""

    who: str
    value: int
    log: Log
    offset: int
    sequence: int
    invoked: int
    answered: int
    source: int | None


class World:
    """The broker's logs and its time, and when each client is free again."""

    def __init__(self, rows: Rows, topic: int, random: Random) -> None:
        self.rows, self.topic, self.random = rows, topic, random
        rows.topics[topic] = f"t{topic}"
        self.now = 10 * SECOND_NS + random.randrange(SECOND_NS)
        self.logs = [Log(number) for number in range(random.choice([1, 2, 2]))]
        self.aborted: set[int] = set()  # transactions
        self.busy_until: Counter[str] = Counter()
        self._starved = random.choice([0.0, 0.02, 0.1])
        self._ops: Counter[str] = Counter()

    def chance(self, share: float) -> bool:
        """Whether it happens."""
        return self.random.random() < share

    def who(self, role: str, number: int = 0) -> str:
        """A process of this history alone."""
        return f"{role}{self.topic * 10 + number}"

    def op(self, who: str) -> int:
        """The next operation of a process."""
        self._ops[who] += 1
        return (process_of(who) << ID_BITS) + FIRST_OP + self.topic * OPS_OF_A_TOPIC + self._ops[who]

    def delay(self) -> int:
        """Mostly short."""
        if self.chance(self._starved):
            return int(self.random.uniform(1, LATE_S) * SECOND_NS)
        return int(self.random.uniform(0.1, self.random.choice([3, 3, 300])) * MS)

    def passes(self) -> None:
        """The broker goes on a little later."""
        self.now += int(self.random.choice([1, 5, 20, 100]) * MS * self.random.uniform(0.1, 4))

    def is_free(self, who: str) -> bool:
        """Whether its last call has ended."""
        return self.busy_until[who] < self.now

    def invoked(self, who: str) -> int:
        """When a call began that the broker carries out now."""
        return max(self.busy_until[who] + 1, self.now - self.delay())

    def ended(self, who: str) -> int:
        """When its client knows what came of it."""
        self.busy_until[who] = self.now + self.delay()
        return self.busy_until[who]

    def place(self, log: Log) -> dict[str, Any]:
        """Of an event."""
        return {"topic": self.topic, "partition": log.number}

    def completes(self, who: str, f: F, type_: Type = Type.OK, **columns: Any) -> None:
        """A call has ended; with `invoked` and `time`."""
        self.rows.add(Kind.COMPLETE, who, **{"f": f, "op": self.op(who), "type": type_, "error": 0, **columns})

    def passes_tap(self, node: int, api: Api, type_: Type = Type.OK, **columns: Any) -> None:
        """An exchange."""
        tap = self.who("t", node)
        said = {"op": self.op(tap), "api": int(api), "api_version": 7, "node": node, "connection": 1, "client": "x"}
        error = 0 if type_ is Type.OK else None
        self.rows.add(Kind.EXCHANGE, tap, type=type_, error=error, **(said | columns))


class Producers:
    """Idempotent ones, and ones that send in transactions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._sequences: Counter[tuple[str, int]] = Counter()
        self._called: Counter[str] = Counter()  # when each called send last
        self._lost: set[str] = set()  # who does not know how its transaction ended

    def sends(self) -> None:
        """One message."""
        sending = self.send(self.world.who("i", self.world.random.randrange(2)))
        type_ = Type.INFO if self.world.chance(0.1) else Type.OK
        self.ends(sending, type_, sending.answered + self.world.delay())

    def transacts(self, meanwhile: Callable[[], None]) -> None:
        """A transaction: committed, aborted, or nobody knows; its markers come later than its end is acknowledged."""
        world = self.world
        who = world.who("p", world.random.randrange(2))
        if not world.is_free(who):
            return
        if who in self._lost:
            world.completes(who, F.INIT, name=f"x-{who}", invoked=world.invoked(who), time=world.ended(who))
            self._lost.discard(who)
            return
        begun, txn = world.invoked(who), world.op(who)
        sendings = []
        for _ in range(world.random.randrange(1, 4)):
            sendings.append(self.send(who, txn))
            world.passes()
            meanwhile()
        fenced = world.chance(0.1)
        type_ = Type.FAIL if fenced else world.random.choice([Type.OK, Type.OK, Type.OK, Type.FAIL, Type.INFO])
        if type_ is Type.FAIL or (type_ is Type.INFO and world.chance(0.5)):
            world.aborted.add(txn)
        if fenced:
            self._is_fenced(who, txn)
        ended = max(world.now, *(sending.answered for sending in sendings)) + world.delay()
        for sending in sendings:
            self.ends(sending, type_, ended, txn)
        world.completes(who, F.TXN, type_, op=txn, name=f"x-{who}", invoked=begun, time=ended + 1, count=len(sendings))
        world.busy_until[who] = ended + 1
        self._lost |= {who} if type_ is Type.INFO else set()
        for log in {sending.log.number: sending.log for sending in sendings}.values():
            meanwhile()
            log.entries += [Entry(None, txn) for _ in range(world.random.choice([1, 1, 2]))]

    def _is_fenced(self, who: str, txn: int) -> None:
        """Another instance takes its transactional id, and what it sends then is refused."""
        world, rival = self.world, self.world.who("p", RIVAL)
        world.now = max(world.now, world.busy_until[rival] + 1)
        world.completes(rival, F.INIT, name=f"x-{who}", invoked=world.invoked(rival), time=world.ended(rival))
        world.now = max(world.now, world.busy_until[rival] + 1)
        value, log = world.op(who), world.logs[0]
        told: dict[str, Any] = {"sequence": self._sequences[who, log.number], "txn": txn, **world.place(log)}
        times = {"invoked": world.now, "time": world.now + world.delay()}
        world.completes(who, F.SEND, Type.FAIL, op=value, value=value, **told, **times)
        self._called[who] = world.now

    def send(self, who: str, txn: int | None = None, log: Log | None = None, source: int | None = None) -> Sending:
        """It is appended now, and sent again until there is an answer."""
        world = self.world
        log = log or world.random.choice(world.logs)
        value = world.op(who)
        invoked = max(self._called[who], world.busy_until[who] if txn else 0, world.now - world.delay()) + 1
        self._called[who], world.now = invoked, max(world.now, invoked + 1)
        sequence, offset = self._sequences[who, log.number], len(log.entries)
        self._sequences[who, log.number] += 1
        log.entries.append(Entry(value, txn))
        answered = self._passes_tap(who, log, invoked, {"sequence": sequence, "crc": value & BYTES_OF_CRC}, offset)
        return Sending(who, value, log, offset, sequence, invoked, answered, source)

    def _passes_tap(self, who: str, log: Log, invoked: int, batch: dict[str, int], offset: int) -> int:
        """When the answer is there; the first request is carried out, and all others are told of it."""
        world = self.world
        batch |= {"producer_id": process_of(who), "producer_epoch": 0, "count": 1, "acks": -1, **world.place(log)}
        answered, tries = world.now, world.random.choice([1, 1, 1, 2, 3])
        for turn in range(tries):
            began = max(invoked, world.now - 1) if turn == 0 else answered + 1
            answered = max(began, world.now) + 1 + world.delay()
            last = turn == tries - 1
            world.passes_tap(
                log.number + 1, Api.PRODUCE, Type.OK if last else Type.INFO, invoked=began, time=answered,
                offset=offset if last else None, **batch,
            )  # fmt: skip
        return answered

    def ends(self, sending: Sending, type_: Type, time: int, txn: int | None = None) -> None:
        """Its client knows what came of it."""
        known: dict[str, Any] = {} if type_ is Type.INFO else {"offset": sending.offset}
        self.world.completes(
            sending.who, F.SEND, type_, op=sending.value, value=sending.value, sequence=sending.sequence, txn=txn,
            source=sending.source, invoked=sending.invoked, time=time, **known, **self.world.place(sending.log),
        )  # fmt: skip


@dataclass
class Polled:
    """What a poll has in its hands."""

    op: int
    invoked: int
    records: list[tuple[int, int]]  # offsets and values


class Readers:
    """Consumers of the load, and the final reads."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.positions: Counter[tuple[str, int]] = Counter()

    def polls(self) -> None:
        """One that reads what is committed, or one that reads everything."""
        role = self.world.random.choice("cu")
        who = self.world.who(role)
        if self.world.is_free(who):
            log = self.world.random.choice(self.world.logs)
            self.hands_out(who, log, self.polled(who, log, committed=role == "c"))

    def polled(self, who: str, log: Log, *, committed: bool) -> Polled:
        """A few records; it goes on behind them, or behind what it may not see."""
        end = log.stable_end if committed else len(log.entries)
        start = self.positions[who, log.number]
        most = self.world.random.randrange(6)
        found = self._visible(log, start, end, committed=committed)
        self.positions[who, log.number] = found[most][0] if len(found) > most else max(start, end)
        return Polled(self.world.op(who), self.world.invoked(who), found[:most])

    def hands_out(self, who: str, log: Log, polled: Polled, txn: int | None = None) -> None:
        """It is recorded."""
        told: dict[str, Any] = {"invoked": polled.invoked, "time": self.world.ended(who), "txn": txn}
        self._records(who, log, polled.op, polled.records, **told)
        self.world.completes(who, F.POLL, op=polled.op, count=len(polled.records), **told)

    def reads_all(self, role: str, f: F) -> None:
        """From the start to the end of each partition."""
        who = self.world.who(role)
        for log in self.world.logs:
            op, time = self.world.op(who), self.world.now + MS
            end = log.stable_end if f is F.FINAL else len(log.entries)
            found = self._visible(log, 0, end, committed=f is F.FINAL)
            self._records(who, log, op, found, invoked=self.world.now, time=time)
            told: dict[str, Any] = {"offset": end, "end": end, "count": len(found), "time": time}
            self.world.completes(who, f, op=op, invoked=self.world.now, **told, **self.world.place(log))
            self.world.now += 2 * MS

    def reads_replicas(self, nodes: int) -> None:
        """What each node has, as far as its own watermark reaches."""
        for node in range(1, nodes + 1):
            who = f"s{node}"
            for log in self.world.logs:
                begin, mark = self.world.random.randrange(3), len(log.entries) - self.world.random.randrange(3)
                op = self.world.op(who)
                times: dict[str, Any] = {"invoked": self.world.now, "time": self.world.now + MS}
                self.world.completes(who, F.ASSIGN, offset=begin, **times, **self.world.place(log))
                found = self._visible(log, begin, max(begin, mark), committed=False)
                self._records(who, log, op, found, **times)
                told = {"offset": max(begin, mark), "end": max(begin, mark), "count": len(found), **times}
                self.world.completes(who, F.REPLICA, op=op, **told, **self.world.place(log))
                self.world.now += 2 * MS

    def _visible(self, log: Log, start: int, end: int, *, committed: bool) -> list[tuple[int, int]]:
        hidden = self.world.aborted if committed else set()
        entries = enumerate(log.entries[start:end], start)
        return [(n, entry.value) for n, entry in entries if entry.value is not None and entry.txn not in hidden]

    def _records(self, who: str, log: Log, op: int, found: Sequence[tuple[int, int]], **told: Any) -> None:
        for offset, value in found:
            self.world.rows.add(
                Kind.RECORD, who, op=op, offset=offset, value=value, producer=value >> ID_BITS, status=Status.GOOD,
                **told, **self.world.place(log),
            )  # fmt: skip
