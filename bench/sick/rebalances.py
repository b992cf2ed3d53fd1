"""A large group that rebalances all the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bench.history_plan import (
    FIRST_FINAL,
    FIRST_PRODUCER,
    MS,
    START_NS,
    TOPIC,
    Numbers,
    blocks,
    make_rows,
)
from bench.sick.rows import FIRST_MEMBER, MEMBERS, TEXT, Story, Streams, null, phases
from harness.foundation.protocol import Api
from harness.history.schema import FIRST_TAP, ID_BITS, F, Kind, Status, Type
from harness.history.sources import Rows

POLL = 3  # the how-manieth operation of a stay


@dataclass(frozen=True)
class Rebalances:
    """In each round half of the members have a partition, and keep it until one of the other half has it, too.

    A member joins anew after eight such stays. The group remembers the offset of the round before, or an older one, or
    none. Stays are numbered round by round.
    """

    PARTITIONS: ClassVar[int] = MEMBERS // 2
    EVENTS_OF_ONE: ClassVar[float] = 20.0  # of a stay
    DOINGS: ClassVar[tuple[tuple[F, float], ...]] = (  # in a stay, and after so much of a round
        (F.SUBSCRIBE, 0.0), (F.ASSIGN, 0.1), (F.COMMITTED, 0.15), (F.POLL, 0.3), (F.COMMIT, 0.55), (F.REVOKE, 1.4),
        (F.LEAVE, 1.5),
    )  # fmt: skip
    OPERATIONS: ClassVar[int] = len(DOINGS)
    EVENTS: ClassVar[int] = 32  # of a stay, at most
    STAYS: ClassVar[int] = 8
    MESSAGES: ClassVar[int] = 2
    ROUND_NS: ClassVar[int] = 2_000 * MS

    rounds: int

    @classmethod
    def story(cls, events: int) -> Story:
        """As a run records it."""
        made = cls(max(2, round(events / cls.EVENTS_OF_ONE / cls.PARTITIONS)))
        uncommitted = {"isolation": "read_uncommitted"}
        processes: dict[int, dict[str, Any]] = {
            0: {"role": "runner"},
            FIRST_PRODUCER: {"role": "producer", "idempotent": True},
            FIRST_FINAL: {"role": "final", **uncommitted},
            FIRST_TAP: {"role": "tap"},
            **{FIRST_MEMBER + n: {"role": "consumer", "group": True, **uncommitted} for n in range(MEMBERS)},
        }
        return Story(made.streams(), processes, {TOPIC: "shared"})

    @property
    def count(self) -> int:
        """Of stays, one in each partition in each round."""
        return self.rounds * self.PARTITIONS

    @property
    def end_ns(self) -> int:
        """When the last one has let go."""
        return START_NS + (self.rounds + 2) * self.ROUND_NS

    @property
    def final_ns(self) -> int:
        """When the final read begins."""
        return self.end_ns + 1_000 * MS

    def streams(self) -> Streams:
        """All that is recorded; a partition is let go of late in the next round."""
        streams: Streams = {kind: [] for kind in Kind}
        for kind in (Kind.INVOKE, Kind.COMPLETE):
            streams[kind] += [self._operations(kind, turn) for turn in range(self.OPERATIONS)]
            streams[kind] += [self._sends(kind), self._finals(kind)]
        streams[Kind.RECORD] += [self._records(), self._final_reads()]
        streams[Kind.EXCHANGE] += [self._exchanges(Api.OFFSET_FETCH, 2), self._exchanges(Api.OFFSET_COMMIT, 4)]
        streams[Kind.PHASE].append(iter([phases(self.end_ns, self.final_ns)]))
        return streams

    def _operations(self, kind: Kind, turn: int) -> Iterator[Rows]:
        f, after = self.DOINGS[turn]
        for numbers in blocks(self.count):
            stays = numbers
            if f is F.SUBSCRIBE:
                stays = stays[self._joined(stays) == stays]
            if f is F.LEAVE:
                stays = stays[self._joined(stays + 2 * self.PARTITIONS) > stays]
            invoked = self._at(stays, after)
            yield make_rows(
                kind, len(stays), process=self._process(stays), op=self._op(stays, turn), f=f, type=Type.OK, error=0,
                counter=self._turn(stays) * self.EVENTS + 4 * turn + 3 * (kind is Kind.COMPLETE), invoked=invoked,
                time=invoked + MS, member=self._op(self._joined(stays), 0), **self._told(f, stays),
            )  # fmt: skip

    def _told(self, f: F, stays: Numbers) -> dict[str, Any]:
        """What an operation says beside who it is of."""
        generation = 1 + stays // self.PARTITIONS
        told: dict[str, Any] = {"generation": generation, "name": TEXT["group"]}
        if f is F.POLL:
            return {"generation": generation, "count": np.where(self._passed(stays), 0, self.MESSAGES)}
        if f in {F.SUBSCRIBE, F.LEAVE}:
            return told
        told |= {"topic": TOPIC, "partition": self._partition(stays)}
        of_it: dict[F, dict[str, Any]] = {
            F.ASSIGN: {"detail": self._name(stays)},
            F.COMMITTED: {"offset": self._answer(stays)},
            F.COMMIT: {"offset": self._first(stays) + self.MESSAGES},
            F.REVOKE: {"generation": generation + 1},
        }
        return told | of_it[f]

    def _process(self, stays: Numbers) -> Numbers:
        return FIRST_MEMBER + stays % self.PARTITIONS * 2 + stays // self.PARTITIONS % 2

    def _turn(self, stays: Numbers) -> Numbers:
        """How many stays of its member come before."""
        return stays // self.PARTITIONS // 2

    def _op(self, stays: Numbers, turn: int) -> Numbers:
        return (self._process(stays) << ID_BITS) + self._turn(stays) * self.OPERATIONS + turn

    def _joined(self, stays: Numbers) -> Numbers:
        """The stay with which its membership began."""
        turn = self._turn(stays)
        before: Numbers = np.minimum(turn, (turn + stays % self.PARTITIONS) % self.STAYS)
        return stays - before * 2 * self.PARTITIONS

    def _at(self, stays: Numbers, rounds: float) -> Numbers:
        """So much of a round after its beginning; members come one after the other."""
        turn, slot = stays // self.PARTITIONS, stays % self.PARTITIONS
        start = START_NS + turn * self.ROUND_NS + slot * (self.ROUND_NS // self.PARTITIONS // 20)
        return start + int(rounds * self.ROUND_NS)

    def _partition(self, stays: Numbers) -> Numbers:
        return (stays + stays // self.PARTITIONS) % self.PARTITIONS

    @staticmethod
    def _passed(stays: Numbers) -> Any:
        """Whether it is handed nothing, and goes on behind what is there."""
        return stays % 10 == 7

    def _name(self, stays: Numbers) -> Numbers:
        return TEXT[f"tidegauge-consumer-{FIRST_MEMBER}"] + self._process(stays) - FIRST_MEMBER

    def _first(self, stays: Numbers) -> Numbers:
        """The offset that is first read in it."""
        return stays // self.PARTITIONS * self.MESSAGES

    def _answer(self, stays: Numbers) -> Numbers:
        """None, an old one, or the one that was committed."""
        first = self._first(stays)
        return np.choose(stays % 3, [np.full(len(stays), -1), np.maximum(-1, first - 2 * self.MESSAGES), first])

    def _messages(self, stays: Numbers, inside: Numbers) -> dict[str, Any]:
        """Each stay has its own."""
        partitions, offset = self._partition(stays), self._first(stays) + inside
        value = (FIRST_PRODUCER << ID_BITS) + stays * self.MESSAGES + inside
        return {"topic": TOPIC, "partition": partitions, "offset": offset, "value": value, "sequence": offset}

    def _each(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Every message: the stay in which it is read, and its number in it."""
        for numbers in blocks(self.count * self.MESSAGES):
            yield numbers // self.MESSAGES, numbers % self.MESSAGES

    def _sends(self, kind: Kind) -> Iterator[Rows]:
        for stays, inside in self._each():
            invoked = self._at(stays, 0.12)
            told = self._messages(stays, inside)
            yield make_rows(
                kind, len(stays), process=FIRST_PRODUCER, op=told["value"], f=F.SEND, type=Type.OK, error=0,
                counter=2 * (stays * self.MESSAGES + inside) + (kind is Kind.COMPLETE), invoked=invoked,
                time=invoked + 2 * MS, **told,
            )  # fmt: skip

    def _records(self) -> Iterator[Rows]:
        """Of all stays but those that pass them by."""
        for stays, inside in self._each():
            invoked = self._at(stays, self.DOINGS[POLL][1])
            rows = make_rows(
                Kind.RECORD, len(stays), process=self._process(stays), status=Status.GOOD, producer=FIRST_PRODUCER,
                counter=self._turn(stays) * self.EVENTS + 4 * POLL + 1 + inside, op=self._op(stays, POLL),
                invoked=invoked, time=invoked + MS, **self._messages(stays, inside),
            )  # fmt: skip
            yield rows[~self._passed(stays)]

    def _final(self, partitions: Numbers) -> dict[str, Any]:
        return {"process": np.full(len(partitions), FIRST_FINAL), "op": (FIRST_FINAL << ID_BITS) + partitions,
                "invoked": self.final_ns + partitions * MS}  # fmt: skip

    def _finals(self, kind: Kind) -> Iterator[Rows]:
        partitions, count = np.arange(self.PARTITIONS), self.rounds * self.MESSAGES
        yield make_rows(
            kind, len(partitions), counter=partitions * (count + 2) + (kind is Kind.COMPLETE) * (count + 1),
            f=F.FINAL, type=Type.OK, topic=TOPIC, partition=partitions, offset=count, end=count, count=count, error=0,
            time=self.final_ns + (partitions + 1) * MS, **self._final(partitions),
        )  # fmt: skip

    def _final_reads(self) -> Iterator[Rows]:
        count = self.rounds * self.MESSAGES
        for numbers in blocks(self.PARTITIONS * count):
            partitions, offset = numbers // count, numbers % count
            rounds = offset // self.MESSAGES
            stays = rounds * self.PARTITIONS + (partitions - rounds) % self.PARTITIONS
            yield make_rows(
                Kind.RECORD, len(numbers), counter=partitions * (count + 2) + 1 + offset, status=Status.GOOD,
                producer=FIRST_PRODUCER, time=self.final_ns + (partitions + 1) * MS, **self._final(partitions),
                **self._messages(stays, offset % self.MESSAGES),
            )  # fmt: skip

    def _exchanges(self, api: int, turn: int) -> Iterator[Rows]:
        """OffsetCommit and OffsetFetch, as the tap saw them."""
        commits = api == Api.OFFSET_COMMIT
        for stays in blocks(self.count):
            process, invoked = self._process(stays), self._at(stays, self.DOINGS[turn][1]) + MS // 4
            number = 2 * stays + commits
            offset = self._first(stays) + self.MESSAGES if commits else self._answer(stays)
            yield make_rows(
                Kind.EXCHANGE, len(stays), process=FIRST_TAP, counter=number, op=(FIRST_TAP << ID_BITS) + number,
                invoked=invoked, time=invoked + MS // 2, type=Type.OK, connection=process - FIRST_MEMBER,
                client=self._name(stays), node=1, api=api, api_version=8, topic=TOPIC,
                partition=self._partition(stays), offset=offset, error=0, detail=TEXT["group"],
                generation=1 + stays // self.PARTITIONS if commits else null("generation"),
            )  # fmt: skip
