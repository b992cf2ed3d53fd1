"""A budget of time for work that asks Spark: what takes longer is cancelled, and left behind if it does not heed that.

The jobs of the work carry a tag, by which they are cancelled at a cluster and through Spark Connect as well. The work
runs in a thread of its own, because neither the planning of a query nor what Python computes can be cancelled so.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUDGET_S = 600.0
GRACE_S = 10.0  # for work that was told to end
AGAIN_S = 0.5  # jobs that were being planned when the others were cancelled come later
T = TypeVar("T")
_numbers = itertools.count(1)


class OverBudgetError(Exception):
    """It took longer than it was given."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it took longer than its budget of {seconds:g} s")


@dataclass(frozen=True)
class Budget:
    """So many seconds for each piece of work."""

    spark: SparkSession
    seconds: float = BUDGET_S

    def run(self, work: Callable[[], T]) -> T:
        """What the work returns or raises, or OverBudgetError."""
        tag = f"tidegauge-{next(_numbers)}"
        returned: list[T] = []
        raised: list[Exception] = []

        def tagged() -> None:
            try:
                _tag(self.spark, tag)
                returned.append(work())
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                raised.append(error)

        thread = threading.Thread(target=tagged, name=tag, daemon=True)
        thread.start()
        thread.join(self.seconds)
        if thread.is_alive():
            _cancel(self.spark, tag, thread)
            raise OverBudgetError(self.seconds)
        if raised:
            raise raised[0]
        return returned[0]


def _tag(spark: SparkSession, tag: str) -> None:
    """Mark all jobs of this thread; a task that is cancelled is to stop at once."""
    if _is_remote():
        spark.addTag(tag)
        return
    context = spark.sparkContext
    context.addJobTag(tag)
    context.setInterruptOnCancel(interruptOnCancel=True)


def _cancel(spark: SparkSession, tag: str, thread: threading.Thread) -> None:
    deadline = time.monotonic() + GRACE_S
    while thread.is_alive() and time.monotonic() < deadline:
        with suppress(Exception):  # a session that is gone has no jobs
            if _is_remote():
                spark.interruptTag(tag)
            else:  # where a session knows the tags of its own thread only
                spark.sparkContext.cancelJobsWithTag(tag)
        thread.join(AGAIN_S)


def _is_remote() -> bool:
    from pyspark.sql import is_remote

    return is_remote()
