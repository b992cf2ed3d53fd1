"""Transactions and their recording: what belongs to a transaction ends with it, and as it does.

A transaction is one operation from its beginning to its end. Sends and commits of offsets inside it are operations of
their own that refer to it, and are completed together with it: whether a record counts is decided at the end alone.
How it ends:

- ok: the library's commit returned without an error. Every part is ok, with the offset that its delivery report gave.
- fail: the library's abort returned without an error, or nobody can commit it any more: the instance was fenced or
  given up before its commit was called, or its library refused to commit.
- info: an error of commit, whatever it says, because EndTxn may have left; an error of abort.

A commit waits for all deliveries first. Where one of them failed or did not come in time, or any step before did, the
transaction is aborted instead. An instance that is fenced or broken, and one that does not know how its transaction
ended, is closed; the next transaction is of a new instance of the same transactional id, which finds out by itself
(`INIT`). What the libraries say about a transaction that has ended is ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.history.outcomes import outcome
from harness.history.recorder import Recorder
from harness.history.schema import COLUMNS, F, Kind, Type
from workloads import payload
from workloads.base import TransactingSettings
from workloads.clients import make_transactional_producer
from workloads.clients.base import ClientError, DeliveredMessages, TopicPartition
from workloads.clients.transactional import FENCED, TransactionalProducer
from workloads.partition_ops import PartitionOps, begin_ops, end_ops
from workloads.producing import RecordingProducer
from workloads.session import WorkerSession

CALL_S = 10.0  # for one call of the library, however long a transaction may last: whoever is told to stop has to end
DRAIN_S = 0.02
CLOSE_S = 1.0
NAP_S = 0.2  # after an instance could not take its transactional id
Opener = Callable[[], TransactionalProducer]  # makes an instance that has not taken its transactional id yet


class Transactor:
    """A transactional id and its instances, one after the other."""

    def __init__(
        self, session: WorkerSession, settings: TransactingSettings, transactional_id: str, opener: Opener | None = None
    ) -> None:
        self.name = transactional_id
        self.fenced = False  # whether another instance took the id from the last one of this
        self.timeout_s = min(settings.transaction_timeout_ms / 1000, CALL_S)
        self.session = session
        self._settings = settings
        self._opener = opener or self._open
        self._sender: RecordingProducer | None = None  # it outlives instances: sequences go on
        self._alive = False

    def rival(self) -> Transactor:
        """Another one with the same transactional id, in the same process: its first instance fences this one's."""
        rival = Transactor(self.session, self._settings, self.name, self._opener)
        rival._sender = copy(self._sender)
        return rival

    @property
    def sender(self) -> RecordingProducer:
        """Over the instance that is alive."""
        if self._sender is None:
            raise RuntimeError("no instance was opened yet")
        return self._sender

    @property
    def producer(self) -> TransactionalProducer:
        """The instance that is alive."""
        producer = self.sender.producer
        if not isinstance(producer, TransactionalProducer):
            raise TypeError("a transactor sends with transactional producers alone")
        return producer

    def init(self) -> Type:
        """Have a new instance take the transactional id."""
        self.close()
        producer = self._opener()
        if self._sender is None:
            self._sender = RecordingProducer(self.session, self._settings, producer)
        self._sender.producer = producer
        self._alive, self.fenced = True, False
        op = self.session.recorder.begin(F.INIT, name=self.name)
        error = producer.init(self.timeout_s)
        type_ = Type.OK if error is None else outcome(F.INIT, error.code)
        self.session.recorder.end(op, type_, name=self.name, **_said(error))
        if error is not None:
            self.end_instance(error)
        return type_

    def begin(self) -> Transaction | None:
        """A transaction of the instance that is alive, or of a new one; None when there is none to be had now."""
        if not self._alive and self.init() is not Type.OK:
            self.session.control.wait(NAP_S)
            return None
        transaction = Transaction(self)
        return transaction if transaction.open else None

    def end_instance(self, *errors: ClientError | None) -> None:
        """Give this instance up, because of these; the next transaction is another's."""
        self.fenced = any(map(_fenced, errors))
        self.close()

    def close(self) -> None:
        """Let go of the library; a transaction that is open stays so until it times out or somebody takes the id."""
        if self._alive:
            self._alive = False
            self.producer.close(CLOSE_S)

    def _open(self) -> TransactionalProducer:
        servers = self._settings.servers(self.session.addresses)
        return make_transactional_producer(
            self._settings, servers, self.session.security, self.session.client_id, self.name
        )


