"""Two client stacks, kafka-python and confluent-kafka, behind one small interface (`workloads.clients.base`)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.security import Security
from workloads.clients.base import ClientSettings, Consumer, Producer


def make_producer(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> Producer:
    """A producer of the stack that the settings name."""
    if settings.client == "kafka-python":
        from workloads.clients.kafka_python import KafkaPythonProducer

        return KafkaPythonProducer(settings, servers, security, client_id)
    from workloads.clients.confluent import ConfluentProducer

    return ConfluentProducer(settings, servers, security, client_id)


def make_consumer(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> Consumer:
    """A consumer of the stack that the settings name."""
    if settings.client == "kafka-python":
        from workloads.clients.kafka_python import KafkaPythonConsumer

        return KafkaPythonConsumer(settings, servers, security, client_id)
    from workloads.clients.confluent import ConfluentConsumer

    return ConfluentConsumer(settings, servers, security, client_id)
