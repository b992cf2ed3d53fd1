"""java: Apache Kafka's own clients, in the worker's process, with the classic group protocol and that of KIP-848."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.clusters.client_archives import VERSION, ensure_client_jars
from harness.foundation.java import find_java
from workloads.clients.stack import GROUP_PROTOCOLS, ClientStack, Quirks

if TYPE_CHECKING:
    from harness.foundation.progress import Progress
    from harness.foundation.security import Security
    from workloads.clients.base import Consumer, Producer
    from workloads.clients.member import GroupConsumer, Joining
    from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings
    from workloads.clients.transactional import TransactionalProducer


class Java(ClientStack):
    """The reference."""

    name = "java"
    packages = ("jpype1",)
    idempotent_by_default = True
    in_flight = 5
    group_protocols = GROUP_PROTOCOLS
    transactions = True
    quirks = Quirks()

    def prepare(self, progress: Progress) -> None:
        """Find a Java that can be loaded, and fetch the archives: a worker would fail without them."""
        from workloads.clients.java.machine import library_of

        library_of(find_java())
        ensure_client_jars(progress)

    def producer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Producer:
        """`KafkaProducer`."""
        from workloads.clients.java.producer import JavaProducer

        return JavaProducer(settings, servers, security, client_id)

    def consumer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Consumer:
        """`KafkaConsumer`."""
        from workloads.clients.java.consumer import JavaConsumer

        return JavaConsumer(settings, servers, security, client_id)

    def member(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> GroupConsumer:
        """`KafkaConsumer`, subscribed."""
        from workloads.clients.java.member import JavaMember

        return JavaMember(settings, servers, security, client_id, joining)

    def transactional_producer(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> TransactionalProducer:
        """`KafkaProducer` with a transactional id."""
        from workloads.clients.java.transactional import JavaTransactionalProducer

        return JavaTransactionalProducer(settings, servers, security, client_id, transactional_id)

    def versions(self) -> dict[str, str]:
        """Also that of the clients."""
        return {**super().versions(), "kafka-clients": VERSION}


STACK = Java()
