"""Exactly once: what is fed into one topic comes out of another, each record once, whatever happens in between.

Feeders write to `input`. Transformers are members of one group: each reads a batch, sends one record for each that it
read to the same partition of `output`, has the positions committed with them, and all of that is one transaction. An
output carries the value of its input as its source. Readers follow `output`. Everybody reads what is committed only.

Transformers are disturbed on purpose: they abort, they go away in mid-transaction and come back (the producer alone,
whose next instance takes over; the consumer alone, so that a transaction is ended by one that is no member any more;
both), and the harness kills and pauses them. After a transaction that did not commit, a transformer asks the group
where to go on, and goes back there. A transaction with work on a partition that the group takes away is aborted, and so
is one whose outputs were not delivered in time for its positions.

When the load ends, transformers go on until the group has committed the end of every partition of `input`, for as long
as `drain` allows, and ask the group a last time where it is. So in the end: every acknowledged input is the source of
exactly one committed output; in each partition outputs have the order of their inputs; and the group's offset is the
one after the last input whose output is committed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from harness.foundation.durations import Duration
from harness.history.schema import Type
from workloads.base import (
    CONSUMER,
    PRODUCER,
    Churn,
    MemberSettings,
    Role,
    Settings,
    TopicSpec,
    TransactingSettings,
    Workload,
)
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.groups import BEYOND_THE_SESSION_S

if TYPE_CHECKING:
    from workloads.membership import Member
    from workloads.session import WorkerSession
    from workloads.transacting import Transaction

INPUT, OUTPUT = 0, 1  # numbers of the topics
FEED, TRANSFORM, READ = "feed", "transform", "read"
POLL_S = 0.1
NAP_S = 0.2  # after something that did not work
ASK_EVERY_S = 1.0
ASK_S = 5.0
ASKED_IN_VAIN_AT_MOST = 3


class ExactlyOnceSettings(TransactingSettings, MemberSettings):
    """Two transformers and two hundred records a second unless told otherwise."""

    partitions: PositiveInt = Field(default=6, le=10_000, description=Settings.model_fields["partitions"].description)
    producers: PositiveInt = Field(default=1, description="processes that feed the input")
    transformers: PositiveInt = Field(default=2, description="processes that make outputs from inputs, in one group")
    consumers: PositiveInt = Field(default=1, description="processes that read the output")
    rate: NonNegativeFloat = Field(
        default=200.0, description="inputs per second of all producers together; 0 is as fast as possible"
    )
    batch: PositiveInt = Field(default=100, description="a transaction that has read that many records is ended")
    max_poll_records: PositiveInt = Field(
        default=100, description=Settings.model_fields["max_poll_records"].description
    )
    linger: Duration = Field(default=0.1, description="a transaction is ended that long after its first record")
    abort: float = Field(default=0.05, ge=0, le=1, description="share of transactions that are aborted on purpose")
    restart_every: Duration = Field(
        default=10.0,
        description="how often a transformer loses its producer, its consumer or both in mid-transaction; 0 is never",
    )
    churn_every: Duration = Field(
        default=15.0, description="how often a transformer or a reader is killed or stands still; 0 is never"
    )
    pause: Duration | None = Field(
        default=None,
        description="how long one that stands still does so: longer than its session, by 3 s unless set; 0 is never",
    )
    drain: Duration = Field(
        default=20.0,
        description="how long transformers may go on after the load until all that was fed is through: longer than"
        " the session of a member that is gone",
    )

    @property
    def pause_s(self) -> float:
        """How long one that stands still does so."""
        return self.session_s + BEYOND_THE_SESSION_S if self.pause is None else self.pause

    @model_validator(mode="after")
    def _past_the_session(self) -> ExactlyOnceSettings:
        """Refuse pauses that no group notices."""
        if 0 < self.pause_s <= self.session_s:
            raise ValueError(
                f"pause={self.pause_s:g} is not longer than the session of {self.session_s:g} s:"
                " make it longer, 0 for never, or leave it out"
            )
        return self


class ExactlyOnce(Workload[ExactlyOnceSettings]):
    """Consume, transform, produce."""

    name = "exactly-once"
    about = "records read, transformed and written again in transactions with their offsets, by members who come and go"
    model = ExactlyOnceSettings

    def topics(self, settings: ExactlyOnceSettings) -> list[TopicSpec]:
        """One in, one out."""
        return [settings.topic_spec(INPUT, "input"), settings.topic_spec(OUTPUT, "output")]

    def stages(self, settings: ExactlyOnceSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        consumers = [TRANSFORM] * settings.transformers + [READ] * settings.consumers
        producers = [FEED] * settings.producers
        return [
            [
                Role(name, number, len(tasks), finite=False, task=task)
                for name, tasks in ((CONSUMER, consumers), (PRODUCER, producers))
                for number, task in enumerate(tasks)
            ]
        ]

    def isolation(self, settings: ExactlyOnceSettings, role: Role) -> str:  # noqa: ARG002 - the same for all
        """Nobody acts on what may be aborted."""
        return "read_committed"

    def in_group(self, settings: ExactlyOnceSettings, role: Role) -> bool:  # noqa: ARG002 - however it is set up
        """Transformers are."""
        return role.task == TRANSFORM

    def reads_raw(self, settings: ExactlyOnceSettings) -> bool:  # noqa: ARG002 - always
        """What was aborted is in the logs as well."""
        return True

    def churn(self, settings: ExactlyOnceSettings) -> Churn | None:
        """Crashes, and pauses past the session."""
        return Churn(settings.churn_every, pause_s=settings.pause_s) if settings.churn_every else None

    def work(self, session: WorkerSession, settings: ExactlyOnceSettings) -> None:
        """By task."""
        if session.config.task == FEED:
            from workloads.pacing import feed

            feed(session, settings, settings.rate, session.config.topics[INPUT])
        elif session.config.task == TRANSFORM:
            Transformer(session, settings).run()
        else:
            read(session, settings)


WORKLOAD = ExactlyOnce()


def read(session: WorkerSession, settings: ExactlyOnceSettings) -> None:
    """Follow a share of the output until told to stop."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    name = session.config.topics[OUTPUT].full_name(session.config.prefix)
    number = session.config.number - settings.transformers  # among the readers
    reader.follow({name: OUTPUT}, [(name, each) for each in range(number, settings.partitions, settings.consumers)])
    while not session.control.stopped:
        reader.poll()
    reader.consumer.close()


