"""Settings of a scenario as Java's clients call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.foundation.security import Security
from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings

RECONNECT_AT_MOST_MS = 500  # the library's own second would make every fault look longer
BYTES = "org.apache.kafka.common.serialization.ByteArray"
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def _connection(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(servers),
        "client.id": client_id,
        "reconnect.backoff.max.ms": RECONNECT_AT_MOST_MS,
        "request.timeout.ms": settings.request_timeout_ms,
        "metadata.max.age.ms": settings.metadata_age_ms,
        "enable.metrics.push": False,  # telemetry would be traffic that no scenario asks for
        **security.java(),
    }


def producer_options(
    settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
) -> dict[str, Any]:
    """Of a producer."""
    options = _connection(settings, servers, security, client_id) | {
        "key.serializer": f"{BYTES}Serializer",
        "value.serializer": f"{BYTES}Serializer",
        "acks": settings.acks,
        "enable.idempotence": settings.idempotent,
        "retries": settings.retries,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
        "max.in.flight.requests.per.connection": settings.max_in_flight,
        "linger.ms": settings.linger_ms,
        "batch.size": settings.batch_size,
        "compression.type": settings.compression,
        "max.block.ms": int(settings.block_at_most_s * 1000),
    }
    if settings.delivery_timeout_ms is not None and settings.request_timeout_ms is None:
        # the library wants a delivery to have time for one request
        lingers_ms = 5 if settings.linger_ms is None else settings.linger_ms
        options["request.timeout.ms"] = max(1, min(30_000, settings.delivery_timeout_ms - lingers_ms))
    return options


def transactional_options(
    settings: TransactionalSettings, servers: Sequence[str], security: Security, client_id: str, transactional_id: str
) -> dict[str, Any]:
    """Of a producer with a transactional id."""
    return producer_options(settings, servers, security, client_id) | {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "max.block.ms": int(min(settings.transaction_timeout_ms / 1000, settings.block_at_most_s) * 1000),
    }


def consumer_options(
    settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str
) -> dict[str, Any]:
    """Of a consumer."""
    return _connection(settings, servers, security, client_id) | {
        "key.deserializer": f"{BYTES}Deserializer",
        "value.deserializer": f"{BYTES}Deserializer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "max.poll.records": settings.max_poll_records,
        "isolation.level": settings.isolation_level,
        "client.rack": settings.client_rack,
    }


def member_options(
    settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str
) -> dict[str, Any]:
    """Of a member of a group; with the newer protocol, brokers decide what members decide with the classic one."""
    options = consumer_options(settings, servers, security, client_id) | {
        "group.protocol": settings.group_protocol,
        "auto.commit.interval.ms": settings.auto_commit_interval_ms,
    }
    if settings.group_protocol == "consumer":
        return options | {"group.remote.assignor": settings.assignor}
    assignor = settings.assignor and f"org.apache.kafka.clients.consumer.{ASSIGNORS[settings.assignor]}"
    return options | {
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 4,
        "partition.assignment.strategy": assignor,
    }
