"""kafka-python: written in Python, numbers its batches unless told otherwise, knows the classic group protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workloads.clients.stack import ClientStack, Quirks

if TYPE_CHECKING:
    from harness.foundation.security import Security
    from workloads.clients.base import Consumer, Producer
    from workloads.clients.member import GroupConsumer, Joining
    from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings
    from workloads.clients.transactional import TransactionalProducer


class KafkaPython(ClientStack):
    """The library as it is."""

    name = "kafka-python"
    packages = ("kafka-python",)
    idempotent_by_default = True
    in_flight = 5
    compressions = ("none", "gzip")  # the others need packages that are not installed here
    group_protocols = ("classic",)
    transactions = True
    quirks = Quirks(keeps_positions=True)

    def producer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Producer:
        """`KafkaProducer`."""
        from workloads.clients.kafka_python import KafkaPythonProducer

        return KafkaPythonProducer(settings, servers, security, client_id)

    def consumer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Consumer:
        """`KafkaConsumer`."""
        from workloads.clients.kafka_python import KafkaPythonConsumer

        return KafkaPythonConsumer(settings, servers, security, client_id)

    def member(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> GroupConsumer:
        """`KafkaConsumer`, subscribed."""
        from workloads.clients.kafka_python_group import KafkaPythonMember

        return KafkaPythonMember(settings, servers, security, client_id, joining)

    def transactional_producer(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> TransactionalProducer:
        """`KafkaProducer` with a transactional id."""
        from workloads.clients.kafka_python_transactional import KafkaPythonTransactionalProducer

        return KafkaPythonTransactionalProducer(settings, servers, security, client_id, transactional_id)


STACK = KafkaPython()
