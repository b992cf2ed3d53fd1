"""Client libraries behind one small interface (`.base`): each is a stack (`.stack`), found by its name (`.stacks`)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.foundation.security import Security
from workloads.clients.base import Consumer, Producer
from workloads.clients.member import GroupConsumer, Joining
from workloads.clients.settings import ClientSettings, GroupSettings, TransactionalSettings
from workloads.clients.transactional import TransactionalProducer


def make_producer(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> Producer:
    """A producer of the stack that the settings name."""
    return settings.stack.producer(settings, servers, security, client_id)


def make_consumer(settings: ClientSettings, servers: Sequence[str], security: Security, client_id: str) -> Consumer:
    """A consumer of the stack that the settings name."""
    return settings.stack.consumer(settings, servers, security, client_id)


def make_member(
    settings: GroupSettings, servers: Sequence[str], security: Security, client_id: str, joining: Joining
) -> GroupConsumer:
    """A member of a group, not yet joined, of the stack that the settings name."""
    return settings.stack.member(settings, servers, security, client_id, joining)


def make_transactional_producer(
    settings: TransactionalSettings, servers: Sequence[str], security: Security, client_id: str, transactional_id: str
) -> TransactionalProducer:
    """An instance of this transactional id, of the stack that the settings name."""
    return settings.stack.transactional_producer(settings, servers, security, client_id, transactional_id)
