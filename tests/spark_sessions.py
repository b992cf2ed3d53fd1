"""The JVM that tests share with each other and with commands, and the session in it that modules share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.spark import Session
from harness.spark_standby import VARIABLE, standing_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_kept = ExitStack()
_directories: list[Path] = []
_shared: list[Session] = []


def standby() -> Path:
    """A JVM that stands by until all is over: the first checks in a JVM are its slowest."""
    if not _directories:
        _directories.append(_kept.enter_context(standing_by()).directory)
    return _directories[0]


def shared_session() -> Session:
    """The session of all modules that ask for one."""
    if not _shared:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, str(standby()))
            session = Session.start(Path(tempfile.mkdtemp(prefix="tidegauge-tests-")))
            _shared.append(session)
            session.get()
    return _shared[0]


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """What it is asked through."""
    yield shared_session().get()


def end_spark_session() -> None:
    """For whoever needs one of another kind, or the JVM for commands."""
    while _shared:
        session = _shared.pop()
        session.close()
        shutil.rmtree(session.scratch, ignore_errors=True)


def end_all() -> None:
    """What modules share does not outlive the tests."""
    end_spark_session()
    _directories.clear()
    _kept.close()
