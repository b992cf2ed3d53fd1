"""Into the network of a node and out again, without networks: commands that are scripts in a directory of the test."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil
import pytest

from harness.foundation import namespaces as networks
from harness.foundation.namespaces import Namespace, Place, Sidecar, entry_of, mend, place_of, run_at, run_command
from harness.foundation.processes import TOKEN_VARIABLE, marked
from tests.support import PATIENCE_S, unique

SIDECAR = Sidecar("c1", "/run/sandbox", "tidegauge/kafka:1", "docker-1", "tcp://10.1.2.3:2375")
GONE = "Error: No such container: c1"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`nsenter` and `docker` that write down how they were called and do nothing else."""
    for name in ("nsenter", "docker"):
        tool(tmp_path, name, "")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def tool(directory: Path, name: str, script: str) -> None:
    """A tool that does this after it wrote down its arguments."""
    path = directory / name
    path.write_text(f'#!/bin/sh\necho "$DOCKER_HOST {name} $*" >> {directory}/calls\n{script}\n')
    path.chmod(0o755)


def calls(directory: Path) -> list[str]:
    """How the tools were called."""
    path = directory / "calls"
    return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []


def test_a_file_without_a_namespace_is_none(tmp_path: Path) -> None:
    """What is left of a container that ended is an empty file."""
    assert Namespace("/proc").exists()
    assert not Namespace(str(tmp_path / "nothing")).exists()
    (tmp_path / "file").touch()
    assert not Namespace(str(tmp_path / "file")).exists()


@pytest.mark.parametrize(
    ("said", "code", "there"),
    [
        ("true /run/sandbox", 0, True),
        ("false /run/sandbox", 0, False),
        ("true /run/another", 0, False),
        ("true ", 0, False),
        (GONE, 1, False),
    ],
)
def test_the_network_of_a_container_ends_with_it(tools: Path, said: str, code: int, there: bool) -> None:  # noqa: FBT001
    """One that does not run, was started again or is gone has not the network that was broken."""
    tool(tools, "docker", f"echo '{said}' >&{1 if code == 0 else 2}; exit {code}")
    assert SIDECAR.exists() is there
    assert re.fullmatch(r"tcp://10\.1\.2\.3:2375 docker inspect .* c1", calls(tools)[0])


def test_an_engine_that_does_not_answer_is_no_absence(tools: Path) -> None:
    """Nobody takes rules for gone because nobody could look."""
    for reason in ("dial unix /x.sock: connect: no such file or directory", "lookup h: no such host"):
        tool(tools, "docker", f"echo '{reason}' >&2; exit 1")
        with pytest.raises(OSError, match="no such"):
            SIDECAR.exists()
    tool(tools, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    with pytest.raises(OSError, match="Cannot connect to the daemon"):
        SIDECAR.exists()


def test_a_script_is_run_in_the_namespace(tools: Path) -> None:
    """By the file of the namespace, never by a pid."""
    run_at(Namespace("/run/netns/x"), "a b; c")
    assert calls(tools) == ["nsenter --net=/run/netns/x sh -c a b; c"]


def test_a_script_is_run_beside_a_container(tools: Path) -> None:
    """With the right to change the network and no other, without a pull; gone when done, and with its project."""
    run_at(SIDECAR, "a b; c")
    (call,) = calls(tools)
    assert call.endswith("--entrypoint=sh tidegauge/kafka:1 -c a b; c")
    assert set(call.partition(" --entrypoint")[0].split()) == {
        "tcp://10.1.2.3:2375",
        "docker",
        "run",
        "--rm",
        "--pull=never",
        "--user=0",
        "--cap-add=NET_ADMIN",
        "--network=container:c1",
        "--label=com.docker.compose.project=docker-1",
    }


def test_the_token_goes_along(tools: Path) -> None:
    """So that a script ends with its cluster."""
    tool(tools, "nsenter", f"echo ${TOKEN_VARIABLE}")
    assert run_at(Namespace("/x"), "true", token="local-1") == "local-1\n"


def test_a_failure_is_told_in_its_first_words(tools: Path) -> None:
    """Below them tools explain how they want to be called; without words it is the exit code."""
    tool(tools, "nsenter", "echo bad rule >&2; echo try --help >&2; exit 2")
    with pytest.raises(OSError, match=r"^bad rule$"):
        run_at(Namespace("/x"), "true")
    tool(tools, "nsenter", "exit 7")
    with pytest.raises(OSError, match=r"^exit code 7$"):
        run_at(Namespace("/x"), "true")


def test_a_script_that_hangs_is_ended_with_all_it_started() -> None:
    """Else it would go on changing a network that is taken for mended."""
    token = unique("hanging")
    environment = {**os.environ, TOKEN_VARIABLE: token}
    with pytest.raises(TimeoutError, match=r"sh was not done after 0\.3 s"):
        run_command(["sh", "-c", "sleep 600 & sleep 600; true"], environment, 0.3)
    assert psutil.wait_procs(marked(token), timeout=PATIENCE_S)[1] == []


class Around:
    """A place that exists as long as told, and whose scripts fail or not."""

    def __init__(self, there: str, *, fails: bool = False) -> None:
        self.there = list(there)  # a letter for each look: y or n
        self.fails = fails
        self.ran: list[str] = []

    def exists(self, _: float) -> bool:
        """As told, look by look."""
        return self.there.pop(0) == "y"

    def command(self, script: str) -> list[str]:
        """Written down."""
        self.ran.append(script)
        return ["false" if self.fails else "true"]

    def environment(self) -> dict[str, str]:
        """Ours."""
        return dict(os.environ)


@pytest.mark.parametrize(
    ("place", "ran"),
    [(Around("n"), []), (Around("y"), ["undo"]), (Around("yn", fails=True), ["undo"])],
    ids=["gone", "there", "goes meanwhile"],
)
def test_what_is_gone_needs_no_mending(place: Around, ran: list[str]) -> None:
    """The rules go with the network."""
    mend(place, "undo")  # type: ignore[arg-type]
    assert place.ran == ran


def test_what_cannot_be_mended_is_told() -> None:
    """When the network is still there."""
    with pytest.raises(OSError, match="exit code 1"):
        mend(Around("yy", fails=True), "undo")  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [Namespace("/run/netns/x"), SIDECAR])
def test_a_place_comes_back_from_the_journal(place: Place) -> None:
    """With the name and the script, all of it text."""
    entry = entry_of(place, "node-1/tg1", "undo it")
    assert place_of(entry) == place
    assert (entry["kind"], entry["value"], entry["script"]) == ("network", "node-1/tg1", "undo it")
    assert all(isinstance(value, str) for value in entry.values())


def test_tools_of_the_system_are_found_without_their_directory_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own PATH comes first; an empty one adds no empty entry, which would be the working directory."""
    monkeypatch.setenv("PATH", "/own")
    assert networks.with_system_path()["PATH"].split(":")[0] == "/own"
    assert "/usr/sbin" in networks.with_system_path()["PATH"].split(":")
    monkeypatch.delenv("PATH")
    assert "" not in networks.with_system_path()["PATH"].split(":")
