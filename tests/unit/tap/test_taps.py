"""The runner's side of the taps: started, replaced when they die, given up when that does not help."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.foundation.children import Child
from harness.foundation.errors import TidegaugeError
from harness.history.schema import FIRST_TAP
from harness.history.sources import segment_path
from harness.tap import taps as taps_module
from harness.tap.process import TapConfig, Upstream
from harness.tap.rules import Rule
from harness.tap.taps import Taps
from tests.support import eventually

NOBODY = "127.0.0.1:1"


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def taps(tmp_path: Path, port: int) -> Iterator[Taps]:
    """One tap before a broker that is not there."""
    (tmp_path / "segments").mkdir()
    upstream = Upstream(node=7, address=NOBODY, port=port)

    def config(process: int) -> TapConfig:
        return TapConfig(process=process, segment=segment_path(tmp_path, process), upstreams=(upstream,))

    started: list[int] = []
    made = Taps(config, {}, tmp_path / "logs", started.append)
    yield made
    made.stop(0)
    assert started == [FIRST_TAP + number for number in range(len(started))]


def connect(taps: Taps) -> bool:
    """Whether a client finds the tap; it is cut off, because the broker is not there."""
    host, _, port = taps.address(7).partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as client:
            return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except OSError:
        return False


def kill(child: Child) -> None:
    """And wait for its end."""
    child.popen.kill()
    child.popen.wait()


def test_a_tap_listens_where_it_was_told_and_ends_in_order(taps: Taps, port: int) -> None:
    """Clients of a broker that is down are cut off, not left waiting."""
    taps.prepare()
    taps.start()
    assert taps.address(7) == f"127.0.0.1:{port}"
    assert connect(taps)
    taps.stop()
    assert (taps.deaths, taps.troubles, taps.lost) == ([], [], False)
    assert taps.counts["connections"] == 1


def test_a_tap_that_dies_is_replaced_in_its_place(taps: Taps, port: int) -> None:
    """At the same address, with a word about what was missed."""
    taps.prepare()
    taps.start()
    kill(taps.current)
    (sentence,) = taps.watch()
    assert "the tap ended with SIGKILL" in sentence
    assert taps.watch() == []
    assert taps.address(7) == f"127.0.0.1:{port}"
    assert connect(taps)
    taps.stop()
    assert (taps.deaths, taps.lost) == ([sentence], False)


def test_a_tap_that_was_stopped_is_replaced(taps: Taps, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep every client waiting, and never be missed."""
    taps.prepare()
    taps.start()
    stopped = taps.current
    os.kill(stopped.popen.pid, signal.SIGSTOP)
    eventually(lambda: psutil.Process(stopped.popen.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    stopped.hear()
    stopped.heard_at_s -= taps_module.SILENT_S + 1
    (sentence,) = taps.watch()
    assert sentence.startswith("the tap ended with SIGKILL (it had said nothing for 21 s)")
    assert stopped.over
    assert connect(taps)
    taps.stop()
    assert taps.deaths == [sentence]


def test_a_stopped_tap_is_not_waited_for_at_the_end(taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, and the recording is not called whole."""
    taps.prepare()
    taps.start()
    os.kill(taps.current.popen.pid, signal.SIGSTOP)
    taps.stop(0.1)
    assert taps.deaths == ["the tap ended with SIGKILL, not in order"]


def test_a_tap_that_dies_again_and_again_is_given_up(taps: Taps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it any more."""
    monkeypatch.setattr(taps_module, "REPLACED_AT_MOST", 1)
    taps.prepare()
    taps.start()
    for _ in range(2):
        kill(taps.current)
        taps.watch()
    assert taps.lost
    assert "died too often" in taps.deaths[-1]
    assert taps.watch() == []


def test_a_port_in_use_is_said(taps: Taps, port: int) -> None:
    """With what the system says."""
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", port))
        squatter.listen(1)
        taps.prepare()
        with pytest.raises(TidegaugeError, match=r"could not be started.*in use"):
            taps.start()


def test_what_is_not_understood_is_told(taps: Taps) -> None:
    """A rule that makes no sense is a trouble that the verdict hears of; a good one is taken."""
    taps.prepare()
    taps.start()
    taps.current.tell({"bend": {"api": "Produce", "action": "dance"}})
    eventually(lambda: taps.watch() == [] and len(taps.troubles) == 1, "it says so")
    assert "'action' cannot be" in taps.troubles[0]
    for number in range(100):
        taps.bend(Rule(name=f"rule {number}", api="Produce", action="close"))
    taps.release("rule 1")
    taps.unbend("rule 2")
    eventually(lambda: taps.watch() == [] and len(taps.current.rules) == 99, "they are there, but for one")
    assert taps.current.idle == [], "they are no rules of the scenario"
    kill(taps.current)
    assert len(taps.watch()) == 1, "the next one is told the same"
    taps.stop()
    assert len(taps.troubles) == 1
