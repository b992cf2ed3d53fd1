"""kafka-python as a transactional producer.

Its `commit_transaction` and the like wait without end. What they consist of is called here instead, with a time-out:
the transaction manager queues a request, and the sender thread is woken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import TopicPartition as LibraryPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from harness.clusters.kept_connections import connections_to
from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.foundation.known_addresses import known_with
from harness.foundation.security import Security
from workloads.clients.base import ClientError, TopicPartition
from workloads.clients.kafka_python import KafkaPythonProducer, _error
from workloads.clients.settings import TransactionalSettings
from workloads.clients.transactional import FENCED, TransactionalProducer

# the first request of a transaction is mostly told that the one before is not through yet; the library's own 100 ms,
# twice, would be most of the time of a transaction
BACKOFF_MS = 20


class KafkaPythonTransactionalProducer(KafkaPythonProducer, TransactionalProducer):
    """`KafkaProducer` with a transactional id."""

    def __init__(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> None:
        own = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": settings.transaction_timeout_ms,
            "retry_backoff_ms": BACKOFF_MS,
        }
        self._open = partial(super().__init__, settings, servers, security, client_id, **own)
        self._connections = connections_to(known_with(servers))
        self._network: Any = None
        self._manager: Any = None
        self._sender: Any = None

    def init(self, timeout_s: float) -> ClientError | None:
        """InitProducerId; the library is opened by this, because it looks for a broker then, and may find none."""
        give_up_at = time.monotonic() + timeout_s
        try:
            self._open(bootstrap_timeout_ms=int(timeout_s * 1000), kafka_client=self._connected)
        except Exception as error:  # noqa: BLE001 - the library has errors that are none of its own
            if self._network is not None:
                self._network.close()  # which the library leaves open then
            return _error(error)
        self._manager = self._producer._transaction_manager  # noqa: SLF001 - see above
        self._sender = self._producer._sender  # noqa: SLF001
        return self._asked(self._manager.initialize_transactions, max(0.0, give_up_at - time.monotonic()))

    def begin(self) -> ClientError | None:
        """Local."""
        # Offsets that a group refused stay there, and would be committed with the next transaction.
        self._manager._pending_txn_offset_commits.clear()  # noqa: SLF001 - see above
        try:
            self._manager.begin_transaction()
        except Exception as error:  # noqa: BLE001 - the library has errors that are none of its own
            return self._refusal(error)
        return None

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:
        """AddOffsetsToTxn and TxnOffsetCommit."""
        given = {LibraryPartition(*tp): OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()}
        return self._asked(lambda: self._manager.send_offsets_to_transaction(given, member), timeout_s)

    def commit(self, timeout_s: float) -> ClientError | None:
        """EndTxn, unless the transaction is empty."""
        return self._asked(self._manager.begin_commit, timeout_s)

    def abort(self, timeout_s: float) -> ClientError | None:
        """The library drops what is queued, waits for what is on its way, and sends EndTxn."""
        return self._asked(self._manager.begin_abort, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Also where the library gives up on closing: its thread would go on to ask for what nobody waits for."""
        if self._sender is None:
            return
        super().close(timeout_s)
        if self._sender.is_alive():
            self._sender.force_close()
            self._sender.join(timeout_s)
        with suppress(KafkaError):
            self._producer.close(timeout=0)

    def _connected(self, **options: Any) -> Any:
        """The library's own connections, kept here as well."""
        self._network = self._connections(**options)
        return self._network

    def _asked(self, queue: Callable[[], Any], timeout_s: float) -> ClientError | None:
        """Queue a request and wait for its result."""
        try:
            result = queue()
        except Exception as error:  # noqa: BLE001 - the library has errors that are none of its own
            return self._refusal(error)
        self._sender.wakeup()
        try:
            if result.wait(timeout_ms=timeout_s * 1000):
                return None
        except Exception as error:  # noqa: BLE001 - the sender thread hands over whatever it met
            return self._typed(_error(error), error)
        late = KafkaTimeoutError(f"no answer within {timeout_s:.0f} s")
        return self._typed(_error(late), late)

    def _refusal(self, error: Exception) -> ClientError:
        """The library did not even queue it, why is what it met before; of what is no error of its own nobody knows."""
        said = ClientError(REFUSED_LOCALLY, str(error)) if isinstance(error, KafkaError) else _error(error)
        return self._typed(said, self._manager.last_error or error)

    def _typed(self, error: ClientError, cause: BaseException) -> ClientError:
        return ClientError(error.code, error.text, fenced=getattr(cause, "errno", None) in FENCED)
