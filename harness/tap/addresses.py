"""Addresses in answers: clients that know one tap are told of taps only.

Metadata, FindCoordinator and DescribeCluster name brokers with their addresses, and so do newer answers of Produce and
Fetch when the leader is elsewhere. A broker that nobody knew gets a tap of its own. ApiVersions answers are limited to
the versions of these requests that can be read here: in a newer one addresses would pass unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.foundation.protocol import Api
from harness.tap.codec import CODECS, WITH_ADDRESSES, TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.tap.exchange import Exchange

ENDPOINTS_SINCE = {Api.PRODUCE: 10, Api.FETCH: 16}
CONTROLLERS = 2  # the kind of endpoints of DescribeCluster that are no business of clients
Locate = Callable[[int, str, int], tuple[str, int]]  # node, host, port -> host and port of its tap


def to_be_read(exchange: Exchange) -> bool:
    """Whether the answer has to be looked into before it goes to the client."""
    api = exchange.api
    if api in ENDPOINTS_SINCE:
        return exchange.version >= ENDPOINTS_SINCE[Api(api)]
    return api in WITH_ADDRESSES or api in {Api.API_VERSIONS, Api.CREATE_TOPICS}


def learn(exchange: Exchange, names: TopicNames) -> None:
    """The names of topics by their ids, where an answer has both."""
    if exchange.api in {Api.METADATA, Api.CREATE_TOPICS}:
        for topic in exchange.response.topics or ():
            names.learn(getattr(topic, "topic_id", None), topic.name)


@contextmanager
def rewritten(exchange: Exchange, locate: Locate) -> Iterator[bool]:
    """The response with the taps' addresses in it, inside the block; whether that changes anything."""
    response = exchange.response
    changes = _changes(exchange, response, locate)
    before = [(holder, field, getattr(holder, field)) for holder, field, _ in changes]
    for holder, field, value in changes:
        setattr(holder, field, value)
    try:
        yield bool(changes)
    finally:
        for holder, field, value in before:
            setattr(holder, field, value)


def _changes(exchange: Exchange, response: Any, locate: Locate) -> list[tuple[Any, str, Any]]:
    api = exchange.api
    if api == Api.API_VERSIONS:
        return _limits(response)
    if api == Api.FIND_COORDINATOR:
        return _moves([response, *(response.coordinators or ())], "node_id", locate)
    if api == Api.METADATA:
        return _moves(response.brokers or (), "node_id", locate)
    if api == Api.DESCRIBE_CLUSTER:
        controllers = getattr(response, "endpoint_type", None) == CONTROLLERS
        return [] if controllers else _moves(response.brokers or (), "broker_id", locate)
    if api in ENDPOINTS_SINCE:
        return _moves(response.node_endpoints or (), "node_id", locate)
    return []


def _moves(holders: Any, id_field: str, locate: Locate) -> list[tuple[Any, str, Any]]:
    changes = []
    for holder in holders:
        node, host, port = getattr(holder, id_field), holder.host, holder.port
        if node is None or node < 0 or not host or not port or port < 0:
            continue
        new_host, new_port = locate(node, host, port)
        changes += [(holder, "host", new_host), (holder, "port", new_port)]
    return changes


def _limits(response: Any) -> list[tuple[Any, str, Any]]:
    changes: list[tuple[Any, str, Any]] = []
    for api in response.api_keys or ():
        codec = CODECS.get(api.api_key)
        if codec and api.api_key in WITH_ADDRESSES and api.min_version <= codec.newest < api.max_version:
            changes.append((api, "max_version", codec.newest))
        if api.api_key == Api.SASL_HANDSHAKE and api.min_version == 0 < api.max_version:
            changes.append((api, "min_version", 1))  # after version 0 nothing on the connection is framed as requests
    return changes


def unreadable(exchange: Exchange) -> list[str]:
    """APIs of which a broker speaks only versions that nobody here can read, though they carry addresses."""
    if exchange.api != Api.API_VERSIONS:
        return []
    return [
        CODECS[api.api_key].name
        for api in exchange.response.api_keys or ()
        if api.api_key in WITH_ADDRESSES and api.min_version > CODECS[api.api_key].newest
    ]
