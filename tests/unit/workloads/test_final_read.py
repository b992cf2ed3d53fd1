"""The final read: ends where the leader says, and believes a lost tail only after it waited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.history.schema import COLUMNS, Kind, Type
from harness.history.segments import Segment
from tests.support.worker_sessions import FakeConsumer, message, polled, rows, session, settings_of, target
from workloads import final_read
from workloads.base import FINAL, FinalTarget
from workloads.clients.base import PolledRecords, TopicPartition
from workloads.final_read import LONGEST_TURN_S, FinalRead, Patience

ZERO, ONE = ("run-batch", 0), ("run-batch", 1)
PATIENCE_S = 0.05


def read(
    directory: Path, consumer: FakeConsumer, targets: Sequence[FinalTarget], *, stop: bool = False
) -> tuple[Any, Any]:
    """Run it to its end: completions and records."""
    at = session(directory, role=FINAL, targets=targets, settings={"final_read_timeout_s": PATIENCE_S})
    if stop:
        at.control.stop()
    FinalRead(at, settings_of(at), consumer).run()
    found = rows(at)[1]
    return found[Kind.COMPLETE], found[Kind.RECORD]


def test_who_did_not_run_has_not_waited() -> None:
    """Of a minute in which nobody ran as much counts as a turn may take; what comes ends all waiting."""
    patience = Patience(30, 100)
    assert not patience.is_over(110, moved=False)
    assert not patience.is_over(170, moved=False)
    assert not patience.is_over(179 - LONGEST_TURN_S + 10, moved=False)
    assert patience.is_over(182 - LONGEST_TURN_S + 10, moved=False)
    assert not patience.is_over(183, moved=True)
    assert not patience.is_over(193, moved=False)


def test_every_partition_is_read_to_its_end(tmp_path: Path) -> None:
    """An empty one as well; each record belongs to the read of its own partition."""
    consumer = FakeConsumer([polled((0, 0, message(0, 1)), (0, 1, message(0, 2)))], {ZERO: 2, ONE: 0})
    completed, records = read(tmp_path, consumer, [target(0, 1), target(1, -1)])
    by_partition = {row["partition"]: row for row in completed}
    assert [by_partition[number]["type"] for number in (0, 1)] == [Type.OK, Type.OK]
    assert [by_partition[number]["end"] for number in (0, 1)] == [2, 0]
    assert [by_partition[number]["offset"] for number in (0, 1)] == [2, 0]
    assert [by_partition[number]["count"] for number in (0, 1)] == [2, 0]
    assert set(records["op"].tolist()) == {by_partition[0]["op"]}


def test_an_end_that_moves_while_it_is_reached_is_followed(tmp_path: Path) -> None:
    """The end is asked again when it was reached."""
    consumer = _Growing([polled((0, 0, message(0, 1)))], {ZERO: 1})
    completed, records = read(tmp_path, consumer, [target(0, 0)])
    assert completed["end"].tolist() == [2]
    assert completed["type"].tolist() == [Type.OK]
    assert records["offset"].tolist() == [0, 1]


class _Growing(FakeConsumer):
    """One more record the second time that anybody asks."""

    asked = 0

    def end_offsets(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """One, then two."""
        self.asked += 1
        if self.asked == 2:
            self.ends[ZERO] = 2
            self.polls.append(polled((0, 1, message(0, 2))))
        return super().end_offsets(places, timeout_s)


def test_a_lost_tail_is_told_by_an_end_at_or_below_the_last_acknowledged(tmp_path: Path) -> None:
    """The read is ok, it did reach the end; but only after it waited for more."""
    consumer = FakeConsumer([polled((0, 0, message(0, 1)))], {ZERO: 1})
    polls = _count_empty(consumer)
    completed, _ = read(tmp_path, consumer, [target(0, 5)])
    assert completed["type"].tolist() == [Type.OK]
    assert (completed["end"].tolist(), completed["offset"].tolist()) == ([1], [1])
    assert polls() > 2


def test_a_tail_that_comes_late_is_read(tmp_path: Path) -> None:
    """The end below the last acknowledged offset was only a watermark that lagged."""
    consumer = FakeConsumer([polled((0, 0, message(0, 1)))], {ZERO: 1})

    def late() -> None:
        if ZERO not in late_for:
            late_for.add(ZERO)
            consumer.ends[ZERO] = 2
            consumer.polls.append(polled((0, 1, message(0, 2))))

    late_for: set[TopicPartition] = set()
    consumer.when_empty = late
    completed, records = read(tmp_path, consumer, [target(0, 1)])
    assert completed["end"].tolist() == [2]
    assert len(records) == 2


@pytest.mark.parametrize(
    ("ends", "says"), [({ZERO: 9}, "ends at 9 and was read to 1"), ({}, "nobody says where run-batch-0 ends")]
)
def test_an_end_that_is_not_reached_is_unknown(tmp_path: Path, ends: dict[TopicPartition, int], says: str) -> None:
    """With the reason."""
    at = session(tmp_path, role=FINAL, targets=[target(0, 5)], settings={"final_read_timeout_s": PATIENCE_S})
    FinalRead(at, settings_of(at), FakeConsumer([polled((0, 0, message(0, 1)))], ends)).run()
    segment, found = rows(at)
    (completed,) = found[Kind.COMPLETE]
    assert completed["type"] == Type.INFO
    assert says in segment.texts[int(completed["detail"])]
    assert completed["end"] == ends.get(ZERO, COLUMNS["end"].null)


def test_told_to_stop_it_says_how_far_it_came(tmp_path: Path) -> None:
    """All its operations are completed, as unknown."""
    completed, _ = read(tmp_path, FakeConsumer([], {ZERO: 9}), [target(0, 5), target(1, 5)], stop=True)
    assert completed["type"].tolist() == [Type.INFO, Type.INFO]


@pytest.mark.parametrize(("last_acked", "type_"), [(0, Type.OK), (1, Type.INFO), (5, Type.INFO)])
def test_told_to_stop_it_does_not_believe_a_lost_tail(tmp_path: Path, last_acked: int, type_: Type) -> None:
    """It has not waited for more; an end beyond what was acknowledged needs no waiting."""
    at = session(tmp_path, role=FINAL, targets=[target(0, last_acked)])
    consumer = FakeConsumer([polled((0, 0, message(0, 1)))], {ZERO: 1})
    reads = FinalRead(at, settings_of(at), consumer)
    stops = iter([False, True])

    def stop_at_the_second() -> None:
        if next(stops):
            at.control.stop()

    consumer.when_empty = stop_at_the_second
    reads.run()
    segment, found = rows(at)
    (completed,) = found[Kind.COMPLETE]
    assert (completed["type"], completed["end"], completed["offset"]) == (type_, 1, 1)
    if type_ == Type.INFO:
        assert "stopped before its end could be believed" in segment.texts[int(completed["detail"])]


@pytest.mark.parametrize("last_acked", [0, 1, 5])
def test_a_transaction_that_stays_open_is_no_lost_tail(tmp_path: Path, last_acked: int) -> None:
    """What was committed ends before it, wherever the last acknowledged is, and the log goes on behind it."""
    segment, row = read_committed(tmp_path, last_acked, FakeConsumer(ends={ZERO: 3}))
    assert (row["type"], row["end"], row["offset"]) == (Type.INFO, 1, 1)
    assert segment.texts[int(row["detail"])] == "a transaction is still open at 1, the log ends at 3"


@pytest.mark.parametrize("last_acked", [0, 5])
def test_where_nothing_is_open_the_end_is_believed(tmp_path: Path, last_acked: int) -> None:
    """A lost tail too."""
    _, row = read_committed(tmp_path, last_acked, FakeConsumer(ends={ZERO: 1}))
    assert (row["type"], row["end"]) == (Type.OK, 1)


def test_a_transaction_that_ends_late_is_waited_for(tmp_path: Path) -> None:
    """What comes behind it is read."""
    consumer = FakeConsumer([polled((0, 0, message(0, 1)))], {ZERO: 1})

    def ends() -> None:
        if consumer.ends[ZERO] == 1 and uncommitted.asked >= 2:
            consumer.ends[ZERO] = 3
            consumer.polls.append(polled((0, 2, message(0, 2))))

    consumer.when_empty = ends
    uncommitted = _Asked(ends={ZERO: 3})
    _, row = read_committed(tmp_path, 0, uncommitted, consumer)
    assert (row["type"], row["end"], row["count"]) == (Type.OK, 3, 2)


def test_a_log_whose_end_nobody_tells_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A transaction may be open there."""
    segment, row = read_committed(tmp_path, 0, FakeConsumer())
    assert row["type"] == Type.INFO
    assert "nobody says where the log of run-batch-0 ends" in segment.texts[int(row["detail"])]


