"""What the pytest plugin works with, loaded when a test asks for it: shared clusters, scenarios, taps, results.

One `PytestSession` serves a whole session; with pytest-xdist each worker has one of its own, with its own clusters,
ports and names.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from harness.clusters.base import Cluster
from harness.clusters.flags import (
    BOOTSTRAP_VARIABLE,
    KIND_VARIABLE,
    TARGET_VARIABLE,
    VERSION_VARIABLE,
    cluster_of,
)
from harness.clusters.node import NodeState
from harness.clusters.spec import ClusterSpec
from harness.foundation.config import parse
from harness.foundation.console import SafeConsole
from harness.foundation.errors import TidegaugeError
from harness.foundation.view import Asides, viewed_on
from harness.history.store import Run, create, store_dir
from harness.judging.checking import Checked, check_run
from harness.report.making import report_checked, report_of
from harness.runs.runner import Recorded, check_recorded, record_scenario
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.runs.tap_recording import TapRecording, recorded
from harness.spark.session import Session
from harness.suite import state
from harness.suite.ci_output import lines
from harness.suite.command import assumed
from harness.suite.feasibility import PlannedCase, planned
from harness.suite.outcome import CaseOutcome
from harness.suite.resource_pool import ResourcePool
from harness.suite.running import SuiteCallbacks, play_cases
from harness.suite.spec import case_of, load_suite
from harness.tap.rules import Rule
from harness.tap.spec import TapSpec
from harness.tap.taps import Taps

WATCH_S = 0.2


@dataclass(frozen=True)
class RunResult:
    """What came of a run, for a test to look at."""

    checked: Checked

    @property
    def verdict(self) -> str:
        """`valid`, `invalid` or `unknown`."""
        return self.checked.verdict.outcome

    @property
    def anomalies(self) -> dict[str, int]:
        """What was found and is not allowed, with how often."""
        return {seen.anomaly: seen.found for seen in self.checked.verdict.seen if seen.mark.status != "allowed"}

    @property
    def allowed(self) -> dict[str, int]:
        """What was found, and the configuration permits it."""
        return {seen.anomaly: seen.found for seen in self.checked.verdict.seen if seen.mark.status == "allowed"}

    @property
    def cause(self) -> str:
        """The name of the cause on top; nothing if there is none."""
        return self.checked.diagnosis.cause.name if self.checked.diagnosis.cause else ""

    @property
    def path(self) -> Path:
        """The run's directory in the store."""
        return Path(self.checked.run.path)

    @property
    def report(self) -> Path | None:
        """Its report."""
        return report_of(self.checked)

    def __str__(self) -> str:
        verdict, causes = self.checked.verdict, self.checked.diagnosis.causes
        told = [f"{verdict.outcome.upper()}  {'; '.join(map(str, verdict.reasons[:5]))}".rstrip()]
        told += [f"cause: {cause.sentence} ({cause.confidence})" for cause in causes]
        return "\n".join([*told, f"report: {self.report or self.path}"])


