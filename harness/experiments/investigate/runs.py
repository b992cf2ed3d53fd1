"""The runs of an investigation: real ones, one after the other, with one Spark session and on one cluster if possible.

A cluster that no fault is going to break is started once. Where the scenario has faults, each run starts a cluster:
what one run broke must not be what the next one meets. What is read is the investigation; a report of a single run is
made when somebody asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.experiments.investigate.search import RunSample, TookTooLong, ran_of
from harness.foundation.interrupts import StopAfter
from harness.foundation.view import viewed_on
from harness.runs.runner import run_scenario
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import sharing
from harness.spark.place import Place

LONGEST_S = 60.0  # of a run up to the end of its load; one that takes longer says nothing, and keeps others from theirs


@contextmanager
def runs_on(
    scenario: Scenario, store: Path, command_line: list[str], console: Console, place: Place
) -> Iterator[Callable[[Scenario], RunSample]]:
    """What makes a run of an experiment, as long as this lasts."""
    spec = scenario.cluster if scenario.cluster.of.can_be_shared and not scenario.nemesis else None
    with sharing("investigate", spec, console, place, reports=False) as shared:

        def run(each: Scenario) -> RunSample:
            began_s = time.monotonic()
            stop = StopAfter()
            with viewed_on(console) as view, stop.within(LONGEST_S):
                checked = run_scenario(
                    each, store, command_line, view, lambda _: None, place=place, shared=shared, stop=stop
                )
            name = "/".join(Path(checked.run.path).parts[-2:])
            ran = ran_of(name, checked.as_json(), checked.facts, time.monotonic() - began_s)
            if stop.out_of_time:
                said = f"the load was not over after {LONGEST_S:.0f} s: what it did is in {checked.run.path}"
                raise TookTooLong(said, ran)
            return ran

        yield run
