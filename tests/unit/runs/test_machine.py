"""The doctor: each missing thing with what it costs and how to get it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from harness.clusters import network_support
from harness.clusters.docker import DockerCluster
from harness.clusters.jars import locked_versions
from harness.clusters.kinds import docker, local
from harness.clusters.local import LocalCluster
from harness.clusters.node import Capability, Unavailable
from harness.clusters.prepared_files import MANIFEST, is_prepared, prepared_dir
from harness.clusters.target import load_target
from harness.foundation.errors import CannotHere
from harness.foundation.java import Java
from harness.foundation.ports import PortLeases
from harness.runs import machine
from harness.runs.machine import MachineCheck, examine, examine_faults
from nemesis import FAULTS

Patch = tuple[Any, str, Any]
NAMES = ["java", "kafka", "spark", "ports", "disk", "docker", "compose", "image", "root", "netns", "iptables"]
NAMES += ["tc", "loop", "faketime"]
NEEDED = {"java", "ports", "disk"}


def refuse(*_: Any, **__: Any) -> NoReturn:
    """What anything that is missing does."""
    raise CannotHere("it is missing", "install it")


def disk(free_bytes: int) -> Callable[[Path], SimpleNamespace]:
    """A disk with so much space left."""
    return lambda _: SimpleNamespace(free=free_bytes)


GONE = Unavailable("it is missing", "get it")
MISSING: dict[str, Patch] = {
    "java": (machine, "find_java", refuse),
    "kafka": (machine, "is_prepared", lambda _: False),
    "spark": (machine, "jars", refuse),
    "ports": (PortLeases, "take", refuse),
    "disk": (shutil, "disk_usage", disk(2**20)),
    "docker": (docker, "connect", refuse),
    "compose": (docker, "compose_version", refuse),
    "image": (docker, "images_here", lambda *_: []),
    "root": (os, "geteuid", lambda: 1000),
    "netns": (network_support, "why_no_namespaces", lambda: GONE),
    "iptables": (network_support, "missing", lambda each: GONE if each is Capability.LOSS else None),
    "tc": (network_support, "missing", lambda each: GONE if each is Capability.SHAPE else None),
    "loop": (machine, "why_no_disks", lambda: ("they are missing", "get them")),
    "faketime": (machine, "why_no_clocks", lambda: ("they are missing", "get them")),
}


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state_home: Path) -> None:
    """A machine that has everything."""
    engine = SimpleNamespace(version=lambda: {"Version": "27"})
    for where, name, value in (
        (machine, "find_java", lambda *_: Java(Path("/j"), 21, "PATH")),
        (machine, "is_prepared", lambda target: target == load_target("kafka")),
        (machine, "cache_dir", lambda: tmp_path),
        (shutil, "disk_usage", disk(2**40)),
        (docker, "connect", lambda timeout_s: engine),
        (docker, "compose_version", lambda: "2.30"),
        (docker, "images_here", lambda *_: ["apache/kafka:1"]),
        (os, "geteuid", lambda: 0),
        (network_support, "why_no_namespaces", lambda: None),
        (network_support, "missing", lambda _: None),
        (local, "run_command", lambda _: "iptables v1.8\n"),
        (machine, "why_no_disks", lambda: None),
        (machine, "why_no_clocks", lambda: None),
    ):
        monkeypatch.setattr(where, name, value)


def by_name(checks: list[MachineCheck]) -> dict[str, MachineCheck]:
    """Checks by their names."""
    return {check.name: check for check in checks}


@pytest.mark.usefixtures("healthy")
def test_a_machine_that_has_everything(state_home: Path, tmp_path: Path) -> None:
    """All checks pass, say what they found, cost nothing, and leave nothing behind."""
    checks = examine()
    assert [check.name for check in checks] == NAMES
    assert [check for check in checks if not check.ok or not check.found or check.costs or check.remedy] == []
    assert by_name(checks)["java"].found == "Java 21 from PATH (/j)"
    assert by_name(checks)["spark"].found == f"Spark {metadata.version('pyspark')} on Java 21"
    assert by_name(checks)["iptables"].found == "iptables v1.8"
    assert by_name(checks)["kafka"].found == f"Apache Kafka {load_target('kafka').version} in {tmp_path}"
    assert not state_home.exists() or not list(state_home.iterdir())


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("name", NAMES)
def test_one_missing_thing_is_told(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It has a cost and a remedy, and the others do not suffer."""
    monkeypatch.setattr(*MISSING[name])
    checks = by_name(examine())
    check = checks[name]
    assert not check.ok
    assert check.found
    assert check.costs
    assert check.remedy
    assert check.needed_for_local == (name in NEEDED)
    # without an engine nobody can look at its images, and Spark runs on Java
    also = {"docker": {"image"}, "java": {"spark"}}.get(name, set())
    assert {other for other in checks if not checks[other].ok} == {name} | also


