"""confluent-kafka (librdkafka) as a transactional producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from harness.security import Security
from workloads.clients.base import ClientError, Place
from workloads.clients.confluent import ConfluentProducer
from workloads.clients.transactional import FENCED, TransactionalProducer, TransactionalSettings


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

    def init(self, timeout_s: float) -> ClientError | None:
        """InitProducerId."""
        return _called(self._producer.init_transactions, timeout_s)

    def begin(self) -> ClientError | None:
        """Local."""
        return _called(self._producer.begin_transaction)

    def send_offsets(self, offsets: Mapping[Place, int], member: Any, timeout_s: float) -> ClientError | None:
        """AddOffsetsToTxn and TxnOffsetCommit."""
        given = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        return _called(self._producer.send_offsets_to_transaction, given, member, timeout_s)

    def commit(self, timeout_s: float) -> ClientError | None:
        """EndTxn, unless the transaction is empty."""
        return _called(self._producer.commit_transaction, timeout_s)

    def abort(self, timeout_s: float) -> ClientError | None:
        """The library drops what is queued, waits for what is on its way, and sends EndTxn."""
        return _called(self._producer.abort_transaction, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Not by the method that the library has for it, which would end the transaction."""
        self._producer.purge()
        super().close(timeout_s)
        del self._producer  # and with it its threads


def _called(method: Callable[..., object], *arguments: Any) -> ClientError | None:
    try:
        method(*arguments)
    except KafkaException as raised:
        error = raised.args[0]
        code = error.code()
        return ClientError(code, error.str(), fenced=code in FENCED)
    return None
