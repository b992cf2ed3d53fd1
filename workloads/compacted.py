"""Compacted: keyed writes to a topic that keeps the last record of each key, and tombstones, which delete a key.

Keys are numbers drawn from `keys` of them; key *k* lives in partition *k* % `partitions`, and all producers write all
keys. The topic is set up so that the cleaner has work every second. What it takes away is gone for good reasons, so a
write is not lost because nobody reads it any more: but of each key the last acknowledged write, or one after it, has to
be there at the end, be it a value or a tombstone (`checkers.keys`). Tombstones outlive the run: brokers keep them for a
day.

A tombstone has no value that could say what it is: the message that would be its value is a header of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from workloads.base import CONSUMER, PRODUCER, Role, Settings, TopicSpec, Workload

if TYPE_CHECKING:
    from workloads.session import WorkerSession

CLEANED_ALL_THE_TIME = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",  # the segment that is written to is never cleaned: it must not be for long
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "86400000",  # a tombstone that is gone would look like one that was lost
}


class CompactedSettings(Settings):
    """A thousand writes a second to a hundred keys."""

    keyed: ClassVar[bool] = True

    producers: PositiveInt = Field(default=2, description="producer processes")
    consumers: PositiveInt = Field(default=2, description="consumer processes")
    rate: NonNegativeFloat = Field(
        default=1000.0, description="messages per second of all producers together; 0 is as fast as possible"
    )
    keys: PositiveInt = Field(default=100, le=10_000_000, description="different keys")
    tombstones: float = Field(default=0.1, ge=0, le=1, description="share of the writes that delete their key")
    linger_ms: NonNegativeInt | None = Field(
        default=20,  # the messages of a moment go to all partitions
        description=Settings.model_fields["linger_ms"].description,
    )
    max_in_flight: PositiveInt | None = Field(default=5, description=Settings.model_fields["max_in_flight"].description)


class Compacted(Workload[CompactedSettings]):
    """Producers and consumers that go on until they are told to stop."""

    name = "compacted"
    about = "keyed writes and tombstones to a compacted topic, which must keep the last one of each key"
    model = CompactedSettings

    def topics(self, settings: CompactedSettings) -> list[TopicSpec]:
        """One."""
        topic = settings.topic_spec(0, "compacted")
        return [topic.model_copy(update={"config": topic.config | CLEANED_ALL_THE_TIME})]

    def stages(self, settings: CompactedSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        return [
            [
                Role(name, number, count, finite=False)
                for name, count in ((CONSUMER, settings.consumers), (PRODUCER, settings.producers))
                for number in range(count)
            ]
        ]

    def work(self, session: WorkerSession, settings: CompactedSettings) -> None:
        """Produce or consume."""
        if session.config.role == PRODUCER:
            produce(session, settings)
        else:
            consume(session, settings)


WORKLOAD = Compacted()


def produce(session: WorkerSession, settings: CompactedSettings) -> None:
    """Writes to keys as the seed draws them, until told to stop."""
    import numpy as np

    from workloads.pacing import send_in_ticks
    from workloads.producing import MessageKeys, open_producer

    sender = open_producer(session, settings)
    chances = np.random.default_rng(session.config.seed)
    (topic,) = session.config.topics
    name = topic.full_name(session.config.prefix)

    def send(_: int, count: int) -> None:
        keys = MessageKeys(chances.integers(0, settings.keys, count), chances.random(count) < settings.tombstones)
        sender.send(topic.number, name, keys.numbers % settings.partitions, keys=keys)

    send_in_ticks(session, sender, settings.rate / session.config.of, send)


def consume(session: WorkerSession, settings: CompactedSettings) -> None:
    """A share of the partitions, until told to stop."""
    from workloads.consuming import open_consumer

    config = session.config
    reader = open_consumer(session, settings)
    (topic,) = config.topics
    name = topic.full_name(config.prefix)
    reader.follow({name: topic.number}, [(name, p) for p in range(config.number, topic.partitions, config.of)])
    while not session.control.stopped:
        reader.poll()
    reader.consumer.close()
