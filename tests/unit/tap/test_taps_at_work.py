"""Taps in a process of their own, with clients and a broker that are there: what faults do with them."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.history.sources import segment_path
from harness.tap import codec
from harness.tap.frames import framed
from harness.tap.process import TapConfig, Upstream
from harness.tap.rules import Rule
from harness.tap.taps import Taps
from tests.support import REPOSITORY, eventually
from tests.support.tap_wire import replied, send

PATIENCE_S = 60
NODE = 7


def frame_from(connection: socket.socket) -> bytes:
    """The next whole frame; nothing at the end."""
    stream = connection.makefile("rb", buffering=0)
    with stream:
        length = stream.read(4) or b""
        content = b""
        while len(length) == 4 and len(content) < int.from_bytes(length):
            content += stream.read(int.from_bytes(length) - len(content)) or b""
        return content


class Honest(socketserver.BaseRequestHandler):
    """The broker's side of a connection."""

    def handle(self) -> None:
        """Answer until it is over."""
        with contextlib.suppress(OSError):
            while frame := frame_from(self.request):
                self.request.sendall(framed(replied(frame) or b""))


@pytest.fixture
def broker() -> Iterator[int]:
    """The port of an honest broker."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Honest) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


Start = Callable[..., Taps]


@pytest.fixture
def start(tmp_path: Path, broker: int) -> Iterator[Start]:
    """Taps with these rules from the beginning."""
    made: list[Taps] = []

    def start_them(*rules: Rule, later: Rule | None = None) -> Taps:
        (tmp_path / "segments").mkdir()
        upstreams = (Upstream(node=NODE, address=f"127.0.0.1:{broker}"),)

        def config(process: int) -> TapConfig:
            return TapConfig(process=process, segment=segment_path(tmp_path, process), upstreams=upstreams, rules=rules)

        taps = Taps(config, {}, tmp_path / "logs", lambda _: None)
        made.append(taps)
        taps.prepare()
        if later is not None:
            taps.bend(later)
        taps.start()
        return taps

    yield start_them
    for taps in made:
        taps.stop()
        assert taps.troubles == []


@contextlib.contextmanager
def client_of(address: str) -> Iterator[socket.socket]:
    """A client of the tap."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as client:
        yield client


def exchange(taps: Taps, *numbers: int) -> list[int]:
    """Send these at once; the numbers of the answers."""
    with client_of(taps.address(NODE)) as client:
        client.sendall(b"".join(framed(send(number)) for number in numbers))
        return [codec.correlation_of(frame_from(client)) for _ in numbers]


def test_what_a_rule_bent_stays_known(start: Start) -> None:
    """After it was taken back, and after the process died that knew of it; only the scenario's own rules are idle."""
    taps = start(Rule(name="own", api="Heartbeat", action="close"))
    slow = Rule(name="slow", api="Produce", action="delay", by=0.001)
    taps.bend(slow)
    taps.bend(Rule(name="never", api="Heartbeat", action="close"))
    assert exchange(taps, 1, 2, 3) == [1, 2, 3]
    eventually(lambda: taps.acted("slow") == 3, "it says so, and nobody has to watch it")
    taps.unbend("slow")
    assert exchange(taps, 4) == [4]
    eventually(lambda: not taps.is_bent("slow"), "the rule is gone")
    assert (taps.acted("slow"), taps.acted("never"), taps.acted("who")) == (3, 0, 0)
    taps.current.popen.kill()
    taps.current.popen.wait()
    assert taps.is_bent("never"), "the next one will be told"
    assert not taps.is_bent("slow")
    assert len(taps.watch()) == 1
    assert taps.is_bent("never"), "it was told"
    assert taps.acted("slow") == 3
    taps.bend(slow)
    assert exchange(taps, 5) == [5]
    eventually(lambda: taps.acted("slow") == 4, "both together")
    taps.stop()
    assert taps.current.idle == ["own"]
    assert taps.acted("slow") == 4
    assert not taps.is_bent("never")


def test_a_rule_that_came_before_the_start(start: Start) -> None:
    """Is there from the first exchange on."""
    taps = start(later=Rule(name="early", api="Produce", action="delay", by=0.001))
    assert exchange(taps, 1) == [1]
    eventually(lambda: taps.acted("early") == 1, "it was told at the start")


def test_a_rule_takes_the_place_of_one_of_its_name(start: Start) -> None:
    """An exchange is bent by one of them, and what the first one held goes on."""
    taps = start()
    taps.bend(Rule(name="same", api="Produce", action="hold"))
    with client_of(taps.address(NODE)) as client:
        client.sendall(framed(send(1)))
        eventually(lambda: taps.acted("same") == 1, "it is held")
        taps.bend(Rule(name="same", api="Produce", action="delay", by=0.001))
        assert codec.correlation_of(frame_from(client)) == 1
    assert exchange(taps, 2) == [2]
    eventually(lambda: taps.acted("same") == 2, "each once")
    taps.unbend("same")
    eventually(lambda: not taps.is_bent("same"), "none is left")


