"""Exactly once: what is fed into one topic comes out of another, each record once, whatever happens in between.

Feeders write to `input`. Transformers are members of one group: each reads a batch, sends one record for each that it
read to the same partition of `output`, has the positions committed with them, and all of that is one transaction. An
output carries the value of its input as its source. Readers follow `output`. Everybody reads what is committed only.

Transformers are disturbed on purpose: they abort, they go away in mid-transaction and come back (the producer alone,
whose next instance takes over; the consumer alone, so that a transaction is ended by one that is no member any more;
both), and the harness kills and pauses them. After a transaction that did not commit, a transformer asks the group
where to go on, and goes back there. A transaction with work on a partition that the group takes away is aborted, and so
is one whose outputs were not delivered in time for its positions.

When the load ends, transformers go on until the group has committed the end of every partition of `input`, for as long
as `drain` allows, and ask the group a last time where it is. So in the end: every acknowledged input is the source of
exactly one committed output; in each partition outputs have the order of their inputs; and the group's offset is the
one after the last input whose output is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.base import (
    CONSUMER,
    PRODUCER,
    Churn,
    Role,
    TopicSpec,
    Workload,
)
from workloads.exactly_once_settings import INPUT, OUTPUT, ExactlyOnceSettings
from workloads.transforming import Transformer

if TYPE_CHECKING:
    from workloads.session import WorkerSession


FEED, TRANSFORM, READ = "feed", "transform", "read"


class ExactlyOnce(Workload[ExactlyOnceSettings]):
    """Consume, transform, produce."""

    name = "exactly-once"
    about = "records read, transformed and written again in transactions with their offsets, by members who come and go"
    model = ExactlyOnceSettings

    def topics(self, settings: ExactlyOnceSettings) -> list[TopicSpec]:
        """One in, one out."""
        return [settings.topic_spec(INPUT, "input"), settings.topic_spec(OUTPUT, "output")]

    def stages(self, settings: ExactlyOnceSettings, faults: int) -> list[list[Role]]:  # noqa: ARG002 - the same with faults
        """One stage without an end of its own."""
        consumers = [TRANSFORM] * settings.transformers + [READ] * settings.consumers
        producers = [FEED] * settings.producers
        return [
            [
                Role(name, number, len(tasks), finite=False, task=task)
                for name, tasks in ((CONSUMER, consumers), (PRODUCER, producers))
                for number, task in enumerate(tasks)
            ]
        ]

    def isolation(self, settings: ExactlyOnceSettings, role: Role) -> str:  # noqa: ARG002 - the same for all
        """Nobody acts on what may be aborted."""
        return "read_committed"

    def in_group(self, settings: ExactlyOnceSettings, role: Role) -> bool:  # noqa: ARG002 - however it is set up
        """Transformers are."""
        return role.task == TRANSFORM

    def reads_raw(self, settings: ExactlyOnceSettings) -> bool:  # noqa: ARG002 - always
        """What was aborted is in the logs as well."""
        return True

    def churn(self, settings: ExactlyOnceSettings) -> Churn | None:
        """Crashes, and pauses past the session."""
        return Churn(settings.churn_every, pause_s=settings.pause_s) if settings.churn_every else None

    def work(self, session: WorkerSession, settings: ExactlyOnceSettings) -> None:
        """By task."""
        if session.config.task == FEED:
            from workloads.pacing import feed

            feed(session, settings, settings.rate, session.config.topics[INPUT])
        elif session.config.task == TRANSFORM:
            Transformer(session, settings).run()
        else:
            read(session, settings)


WORKLOAD = ExactlyOnce()


def read(session: WorkerSession, settings: ExactlyOnceSettings) -> None:
    """Follow a share of the output until told to stop."""
    from workloads.consuming import open_consumer

    reader = open_consumer(session, settings)
    name = session.config.topics[OUTPUT].full_name(session.config.prefix)
    number = session.config.number - settings.transformers  # among the readers
    reader.follow({name: OUTPUT}, [(name, each) for each in range(number, settings.partitions, settings.consumers)])
    while not session.control.stopped:
        reader.poll()
    reader.consumer.close()
