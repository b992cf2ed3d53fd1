"""The check of a history: what is known of the run, the job or two that Spark makes, and what comes of it.

A check never raises for what a checker meets: `failures` says what could not be checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkers.core.budget import BUDGET_S, Budget
from checkers.core.conclusion import answer_of, concluded, drawing
from checkers.core.deletions import Deletions, deletions
from checkers.core.engine import failure
from checkers.core.families import FAMILIES
from checkers.core.planning_rows import ROWS_AT_MOST, planning_rows
from checkers.core.results import Anomaly, CheckResults
from checkers.core.run import LIMIT, RunContext
from checkers.core.selection import NOT_ASKED, asked_for, written
from checkers.core.spark import CheckJob, context_in_many_tasks, fits_one_task, in_many_tasks, in_one_task
from checkers.core.timeline import Timeline, timeline
from harness.foundation.limits import DEFAULTS
from harness.history.schema import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.broker_logs import BrokerLogFiles
    from harness.history.sealed import Sealed

NO_ACKNOWLEDGEMENTS = "acks=0: nothing is acknowledged"
FAILED = "its check failed"
HELPERS = frozenset({"epochs", "fates", "coverage", "values", "figures"})  # families that others need to have asked


@dataclass(frozen=True)
class CheckSettings:
    """What a check has to know of a run beside its history."""

    acks: str = "all"
    blocking: Collection[str] = ()  # names of faults that may keep everything from getting through
    compacted: Collection[str] = ()  # names of topics
    foreign: bool = False  # the history of somebody else's clients
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds, by name
    logs: BrokerLogFiles | None = None  # of the brokers
    only: Collection[str] = ()  # names of families and anomalies; all unless some are given
    budget_s: float = BUDGET_S  # of each checker
    progress_file: str = ""  # on this machine, where tasks say how far they are


StepRunner = Callable[["Sealed", CheckJob], dict[str, Any]]


def check(
    spark: SparkSession | None,
    sealed: Sealed,
    setting: CheckSettings | None = None,
    *,
    limit: int = LIMIT,
    run_steps: StepRunner | None = None,
) -> CheckResults:
    """Ask everything: Spark, unless `run_steps` makes the steps of the check itself."""
    began = time.monotonic()
    setting = setting or CheckSettings()
    results = CheckResults(
        events=sealed.events,
        first_ns=sealed.first_time_ns,
        anomalies=_anomalies(setting),
        damage=list(sealed.damage),
        damaged_processes=sealed.damaged_processes,
        has_holes=sealed.has_holes,
        verified=sealed.verified,
        only=list(setting.only),
    )
    if sealed.events:
        run = _context(spark, sealed, setting, results, limit)
        names = tuple(family.name for family in FAMILIES if _wanted(family, results, setting) and family.needs(run))
        job = CheckJob(run, names, setting.budget_s, progress_file=setting.progress_file)
        try:
            _fill(results, run_steps(sealed, job) if run_steps else _run_on_spark(spark, sealed, job))
        except Exception as error:
            if _is_gone(error):
                raise
            results.failures.append(failure("the history", _text_of(error)))
            for anomaly in results.anomalies.values():
                anomaly.unchecked = anomaly.unchecked or FAILED
    results.seconds = time.monotonic() - began
    return results


def _run_on_spark(spark: SparkSession | None, sealed: Sealed, job: CheckJob) -> dict[str, Any]:
    assert spark is not None, "nothing runs the check"
    budget = Budget(spark, job.budget_s * max(1, len(job.families)))
    if fits_one_task(sealed):
        answer: dict[str, Any] = budget.run(lambda: in_one_task(spark, sealed, job, answer_of))
        return answer
    state = budget.run(lambda: in_many_tasks(spark, sealed, job))
    answer = concluded(state)
    draw = drawing(
        answer, state.run, lambda chosen: budget.run(lambda: context_in_many_tasks(spark, sealed, job, chosen))
    )
    return {**answer, "drawing": draw}


def _fill(results: CheckResults, answer: Mapping[str, Any]) -> None:
    """Results as everybody knows them."""
    for name, mine in answer["anomalies"].items():
        anomaly = results.anomalies[name]
        anomaly.found, anomaly.looked_at, anomaly.findings = mine.found, mine.looked_at, mine.findings
    summaries = dict(answer["summaries"])
    if (covered := summaries.pop("coverage", None)) is not None:
        results.coverage = covered
    if (figures := summaries.pop("figures", None)) is not None:
        results.figures = figures
    results.summaries = summaries
    results.failures += [*answer["cut"], *answer["failures"].values()]
    for family in FAMILIES:
        if family.name in answer["failures"]:
            for name in family.anomalies:
                results.anomalies[name].unchecked = FAILED
    results.drawing = answer.get("drawing")
    results.drawn, results.undrawn = answer.get("drawn"), answer.get("undrawn", "")


def _anomalies(setting: CheckSettings) -> dict[str, Anomaly]:
    """Everything that is looked for, in the order of the families."""
    anomalies: dict[str, Anomaly] = {}
    asked = asked_for(setting.only)
    for family in FAMILIES:
        for name, about in family.anomalies.items():
            anomaly = anomalies.setdefault(name, Anomaly(name, about))
            if name not in asked:
                anomaly.not_applicable = NOT_ASKED
            elif setting.acks == "0" and name in family.needs_acknowledgements:
                anomaly.not_applicable = NO_ACKNOWLEDGEMENTS
    return anomalies


def _wanted(family: Any, results: CheckResults, setting: CheckSettings) -> bool:
    """Whether anybody asked for what it finds; what finds nothing by itself is asked whenever all is."""
    if not setting.only:
        return True
    return (
        family.name in HELPERS
        or written(family.name) in setting.only
        or any(not results.anomalies[name].not_applicable for name in family.anomalies)
    )


def _context(
    spark: SparkSession | None, sealed: Sealed, setting: CheckSettings, results: CheckResults, limit: int
) -> RunContext:
    compacted = frozenset(number for number, name in sealed.topics.items() if name in setting.compacted)
    return RunContext(
        first_time_ns=sealed.first_time_ns,
        last_time_ns=sealed.last_time_ns,
        processes=sealed.processes,
        topics=sealed.topics,
        rows=dict(sealed.rows),
        contents=sealed.contents,
        damaged=sealed.damaged_processes,
        acks=setting.acks,
        foreign=setting.foreign,
        rewound=_rewound(spark, sealed, results) if setting.foreign else (),
        compacted=compacted,
        deletions=_deletions(spark, sealed, results),
        line=_timeline(spark, sealed, results),
        limits={**DEFAULTS, **setting.limits},
        unasked=frozenset(name for name, anomaly in results.anomalies.items() if anomaly.not_applicable),
        limit=limit,
        blocking=frozenset(setting.blocking),
        logs=setting.logs,
    )


def _deletions(spark: SparkSession | None, sealed: Sealed, results: CheckResults) -> Deletions:
    try:
        columns = ("topic", "f", "type", "invoked", "time")
        return deletions(planning_rows(sealed, spark, Kind.COMPLETE, columns, (F.DELETE, F.CREATE)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
        results.failures.append(failure("deleted topics", _text_of(error)))
        return Deletions()


def _rewound(spark: SparkSession | None, sealed: Sealed, results: CheckResults) -> tuple[int, ...]:
    without_effect = (Type.FAIL, Type.INFO)
    try:
        rows = planning_rows(sealed, spark, Kind.COMPLETE, ("op",), (F.TXN,), without_effect)
        polls = planning_rows(sealed, spark, Kind.COMPLETE, ("op",), (F.POLL,), without_effect, counted=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
        results.failures.append(failure("what did not move readers on", _text_of(error)))
        return ()
    for found, what in ((rows, "transactions that did not commit"), (polls, "polls that failed")):
        if len(found) >= ROWS_AT_MOST:
            said = f"there are {ROWS_AT_MOST:,} or more: of the others, readers count as moved on"
            results.failures.append(failure(what, said))
    return tuple(sorted(row["op"] for row in (*rows, *polls)))


def _timeline(spark: SparkSession | None, sealed: Sealed, results: CheckResults) -> Timeline:
    try:
        rows: list[dict[str, Any]] = []
        for kind, columns in ((Kind.FAULT, ("fault", "stage", "topic")), (Kind.PHASE, ())):
            rows += planning_rows(sealed, spark, kind, ["time", "name", "detail", *columns])
        return timeline(rows, sealed.first_time_ns, sealed.last_time_ns, sealed.topics)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
        results.failures.append(failure("the timeline", _text_of(error)))
        return Timeline((sealed.first_time_ns, sealed.last_time_ns))


def _text_of(error: Exception) -> str:
    try:
        return str(error).strip() or type(error).__name__
    except Exception:  # noqa: BLE001 - PySpark asks the JVM for the text, which may be gone
        return type(error).__name__


def _is_gone(error: Exception) -> bool:
    """Whether there is no JVM any more: then nobody can go on."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError | EOFError)
