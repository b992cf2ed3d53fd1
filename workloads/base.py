"""What a workload is: settings, topics, and the workers that make the load, in stages.

The workers of a stage run side by side; the next stage starts when all `finite` ones of the stage before have ended.
Workers that are not finite run until they are told to stop. Beside every workload run the probes, and after it comes
the final read; both are workers as well (`PROBE`, `FINAL`, `RAW`, `REPLICA`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from harness.foundation.config import Model
from harness.foundation.security import SecuritySpec
from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings

if TYPE_CHECKING:
    from harness.tap.rules import Rule
    from workloads.session import WorkerSession

PRODUCER, CONSUMER, PROBE, FINAL, RAW = "producer", "consumer", "probe", "final", "raw"
REPLICA = "replica"  # reads what one node has; worker n is for the node n
ADMIN = "admin"  # creates and deletes topics: neither sends nor reads, and no fault is aimed at it
COUNTS = ("sent", "ok", "fail", "info", "read")  # what statuses count
LEAST_VALUE_BYTES = 64  # what identifies a message has to fit


class Settings(ClientSettings):
    """What every workload can be told; each adds its own."""

    topic: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,200}$",
        description="what the names of topics begin with that you have created yourself, new and empty, for this run",
    )
    partitions: PositiveInt = Field(default=3, le=10_000, description="partitions of each topic")
    replication_factor: PositiveInt = Field(default=3, description="replicas of each partition")
    min_insync_replicas: PositiveInt = Field(
        default=2, description="replicas that must have a record before acks=all acknowledges it (topic setting)"
    )
    unclean_election: bool = Field(
        default=False, description="whether a replica that lags may become leader (topic setting)"
    )
    value_bytes: int = Field(
        default=100,
        ge=LEAST_VALUE_BYTES,
        le=900_000,
        description="size of a message; what identifies it takes 64 bytes",
    )
    probes: bool = Field(default=True, description="whether every node is asked for its watermarks all the time")
    probe_rate: PositiveFloat = Field(default=10.0, le=1000, description="rounds of probes per second and node")
    final_read_timeout_s: NonNegativeFloat = Field(
        default=30.0, description="the final read gives up on a partition after that long without progress"
    )
    replica_records: NonNegativeInt = Field(
        default=1000,
        description="newest records of each partition that are read from every replica at the end; 0: none",
    )

    topic_age_s: NonNegativeFloat = Field(
        default=0.0, le=3600, description="how long topics have been there when the first clients come"
    )

    @model_validator(mode="after")
    def _replicas(self) -> Settings:
        """Refuse topics to which nobody could ever write with acks=all."""
        if self.min_insync_replicas > self.replication_factor:
            raise ValueError(
                f"min_insync_replicas={self.min_insync_replicas} is more than"
                f" replication_factor={self.replication_factor}: lower the one or raise the other"
            )
        return self

    def topic_spec(self, number: int, name: str) -> TopicSpec:
        """A topic with these settings."""
        return TopicSpec(
            number=number,
            name=name,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            config={
                "min.insync.replicas": str(self.min_insync_replicas),
                "unclean.leader.election.enable": str(self.unclean_election).lower(),
            },
        )


class MemberSettings(GroupSettings, Settings):
    """What every workload with members of groups can be told."""


class TransactingSettings(TransactionalSettings, Settings):
    """What every workload with transactions can be told."""


class TopicSpec(Model):
    """A topic to be: its number in the history, its name after the run's prefix, its settings."""

    number: int
    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]

    def full_name(self, prefix: str) -> str:
        """The name on the cluster."""
        return f"{prefix}-{self.name}"


@dataclass(frozen=True)
class Role:
    """One worker of a stage."""

    name: str  # PRODUCER, CONSUMER or ADMIN
    number: int = 0  # among the workers of this name
    of: int = 1  # workers of this name
    finite: bool = True  # ends by itself; otherwise it goes on until it is told to stop
    parts: int = 1  # into how many parts the load is cut; part k starts when cue k has come
    task: str = ""  # what it does, where workers of one name do different things


