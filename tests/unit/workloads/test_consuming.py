"""Polls: one operation each, with their records written before their completion."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.schema import F, Kind, Status, Type
from tests.support.worker_sessions import FakeConsumer, message, polled, rows, session, settings_of
from workloads import consuming
from workloads.clients.base import BEGINNING, ClientError, PolledRecords
from workloads.consuming import RecordingConsumer

TOPIC = {"run-batch": 0}


def reader(directory: Path, *polls: PolledRecords, **settings: object) -> RecordingConsumer:
    """Over a scripted consumer."""
    at = session(directory, settings=settings)
    made = RecordingConsumer(at, settings_of(at), FakeConsumer(polls))
    made.follow(TOPIC, [("run-batch", 0), ("run-batch", 1)])
    return made


def test_a_poll_is_an_operation_with_its_records(tmp_path: Path) -> None:
    """Records name it and the time it was invoked; its completion counts them."""
    reads = reader(tmp_path, polled((0, 7, message(0, 100)), (1, 3, message(0, 101)), (1, 4, b"stranger")))
    reads.poll()
    _, found = rows(tmp_path / "worker.segment")
    (invoked,) = found[Kind.INVOKE][found[Kind.INVOKE]["f"] == F.POLL]
    (completed,) = found[Kind.COMPLETE][found[Kind.COMPLETE]["f"] == F.POLL]
    records = found[Kind.RECORD]
    assert records["op"].tolist() == [invoked["op"]] * 3 == [completed["op"]] * 3
    assert records["invoked"].tolist() == [invoked["time"]] * 3
    assert records["offset"].tolist() == [7, 3, 4]
    assert records["status"].tolist() == [Status.GOOD, Status.MISROUTED, Status.FOREIGN]
    assert records["value"].tolist()[:2] == [100, 101]
    assert (completed["count"], completed["type"]) == (3, Type.OK)
    assert (records["event"] < completed["event"]).all()


def test_an_empty_poll_is_recorded_as_well(tmp_path: Path) -> None:
    """That nothing came is something that was seen."""
    reader(tmp_path, PolledRecords()).poll()
    completed = rows(tmp_path / "worker.segment")[1][Kind.COMPLETE]
    assert completed[completed["f"] == F.POLL]["count"].tolist() == [0]


def test_an_error_makes_an_empty_poll_unknown(tmp_path: Path) -> None:
    """With its text; one that also returned records is ok."""
    error = ClientError(6, "not the leader")
    both = PolledRecords(["run-batch"], [0], [0], [message(0, 1)], [error])
    reads = reader(tmp_path, PolledRecords(errors=[error]), both)
    reads.poll()
    reads.poll()
    segment, found = rows(tmp_path / "worker.segment")
    completed = found[Kind.COMPLETE][found[Kind.COMPLETE]["f"] == F.POLL]
    assert completed["type"].tolist() == [Type.INFO, Type.OK]
    assert completed["error"].tolist() == [6, 6]
    assert [segment.texts[number] for number in completed["detail"].tolist()] == ["not the leader"] * 2


def test_partitions_that_are_taken_are_recorded_once(tmp_path: Path) -> None:
    """What a consumer keeps when more is added is not taken again."""
    reads = reader(tmp_path)
    reads.follow(TOPIC, [("run-batch", 1), ("run-batch", 2)])
    found = rows(tmp_path / "worker.segment")[1]
    assigned, invoked = found[Kind.COMPLETE], found[Kind.INVOKE]
    assert assigned["partition"].tolist() == [0, 1, 2]
    assert assigned["op"].tolist() == invoked["op"].tolist()
    assert assigned["invoked"].tolist() == invoked["time"].tolist()
    assert set(assigned["f"].tolist()) == {F.ASSIGN}
    assert isinstance(reads.consumer, FakeConsumer)
    assert reads.consumer.assigned == {("run-batch", 1): BEGINNING, ("run-batch", 2): BEGINNING}


def test_what_a_group_gives_is_recorded(tmp_path: Path) -> None:
    """With consume_by=subscribe."""
    reads = reader(tmp_path, consume_by="subscribe")
    assert isinstance(reads.consumer, FakeConsumer)
    assert reads.consumer.subscribed == ["run-batch"]
    assert rows(tmp_path / "worker.segment")[1][Kind.COMPLETE]["f"].tolist() == [F.ASSIGN]


@pytest.mark.parametrize("consume_by", ["assign", "subscribe"])
def test_a_library_that_cannot_be_set_up_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consume_by: str
) -> None:
    """With every poll; each attempt is on record, and nothing is read before one succeeds."""
    monkeypatch.setattr(consuming, "NAP_S", 0)
    at = session(tmp_path, settings={"consume_by": consume_by})
    consumer = FakeConsumer([polled((0, 7, message(0, 100)))])
    consumer.fails = [ClientError(-1010, "nobody there")] * 2
    reads = RecordingConsumer(at, settings_of(at), consumer)
    reads.follow(TOPIC, [("run-batch", 0)])
    assert [len(reads.poll().payloads) for _ in range(3)] == [0, 1, 0]
    found = rows(at)[1]
    ended = found[Kind.COMPLETE]
    assigned, polls = ended[ended["f"] == F.ASSIGN], ended[ended["f"] == F.POLL]
    failed = [Type.INFO] * 2 if consume_by == "assign" else []
    assert assigned["type"].tolist() == [*failed, Type.OK]
    assert assigned["error"].tolist()[: len(failed)] == [-1010] * len(failed)
    assert polls["type"].tolist() == [Type.INFO, Type.OK, Type.OK]
    assert polls["error"].tolist() == [-1010, 0, 0]
    assert len(found[Kind.INVOKE]) == len(ended)


def test_going_back_may_work_in_some_partitions_alone(tmp_path: Path) -> None:
    """Each ends as its own."""
    reads = reader(tmp_path)
    assert isinstance(reads.consumer, FakeConsumer)
    reads.consumer.refuses = {("run-batch", 0): ClientError(-1000, "not mine")}
    reads.seek({("run-batch", 0): 3, ("run-batch", 1): 4})
    segment, found = rows(tmp_path / "worker.segment")
    back = found[Kind.COMPLETE][-2:]
    assert back["type"].tolist() == [Type.INFO, Type.OK]
    assert back["error"].tolist() == [-1000, 0]
    assert back["offset"].tolist() == [3, 4]
    assert segment.texts[back["detail"].tolist()[0]] == "not mine"
    assert back["detail"].tolist()[1] not in segment.texts
