"""What a workload asks of a client library that sends in transactions.

One object is one instance of a transactional id. It is a `Producer` besides: messages are handed over with `send` and
come back from `delivered`. Errors are answers, never raised; they say by themselves whether another instance took over
(`ClientError.fenced`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from workloads.clients.base import ClientError, Producer, TopicPartition

# Kafka's codes that say so, and librdkafka's own: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, _FENCED
FENCED = frozenset({47, 90, -144})


class TransactionalProducer(Producer):
    """A producer with a transactional id."""

    @abstractmethod
    def init(self, timeout_s: float) -> ClientError | None:
        """Take the transactional id: whoever had it is fenced, and what it left open is aborted."""

    @abstractmethod
    def begin(self) -> ClientError | None:
        """Open a transaction; nothing is sent by that."""

    @abstractmethod
    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:
        """Have these offsets committed with the transaction; `member` is `GroupConsumer.metadata()`."""

    @abstractmethod
    def commit(self, timeout_s: float) -> ClientError | None:
        """End the transaction; everything that was sent has to be delivered before."""

    @abstractmethod
    def abort(self, timeout_s: float) -> ClientError | None:
        """End the transaction without effect; what is not delivered is dropped and comes back from `delivered`."""
