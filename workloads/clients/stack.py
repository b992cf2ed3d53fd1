"""What a client stack is: a client library behind the interface of `workloads.clients.base`, and what is known of it.

A stack is one object: its name, what it makes (producers, consumers, members of groups, transactional producers), what
the library does where a setting is left to it, what it can do at all, and what it may do wrong by itself. Whoever has
to tell one library from another asks the stack; nobody compares names. Stacks are found by name in
`workloads.clients.stacks`.

A module of a stack loads no client library. Its methods do, when they are called: so a process loads what it uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from harness.foundation.progress import Progress
    from harness.foundation.security import Security
    from workloads.clients.base import Consumer, Producer
    from workloads.clients.member import GroupConsumer, Joining
    from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings
    from workloads.clients.transactional import TransactionalProducer

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP_PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True)
class Quirks:
    """What a library may do wrong by itself: the verdict does not hold it against the broker without asking."""

    resends_across_leaders: bool = False  # even an idempotent producer may write a batch twice when leaders change
    assumes_acks: bool = False  # without an answer, a batch counts as acknowledged, at no offset, once a later one is
    keeps_positions: bool = False  # a member goes on where it was in a partition that it gets again


class ClientStack(ABC):
    """A client library."""

    name: ClassVar[str]  # what `client` is set to
    packages: ClassVar[tuple[str, ...]] = ()  # distributions whose versions run.json has

    # where a setting is left to the library
    idempotent_by_default: ClassVar[bool] = False  # where acks, retries and requests in flight allow it
    in_flight: ClassVar[int]  # requests on one connection that wait for their answer at once
    request_timeout_ms: ClassVar[int] = 30_000  # of a producer

    # what it can do
    compressions: ClassVar[tuple[str, ...]] = COMPRESSIONS
    group_protocols: ClassVar[tuple[str, ...]] = ()  # those that `member` takes; none without members
    transactions: ClassVar[bool] = False  # whether it has transactional producers

    quirks: ClassVar[Quirks] = Quirks()

    @abstractmethod
    def producer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Producer:
        """A producer that starts from these addresses."""

    @abstractmethod
    def consumer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Consumer:
        """A consumer that starts from these addresses."""

    def member(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> GroupConsumer:
        """A member of a group, not yet joined."""
        raise NotImplementedError(f"{self.name} has no members of groups")

    def transactional_producer(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> TransactionalProducer:
        """An instance of this transactional id, which it has not taken yet."""
        raise NotImplementedError(f"{self.name} has no transactional producers")

    def prepare(self, progress: Progress) -> None:  # noqa: B027 - most need nothing
        """Fetch what its workers need and this machine does not have, before anything starts."""

    def versions(self) -> dict[str, str]:
        """What takes part of it, with versions."""
        return {package: version_of(package) for package in self.packages}


def version_of(package: str) -> str:
    """The version of a distribution that is installed, or that it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
