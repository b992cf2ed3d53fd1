"""A client library as a member of a group that does as it is told, and words for what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.group_histories import Row
from tests.support.worker_sessions import message
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.member import GroupConsumer, GroupListener

TOPIC = "run-shared"
ZERO, ONE, TWO = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)
NOT_COORDINATOR = ClientError(16, "not the coordinator")
TOO_LARGE = ClientError(12, "metadata too large")


class Library(GroupConsumer):
    """Does what the test put down for the next poll and the end, and answers as it says."""

    def __init__(self) -> None:
        self.steps: list[Callable[[GroupListener], object]] = []  # of the next poll
        self.at_the_end: Callable[[GroupListener], object] = lambda _: None
        self.refuses: dict[TopicPartition, ClientError] = {}
        self.answer: dict[TopicPartition, int] | ClientError = {}
        self.error: ClientError | None = None
        self.calls: list[Any] = []
        self.listener: GroupListener
        self.generation_is: int | None = 4

    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Keep the listener."""
        self.listener = listener
        return self.error

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """Do what is to be done, and return the last answer if that is records."""
        found: object = None
        while self.steps:
            found = self.steps.pop(0)(self.listener)
        return found if isinstance(found, PolledRecords) else PolledRecords()

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Keep it; some are refused."""
        self.calls.append(("seek", dict(positions)))
        return {place: error for place, error in self.refuses.items() if place in positions}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Keep it; some are refused."""
        self.calls.append(("commit", dict(offsets)))
        return {place: error for place, error in self.refuses.items() if place in offsets}

    def committed(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int] | ClientError:
        """As put down."""
        return self.answer

    @property
    def member_id(self) -> str:
        """Its name."""
        return "m-1"

    @property
    def generation(self) -> int | None:
        """As put down."""
        return self.generation_is

    def metadata(self) -> object:
        """Nobody asks."""
        raise AssertionError

    def leave(self) -> ClientError | None:
        """Do what is to be done."""
        self.at_the_end(self.listener)
        return self.error

    def drop(self) -> None:
        """Keep it."""
        self.calls.append("drop")


def given(*places: TopicPartition) -> Callable[[GroupListener], None]:
    """The group gives these."""
    return lambda listener: listener.assigned(places)


def taken(*places: TopicPartition) -> Callable[[GroupListener], None]:
    """It asks for these back."""
    return lambda listener: listener.revoked(places)


def lost(*places: TopicPartition) -> Callable[[GroupListener], None]:
    """It has given these to others."""
    return lambda listener: listener.lost(places)


def records(*at: tuple[int, int]) -> Callable[[GroupListener], PolledRecords]:
    """A record at each of these partitions and offsets."""
    partitions, offsets = [partition for partition, _ in at], [offset for _, offset in at]
    values = [message(partition, offset) for partition, offset in at]
    return lambda _: PolledRecords([TOPIC] * len(at), partitions, offsets, list(values))


def some(row: Row, *names: str) -> tuple[Any, ...]:
    """These columns of a row."""
    return tuple(row[name] for name in names)
