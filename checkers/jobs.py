"""Work for Spark in as few jobs as may run at once, and one by one when that fails, so that what fails is named.

Of a small history the planning of a query takes longer than its execution, so each core plans and runs a share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from checkers.budget import Budget

AT_ONCE = 4  # jobs of a small history, if there are so many cores
ERROR_CHARACTERS = 300
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Jobs:
    """So many jobs at once, each with its budget; failures are sentences."""

    pool: ThreadPoolExecutor
    at_once: int
    budget: Budget
    failures: list[str]

    def begin(self, work: Callable[[], R]) -> Future[R]:
        """A job that goes on beside the others."""
        return self.pool.submit(self.budget.run, work)

    def ask(self, items: Sequence[T], work: Callable[[Sequence[T]], R], name: Callable[[T], str]) -> list[R]:
        """What the work makes of all items; an item that cannot be worked on is named, and the others are there."""

        def share(mine: Sequence[T]) -> list[R]:
            try:
                return [self.budget.run(partial(work, mine))]
            except Exception:  # noqa: BLE001 - which item it was is found out below
                return [answer for item in mine for answer in alone(item)]

        def alone(item: T) -> list[R]:
            try:
                return [self.budget.run(partial(work, [item]))]
            except Exception as error:  # noqa: BLE001 - the others have to go on
                self.failures.append(failure(name(item), error))
                return []

        shares = [items[first :: self.at_once] for first in range(min(self.at_once, len(items)))]
        return [answer for answers in self.pool.map(share, shares) for answer in answers]


@contextmanager
def jobs(budget: Budget, failures: list[str], *, small: bool) -> Iterator[Jobs]:
    """For one check."""
    at_once = min(os.cpu_count() or 1, AT_ONCE) if small else 1
    pool = ThreadPoolExecutor(at_once)
    try:
        yield Jobs(pool, at_once, budget, failures)
    finally:
        pool.shutdown(wait=False)  # whoever presses Ctrl-C does not wait for what is under way


def failure(name: str, error: Exception) -> str:
    """A sentence about a check that could not be made."""
    try:
        said = str(error).strip()
    except Exception:  # noqa: BLE001 - PySpark asks the JVM for the text, which may be gone
        said = ""
    first_line = (said.splitlines() or [type(error).__name__])[0]
    return f"the check of {name} failed ({first_line[:ERROR_CHARACTERS]})"