class TransactionStep(Enum):
    """Where a transaction is."""

    BEGUN = auto()
    READ = auto()  # a poll brought records, nothing was made of them yet
    SENT = auto()
    DELIVERED = auto()
    OFFSETS = auto()  # the positions are in the transaction


class TransactionFate(Enum):
    """What a transformer does to a transaction at a step."""

    COMMIT = auto()
    ABORT = auto()
    LOSE_PRODUCER = auto()  # it is closed, and the transaction left open
    LOSE_CONSUMER = auto()  # it leaves or is gone, and the transaction goes on to its end without it
    CRASH = auto()  # both are gone


RESTARTS = (TransactionFate.LOSE_PRODUCER, TransactionFate.LOSE_CONSUMER, TransactionFate.CRASH)


class Chances:
    """What is to become of each transaction, from a seed."""

    def __init__(self, settings: ExactlyOnceSettings, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - chances, not secrets
        self._abort, self._every_s = settings.abort, settings.restart_every
        self._restart_at = time.monotonic() + self._pause_s()

    def next(self) -> tuple[TransactionFate, TransactionStep]:
        """For a transaction that begins now."""
        way, step = TransactionFate.COMMIT, self._random.choice(list(TransactionStep))
        if self._every_s and time.monotonic() >= self._restart_at:
            self._restart_at = time.monotonic() + self._pause_s()
            way = self._random.choice(RESTARTS)
        elif self._random.random() < self._abort:
            way = TransactionFate.ABORT
        return way, step

    def leaves(self) -> bool:
        """Whether a consumer that goes does so in order."""
        return self._random.random() < 0.5

    def _pause_s(self) -> float:
        return self._every_s * self._random.uniform(0.5, 1.5)


@dataclass
class OpenTransaction:
    """A transaction and what is in it."""

    txn: Transaction
    positions: dict[TopicPartition, int] = field(default_factory=dict)  # after the last record of each partition
    polls: int = 0
    records: int = 0
    first_at: float = 0.0  # when the first record came
    taken: set[TopicPartition] = field(default_factory=set)  # what the group took away since the last poll
    torn: bool = False  # it has work that is not the member's any more
    member: Any = None  # what the library says of the member, as it was when it read
    membership: int = 0  # its operation
    moves: bool = False  # the positions are in it

    @property
    def whole(self) -> bool:
        """Whether it may be committed: outputs without their positions would be made again by whoever is next."""
        return not self.torn and (self.moves or not self.positions)


class Transformer:
    """A member of the group and a transactional producer; either is replaced when it is gone."""

    def __init__(self, session: WorkerSession, settings: ExactlyOnceSettings) -> None:
        from workloads.transacting import Transactor

        config = session.config
        self._session, self._settings = session, settings
        self._topic, self._output = (config.topics[number].full_name(config.prefix) for number in (INPUT, OUTPUT))
        self._group = f"{config.prefix}-{config.workload}"
        self._transactor = Transactor(session, settings, f"{self._group}-{config.number}")
        self._member: Member | None = None
        self._batch: OpenTransaction | None = None
        self._behind = False  # the member read what was not committed
        self._keeps_positions = settings.stack.quirks.keeps_positions
        self._asked_in_vain = 0
        self._chances = Chances(settings, config.seed)

    def run(self) -> None:
        """Until told to stop, and then until all is through."""
        control = self._session.control
        while not control.stopped:
            self._transform(*self._chances.next())
        drain = DrainCheck(self._session, self._settings, self._topic)
        while not (control.gone or control.terminated or drain.over):
            self._transform(TransactionFate.COMMIT, TransactionStep.OFFSETS)
            if self._member is not None:
                drain.look(self._member)
        drain.close()
        if self._member is not None:
            self._member.committed(drain.partitions)  # after the last transaction
            self._member.leave()
        self._transactor.close()

    def _transform(self, way: TransactionFate, at: TransactionStep) -> None:
        """One transaction, unless nobody is there to have one with."""
        if self._joined() is None or (txn := self._transactor.begin()) is None:
            return
        self._batch = batch = OpenTransaction(txn)
        for step in self._steps(batch):
            if step is not at or way is TransactionFate.COMMIT:
                continue
            if way is not TransactionFate.LOSE_CONSUMER:
                self._break_off(batch, way)
                return
            self._part(leave=self._chances.leaves())
        ended = txn.commit() if batch.whole else txn.abort()
        self._behind |= ended is not Type.OK

    def _steps(self, batch: OpenTransaction) -> Iterator[TransactionStep]:
        """Do what a transaction consists of, step by step."""
        yield TransactionStep.BEGUN
        while self._wants_more(batch):
            if not self._went_back():
                return
            polled = self._poll(batch)
            if batch.torn:
                return
            if polled.payloads:
                yield TransactionStep.READ
                self._send(batch, polled)
                yield TransactionStep.SENT
        if batch.positions and batch.txn.deliver():
            yield TransactionStep.DELIVERED
            batch.txn.offsets({self._topic: INPUT}, batch.positions, batch.member, self._group, batch.membership)
            batch.moves = True
            yield TransactionStep.OFFSETS

    def _joined(self) -> Member | None:
        """The member; a new one where there is none."""
        from workloads.membership import open_member

        if self._member is None:
            member = open_member(self._session, self._settings, self._group)
            member.on_revoke = member.on_lost = self._taken
            member.on_assign = self._given
            if not member.join({self._topic: INPUT}):
                member.leave()
                self._session.control.wait(NAP_S)
                return None
            self._member, self._behind = member, False
        return self._member

    def _taken(self, partitions: Sequence[TopicPartition]) -> None:
        if self._batch is not None:
            self._batch.taken.update(partitions)

    def _given(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: ARG002 - all are looked at
        """Some libraries go on where they were in a partition they get again, although that was not committed."""
        self._behind |= self._keeps_positions

    def _went_back(self) -> bool:
        """Whether the member is where the group is."""
        member = self._member
        if not self._behind or member is None:
            return True
        answer = member.committed(sorted(member.owned if self._keeps_positions else member.positions), ASK_S)
        if isinstance(answer, ClientError) or member.seek_back(_starts(answer)):
            self._asked_in_vain += 1
            if self._asked_in_vain >= ASKED_IN_VAIN_AT_MOST:  # another member finds out by itself
                self._part(leave=True)
            self._session.control.wait(NAP_S)
            return False
        self._asked_in_vain, self._behind = 0, False
        return True

    def _wants_more(self, batch: OpenTransaction) -> bool:
        if self._member is None or batch.txn.broken:
            return False
        if not batch.records:
            return not self._session.control.stopped or not batch.polls
        return batch.records < self._settings.batch and time.monotonic() < batch.first_at + self._settings.linger

    def _poll(self, batch: OpenTransaction) -> PolledRecords:
        assert self._member is not None, "asked for by _wants_more"
        batch.taken.clear()
        polled = self._member.poll(batch.txn.id, POLL_S)
        batch.polls += 1
        touched = set(zip(polled.topics, polled.partitions, strict=True)) | batch.positions.keys()
        batch.torn = not batch.taken.isdisjoint(touched) or (self._behind and bool(touched))
        if polled.payloads:
            batch.first_at = batch.first_at or time.monotonic()
            batch.member, batch.membership = self._member.consumer.metadata(), self._member.id or 0
            # A member that was thrown out has no name, or no generation where its library tells: brokers let the
            # offsets of such a one pass.
            generation = getattr(batch.member, "generation_id", 0)
            batch.torn |= not self._member.consumer.member_id or generation is None or generation < 0
        return polled

    def _send(self, batch: OpenTransaction, polled: PolledRecords) -> None:
        """One output for each input, and the positions after them."""
        import numpy as np

        from workloads.payload import parse

        partitions, offsets = np.array(polled.partitions, np.int32), np.array(polled.offsets, np.int64)
        sources = parse(polled.payloads, INPUT, partitions, self._session.config.run).value
        batch.txn.send(OUTPUT, self._output, partitions, sources=sources)
        for partition in np.unique(partitions).tolist():
            batch.positions[self._topic, partition] = int(offsets[partitions == partition].max()) + 1
        batch.records += len(partitions)

    def _break_off(self, batch: OpenTransaction, way: TransactionFate) -> None:
        """End a transaction otherwise than by its commit."""
        if way is TransactionFate.ABORT:
            batch.txn.abort()
        else:
            batch.txn.abandon()
        self._behind = True
        if way is TransactionFate.CRASH:
            self._part(leave=False)

    def _part(self, *, leave: bool) -> None:
        """Be no member any more."""
        if self._member is not None:
            self._member.leave() if leave else self._member.drop()
        self._member, self._asked_in_vain = None, 0


class DrainCheck:
    """Whether all that was fed is through: the group has committed the ends of the input, and they do not move."""

    def __init__(self, session: WorkerSession, settings: ExactlyOnceSettings, topic: str) -> None:
        from workloads.clients import make_consumer

        self.partitions = [(topic, partition) for partition in range(settings.partitions)]
        self._through = False
        self._ends: dict[TopicPartition, int] = {}
        self._next_at = time.monotonic()
        self._give_up_at = self._next_at + settings.drain
        servers = settings.servers(session.addresses)
        self._consumer = make_consumer(settings, servers, session.security, session.client_id)
        self._connected = False

    @property
    def over(self) -> bool:
        """Whether to wait no longer."""
        return self._through or time.monotonic() >= self._give_up_at

    def look(self, member: Member) -> None:
        """Ask, once in a while."""
        if (now_s := time.monotonic()) < self._next_at:
            return
        self._next_at = now_s + ASK_EVERY_S
        self._connected = self._connected or self._consumer.assign({}) is None
        if not self._connected:
            return
        before, self._ends = self._ends, self._consumer.end_offsets(self.partitions, ASK_S)
        answer = member.committed(self.partitions, ASK_S)
        self._through = not isinstance(answer, ClientError) and _starts(answer) == self._ends == before

    def close(self) -> None:
        """Let go of the library."""
        self._consumer.close()


def _starts(answer: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where a member begins; at the start of the log where nothing was committed."""
    return {tp: max(0, offset) for tp, offset in answer.items()}
