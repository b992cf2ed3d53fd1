"""What a workload asks of a client library.

A producer takes messages and later hands back what became of them, as parallel lists; a consumer is polled. Neither
retries anything: the library's own retries are what is under test. Members of groups are in `grouped`, transactional
producers in `transactional`, and how all of them are set up in `settings`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.foundation.protocol import EARLIEST

TopicPartition = tuple[str, int]  # a topic's name and a partition
BEGINNING = EARLIEST  # in place of an offset
MARK = "tidegauge"  # the header of a tombstone: the message that would be its value


@dataclass(frozen=True)
class ClientError:
    """What a client library said; negative codes are its own, the others Kafka's."""

    code: int
    text: str
    fenced: bool = False  # another instance took the transactional id: this one is over


@dataclass(frozen=True)
class KeyedMessages:
    """The keys of messages, and which of these are tombstones: they go without a value, and `MARK` has the message."""

    keys: Sequence[bytes]
    tombstones: Sequence[bool]


@dataclass(frozen=True)
class DeliveredMessages:
    """Messages that have an outcome now, in parallel lists; `errors` has those that were not acknowledged."""

    payloads: list[bytes]
    offsets: list[int]
    errors: Mapping[int, ClientError]


@dataclass(frozen=True)
class PolledRecords:
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
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """Hand messages to the library; one that it refuses turns up among the delivered, with its error.

        No two payloads are the same. A library that cannot take messages now is waited for, `block_at_most_s` in all;
        the rest is then refused.
        """

    @abstractmethod
    def delivered(self, wait_s: float) -> DeliveredMessages:
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
    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
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


def one_by_one(
    ask: Callable[[Sequence[TopicPartition], float], dict[TopicPartition, int]],
    partitions: Sequence[TopicPartition],
    timeout_s: float,
) -> dict[TopicPartition, int]:
    """Ask for each partition alone, in the same time: one without an answer fails some libraries' call for all."""
    if len(partitions) == 1:
        return {}
    answers = [ask([tp], timeout_s / len(partitions)) for tp in partitions]
    return {tp: end for answer in answers for tp, end in answer.items()}
