"""A broker in memory for consume-transform-produce: an input, a group, and transactions that are all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.worker_sessions import RUN, FakeProducer
from workloads import payload
from workloads.clients.base import ClientError, PolledRecords, TopicPartition
from workloads.clients.member import GroupConsumer, GroupListener
from workloads.clients.transactional import TransactionalProducer
from workloads.exactly_once_settings import INPUT

ILLEGAL_GENERATION = ClientError(22, "no")
IN, OUT = "run-input", "run-output"
PARTITIONS, EACH = 2, 6  # records of each partition


@dataclass
class Broker:
    """Two partitions of input, the outputs that were committed, and the offsets of the group."""

    outputs: list[tuple[int, int]] = field(default_factory=list)  # partition and source
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    generation: int = 0  # of the member that is in the group; another's offsets are refused
    fails: dict[str, list[ClientError]] = field(default_factory=dict)  # the next calls of these names
    commits_anyway: bool = False  # although it says that it does not know
    log: list[str] = field(default_factory=list)

    def call(self, name: str) -> ClientError | None:
        """Note it down; an error, where one was planted."""
        self.log.append(name)
        return self.fails[name].pop(0) if self.fails.get(name) else None

    @property
    def through(self) -> bool:
        """Whether every input has its output."""
        return len(self.outputs) == PARTITIONS * EACH


def source(partition: int, offset: int) -> int:
    """The value of an input."""
    return 100 * partition + offset


def message(partition: int, offset: int) -> bytes:
    """An input."""
    builder = payload.PayloadBuilder(RUN, 9, 100)
    (built,) = builder.build(
        1, topic=INPUT, partition=partition, value=source(partition, offset), sequence=offset, invoked=1
    )
    return built


class Library(GroupConsumer):
    """A member: all partitions with the first poll, and then a record of each with every poll."""

    def __init__(self, broker: Broker, *, keeps_positions: bool) -> None:
        broker.generation += 1
        self._broker, self._keeps = broker, keeps_positions
        self._positions: dict[TopicPartition, int] = {}
        self._has: list[TopicPartition] = []
        self.name = "member"
        self.says: Any = None  # of itself, where that is not its generation
        self.instead_of_polls: list[Callable[[], None] | None] = []

    def join(self, topics: Sequence[str], listener: GroupListener) -> ClientError | None:
        """Take note."""
        self._listener = listener
        return self._broker.call("join")

    def poll(self, max_records: int, timeout_s: float) -> PolledRecords:
        """A record of each partition, from where the member is."""
        polled = PolledRecords()
        if not self._has:
            self._assign()
            return polled
        if self.instead_of_polls and (happens := self.instead_of_polls.pop(0)):
            happens()
            return polled
        for place in self._has:
            at = self._positions[place]
            if at < EACH:
                for column, value in zip(
                    (polled.topics, polled.partitions, polled.offsets, polled.payloads),
                    (*place, at, message(place[1], at)),
                    strict=True,
                ):
                    column.append(value)  # type: ignore[attr-defined]
                self._positions[place] = at + 1
        return polled

    def rebalance(self) -> None:
        """The group takes everything, and gives it back."""
        self._broker.generation += 1
        self._listener.revoked(self._has)
        self._assign()

    def _assign(self) -> None:
        self._has = [(IN, partition) for partition in range(PARTITIONS)]
        start = {place: self._broker.committed.get(place, 0) for place in self._has}
        self._positions = start | self._positions if self._keeps else start
        self._generation = self._broker.generation
        self._listener.assigned(self._has)

    def seek(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """At once."""
        self._positions.update(positions)
        error = self._broker.call("seek")
        return dict.fromkeys(positions, error) if error else {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, ClientError]:
        """Nobody here commits outside of a transaction."""
        raise AssertionError

    def committed(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int] | ClientError:
        """As the broker has it."""
        return self._broker.call("committed") or {place: self._broker.committed.get(place, -1) for place in places}

    @property
    def member_id(self) -> str:
        """Empty when the group has thrown it out, and the library knows."""
        return self.name

    @property
    def generation(self) -> int | None:
        """Nothing depends on it."""
        return None

    def metadata(self) -> Any:
        """The generation that the member believes to be in."""
        return self._generation if self.says is None else self.says

    def leave(self) -> ClientError | None:
        """Somebody else may come."""
        self._broker.generation += 1
        return self._broker.call("leave")

    def drop(self) -> None:
        """The group does not know."""
        self._broker.call("drop")


class Instance(FakeProducer, TransactionalProducer):
    """A producer whose transactions count when they are committed, all of them or nothing."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._offsets: dict[TopicPartition, int] = {}

    def init(self, timeout_s: float) -> ClientError | None:
        """Whoever was before is over."""
        return self._broker.call("init")

    def begin(self) -> ClientError | None:
        """With nothing in it."""
        self.sent, self._offsets = [], {}
        return self._broker.call("begin")

    def send_offsets(self, offsets: Mapping[TopicPartition, int], member: Any, timeout_s: float) -> ClientError | None:
        """Of a member of this generation alone."""
        if member != self._broker.generation:
            return ILLEGAL_GENERATION
        self._offsets |= offsets
        return self._broker.call("send_offsets")

    def commit(self, timeout_s: float) -> ClientError | None:
        """All of it."""
        error = self._broker.call("commit")
        if error is None or self._broker.commits_anyway:
            made = [(topic, partition, int(payload.headers([one])["source"][0])) for topic, partition, one in self.sent]
            assert {topic for topic, _, _ in made} <= {OUT}
            self._broker.outputs += [(partition, value) for _, partition, value in made]
            self._broker.committed |= self._offsets
        return error

    def abort(self, timeout_s: float) -> ClientError | None:
        """Nothing of it."""
        return self._broker.call("abort")
