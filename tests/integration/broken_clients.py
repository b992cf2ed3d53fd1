"""Both client libraries as small as tests of broken brokers need them: many small batches, and little patience."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Self

from tests.support import PATIENCE_S

Library = Literal["kafka-python", "confluent-kafka"]
Isolation = Literal["read_uncommitted", "read_committed"]

BATCH_RECORDS = 10
VALUE_BYTES = 100
BATCH_BYTES = BATCH_RECORDS * (VALUE_BYTES + 20)
LINGER_MS = 20
REQUEST_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_MS = 2_500
PATIENT_MS = 30_000
BACKOFF_MS = 50
CALL_S = 10.0  # a call that has to be answered
POLL_S = 0.05
NAP_S = 0.005
NO_OFFSET = -1
FETCH_BYTES = 4_096  # of a partition at a time: some batches


@dataclass(frozen=True)
class Sent:
    """A message, and what the library says became of it."""

    partition: int
    value: bytes
    offset: int | None = None  # as acknowledged
    error: int | None = None  # Kafka's number, or one of the library's own

    @property
    def acked(self) -> bool:
        """Whether the library reports success."""
        return self.offset is not None


@dataclass(frozen=True)
class Read:
    """A record as a consumer got it."""

    partition: int
    offset: int
    value: bytes


class Producer(ABC):
    """Sends, and tells what became of each message, in the order of sending.

    Values say which partition they are for, who sent them, and the how-manieth they are.
    """

    def __init__(self, topic: str, name: str) -> None:
        self.topic = topic
        self._name = name
        self._numbers: dict[int, int] = {}

    def send(self, count: int, *partitions: int) -> None:
        """Hand that many messages for each of the partitions (0 when none is named) to the library, in turn."""
        for _ in range(count):
            for partition in partitions or (0,):
                number = self._numbers[partition] = self._numbers.get(partition, -1) + 1
                self._send(partition, f"{partition}/{self._name}/{number:06d}/".encode().ljust(VALUE_BYTES, b"."))

    def send_all(self, count: int, *partitions: int) -> list[Sent]:
        """Send, and wait for every outcome so far."""
        self.send(count, *partitions)
        return self.outcomes()

    @abstractmethod
    def _send(self, partition: int, value: bytes) -> None:
        """One message."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether everything that was sent has an outcome."""

    @abstractmethod
    def _outcomes(self) -> list[Sent]:
        """Of everything that was sent."""

    def outcomes(self) -> list[Sent]:
        """The same when all are there."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.done:
            assert time.monotonic() < deadline, f"sends without an outcome after {PATIENCE_S} s"
            time.sleep(NAP_S)
        return self._outcomes()

    @abstractmethod
    def begin(self) -> None:
        """A transaction."""

    @abstractmethod
    def commit(self) -> None:
        """The transaction."""

    @abstractmethod
    def abort(self) -> None:
        """The transaction."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the library."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Consumer(ABC):
    """Reads partitions of one topic from their beginning."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.read: list[Read] = []

    def read_until(self, enough: Callable[[], bool], what: str) -> list[Read]:
        """Poll until that is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S} s; {len(self.read)} records were read"
            self.read += self.poll()
        return self.read

    def read_to_end(self) -> list[Read]:
        """Everything up to where the broker says that the partitions end."""
        return self.read_until(lambda: self.at_end, "end")

    @property
    @abstractmethod
    def at_end(self) -> bool:
        """Whether the library came to the end of every partition, as the last answers show it."""

    @abstractmethod
    def poll(self) -> list[Read]:
        """What has come."""

    @abstractmethod
    def assign(self, partitions: Iterable[int]) -> Self:
        """Read these from the beginning."""

    @abstractmethod
    def subscribe(self) -> None:
        """Join the group for the topic."""

    @abstractmethod
    def end_offset(self, partition: int) -> int:
        """Ask for it now."""

    @abstractmethod
    def commit(self, partition: int, offset: int) -> None:
        """For the group; an exception when that fails."""

    @abstractmethod
    def committed(self, partition: int) -> int | None:
        """Of the group, asked now."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the library."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_producer(
    library: Library,
    bootstrap: str,
    topic: str,
    client_id: str,
    *,
    transaction: str | None = None,
    idempotent: bool = True,
    patient: bool = True,
) -> Producer:
    """A producer of that library; a patient one tries for as long as a test waits."""
    from tests.integration import broken_confluent, broken_kafka_python  # they are made of what is above

    kafka_python, confluent = broken_kafka_python.KafkaPythonProducer, broken_confluent.ConfluentProducer
    made = kafka_python if library == "kafka-python" else confluent
    return made(bootstrap, topic, client_id, transaction=transaction, idempotent=idempotent, patient=patient)


def make_consumer(
    library: Library,
    bootstrap: str,
    topic: str,
    client_id: str,
    *,
    group: str | None = None,
    isolation: Isolation = "read_uncommitted",
) -> Consumer:
    """A consumer of that library."""
    from tests.integration import broken_confluent, broken_kafka_python  # they are made of what is above

    kafka_python, confluent = broken_kafka_python.KafkaPythonConsumer, broken_confluent.ConfluentConsumer
    made = kafka_python if library == "kafka-python" else confluent
    return made(bootstrap, topic, client_id, group=group, isolation=isolation)
