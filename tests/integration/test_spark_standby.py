"""A JVM that stands by: sessions use it one after the other, whatever became of the one before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.errors import TidegaugeError
from harness.spark import Session
from harness.spark_jvm import LOG_FILE
from harness.spark_place import Place
from harness.spark_standby import VARIABLE, Standby, standing_by
from tests.support import REPOSITORY, command, end, eventually, remains

pytestmark = pytest.mark.usefixtures("spark_of_its_own")

USES_IT = """
import sys
from pathlib import Path
from harness.spark import Session
session = Session.start(Path(sys.argv[1]))
spark = session.get()
print("borrowed" if session._borrowed else "own", flush=True)
spark.range(10**12).selectExpr("max(id * id % 7)").collect()
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standby]:
    """One for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with standing_by() as standby:
            patch.setenv(VARIABLE, str(standby.directory))
            yield standby


def pid_of(session: Session) -> int:
    """The process of its JVM, as that tells it."""
    jvm = session.get().sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def names_in(session: Session) -> int:
    """How many objects its JVM has names for."""
    return int(session._gateway.java_gateway_server.getGateway().getBindings().size())


def test_sessions_one_after_another(kept: Standby, tmp_path: Path) -> None:
    """One JVM, which stays; each session has settings and files of its own, and nothing of the one before."""
    for zone in ("Asia/Tokyo", "UTC"):
        place = Place(conf={"spark.sql.session.timeZone": zone})
        with Session.start(tmp_path, place=place) as session:
            spark = session.get()
            assert pid_of(session) == kept.jvm.pid
            assert names_in(session) < 100
            assert spark.conf.get("spark.sql.session.timeZone") == zone
            assert not spark.catalog.listTables()
            spark.range(3).createOrReplaceTempView("mine")
            spark.range(5).write.mode("overwrite").parquet(str(tmp_path.parent / "five"))
            assert spark.read.parquet(str(tmp_path.parent / "five")).toArrow().num_rows == 5
            assert spark.sparkContext.parallelize([1]).map(lambda _: sys.executable).collect() == [sys.executable]
            named = [spark.range(n) for n in range(500)]
            assert names_in(session) > len(named)
            assert not session.writes_archive
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(TidegaugeError, match="is closed"):
            session.get()
    assert not kept.jvm.has_ended()


def test_one_that_is_taken_is_left_to_whoever_has_it(kept: Standby, tmp_path: Path) -> None:
    """Who comes second starts one of its own. When the first is killed in the middle of a job, the next one gets it."""
    first = subprocess.Popen(
        [sys.executable, "-c", USES_IT, str(tmp_path / "first")], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "borrowed\n"
        with Session.start(tmp_path / "second") as session:
            assert session.get().range(4).count() == 4
            assert pid_of(session) != kept.jvm.pid
    finally:
        end([first])
    with Session.start(tmp_path / "third") as session:
        assert session.get().range(4).count() == 4
        assert pid_of(session) == kept.jvm.pid


def test_an_error_gives_it_back(kept: Standby, tmp_path: Path) -> None:
    """At once, and also while a job goes on: that is over, and the next session has it for itself."""
    session = Session.start(tmp_path)
    session.get()
    session._close(in_order=False)
    process = subprocess.Popen(
        [sys.executable, "-c", USES_IT, str(tmp_path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "borrowed\n"
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        end([process])
    with Session.start(tmp_path) as session:
        assert pid_of(session) == kept.jvm.pid
        assert session.get().range(4).count() == 4


def test_one_that_died_is_no_loss(tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps it is told; a session that was told of it starts one of its own."""
    with standing_by() as standby:
        monkeypatch.setenv(VARIABLE, str(standby.directory))
        psutil.Process(standby.jvm.pid).kill()
        with pytest.raises(TidegaugeError, match="has ended"):
            standby.wait()
        with Session.start(tmp_path) as session:
            assert session.get().range(4).count() == 4
        assert [file.name for file in tmp_path.iterdir() if file != state_home] == [LOG_FILE]
    assert remains("spark", state_home) == []


def test_one_that_ends_while_it_is_used(tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever used it learns what happened, and not of a port that nobody listens at."""
    with standing_by() as standby:
        monkeypatch.setenv(VARIABLE, str(standby.directory))
        session = Session.start(tmp_path / "scratch")
        spark = session.get()
        psutil.Process(standby.jvm.pid).kill()
        with pytest.raises(TidegaugeError, match="the JVM that stood by has ended"), session:
            spark.range(4).count()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_command_ends_with_everything(state_home: Path, how: signal.Signals) -> None:
    """It says what to do, waits, and leaves nothing, however it ends."""
    process = subprocess.Popen(command("spark", "--json"), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["variable"] == VARIABLE
        assert (Path(told["directory"]) / LOG_FILE).exists()
        os.kill(process.pid, how)
        assert process.wait(60) == (-how if how == signal.SIGKILL else 0)
    finally:
        end([process])
    eventually(lambda: remains(Path(told["directory"]).name, state_home) == [], "nothing is left")
