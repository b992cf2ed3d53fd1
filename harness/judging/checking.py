"""Checking a run that is in the store: open its history, ask Spark, decide, diagnose, and keep the results.

`tidegauge run` ends with it, and `tidegauge check` does nothing else: a stored run can be checked again at any time,
also one that was killed, or one that is elsewhere. Results are kept beside a run that is here, if all was asked for.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import harness
from checkers.core.budget import BUDGET_S
from checkers.core.check import CheckSettings, check
from checkers.core.results import CheckResults
from harness.clusters.cleanup.guard import Guard
from harness.foundation.errors import Exit, TidegaugeError, UsageError
from harness.foundation.limits import limits_of
from harness.foundation.paths import clusters_dir
from harness.foundation.view import View
from harness.history.opening import failures_of, open_files, read_facts, table_of, without_the_missing
from harness.history.remote_runs import RemoteRun
from harness.history.sealed import Sealed
from harness.history.store import RESULTS_FILE, Run
from harness.judging.broker_logs import logs_of
from harness.judging.diagnosis import Diagnosis, diagnose
from harness.judging.policies import PlannedFault, RunFacts
from harness.judging.sentences import add_sentences
from harness.judging.verdict import Verdict, decide
from harness.spark.following import followed
from harness.spark.place import Place
from harness.spark.session import Session
from nemesis import FAULTS

RESULTS_VERSION = 3  # of results.json: findings with facts, marks and reasons with codes


@dataclass(frozen=True)
class CheckOptions:
    """How a check is to be made."""

    place: Place = field(default_factory=Place)
    only: tuple[str, ...] = ()  # checkers and anomalies; all unless some are named
    budget_s: float = BUDGET_S  # of each checker


@dataclass(frozen=True)
class Checked:
    """A run and what came of it."""

    run: Run | RemoteRun
    facts: dict[str, Any]
    results: CheckResults
    verdict: Verdict
    unkept: TidegaugeError | None = None  # why results.json could not be written; raised once the verdict was told

    @property
    def exit_code(self) -> Exit:
        """What the command returns."""
        return self.verdict.exit_code

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Why it came to that."""
        return diagnose(self.results, self.verdict, self.facts)

    @property
    def is_here(self) -> bool:
        """Whether the run is in a directory of this machine."""
        return isinstance(self.run, Run)

    def as_json(self) -> dict[str, Any]:
        """results.json."""
        return {
            "version": RESULTS_VERSION,
            "verdict": self.verdict.outcome,
            "exit_code": int(self.exit_code),
            "expected": self.facts.get("scenario", {}).get("expect"),
            "run": str(self.run.path),
            "tidegauge": harness.__version__,
            "seed": self.facts.get("seed"),
            **self.verdict.as_json(),
            "diagnosis": self.diagnosis.as_json(),
            **self.results.as_json(),
        }


After = Callable[["Checked", Sealed], object]  # what is done with a verdict, as long as the session is there


def check_run(run: Run, session: Session, view: View) -> tuple[Checked, Sealed]:
    """Check it with a session that is there; the history is for whoever reports on it."""
    sealed = open_files(run)
    for sentence in sealed.damage:
        view.happened(sentence)
    return _checked(run, sealed, read_facts(run), session, view, CheckOptions(session.place)), sealed


def check_again(
    runs: Sequence[Run | RemoteRun], view: View, asked: CheckOptions | None = None, after: After = lambda *_: None
) -> list[Checked]:
    """Check stored runs, one after the other, with one session."""
    asked = asked or CheckOptions()
    guard = Guard(clusters_dir() / f"check-{secrets.token_hex(4)}")
    try:
        with ExitStack() as held:
            here = list(dict.fromkeys(run for run in runs if isinstance(run, Run)))
            for one in here:
                held.enter_context(one.held())
            view.phase("open")
            opened = {one: open_files(one) for one in here}
            scratch, token = guard.directory / "spark", guard.directory.name
            with Session.start(scratch, place=asked.place, token=token) as session:
                view.phase("check")
                found = []
                for run in runs:
                    if isinstance(run, Run):
                        history, facts = opened[run], read_facts(run)
                    else:
                        history, facts = run.open(session.get()), run.facts(session.get())
                    found.append(_checked(run, history, facts, session, view, asked))
                    after(found[-1], history)
                    if found[-1].unkept is not None:
                        raise found[-1].unkept
                return found
    finally:
        guard.release()


