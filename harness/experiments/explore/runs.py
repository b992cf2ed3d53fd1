"""The runs of an exploration: real ones, one after the other, on one cluster and with one Spark session.

The cluster is equipped for every fault that can be drawn. It is used again as long as it is found whole after a run;
otherwise a fresh one takes its place. After a run that failed, in whatever way, there are a fresh cluster and a fresh
session. A run that takes too long is ended as by its user: what is broken is undone, and what was recorded is checked.
Of all these runs, the one that is told at the end gets a report; of others it is made when somebody asks for one.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from harness.clusters.node import OURS
from harness.experiments.explore.goal import found_in
from harness.experiments.explore.search import StoppedError, TryResult, as_error
from harness.experiments.explore.search_space import SearchSpace
from harness.foundation.errors import Interrupted
from harness.foundation.interrupts import StopAfter
from harness.foundation.view import viewed_on
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.report.making import report_again
from harness.runs.runner import run_scenario
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.spark.place import Place
from harness.suite.resource_pool import ResourcePool


class ExplorationRuns:
    """Makes runs, until it is closed."""

    def __init__(
        self, space: SearchSpace, store: Path, command_line: list[str], console: Console, place: Place
    ) -> None:
        self._needs = space.needs - OURS  # which every cluster has
        self._store, self._command_line, self._console, self._place = store, command_line, console, place
        self._pool = ResourcePool(place)

    def close(self) -> None:
        """End the cluster and the session."""
        self._pool.close()

    def run(self, scenario: Scenario, limit_s: float) -> TryResult:
        """What comes of a scenario that may take so long; StoppedError if the user has asked for the end meanwhile."""
        began_s = time.monotonic()
        stop = StopAfter()
        try:
            checked = self._checked(scenario, limit_s, stop)
        except (Interrupted, KeyboardInterrupt):
            raise StoppedError from None
        except Exception as error:  # noqa: BLE001 - told as trouble of this try; others may have a finding
            ran = TryResult(took_s=time.monotonic() - began_s, trouble=str(as_error(error)))
            self._pool.renew("the last run failed")
        else:
            early = bool(checked.facts.get("interrupted"))
            ran = ran_of(checked, time.monotonic() - began_s, cut_short=early and stop.out_of_time)
        if stop.asked and not stop.out_of_time:  # be it while that was checked
            raise StoppedError(ran)
        return ran

    def report(self, path: Path) -> Path | None:
        """The report of a run that was checked; nothing if it cannot be made, which is told."""
        run = Run(path)
        with viewed_on(self._console) as view:
            view.phase("report")
            try:
                return report_again(run, view)
            except Exception as error:  # noqa: BLE001 - what was found has to be told whatever this meets
                view.happened(f"there is no report: {as_error(error)}")
                return None

    def _checked(self, scenario: Scenario, limit_s: float, stop: StopAfter) -> Checked:
        self._pool.session()  # loads while the cluster starts
        with viewed_on(self._console) as view:
            shared = scenario.cluster.of.can_be_shared
            cluster = self._pool.cluster(scenario.cluster, self._needs, self._needs, view) if shared else None
            with stop.within(limit_s):
                return run_scenario(
                    scenario,
                    self._store,
                    self._command_line,
                    view,
                    lambda _: None,
                    place=self._place,
                    shared=SharedResources(cluster, self._pool.session(), reports=False),
                    stop=stop,
                )


def ran_of(checked: Checked, took_s: float, *, cut_short: bool = False) -> TryResult:
    """What a checked run says."""
    felt = [str(each["fault"]) for each in checked.facts.get("faults") or () if each.get("bit")]
    return TryResult(
        found=tuple(found_in(checked.verdict)),
        verdict=checked.verdict.outcome,
        run=str(checked.run.path),
        bit=tuple(felt),
        took_s=took_s,
        cut_short=cut_short,
    )
