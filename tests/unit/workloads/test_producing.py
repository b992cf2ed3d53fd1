"""Sends: announced before they leave, completed from what the delivered message says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.foundation.error_codes import REFUSED_LOCALLY
from harness.history.schema import COLUMNS, F, Kind, Type
from tests.support.worker_sessions import FakeProducer, rows, session, settings_of
from workloads.clients.base import ClientError
from workloads.producing import RecordingProducer, Sequences

NOT_LEADER = 6


def test_sequences_count_per_partition() -> None:
    """In whatever order partitions come."""
    sequences = Sequences(3)
    assert sequences.take(np.array([2, 0, 2, 2, 0])).tolist() == [0, 0, 1, 2, 1]
    assert sequences.take(np.array([0, 1, 2])).tolist() == [2, 0, 3]


def test_an_invocation_is_in_the_file_before_the_library_sees_the_message(tmp_path: Path) -> None:
    """So that a process killed in the call leaves the operation behind."""
    at = session(tmp_path)
    seen: list[int] = []

    class Watching(FakeProducer):
        def send(self, topic: str, partitions: object, payloads: object, keyed: object = None) -> None:
            """Look at the file in the middle of the call."""
            seen.append(len(rows(at)[1][Kind.INVOKE]))

    RecordingProducer(at, settings_of(at), Watching()).send(0, "run-batch", np.arange(3))
    assert seen == [3]


def test_a_completion_carries_what_its_invocation_said(tmp_path: Path) -> None:
    """Operation, value, place, sequence and the time of the invocation; and the offset."""
    at = session(tmp_path)
    sender = RecordingProducer(at, settings_of(at), FakeProducer())
    sender.send(0, "run-batch", np.array([0, 1, 2, 0]))
    sender.drain(0)
    found = rows(at)[1]
    invoked, completed = found[Kind.INVOKE], found[Kind.COMPLETE]
    for column in ("op", "value", "topic", "partition", "sequence", "f"):
        assert completed[column].tolist() == invoked[column].tolist()
    assert completed["invoked"].tolist() == invoked["time"].tolist()
    assert completed["value"].tolist() == completed["op"].tolist()
    assert completed["offset"].tolist() == [0, 1, 2, 3]
    assert completed["type"].tolist() == [Type.OK] * 4
    assert set(completed["f"].tolist()) == {F.SEND}
    assert (completed["time"] >= completed["invoked"]).all()
    assert (at.status.sent, at.status.ok) == (4, 4)


def test_errors_are_sorted_into_fail_and_info(tmp_path: Path) -> None:
    """With their code and text, and without an offset."""
    errors = {1: ClientError(NOT_LEADER, "not the leader"), 2: ClientError(REFUSED_LOCALLY, "too large")}
    at = session(tmp_path)
    sender = RecordingProducer(at, settings_of(at), FakeProducer(errors.get))
    sender.send(0, "run-batch", np.arange(3))
    sender.drain(0)
    segment, found = rows(at)
    completed = found[Kind.COMPLETE]
    assert completed["type"].tolist() == [Type.OK, Type.INFO, Type.FAIL]
    assert completed["error"].tolist() == [0, NOT_LEADER, REFUSED_LOCALLY]
    assert completed["offset"].tolist() == [0, COLUMNS["offset"].null, COLUMNS["offset"].null]
    assert [segment.texts.get(number) for number in completed["detail"].tolist()] == [
        None,
        "not the leader",
        "too large",
    ]
    assert (at.status.ok, at.status.info, at.status.fail) == (1, 1, 1)


def test_what_never_got_an_answer_stays_open(tmp_path: Path) -> None:
    """When the runner is gone nobody waits; sealing makes it info."""
    at = session(tmp_path)
    at.control.gone = True
    producer = FakeProducer(silent=True)
    sender = RecordingProducer(at, settings_of(at), producer)
    sender.send(0, "run-batch", np.arange(3))
    sender.finish()
    assert producer.closed
    assert len(rows(at)[1][Kind.COMPLETE]) == 0
    assert "3" in at.status.detail


@pytest.mark.parametrize(
    ("value_bytes", "chunk", "outstanding"),
    [(100, 1000, 50_000), (8_000, 1000, 32_000), (100_000, 80, 2_560), (900_000, 8, 284)],
)
def test_large_messages_are_fewer_at_once(tmp_path: Path, value_bytes: int, chunk: int, outstanding: int) -> None:
    """So that memory is bounded by bytes."""
    at = session(tmp_path, settings={"value_bytes": value_bytes})
    producer = FakeProducer()
    producer.chunk = 1000
    sender = RecordingProducer(at, settings_of(at), producer)
    assert (sender.chunk, sender.outstanding_at_most) == (chunk, outstanding)


def test_it_waits_while_too_many_are_outstanding(tmp_path: Path) -> None:
    """And no longer."""
    at = session(tmp_path)
    producer = FakeProducer()
    sender = RecordingProducer(at, settings_of(at), producer)
    sender.outstanding_at_most = 3
    sender.send(0, "run-batch", np.arange(3))
    sender.make_room()
    assert producer.outstanding == 3
    sender.send(0, "run-batch", np.arange(3))
    sender.make_room()
    assert producer.outstanding == 0