class PytestSession:
    """What all tests of a session share."""

    def __init__(self, store: Path, flags: Mapping[str, Any], seed: int) -> None:
        self.store, self.flags, self.seed = store, flags, seed
        self._console = SafeConsole(stderr=True)
        self.pool = ResourcePool()
        self.prepare: Callable[[ClusterSpec], ClusterSpec] = cache(self._prepare)

    def close(self) -> None:
        """Clusters and Spark end with the tests."""
        self.pool.close()

    def case(self, entry: Mapping[str, Any], name: str, place: Path) -> PlannedCase:
        """A scenario of a test."""
        return planned([case_of(entry, name, self.flags, place)], self.prepare)[0]

    def play(self, each: PlannedCase, upcoming: Sequence[PlannedCase] = ()) -> tuple[CaseOutcome, list[Checked]]:
        """All tries of a case; KeyboardInterrupt if the user had enough."""
        each = planned([each.case], self.prepare)[0]  # now that it is needed, the image has to be there
        checked = list[Checked]()

        def record(scenario: Scenario, shared: SharedResources) -> Recorded:
            with viewed_on(self._console) as view:
                return record_scenario(scenario, self.store, sys.argv, view, shared)

        def check(recorded: Recorded, session: Session) -> Checked:
            checked.append(check_recorded(recorded, session, Asides(self._console, recorded.run.path.parent.name)))
            return checked[-1]

        nobody: Callable[[object], None] = lambda _: None  # noqa: E731 - named for its type
        hands = SuiteCallbacks(record, check, lambda: viewed_on(self._console), nobody, nobody, nobody)
        alone = state.alone(each.case, self.seed)
        ended = play_cases(alone, [each], hands, self.pool, upcoming=upcoming)
        if ended.interrupted:
            raise KeyboardInterrupt
        return ended.outcomes[0], checked

    @contextmanager
    def cluster(self, each: PlannedCase) -> Iterator[Cluster]:
        """A cluster that is up and whole; one that a test leaves with a node missing is not used again."""
        with viewed_on(self._console) as view:
            cluster = self.pool.cluster(self.prepare(each.cluster), (), (), view)
        yield cluster
        if left := [node.id for node in cluster.nodes if cluster.state(node.id) is not NodeState.RUNNING]:
            self.pool.spoil(f"a test left node {left[0]} {cluster.state(left[0])}")

    @contextmanager
    def tap(self, cluster: Cluster, spec: Mapping[str, Any], name: str) -> Iterator[TapFixture]:
        """Taps before the cluster, for the clients of a test."""
        run = create(self.store, name)
        recording = TapRecording(
            upstreams=tuple(node.address for node in cluster.nodes),
            directory=run.path,
            security=cluster.security,
            spec=parse(TapSpec, spec, f"{name}: tap"),
            seed=self.seed,
        )
        tapped = TapFixture(self, recording)
        try:
            yield tapped
        finally:
            tapped.end()

    def check(self, run: Run) -> RunResult:
        """What was wrong with what taps have seen."""
        with viewed_on(self._console) as view:
            checked, sealed = check_run(run, self.pool.session(), view)
            report_checked(checked, sealed, view)
        return RunResult(checked)

    def _prepare(self, spec: ClusterSpec) -> ClusterSpec:
        with viewed_on(self._console) as view:
            return spec.with_image(lambda _: True, view)


class TapFixture:
    """Taps that a test sends its clients through."""

    def __init__(self, bench: PytestSession, recording: TapRecording) -> None:
        self._bench = bench
        self._context = recorded(recording, sys.argv)
        self._run, self._taps = self._context.__enter__()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="taps", daemon=True)
        self._watcher.start()

    @property
    def bootstrap(self) -> str:
        """What clients are pointed at."""
        return ",".join(tap.address for tap in self._taps.current.taps)

    @property
    def taps(self) -> Taps:
        """All that they can do."""
        return self._taps

    def bend(self, **rule: Any) -> None:
        """From now on what passes is bent by this rule, written as in a scenario file (docs/tap.md)."""
        self._taps.bend(parse(Rule, rule, "the rule"))

    @cached_property
    def result(self) -> RunResult:
        """What was wrong with what has passed; the taps are ended before."""
        self.end()
        return self._bench.check(self._run)

    def end(self) -> None:
        """No more traffic; what passed is kept."""
        if not self._over.is_set():
            self._over.set()
            self._watcher.join()
            self._context.__exit__(None, None, None)

    def _watch(self) -> None:
        while not self._over.wait(WATCH_S):
            self._taps.watch()


def cases_of(file: Path, flags: Mapping[str, Any]) -> list[PlannedCase]:
    """The cases of a suite, in the order in which they share clusters."""
    return planned(load_suite(file, flags).cases, assumed)


def flags_of(kind: str | None, version: str | None, target: str | None, bootstrap: str | None) -> dict[str, Any]:
    """What pytest's options say of the cluster; where they say nothing, the variables that our commands read."""
    said = cluster_of(
        kind or os.environ.get(KIND_VARIABLE),
        version or os.environ.get(VERSION_VARIABLE),
        target or os.environ.get(TARGET_VARIABLE),
        bootstrap or os.environ.get(BOOTSTRAP_VARIABLE),
    )
    return dict(said or {})


def explained(outcome: CaseOutcome) -> str:
    """Why a case is not as it should be: the verdict, the cause, the report."""
    return "\n".join(lines(outcome))


__all__ = [
    "PytestSession",
    "RunResult",
    "TapFixture",
    "TidegaugeError",
    "cases_of",
    "explained",
    "flags_of",
    "store_dir",
]
