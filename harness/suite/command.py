"""What the command `suite` does, given its flags: open or resume a suite, look at what is possible, run, and tell."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.clusters.image_choice import Consent
from harness.clusters.spec import ClusterSpec
from harness.foundation.errors import UsageError
from harness.foundation.view import Asides, View, viewed_on
from harness.history.store import Run
from harness.judging.checking import Checked
from harness.report.terminal import run as show_run
from harness.report.terminal.tables import line
from harness.runs.runner import Recorded, check_recorded, record_scenario
from harness.runs.scenario import Scenario
from harness.runs.shared_resources import SharedResources
from harness.spark.place import Place
from harness.spark.session import Session
from harness.suite import state, terminal
from harness.suite.case_filter import chosen
from harness.suite.ci_output import CiFiles
from harness.suite.feasibility import PlannedCase, planned
from harness.suite.outcome import CaseOutcome
from harness.suite.resource_pool import ResourcePool
from harness.suite.running import SuiteCallbacks, run_suite
from harness.suite.spec import SuiteCase, load_suite
from harness.suite.state import State
from harness.suite.tries import ATTEMPTS, PendingTry


@dataclass(frozen=True)
class SuiteRequest:
    """What the flags say."""

    file: Path
    store: Path
    flags: Mapping[str, Any] = field(default_factory=dict)  # about the cluster
    expression: str = ""
    only: tuple[str, ...] = ()
    seed: int | None = None
    resume: bool = False
    attempts: int = ATTEMPTS
    stop_at_first: bool = False
    place: Place = field(default_factory=Place)
    junit: Path | None = None


@dataclass(frozen=True)
class FinishedSuite:
    """A suite that came to an end, or was stopped."""

    state: State
    directory: Path


def listed(wanted: SuiteRequest) -> list[PlannedCase]:
    """The cases that would be run; of images nothing is made sure."""
    suite = load_suite(wanted.file, wanted.flags)
    return planned(chosen(suite.cases, wanted.expression, wanted.only), assumed)


def assumed(spec: ClusterSpec) -> ClusterSpec:
    """With an image that may not be there, to see what would be possible."""
    return spec.of.assumed(spec)


def play(wanted: SuiteRequest, consent: Consent, err: Console) -> FinishedSuite:
    """Run it, or what is left of it."""
    known, cases, directory = _resumed(wanted) if wanted.resume else _begun(wanted)

    @cache
    def prepare(spec: ClusterSpec) -> ClusterSpec:
        with viewed_on(err) as view:
            return spec.with_image(consent, view)

    plans = planned(cases, prepare)
    directory = directory or state.directory(wanted.store, known.suite)
    with Run(directory).held():
        ended = run_suite(
            known,
            plans,
            _hands(wanted, len(plans), directory, err),
            ResourcePool(wanted.place),
            attempts=wanted.attempts,
            stop_at_first=wanted.stop_at_first,
        )
    return FinishedSuite(ended, directory)


def _begun(wanted: SuiteRequest) -> tuple[State, list[SuiteCase], Path | None]:
    suite = load_suite(wanted.file, wanted.flags)
    cases = chosen(suite.cases, wanted.expression, wanted.only)
    seed = secrets.randbits(31) if wanted.seed is None else wanted.seed
    return state.begin(suite, cases, seed, wanted.flags), cases, None


def _resumed(wanted: SuiteRequest) -> tuple[State, list[SuiteCase], Path | None]:
    if wanted.expression or wanted.only or wanted.seed is not None:
        raise UsageError("--resume continues with the same cases and the same seed", "leave -k, --only and --seed out")
    directory = state.newest(wanted.store, wanted.file.stem)
    left = state.read(directory)
    if wanted.flags and dict(wanted.flags) != dict(left.flags):
        raise UsageError(
            "--resume continues with the same kind of cluster",
            "leave --cluster, --kafka-version, --target and --bootstrap out, or --resume",
        )
    known, cases = state.resumed(left, load_suite(wanted.file, left.flags))
    return known, cases, directory


def _hands(wanted: SuiteRequest, of: int, directory: Path, err: Console) -> SuiteCallbacks:
    def record(scenario: Scenario, shared: SharedResources) -> Recorded:
        with viewed_on(err) as view:
            return record_scenario(scenario, wanted.store, sys.argv, view, shared)

    def check(recorded: Recorded, session: Session) -> Checked:
        checked = check_recorded(recorded, session, Asides(err, recorded.run.path.parent.name))
        if checked.verdict.outcome != checked.facts["scenario"]["expect"]:
            show_run.verdicts(err, [checked], as_json=False)
        return checked

    def begins(turn: PendingTry) -> None:
        case = turn.planned.case
        tries = f"try {turn.number} of {case.repeat}" if case.repeat > 1 else ""
        before = "recorded before, and checked now" if turn.run else ""
        terminal.headline(err, turn.at + 1, of, case.name, trying="  ".join(filter(None, (tries, before))))

    def ends(outcome: CaseOutcome) -> None:
        terminal.ended(err, outcome)

    view: Callable[[], AbstractContextManager[View]] = lambda: viewed_on(err)  # noqa: E731 - named for its type
    telling = CiFiles(directory, wanted.junit)
    trouble: Callable[[str], None] = lambda sentence: line(err, (sentence, "yellow"))  # noqa: E731 - the same
    return SuiteCallbacks(
        record, check, view, telling.tell, begins, ends, trouble, lambda known: state.write(directory, known)
    )
