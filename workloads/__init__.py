"""What clients do to a cluster under test: one module per workload, and the worker processes that do it."""

from __future__ import annotations

from typing import Any

from harness.config import suggestion
from harness.errors import UsageError
from workloads.base import Workload
from workloads.compacted import Compacted
from workloads.exactly_once import ExactlyOnce
from workloads.groups import Groups
from workloads.large_batch import LargeBatch
from workloads.retries import Retries
from workloads.shifting_topics import Topics
from workloads.stream import Stream
from workloads.transactions import Transactions

WORKLOADS: dict[str, Workload[Any]] = {
    workload.name: workload
    for workload in (
        LargeBatch(),
        Stream(),
        Groups(),
        Transactions(),
        Retries(),
        Compacted(),
        Topics(),
        ExactlyOnce(),
    )
}


def find_workload(name: object) -> Workload[Any]:
    """The workload of this name, which a file may have written as anything."""
    if not isinstance(name, str) or name not in WORKLOADS:
        raise UsageError(f"there is no workload '{name}'", suggestion(str(name), list(WORKLOADS)))
    return WORKLOADS[name]
