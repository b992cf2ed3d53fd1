"""confluent-kafka: librdkafka, which is written in C, with the classic group protocol and that of KIP-848."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workloads.clients.stack import GROUP_PROTOCOLS, ClientStack, Quirks

if TYPE_CHECKING:
    from harness.foundation.security import Security
    from workloads.clients.base import Consumer, Producer
    from workloads.clients.member import GroupConsumer, Joining
    from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings
    from workloads.clients.transactional import TransactionalProducer


class ConfluentKafka(ClientStack):
    """The library as it is."""

    name = "confluent-kafka"
    packages = ("confluent-kafka",)
    in_flight = 1_000_000
    group_protocols = GROUP_PROTOCOLS
    transactions = True
    quirks = Quirks(resends_across_leaders=True, assumes_acks=True)

    def producer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Producer:
        """`confluent_kafka.Producer`."""
        from workloads.clients.confluent import ConfluentProducer

        return ConfluentProducer(settings, servers, security, client_id)

    def consumer(
        self, settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
    ) -> Consumer:
        """`confluent_kafka.Consumer`."""
        from workloads.clients.confluent import ConfluentConsumer

        return ConfluentConsumer(settings, servers, security, client_id)

    def member(
        self, settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
    ) -> GroupConsumer:
        """`confluent_kafka.Consumer`, subscribed."""
        from workloads.clients.confluent_group import ConfluentMember

        return ConfluentMember(settings, servers, security, client_id, joining)

    def transactional_producer(
        self,
        settings: TransactionalSettings,
        servers: Sequence[str],
        security: Security,
        client_id: str,
        transactional_id: str,
    ) -> TransactionalProducer:
        """`confluent_kafka.Producer` with a transactional id."""
        from workloads.clients.confluent_transactional import ConfluentTransactionalProducer

        return ConfluentTransactionalProducer(settings, servers, security, client_id, transactional_id)

    def versions(self) -> dict[str, str]:
        """Also that of the library in C."""
        import confluent_kafka

        return {**super().versions(), "librdkafka": confluent_kafka.libversion()[0]}


STACK = ConfluentKafka()
