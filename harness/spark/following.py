"""How far a check is, while Spark makes it: what tasks on this machine say, or how many of all tasks are done."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.spark.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.foundation.progress import Progress

FILE = "check-progress"
LOOK_EVERY_S = 0.3


@contextmanager
def followed(session: Session, progress: Progress) -> Iterator[str]:
    """Tell of it several times a second; what tasks may write to, if they are on this machine."""
    if session.place.is_connect:
        yield ""
        return
    file = session.scratch / FILE
    spark, over = session.get(), threading.Event()

    def follow() -> None:
        while not over.wait(LOOK_EVERY_S):
            with suppress(Exception):  # a session may end meanwhile, and progress is worth no verdict
                _tell(file, spark, progress)

    thread = threading.Thread(target=follow, name="check progress", daemon=True)
    thread.start()
    try:
        yield str(file) if session.place.is_local else ""
    finally:
        over.set()
        thread.join()
        with suppress(OSError):
            file.unlink()


def _tell(file: Path, spark: SparkSession, progress: Progress) -> None:
    if told := read(file):
        done, total, name = told
        progress.part(done, total, f"steps ({name.replace('_', ' ')})")
        return
    tracker = spark.sparkContext.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
    total = sum(stage.numTasks for stage in stages)
    if total > 1:
        progress.part(sum(stage.numCompletedTasks for stage in stages), total, "tasks")


def read(file: Path) -> tuple[int, int, str] | None:
    """Steps that are made, all steps, and what is asked now; None if nobody has said so."""
    try:
        done, total, name = file.read_text(encoding="utf-8").split(maxsplit=2)
        return int(done), int(total), name
    except (OSError, ValueError):
        return None
