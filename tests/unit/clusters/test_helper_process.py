"""The process that nodes need beside themselves: it is there before them, and its end is told with its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.clusters import helper_process
from harness.clusters.helper_process import HelperProcess
from harness.clusters.target import HelperPart
from harness.clusters.template import render
from harness.foundation.errors import ClusterError, NodeDied
from harness.foundation.ports import PortLeases

LISTENS = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(open("port").read())))
while True:
    server.accept()
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A free one."""
    leases = PortLeases()
    (found,) = leases.take(1)
    yield found
    leases.release()


def filled(text: str, values: Mapping[str, str]) -> str:
    """As a cluster does it."""
    return render(text, values, "test")


def made(tmp_path: Path, port: int, program: str) -> HelperProcess:
    """One that runs a program of Python."""
    part = HelperPart(
        name="keeper", command=(sys.executable, "{node_dir}/it.py"), files={"it.py": program, "port": "{helper.port}"}
    )
    return HelperProcess(part, tmp_path / "keeper", "127.0.0.1", port)


def test_it_is_there_before_the_nodes(tmp_path: Path, port: int) -> None:
    """When it has started it accepts connections, and nodes can be told where."""
    pool = made(tmp_path, port, LISTENS)
    pool.start(filled, {})
    assert pool.child
    try:
        assert pool.placeholders == {"helper.host": "127.0.0.1", "helper.port": str(port)}
        pool.fail_if_dead()
        assert (tmp_path / "keeper/port").read_text() == str(port)
    finally:
        pool.child.terminate()
        pool.child.wait()
    with pytest.raises(NodeDied, match="keeper, which all nodes need, died"):
        pool.fail_if_dead()


def test_one_that_dies_at_once_is_told_with_its_log(tmp_path: Path, port: int) -> None:
    """Nobody waits for it any longer."""
    pool = made(tmp_path, port, "print('no memory', flush=True)\nraise SystemExit(3)")
    with pytest.raises(NodeDied) as caught:
        pool.start(filled, {})
    assert caught.value.log_tail == ("no memory",)


def test_one_that_never_listens_is_given_up(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its log as well."""
    monkeypatch.setattr(helper_process, "READY_TIMEOUT_S", 0.0)
    pool = made(tmp_path, port, "import time\ntime.sleep(600)")
    with pytest.raises(ClusterError, match="keeper was not ready after 0 s"):
        pool.start(filled, {})
    assert pool.child
    pool.child.kill()
    pool.child.wait()
