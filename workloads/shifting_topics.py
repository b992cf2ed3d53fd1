"""Topics that shift: created, deleted, made anew and grown while clients use them.

An admin process changes something at a steady pace, drawn from its seed. Producers and consumers are not told: they ask
the cluster once a second which topics of the run there are, as applications do, and until then go on with what they
know. So sends meet topics that are gone, and end in errors within bounds; a consumer takes up a topic that was made
anew from its beginning. The number of a topic is the one in its name, so that all agree on it without talking.

One topic is never deleted, and faults and probes are about that one. When the load ends, whatever is deleted is made
again, with as many partitions as it had: the final read finds everything that was ever written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from harness.foundation.durations import Duration
from workloads.base import ADMIN, CONSUMER, PRODUCER, Role, Settings, TopicSpec, Workload

if TYPE_CHECKING:
    from workloads.clients.base import TopicPartition
    from workloads.consuming import RecordingConsumer
    from workloads.session import WorkerSession
    from workloads.topics import LiveTopic

LASTING = 0  # the number of the topic that is never deleted
LOOK_EVERY_S = 1.0
JOIN_S = 1.0


class TopicsSettings(Settings):
    """A change every three seconds."""

    block_at_most_s: ClassVar[float] = 2.0  # a topic that is gone must not hold up the others for long
    metadata_age_ms: ClassVar[int | None] = 1000  # the libraries' own five minutes outlast a run: none would see growth

    producers: PositiveInt = Field(default=2, description="producer processes")
    consumers: PositiveInt = Field(default=2, description="consumer processes")
    rate: NonNegativeFloat = Field(
        default=500.0, description="messages per second of all producers together; 0 is as fast as possible"
    )
    topics: PositiveInt = Field(default=4, le=100, description="topics at the beginning; the first is never deleted")
    topics_at_most: PositiveInt = Field(default=12, le=100, description="topics up to which new ones are created")
    partitions_at_most: PositiveInt = Field(default=12, le=100, description="partitions up to which topics grow")
    change_every: Duration = Field(
        default=3.0, gt=0, description="how long after one topic was created, deleted or grown comes the next"
    )
    delivery_timeout_ms: PositiveInt | None = Field(
        default=10_000, description=Settings.model_fields["delivery_timeout_ms"].description
    )
    request_timeout_ms: PositiveInt | None = Field(
        default=5000, description=Settings.model_fields["request_timeout_ms"].description
    )
    max_in_flight: PositiveInt | None = Field(default=5, description=Settings.model_fields["max_in_flight"].description)

    @model_validator(mode="after")
    def _room(self) -> TopicsSettings:
        """Refuse limits that are broken from the beginning."""
        if self.topics > self.topics_at_most:
            raise ValueError(f"topics={self.topics} is more than topics_at_most={self.topics_at_most}")
        if self.partitions > self.partitions_at_most:
            raise ValueError(f"partitions={self.partitions} is more than partitions_at_most={self.partitions_at_most}")
        return self

    def numbered(self, number: int) -> TopicSpec:
        """The topic of this number, as it is at first."""
        return self.topic_spec(number, f"topic-{number}")


def number_of(name: str) -> int:
    """The number of a topic, by its name."""
    return int(name.rpartition("-")[2])


class Topics(Workload[TopicsSettings]):
    """Producers, consumers and an admin process, until they are told to stop."""

    name = "topics"
    about = "topics are created, deleted, created again and grown while producers and consumers use them"
    model = TopicsSettings

    def topics(self, settings: TopicsSettings) -> list[TopicSpec]:
        """Those of the beginning."""
        return [settings.numbered(number) for number in range(settings.topics)]

    def topics_in_use(self, settings: TopicsSettings, time_ns: int, began: int) -> list[TopicSpec]:  # noqa: ARG002 - always
        """The one that lasts: faults are aimed at it, since of a topic that is gone nobody can tell whether one bit."""
        return [settings.numbered(LASTING)]

    def stages(self, settings: TopicsSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        return [
            [
                Role(name, number, count, finite=False)
                for name, count in ((CONSUMER, settings.consumers), (PRODUCER, settings.producers), (ADMIN, 1))
                for number in range(count)
            ]
        ]

    def work(self, session: WorkerSession, settings: TopicsSettings) -> None:
        """Produce, consume or keep."""
        if session.config.role == PRODUCER:
            produce(session, settings)
        elif session.config.role == CONSUMER:
            consume(session, settings)
        else:
            from workloads.topic_changes import change_topics

            change_topics(session, settings)


WORKLOAD = Topics()


class WritablePartition(NamedTuple):
    """A partition that can be written to."""

    number: int
    name: str
    partition: int


class TopicWatch:
    """Which topics of the run there are, asked once a second beside the work."""

    def __init__(self, session: WorkerSession) -> None:
        import threading

        self._session = session
        self._live: dict[str, LiveTopic] = {}
        self._known: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True, name="topics")
        self._thread.start()

    def topics(self) -> dict[str, LiveTopic]:
        """As of the last look; the segment is told the names of new ones."""
        live = self._live
        for name in live.keys() - self._known:
            self._session.recorder.topic(number_of(name), name)
        self._known |= live.keys()
        return live

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join(JOIN_S)

    def _look(self) -> None:
        from workloads.topics import TopicAdmin

        admin: Any = None
        config = self._session.config
        while not self._over.is_set():
            try:
                if admin is None:
                    admin = TopicAdmin(self._session.addresses, self._session.security, self._session.client_id)
                self._live = admin.live_topics(config.prefix)
            except Exception as error:  # noqa: BLE001 - whatever the library raises, the next look may succeed
                self._session.status.detail = f"topics are not told: {error}"
            self._over.wait(LOOK_EVERY_S)
        if admin is not None:
            admin.close()


def produce(session: WorkerSession, settings: TopicsSettings) -> None:
    """To one partition after the other of all topics that there seem to be."""
    import numpy as np

    from workloads.pacing import send_in_ticks
    from workloads.producing import open_producer

    sender = open_producer(session, settings)
    watch = TopicWatch(session)

    def send(tick: int, count: int) -> None:
        targets = [
            WritablePartition(number_of(name), name, partition)
            for name, live in sorted(watch.topics().items())
            for partition in range(live.partitions)
        ]
        if targets:
            number, name, partition = targets[(tick + session.config.number) % len(targets)]
            sender.send(number, name, np.full(count, partition))

    send_in_ticks(session, sender, settings.rate / session.config.of, send)
    watch.close()


def consume(session: WorkerSession, settings: TopicsSettings) -> None:
    """A share of the partitions of all topics that there seem to be."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    watch = TopicWatch(session)
    following: dict[str, LiveTopic] = {}
    while not session.control.stopped:
        topics = watch.topics()
        if topics != following:
            _follow(session, reader, following, topics)
            following = topics
        if following:
            reader.poll()
        else:
            session.control.wait(LOOK_EVERY_S / 10)
    reader.consumer.close()
    watch.close()


def _follow(
    session: WorkerSession, reader: RecordingConsumer, before: dict[str, LiveTopic], topics: dict[str, LiveTopic]
) -> None:
    """Let go of what is gone, also where another topic has its name now; take up what is new."""
    numbers = {name: number_of(name) for name in {*before, *topics}}
    stays = {name: live for name, live in topics.items() if name in before and before[name].id == live.id}
    if len(stays) < len(before):
        reader.follow(numbers, _share(session, {name: before[name] for name in stays}))
    reader.follow(numbers, _share(session, topics))


def _share(session: WorkerSession, topics: dict[str, LiveTopic]) -> list[TopicPartition]:
    """What is this worker's, whatever else there is: a topic that comes or goes moves no other partition."""
    config = session.config
    return [
        (name, partition)
        for name, live in sorted(topics.items())
        for partition in range(live.partitions)
        if (number_of(name) + partition) % config.of == config.number
    ]
