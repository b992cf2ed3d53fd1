"""The demonstration: the notes' test before real Kafka, and before a broker with the bug that the notes were about.

Both on one cluster, which is started once: first as it is, while a leader changes, then through taps that play brokers
of which each lists nobody but itself. The first has to be valid, and of the second the cause has to be named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from harness.clusters.spec import ClusterSpec
from harness.foundation.errors import Exit
from harness.foundation.view import viewed_on
from harness.judging.checking import Checked
from harness.report.terminal import run as show_run
from harness.report.terminal.tables import line
from harness.runs import scenario as scenarios
from harness.runs.runner import run_scenario
from harness.runs.shared_resources import SharedResources, sharing
from harness.spark.place import Place

SEED = 7
BROKEN = "metadata-lists-self-only"
# Clients of a broker that lies would wait for minutes.
IMPATIENT = (
    "delivery_timeout_ms=8000",
    "request_timeout_ms=3000",
    "consumer_timeout_ms=5000",
    "final_read_timeout_s=4",
)


class Act(NamedTuple):
    """One of the two runs, and how it has to end."""

    title: str
    flags: dict[str, Any]
    settings: tuple[str, ...]
    expected: str


ACTS = (
    Act(
        "Apache Kafka as it is, while a leader changes",
        {"workload": "large-batch", "nemesis": ["leader-move"]},
        (),
        "valid",
    ),
    Act(
        "the same test, before brokers of which each lists nobody but itself",
        {"workload": "large-batch", "tap": {"broken": [BROKEN]}},
        IMPATIENT,
        "invalid",
    ),
)


def play(cluster: ClusterSpec, store: Path, err: Console, tell: Callable[[Checked], None]) -> list[Checked]:
    """Both runs, each told as soon as its verdict is there."""

    def run(act: Act, shared: SharedResources) -> Checked:
        given = scenarios.load(None, {**act.flags, "seed": SEED}, list(act.settings)).with_cluster(cluster)
        line(err, "")
        line(err, (act.title, "bold"))
        with viewed_on(err) as view:
            return run_scenario(given, store, sys.argv, view, tell, shared=shared)

    with sharing("demo", cluster, err, Place()) as shared:
        return [run(act, shared) for act in ACTS]


def exit_code(checked: list[Checked]) -> Exit:
    """Fine if both ended as they had to."""
    ended = [each.verdict.outcome for each in checked]
    return Exit.VALID if ended == [act.expected for act in ACTS] else show_run.worst(checked)
