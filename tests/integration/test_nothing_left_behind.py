"""However the harness ends, nothing of its clusters stays; and nothing else is touched.

They need real processes, containers and networks, since these are what could stay.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clusters.cleanup.guard import OWNER_FILE
from harness.clusters.cleanup.supervisor import IDENTITY_FILE
from harness.clusters.cleanup.undo import of_project
from harness.clusters.local import LocalCluster
from harness.clusters.target import load_target
from harness.foundation.processes import TOKEN_VARIABLE, marked
from tests.integration.traffic import EXPECTED, confluent_round_trip, kafka_python_round_trip
from tests.support import cli, command, eventually, kill_tree, remains, unique, up

pytestmark = pytest.mark.cluster

KINDS = [
    pytest.param(("--cluster", "local"), id="local"),
    pytest.param(("--cluster", "docker"), id="docker", marks=pytest.mark.docker),
]
CONTAINERS_AT_NIGHT = [
    KINDS[0],
    pytest.param(("--cluster", "docker"), id="docker", marks=[pytest.mark.docker, pytest.mark.nightly]),
]


def gone(name: str, state_home: Path) -> None:
    """Wait until nothing is left, and say what is if it stays."""
    try:
        eventually(lambda: not remains(name, state_home), "gone")
    except TimeoutError:
        pytest.fail(f"left of {name}: {remains(name, state_home)}")


def start_in_foreground() -> tuple[subprocess.Popen[str], str]:
    """A cluster that is held by the command itself; its process and the name of the cluster."""
    process = subprocess.Popen(command("cluster", "up", "--foreground", "--json"), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = ""
    for line in process.stdout:
        lines += line
        if line.startswith("}"):
            break
    return process, json.loads(lines)["name"]


def start_and_wait_for(state_home: Path, kind: tuple[str, ...], step: str) -> tuple[subprocess.Popen[str], str]:
    """`cluster up` until it reports a step; the process and the name of the cluster it is making."""
    process = subprocess.Popen(
        command("cluster", "up", *kind), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if step in line:
            break
    else:
        pytest.fail(f"the step '{step}' never came")
    return process, next((state_home / "tidegauge" / "clusters").iterdir()).name


@pytest.mark.parametrize("kind", CONTAINERS_AT_NIGHT)
def test_two_clusters_side_by_side_and_down_removes_each(state_home: Path, kind: tuple[str, ...]) -> None:
    """Both work, neither knows of the other, and `down` takes one at a time."""
    first, second = up(*kind), up(*kind)
    assert first["cluster_id"] != second["cluster_id"]
    assert not {n["address"] for n in first["nodes"]} & {n["address"] for n in second["nodes"]}
    assert kafka_python_round_trip(first["bootstrap"]) == EXPECTED
    assert confluent_round_trip(second["bootstrap"]) == EXPECTED
    ambiguous = cli("cluster", "down")
    assert ambiguous.returncode == 4
    assert first["name"] in ambiguous.stderr
    assert cli("cluster", "down", first["name"]).returncode == 0
    assert confluent_round_trip(second["bootstrap"]) == EXPECTED
    status = json.loads(cli("cluster", "status", "--json").stdout)
    assert [cluster["name"] for cluster in status] == [second["name"]]
    assert all(node["answers"] and node["lists_brokers"] == 3 for node in status[0]["nodes"])
    logs = json.loads(cli("cluster", "logs", "--lines", "5", "--json").stdout)
    assert all(len(lines) == 5 for lines in logs.values())
    assert cli("cluster", "down").returncode == 0
    assert remains(first["name"], state_home) == []
    assert remains(second["name"], state_home) == []


@pytest.mark.parametrize("kind", KINDS)
def test_sigkill_of_the_harness_while_the_cluster_is_up(state_home: Path, kind: tuple[str, ...]) -> None:
    """The supervisor removes all of it, and leaves a stranger's process alone."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={TOKEN_VARIABLE: "another"})
    try:
        cluster = up(*kind)
        os.kill(cluster["harness_pid"], signal.SIGKILL)
        gone(cluster["name"], state_home)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["starting", "waiting"])
