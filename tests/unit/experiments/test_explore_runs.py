"""What becomes of a run of an exploration: a verdict, trouble, or the user's wish to end; and the report of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from harness.clusters.spec import ClusterSpec, make_cluster
from harness.experiments.explore import runs as explore_runs
from harness.experiments.explore.runs import ExplorationRuns
from harness.experiments.explore.search import StoppedError, TryResult
from harness.experiments.explore.search_space import Candidate, SearchSpace, search_space_on
from harness.foundation.errors import ClusterError, Interrupted
from harness.foundation.interrupts import StopAfter
from harness.foundation.progress import SilentProgress
from harness.history.store import RESULTS_FILE, RUN_FILE
from harness.judging.checking import Checked
from harness.report.making import REPORT_FILE, SERIES_FILE
from harness.runs.scenario import Scenario
from harness.spark.place import Place
from tests.support.hostile_run import facts, results, series
from tests.support.scripted_suites import PaperPool, checked

LIMIT_S = 600.0
Outcome = Callable[[StopAfter], Checked]


class Paper(PaperPool):
    """Lends no cluster either."""

    def cluster(self, *_: object) -> Any:
        """None."""

    def session(self) -> Any:
        """One that has nothing to say."""
        return SimpleNamespace(get=lambda: None)


@pytest.fixture
def space() -> SearchSpace:
    """What is drawn from."""
    return search_space_on(make_cluster(ClusterSpec(), SilentProgress()), ["stream"], ["kill"])


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """The one that the ground has."""
    pool = Paper()
    monkeypatch.setattr(explore_runs, "ResourcePool", lambda _: pool)
    return pool


@pytest.fixture
def runs(pool: Paper, space: SearchSpace, tmp_path: Path) -> ExplorationRuns:
    """Makes runs on paper."""
    return ExplorationRuns(space, tmp_path, ["tidegauge"], Console(quiet=True), Place())


@pytest.fixture
def ran(runs: ExplorationRuns, space: SearchSpace, monkeypatch: pytest.MonkeyPatch) -> Callable[[Outcome], TryResult]:
    """What a run says that comes out like this."""

    def run(outcome: Outcome) -> TryResult:
        def pretend(_: Scenario, *__: object, stop: StopAfter, **___: object) -> Checked:
            return outcome(stop)

        monkeypatch.setattr(explore_runs, "run_scenario", pretend)
        return runs.run(space.scenario(Candidate("stream"), 1), LIMIT_S)

    return run


def test_a_run_says_what_it_has_found(ran: Callable[[Outcome], TryResult], pool: Paper) -> None:
    """And its cluster and session are kept for the next."""
    found = ran(lambda _: checked("invalid"))
    assert (found.verdict, [each.anomaly for each in found.found], found.trouble) == ("invalid", ["lost-write"], "")
    assert pool.told == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClusterError("it did not start", "try again"), "it did not start: try again"),
        (OSError(28, "No space left on device"), "the disk is full: the run failed"),
        (RuntimeError("Answer from Java side is empty\nat py4j"), "(RuntimeError: Answer from Java side is empty)"),
    ],
)
def test_whatever_a_run_fails_with_is_trouble_of_that_run(
    ran: Callable[[Outcome], TryResult], pool: Paper, error: Exception, told: str
) -> None:
    """The next one gets a fresh cluster and a fresh session: either may have been the reason."""

    def fail(_: StopAfter) -> Checked:
        raise error

    failed = ran(fail)
    assert told in failed.trouble
    assert (failed.verdict, failed.found) == ("", ())
    assert pool.told == ["renew: the last run failed"]


@pytest.mark.parametrize("error", [Interrupted("stopped by the user", "all is undone"), KeyboardInterrupt()])
def test_who_leaves_at_once_gets_nothing_of_the_run(ran: Callable[[Outcome], TryResult], error: BaseException) -> None:
    """There is nothing to be said about it."""

    def leave(_: StopAfter) -> Checked:
        raise error

    with pytest.raises(StoppedError) as stopped:
        ran(leave)
    assert stopped.value.ran is None


@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c_ends_it_whenever_it_comes(ran: Callable[[Outcome], TryResult], early: bool) -> None:  # noqa: FBT001
    """During the load, or while the whole run is checked: what was found counts, and no other try is made."""

    def asked(stop: StopAfter) -> Checked:
        stop.asked = 1
        return checked("invalid", interrupted=early)

    with pytest.raises(StoppedError) as stopped:
        ran(asked)
    assert stopped.value.ran is not None
    assert [each.anomaly for each in stopped.value.ran.found] == ["lost-write"]


def test_ctrl_c_counts_although_the_run_failed_then(ran: Callable[[Outcome], TryResult]) -> None:
    """Nobody is to ask twice."""

    def asked(stop: StopAfter) -> Checked:
        stop.asked = 1
        raise ClusterError("it did not answer", "try again")

    with pytest.raises(StoppedError) as stopped:
        ran(asked)
    assert stopped.value.ran is not None
    assert "it did not answer" in stopped.value.ran.trouble


def test_a_run_that_takes_too_long_is_no_wish_of_the_user(ran: Callable[[Outcome], TryResult]) -> None:
    """The next one is made."""

    def slow(stop: StopAfter) -> Checked:
        stop.end()
        return checked("invalid", interrupted=True)

    assert ran(slow).cut_short


def test_the_report_of_a_run_is_made_of_what_its_check_brought(
    runs: ExplorationRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the run; no other session is started beside the one that is there."""
    monkeypatch.setattr("harness.judging.checking.Session", None)
    for name, data in ((RUN_FILE, facts()), (RESULTS_FILE, results()), (SERIES_FILE, series())):
        (tmp_path / name).write_text(json.dumps(data))
    assert runs.report(tmp_path) == tmp_path / REPORT_FILE
    assert "broke its promises" in (tmp_path / REPORT_FILE).read_text(encoding="utf-8")


def test_a_report_that_cannot_be_made_is_told_and_changes_nothing(runs: ExplorationRuns, tmp_path: Path) -> None:
    """What was found is told all the same."""
    assert runs.report(tmp_path / "gone") is None


def test_everything_ends_with_it(runs: ExplorationRuns, pool: Paper) -> None:
    """Cluster and session."""
    runs.close()
    assert pool.ended
