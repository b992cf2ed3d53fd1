"""A client stack without a broker: its producers append to a log in memory, and its consumers read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.foundation.security import Security
from tests.support.worker_sessions import FakeProducer
from workloads.clients.base import (
    ClientError,
    Consumer,
    DeliveredMessages,
    KeyedMessages,
    PolledRecords,
    Producer,
    TopicPartition,
)
from workloads.clients.settings import ClientSettings
from workloads.clients.stack import ClientStack, Quirks


class Log(dict[TopicPartition, list[bytes]]):
    """What was written to each partition."""

    def append(self, place: TopicPartition, payload: bytes) -> int:
        """Its offset."""
        records = self.setdefault(place, [])
        records.append(payload)
        return len(records) - 1


class LogProducer(FakeProducer):
    """Writes at once."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self._done: list[tuple[bytes, int]] = []

    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """Append."""
        self._done += [(one, self._log.append((topic, at), one)) for at, one in zip(partitions, payloads, strict=True)]

    def delivered(self, wait_s: float) -> DeliveredMessages:
        """All of them."""
        done, self._done = self._done, []
        return DeliveredMessages([one for one, _ in done], [offset for _, offset in done], {})

    @property
    def outstanding(self) -> int:
        """Those that nobody asked about."""
        return len(self._done)


class LogConsumer(Consumer):
    """Reads what is there, one partition at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._positions: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """From the beginning."""
        self._positions = {place: self._positions.get(place, max(0, at)) for place, at in positions.items()}
        return None

    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """There are no groups; settings that ask for one are refused before."""
        raise NotImplementedError

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """Of the first partition that has more."""
        for (topic, partition), at in self._positions.items():
            payloads: list[bytes | None] = [*self._log.get((topic, partition), [])[at : at + max_records]]
            count = len(payloads)
            if count:
                self._positions[topic, partition] = at + count
                return PolledRecords([topic] * count, [partition] * count, list(range(at, at + count)), payloads)
        return PolledRecords()

    def position(self, place: TopicPartition) -> int | None:
        """After the last record that was read."""
        return self._positions.get(place)

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """At once."""
        self._positions.update(positions)
        return {}

    def end_offsets(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """As many as there are."""
        return {place: len(self._log.get(place, [])) for place in places}

    def close(self) -> None:
        """Nothing is open."""


class InMemory(ClientStack):
    """Without groups and transactions."""

    name = "in-memory"
    in_flight = 1
    compressions = ("none",)
    quirks = Quirks(assumes_acks=True)

    def __init__(self) -> None:
        self.log = Log()

    def producer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Producer:
        """Of this log."""
        return LogProducer(self.log)

    def consumer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Consumer:
        """Of this log."""
        return LogConsumer(self.log)
