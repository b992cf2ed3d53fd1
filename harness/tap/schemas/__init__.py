"""Messages of Kafka's protocol that kafka-python has no codec for: KIP-848's heartbeat."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
    """What a member tells: it is there, what it wants, what it has."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=__name__):  # type: ignore[misc,call-arg]
    """What the group tells: the epoch of the member, what it is to have."""
