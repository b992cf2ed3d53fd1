"""SIGKILL of the harness in the middle of a fault: nothing of it or of the cluster stays, and nothing else goes.

They need real clusters: what could outlive a SIGKILL is processes, mounts and firewall rules. Most run at night.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.docker_engine import connect
from harness.clusters.spec import make_cluster
from harness.foundation.errors import CannotHere
from harness.foundation.processes import TOKEN_VARIABLE
from harness.foundation.progress import SilentProgress
from nemesis import FAULTS
from nemesis.base import refuse_unless_possible
from tests.integration.fault_stage import spec_of
from tests.support import cli, command, end, eventually, supervised_elsewhere, traces, unique

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TIMES = 20
RULE = ["INPUT", "-s", "203.0.113.77", "-j", "DROP"]  # an address that nobody has


def iptables(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In the host's own tables."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return subprocess.run(
        ["iptables", "-w", *arguments], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def strangers() -> Iterator[None]:
    """A process, a rule and, where there is Docker, a container that are none of ours: all are there afterwards."""
    process = subprocess.Popen(["sleep", "3600"], env={k: v for k, v in os.environ.items() if k != TOKEN_VARIABLE})
    container: Any = None
    try:
        client = connect(timeout_s=5)
        images = client.images.list("tidegauge/kafka")
        if images:
            name = unique("stranger")
            container = client.containers.run(images[0], entrypoint=["sleep", "3600"], name=name, detach=True)
    except CannotHere:
        pass
    ruled = os.geteuid() == 0 and iptables("-A", *RULE).returncode == 0
    tables = iptables("-S").stdout if ruled else ""
    try:
        yield
        assert process.poll() is None
        if container:
            container.reload()
            assert container.status == "running"
        if ruled:
            assert iptables("-C", *RULE).returncode == 0
            assert "tg" not in tables
            assert iptables("-S").stdout == tables
    finally:
        process.kill()
        process.wait()
        if container:
            container.remove(force=True)
        if ruled:
            iptables("-D", *RULE)


def left(state_home: Path) -> set[str]:
    """Processes, containers, namespaces, links, mounts, loop devices and files of ours."""
    found = set(traces(state_home))
    named = {path for place in (Path("/run/netns"), Path("/sys/class/net")) for path in place.glob("tg*")}
    theirs = tuple(f"tg{name.rpartition('-')[2]}" for name in supervised_elsewhere(state_home))  # of other tests
    found |= {str(path) for path in named if not path.name.startswith(theirs)}
    found |= {line for line in Path("/proc/mounts").read_text().splitlines() if str(state_home) in line}
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found |= {text for text in [backing.read_text().strip()] if str(state_home) in text}
        except OSError:  # it has just been let go
            continue
    clusters = state_home / "tidegauge" / "clusters"
    return found | {str(path) for path in (clusters.iterdir() if clusters.exists() else ())}


def kill_in_the_middle(kind: str, fault: str, wait_s: float, state_home: Path, store: Path) -> float:
    """Run it, kill the harness some time after the injection, wait until nothing is left: how long that took."""
    before = left(state_home)
    arguments = ["--workload", "stream", "--cluster", kind, "--nemesis", fault, "--time", "60s", "--store", str(store)]
    settings = ["--set", "nemesis.after=2s", "--set", "nemesis.for=20s", "--set", "nemesis.times=1"]
    process = subprocess.Popen(
        command("run", *arguments, *settings), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if f"{fault} 1 injected" in line:
                break
        else:
            pytest.fail(f"{fault} was never injected: {''.join(said)}")
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        began_s = time.monotonic()
        try:
            eventually(lambda: left(state_home) <= before, "gone")
        except TimeoutError:
            pytest.fail(f"left of {fault} on {kind}: {left(state_home) - before}")
        return time.monotonic() - began_s
    finally:
        end([process])


def check_nothing_to_heal() -> None:
    """`tidegauge heal` says that there is nothing to do."""
    ran = cli("heal", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["undone"] == json.loads(ran.stdout)["left"] == []


def offered(kind: str) -> list[str]:
    """The faults that this machine can do on such a cluster."""
    cluster, found = make_cluster(spec_of(kind), SilentProgress()), []
    for name, fault in FAULTS.items():
        try:
            refuse_unless_possible(fault, cluster)
        except CannotHere:
            continue
        found.append(name)
    return found


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param("local", "disk-slow", id="local"),
        pytest.param("docker", "isolate", id="docker", marks=pytest.mark.docker),
    ],
)
def test_nothing_stays_of_a_fault_whose_harness_was_killed(
    state_home: Path, tmp_path: Path, kind: str, fault: str
) -> None:
    """A frozen disk, rules in the namespace of a container."""
    if fault not in offered(kind):
        pytest.skip(f"{fault} is not possible here")
    kill_in_the_middle(kind, fault, 1.0, state_home, tmp_path / "store")
    check_nothing_to_heal()


@pytest.mark.nightly
@pytest.mark.docker
@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("number", range(TIMES))
def test_nothing_stays_of_any_fault(
    state_home: Path, tmp_path: Path, number: int, record_property: Callable[[str, object], None]
) -> None:
    """Every kind of fault in turn, at a random moment of it."""
    rng = random.Random(number)
    kind = ("local", "docker")[number % 2]
    fault = rng.choice(offered(kind))
    took_s = kill_in_the_middle(kind, fault, rng.uniform(0, 8), state_home, tmp_path / "store")
    record_property("fault", f"{fault} on {kind}")
    record_property("gone_after_s", round(took_s, 1))
    check_nothing_to_heal()
