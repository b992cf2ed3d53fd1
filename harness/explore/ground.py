"""The runs of an exploration: real ones, one after the other, on one cluster and with one Spark session.

The cluster is equipped for every fault that can be drawn. It is used again as long as it is found whole after a run;
otherwise, and after a run that failed, a fresh one takes its place. A run that takes too long is ended as by its user:
what is broken is undone, and what was recorded is checked. Reports are made when somebody asks for one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from harness.checking import Checked
from harness.clusters.base import OURS
from harness.errors import Interrupted, TidegaugeError
from harness.explore.drawing import Space
from harness.explore.search import Ran, Run, StoppedError
from harness.explore.sought import found_in
from harness.lent import Lent
from harness.live import viewed_on
from harness.runner import run_scenario
from harness.scenario import Scenario
from harness.spark_place import Place
from harness.stop import StopInTime
from harness.suite.keeper import Keeper


@contextmanager
def runs_on(space: Space, store: Path, command_line: list[str], console: Console, place: Place) -> Iterator[Run]:
    """What runs a scenario, as long as this lasts."""
    with closing(Keeper(place)) as keeper:
        needs = space.needs - OURS  # which every cluster has

        def run(scenario: Scenario, limit_s: float) -> Ran:
            began_s = time.monotonic()
            stop = StopInTime()
            try:
                keeper.session()  # loads while the cluster starts
                with viewed_on(console) as view:
                    ours = scenario.cluster.kind != "external"
                    cluster = keeper.cluster(scenario.cluster, needs, needs, view) if ours else None
                    with stop.within(limit_s):
                        checked = run_scenario(
                            scenario,
                            store,
                            command_line,
                            view,
                            lambda _: None,
                            place=place,
                            lent=Lent(cluster, keeper.session(), reports=False),
                            stop=stop,
                        )
            except (Interrupted, KeyboardInterrupt):
                raise StoppedError from None
            except TidegaugeError as error:
                keeper.spoil("the last run failed")
                return Ran(took_s=time.monotonic() - began_s, trouble=str(error))
            early = bool(checked.facts.get("interrupted"))
            ran = ran_of(checked, time.monotonic() - began_s, cut_short=early and stop.out_of_time)
            if early and not stop.out_of_time:
                raise StoppedError(ran)
            return ran

        yield run


def ran_of(checked: Checked, took_s: float, *, cut_short: bool = False) -> Ran:
    """What a checked run says."""
    felt = [str(each["fault"]) for each in checked.facts.get("faults") or () if each.get("bit")]
    return Ran(
        found=tuple(found_in(checked.verdict)),
        verdict=checked.verdict.outcome,
        run=str(checked.run.path),
        bit=tuple(felt),
        took_s=took_s,
        cut_short=cut_short,
    )
