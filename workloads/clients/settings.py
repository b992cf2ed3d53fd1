"""Every setting of a client library that a scenario can name.

A setting that is None is left to the library, except for idempotence: what is allowed to happen depends on it, so it is
always said. What a library cannot do is known by its stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from harness.foundation.config import Model
from workloads.clients.stack import COMPRESSIONS, ClientStack
from workloads.clients.stacks import STACKS, ClientName, find_stack, those_with, with_groups

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


class GroupSettings(ClientSettings):
    """How members of a group are set up."""

    group_protocol: Literal["classic", "consumer"] = Field(
        default="classic",
        description="how members and brokers agree: classic, or consumer"
        f" (KIP-848, {those_with(lambda stack: 'consumer' in stack.group_protocols)} alone)",
    )
    assignor: Literal["range", "roundrobin", "cooperative-sticky", "uniform"] | None = Field(
        default=None,
        description="how partitions are given out: range, roundrobin or cooperative-sticky by members (classic),"
        " range or uniform by the broker (consumer); the library's or the broker's own choice unless set",
    )
    session_timeout_ms: PositiveInt = Field(
        default=6000,  # brokers refuse less
        description="a member that is not heard of for that long is out; with group_protocol=consumer brokers decide on"
        " it, and this has to be what they are set to: 6000 where we start them, 45000 by default",
    )
    auto_commit_interval_ms: PositiveInt = Field(
        default=1000, description="how often a library that commits by itself does so"
    )

    @property
    def session_s(self) -> float:
        """How long a group waits for a member that says nothing."""
        return self.session_timeout_ms / 1000

    @model_validator(mode="after")
    def _protocol(self) -> GroupSettings:
        """Refuse what the protocol or the client library does not know."""
        if not self.stack.group_protocols:
            raise ValueError(f"{self.client} has no members of groups: take client={with_groups()}")
        if self.group_protocol not in self.stack.group_protocols:
            others = those_with(lambda stack: self.group_protocol in stack.group_protocols)
            (own,) = self.stack.group_protocols
            raise ValueError(f"{self.client} knows the {own} protocol only: use client={others} or {own}")
        known = {"classic": ("range", "roundrobin", "cooperative-sticky"), "consumer": ("range", "uniform")}
        if self.assignor is not None and self.assignor not in known[self.group_protocol]:
            raise ValueError(
                f"group_protocol={self.group_protocol} has no assignor {self.assignor}:"
                f" take {' or '.join(known[self.group_protocol])}"
            )
        return self


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
