"""What goes wrong is said in one sentence with a remedy, ends with the right code, and leaves nothing behind.

They need the real command, since exit codes and what is left behind are those of processes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.foundation.paths import PACKAGE
from tests.support import REPOSITORY, cli, traces

pytestmark = pytest.mark.usefixtures("state_home")


@pytest.fixture(autouse=True)
def _nothing_new(state_home: Path) -> Iterator[None]:
    """Whatever is refused leaves no process and no container."""
    before = traces(state_home)
    yield
    assert traces(state_home) <= before


def refused(ran: subprocess.CompletedProcess[str], state_home: Path, code: int, *words: str) -> None:
    """It ended with the code, its one sentence has the words, and no file is left."""
    assert ran.returncode == code, ran.stderr
    sentences = [line for line in ran.stderr.splitlines() if line.startswith("error")]
    assert len(sentences) == 1, ran.stderr
    for word in words:
        assert word in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
    assert list(state_home.rglob("*")) == []


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        yield listener.getsockname()[1]


def test_a_port_in_use(state_home: Path, taken_port: int) -> None:
    """The port is named; nothing is started."""
    ran = cli("cluster", "up", "--ports", f"{taken_port},19001,19002")
    refused(ran, state_home, 6, f"port {taken_port}", "is in use", "--ports")


@pytest.mark.docker
def test_a_port_in_use_with_docker(state_home: Path, taken_port: int) -> None:
    """The same before any container is made."""
    ran = cli("cluster", "up", "--cluster", "docker", "--ports", f"{taken_port},19001,19002")
    refused(ran, state_home, 6, f"port {taken_port}", "is in use")


def test_a_broken_java(state_home: Path, tmp_path: Path) -> None:
    """JAVA_HOME is the user's decision: a Java there that does not run is not passed over in silence."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'libjvm.so: cannot open shared object file' >&2\nexit 127\n")
    java.chmod(0o755)
    ran = cli("cluster", "up", JAVA_HOME=str(tmp_path / "jdk"))
    refused(ran, state_home, 6, "JAVA_HOME", "libjvm.so", "unset it")


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk(tmp_path: Path) -> None:
    """Found before any broker starts and dies of it."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(small)], check=True)
    try:
        ran = cli("cluster", "up", XDG_STATE_HOME=str(small))
        refused(ran, small, 6, "the disk is full", "TIDEGAUGE_HOME")
        with pytest.raises(OSError, match="No space"):
            (small / "filler").write_bytes(b"x" * 40 * 2**20)
        ran = cli("cluster", "up", TIDEGAUGE_HOME=str(small / "home"))
        assert ran.returncode == 6, ran.stderr
        assert "the disk is full" in ran.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_an_unreachable_docker_socket(state_home: Path) -> None:
    """The address that was tried, and the way without Docker."""
    ran = cli("cluster", "up", "--cluster", "docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    refused(ran, state_home, 6, "unix:///nowhere/docker.sock", "--cluster local")


def test_an_unknown_version(state_home: Path) -> None:
    """With the versions that are tested."""
    refused(cli("cluster", "up", "--kafka-version", "9.9.9"), state_home, 4, "kafka 9.9.9", "4.3.1")
    refused(cli("cluster", "up", "--kafka-version", "newest"), state_home, 4, "'newest' is not a version")


def test_a_misspelled_key_in_a_target(state_home: Path, tmp_path: Path) -> None:
    """At the top and inside a table, with the right name."""
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nredy = "kafka"\n[process]\ncommand = ["true"]\n')
    refused(cli("cluster", "up", "--target", str(file)), state_home, 4, "unknown key 'redy'", "did you mean 'ready'?")
    file.write_text('name = "mine"\n[process]\ncomand = ["true"]\n')
    refused(cli("cluster", "up", "--target", str(file)), state_home, 4, "'process.comand'", "did you mean 'command'?")


def test_a_node_that_dies_during_start_up(state_home: Path, tmp_path: Path) -> None:
    """Its last log lines are shown."""
    file = tmp_path / "dies.toml"
    file.write_text("""
name = "dies"
[process]
command = ["sh", "-c", "echo reading config; echo 'FATAL: quorum key is missing'; exit 1"]
""")
    ran = cli("cluster", "up", "--target", str(file))
    refused(ran, state_home, 3, "died during start-up", "FATAL: quorum key is missing")


def test_a_real_broker_that_dies_during_start_up(state_home: Path, tmp_path: Path) -> None:
    """Apache Kafka with a setting it cannot take says so itself."""
    text = (PACKAGE / "clusters" / "targets" / "kafka.toml").read_text()
    file = tmp_path / "kafka-wrong.toml"
    file.write_text(text.replace("num.io.threads=4", "num.io.threads=many"))
    ran = cli("cluster", "up", "--target", str(file))
    refused(ran, state_home, 3, "died during start-up", "num.io.threads")


def test_a_broker_that_never_answers(state_home: Path, tmp_path: Path) -> None:
    """The wait has an end, and says which node and why."""
    file = tmp_path / "silent.toml"
    file.write_text("""
