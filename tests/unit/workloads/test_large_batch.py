"""The notes' workload: what is sent where and when, and when its consumer is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from tests.support.worker_sessions import FakeConsumer, FakeProducer, message, polled, session, settings_of
from workloads import consuming, find_workload, large_batch, producing
from workloads.base import CONSUMER, PRODUCER
from workloads.clients.base import TopicPartition
from workloads.consuming import RecordingConsumer
from workloads.large_batch import LargeBatch, LargeBatchSettings
from workloads.producing import RecordingProducer

TOPIC = "run-batch"
PLACES: list[TopicPartition] = [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)]


def test_the_defaults_are_those_of_the_notes() -> None:
    """5,000 messages, 3 partitions, 3 replicas, acks=1, 60 s, 500 a poll, kafka-python."""
    settings = LargeBatchSettings()
    assert (settings.messages, settings.partitions, settings.replication_factor) == (5000, 3, 3)
    assert (settings.acks, settings.consumer_timeout_ms, settings.max_poll_records) == ("1", 60_000, 500)
    assert (settings.client, settings.bootstrap) == ("kafka-python", "all")


def test_topic_settings_are_written_out() -> None:
    """Nothing is left to a cluster's defaults."""
    (topic,) = LargeBatch().topics(LargeBatchSettings(unclean_election=True))
    assert topic.config == {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    assert topic.full_name("run") == TOPIC


def test_more_replicas_wanted_in_sync_than_there_are_is_refused() -> None:
    """Nobody could write there with acks=all."""
    with pytest.raises(UsageError, match="min_insync_replicas=2 is more than replication_factor=1"):
        parse(LargeBatchSettings, {"replication_factor": 1}, "here")


def test_an_unknown_workload_is_answered_with_a_near_one() -> None:
    """A suggestion, and exit code 4."""
    with pytest.raises(UsageError, match="did you mean 'large-batch'"):
        find_workload("large-bach")


def test_without_faults_it_reads_after_it_sent() -> None:
    """As the notes did."""
    producer, consumer = LargeBatch().stages(LargeBatchSettings(), 0)
    assert [role.name for role in producer + consumer] == [PRODUCER, CONSUMER]
    assert producer[0].parts == 1


def test_with_faults_it_reads_meanwhile_and_sends_in_parts() -> None:
    """One part before the first fault, one during and one after each."""
    ((producer, consumer),) = LargeBatch().stages(LargeBatchSettings(), 2)
    assert (producer.name, producer.parts, consumer.name) == (PRODUCER, 5, CONSUMER)
    assert len(LargeBatch().stages(LargeBatchSettings(consume="after"), 2)) == 2


def produced(directory: Path, monkeypatch: pytest.MonkeyPatch, cue: int = 0, **given: Any) -> FakeProducer:
    """Run the producer over a library that acknowledges everything."""
    at = session(directory, **given)
    at.control.cue = cue
    library = FakeProducer()
    monkeypatch.setattr(producing, "open_producer", lambda *_: RecordingProducer(at, settings_of(at), library))
    monkeypatch.setattr(at.control, "wait", lambda _: at.control.stop())  # whoever would have to wait is stopped
    large_batch.produce(at, settings_of(at))
    assert library.closed
    assert at.status.ok == at.status.sent == len(library.sent)
    return library


def test_messages_go_round_the_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what should have arrived where is known exactly."""
    library = produced(tmp_path, monkeypatch, settings={"messages": 50})
    assert Counter(partition for _, partition, _ in library.sent) == {0: 17, 1: 17, 2: 16}
    assert {topic for topic, _, _ in library.sent} == {TOPIC}


def test_large_messages_go_in_smaller_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them."""
    chunks: list[int] = []
    send = FakeProducer.send

    def counted(producer: FakeProducer, topic: str, partitions: Any, payloads: Any) -> None:
        chunks.append(len(payloads))
        send(producer, topic, partitions, payloads)

    monkeypatch.setattr(FakeProducer, "send", counted)
    monkeypatch.setattr(producing, "CHUNK_AT_MOST_BYTES", 300)
    produced(tmp_path, monkeypatch, settings={"messages": 10})
    assert chunks == [3, 3, 3, 1]


@pytest.mark.parametrize(("cue", "sent"), [(0, 16), (1, 33), (2, 50), (9, 50)])
def test_a_part_waits_for_its_cue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cue: int, sent: int) -> None:
    """The parts together are all messages."""
    library = produced(tmp_path, monkeypatch, cue, settings={"messages": 50}, parts=3)
    assert len(library.sent) == sent


def consumed(directory: Path, monkeypatch: pytest.MonkeyPatch, consumer: FakeConsumer, acked: int | None) -> Any:
    """Run the consumer; it is stopped when its script is over and it should not go on waiting."""
    at = session(directory, role=CONSUMER, settings={"consumer_timeout_ms": 1})
    at.control.acked = acked
    monkeypatch.setattr(consuming, "open_consumer", lambda *_: RecordingConsumer(at, settings_of(at), consumer))
    if acked is None:
        consumer.when_empty = at.control.stop
    large_batch.consume(at, settings_of(at))
    assert consumer.closed
    return at


def test_the_consumer_ends_when_all_that_was_acknowledged_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every partition was read to its end."""
    ends = dict(zip(PLACES, (1, 1, 0), strict=True))
    consumer = FakeConsumer([polled((0, 0, message(0, 1))), polled((1, 0, message(1, 2)))], ends)
    at = consumed(tmp_path, monkeypatch, consumer, acked=2)
    assert at.status.read == 2
    assert at.status.detail == ""


def test_the_consumer_reads_on_to_the_end_beyond_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a message must not hide one that is missing."""
    ends = dict(zip(PLACES, (2, 1, 0), strict=True))
    twice = [polled((0, 0, message(0, 1))), polled((0, 1, message(0, 1))), polled((1, 0, message(1, 2)))]
    assert consumed(tmp_path, monkeypatch, FakeConsumer(twice, ends), acked=2).status.read == 3


def test_the_consumer_gives_up_when_nothing_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says how much it got."""
    at = consumed(tmp_path, monkeypatch, FakeConsumer([polled((0, 0, message(0, 1)))]), acked=2)
    assert "1 of 2 read" in at.status.detail


def test_the_consumer_does_not_give_up_before_it_knows_what_to_expect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that waits for a fault sends nothing for long."""
    at = consumed(tmp_path, monkeypatch, FakeConsumer([polled((0, 0, message(0, 1)))]), acked=None)
    assert at.status.detail == ""
    assert at.control.stopped
