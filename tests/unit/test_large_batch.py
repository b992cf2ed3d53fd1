"""The large batch: its table, and how it reads, with a consumer that plays a script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from harness.errors import ClusterError
from harness.progress import Silent
from harness.security import Security
from workloads import large_batch
from workloads.large_batch import Outcome, PartitionRow, Settings

Step = tuple[float, list[int]]


class Consumer:
    """Each poll takes some seconds and gives the numbers of some messages, all of partition 0."""

    def __init__(self, script: list[Step]) -> None:
        self.now = 0.0
        self.script = iter(script)
        self.end = sum(len(numbers) for _, numbers in script)
        self.offset = 0
        self.closed = False

    def monotonic(self) -> float:
        """The clock."""
        return self.now

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Taken as it is."""

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Taken as it is."""

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """What the script holds, all of it in partition 0."""
        return {each: self.end if each.partition == 0 else 0 for each in partitions}

    def position(self, partition: TopicPartition) -> int:
        """How far partition 0 was read; the others are empty."""
        return self.offset if partition.partition == 0 else 0

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        """The next part of the script; after it, silence."""
        took_s, numbers = next(self.script, (1.0, []))
        self.now += took_s
        records = []
        for number in numbers:
            records.append(SimpleNamespace(offset=self.offset, value=str(number).encode()))
            self.offset += 1
        return {TopicPartition("t", 0): records} if records else {}

    def close(self, *, autocommit: bool) -> None:
        """Written down."""
        self.closed = True


def consume(monkeypatch: pytest.MonkeyPatch, script: list[Step], settings: Settings, acknowledged: int) -> Outcome:
    """The outcome of a script."""
    consumer = Consumer(script)
    monkeypatch.setattr(large_batch, "KafkaConsumer", lambda **_: consumer)
    monkeypatch.setattr(large_batch, "time", consumer)
    outcome = Outcome(settings, acknowledged=acknowledged)
    large_batch._consume({}, "t", outcome, Silent())
    assert consumer.closed
    return outcome


def test_nothing_received() -> None:
    """An empty outcome has a row per partition, no shares, no offsets, and is not complete."""
    outcome = Outcome(Settings(messages=5, partitions=3))
    assert outcome.rows() == [PartitionRow(n, expected, 0, 0.0, None, None, 0) for n, expected in enumerate((2, 2, 1))]
    assert (outcome.distinct, outcome.duplicates, outcome.imbalance(), outcome.complete) == (0, 0, 0, False)
    assert all(row.low for row in outcome.rows())


def test_nothing_sent() -> None:
    """No message at all is complete, and nothing is divided by zero."""
    outcome = Outcome(Settings(messages=0))
    assert [(row.expected, row.share, row.deviation, row.low) for row in outcome.rows()] == [(0, 0.0, 0, False)] * 3
    assert outcome.complete


def test_a_row_of_the_table() -> None:
    """Count, share of all that was sent, deviation, first and last offset, gaps between them."""
    received = {0: [(10, 0), (11, 3), (15, 6)], 1: [(0, 1), (1, 4), (2, 4)]}
    rows = Outcome(Settings(messages=9), received=received).rows()
    assert rows[0] == PartitionRow(0, 3, 3, 3 / 9, 10, 15, 3)
    assert (rows[1].deviation, rows[1].gaps, rows[2].deviation, rows[2].low) == (0, 0, -3, True)


@pytest.mark.parametrize(("messages", "low"), [(100, False), (90, False), (89, True), (0, True), (120, False)])
def test_low_is_a_tenth_below(messages: int, low: bool) -> None:  # noqa: FBT001
    """A tenth less is not low yet; more never is."""
    assert PartitionRow(0, 100, messages, 0, None, None, 0).low is low


@pytest.mark.parametrize(
    ("acknowledged", "numbers", "complete"),
    [(3, [0, 1, 2], True), (2, [0, 1, 2], False), (3, [0, 1], False), (3, [0, 1, 2, 2], False), (3, [0, 1, 1], False)],
)
def test_complete_means_once_and_acknowledged(acknowledged: int, numbers: list[int], complete: bool) -> None:  # noqa: FBT001
    """Everything acknowledged, everything there, nothing twice."""
    received = {0: list(enumerate(numbers))}
    assert Outcome(Settings(messages=3), acknowledged, received=received).complete is complete


def test_what_others_wrote_is_no_duplicate() -> None:
    """A record beyond the first with the same number is a duplicate, a foreign record is not."""
    assert Outcome(Settings(messages=2), received={0: [(0, 0), (1, 1), (2, -1), (3, 99)]}).duplicates == 0


@pytest.mark.parametrize(("value", "number"), [(b"17", 17), (b"0", 0), (None, -1), (b"", -1), (b"x1", -1), (b"-3", -1)])
def test_a_message_carries_its_number(value: bytes | None, number: int) -> None:
    """What we did not write has none."""
    assert large_batch._number(value) == number


def test_reading_ends_with_the_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all that was acknowledged is there, nobody waits for more; the time is that of the last message."""
    outcome = consume(monkeypatch, [(0.5, []), (1.0, [0, 1]), (2.0, [2])], Settings(messages=3), 3)
    assert outcome.received == {0: [(0, 0), (1, 1), (2, 2)]}
    assert (outcome.consume_s, outcome.stalls_s) == (3.5, [])


