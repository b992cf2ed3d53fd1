"""A whole check whose processes are killed or stopped: it ends, says what happened, and never calls a run valid.

The processes are those of Spark: its JVM, and the Python workers in which the kernels run.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.foundation.errors import Exit, TidegaugeError
from harness.judging.checking import Checked, check_again
from tests.support.foreign_histories import QUIET, take
from tests.support.golden_histories import GOLDEN

pytestmark = pytest.mark.usefixtures("spark_of_its_own", "state_home")
EVERY_S = 0.005


def jvms() -> list[psutil.Process]:
    """Of this process."""
    return [each for each in psutil.Process().children(recursive=True) if "java" in each.name()]


def workers() -> list[psutil.Process]:
    """Python's processes below the JVM but for the one that forks them, which is the oldest."""
    found = [each for jvm in jvms() for each in jvm.children(recursive=True) if "python" in each.name()]
    return sorted(found, key=lambda each: each.create_time())[1:]


@contextmanager
def attacked(with_what: signal.Signals, *, worker: bool) -> Iterator[set[int]]:
    """Whoever appears inside is hit, until the end; a JVM once its first worker is there. Those that were hit."""
    over, hit = threading.Event(), set[int]()

    def attack() -> None:
        while not over.wait(EVERY_S):
            try:
                found = workers()
                for each in found if worker else jvms()[: len(found)]:
                    if each.pid not in hit:
                        os.kill(each.pid, with_what)
                        hit.add(each.pid)
            except (psutil.Error, OSError):
                continue  # it ended while it was looked at

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    try:
        yield hit
    finally:
        over.set()
        thread.join()


def check_of(store: Path) -> Checked:
    """Of a history that is valid when nobody disturbs."""
    run = take(GOLDEN / "clean-stream.jsonl.gz", store).run
    (checked,) = check_again([run], QUIET)
    return checked


@pytest.mark.parametrize("with_what", [signal.SIGKILL, signal.SIGSTOP], ids=lambda each: each.name)
def test_python_workers_that_are_hit_leave_an_unknown_verdict(tmp_path: Path, with_what: signal.Signals) -> None:
    """What they were to look at was not looked at, and that is said."""
    with attacked(with_what, worker=True) as hit:
        checked = check_of(tmp_path)
    assert hit
    assert checked.exit_code == Exit.UNKNOWN
    assert any("the check of the history failed" in str(reason) for reason in checked.verdict.reasons)
    assert check_of(tmp_path).exit_code == Exit.VALID


@pytest.mark.parametrize("with_what", [signal.SIGKILL, signal.SIGSTOP], ids=lambda each: each.name)
def test_a_jvm_that_is_hit_ends_the_check(tmp_path: Path, with_what: signal.Signals) -> None:
    """In a sentence; nothing of it is left."""
    with attacked(with_what, worker=False) as hit, pytest.raises(TidegaugeError, match="Spark"):
        check_of(tmp_path)
    assert hit
    assert jvms() == []
