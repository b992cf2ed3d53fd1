"""A transformer: it reads as a member of a group, and writes what it made in transactions with its offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.history.schema import Type
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.draining import ASK_S, DrainCheck, positions_of
from workloads.exactly_once_settings import INPUT, OUTPUT, ExactlyOnceSettings
from workloads.transaction_fates import Chances, TransactionFate, TransactionStep

if TYPE_CHECKING:
    from workloads.membership import Member
    from workloads.session import WorkerSession
    from workloads.transacting import Transaction


POLL_S = 0.1
NAP_S = 0.2  # after something that did not work
ASKED_IN_VAIN_AT_MOST = 3


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
        if isinstance(answer, ClientError) or member.seek_back(positions_of(answer)):
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
