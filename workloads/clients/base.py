"""What a workload asks of a client library, and every setting of one that a scenario can name.

A producer takes messages and later hands back what became of them, as parallel lists; a consumer is polled. Neither
retries anything: the library's own retries are what is under test. A setting that is None is left to the library,
except for idempotence: what is allowed to happen depends on it, so it is always said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from harness.config import Model
from workloads.clients.stack import COMPRESSIONS, ClientStack
from workloads.clients.stacks import STACKS, ClientName, find_stack, those_with, with_groups

TopicPartition = tuple[str, int]  # a topic's name and a partition
BEGINNING = -2  # in place of an offset
MARK = "tidegauge"  # the header of a tombstone: the message that would be its value
BLOCK_AT_MOST_S = 10.0  # handing a chunk to the library; kafka-python's own 60 s outlast any patience at the end
IN_FLIGHT_WITH_IDEMPOTENCE = 5  # brokers remember that many batches of a producer


def _acks(value: Any) -> Any:
    return {0: "0", 1: "1", -1: "all", "-1": "all"}.get(value, value) if isinstance(value, int | str) else value


Acks = Annotated[Literal["0", "1", "all"], BeforeValidator(_acks)]


def _cannot_do_all() -> str:
    """Which libraries cannot compress in every way."""
    return "".join(
        f"; {stack.name} can do {' and '.join(stack.compressions)} here"
        for stack in STACKS.values()
        if stack.compressions != COMPRESSIONS
    )


class ClientSettings(Model):
    """How clients are set up; None leaves a setting to the client library's own default."""

    keyed: ClassVar[bool] = False  # whether consumers hand out keys, and the headers of tombstones
    block_at_most_s: ClassVar[float] = BLOCK_AT_MOST_S
    metadata_age_ms: ClassVar[int | None] = None  # how old may be what a library knows of topics

    client: ClientName = Field(
        default="confluent-kafka", description="the client library that producers and consumers use"
    )
    acks: Acks = Field(default="all", description="how many replicas acknowledge a send: 0 none, 1 the leader, all")
    idempotence: bool | None = Field(
        default=None, description="whether the producer numbers its batches, so that brokers refuse a second copy"
    )
    retries: NonNegativeInt | None = Field(default=None, description="how often the library sends a batch again")
    delivery_timeout_ms: PositiveInt | None = Field(
        default=None, description="how long the library tries to deliver a message before it gives up"
    )
    request_timeout_ms: PositiveInt | None = Field(
        default=None, description="how long the library waits for the answer to one request"
    )
    max_in_flight: PositiveInt | None = Field(
        default=None, description="requests on one connection that may wait for their answer at once"
    )
    linger_ms: NonNegativeInt | None = Field(
        default=None, description="how long a batch waits for more messages before it is sent"
    )
    batch_size: PositiveInt | None = Field(default=None, description="largest batch, in bytes")
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = Field(
        default=None, description=f"how batches are compressed{_cannot_do_all()}"
    )
    isolation_level: Literal["read_uncommitted", "read_committed"] | None = Field(
        default=None, description="whether consumers see records of transactions that are still open or were aborted"
    )
    client_rack: str | None = Field(
        default=None,
        description="the rack that consumers say they are in; brokers that go by racks send them to a replica there",
    )
    consume_by: Literal["assign", "subscribe"] = Field(
        default="assign", description="whether consumers take fixed shares of the partitions or join a group"
    )
    bootstrap: Literal["first", "all"] | tuple[str, ...] = Field(
        default="all", description="addresses clients start from: the first node's, all nodes', or a list of host:port"
    )
    max_poll_records: PositiveInt = Field(default=500, description="most records that one poll returns")
    consumer_timeout_ms: PositiveInt = Field(
        default=60_000, description="a consumer that knows what to expect gives up after that long without a record"
    )

    @model_validator(mode="after")
    def _possible(self) -> ClientSettings:
        """Refuse what a client library or a broker would refuse later, in the middle of a run."""
        if self.idempotence:
            if self.acks != "all":
                raise ValueError(f"idempotence needs acks=all, not acks={self.acks}")
            if self.max_in_flight is not None and self.max_in_flight > IN_FLIGHT_WITH_IDEMPOTENCE:
                raise ValueError(f"idempotence allows max_in_flight up to {IN_FLIGHT_WITH_IDEMPOTENCE}")
            if self.retries == 0:
                raise ValueError("idempotence needs retries above 0")
        if self.compression is not None and self.compression not in self.stack.compressions:
            taken = " or ".join(each for each in self.stack.compressions if each != "none")
            others = those_with(lambda stack: self.compression in stack.compressions)
            raise ValueError(
                f"{self.client} cannot compress with {self.compression} here: take {taken}, or client={others}"
            )
        if self.consume_by == "subscribe" and not self.stack.group_protocols:
            raise ValueError(f"{self.client} cannot join groups: take consume_by=assign, or client={with_groups()}")
        if self.bootstrap == ():
            raise ValueError("bootstrap needs at least one address: give 'first', 'all' or a list of host:port")
        return self

    @property
    def stack(self) -> ClientStack:
        """The client library that they are for."""
        return find_stack(self.client)

    @property
    def idempotent(self) -> bool:
        """Whether the producer numbers its batches: as given, or as the library does by itself."""
        if self.idempotence is not None:
            return self.idempotence
        in_flight = self.max_in_flight or self.stack.in_flight
        possible = self.acks == "all" and in_flight <= IN_FLIGHT_WITH_IDEMPOTENCE and self.retries != 0
        return self.stack.idempotent_by_default and possible

    def servers(self, addresses: Sequence[str]) -> list[str]:
        """Where clients start, given the addresses of all nodes."""
        if self.bootstrap == "first":
            return list(addresses[:1])
        return list(addresses if self.bootstrap == "all" else self.bootstrap)


