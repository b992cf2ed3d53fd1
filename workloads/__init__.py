"""What clients do to a cluster under test: one module per workload, and the worker processes that do it.

Whatever module has a `WORKLOAD` is a workload; nothing else has to know of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.foundation.config import suggestion
from harness.foundation.discovery import modules_with
from harness.foundation.errors import UsageError
from workloads.base import Workload

FIRST = (  # in lists, and to be drawn from; others come after them, by name
    "large_batch",
    "stream",
    "groups",
    "transactions",
    "retries",
    "compacted",
    "shifting_topics",
    "exactly_once",
)


def workloads_in(directories: Iterable[str]) -> dict[str, Workload[Any]]:
    """Those in the modules of this package that are in these directories, by name."""
    found: list[Workload[Any]] = [each.WORKLOAD for each in modules_with("WORKLOAD", __name__, directories, FIRST)]
    return {workload.name: workload for workload in found}


WORKLOADS: dict[str, Workload[Any]] = workloads_in(__path__)


def find_workload(name: object) -> Workload[Any]:
    """The workload of this name, which a file may have written as anything."""
    if not isinstance(name, str) or name not in WORKLOADS:
        raise UsageError(f"there is no workload '{name}'", suggestion(str(name), list(WORKLOADS)))
    return WORKLOADS[name]