@pytest.mark.parametrize("side", ["request", "response"])
@pytest.mark.parametrize("let_go", [Taps.release, Taps.unbend])
def test_what_is_held_goes_on_in_its_order(start: Start, side: str, let_go: Callable[[Taps, str], None]) -> None:
    """Whether the rule is released or taken back; a name that nobody knows lets nothing go."""
    taps = start()
    taps.bend(Rule.model_validate({"name": "held", "api": "Produce", "action": "hold", "side": side, "nth": 1}))
    with client_of(taps.address(NODE)) as client:
        client.sendall(b"".join(framed(send(number)) for number in (1, 2, 3)))
        eventually(lambda: taps.acted("held") == 1, "it is held")
        taps.release("nobody")
        taps.unbend("nobody")
        client.setblocking(False)  # noqa: FBT003 - socket's own interface
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        let_go(taps, "held")
        assert [codec.correlation_of(frame_from(client)) for _ in range(3)] == [1, 2, 3]
    assert exchange(taps, 4) == [4]


def test_what_is_slow_need_not_wait_any_longer(start: Start) -> None:
    """When the rule is taken back that delays it by more than anybody's patience."""
    taps = start()
    taps.bend(Rule(name="slow", api="Produce", action="delay", by=10 * PATIENCE_S))
    with client_of(taps.address(NODE)) as client:
        client.sendall(framed(send(1)))
        eventually(lambda: taps.acted("slow") == 1, "it waits")
        taps.unbend("slow")
        assert codec.correlation_of(frame_from(client)) == 1


def test_batches_that_come_again(start: Start) -> None:
    """Are counted for the rule that lost their answers."""
    taps = start()
    taps.bend(Rule(name="lost", api="Produce", action="drop-response", then="close", times=2))
    for _ in range(2):
        with client_of(taps.address(NODE)) as client:
            client.sendall(framed(send(1)))
            assert frame_from(client) == b""
    assert exchange(taps, 1) == [1]
    eventually(lambda: taps.resent("lost") == 2, "each time it was lost it came again")
    assert exchange(taps, 1) == [1]
    taps.unbend("lost")
    eventually(lambda: not taps.is_bent("lost"), "it is gone")
    assert (taps.resent("lost"), taps.resent("who")) == (2, 0)


def test_two_threads(start: Start) -> None:
    """One watches, one bends: each rule comes and goes as it should."""
    taps = start()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            taps.watch()

    watching = threading.Thread(target=watch)
    watching.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(300):
            taps.bend(Rule(name=f"rule {number}", api="Produce", action="close"))
            if number != 150:
                taps.unbend(f"rule {number}")
    finally:
        sys.setswitchinterval(before)
        over.set()
        watching.join()
    eventually(lambda: not taps.is_bent("rule 299"), "all is said")
    assert taps.current.rules == ["rule 150"]


HARNESS = """
import sys, time
from pathlib import Path
from harness.tap.process import TapConfig, Upstream
from harness.tap.rules import Rule
from harness.tap.taps import Taps

directory, broker = Path(sys.argv[1]), sys.argv[2]
taps = Taps(
    lambda process: TapConfig(
        process=process, segment=directory / "segment", upstreams=(Upstream(node=7, address="127.0.0.1:" + broker),)
    ),
    {}, directory, lambda number: None,
)
taps.prepare()
taps.start()
taps.bend(Rule(name="held", api="Produce", action="hold"))
print(taps.address(7), flush=True)
while not taps.acted("held"):
    time.sleep(0.01)
print("held", flush=True)
time.sleep(600)
"""


def test_held_connections_end_with_the_harness(tmp_path: Path, broker: int) -> None:
    """However it dies: the tap notices, ends them, and listens no longer."""
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, tmp_path, str(broker)], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    try:
        assert harness.stdout is not None
        address = harness.stdout.readline().strip()
        with client_of(address) as client:
            client.sendall(framed(send(1)))
            assert harness.stdout.readline() == "held\n"
            harness.kill()
            assert client.recv(1) == b""
    finally:
        harness.kill()
        harness.communicate()
    eventually(lambda: is_refused(address), "nobody listens any more")


def is_refused(address: str) -> bool:
    """Whether no tap is there."""
    try:
        with client_of(address):
            return False
    except ConnectionRefusedError:
        return True
