"""The Spark session that modules of tests share; most tests need none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.spark.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shared: list[Session] = []


def shared_session() -> Session:
    """The session of all modules that ask for one."""
    if not _shared:
        session = Session.start(Path(tempfile.mkdtemp(prefix="tidegauge-tests-")))
        _shared.append(session)
        session.get()
    return _shared[0]


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """What it is asked through."""
    yield shared_session().get()


def end_spark_session() -> None:
    """For whoever needs one of another kind, or starts commands that have their own."""
    while _shared:
        session = _shared.pop()
        session.close()
        shutil.rmtree(session.scratch, ignore_errors=True)
