"""The two ends of a connection: bytes in and out, waiting for each other, and how each comes to an end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from harness.tap.frames import BadFrame, FrameBudget, FrameReader, framed


class FrameHandler(Protocol):
    """What stands between the two."""

    def begin(self) -> None:
        """The client is there."""

    def take_request(self, frame: bytes) -> None:
        """From the client."""

    def take_response(self, frame: bytes) -> None:
        """From the broker."""

    def refuse(self, why: str) -> None:
        """No Kafka came."""

    def client_left(self) -> None:
        """The client is gone."""

    def broker_left(self, error: Exception | None) -> None:
        """The broker is gone."""

    def end(self, why: str) -> None:
        """Both sides are to end."""

    def other(self, side: Side) -> Side:
        """The opposite end."""


class Side(asyncio.Protocol):
    """One end of a connection: the client's or the broker's."""

    def __init__(self, connection: FrameHandler, at_most: int, budget: FrameBudget) -> None:
        self.connection = connection
        self.reader = FrameReader(at_most, budget)
        self.transport: asyncio.Transport | None = None
        self.gone = False
        self._reasons: set[str] = set()

    def write(self, frame: bytes) -> None:
        """Send a frame, unless nobody is there."""
        if self.transport is not None and not self.gone:
            self.transport.write(framed(frame))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio's interface."""
        assert isinstance(transport, asyncio.Transport), "asyncio promises it"
        self.transport = transport

    def pause_writing(self) -> None:
        """The other side has to wait: this one does not read."""
        self.connection.other(self).hold("writing", back=True)

    def resume_writing(self) -> None:
        """It reads again."""
        self.connection.other(self).hold("writing", back=False)

    def hold(self, why: str, *, back: bool) -> None:
        """Stop reading for a reason, or no longer for it; it reads when there is no reason left."""
        if (why in self._reasons) == back:
            return
        (self._reasons.add if back else self._reasons.discard)(why)
        if self.transport is not None and not self.gone:
            with suppress(RuntimeError):  # it is being closed
                (self.transport.pause_reading if self._reasons else self.transport.resume_reading)()

    def take(self, data: bytes, take: Callable[[bytes], None]) -> None:
        """Hand on the frames that are whole; what is no Kafka ends the connection."""
        try:
            frames, why = self.reader.feed(data), ""
        except BadFrame as error:
            frames, why = error.frames, str(error)
        for frame in frames:
            take(frame)
        if why:
            self.connection.refuse(why)

    def close(self, *, reset: bool = False) -> None:
        """End it; what was written still goes out unless it is reset."""
        self.gone = True
        self.reader.close()
        if self.transport is None:
            return
        if reset:
            with suppress(OSError):
                peer = self.transport.get_extra_info("socket")
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()


class ClientSide(Side):
    """Requests come from here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected."""
        super().connection_made(transport)
        self.hold("connecting", back=True)  # until there is a broker to pass it on to
        self.connection.begin()

    def data_received(self, data: bytes) -> None:
        """Pass on what is whole."""
        self.take(data, self.connection.take_request)

    def connection_lost(self, _error: Exception | None) -> None:
        """The client hung up, or we did."""
        self.gone = True
        self.reader.close()
        self.connection.client_left()


class BrokerSide(Side):
    """Responses come from here."""

    def data_received(self, data: bytes) -> None:
        """Pass on what is whole."""
        self.take(data, self.connection.take_response)

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing more will come."""
        self.gone = True
        self.reader.close()
        self.connection.broker_left(error)
