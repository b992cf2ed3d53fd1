"""What a workload asks of a client library as a member of a consumer group.

One object is one membership: it joins once and is gone after `leave`. A commit names its offsets; what the library
commits by itself is told to a listener. Errors are answers, never raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workloads.clients.base import ClientError, PolledRecords, TopicPartition

ASK_S = 5.0  # for what a group committed: the longest that a member stands still for it
COMMIT_S = 5.0  # and for the answer to a commit


@dataclass(frozen=True)
class Joining:
    """Which group a member joins, and whether its library commits by itself."""

    group: str
    automatic: bool = False


class GroupListener(Protocol):
    """Is told what the group and the library do, during `poll` and `leave`, while the thread that called these waits.

    Nothing else of the same client runs at that time; its calls may be made from within, `poll` and `leave` excepted.
    """

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The group gave these partitions, beside those that the member has."""

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """The group asks for these back; the member may still commit before this returns."""

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These belong to somebody else already."""

    def committed(self, offsets: Mapping[TopicPartition, int], error: ClientError | None, began: int | None) -> None:
        """The library committed these by itself, or tried to; `began` is the time, where anybody knows it."""


class GroupConsumer(ABC):
    """A member of a group."""

    @abstractmethod
    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Subscribe; partitions come during polls."""

    @abstractmethod
    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """Records that have arrived."""

    @abstractmethod
    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Go on at these offsets of partitions that the member has: those where that did not work."""

    @abstractmethod
    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Commit these, and wait for the answer, `COMMIT_S` at most: those that were not committed."""

    @abstractmethod
    def committed(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int] | ClientError:
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