class Transaction:
    """One transaction, from its beginning to its end."""

    def __init__(self, transactor: Transactor) -> None:
        self._transactor = transactor
        self._session = transactor.session
        self._recorder = transactor.session.recorder
        self._sends = _Sends()
        self._commits: list[tuple[PartitionOps, ClientError | None]] = []
        self._error: ClientError | None = None  # the first that a step met: such a transaction is aborted
        self.operations = 0  # inside
        self.open = True
        self._op = self._recorder.begin(F.TXN, name=transactor.name)
        if error := transactor.producer.begin():
            self._error = error
            self._end(Type.FAIL, error)
            transactor.end_instance(error)

    @property
    def id(self) -> int:
        """Its operation."""
        return self._op.id

    @property
    def broken(self) -> bool:
        """Whether a step met an error, so that the transaction can only be aborted."""
        return self._error is not None

    def send(
        self, topic: int, name: str, partitions: npt.NDArray[Any], sources: npt.NDArray[Any] | None = None
    ) -> None:
        """Announce messages to these partitions of a topic, then hand them to the library."""
        self.operations += 1
        sent = self._transactor.sender.send(topic, name, partitions, sources=sources, txn=self.id)
        self._sends.payloads += sent
        self.drain(0)

    def offsets(
        self,
        numbers: Mapping[str, int],
        positions: Mapping[TopicPartition, int],
        member: Any,
        group: str,
        membership: int,
    ) -> ClientError | None:
        """Have the offsets of a group committed with this; `member` is what `GroupConsumer.metadata` says."""
        self.operations += 1
        offsets = np.fromiter(positions.values(), np.int64, len(positions))
        ops = begin_ops(
            self._recorder, F.COMMIT, numbers, list(positions),
            offset=offsets, name=group, member=membership, txn=self.id,
        )  # fmt: skip
        error = self._transactor.producer.send_offsets(positions, member, self._transactor.timeout_s)
        self._commits.append((ops, error))
        self._error = self._error or error
        return error

    def drain(self, wait_s: float) -> None:
        """Take in what was delivered."""
        delivered = self._transactor.producer.delivered(wait_s)
        self._sends.delivered.append(delivered)
        self._error = self._error or next(iter(delivered.errors.values()), None)
        self._session.status.show()

    def deliver(self) -> bool:
        """Wait until all is delivered; whether it was."""
        producer, deadline = self._transactor.producer, time.monotonic() + self._transactor.timeout_s
        while producer.outstanding and not self.broken and time.monotonic() < deadline:
            self.drain(DRAIN_S)
        return not producer.outstanding and not self.broken

    def commit(self) -> Type:
        """End it, so that it counts, if everything went well so far."""
        if not self.deliver():
            return self.abort()
        error = self._transactor.producer.commit(self._transactor.timeout_s)
        self.drain(0)
        if error is None:
            return self._end(Type.OK, None)
        type_ = self._end(outcome(F.TXN, error.code), error)
        self._transactor.end_instance(error)
        return type_

    def abort(self) -> Type:
        """End it, so that it never was."""
        cause = self._error
        error = self._transactor.producer.abort(self._transactor.timeout_s)
        settled = self._settled()
        if error is None:
            type_ = self._end(Type.FAIL, None, f"aborted because of: {cause.text}" if cause else None)
        else:
            type_ = self._end(Type.FAIL if _fenced(error) or _fenced(cause) else Type.INFO, error)
        if error is not None or not settled:
            self._transactor.end_instance(error, cause)
        return type_

    def abandon(self) -> Type:
        """Go without ending it: the instance is closed, and nobody can commit this any more."""
        self._transactor.end_instance()
        return self._end(Type.FAIL, None)

    def _settled(self) -> bool:
        """Whether the library has given account of all messages: what is left would be counted to the next one's."""
        producer, deadline = self._transactor.producer, time.monotonic() + CLOSE_S
        self.drain(0)
        while producer.outstanding and time.monotonic() < deadline:
            self.drain(DRAIN_S)
        return not producer.outstanding

    def _end(self, type_: Type, error: ClientError | None, detail: str | None = None) -> Type:
        """Complete the parts, then the whole."""
        self.open = False
        count = self._sends.record(self._recorder, type_, self.id)
        for ops, refused in self._commits:
            end_ops(self._recorder, ops, type_, **_said(refused))
        said = {"detail": detail} | _said(error)
        self._recorder.end(self._op, type_, name=self._transactor.name, count=self.operations, **said)
        status = self._session.status
        status.ok += count if type_ is Type.OK else 0
        status.fail += count if type_ is Type.FAIL else 0
        status.info += count if type_ is Type.INFO else 0
        status.show()
        return type_


class _Sends:
    """The messages of a transaction, and what the library said of them."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.delivered: list[DeliveredMessages] = []

    def record(self, recorder: Recorder, type_: Type, txn: int) -> int:
        """Complete all of them as the transaction ended, with their own offset or error where there is one."""
        count = len(self.payloads)
        if not count:
            return 0
        head = payload.headers(self.payloads)
        columns = {
            name: np.full(count, COLUMNS[name].null, COLUMNS[name].stored) for name in ("offset", "error", "detail")
        }
        for delivered in self.delivered:
            self._take(recorder, delivered, head["value"], columns)
        recorder.write(
            Kind.COMPLETE, count, op=head["value"], value=head["value"], invoked=head["invoked"], f=F.SEND, type=type_,
            topic=head["topic"], partition=head["partition"], sequence=head["sequence"], source=head["source"], txn=txn,
            **columns,
        )  # fmt: skip
        return count

    @staticmethod
    def _take(
        recorder: Recorder, delivered: DeliveredMessages, sent: npt.NDArray[Any], columns: dict[str, npt.NDArray[Any]]
    ) -> None:
        """What one drain brought; messages of an earlier transaction are left alone."""
        if not delivered.payloads:
            return
        values = payload.headers(delivered.payloads)["value"]
        at = np.searchsorted(sent, values)  # operations are counted up
        mine = sent[np.minimum(at, len(sent) - 1)] == values
        good = mine.copy()
        good[list(delivered.errors)] = False
        columns["offset"][at[good]] = np.array(delivered.offsets, np.int64)[good]
        columns["error"][at[good]] = 0
        for index, error in delivered.errors.items():
            if mine[index]:
                columns["error"][at[index]] = error.code
                columns["detail"][at[index]] = recorder.text(error.text)


def _fenced(error: ClientError | None) -> bool:
    """Whether it says that another instance took the id; of a message, its code alone does."""
    return error is not None and (error.fenced or error.code in FENCED)


def _said(error: ClientError | None) -> dict[str, Any]:
    """What a completion says of an error."""
    return {"error": 0} if error is None else {"error": error.code, "detail": error.text}
