"""What a workload asks of a client library that sends in transactions.

One object is one instance of a transactional id. It is a `Producer` besides: messages are handed over with `send` and
come back from `delivered`. Errors are answers, never raised; they say by themselves whether another instance took over
(`ClientError.fenced`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, PositiveInt, model_validator

from workloads.clients.base import ClientError, ClientSettings, Producer, TopicPartition
from workloads.clients.stacks import those_with

# Kafka's codes that say so, and librdkafka's own: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, _FENCED
FENCED = frozenset({47, 90, -144})


class TransactionalSettings(ClientSettings):
    """How transactional producers are set up."""

    idempotence: bool | None = Field(
        default=True, description="always true here: brokers take transactions of numbered batches only"
    )
    transaction_timeout_ms: PositiveInt = Field(
        default=10_000,
        ge=1000,
        description="the coordinator aborts a transaction that is open for longer; each call waits at most that long,"
        " and never for more than 10 s",
    )

    @model_validator(mode="after")
    def _numbered(self) -> Self:
        """Refuse what the libraries would refuse."""
        if not self.stack.transactions:
            others = those_with(lambda stack: stack.transactions)
            raise ValueError(f"{self.client} has no transactional producers: take client={others}")
        if not self.idempotence:
            raise ValueError("transactions need idempotence: leave it out, or set it to true")
        if self.delivery_timeout_ms is not None and self.delivery_timeout_ms > self.transaction_timeout_ms:
            raise ValueError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} is more than"
                f" transaction_timeout_ms={self.transaction_timeout_ms}: lower the one or raise the other"
            )
        return self


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
