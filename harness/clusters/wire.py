"""One node asked directly: a blocking request and its response on a connection of its own.

Client libraries spread requests over the cluster and hide which node said what. Here the answer is that node's own.
"""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from harness.foundation import metadata_answer
from harness.foundation.error_codes import name_of
from harness.foundation.errors import one_line

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
METADATA_VERSION = 5
API_VERSIONS_VERSION = 0  # known to all, and read by all

Versions = Mapping[int, tuple[int, int]]  # oldest and newest, by the number of the API


class WireError(Exception):
    """The node did not answer, or not in the Kafka protocol."""


class TooMuch(WireError):
    """The node answered with more than is read, and will do so again."""


@dataclass(frozen=True)
class Metadata:
    """What one node says about the cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: dict[int, str]
    listed: tuple[tuple[int, str], ...] = field(default=(), compare=False)  # an id may come twice


class NodeConnection:
    """A connection to one node, for as long as it is needed."""

    def __init__(self, address: str, timeout_s: float = 5.0) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._ids = itertools.count(1)
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
        except TimeoutError as error:
            raise WireError(f"{address} is silent: no connection within {timeout_s:g} s") from error
        except OSError as error:
            raise WireError(f"{address} refuses connections ({error})") from error
        except ValueError as error:
            raise WireError(f"'{address}' is not an address ({error})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Any, response_class: Any, version: int) -> Any:
        """Send one request, wait for its response."""
        correlation_id = next(self._ids)
        request.API_VERSION = version
        request.with_header(correlation_id=correlation_id, client_id="tidegauge")
        try:
            self._socket.sendall(request.encode(header=True, framed=True))
            (size,) = struct.unpack(">i", self._read(4))
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise WireError(f"{self.address} does not speak the Kafka protocol (a frame of {size} bytes)")
            frame = self._read(size)
            if response_class is MetadataResponse and (why := metadata_answer.refusal(frame, version)):
                raise TooMuch(f"{self.address} gives {why}")
            return response_class.decode(frame, version=version, header=True)
        except TimeoutError as error:
            raise WireError(f"{self.address} is silent: it accepts connections and does not answer") from error
        except OSError as error:
            raise WireError(f"{self.address} does not answer ({error})") from error
        except (ValueError, TypeError, AttributeError, LookupError, struct.error) as error:
            raise WireError(f"{self.address} answers what cannot be understood ({one_line(error)})") from error

    def _read(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self._socket.recv(min(size - len(chunks), 65536))
            if not chunk:
                raise WireError(f"{self.address} closed the connection")
            chunks += chunk
        return bytes(chunks)


def ask_metadata(address: str, timeout_s: float = 5.0) -> Metadata:
    """The brokers and the controller, as this one node sees them."""
    with NodeConnection(address, timeout_s) as connection:
        answer = connection.ask(MetadataRequest(topics=[]), MetadataResponse, METADATA_VERSION)
    if answer.brokers is None:
        raise WireError(f"{address} answers what cannot be understood (no list of brokers)")
    listed = tuple((broker.node_id, address_of(broker.host, broker.port)) for broker in answer.brokers)
    return Metadata(answer.cluster_id, answer.controller_id, dict(listed), listed)


def ask_versions(address: str, timeout_s: float = 5.0) -> Versions:
    """The APIs that this one node offers, each with its oldest and newest version."""
    with NodeConnection(address, timeout_s) as connection:
        answer = connection.ask(ApiVersionsRequest(), ApiVersionsResponse, API_VERSIONS_VERSION)
    if answer.error_code:
        raise WireError(f"{address} answers ApiVersions with {name_of(answer.error_code)}")
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys or ()}


def address_of(host: str, port: int) -> str:
    """Host and port in one word."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