@dataclass(frozen=True)
class ClientError:
    """What a client library said; negative codes are its own, the others Kafka's."""

    code: int
    text: str
    fenced: bool = False  # another instance took the transactional id: this one is over


@dataclass(frozen=True)
class Keyed:
    """The keys of messages, and which of these are tombstones: they go without a value, and `MARK` has the message."""

    keys: Sequence[bytes]
    tombstones: Sequence[bool]


@dataclass(frozen=True)
class Delivered:
    """Messages that have an outcome now, in parallel lists; `errors` has those that were not acknowledged."""

    payloads: list[bytes]
    offsets: list[int]
    errors: Mapping[int, ClientError]


@dataclass(frozen=True)
class Polled:
    """What one poll returned: records in parallel lists, and what went wrong meanwhile."""

    topics: list[str] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    payloads: list[bytes | None] = field(default_factory=list)
    errors: list[ClientError] = field(default_factory=list)
    keys: list[bytes | None] | None = None  # where somebody asked for them
    marks: list[bytes | None] | None = None  # and what the headers of tombstones say


class Producer(ABC):
    """Sends messages and hands back what became of them."""

    chunk: int  # messages that take the library some 10 ms: what is announced at once

    @abstractmethod
    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: Keyed | None = None
    ) -> None:
        """Hand messages to the library; one that it refuses turns up among the delivered, with its error.

        No two payloads are the same. A library that cannot take messages now is waited for, `block_at_most_s` in all;
        the rest is then refused.
        """

    @abstractmethod
    def delivered(self, wait_s: float) -> Delivered:
        """What has an outcome since the last call; waits that long for the first."""

    @property
    @abstractmethod
    def outstanding(self) -> int:
        """Messages whose outcome `delivered` has not handed back."""

    @abstractmethod
    def close(self, timeout_s: float) -> None:
        """Let go of the library; what is outstanding then stays open."""


class Consumer(ABC):
    """Polls partitions that it was given or that its group gave it."""

    @abstractmethod
    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """Take exactly these partitions, from these offsets; those it already has go on where they are.

        A library that could not even be set up tries again with the next call of this, or with the next poll.
        """

    @abstractmethod
    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """Join a group; `on_assign` is told what it gives."""

    @abstractmethod
    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Records that have arrived; errors of the library are part of the answer, never raised."""

    @abstractmethod
    def position(self, tp: TopicPartition) -> int | None:
        """The offset that is read next; None as long as nobody knows."""

    @abstractmethod
    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Go on at these offsets of partitions that it was given: those where that did not work."""

    @abstractmethod
    def end_offsets(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Ask the leaders now where these partitions end; those that do not answer are left out."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the library."""