@pytest.mark.parametrize(("silence_s", "stalls"), [(4.9, []), (5.0, [5.0]), (30.0, [30.0])])
def test_a_silence_of_five_seconds_is_a_stall(
    monkeypatch: pytest.MonkeyPatch, silence_s: float, stalls: list[float]
) -> None:
    """However it is spread over polls, what lies between two messages counts."""
    outcome = consume(monkeypatch, [(1, [0]), (silence_s / 2, []), (silence_s / 2, [1])], Settings(messages=2), 2)
    assert outcome.stalls_s == stalls


def test_a_consumer_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time-out without a message it ends, and that is a stall, too; the time ends with the last message."""
    outcome = consume(monkeypatch, [(1, [0])], Settings(messages=2, consumer_timeout_ms=7000), 2)
    assert (outcome.stalls_s, outcome.consume_s, outcome.distinct) == ([7.0], 1.0, 1)


@pytest.mark.parametrize(
    ("script", "acknowledged"),
    [
        pytest.param([(1, [0, 0]), (1, [1])], 2, id="a retry made a duplicate"),
        pytest.param([(1, [0]), (1, [1])], 1, id="a message arrived without acknowledgement"),
    ],
)
def test_no_message_is_missed(monkeypatch: pytest.MonkeyPatch, script: list[Step], acknowledged: int) -> None:
    """A message in the log is never reported as lost because something else was read in its place."""
    outcome = consume(monkeypatch, script, Settings(messages=2, consumer_timeout_ms=5000), acknowledged)
    assert outcome.distinct == 2


def test_a_dead_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients cannot do at all is no outcome."""

    def refuse(**_: Any) -> None:
        raise KafkaError("no brokers")

    monkeypatch.setattr(large_batch, "KafkaAdminClient", refuse)
    with pytest.raises(ClusterError, match="no brokers"):
        large_batch.run("h:1", Security(), "t", Settings(), Silent())


def test_messages_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each carries its number and goes to the partition that follows from it; failures are counted by their names."""
    sent: list[tuple[int, int]] = []

    class Producer:
        def send(self, topic: str, value: bytes, partition: int) -> SimpleNamespace:
            sent.append((int(value), partition))
            failed = int(value) == 4
            return SimpleNamespace(exception=TimeoutError() if failed else None, succeeded=lambda: not failed)

        def flush(self, timeout: float) -> None:
            pass

        def close(self, timeout: float) -> None:
            pass

    monkeypatch.setattr(large_batch, "KafkaProducer", lambda **_: Producer())
    outcome = Outcome(Settings(messages=7))
    large_batch._produce({}, "t", outcome)
    assert sent == [(number, number % 3) for number in range(7)]
    assert outcome.acknowledged == 6
    assert outcome.send_errors == {"TimeoutError": 1}