def test_sigkill_of_the_command_while_the_cluster_starts(state_home: Path, kind: tuple[str, ...], step: str) -> None:
    """Nothing half-started survives the command."""
    process, name = start_and_wait_for(state_home, kind, step)
    process.kill()
    process.communicate()
    gone(name, state_home)


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_while_the_cluster_starts(state_home: Path, kind: tuple[str, ...]) -> None:
    """It ends with the code for 'interrupted', and only when everything is gone."""
    process, name = start_and_wait_for(state_home, kind, "waiting")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 2
    assert remains(name, state_home) == []


@pytest.mark.parametrize("kind", CONTAINERS_AT_NIGHT)
def test_sigkill_of_both_commands_while_the_cluster_stops(state_home: Path, kind: tuple[str, ...]) -> None:
    """`down` and the harness that obeys it are killed in the middle: the supervisor finishes."""
    cluster = up(*kind)
    stopping = subprocess.Popen(command("cluster", "down"), stdout=subprocess.DEVNULL)
    harness = psutil.Process(cluster["harness_pid"])
    before = len(marked(cluster["name"]))
    eventually(
        lambda: not harness.is_running() or len(marked(cluster["name"])) < before or stopping.poll() is not None,
        "stopping began",
    )
    stopping.kill()
    stopping.wait()
    if harness.is_running():
        harness.kill()
    gone(cluster["name"], state_home)


def test_sigkill_of_the_whole_process_tree(state_home: Path) -> None:
    """The supervisor is not in the tree, so it is there to clean up."""
    process, name = start_in_foreground()
    kill_tree(process)
    process.communicate()
    gone(name, state_home)


def test_ctrl_c_on_a_cluster_in_the_foreground(state_home: Path) -> None:
    """It is removed before the command ends."""
    process, name = start_in_foreground()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 2
    assert remains(name, state_home) == []


def test_a_killed_supervisor_is_replaced(state_home: Path) -> None:
    """The harness notices, and the new one does the same job."""
    cluster = up()
    directory = Path(cluster["directory"])
    first = json.loads((directory / IDENTITY_FILE).read_text())
    os.kill(first["pid"], signal.SIGKILL)

    def replaced() -> bool:
        try:
            return bool(json.loads((directory / IDENTITY_FILE).read_text()) != first)
        except ValueError:
            return False

    eventually(replaced, "no new supervisor")
    os.kill(cluster["harness_pid"], signal.SIGKILL)
    gone(cluster["name"], state_home)


@pytest.mark.parametrize("kind", CONTAINERS_AT_NIGHT)
def test_the_next_command_cleans_up_when_both_were_killed(state_home: Path, kind: tuple[str, ...]) -> None:
    """Harness and supervisor die together: whoever comes next undoes what the journal says."""
    cluster = up(*kind)
    directory = Path(cluster["directory"])
    pids = [json.loads((directory / file).read_text())["pid"] for file in (IDENTITY_FILE, OWNER_FILE)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # so that neither sees the other die
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), "both are dead")
    assert remains(cluster["name"], state_home) != []
    assert json.loads(cli("cluster", "status", "--json").stdout) == []
    assert remains(cluster["name"], state_home) == []


@pytest.mark.usefixtures("state_home")
def test_network_namespaces_go_with_a_killed_harness(state_home: Path) -> None:
    """Namespaces, the switch and the host's end of the cable."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    cluster = up("--netns")
    assert kafka_python_round_trip(cluster["bootstrap"]) == EXPECTED
    assert any("/run/netns" in left for left in remains(cluster["name"], state_home))
    os.kill(cluster["harness_pid"], signal.SIGKILL)
    gone(cluster["name"], state_home)


@pytest.mark.docker
def test_foreign_containers_and_networks_are_left_alone(state_home: Path) -> None:
    """Only what carries the label of our project is removed."""
    from harness.clusters.docker_engine import connect

    cluster = up("--cluster", "docker")
    client = connect()
    image = client.containers.list(filters=of_project(cluster["name"]))[0].attrs["Image"]
    stranger = client.containers.run(image, entrypoint=["sleep", "600"], name=unique("stranger"), detach=True)
    network = client.networks.create(unique("stranger"))
    try:
        os.kill(cluster["harness_pid"], signal.SIGKILL)
        gone(cluster["name"], state_home)
        stranger.reload()
        assert stranger.status == "running"
        network.reload()
    finally:
        stranger.remove(force=True)
        network.remove()


def test_a_cluster_that_is_left_alone_stays(state_home: Path) -> None:
    """A sweep by another command does not touch what has a living harness."""
    cluster = up()
    for _ in range(3):
        assert cli("cluster", "status").returncode == 0
        time.sleep(0.1)
    assert kafka_python_round_trip(cluster["bootstrap"]) == EXPECTED
    assert cli("cluster", "down", "--all").returncode == 0
    assert remains(cluster["name"], state_home) == []


DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-m", "http.server", "-b", "127.0.0.1", sys.argv[1]], {})
"""


