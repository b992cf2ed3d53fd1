"""Who gets the JVM that stands by, told without one."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

import pytest

from harness.spark_jvm import ADDRESS_FILE, LOG_FILE, Size
from harness.spark_place import Place
from harness.spark_standby import JARS_FILE, TAKEN_FILE, VARIABLE, _digest, borrow

JARS = [Path("/jars/spark-core.jar"), Path("/jars/spark-sql.jar")]
SECRET = "c0ffee"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of one, as it tells others of itself."""
    (tmp_path / ADDRESS_FILE).write_bytes(struct.pack("!ii", 4711, len(SECRET)) + SECRET.encode())
    (tmp_path / JARS_FILE).write_text(_digest(JARS))
    (tmp_path / TAKEN_FILE).touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def is_free() -> bool:
    """Whether somebody gets it."""
    borrowed = borrow(Size.SMALL, Place(), JARS)
    if borrowed is not None:
        borrowed.give_back()
    return borrowed is not None


def test_one_at_a_time(kept: Path) -> None:
    """Who has it knows how to reach it, and nobody else gets it before it is given back."""
    borrowed = borrow(Size.SMALL, Place(), JARS)
    assert borrowed is not None
    assert (borrowed.port, borrowed.secret, borrowed.log) == (4711, SECRET, kept / LOG_FILE)
    assert not is_free()
    borrowed.give_back()
    borrowed.give_back()
    assert is_free()


def test_a_forked_child_does_not_keep_it(kept: Path) -> None:
    """It has a copy of our lock, and lets go of it at once."""
    borrowed = borrow(Size.SMALL, Place(), JARS)
    assert borrowed is not None
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"!")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(reading, 1) == b"!"
        assert not is_free()
        borrowed.give_back()
        assert is_free()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("size", "place", "jars"),
    [
        (Size.LARGE, Place(), JARS),
        (Size.SMALL, Place("spark://127.0.0.1:7077"), JARS),
        (Size.SMALL, Place("sc://127.0.0.1"), JARS),
        (Size.SMALL, Place(conf={"spark.driver.memory": "1g"}), JARS),
        (Size.SMALL, Place(conf={"spark.driver.extraJavaOptions": "-Dx=y"}), JARS),
        (Size.SMALL, Place(conf={"spark.jars": "/mine.jar"}), JARS),
        (Size.SMALL, Place(), JARS[:1]),
    ],
    ids=["large", "cluster", "connect", "memory", "options", "jars of the user's", "another version"],
)
def test_who_needs_another_kind_does_not_get_it(kept: Path, size: Size, place: Place, jars: list[Path]) -> None:
    """Nor does it keep others from having it."""
    assert borrow(size, place, jars) is None
    assert is_free()


@pytest.mark.parametrize("missing", [TAKEN_FILE, JARS_FILE, ADDRESS_FILE])
def test_one_that_is_going_is_nobodys(kept: Path, missing: str) -> None:
    """Whatever of its directory is gone first."""
    (kept / missing).unlink()
    assert not is_free()


def test_nobody_was_told(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for by name only."""
    monkeypatch.delenv(VARIABLE)
    assert not is_free()
    monkeypatch.setenv(VARIABLE, str(kept / "nowhere"))
    assert not is_free()
