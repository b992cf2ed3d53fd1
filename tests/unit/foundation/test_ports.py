"""Port leases: free, exclusive, given back."""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.foundation import ports
from harness.foundation.errors import CannotHere
from harness.foundation.ports import FIRST, LAST, PortLeases, sweep_leases


@pytest.fixture
def leases(state_home: Path) -> Iterator[PortLeases]:
    """Leases in a state directory of their own, given back at the end."""
    held = PortLeases()
    yield held
    held.release()


@pytest.fixture
def busy() -> Iterator[int]:
    """A port somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def lease_files(state_home: Path) -> set[str]:
    """The ports that have a lease file."""
    return {path.name for path in (state_home / "tidegauge" / "ports").glob("*")}


def test_ports_are_distinct_and_below_the_ephemeral_range(leases: PortLeases) -> None:
    """As many as asked for, each once, all where the kernel takes no ports for outgoing connections."""
    taken = leases.take(20)
    assert len(set(taken)) == 20
    assert all(FIRST <= port <= LAST < 32768 for port in taken)


def test_a_leased_port_can_be_listened_on(leases: PortLeases) -> None:
    """The lease itself does not occupy the port."""
    (port,) = leases.take(1)
    socket.create_server(("127.0.0.1", port)).close()


def test_nobody_else_gets_a_leased_port(leases: PortLeases) -> None:
    """Not even the same process, a second time."""
    (port,) = leases.take(1)
    for other in (leases, PortLeases()):
        with pytest.raises(CannotHere, match=f"port {port} on 127.0.0.1 is in use"):
            other.take_exactly(port)


def test_a_port_in_use_is_refused(leases: PortLeases, busy: int) -> None:
    """A port somebody listens on is an error that says what to do."""
    with pytest.raises(CannotHere, match=f"port {busy} .* is in use: stop what listens there"):
        leases.take_exactly(busy)


def test_release_gives_ports_back(state_home: Path) -> None:
    """Afterwards others can have them, and the state directory is gone."""
    first, second = PortLeases(), PortLeases()
    (port,) = first.take(1)
    first.release()
    assert second.take_exactly(port) == port
    second.release()
    second.release()
    assert not (state_home / "tidegauge").exists()


def test_release_leaves_the_ports_of_others(leases: PortLeases, state_home: Path) -> None:
    """Only one's own leases are given back."""
    (port,) = leases.take(1)
    other = PortLeases()
    other.take(2)
    other.release()
    assert lease_files(state_home) == {str(port)}


def test_too_few_free_ports_is_an_error(leases: PortLeases, monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    """When the range holds fewer free ports than asked for, the range is named."""
    monkeypatch.setattr(ports, "FIRST", busy)
    monkeypatch.setattr(ports, "LAST", busy)
    with pytest.raises(CannotHere, match=f"no 1 free ports between {busy} and {busy}"):
        leases.take(1)


def test_the_last_free_port_counts(leases: PortLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range with exactly as many free ports as asked for is enough."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "LAST", port)
    assert leases.take(1) == [port]


def test_a_refused_port_leaves_nothing(state_home: Path, busy: int) -> None:
    """A port that could not be had leaves no lease, so that the state directory is empty when nothing runs."""
    leases = PortLeases()
    with pytest.raises(CannotHere):
        leases.take_exactly(busy)
    leases.release()
    assert not (state_home / "tidegauge").exists()


def test_a_lease_swept_while_it_is_taken_is_not_held_twice(
    leases: PortLeases, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep between opening and locking must not leave a lock on a file that others do not see."""
    (port,) = leases.take(1)
    leases.release()
    lock = fcntl.flock

    def swept_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        sweep_leases()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", swept_first)
    leases.take_exactly(port)
    other = PortLeases()
    try:
        with pytest.raises(CannotHere):
            other.take_exactly(port)
    finally:
        other.release()


def test_sweep_removes_only_what_nobody_holds(leases: PortLeases, state_home: Path) -> None:
    """The files of dead harnesses go, those of living ones stay."""
    (port,) = leases.take(1)
    (state_home / "tidegauge" / "ports" / "1").touch()
    sweep_leases()
    assert lease_files(state_home) == {str(port)}


def test_sweep_without_a_state_directory_does_nothing(state_home: Path) -> None:
    """Nothing was ever leased: nothing to do, nothing made."""
    sweep_leases()
    assert not state_home.exists()


def test_the_lease_of_a_dead_process_is_free(leases: PortLeases, state_home: Path) -> None:
    """The kernel drops a lock when its holder dies, so the file alone keeps nobody out."""
    (port,) = leases.take(1)
    leases.release()
    directory = state_home / "tidegauge" / "ports"
    directory.mkdir(parents=True)
    (directory / str(port)).touch()
    assert leases.take_exactly(port) == port


def test_lease_files_are_private(leases: PortLeases, state_home: Path) -> None:
    """Other users can neither list nor hold our leases."""
    (port,) = leases.take(1)
    directory = state_home / "tidegauge" / "ports"
    assert [path.stat().st_mode & 0o777 for path in (directory, directory / str(port))] == [0o700, 0o600]
