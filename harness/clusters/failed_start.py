"""What is kept of a cluster that did not start: its nodes' logs, which go with the cluster otherwise."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.foundation.errors import ClusterError
from harness.foundation.paths import cache_dir

if TYPE_CHECKING:  # it keeps logs with this
    from harness.clusters.node import Node

KEPT_LINES = 20_000
SHOWN_LINES = 5  # of each node whose lines the error does not show already
KEPT_STARTS = 5

LogTail = Callable[[int, int], list[str]]


def directory() -> Path:
    """Where they are kept: not among what exists only while something runs."""
    return cache_dir() / "failed-starts"


def keep_logs(name: str, nodes: Sequence[Node], log_tail: LogTail, error: ClusterError) -> None:
    """Write the logs of all nodes, and let the error show their last lines and say where the rest is."""
    place = directory() / f"{time.strftime('%Y%m%dT%H%M%S')}-{name}"
    shown: list[str] = []
    for node in nodes:
        try:
            lines = log_tail(node.id, KEPT_LINES)
            if lines:
                place.mkdir(parents=True, exist_ok=True)
                (place / f"node-{node.id}.log").write_text("\n".join(lines) + "\n")
        except (OSError, KeyError, ClusterError):  # what was never made has no log
            continue
        if lines and not set(lines[-SHOWN_LINES:]) <= set(error.log_tail):
            shown += [f"node {node.id}:", *lines[-SHOWN_LINES:]]
    if place.is_dir():
        error.add_lines((*shown, f"The logs of all nodes are kept in {place}."))
        _forget_old()


def _forget_old() -> None:
    """Only the newest are kept; their names begin with their time."""
    for old in sorted(directory().iterdir())[:-KEPT_STARTS]:
        shutil.rmtree(old, ignore_errors=True)
