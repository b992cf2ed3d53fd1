"""Whatever a node sends, the outcome is an answer or a WireError."""

from __future__ import annotations

import contextlib
import io
import itertools
import struct
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from harness.clusters.wire import METADATA_VERSION, NodeConnection, WireError


class Socket:
    """Gives prepared bytes, in pieces, and then the end."""

    def __init__(self, content: bytes, piece: int) -> None:
        self._content = io.BytesIO(content)
        self._piece = piece

    def sendall(self, _: bytes) -> None:
        """Taken as it is."""

    def recv(self, size: int) -> bytes:
        """At most so many bytes."""
        return self._content.read(min(size, self._piece))


def ask(content: bytes, piece: int) -> Any:
    """Metadata from a node that sends these bytes."""
    connection = NodeConnection.__new__(NodeConnection)
    vars(connection).update(address="h:1", _ids=itertools.count(1), _socket=Socket(content, piece))
    return connection.ask(MetadataRequest(topics=[]), MetadataResponse, METADATA_VERSION)


@given(st.binary(max_size=200), st.integers(1, 100))
def test_a_frame_of_anything(body: bytes, piece: int) -> None:
    """Well-framed nonsense is decoded to something or refused, and never ends in another error."""
    with contextlib.suppress(WireError):
        ask(struct.pack(">i", len(body)) + body, piece)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=20))
@example(2**31 - 1, b"")
@example(21, bytes(20))
def test_a_length_that_does_not_fit(size: int, body: bytes) -> None:
    """Too long, negative, or more than follows: all are refused."""
    assume(not 4 <= size <= len(body))
    with pytest.raises(WireError):
        ask(struct.pack(">i", size) + body, 3)
