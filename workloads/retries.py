"""Retries: the stream with impatient producers, whose answers are dropped and held back at the taps all the time.

The broker has written what the client does not hear of: so clients send again what is in the log already, many times a
second. Every other producer is idempotent, and of what it sends nothing may be there twice; the others are plain, and
what they sent again may be. With `idempotence` all are alike.

The rules of the taps are a part of the load: they begin with it, and bend nothing but the answers to its producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from workloads.base import PRODUCER, Role, TopicSpec, Workload
from workloads.clients.settings import IN_FLIGHT_WITH_IDEMPOTENCE
from workloads.stream import Stream, StreamSettings, consume, produce

if TYPE_CHECKING:
    from harness.tap.rules import Rule
    from workloads.session import WorkerSession

OF_PRODUCERS = "tidegauge-producer-*"  # by their client ids
DROPPED, LATE = "dropped answers", "late answers"  # what exchanges in the history were bent by
LATER_THAN_PATIENCE = 1.5
STREAM = Stream()


class RetriesSettings(StreamSettings):
    """Impatient: an answer that is not there after a second is not waited for."""

    producers: PositiveInt = Field(
        default=4, description="producer processes; the first, third, … number their batches unless idempotence is set"
    )
    drop: float = Field(
        default=0.1, ge=0, lt=1, description="share of the answers to producers that are dropped, with their connection"
    )
    late: float = Field(
        default=0.02, ge=0, lt=1, description="share of answers to producers that arrive after the client gave up"
    )
    request_timeout_ms: PositiveInt | None = Field(
        default=1000, description=StreamSettings.model_fields["request_timeout_ms"].description
    )
    delivery_timeout_ms: PositiveInt | None = Field(
        default=15_000, description=StreamSettings.model_fields["delivery_timeout_ms"].description
    )
    rate: NonNegativeFloat = Field(default=500.0, description=StreamSettings.model_fields["rate"].description)
    linger_ms: NonNegativeInt | None = Field(
        default=5, description=StreamSettings.model_fields["linger_ms"].description
    )


class Retries(Workload[RetriesSettings]):
    """Producers and consumers until they are told to stop, behind taps that lose answers."""

    name = "retries"
    about = "impatient producers, idempotent and plain, whose answers get lost, so that they send again and again"
    model = RetriesSettings

    def topics(self, settings: RetriesSettings) -> list[TopicSpec]:
        """As the stream has them."""
        return STREAM.topics(settings)

    def topics_in_use(self, settings: RetriesSettings, time_ns: int, began: int) -> list[TopicSpec]:
        """As the stream has them."""
        return STREAM.topics_in_use(settings, time_ns, began)

    def stages(self, settings: RetriesSettings, faults: int) -> list[list[Role]]:
        """As the stream has them."""
        return STREAM.stages(settings, faults)

    def idempotent(self, settings: RetriesSettings, role: Role) -> bool:
        """Every other producer, unless all are told alike or cannot be."""
        in_flight = settings.max_in_flight or IN_FLIGHT_WITH_IDEMPOTENCE
        if settings.idempotence is not None or role.name != PRODUCER:
            return settings.idempotent
        possible = settings.acks == "all" and in_flight <= IN_FLIGHT_WITH_IDEMPOTENCE and settings.retries != 0
        return possible and role.number % 2 == 0

    def tap_rules(self, settings: RetriesSettings) -> tuple[Rule, ...]:
        """Answers to producers are dropped, and held back for longer than they wait."""
        from harness.tap.rules import Rule

        by_s = LATER_THAN_PATIENCE * (settings.request_timeout_ms or settings.stack.request_timeout_ms) / 1000
        whose: dict[str, Any] = {"api": "Produce", "client": OF_PRODUCERS}
        rules = []
        if settings.drop:
            rules.append(Rule(name=DROPPED, action="drop-response", then="close", probability=settings.drop, **whose))
        if settings.late:
            rules.append(Rule(name=LATE, action="delay", side="response", by=by_s, probability=settings.late, **whose))
        return tuple(rules)

    def work(self, session: WorkerSession, settings: RetriesSettings) -> None:
        """Produce or consume."""
        if session.config.role == PRODUCER:
            produce(session, settings)
        else:
            consume(session, settings)


WORKLOAD = Retries()
