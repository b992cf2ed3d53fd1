"""The classes of local nodes on Java: written by the first cluster that ends in order, used by the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.clusters import local
from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability
from harness.clusters.target import load_target
from harness.foundation import optional_work
from harness.foundation.class_archive import CLASSES
from harness.foundation.errors import UsageError
from harness.foundation.java import Java

# A node that listens, tells how it was started, and writes its classes when it is asked to end, as a JVM does.
JAVA = f"""#!{sys.executable}
import os, signal, socket, sys
options = [word for word in sys.argv[1:] if "Archive" in word]
if "-version" in sys.argv:
    sys.exit(0)
with open("options", "a") as file:
    file.write(" ".join(options) + ";")
def end(*_):
    for word in options:
        if "AtExit" in word:
            with open(word.partition("=")[2], "w") as file:
                file.write("classes")
    os._exit(143)
signal.signal(signal.SIGTERM, end)
server = socket.create_server(("127.0.0.1", int(sys.argv[-1])))
while True:
    server.accept()
"""
TARGET = """
name = "on-java"
ready = "port"
nodes = 2
[java]
jars = ["a:b:1"]
[process]
command = ["{java}", "-XX:+UseSerialGC", "{class_archive}", "-cp", "{classpath}", "{port.kafka}"]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """A cluster of such nodes, in a cache and a state directory of this test alone."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    program, jar, file = tmp_path / "java", tmp_path / "a.jar", tmp_path / "on-java.toml"
    for path, text in ((program, JAVA), (jar, "jar"), (file, TARGET)):
        path.write_text(text)
    program.chmod(0o755)
    monkeypatch.setattr(local, "ensure_java", lambda *_: Java(program, 17, "PATH"))
    monkeypatch.setattr(local, "ensure_jars", lambda *_: [jar])
    return LocalCluster(load_target(str(file)))


def again(cluster: LocalCluster) -> LocalCluster:
    """Another one of the same target."""
    return LocalCluster(cluster.target)


def told(cluster: LocalCluster) -> list[str]:
    """What each node was told about archives at each start."""
    return [(cluster.node_dir(node.id) / "options").read_text() for node in cluster.nodes]


def archives(tmp_path: Path) -> list[Path]:
    """What is in the cache, whole or not."""
    return list((tmp_path / "home" / "cache" / "classes").glob("*"))


def test_the_second_cluster_starts_with_the_classes_of_the_first(made: LocalCluster, tmp_path: Path) -> None:
    """One node of the first writes them, once; all nodes of the second use them."""
    with made:
        first, second = told(made)
        assert first.startswith("-XX:ArchiveClassesAtExit=")
        assert second == ";"
    (archive,) = archives(tmp_path)
    with again(made) as other:
        assert told(other) == [f"-XX:SharedArchiveFile={archive / CLASSES};"] * 2
    assert archives(tmp_path) == [archive]


def test_a_cluster_that_is_not_whole_writes_nothing(made: LocalCluster, tmp_path: Path) -> None:
    """Who knows what its nodes would do when they are asked to end: the next one tries again."""
    with made:
        made.kill(2)
    assert archives(tmp_path) == []


def test_a_node_that_does_not_go_costs_nobody_an_end(made: LocalCluster, tmp_path: Path) -> None:
    """Half an archive is none, and the node is killed with the others."""
    with made:
        node = made._child(local.RECORDER)
        in_the_end, asked = node.wait, []

        def wait(timeout: float | None = None) -> int:
            asked.append(timeout)
            if len(asked) == 1:
                raise subprocess.TimeoutExpired("node", timeout or 0)
            return in_the_end(timeout)

        node.wait = wait  # type: ignore[method-assign]
    assert len(asked) == 2
    assert archives(tmp_path) == []


def test_clocks_of_their_own_go_without(made: LocalCluster, tmp_path: Path) -> None:
    """To such a node files look younger than they were, and the JVM would refuse them."""
    made._needs = frozenset({Capability.CLOCK})
    assert made._classes(Java(tmp_path / "java", 17, "PATH"), [tmp_path / "a.jar"]).options == ()


def test_it_takes_java(made: LocalCluster, tmp_path: Path) -> None:
    """Elsewhere the placeholder means nothing, and that is said."""
    file = tmp_path / "without.toml"
    file.write_text('name = "x"\nready = "port"\n[process]\ncommand = ["sh", "{class_archive}"]\n')
    with pytest.raises(UsageError, match="class_archive"), LocalCluster(load_target(str(file))):
        pass


def test_whoever_is_in_a_hurry_writes_no_classes(made: LocalCluster, tmp_path: Path) -> None:
    """After Ctrl-C, SIGTERM or a failure: the nodes end at once, and another cluster does it."""
    with made:
        optional_work.give_up()
    assert archives(tmp_path) == []
