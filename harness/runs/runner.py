"""A run: what is recorded (`harness.runs.recording`), and what comes of it; now, or later where runs follow each other.

Ctrl-C once ends the load early: what was injected is undone, and what was recorded is sealed and checked. Ctrl-C twice
undoes and leaves. Whatever way it ends, a supervisor sees to it that nothing which the run started is left
(`harness.clusters.cleanup.guard`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checkers.core.spark import warm_up
from harness.clusters.cleanup.guard import Guard
from harness.clusters.spec import make_cluster
from harness.foundation.errors import Exit, Interrupted, TidegaugeError
from harness.foundation.interrupts import StopRequest
from harness.foundation.paths import clusters_dir
from harness.foundation.view import View
from harness.history.places import HISTORY
from harness.history.schema import SCHEMA_VERSION
from harness.history.store import SCENARIO_FILE, Run, create, discard_if_empty, without_secrets
from harness.judging.checking import Checked, check_run
from harness.report.making import keep_series, report_checked
from harness.runs import provenance
from harness.runs.planning import equip, plan_of
from harness.runs.recording import RunRecording
from harness.runs.replay import Replay
from harness.runs.scenario import Scenario, to_toml
from harness.runs.shared_resources import SharedResources
from harness.spark.place import Place
from harness.spark.session import Session
from nemesis import check_sense, needs_of
from nemesis.schedule import Slot

Tell = Callable[[Checked], object]
Judged = TypeVar("Judged")  # what comes of a run: a verdict, or nothing yet


@dataclass(frozen=True)
class Recorded:
    """A run whose history is in the store, to be checked."""

    run: Run
    failure: Exception | None = None  # of ours, in its middle
    stopped: bool = False  # by its user, be it after the load
    cut_short: bool = False  # by its user, before all was recorded
    suspicion: str = ""  # why something of it may be left in its cluster


def run_scenario(  # noqa: PLR0913, PLR0917 - what to run, where to keep it, whom to tell
    scenario: Scenario,
    store: Path,
    command_line: list[str],
    view: View,
    tell: Tell,
    replay: Replay | None = None,
    place: Place | None = None,
    shared: SharedResources | None = None,
    stop: StopRequest | None = None,
) -> Checked:
    """Run it, check it, tell the verdict as soon as it is there, and leave nothing but the directory in the store."""
    shared, stop = shared or SharedResources(), stop or StopRequest()
    with _begun(scenario, store, command_line, view, shared, stop, replay) as recording, ExitStack() as undo:
        guard = _guard(undo)
        scratch, token = guard.directory / "spark", guard.directory.name
        session = shared.session or undo.enter_context(
            Session.start(scratch, place=place or Place(), token=token, warm=warm_up)
        )

        def judge(run: Run) -> Checked:
            stop.may_wait = False  # who has had enough of a check can have another one later
            view.phase("check")
            return _judge(run, session, view, tell, reports=shared.reports)

        checked = _walk(recording, undo, token, judge)
        if session.writes_archive and shared.session is None:
            view.happened("writing down what Spark has loaded, so that it starts faster from now on (once)")
        return _ended(checked, Recorded(recording.store, recording.failure, stop.asked > 0))


def _walk(recording: RunRecording, undo: ExitStack, token: str, judge: Callable[[Run], Judged]) -> Judged:
    """A run from its beginning to its end, phase by phase."""
    recording.set_up(undo, token)
    with recording.failure_kept():
        recording.load()
        recording.heal()
        recording.recover()
        recording.final_read()
    recording.seal()
    judged = judge(recording.store)  # check, diagnose, report; or later
    recording.tear_down()
    return judged


def _judge(run: Run, session: Session, view: View, tell: Tell, *, reports: bool) -> Checked:
    """Check and diagnose it, tell the verdict as soon as it is there, and report on it."""
    checked, sealed = check_run(run, session, view)
    view.close()
    tell(checked)
    if reports:
        report_checked(checked, sealed, view)
    else:
        keep_series(run, checked, view)
    return checked


def record_scenario(
    scenario: Scenario, store: Path, command_line: list[str], view: View, shared: SharedResources
) -> Recorded:
    """Run it, to be checked later; nothing is left but the directory in the store."""
    stop = StopRequest()
    with _begun(scenario, store, command_line, view, shared, stop) as recording:
        with ExitStack() as undo:
            _walk(recording, undo, _guard(undo).directory.name, lambda _: None)
        run, failure = recording.store, recording.failure
        cut_short, suspicion = bool(run.facts.get("interrupted")), _suspicion(run, failure)
        return Recorded(run, failure, stop.asked > 0, cut_short, suspicion)


def _suspicion(run: Run, failure: Exception | None) -> str:
    """Why its cluster may not be what it was: something of ours failed, which had to undo something, or to end it."""
    wrong = [failure, *(run.facts.get("fault_errors") or ()), *(run.facts.get("dead_workers") or ())]
    return next((f"the last run had trouble: {each}" for each in wrong if each), "")


def check_recorded(recorded: Recorded, session: Session, view: View) -> Checked:
    """What comes of it, with its report."""
    with recorded.run.held():
        return _ended(_judge(recorded.run, session, view, lambda _: None, reports=True), recorded)


def _ended(checked: Checked, recorded: Recorded) -> Checked:
    """The end of a run that was checked; what failed in it is raised now, but what was found stays found."""
    if checked.unkept is not None:
        raise checked.unkept
    if recorded.failure and checked.exit_code is not Exit.INVALID:
        raise recorded.failure
    if not (recorded.stopped or recorded.failure):
        recorded.run.update(state="finished")
    return checked


@contextmanager
def _begun(  # noqa: PLR0913, PLR0917 - what to run, on what, and who listens
    scenario: Scenario,
    store: Path,
    command_line: list[str],
    view: View,
    shared: SharedResources,
    stop: StopRequest,
    replay: Replay | None = None,
) -> Iterator[RunRecording]:
    """A run that is about to be recorded: what was asked for is possible, and its directory is there and says so."""
    check_sense(scenario.nemesis)
    cluster = shared.cluster or make_cluster(scenario.cluster, view)
    plan = plan_of(scenario, cluster, replay)
    if shared.cluster is None:
        equip(cluster, needs_of(plan), view)
    if replay:
        view.happened(f"the {len(plan)} faults of {replay.run} again")
    stop.answer = view.happened
    with stop.listening():
        run = create(store, scenario.title)
        _describe(run, scenario, plan, command_line)
        if replay:
            run.update(replay_of=str(replay.run))
        try:
            recording = RunRecording(scenario, plan, cluster, shared.cluster is not None, run, stop, view)
            with run.held():
                yield recording
        except KeyboardInterrupt:
            if run.facts.get("state") == "running":  # what was recorded to its end can be checked as a whole
                run.update(state="interrupted", interrupted=True)
            gone = not recording.has_loaded and discard_if_empty(run)
            left = "everything was undone; nothing was recorded" if gone else _after_quitting(run)
            raise Interrupted("stopped by the user", left) from None
        except BaseException as error:
            # what was recorded can be checked again, whatever happened after it
            with suppress(TidegaugeError, OSError):  # a store that is full takes no news of that
                if run.facts.get("state") == "running":
                    run.write_failure(error)
                    run.update(state="failed", error=str(error))
            if isinstance(error, TidegaugeError) and not recording.has_loaded:
                discard_if_empty(run)
            if isinstance(error, OSError) and run.is_meant_by(error):
                raise run.failure(error, "recording the run") from error
            raise


def _after_quitting(run: Run) -> str:
    """What there is now, and what can be done with it."""
    if (run.path / HISTORY).is_dir():
        return f"everything was undone; to check what was recorded: tidegauge check {run.path}"
    return f"everything was undone; what was recorded is in {run.path}"


def exit_code_of(checked: Checked) -> Exit:
    """What a command returns that made this run: one that its user stopped is not a verdict, unless one was broken."""
    interrupted = checked.facts.get("interrupted") and checked.exit_code is not Exit.INVALID
    return Exit.INTERRUPTED if interrupted else checked.exit_code


def _describe(run: Run, scenario: Scenario, plan: Sequence[Slot], command_line: list[str]) -> None:
    (run.path / SCENARIO_FILE).write_text(to_toml(scenario.as_file()), encoding="utf-8")
    run.update(
        schema_version=SCHEMA_VERSION,
        state="running",
        scenario=scenario.model_dump(mode="json", by_alias=True),
        title=scenario.title,
        seed=scenario.seed,
        idempotent=scenario.settings.idempotent,  # as it will be, whoever decided it
        command_line=without_secrets(command_line),
        anchor=provenance.clock_anchor(),
        started_at=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions=provenance.versions(),
        schedule=[vars(slot) for slot in plan],
        log_patterns=scenario.cluster.log_patterns,
    )


def _guard(undo: ExitStack) -> Guard:
    guard = Guard(clusters_dir() / f"run-{secrets.token_hex(4)}")
    undo.callback(guard.release)
    return guard