@dataclass(frozen=True)
class Churn:
    """What the harness does to the consumers of a load, again and again: it is a part of the load, and no fault."""

    every_s: float  # from one to the next
    crash: bool = True  # one is killed, and another one takes its place
    pause_s: float = 0.0  # one stands still for that long; 0: never


S = TypeVar("S", bound=Settings)


class Workload(ABC, Generic[S]):
    """A kind of load; its settings are a model of their own."""

    name: ClassVar[str]
    about: ClassVar[str]
    model: type[S]

    @abstractmethod
    def topics(self, settings: S) -> list[TopicSpec]:
        """Topics that exist before the first worker starts."""

    def topics_in_use(self, settings: S, time_ns: int, began: int) -> list[TopicSpec]:  # noqa: ARG002 - most never change
        """Topics that may be written or read at this time, in a run that began then (CLOCK_MONOTONIC nanoseconds)."""
        return self.topics(settings)

    @abstractmethod
    def stages(self, settings: S, faults: int) -> list[list[Role]]:
        """The workers, given how many faults the run will have."""

    def isolation(self, settings: S, role: Role) -> str:  # noqa: ARG002 - most do not care who reads
        """How a worker reads: `read_committed` or `read_uncommitted`."""
        return settings.isolation_level or "read_uncommitted"

    def idempotent(self, settings: S, role: Role) -> bool:  # noqa: ARG002 - most producers are all alike
        """Whether what a worker sends is numbered."""
        return settings.idempotent

    def in_group(self, settings: S, role: Role) -> bool:
        """Whether a worker reads as a member of a group, and so begins where the group is."""
        return role.name == CONSUMER and settings.consume_by == "subscribe"

    def reads_raw(self, settings: S) -> bool:  # noqa: ARG002 - most have no transactions
        """Whether the final read is made twice: of what was committed, and of everything."""
        return False

    def tap_rules(self, settings: S) -> tuple[Rule, ...]:  # noqa: ARG002 - most bend nothing
        """What the taps do to the load all the time, as a part of it."""
        return ()

    def churn(self, settings: S) -> Churn | None:  # noqa: ARG002 - most leave their consumers alone
        """What the harness does to the consumers of the load."""
        return None

    @abstractmethod
    def work(self, session: WorkerSession, settings: S) -> None:
        """Be the worker that `session.config` describes, to its end."""


class NodeAddress(Model):
    """Where a node is reached."""

    id: int
    address: str


class FinalTarget(Model):
    """A partition to read at the end; `last_acked` is -1 when nothing was acknowledged there."""

    topic: int
    name: str
    partition: int
    last_acked: int


class WorkerConfig(Model):
    """All a worker is told at its start: one line of JSON."""

    process: int
    role: str  # PRODUCER, CONSUMER, ADMIN, PROBE, FINAL, RAW or REPLICA
    number: int = 0
    of: int = 1
    parts: int = 1
    task: str = ""
    workload: str
    settings: dict[str, Any]
    segment: Path
    run: int  # random number of the run, in every payload
    began: int  # CLOCK_MONOTONIC nanoseconds of the run's beginning: rotating topics are counted from there
    prefix: str  # of topic names
    topics: tuple[TopicSpec, ...]
    nodes: tuple[NodeAddress, ...]
    tapped: bool = False  # whether these are taps, which refuse strangers, and listen for nodes that show up later
    security: SecuritySpec = SecuritySpec()
    seed: int = 0
    targets: tuple[FinalTarget, ...] = ()  # of FINAL, RAW and REPLICA alone

    @property
    def as_role(self) -> Role:
        """As the stages of a workload have it."""
        return Role(self.role, self.number, self.of, parts=self.parts, task=self.task)

    @property
    def label(self) -> str:
        """How messages call this worker."""
        return f"{self.role} {self.number + 1}" if self.of > 1 else self.role