name = "silent"
ready_timeout_s = 1
[process]
command = ["sleep", "600"]
""")
    refused(cli("cluster", "up", "--target", str(file)), state_home, 3, "not ready after 1 s", "refuses connections")


def test_a_command_that_does_not_exist(state_home: Path, tmp_path: Path) -> None:
    """The command is named."""
    file = tmp_path / "absent.toml"
    file.write_text('name = "absent"\n[process]\ncommand = ["no-such-broker"]\n')
    refused(cli("cluster", "up", "--target", str(file)), state_home, 4, "no-such-broker", "No such file")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cluster", "docker", "--netns"), ("--netns does not apply", "--cluster local")),
        (("--cluster", "external"), ("needs its addresses", "--bootstrap")),
        (("--cluster", "external", "--bootstrap", "nohost"), ("'nohost' is not an address", "HOST:PORT")),
        (("--bootstrap", "127.0.0.1:9092"), ("--bootstrap does not apply", "--cluster external")),
        (("--ports", "19092,19093"), ("2 ports were given for 3 nodes", "one port per node")),
        (("--ports", "19092,19092,19093"), ("a port twice",)),
        (("--ports", "a,b,c"), ("ports",)),
        (("--target", "kafak"), ("no target 'kafak'", "did you mean 'kafka'?")),
        (("--target", "missing.toml"), ("no file missing.toml",)),
    ],
)
def test_flags_that_make_no_sense(state_home: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Refused as usage, before anything is started."""
    refused(cli("cluster", "up", *arguments), state_home, 4, *words)


def test_an_external_cluster_that_does_not_answer(state_home: Path, taken_port: int) -> None:
    """A port that accepts and never answers, and one that refuses."""
    ran = cli("cluster", "up", "--cluster", "external", "--bootstrap", f"127.0.0.1:{taken_port}")
    refused(ran, state_home, 3, f"127.0.0.1:{taken_port}", "PLAINTEXT")


def test_commands_about_clusters_that_do_not_exist(state_home: Path) -> None:
    """`down` and `logs` name what is up instead."""
    refused(cli("cluster", "down"), state_home, 4, "no cluster is up")
    refused(cli("cluster", "logs", "local-nope"), state_home, 4, "there is no cluster 'local-nope'")


@pytest.mark.parametrize(
    ("variable", "value", "code", "words"),
    [
        ("TIDEGAUGE_HOME", "/tmp/a,b", 4, ("TIDEGAUGE_HOME", "commas")),
        ("TIDEGAUGE_HOME", "/tmp/caf\u00e9", 4, ("TIDEGAUGE_HOME",)),
        ("XDG_STATE_HOME", "/dev/null/x", 3, ("/dev/null/x",)),
    ],
)
def test_places_that_cannot_hold_a_cluster(
    state_home: Path, variable: str, value: str, code: int, words: tuple[str, ...]
) -> None:
    """Said before a broker dies of it."""
    refused(cli("cluster", "up", **{variable: value}), state_home, code, *words)


def test_a_relative_home_is_meant_from_here(tmp_path: Path) -> None:
    """Harness and supervisor mean the same place, and leave nothing in it."""
    file = tmp_path / "dies.toml"
    file.write_text('name = "dies"\n[process]\ncommand = ["false"]\n')
    command = [sys.executable, "-P", "-m", "harness", "cluster", "up", "--target", str(file)]
    environment = {**os.environ, "TIDEGAUGE_HOME": "here", "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 3, ran.stderr
    assert "died during start-up" in ran.stderr
    assert not (tmp_path / "here" / "state").exists()


def test_modules_in_the_working_directory_are_not_ours(tmp_path: Path) -> None:
    """A `json.py` or a `harness` that lies around is not run in place of ours."""
    (tmp_path / "json.py").write_text("raise SystemExit('wrong json')")
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise SystemExit('wrong harness')")
    (tmp_path / "dies.toml").write_text('name = "dies"\n[process]\ncommand = ["false"]\n')
    command = [sys.executable, "-P", "-m", "harness", "cluster", "up", "--target", "dies.toml"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 3, ran.stderr
    assert "died during start-up" in ran.stderr


def test_a_docker_engine_that_never_answers(state_home: Path, taken_port: int) -> None:
    """The wait is short, and the address is named."""
    ran = cli("cluster", "up", "--cluster", "docker", DOCKER_HOST=f"tcp://127.0.0.1:{taken_port}")
    refused(ran, state_home, 6, f"tcp://127.0.0.1:{taken_port}", "--cluster local")


@pytest.mark.docker
@pytest.mark.parametrize("image", ["!!!", "Upper/Case"])
def test_an_image_name_that_is_none(state_home: Path, image: str) -> None:
    """The variable it came from is named."""
    refused(cli("cluster", "up", "--cluster", "docker", KAFKA_IMAGE=image), state_home, 4, "KAFKA_IMAGE")


def test_files_that_are_no_certificates(state_home: Path, tmp_path: Path) -> None:
    """Said at once, and not as a connection that fails."""
    (tmp_path / "ca.pem").write_text("not a certificate")
    flags = ("--cluster", "external", "--bootstrap", "127.0.0.1:9", "--tls-ca", str(tmp_path / "ca.pem"))
    refused(cli("cluster", "up", *flags), state_home, 4, "ca.pem", "PEM")
