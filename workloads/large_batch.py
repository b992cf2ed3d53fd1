"""The large batch: 5,000 messages as fast as possible into three partitions, and everything read back.

This is the test of the investigation notes, with their settings as defaults: kafka-python, acks=1, a consumer that
gives up after 60 s without a message, 500 records a poll. Message n goes to partition n % partitions, so that what
should have arrived where is known exactly.

Where a run has faults, the messages are cut into parts: one before the first fault, one during and one after each. A
part is sent when its cue comes, so that sends fall into each of these times whatever the machine's speed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from workloads.base import CONSUMER, PRODUCER, Role, Settings, TopicSpec, Workload
from workloads.clients.settings import Acks
from workloads.clients.stacks import ClientName

if TYPE_CHECKING:
    from workloads.session import WorkerSession

TOPIC = "batch"
CUE_S = 0.05
ASK_S = 5.0


class LargeBatchSettings(Settings):
    """The notes' own as defaults."""

    client: ClientName = Field(default="kafka-python", description=Settings.model_fields["client"].description)
    acks: Acks = Field(default="1", description=Settings.model_fields["acks"].description)
    messages: PositiveInt = Field(default=5000, description="messages to send, in all")
    consume: Literal["after", "beside"] | None = Field(
        default=None,
        description="whether messages are read after all were sent or meanwhile; unless said, after without faults"
        " and meanwhile with faults",
    )


class LargeBatch(Workload[LargeBatchSettings]):
    """One producer, one consumer, one topic."""

    name = "large-batch"
    about = "5,000 messages as fast as possible into three partitions, and everything read back"
    model = LargeBatchSettings

    def topics(self, settings: LargeBatchSettings) -> list[TopicSpec]:
        """One."""
        return [settings.topic_spec(0, TOPIC)]

    def stages(self, settings: LargeBatchSettings, faults: int) -> list[list[Role]]:
        """The consumer after the producer, or beside it."""
        producer, consumer = Role(PRODUCER, parts=2 * faults + 1), Role(CONSUMER)
        consume = settings.consume or ("beside" if faults else "after")
        return [[producer, consumer]] if consume == "beside" else [[producer], [consumer]]

    def work(self, session: WorkerSession, settings: LargeBatchSettings) -> None:
        """Produce or consume."""
        if session.config.role == PRODUCER:
            produce(session, settings)
        else:
            consume(session, settings)


WORKLOAD = LargeBatch()


def produce(session: WorkerSession, settings: LargeBatchSettings) -> None:
    """Part after part, each at its cue."""
    import numpy as np

    from workloads.producing import DRAIN_S, open_producer

    sender = open_producer(session, settings)
    (topic,) = session.config.topics
    name = topic.full_name(session.config.prefix)
    parts = session.config.parts
    bounds = [settings.messages * part // parts for part in range(parts + 1)]
    for part in range(parts):
        while session.control.cue < part and not session.control.stopped:
            session.status.detail = f"part {part + 1} of {parts} waits for its cue"
            sender.drain(0)
            session.control.wait(CUE_S)
        session.status.detail = f"part {part + 1} of {parts}" if parts > 1 else ""
        for start in range(bounds[part], bounds[part + 1], sender.chunk):
            if session.control.stopped:
                break
            end = min(start + sender.chunk, bounds[part + 1])
            sender.send(topic.number, name, np.arange(start, end) % settings.partitions)
            sender.drain(0)
            sender.make_room()
        sender.drain(DRAIN_S)
    sender.finish()


def consume(session: WorkerSession, settings: LargeBatchSettings) -> None:
    """Everything from the start: until all acknowledged is read and the ends are reached, or nothing comes any more."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    (topic,) = session.config.topics
    name = topic.full_name(session.config.prefix)
    partitions = [(name, partition) for partition in range(settings.partitions)]
    reader.follow({name: topic.number}, partitions)
    last_at: float | None = None  # the last arrival since it is known how much there is to read
    while not session.control.stopped:
        arrived = reader.poll().payloads
        acked, now = session.control.acked, time.monotonic()
        if acked is None:
            continue
        if arrived or last_at is None:
            last_at = now
        if session.status.read >= acked:
            ends = reader.consumer.end_offsets(partitions, ASK_S)
            if all((reader.consumer.position(tp) or 0) >= ends.get(tp, 1 << 62) for tp in partitions):
                break
        if not arrived and (now - last_at) * 1000 >= settings.consumer_timeout_ms:
            session.status.detail = (
                f"gave up after {now - last_at:.0f} s without a record: {session.status.read:,} of {acked:,} read"
            )
            break
    reader.consumer.close()
