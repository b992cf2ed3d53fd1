"""The compacted workload: a topic that is cleaned all the time, and keys that the seed draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.history.schema import Kind
from tests.support.worker_sessions import FakeConsumer, FakeProducer, rows, session, settings_of
from workloads import compacted, consuming, producing
from workloads.base import CONSUMER, PRODUCER
from workloads.compacted import CLEANED_ALL_THE_TIME, Compacted, CompactedSettings
from workloads.consuming import RecordingConsumer
from workloads.producing import RecordingProducer


def test_its_topic_is_compacted_and_says_everything_else_that_topics_say() -> None:
    """The settings of all topics are written out as well."""
    (topic,) = Compacted().topics(CompactedSettings(min_insync_replicas=1, partitions=7))
    assert topic.config["min.insync.replicas"] == "1"
    assert topic.config.items() >= CLEANED_ALL_THE_TIME.items()
    assert topic.partitions == 7


class _Stopping(FakeProducer):
    """Stops its worker after so many ticks with messages."""

    def __init__(self, ticks: int) -> None:
        super().__init__()
        self.left = ticks
        self.stop: Any = None

    def send(self, topic: str, partitions: Any, payloads: Any, keyed: Any = None) -> None:
        """Count the tick."""
        super().send(topic, partitions, payloads, keyed)
        self.left -= 1
        if not self.left:
            self.stop()


def produced(directory: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Any:
    """The invocations of a producer of a hundred ticks."""
    at = session(directory, "compacted", seed=seed, settings={"rate": 0, "keys": 20, "tombstones": 0.25})
    library = _Stopping(100)
    library.stop = at.control.stop
    monkeypatch.setattr(producing, "open_producer", lambda *_: RecordingProducer(at, settings_of(at), library))
    Compacted().work(at, settings_of(at))
    assert library.closed
    graves = np.concatenate([keyed.tombstones for keyed in library.keyed])
    return rows(at)[1][Kind.INVOKE], graves


def test_keys_are_drawn_from_the_seed_and_have_their_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are used, about a quarter of the writes delete, and another seed writes something else."""
    invoked, graves = produced(tmp_path / "a", monkeypatch, seed=1)
    assert set(invoked["key"].tolist()) == set(range(20))
    assert (invoked["partition"] == invoked["key"] % 3).all()
    assert 150 < graves.sum() < 350  # of a thousand, and always the same number
    again, graves_again = produced(tmp_path / "b", monkeypatch, seed=1)
    assert again["key"].tolist() == invoked["key"].tolist()
    assert graves_again.tolist() == graves.tolist()
    other, _ = produced(tmp_path / "c", monkeypatch, seed=2)
    assert other["key"].tolist() != invoked["key"].tolist()


def test_consumers_share_the_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has exactly one of them."""
    shares = []
    for number in (0, 1):
        at = session(tmp_path / str(number), "compacted", role=CONSUMER, number=number, of=2)
        consumer = FakeConsumer()
        consumer.when_empty = at.control.stop
        monkeypatch.setattr(
            consuming, "open_consumer", lambda *_, at=at, c=consumer: RecordingConsumer(at, settings_of(at), c)
        )
        compacted.consume(at, settings_of(at))
        assert consumer.closed
        shares.append(set(consumer.assigned))
    assert shares == [{("run-compacted", 0), ("run-compacted", 2)}, {("run-compacted", 1)}]


def test_its_workers() -> None:
    """Consumers first, and nobody ends alone."""
    (stage,) = Compacted().stages(CompactedSettings(producers=1), 0)
    assert [(role.name, role.number, role.finite) for role in stage] == [
        (CONSUMER, 0, False), (CONSUMER, 1, False), (PRODUCER, 0, False),
    ]  # fmt: skip
