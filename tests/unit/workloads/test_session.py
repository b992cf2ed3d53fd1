"""What the runner tells a worker, and what the worker tells it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from workloads import session as module
from workloads.session import Control, WorkerStatus


def test_control_heeds_what_it_knows() -> None:
    """Cues only rise; the rest is taken as it comes."""
    control = Control()
    for line in (b'{"cue": 2}', b'{"cue": 1}', b'{"acked": 7}'):
        control.take(line)
    assert (control.cue, control.acked, control.stopped) == (2, 7, False)
    control.take(b'{"stop": true}')
    assert control.stopped


def test_who_is_told_to_leave_stops_and_waits_for_nothing() -> None:
    """As if the runner were gone."""
    control = Control()
    control.take(b'{"stop": true, "leave": true}')
    assert control.stopped
    assert control.gone


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b'"x"', b"\xff\xfe", b'{"cue": "many"}', b'{"other": 1}'])
def test_control_leaves_alone_what_it_does_not_know(line: bytes) -> None:
    """A worker does not fall over a line."""
    control = Control()
    control.take(line)
    assert (control.cue, control.acked, control.stopped) == (0, None, False)


def test_the_first_line_may_come_in_pieces_and_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe keeps no lines together."""
    pieces = iter([b"con", b'fig\n{"cue"', b": 3}\n", b""])
    monkeypatch.setattr(os, "read", lambda *_: next(pieces))
    control = Control()
    assert control.first_line() == b"config"
    control._read()
    assert (control.cue, control.gone, control.stopped) == (3, True, True)


def test_a_runner_that_is_gone_before_it_said_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nothing to do."""
    monkeypatch.setattr(os, "read", lambda *_: b"")
    assert Control().first_line() == b""


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pipe in place of standard output: the end to read from."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    monkeypatch.setattr(module, "STDOUT", writing)
    yield reading
    os.close(reading)
    os.close(writing)


def test_statuses_are_lines_and_not_too_many(pipe: int) -> None:
    """The second of two at the same moment is left out; the last one never."""
    status = WorkerStatus(sent=3, ok=2, detail="x" * 10_000)
    status.show()
    status.show()
    status.last("ended")
    lines = [json.loads(line) for line in os.read(pipe, 65536).splitlines()]
    assert [line["state"] for line in lines] == ["running", "ended"]
    assert lines[0]["sent"] == 3
    assert len(lines[0]["detail"]) == 500


def test_a_runner_that_does_not_listen_holds_nobody_up(pipe: int) -> None:
    """A full pipe drops statuses."""
    status = WorkerStatus()
    for _ in range(2000):
        status._shown_at = 0.0
        status.show()
    assert len(os.read(pipe, 1 << 20)) > 0


def test_sigterm_stops_and_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that the runner did not ask for."""
    handlers: dict[int, Callable[..., None]] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    monkeypatch.setattr(os, "read", lambda *_: b"")
    told = Control()
    told.take(b'{"stop": true}')
    assert not told.terminated
    killed = Control()
    killed.listen()
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert (killed.terminated, killed.stopped) == (True, True)
