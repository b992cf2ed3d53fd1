"""confluent-kafka (librdkafka) as a transactional producer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as LibraryPartition

from harness.foundation.security import Security
from workloads.clients.base import ClientError, TopicPartition
from workloads.clients.confluent import ConfluentProducer
from workloads.clients.settings import TransactionalSettings
from workloads.clients.transactional import FENCED, TransactionalProducer

TIMED_OUT = KafkaError._TIMED_OUT  # noqa: SLF001 - its public name
BEYOND_S = 2.0  # a call may take that much longer than it was told to


class ConfluentTransactionalProducer(ConfluentProducer, TransactionalProducer):
    """`confluent_kafka.Producer` with a transactional id; every call of the library takes a time-out."""

    def __init__(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> None:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": settings.transaction_timeout_ms}
        super().__init__(settings, servers, security, client_id, **own)
        self._stuck: threading.Thread | None = None  # in a call that did not come back in its time

    def init(self, timeout_s: float) -> ClientError | None:
        """InitProducerId."""
        return self._aside(timeout_s, self._producer.init_transactions, timeout_s)

    def begin(self) -> ClientError | None:
        """Local."""
        return _called(self._producer.begin_transaction)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:
        """AddOffsetsToTxn and TxnOffsetCommit."""
        given = [LibraryPartition(*tp, offset) for tp, offset in offsets.items()]
        return self._aside(timeout_s, self._producer.send_offsets_to_transaction, given, member, timeout_s)

    def commit(self, timeout_s: float) -> ClientError | None:
        """EndTxn, unless the transaction is empty."""
        return self._aside(timeout_s, self._producer.commit_transaction, timeout_s)

    def abort(self, timeout_s: float) -> ClientError | None:
        """The library drops what is queued, waits for what is on its way, and sends EndTxn."""
        return self._aside(timeout_s, self._producer.abort_transaction, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Not by the method that the library has for it, which would end the transaction."""
        if self._stuck is None:
            self._producer.purge()
            super().close(timeout_s)
        del self._producer  # and with it its threads, unless a call is still under way

    def _aside(self, timeout_s: float, method: Callable[..., object], *arguments: Any) -> ClientError | None:
        """Call the library on another thread: its own time-outs do not hold when a coordinator is cut off."""
        if self._stuck is not None:
            return ClientError(TIMED_OUT, "a call before has not come back")
        answered: SimpleQueue[ClientError | None] = SimpleQueue()
        aside = threading.Thread(target=lambda: answered.put(_called(method, *arguments)), daemon=True, name="aside")
        aside.start()
        try:
            return answered.get(timeout=timeout_s + BEYOND_S)
        except Empty:
            self._stuck = aside
            return ClientError(TIMED_OUT, f"the library did not come back within {timeout_s + BEYOND_S:.0f} s")


def _called(method: Callable[..., object], *arguments: Any) -> ClientError | None:
    try:
        method(*arguments)
    except KafkaException as raised:
        error = raised.args[0]
        code = error.code()
        return ClientError(code, error.str(), fenced=code in FENCED)
    return None
