"""Transactions as Jepsen's test of Kafka has them: sends and polls mixed, committed and aborted, by rivals.

A producer makes one transaction after the other, of 1 to `max_txn_length` operations. An operation is a send of some
messages to a partition in use, or a poll of its own read_committed consumer, which reads all partitions. Partitions in
use are a window of `key_count` of them that moves on every `rotate`; all producers write to the same window. There is a
pause of up to `delay` before each operation.

A share of the transactions (`abort`) is aborted on purpose, at a step that is drawn among all of theirs: right after
the beginning, after each operation, and after all was delivered. Every `fence_every` a producer opens a second instance
with its own transactional id in the middle of a transaction, and lets the first go on: whatever that still sends has to
be refused, and it ends. The second one makes the next transaction.

What a transaction polled counts only if it is committed: otherwise its consumer goes back to where the transaction
began. Consumers read all partitions from the beginning, even ones read_committed and odd ones read_uncommitted. The
final read is made in both ways.

Beside them `plain_producers` may send to all partitions without transactions, so that there is always something to
replicate.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from harness.foundation.durations import Duration
from harness.history.schema import Type, now
from workloads.base import CONSUMER, PRODUCER, Role, Settings, TopicSpec, TransactingSettings, Workload

if TYPE_CHECKING:
    from workloads.clients.base import TopicPartition
    from workloads.consuming import RecordingConsumer
    from workloads.session import WorkerSession
    from workloads.transacting import Transaction, Transactor

POLL_S = 0.02  # confluent-kafka waits for that long even when it has something
TOPIC = 0
PLAIN = "plain"  # the task of producers without transactions; the others have none
DEBT_S = 1.0


class TransactionsSettings(TransactingSettings):
    """Some tens of transactions per second unless told otherwise."""

    producers: PositiveInt = Field(default=2, description="processes that make transactions")
    plain_producers: NonNegativeInt = Field(
        default=0, description="processes that also send to all partitions, without transactions"
    )
    plain_rate: NonNegativeFloat = Field(
        default=200.0, description="messages per second of each plain producer; 0 is as fast as possible"
    )
    consumers: NonNegativeInt = Field(
        default=2, description="processes that read only: even ones read_committed, odd ones read_uncommitted"
    )
    partitions: PositiveInt = Field(default=6, le=10_000, description=Settings.model_fields["partitions"].description)
    key_count: PositiveInt = Field(default=3, description="partitions that are written to at the same time")
    rotate: Duration = Field(
        default=3.0, gt=0, description="how long it takes until the next partition takes the place of the oldest in use"
    )
    rate: NonNegativeFloat = Field(
        default=0.0, description="transactions per second of each producer; 0 is as fast as possible"
    )
    max_txn_length: PositiveInt = Field(default=4, le=1000, description="most operations in one transaction")
    messages: PositiveInt = Field(default=4, le=1000, description="most messages of one send")
    polls: float = Field(default=0.4, ge=0, le=1, description="share of polls among the operations of transactions")
    abort: float = Field(default=0.2, ge=0, le=1, description="share of transactions that are aborted on purpose")
    delay: Duration = Field(default=0.02, le=5, description="longest pause before an operation of a transaction")
    fence_every: Duration = Field(
        default=10.0,
        description="how often a producer opens a second instance with its transactional id in the middle of a"
        " transaction; 0 is never",
    )


class Transactions(Workload[TransactionsSettings]):
    """Producers of transactions, and readers of both kinds."""

    name = "transactions"
    about = "sends and polls in transactions over rotating partitions, committed, aborted at every step, and fenced"
    model = TransactionsSettings

    def topics(self, settings: TransactionsSettings) -> list[TopicSpec]:
        """One."""
        return [settings.topic_spec(TOPIC, "transactions")]

    def stages(self, settings: TransactionsSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        consumers = [""] * settings.consumers
        producers = [""] * settings.producers + [PLAIN] * settings.plain_producers
        return [
            [
                Role(name, number, len(tasks), finite=False, task=task)
                for name, tasks in ((CONSUMER, consumers), (PRODUCER, producers))
                for number, task in enumerate(tasks)
            ]
        ]

    def isolation(self, settings: TransactionsSettings, role: Role) -> str:
        """Every second consumer reads everything."""
        usual = "read_uncommitted" if role.name == CONSUMER and role.number % 2 else "read_committed"
        return settings.isolation_level or usual

    def reads_raw(self, settings: TransactionsSettings) -> bool:  # noqa: ARG002 - always
        """What was aborted is in the logs."""
        return True

    def work(self, session: WorkerSession, settings: TransactionsSettings) -> None:
        """Make transactions, send without any, or read."""
        if session.config.task == PLAIN:
            from workloads.pacing import feed

            of_all = settings.plain_rate * session.config.of
            feed(session, settings, of_all, settings.topic_spec(TOPIC, "transactions"))
        elif session.config.role == PRODUCER:
            transact(session, settings)
        else:
            read(session, settings)


WORKLOAD = Transactions()


@dataclass(frozen=True)
class TransactionPlan:
    """A transaction to be; step 0 is right after its beginning, step n after its nth operation."""

    polls: tuple[bool, ...]  # its operations: whether each is a poll
    abort_at: int | None = None  # one step more than it has operations: when all is delivered
    fence_at: int | None = None  # the second instance comes


def draw(random: Random, settings: TransactionsSettings, *, fence: bool) -> TransactionPlan:
    """The next one; one that is to be fenced sends and is not aborted, so that there is something to refuse."""
    length = random.randint(1, settings.max_txn_length)
    polls = tuple(random.random() < settings.polls for _ in range(length))
    if fence:
        return TransactionPlan((False, *polls[1:]), fence_at=random.randint(0, length))
    return TransactionPlan(polls, abort_at=random.randint(0, length + 1) if random.random() < settings.abort else None)


def window(settings: TransactionsSettings, time_ns: int, began: int) -> list[int]:
    """The partitions that are written to at this time, in a run that began then."""
    first = max(0, int((time_ns - began) / 1e9 / settings.rotate))
    count = min(settings.key_count, settings.partitions)
    return [(first + index) % settings.partitions for index in range(count)]


class TransactionWorker:
    """Makes transactions."""

    def __init__(
        self, session: WorkerSession, settings: TransactionsSettings, transactor: Transactor, reader: RecordingConsumer
    ) -> None:
        self.transactor = transactor
        self._session = session
        self._settings = settings
        self._reader = reader
        self._random = Random(session.config.seed)  # noqa: S311 - a run can be repeated
        self._name = settings.topic_spec(TOPIC, "transactions").full_name(session.config.prefix)
        self._fence_at = time.monotonic() + settings.fence_every
        self._began_at: dict[TopicPartition, int] = {}  # where the transaction found the partitions that it polled

    def follow(self) -> None:
        """Read all partitions."""
        self._reader.follow({self._name: TOPIC}, [(self._name, number) for number in range(self._settings.partitions)])

    def transact(self) -> Type | None:
        """One transaction to its end; None when it could not even begin."""
        fence = bool(self._settings.fence_every) and time.monotonic() >= self._fence_at
        plan = draw(self._random, self._settings, fence=fence)
        self._began_at = {}
        transaction = self.transactor.begin()
        if transaction is None:
            return None
        rival = self._steps(transaction, plan)
        ended = transaction.abort() if plan.abort_at is not None else transaction.commit()
        if ended is not Type.OK and self._began_at:
            self._reader.seek(self._began_at)
        if rival is not None:
            self.transactor.close()
            self.transactor = rival
            self._fence_at = time.monotonic() + self._settings.fence_every
        return ended

    def _steps(self, transaction: Transaction, plan: TransactionPlan) -> Transactor | None:
        """Up to the one at which it is aborted; the second instance, if one came."""
        rival = self._fence() if plan.fence_at == 0 else None
        for step, poll in enumerate(plan.polls):
            if plan.abort_at == step or transaction.broken:
                return rival
            self._session.control.wait(self._random.uniform(0, self._settings.delay))
            if poll:
                self._poll(transaction)
            else:
                self._send(transaction)
            if plan.fence_at == step + 1:
                rival = self._fence()
        if plan.abort_at == len(plan.polls) + 1:
            transaction.deliver()
        return rival

    def _fence(self) -> Transactor:
        rival = self.transactor.rival()
        rival.init()
        return rival

    def _poll(self, transaction: Transaction) -> None:
        transaction.operations += 1
        polled = self._reader.poll(POLL_S, txn=transaction.id)
        backward = zip(reversed(polled.topics), reversed(polled.partitions), strict=True)
        first = dict(zip(backward, reversed(polled.offsets), strict=True))  # the first of each comes last, and stays
        self._began_at = first | self._began_at

    def _send(self, transaction: Transaction) -> None:
        import numpy as np

        partition = self._random.choice(window(self._settings, now(), self._session.config.began))
        count = self._random.randint(1, self._settings.messages)
        transaction.send(TOPIC, self._name, np.full(count, partition))


def transact(session: WorkerSession, settings: TransactionsSettings) -> None:
    """One transaction after the other until told to stop; the last one is brought to its end."""
    from workloads.consuming import open_consumer
    from workloads.transacting import Transactor

    config = session.config
    transactor = Transactor(session, settings, f"{config.prefix}-{config.workload}-{config.number}")
    reader = open_consumer(session, settings)
    worker = TransactionWorker(session, settings, transactor, reader)
    worker.follow()
    due_at = time.monotonic()
    while not session.control.stopped:
        worker.transact()
        if settings.rate:
            due_at = max(due_at, time.monotonic() - DEBT_S) + 1 / settings.rate
            session.control.wait(max(0.0, due_at - time.monotonic()))
    worker.transactor.close()
    reader.consumer.close()


def read(session: WorkerSession, settings: TransactionsSettings) -> None:
    """All partitions until told to stop."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    names = {topic.full_name(session.config.prefix): topic for topic in session.config.topics}
    partitions = [(name, partition) for name, topic in names.items() for partition in range(topic.partitions)]
    reader.follow({name: topic.number for name, topic in names.items()}, partitions)
    while not session.control.stopped:
        reader.poll()
    reader.consumer.close()
