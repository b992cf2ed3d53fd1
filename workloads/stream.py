"""The stream: producers and consumers side by side at a steady rate, or flat out, until the run stops them.

Producers send in ticks of some 10 ms. A tick's messages go to one partition, the next tick's to the next one: spread
over all of them they would be a request each, and slow brokers would queue them up. Consumers share all partitions. A
producer that was held up for longer than a second does not make up for it.

With `rotate`, topics change all the time: each *generation* of topics is used for that long, and whoever needs a topic
first creates it. The first requests to a new partition are where brokers race. Consumers read the last three
generations. Generations are counted from the beginning of the run, so that all workers agree without talking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, NonNegativeFloat, PositiveInt

from harness.foundation.durations import Duration
from harness.history.schema import F, Type, now
from workloads.base import CONSUMER, PRODUCER, Role, Settings, TopicSpec, Workload
from workloads.clients.base import TopicPartition

if TYPE_CHECKING:
    from workloads.consuming import RecordingConsumer
    from workloads.session import WorkerSession
    from workloads.topics import TopicAdmin

GENERATIONS_READ = 3


class StreamSettings(Settings):
    """A thousand messages a second unless told otherwise."""

    producers: PositiveInt = Field(default=2, description="producer processes")
    consumers: PositiveInt = Field(default=2, description="consumer processes")
    rate: NonNegativeFloat = Field(
        default=1000.0, description="messages per second of all producers together; 0 is as fast as possible"
    )
    topics: PositiveInt = Field(default=1, description="topics that are used at the same time")
    partitions: PositiveInt = Field(default=6, le=10_000, description=Settings.model_fields["partitions"].description)
    max_in_flight: PositiveInt | None = Field(
        default=5,  # confluent-kafka's own is a million: slow brokers then get ever more and ever smaller requests
        description=Settings.model_fields["max_in_flight"].description,
    )
    rotate: Duration | None = Field(
        default=None,
        gt=0,
        description="fresh topics all the time: how long each is used (default: the same ones throughout)",
    )

    def generation(self, number: int) -> list[TopicSpec]:
        """The topics of a generation; their numbers go on from one generation to the next."""
        suffix = f"-g{number}" if self.rotate else ""
        return [
            self.topic_spec(number * self.topics + index, f"stream-{index}{suffix}") for index in range(self.topics)
        ]

    def generation_at(self, time_ns: int, began: int) -> int:
        """Which generation is written to."""
        return max(0, int((time_ns - began) / 1e9 / self.rotate)) if self.rotate else 0

    def generations_read(self, current: int) -> range:
        """Which generations are read while this one is written to."""
        return range(max(0, current - GENERATIONS_READ + 1), current + 1)


class Stream(Workload[StreamSettings]):
    """Producers and consumers that go on until they are told to stop."""

    name = "stream"
    about = "producers and consumers side by side at a steady rate or flat out, over lasting or ever fresh topics"
    model = StreamSettings

    def topics(self, settings: StreamSettings) -> list[TopicSpec]:
        """Those of the first generation."""
        return settings.generation(0)

    def topics_in_use(self, settings: StreamSettings, time_ns: int, began: int) -> list[TopicSpec]:
        """Those that consumers read."""
        current = settings.generation_at(time_ns, began)
        return [topic for number in settings.generations_read(current) for topic in settings.generation(number)]

    def stages(self, settings: StreamSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        return [
            [
                Role(name, number, count, finite=False)
                for name, count in ((CONSUMER, settings.consumers), (PRODUCER, settings.producers))
                for number in range(count)
            ]
        ]

    def work(self, session: WorkerSession, settings: StreamSettings) -> None:
        """Produce or consume."""
        if session.config.role == PRODUCER:
            produce(session, settings)
        else:
            consume(session, settings)


WORKLOAD = Stream()


class Rotation:
    """The topics in use now, created when they are new."""

    def __init__(self, session: WorkerSession, settings: StreamSettings) -> None:
        self._session = session
        self._settings = settings
        self._known = {topic.number for topic in session.config.topics}
        self._admin: TopicAdmin | None = None

    def current(self) -> int:
        """The generation in use."""
        return self._settings.generation_at(now(), self._session.config.began)

    def topics(self, generation: int) -> list[TopicSpec]:
        """Its topics, which exist now as far as this worker could bring it about."""
        topics = self._settings.generation(generation)
        for topic in topics:
            if topic.number not in self._known:
                self._create(topic)
        return topics

    def _create(self, topic: TopicSpec) -> None:
        from kafka.errors import KafkaError

        from workloads.topics import TopicAdmin

        config, recorder = self._session.config, self._session.recorder
        recorder.topic(topic.number, topic.full_name(config.prefix))
        op = recorder.begin(F.CREATE, topic=topic.number)
        try:
            if self._admin is None:
                self._admin = TopicAdmin(self._session.addresses, self._session.security, self._session.client_id)
            self._admin.create(topic, config.prefix)
        except KafkaError as error:
            recorder.end(op, Type.INFO, topic=topic.number, detail=str(error))
            return  # tried again at the next use
        recorder.end(op, Type.OK, topic=topic.number, error=0)
        self._known.add(topic.number)

    def close(self) -> None:
        """Let go of the connection."""
        if self._admin is not None:
            self._admin.close()


def produce(session: WorkerSession, settings: StreamSettings) -> None:
    """Tick after tick until told to stop."""
    import numpy as np

    from workloads.pacing import send_in_ticks
    from workloads.producing import open_producer

    sender = open_producer(session, settings)
    rotation = Rotation(session, settings)
    first = session.config.number * settings.partitions // session.config.of  # each begins elsewhere

    def send(tick: int, count: int) -> None:
        topics = rotation.topics(rotation.current())
        topic = topics[(first + tick) % len(topics)]
        partition = (first + tick) // len(topics) % settings.partitions
        sender.send(topic.number, topic.full_name(session.config.prefix), np.full(count, partition))

    send_in_ticks(session, sender, settings.rate / session.config.of, send)
    rotation.close()


def consume(session: WorkerSession, settings: StreamSettings) -> None:
    """A share of all partitions until told to stop."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    rotation = Rotation(session, settings)
    following = -1
    while not session.control.stopped:
        generation = rotation.current()
        if generation != following:
            _follow(session, reader, rotation, settings.generations_read(generation))
            following = generation
        reader.poll()
    reader.consumer.close()
    rotation.close()


def _follow(session: WorkerSession, reader: RecordingConsumer, rotation: Rotation, generations: range) -> None:
    """Read this worker's share of these generations."""
    numbers: dict[str, int] = {}
    partitions: list[TopicPartition] = []
    for old in generations:
        for topic in rotation.topics(old):
            name = topic.full_name(session.config.prefix)
            numbers[name] = topic.number
            partitions += [(name, partition) for partition in range(topic.partitions)]
    reader.follow(numbers, [tp for index, tp in enumerate(partitions) if _mine(session, index)])


def _mine(session: WorkerSession, index: int) -> bool:
    return index % session.config.of == session.config.number
