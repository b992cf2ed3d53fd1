"""What a workload asks of a client library as a member of a consumer group.

One object is one membership: it joins once and is gone after `leave`. A commit names its offsets; what the library
commits by itself is told to a listener. Errors are answers, never raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from workloads.clients.base import ClientError, Place, Polled


class GroupListener(Protocol):
    """Is told what the group and the library do, during `poll` and `leave`, by the thread that calls these."""

    def assigned(self, places: Sequence[Place]) -> None:
        """The group gave these partitions, beside those that the member has."""

    def revoked(self, places: Sequence[Place]) -> None:
        """The group asks for these back; the member may still commit before this returns."""

    def lost(self, places: Sequence[Place]) -> None:
        """These belong to somebody else already."""

    def committed(self, offsets: Mapping[Place, int], error: ClientError | None) -> None:
        """The library committed these by itself, or tried to."""


class GroupConsumer(ABC):
    """A member of a group."""

    @abstractmethod
    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Subscribe; partitions come during polls."""

    @abstractmethod
    def poll(self, max_records: int, timeout_s: float) -> Polled:
        """Records that have arrived."""

    @abstractmethod
    def seek(self, positions: Mapping[Place, int]) -> ClientError | None:
        """Go on at these offsets of partitions that the member has."""

    @abstractmethod
    def position(self, place: Place) -> int | None:
        """The offset that is read next; None as long as nobody knows."""

    @abstractmethod
    def commit(self, offsets: Mapping[Place, int]) -> ClientError | None:
        """Commit these, and wait for the answer."""

    @abstractmethod
    def committed(self, places: Sequence[Place], timeout_s: float) -> dict[Place, int] | ClientError:
        """Ask the group for its offsets now; -1 where there is none."""

    @property
    @abstractmethod
    def member_id(self) -> str:
        """How the group calls this member; empty as long as it has no name."""

    @property
    @abstractmethod
    def generation(self) -> int | None:
        """The generation (or member epoch) of its assignment, where the library tells."""

    @abstractmethod
    def metadata(self) -> Any:
        """What `TransactionalProducer.send_offsets` of the same library wants to know of this member."""

    @abstractmethod
    def leave(self) -> ClientError | None:
        """Leave the group in order, and let go of the library."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of the library without a word to the group, as far as it can be done."""
