"""The runs of an investigation: real ones, one after the other, with one Spark session and on one cluster if possible.

A cluster that no fault is going to break is started once, and every run has topics of its own on it, which it removes.
Where the scenario has faults, each run starts a cluster: what one run broke must not be what the next one meets.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from checkers.warm_up import warm_up
from harness.clusters.spec import make_cluster
from harness.diagnosis.investigate import Ran, ran_of
from harness.guard import Guard
from harness.live import viewed_on
from harness.paths import clusters_dir
from harness.runner import Lent, run_scenario
from harness.scenario import Scenario
from harness.spark import Session
from harness.spark_place import Place


@contextmanager
def runs_on(
    scenario: Scenario, store: Path, command_line: list[str], console: Console, place: Place
) -> Iterator[Callable[[Scenario], Ran]]:
    """What makes a run of an experiment, as long as this lasts."""
    with ExitStack() as undo:
        guard = Guard(clusters_dir() / f"investigate-{secrets.token_hex(4)}")
        undo.callback(guard.release)
        token, scratch = guard.directory.name, guard.directory / "spark"
        session = undo.enter_context(Session.start(scratch, place=place, token=token, warm_up=warm_up))
        cluster = None
        if not scenario.nemesis and scenario.cluster.kind != "external":
            with viewed_on(console) as view:
                view.phase("cluster")
                cluster = make_cluster(scenario.cluster, view)
                undo.callback(cluster.stop)
                cluster.start()
        lent = Lent(cluster, session)

        def run(each: Scenario) -> Ran:
            began_s = time.monotonic()
            with viewed_on(console) as view:
                checked = run_scenario(each, store, command_line, view, lambda _: None, place=place, lent=lent)
            name = "/".join(Path(checked.run.path).parts[-2:])
            return ran_of(name, checked.as_json(), checked.facts, time.monotonic() - began_s)

        yield run
