"""What tests share: the command line as a function, patience, names, and whether Docker is here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clusters.cleanup.supervisor import DIRECTORY_VARIABLE
from harness.clusters.cleanup.undo import of_project
from harness.clusters.docker_engine import compose_version, connect
from harness.clusters.waiting import wait_until
from harness.foundation.errors import CannotHere
from harness.foundation.namespaces import COMPOSE_PROJECT_LABEL
from harness.foundation.processes import TOKEN_VARIABLE, marked

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 60  # a limit for things that take a second or two, on a machine that may be busy
COMMAND_TIMEOUT_S = 600  # of one command, the longest of which are runs with many faults


def command(*arguments: str) -> list[str]:
    """The `tidegauge` command, without depending on PATH."""
    return [sys.executable, "-m", "harness", *arguments]


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


def up(*arguments: str, **environment: str) -> dict[str, Any]:
    """`cluster up --json`, which must work."""
    ran = cli("cluster", "up", *arguments, "--json", **environment)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def eventually(condition: Callable[[], bool], message: str) -> None:
    """The condition holds sooner or later."""
    wait_until(condition, PATIENCE_S, message, every_s=0.1)


def end(processes: list[subprocess.Popen[str]]) -> None:
    """Kill what a test started, and close what it was read through."""
    for process in processes:
        process.kill()
        process.communicate()


def kill_tree(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a process and everything below it, whatever of that has ended by itself meanwhile."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for victim in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                victim.kill()


def unique(prefix: str) -> str:
    """A name nobody else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def docker_or_skip() -> None:
    """Skip without Docker, unless it is required."""
    try:
        connect(timeout_s=5)
        compose_version()
    except CannotHere as error:
        if os.environ.get("TIDEGAUGE_REQUIRE_DOCKER"):
            pytest.fail(f"Docker is required here: {error}")
        pytest.skip(str(error))


def traces(state_home: Path) -> set[str]:
    """Every process of ours with this state directory, which no other test has, and every container of our clusters.

    Other tests may run at the same time: a cluster whose supervisor lives and works in another directory is theirs.
    """
    found, containers = set(), dict[str, str]()
    for told, process in _environments():
        if TOKEN_VARIABLE in told and told.get("XDG_STATE_HOME") == str(state_home):
            found.add(f"process {process.pid} of {told[TOKEN_VARIABLE]}")
    theirs = supervised_elsewhere(state_home)
    with suppress(CannotHere):
        client = connect(timeout_s=5)
        listed = client.containers.list(all=True, filters={"label": COMPOSE_PROJECT_LABEL}, ignore_removed=True)
        containers = {f"container {each.name}": each.labels[COMPOSE_PROJECT_LABEL] for each in listed}
        client.close()
    theirs |= supervised_elsewhere(state_home)  # also what was begun meanwhile
    return found | {name for name, project in containers.items() if project not in theirs}


def supervised_elsewhere(state_home: Path) -> set[str]:
    """The names of clusters that somebody else's supervisor watches over."""
    places = (Path(told[DIRECTORY_VARIABLE]) for told, _ in _environments() if DIRECTORY_VARIABLE in told)
    return {place.name for place in places if state_home not in place.parents}


def _environments() -> Iterator[tuple[dict[str, str], psutil.Process]]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            yield process.environ(), process


def remains(name: str, state_home: Path) -> list[str]:
    """Whatever is left of a cluster: processes, containers, networks, namespaces, links, files."""
    left = [f"process {process.pid}" for process in marked(name)]
    tag = f"tg{name.rpartition('-')[2]}"
    for place in (Path("/run/netns"), Path("/sys/class/net")):
        left += [str(path) for path in place.glob(f"{tag}*")]
    # Not rglob: on this Python it fails when a directory goes while it looks, and going is what we wait for.
    left += [str(Path(folder, entry)) for folder, folders, files in os.walk(state_home) for entry in folders + files]
    if name.startswith("docker-"):
        client, mine = connect(), of_project(name)
        left += [f"container {c.name}" for c in client.containers.list(all=True, filters=mine, ignore_removed=True)]
        left += [f"network {n.name}" for n in client.networks.list(filters=mine)]
        client.close()
    return left