@pytest.mark.usefixtures("healthy")
def test_kafka_is_there_when_what_it_needs_once_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Undamaged, in the cache, of the version that is used unless told; others alone are not enough."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(machine, "is_prepared", is_prepared)
    newest, older, *_ = locked_versions("kafka")
    assert load_target("kafka").version == newest
    assert not by_name(examine())["kafka"].ok
    kept = {}
    for version in (older, newest):
        directory = prepared_dir(load_target("kafka", version))
        directory.mkdir(parents=True)
        kept[version] = directory / "data" / "bootstrap.checkpoint"
        kept[version].parent.mkdir()
        kept[version].write_text("content")
        digest = hashlib.sha256(b"content").hexdigest()
        assert not by_name(examine())["kafka"].ok
        (directory / MANIFEST).write_text(json.dumps({"data/bootstrap.checkpoint": digest}))
    assert by_name(examine())["kafka"].found == f"Apache Kafka {newest}, {older} in {tmp_path}"
    kept[older].write_text("conten")
    assert by_name(examine())["kafka"].found == f"Apache Kafka {newest} in {tmp_path}"
    kept[newest].write_text("contend")
    check = by_name(examine())["kafka"]
    assert (check.ok, check.found) == (False, "Apache Kafka is not downloaded yet")


@pytest.mark.usefixtures("healthy")
def test_everything_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even then every check ends, with a cost and a remedy each."""
    for patch in MISSING.values():
        monkeypatch.setattr(*patch)
    monkeypatch.setattr(network_support, "missing", lambda _: GONE)
    checks = examine()
    assert [check.name for check in checks if check.costs and check.remedy and not check.ok] == NAMES
    assert {check.name for check in checks if check.needed_for_local} == NEEDED


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("name", ["docker", "ports", "compose"])
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), TimeoutError("slow")])
def test_an_unexpected_error_is_a_finding(monkeypatch: pytest.MonkeyPatch, name: str, error: OSError) -> None:
    """The doctor is what one runs when things are broken: no broken thing may stop it."""

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    where, attribute, _ = MISSING[name]
    monkeypatch.setattr(where, attribute, fail)
    assert not by_name(examine())[name].ok


@pytest.mark.usefixtures("healthy")
def test_impossible_faults_are_told_by_cluster_and_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """All faults with the same reason in one place, on each kind of cluster; what is possible is not mentioned."""
    bandwidth = Unavailable("no bandwidth", "another kernel")
    clocks = Unavailable("no clocks", "another library")
    monkeypatch.setattr(LocalCluster, "cannot", lambda _, each: {Capability.SHAPE: bandwidth}.get(each))
    monkeypatch.setattr(
        DockerCluster, "cannot", lambda _, each: {Capability.SHAPE: bandwidth, Capability.CLOCK: clocks}.get(each)
    )
    limited, skewed = (
        ", ".join(n for n, f in FAULTS.items() if c in f.needs) for c in (Capability.SHAPE, Capability.CLOCK)
    )
    assert [(each.name, each.found, each.costs, each.remedy) for each in examine_faults()] == [
        ("faults on local", "no bandwidth", f"no {limited} with --cluster local", "another kernel"),
        ("faults on docker", "no bandwidth", f"no {limited} with --cluster docker", "another kernel"),
        ("faults on docker", "no clocks", f"no {skewed} with --cluster docker", "another library"),
    ]
    assert "bandwidth" in limited
    assert not any(each.ok or each.needed_for_local for each in examine_faults())


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("error", [CannotHere("it is slow", "wait"), TimeoutError("it is slow")])
def test_faults_that_cannot_be_looked_for_are_told(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """On one kind of cluster; the other does not suffer."""

    def fail(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(LocalCluster, "cannot", lambda *_: None)
    monkeypatch.setattr(DockerCluster, "cannot", fail)
    (check,) = examine_faults()
    assert check.name == "faults on docker"
    assert "it is slow" in check.found
    assert check.remedy


@pytest.mark.usefixtures("healthy")
def test_a_machine_that_can_do_all_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has nothing to tell."""
    for cluster in (LocalCluster, DockerCluster):
        monkeypatch.setattr(cluster, "cannot", lambda *_: None)
    assert examine_faults() == []


def test_a_check_is_plain_data() -> None:
    """For `doctor --json`."""
    assert MachineCheck("java", ok=False, found="x", costs="y", remedy="z", needed_for_local=True).as_json() == {
        "name": "java",
        "ok": False,
        "found": "x",
        "costs": "y",
        "remedy": "z",
        "needed_for_local": True,
    }