def checked_before(run: Run) -> Checked:
    """What the last check of a stored run found, judged and diagnosed anew; needs neither its history nor Spark."""
    kept = run.results
    if kept is None and (run.path / RESULTS_FILE).exists():
        raise UsageError(f"{run.path / RESULTS_FILE} is damaged", f"check the run again: tidegauge check {run.path}")
    if kept is None:
        raise UsageError(f"the run {run.path} was never checked", f"check it first: tidegauge check {run.path}")
    if kept.get("version") != RESULTS_VERSION:
        raise UsageError(
            f"the results of {run.path} were written by another version of Tidegauge",
            f"check it again: tidegauge check {run.path}",
        )
    results, facts = CheckResults.from_json(kept), read_facts(run)
    return Checked(run, facts, results, decide(results, run_facts_of(facts)))


def _checked(  # noqa: PLR0913, PLR0917 - a run, what is known of it, and how to check it
    run: Run | RemoteRun,
    sealed: Sealed,
    facts: dict[str, Any],
    session: Session,
    view: View,
    asked: CheckOptions,
) -> Checked:
    view.step(f"{sealed.events:,} events of {'/'.join(str(run.path).split('/')[-2:])}")
    known = run_facts_of(facts)
    spark = session.get()
    with followed(session, view) as progress_file:
        setting = replace(setting_of(run, facts, asked), progress_file=progress_file)
        results = check(spark, without_the_missing(sealed, facts), setting)
    add_sentences(results, foreign=known.imported)
    checked = Checked(run, facts, results, decide(results, known))
    unkept = _keep(checked) if isinstance(run, Run) and not asked.only else None
    return replace(checked, unkept=unkept)


def _keep(checked: Checked) -> TidegaugeError | None:
    """Write results.json; what is to be said if that is not possible."""
    assert isinstance(checked.run, Run), "results are stored only for runs on this machine"
    try:
        checked.run.write_results(checked.as_json())
    except TidegaugeError as error:
        said = f"the run was checked ({checked.verdict.outcome}), but its results could not be kept: {error.message}"
        return type(error)(said, error.remedy)
    return None


def setting_of(run: Run | RemoteRun, facts: dict[str, Any], asked: CheckOptions) -> CheckSettings:
    """What a check has to know of a run beside its history."""
    known = run_facts_of(facts)
    return CheckSettings(
        acks=known.acks,
        blocking={fault.name for fault in known.faults if fault.blocks},
        compacted=facts.get("compacted") or (),
        foreign=known.imported,
        logs=logs_of(run.path, facts) if isinstance(run, Run) else None,
        only=asked.only,
        budget_s=asked.budget_s,
        limits=limits_of(
            table_of(table_of(facts, "scenario"), "limits"), table_of(table_of(facts, "scenario"), "settings")
        ),
    )


def run_facts_of(facts: dict[str, Any]) -> RunFacts:
    """What the verdict has to know of run.json."""
    settings, tap = table_of(table_of(facts, "scenario"), "settings"), table_of(facts, "tap")
    planned = [slot.get("fault", "") for slot in facts.get("schedule") or []]
    return RunFacts(
        known=bool(settings),
        traffic_only=facts.get("kind") == "tap" or bool(facts.get("traffic_only")),
        imported=facts.get("kind") == "import" and not facts.get("ours"),
        acks=str(settings.get("acks", "all")),
        idempotence=bool(facts.get("idempotent", settings.get("idempotence"))),
        retries=settings.get("retries"),
        client=str(settings.get("client", "")),
        unclean_election=bool(settings.get("unclean_election")),
        stateless=bool(table_of(facts, "cluster").get("stateless")),
        faults=tuple(_planned(planned)),
        probes=bool(settings.get("probes")) and not facts.get("no_probes"),
        reads_beside_sends=settings.get("consume") != "after" or not planned,
        reads_everything=bool(facts.get("ends_by_itself")) and not facts.get("compacted"),
        interrupted=bool(facts.get("interrupted")),
        garbled=int(tap.get("not_understood", 0)) - int(tap.get("unknown_apis", 0)),
        refused=int(tap.get("refused", 0)),
        exchanges=int(tap.get("exchanges", 0)),
        dead_workers=tuple(facts.get("dead_workers") or ()),
        dead_roles=tuple(facts.get("dead_roles") or ()),
        elections={int(number): bool(unclean) for number, unclean in table_of(facts, "elections").items()},
        failures=failures_of(facts),
        given_up=tuple(str(each) for each in facts.get("given_up") or ()),
    )


def _planned(names: Iterable[str]) -> Iterator[PlannedFault]:
    """What these faults may do; one that nobody knows any more may change leaders."""
    for name in names:
        if name in FAULTS:
            fault = FAULTS[name]
            yield PlannedFault(name, fault.changes_leaders, fault.blocks, fault.deletes, fault.unclean)
        else:
            yield PlannedFault(name, changes_leaders=True)
