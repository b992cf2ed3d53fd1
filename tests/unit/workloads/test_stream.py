"""The stream: shares, pace, and topics that change all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.history.schema import F, Kind, Type
from tests.support.worker_sessions import FakeConsumer, FakeProducer, rows, session, settings_of
from workloads import consuming, producing, stream, topics
from workloads.base import CONSUMER, PRODUCER, TopicSpec
from workloads.consuming import RecordingConsumer
from workloads.producing import RecordingProducer
from workloads.stream import Rotation, Stream, StreamSettings

SECOND = 10**9


def test_the_workers_go_on_until_they_are_told_to_stop() -> None:
    """Two producers and two consumers by default, in one stage."""
    (roles,) = Stream().stages(StreamSettings(), 3)
    assert [(role.name, role.number, role.of, role.finite) for role in roles] == [
        (CONSUMER, 0, 2, False),
        (CONSUMER, 1, 2, False),
        (PRODUCER, 0, 2, False),
        (PRODUCER, 1, 2, False),
    ]


def test_topics_that_last_have_plain_names() -> None:
    """And are the same all the time."""
    settings = StreamSettings(topics=2)
    assert [(topic.number, topic.name) for topic in Stream().topics(settings)] == [(0, "stream-0"), (1, "stream-1")]
    assert Stream().topics_in_use(settings, 10**12, 0) == Stream().topics(settings)


def test_topics_that_rotate_are_numbered_on() -> None:
    """Each generation has names and numbers of its own; the last three are in use."""
    settings = parse(StreamSettings, {"topics": 2, "rotate": "2s"}, "here")
    assert [(topic.number, topic.name) for topic in settings.generation(3)] == [(6, "stream-0-g3"), (7, "stream-1-g3")]
    began = 5 * SECOND
    assert [settings.generation_at(began + seconds * SECOND, began) for seconds in (-1, 0, 1, 2, 9)] == [0, 0, 0, 1, 4]
    in_use = Stream().topics_in_use(settings, began + 9 * SECOND, began)
    assert [topic.number for topic in in_use] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("given", [{"rotate": "soon"}, {"rotate": 0}, {"rate": -1}, {"producers": 0}])
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    """At once."""
    with pytest.raises(UsageError, match="here"):
        parse(StreamSettings, given, "here")


class _Stopping(FakeProducer):
    """Stops its worker after so many ticks with messages."""

    def __init__(self, ticks: int) -> None:
        super().__init__()
        self.ticks: list[tuple[str, set[int], int]] = []
        self._left = ticks
        self.stop: Callable[[], None] = lambda: None

    def send(self, topic: str, partitions: Any, payloads: Any, keyed: Any = None) -> None:
        """Count the tick."""
        super().send(topic, partitions, payloads, keyed)
        self.ticks.append((topic, set(partitions), len(payloads)))
        self._left -= 1
        if not self._left:
            self.stop()


def produced(directory: Path, monkeypatch: pytest.MonkeyPatch, ticks: int, **given: Any) -> _Stopping:
    """Run a producer for so many ticks."""
    at = session(directory, "stream", **given)
    library = _Stopping(ticks)
    library.stop = at.control.stop
    monkeypatch.setattr(producing, "open_producer", lambda *_: RecordingProducer(at, settings_of(at), library))
    stream.produce(at, settings_of(at))
    assert library.closed
    return library


def test_flat_out_every_tick_is_a_full_chunk_for_the_next_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics and partitions in turn, all of them."""
    library = produced(tmp_path, monkeypatch, 4, settings={"rate": 0, "topics": 2, "partitions": 2})
    assert library.ticks == [
        ("run-stream-0", {0}, library.chunk),
        ("run-stream-1", {0}, library.chunk),
        ("run-stream-0", {1}, library.chunk),
        ("run-stream-1", {1}, library.chunk),
    ]


def test_a_producer_that_was_held_up_does_not_make_up_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that jumps by an hour between two looks: at most a second's worth is due."""
    clock = iter(hour * 3600.0 for hour in range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(_Stopping, "chunk", 10**6)
    library = produced(tmp_path, monkeypatch, 3, settings={"rate": 100, "final_read_timeout_s": 0})
    assert max(count for _, _, count in library.ticks) <= 100


def test_consumers_share_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has exactly one of them."""
    shares = []
    for number in (0, 1):
        directory = tmp_path / str(number)
        at = session(directory, "stream", role=CONSUMER, number=number, of=2, settings={"topics": 3, "partitions": 3})
        consumer = FakeConsumer()
        consumer.when_empty = at.control.stop
        monkeypatch.setattr(
            consuming, "open_consumer", lambda *_, at=at, c=consumer: RecordingConsumer(at, settings_of(at), c)
        )
        stream.consume(at, settings_of(at))
        assert consumer.closed
        shares.append(set(consumer.assigned))
    assert not shares[0] & shares[1]
    assert len(shares[0] | shares[1]) == 9


class _Maker:
    """In place of a connection to a cluster."""

    fails = False

    def __init__(self, *_: object) -> None:
        self.made: list[str] = []

    def create(self, topic: TopicSpec, prefix: str) -> None:
        """Remember, or fail."""
        if self.fails:
            raise KafkaTimeoutError("nobody there")
        self.made.append(topic.full_name(prefix))

    def close(self) -> None:
        """Nothing to do."""


def test_a_new_topic_is_created_once_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first generation are there already."""
    monkeypatch.setattr(topics, "TopicAdmin", _Maker)
    at = session(tmp_path, "stream", settings={"rotate": 1})
    rotation = Rotation(at, settings_of(at))
    for generation in (0, 1, 1, 2):
        rotation.topics(generation)
    rotation.close()
    segment, found = rows(at)
    assert found[Kind.COMPLETE]["topic"].tolist() == [1, 2]
    assert set(found[Kind.COMPLETE]["f"].tolist()) == {F.CREATE}
    assert segment.topics == {1: "run-stream-0-g1", 2: "run-stream-0-g2"}


def test_a_topic_that_could_not_be_created_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether it was; the next use asks again."""
    monkeypatch.setattr(topics, "TopicAdmin", _Maker)
    at = session(tmp_path, "stream", settings={"rotate": 1})
    rotation = Rotation(at, settings_of(at))
    monkeypatch.setattr(_Maker, "fails", True)
    rotation.topics(1)
    monkeypatch.setattr(_Maker, "fails", False)
    rotation.topics(1)
    assert rows(at)[1][Kind.COMPLETE]["type"].tolist() == [Type.INFO, Type.OK]
