"""One node asked directly: every way it can fail to answer is a WireError."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from kafka.protocol.metadata import MetadataResponse

from harness.clusters import wire
from harness.clusters.wire import Metadata, NodeConnection, WireError, ask_metadata

Handler = Callable[[socket.socket], None]
Serve = Callable[[Handler], str]
Broker = MetadataResponse.MetadataResponseBroker


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that treats one connection as it is told; returns its address."""
    with contextlib.ExitStack() as stack:

        def start(handler: Handler) -> str:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def answer() -> None:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    handler(connection)

            thread = threading.Thread(target=answer)
            thread.start()
            stack.callback(thread.join)
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield start


def request(connection: socket.socket) -> bytes:
    """The request of the client, whole."""
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def says(answer: bytes) -> Handler:
    """A server that reads the request, sends these bytes and hangs up."""

    def handler(connection: socket.socket) -> None:
        request(connection)
        connection.sendall(answer)

    return handler


def framed(body: bytes) -> bytes:
    """With its length in front."""
    return struct.pack(">i", len(body)) + body


def a_response() -> bytes:
    """What a broker would say, framed."""
    response = MetadataResponse(
        version=wire.METADATA_VERSION,
        throttle_time_ms=0,
        brokers=[Broker(node_id=n, host=f"h{n}", port=9000 + n, rack=None) for n in (1, 2)],
        cluster_id="abc",
        controller_id=2,
        topics=[],
    )
    response.with_header(correlation_id=1)
    return bytes(response.encode(header=True, framed=True))


def test_an_answer_is_read(serve: Serve) -> None:
    """Cluster, controller and brokers, as that one node says."""
    assert ask_metadata(serve(says(a_response()))) == Metadata("abc", 2, {1: "h1:9001", 2: "h2:9002"})


def test_an_answer_in_pieces_is_read(serve: Serve) -> None:
    """TCP keeps no boundaries: an answer may come byte by byte."""

    def handler(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request(connection)
        for byte in a_response():
            connection.sendall(bytes([byte]))

    assert ask_metadata(serve(handler)).controller_id == 2


def test_the_request_is_one_metadata_request(serve: Serve) -> None:
    """Key 3, our version, first correlation id, our client id."""
    seen: list[bytes] = []

    def handler(connection: socket.socket) -> None:
        seen.append(request(connection))
        connection.sendall(a_response())

    ask_metadata(serve(handler))
    key, version, correlation_id, length = struct.unpack_from(">hhih", seen[0])
    assert (key, version, correlation_id) == (3, wire.METADATA_VERSION, 1)
    assert seen[0][10 : 10 + length] == b"tidegauge"


def test_nobody_listens() -> None:
    """A refused connection names the address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(WireError, match=f"{address} refuses connections"):
            ask_metadata(address)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(b"", "closed the connection", id="closes at once"),
        pytest.param(b"\x00\x00", "closed the connection", id="half a length"),
        pytest.param(framed(b"\x00\x00\x00\x01" + bytes(96))[:20], "closed the connection", id="half a frame"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the Kafka protocol", id="http"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak the Kafka protocol", id="ssh"),
        pytest.param(b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes", id="length bomb"),
        pytest.param(struct.pack(">i", wire.MAX_RESPONSE_BYTES + 1), "a frame of 67108865 bytes", id="just too long"),
        pytest.param(b"\xff\xff\xff\xff", "a frame of -1 bytes", id="negative length"),
        pytest.param(b"\x00\x00\x00\x00", "a frame of 0 bytes", id="empty frame"),
        pytest.param(framed(b"\x00\x00\x00\x01"), "cannot be understood", id="header only"),
        pytest.param(
            framed(b"\x00\x00\x00\x01" + b"\xff" * 40),
            "cannot be understood",
            id="null in place of an array",
        ),
        pytest.param(framed(b"\x00\x00\x00\x01" + b"\x00" * 4 + b"\x7f" * 60), "cannot be understood", id="array bomb"),
        pytest.param(a_response()[:-9] + b"\xff\xff", "closed the connection", id="cut off"),
    ],
)
def test_what_is_no_answer_is_a_wire_error(serve: Serve, answer: bytes, said: str) -> None:
    """Whatever comes back, it is an error that names the address and what was wrong, and never another one."""
    address = serve(says(answer))
    with pytest.raises(WireError, match=f"{address} .*{said}"):
        ask_metadata(address)


def test_a_node_that_says_nothing(serve: Serve) -> None:
    """A paused node accepts connections and is silent: that ends with the time-out."""
    done = threading.Event()

    def handler(connection: socket.socket) -> None:
        done.wait(60)

    address = serve(handler)
    try:
        with pytest.raises(WireError, match=f"{address} is silent: it accepts connections and does not answer"):
            ask_metadata(address, timeout_s=0.05)
    finally:
        done.set()


def test_a_reset_connection(serve: Serve) -> None:
    """A node that is killed in the middle resets its connections."""

    def handler(connection: socket.socket) -> None:
        request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    address = serve(handler)
    with pytest.raises(WireError, match=f"{address} does not answer"):
        ask_metadata(address)


def test_a_name_that_does_not_resolve() -> None:
    """`.invalid` never resolves."""
    with pytest.raises(WireError, match="refuses connections"):
        NodeConnection("no-such-host.invalid:9092")


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:http", ".:9092"])
def test_an_address_that_is_none_is_a_wire_error(address: str) -> None:
    """Addresses come from nodes and from files: a bad one is an answer that cannot be used, not a crash."""
    with pytest.raises(WireError):
        NodeConnection(address)
