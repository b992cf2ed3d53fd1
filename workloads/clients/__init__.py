"""Two client stacks, kafka-python and confluent-kafka, behind one small interface (`workloads.clients.base`)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.security import Security
from workloads.clients.base import ClientSettings, Consumer, Producer
from workloads.clients.grouped import GroupConsumer, GroupSettings, Joining
from workloads.clients.transactional import TransactionalProducer, TransactionalSettings


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


def make_member(
    settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
) -> GroupConsumer:
    """A member of a group, not yet joined, of the stack that the settings name."""
    if settings.client == "kafka-python":
        from workloads.clients.kafka_python_group import KafkaPythonMember

        return KafkaPythonMember(settings, servers, security, client_id, joining)
    from workloads.clients.confluent_group import ConfluentMember

    return ConfluentMember(settings, servers, security, client_id, joining)


def make_transactional_producer(
    settings: TransactionalSettings, servers: Sequence[str], security: Security, client_id: str, transactional_id: str
) -> TransactionalProducer:
    """An instance of this transactional id, of the stack that the settings name."""
    if settings.client == "kafka-python":
        from workloads.clients.kafka_python_transactional import KafkaPythonTransactionalProducer

        return KafkaPythonTransactionalProducer(settings, servers, security, client_id, transactional_id)
    from workloads.clients.confluent_transactional import ConfluentTransactionalProducer

    return ConfluentTransactionalProducer(settings, servers, security, client_id, transactional_id)