class _Asked(FakeConsumer):
    """Counts the questions."""

    asked = 0

    def end_offsets(self, places: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """One more."""
        self.asked += 1
        return super().end_offsets(places, timeout_s)


def read_committed(
    directory: Path, last_acked: int, uncommitted: FakeConsumer, consumer: FakeConsumer | None = None
) -> tuple[Segment, Any]:
    """Run it over one record, with somebody who is asked for the end of the log: the segment and the completion."""
    targets = [target(0, last_acked)]
    at = session(directory, role=FINAL, targets=targets, settings={"final_read_timeout_s": PATIENCE_S})
    one = consumer or FakeConsumer([polled((0, 0, message(0, 1)))], {ZERO: 1})
    FinalRead(at, settings_of(at), one, uncommitted).run()
    segment, found = rows(at)
    (completed,) = found[Kind.COMPLETE]
    return segment, completed


@pytest.mark.parametrize(
    ("isolation", "opened"),
    [("read_committed", ["read_committed", "read_uncommitted"]), ("read_uncommitted", ["read_uncommitted"])],
)
def test_who_reads_what_was_committed_has_somebody_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str, opened: list[str]
) -> None:
    """Another consumer, which sees everything; all are closed."""
    made: list[tuple[str, FakeConsumer]] = []

    def make(settings: Any, *_: object) -> FakeConsumer:
        made.append((settings.isolation_level, FakeConsumer([], {ZERO: 0})))
        return made[-1][1]

    monkeypatch.setattr(final_read, "make_consumer", make)
    at = session(tmp_path, role=FINAL, targets=[target(0, -1)], settings={"isolation_level": isolation})
    final_read.final_read(at, settings_of(at))
    assert [level for level, _ in made] == opened
    assert all(consumer.closed for _, consumer in made)
    assert rows(at)[1][Kind.COMPLETE]["type"].tolist() == [Type.OK]


def _count_empty(consumer: FakeConsumer) -> Callable[[], int]:
    """How many empty polls there were."""
    empty: list[PolledRecords] = []
    consumer.when_empty = lambda: empty.append(PolledRecords())
    return lambda: len(empty)