@pytest.fixture
def daemon_target(tmp_path: Path) -> str:
    """A product that forks itself into the background and throws its environment away."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    file = tmp_path / "daemon.toml"
    file.write_text(f"""
name = "daemon"
ready = "port"
[process]
command = ["{sys.executable}", "{tmp_path / "daemon.py"}", "{{port.kafka}}"]
""")
    return str(file)


def listeners(cluster: dict[str, Any]) -> list[str]:
    """The nodes of a cluster on whose ports somebody still listens."""
    found = []
    for node in cluster["nodes"]:
        host, _, port = node["address"].rpartition(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                found.append(node["address"])
    return found


@pytest.mark.parametrize("sigkill", [False, True], ids=["down", "sigkill"])
def test_a_node_that_daemonises_goes_too(state_home: Path, daemon_target: str, *, sigkill: bool) -> None:
    """Neither a new session nor an empty environment takes a process out of our sight."""
    cluster = up("--target", daemon_target)
    assert len(listeners(cluster)) == 3
    if sigkill:
        os.kill(cluster["harness_pid"], signal.SIGKILL)
        gone(cluster["name"], state_home)
    else:
        assert cli("cluster", "down").returncode == 0
    assert listeners(cluster) == []
    assert remains(cluster["name"], state_home) == []


def test_a_harness_that_hangs_does_not_keep_its_cluster(state_home: Path, daemon_target: str) -> None:
    """`down` waits a little, then kills it; the supervisor does the rest."""
    cluster = up("--target", daemon_target)
    os.kill(cluster["harness_pid"], signal.SIGSTOP)
    assert cli("cluster", "down").returncode == 0
    assert listeners(cluster) == []
    assert remains(cluster["name"], state_home) == []


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs a pid namespace")
def test_a_command_in_another_container_leaves_a_living_cluster_alone(state_home: Path, daemon_target: str) -> None:
    """Pids mean nothing there; the lock does."""
    cluster = up("--target", daemon_target)
    ran = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *command("cluster", "status", "--json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [each["name"] for each in json.loads(ran.stdout)] == [cluster["name"]]
    assert len(listeners(cluster)) == 3
    os.kill(cluster["harness_pid"], signal.SIGKILL)
    gone(cluster["name"], state_home)
    assert listeners(cluster) == []


def test_output_that_goes_nowhere_leaves_no_cluster(state_home: Path, daemon_target: str) -> None:
    """A cluster whose name nobody was told is removed again."""
    with Path("/dev/full").open("w") as full:
        arguments = command("cluster", "up", "--target", daemon_target, "--json")
        ran = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 6
    assert list(state_home.rglob("*")) == []


def test_down_does_not_end_other_programs(state_home: Path, daemon_target: str) -> None:
    """A cluster that a program holds through Python is that program's own."""
    with LocalCluster(load_target(daemon_target)) as cluster:
        refused = cli("cluster", "down", cluster.name)
        assert refused.returncode == 4
        assert str(os.getpid()) in refused.stderr
        assert cli("cluster", "down", "--all").returncode == 0
        assert len(listeners({"nodes": [vars(node) for node in cluster.nodes]})) == 3
    assert list(state_home.rglob("*")) == []


@pytest.mark.docker
def test_undo_goes_to_the_engine_that_was_used(state_home: Path) -> None:
    """Both were killed, and DOCKER_HOST points elsewhere since: the containers are found all the same."""
    cluster = up("--cluster", "docker")
    directory = Path(cluster["directory"])
    pids = [json.loads((directory / file).read_text())["pid"] for file in (IDENTITY_FILE, OWNER_FILE)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), "both are dead")
    assert cli("cluster", "status", DOCKER_HOST="unix:///nowhere/docker.sock").returncode == 0
    assert remains(cluster["name"], state_home) == []
