"""A worker's world for tests: a session that records into a file, and client libraries that do as they are told."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.foundation.security import Security
from harness.history.recorder import Recorder
from harness.history.schema import Kind, row_type
from harness.history.segments import Segment
from workloads import find_workload, payload
from workloads.base import PRODUCER, FinalTarget, NodeAddress, WorkerConfig
from workloads.clients.base import (
    ClientError,
    Consumer,
    DeliveredMessages,
    KeyedMessages,
    PolledRecords,
    Producer,
    TopicPartition,
)
from workloads.session import Control, WorkerSession, WorkerStatus

PREFIX = "run"
RUN = 77
NOBODY = "127.0.0.1:1"  # refuses connections


@contextmanager
def silent_broker() -> Iterator[str]:
    """The address of one that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def worker_config(directory: Path, workload: str = "large-batch", **changes: Any) -> WorkerConfig:
    """A producer of three nodes that nobody listens at, unless told otherwise."""
    model = find_workload(workload)
    settings = model.model(**changes.pop("settings", {}))
    whole = {
        "process": 5,
        "role": PRODUCER,
        "workload": workload,
        "settings": settings.model_dump(mode="json"),
        "segment": directory / "worker.segment",
        "run": RUN,
        "began": 0,
        "prefix": PREFIX,
        "topics": model.topics(settings),
        "nodes": [NodeAddress(id=number, address=NOBODY) for number in (1, 2, 3)],
    }
    return WorkerConfig(**(whole | changes))


def session(directory: Path, workload: str = "large-batch", **changes: Any) -> WorkerSession:
    """A session of that worker."""
    config = worker_config(directory, workload, **changes)
    return WorkerSession(config, Security(), Recorder(config.segment, config.process), Control(), WorkerStatus())


def settings_of(of: WorkerSession) -> Any:
    """Its settings as the workload's own model."""
    return find_workload(of.config.workload).model(**of.config.settings)


def target(partition: int, last_acked: int, name: str = "run-batch") -> FinalTarget:
    """A partition to read at the end."""
    return FinalTarget(topic=0, name=name, partition=partition, last_acked=last_acked)


def rows(of: WorkerSession | Path) -> tuple[Segment, dict[Kind, npt.NDArray[Any]]]:
    """The segment, and all rows by kind."""
    path = of if isinstance(of, Path) else of.config.segment
    segment = Segment(path)
    return segment, {kind: np.frombuffer(b"".join(segment.blocks(kind, 1)), row_type(kind)) for kind in Kind}


def message(partition: int, value: int, size_bytes: int = 100) -> bytes:
    """What a producer of this run sends to topic 0."""
    builder = payload.PayloadBuilder(RUN, 9, size_bytes)
    return builder.build(1, topic=0, partition=partition, value=value, sequence=value, invoked=1)[0]


class FakeProducer(Producer):
    """Acknowledges everything at the next drain, with offsets counted up; `refuse` says what to do to some."""

    chunk = 10

    def __init__(self, refuse: Callable[[int], ClientError | None] = lambda _: None, *, silent: bool = False) -> None:
        self.sent: list[tuple[str, int, bytes]] = []
        self.keyed: list[KeyedMessages] = []
        self.closed = False
        self._refuse = refuse
        self._silent = silent
        self._waiting: list[bytes] = []
        self._offset = 0

    def send(
        self, topic: str, partitions: Sequence[int], payloads: Sequence[bytes], keyed: KeyedMessages | None = None
    ) -> None:
        """Keep them."""
        self.keyed += [keyed] if keyed else []
        self.sent += [(topic, partition, one) for partition, one in zip(partitions, payloads, strict=True)]
        self._waiting += payloads

    def delivered(self, wait_s: float) -> DeliveredMessages:
        """All that wait, unless silent."""
        done, self._waiting = ([], self._waiting) if self._silent else (self._waiting, [])
        errors = {index: error for index in range(len(done)) if (error := self._refuse(self._offset + index))}
        offsets = list(range(self._offset, self._offset + len(done)))
        self._offset += len(done)
        return DeliveredMessages(done, offsets, errors)

    @property
    def outstanding(self) -> int:
        """Those that wait."""
        return len(self._waiting)

    def close(self, timeout_s: float) -> None:
        """Remember."""
        self.closed = True


class FakeConsumer(Consumer):
    """Hands out polls from a script; an empty script means empty polls, and `when_empty` is told."""

    def __init__(self, polls: Sequence[PolledRecords] = (), ends: Mapping[TopicPartition, int] | None = None) -> None:
        self.polls = deque(polls)
        self.ends = dict(ends or {})
        self.assigned: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.subscribed: list[str] = []
        self.when_empty: Callable[[], None] = lambda: None
        self.fails: list[ClientError] = []  # the next attempts to take something
        self.refuses: dict[TopicPartition, ClientError] = {}  # to seek there
        self.closed = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> ClientError | None:
        """Positions start at nought."""
        if self.fails:
            return self.fails.pop(0)
        self.assigned = dict(positions)
        self.positions = {place: self.positions.get(place, 0) for place in positions}
        return None

    def subscribe(
        self, topics: Sequence[str], group: str, on_assign: Callable[[list[TopicPartition]], None]
    ) -> ClientError | None:
        """The group gives the first partition of each."""
        if self.fails:
            return self.fails.pop(0)
        self.subscribed = list(topics)
        on_assign([(topic, 0) for topic in topics])
        return None

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """The next of the script."""
        if not self.polls:
            self.when_empty()
            return PolledRecords()
        polled = self.polls.popleft()
        for topic, partition, offset in zip(polled.topics, polled.partitions, polled.offsets, strict=True):
            self.positions[topic, partition] = offset + 1
        return polled

    def position(self, place: TopicPartition) -> int | None:
        """After the last record."""
        return self.positions.get(place)

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Remember."""
        self.positions.update({place: at for place, at in positions.items() if place not in self.refuses})
        return {place: error for place, error in self.refuses.items() if place in positions}

    def end_offsets(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """As scripted."""
        return {place: self.ends[place] for place in places if place in self.ends}

    def close(self) -> None:
        """Remember."""
        self.closed = True


def polled(*records: tuple[int, int, bytes | None], topic: str = "run-batch") -> PolledRecords:
    """A poll's answer: partition, offset and payload of each record."""
    return PolledRecords(
        [topic] * len(records),
        [partition for partition, _, _ in records],
        [offset for _, offset, _ in records],
        [value for _, _, value in records],
    )
