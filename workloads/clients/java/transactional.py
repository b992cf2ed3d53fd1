"""`KafkaProducer` with a transactional id; its calls wait for `max.block.ms` at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jpype

from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.foundation.security import Security
from workloads.clients.base import ClientError, TopicPartition
from workloads.clients.java.consumer import offsets_of
from workloads.clients.java.failures import failure
from workloads.clients.java.producer import JavaProducer
from workloads.clients.java.settings import transactional_options
from workloads.clients.settings import TransactionalSettings
from workloads.clients.transactional import TransactionalProducer


class JavaTransactionalProducer(JavaProducer, TransactionalProducer):
    """With transactions of version 2 wherever brokers have them."""

    def __init__(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> None:
        given = transactional_options(settings, servers, security, client_id, transactional_id)
        super().__init__(settings, servers, security, client_id, given)

    def init(self, timeout_s: float) -> ClientError | None:  # noqa: ARG002 - set when it was made, as for the others
        """InitProducerId."""
        return _called(self._producer.initTransactions)

    def begin(self) -> ClientError | None:
        """Local: what the library refuses here was never sent."""
        error = _called(self._producer.beginTransaction)
        return error and ClientError(REFUSED_LOCALLY, error.text, fenced=error.fenced)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:  # noqa: ARG002
        """TxnOffsetCommit, and AddOffsetsToTxn before version 2."""
        return _called(self._producer.sendOffsetsToTransaction, offsets_of(offsets), member)

    def commit(self, timeout_s: float) -> ClientError | None:  # noqa: ARG002
        """EndTxn, unless the transaction is empty."""
        return _called(self._producer.commitTransaction)

    def abort(self, timeout_s: float) -> ClientError | None:  # noqa: ARG002
        """The library drops what is queued, waits for what is on its way, and sends EndTxn."""
        return _called(self._producer.abortTransaction)


def _called(method: Callable[..., object], *arguments: Any) -> ClientError | None:
    try:
        method(*arguments)
    except jpype.JException as error:
        return failure(error)
    return None
