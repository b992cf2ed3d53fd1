"""The check: everything asked of a history in one Spark job, and a second one only when something was found.

The first job counts: what each rule found and looked at, the figures, the coverage, as rows of (section, JSON) in one
union and one collect. The second job is asked for the evidence of the rules that found something, and brings back the
first and the worst findings of each anomaly. A healthy history never pays for it.

When a job fails, or takes longer than the budget of a checker, its sections are asked one by one, each with that
budget, so that a check that cannot be made is named and the others still report (`checkers.jobs`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from checkers import coverage, figures
from checkers.budget import BUDGET_S, Budget
from checkers.coverage import Coverage, Timeline
from checkers.deletions import Deletions, read_deletions
from checkers.delivery import VALUES
from checkers.families import FAMILIES, STUDIES
from checkers.frame import FINDING, Family, History, Rule, Studied, Study, tally, together
from checkers.jobs import Jobs, failure, jobs
from checkers.results import Anomaly, CheckResults, as_finding
from checkers.selection import leave_out, written
from harness.history import F, Kind, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from checkers.broker_logs import Logs
    from harness.seal import Sealed

LIMIT = 20  # findings kept of each anomaly
WORST = 5  # of these, the worst; the others are the first
INCOMPLETE_AT_MOST = 20
NO_ACKNOWLEDGEMENTS = "acks=0: nothing is acknowledged"
FAILED = "its check failed"

# One task and no compiling of plans for a small history; several tasks and no waiting for statistics for a large one.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.constraintPropagation.enabled": "false",
}
LARGE = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

EVENTS_A_TASK = 5_000_000  # each task has its price, and each has to do with its share of the memory

# A cluster knows better than this machine how many tasks suit it.
CLUSTER = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}

Sections = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Setting:
    """What a check has to know of a run beside its history."""

    acks: str = "all"
    blocking: Collection[str] = ()  # names of faults that may keep everything from getting through
    compacted: Collection[str] = ()  # names of topics
    foreign: bool = False  # the history of somebody else's clients
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds, by name
    logs: Logs | None = None  # of the brokers
    only: Collection[str] = ()  # names of families, studies and anomalies; all unless some are given
    budget_s: float = BUDGET_S  # of each checker


def check(spark: SparkSession, sealed: Sealed, setting: Setting | None = None, *, limit: int = LIMIT) -> CheckResults:
    """Ask everything; never raises for what a checker meets: `failures` says what could not be checked."""
    began = time.monotonic()
    setting = setting or Setting()
    results = CheckResults(
        events=sealed.events,
        anomalies=_anomalies(setting.acks),
        damage=list(sealed.damage),
        damaged_processes=sealed.damaged_processes,
        has_holes=sealed.has_holes,
        verified=sealed.verified,
        only=list(setting.only),
    )
    leave_out(results.anomalies, setting.only)
    if sealed.events:
        history = _history(spark, sealed, setting, results.failures)
        with with_settings(spark, tuning(history)):
            _fill(history, results, setting, limit)
    results.seconds = time.monotonic() - began
    return results


def _history(spark: SparkSession, sealed: Sealed, setting: Setting, failures: list[str]) -> History:
    try:
        deleted = read_deletions(sealed, spark)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
        failures.append(failure("deleted topics", error))
        deleted = Deletions()
    compacted = frozenset(number for number, name in sealed.topics.items() if name in setting.compacted)
    return History(
        spark,
        sealed,
        deletions=deleted,
        compacted=compacted,
        foreign=setting.foreign,
        limits=setting.limits,
        logs=setting.logs,
    )


def tuning(history: History) -> Mapping[str, str]:
    """Settings of Spark for a history of this size, where it runs."""
    if history.small:
        return SMALL
    if not str(history.spark.conf.get("spark.master", "local")).startswith("local"):
        return CLUSTER
    tasks = max(os.cpu_count() or 1, history.sealed.events // EVENTS_A_TASK)
    return LARGE | {"spark.sql.shuffle.partitions": str(tasks)}


def _fill(history: History, results: CheckResults, setting: Setting, limit: int) -> None:
    budget = Budget(history.spark, setting.budget_s)
    chosen = {
        family.name: [rule for rule in family.rules if not results.anomalies[rule.anomaly].not_applicable]
        for family in FAMILIES
    }
    line = _timeline(history, results.failures)
    history = replace(history, line=line)
    questions = _questions(history, chosen, line, everything=not setting.only)
    with jobs(budget, results.failures, small=history.small) as asking:
        studies = {
            study.name: asking.begin(partial(study.study, history, limit))
            for study in _studies(history, results, setting.only)
        }
        sections = _collect(questions, asking)
        for family in FAMILIES:
            if family.name in questions and family.name not in sections:
                _unchecked(results, (rule.anomaly for rule in chosen[family.name]))
        _read_coverage(results, sections, history)
        if found := _read_tallies(results, sections, chosen):
            anew = coverage.renumbered(sections.get("numberings", []))
            _read_findings(replace(history, renumbered=anew), results, found, limit, asking)
    done, reads = sections.get("operations", []), sections.get("reads", [])
    results.coverage.faults = coverage.spans(line, done, reads, setting.blocking)
    results.figures = figures.figures(sections, history.sealed.topics, history.compacted)
    _read_summaries(history, results, sections)
    _read_studies(history, results, studies)


def _unchecked(results: CheckResults, anomalies: Iterable[str]) -> None:
    for name in anomalies:
        results.anomalies[name].unchecked = FAILED


def _read_summaries(history: History, results: CheckResults, sections: Sections) -> None:
    for family in FAMILIES:
        if family.summary is not None and sections.get(family.name):
            try:
                results.summaries[family.name] = family.summary(history, sections[family.name])
            except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
                results.failures.append(failure(f"the summary of {family.name}", error))


def _studies(history: History, results: CheckResults, only: Collection[str]) -> Iterator[Study]:
    """Those that were asked for and have something to look at."""
    for study in STUDIES:
        unasked = all(results.anomalies[name].not_applicable for name in study.anomalies)
        if (not only or written(study.name) in only or not unasked) and study.needs(history):
            yield study


def _read_studies(history: History, results: CheckResults, studies: Mapping[str, Future[Studied]]) -> None:
    for study in STUDIES:
        if study.name not in studies:
            continue
        try:
            studied = studies[study.name].result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
            results.failures.append(failure(study.name, error))
            _unchecked(results, study.anomalies)
            continue
        for name in study.anomalies:
            anomaly = results.anomalies[name]
            anomaly.found += studied.found.get(name, 0)
            anomaly.looked_at = max(anomaly.looked_at, studied.looked_at.get(name, 0))
        for row in studied.findings:
            results.anomalies[row["anomaly"]].findings.append(as_finding(row, history.sealed.topics))
        if studied.cut:
            results.failures.append(studied.cut)
        if studied.summary is not None:
            results.summaries[study.name] = studied.summary


def _timeline(history: History, failures: list[str]) -> Timeline:
    try:
        return coverage.read_timeline(history)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks have to go on
        failures.append(failure("timeline", error))
        return Timeline((history.sealed.first_time_ns, history.sealed.last_time_ns))


def _questions(
    history: History, chosen: Mapping[str, list[Rule]], line: Timeline, *, everything: bool
) -> dict[str, Callable[[], DataFrame]]:
    bounds = line.bounds_ns()
    questions: dict[str, Callable[[], DataFrame]] = {
        "operations": lambda: coverage.operations(history, bounds),
        "reads": lambda: coverage.reads(history, bounds),
        "silences": lambda: figures.silences(history),
        "rebalances": lambda: figures.rebalances(history),
    }
    if history.has(Kind.PROBE):
        questions["probes"] = lambda: coverage.probes(history)
    if history.has(Kind.EXCHANGE):
        questions["resends"] = lambda: figures.resends(history)
        questions["numberings"] = lambda: coverage.numberings(history)
    for family in FAMILIES:
        # the figures of values tell how far everything was read
        wanted = chosen[family.name] or (family.figures and (everything or family is VALUES))
        if wanted and family.needs(history):
            questions[family.name] = partial(tally, family, history, chosen[family.name])
    return questions


def _collect(questions: Mapping[str, Callable[[], DataFrame]], asking: Jobs) -> Sections:
    """All answers; a question without rows has one as well."""

    def answers(names: Sequence[str]) -> Sections:
        return {name: [] for name in names} | collected([section(name, questions[name]()) for name in names])

    told = asking.ask(list(questions), answers, str)
    return {name: rows for sections in told for name, rows in sections.items()}


def section(name: str, frame: DataFrame) -> DataFrame:
    """A frame as rows of one shape: its name, and each row as JSON."""
    return frame.selectExpr(f"'{name}' as section", f"{_json(frame.columns)} as row")


def _json(columns: Iterable[str]) -> str:
    names = ", ".join(f"`{column}`" for column in columns)
    return f"to_json(struct({names}), map('ignoreNullFields', 'false'))"


def collected(sections: Sequence[DataFrame]) -> Sections:
    """The rows of all sections, with one job."""
    answers: Sections = {}
    for row in together(sections).collect():
        answers.setdefault(row["section"], []).append(json.loads(row["row"]))
    return answers


def _anomalies(acks: str) -> dict[str, Anomaly]:
    """Everything that is looked for, in the order of the families."""
    anomalies: dict[str, Anomaly] = {}
    for family in FAMILIES:
        for rule in family.rules:
            anomaly = anomalies.setdefault(rule.anomaly, Anomaly(rule.anomaly, rule.about))
            if acks == "0" and rule.needs_acknowledgements:
                anomaly.not_applicable = NO_ACKNOWLEDGEMENTS
    for study in STUDIES:
        for name, about in study.anomalies.items():
            anomalies.setdefault(name, Anomaly(name, about))
    return anomalies


def _read_tallies(
    results: CheckResults, sections: Sections, chosen: Mapping[str, list[Rule]]
) -> list[tuple[Family, list[Rule]]]:
    """Add up what was found and looked at; says which rules have findings."""
    found: list[tuple[Family, list[Rule]]] = []
    for family in FAMILIES:
        rows = sections.get(family.name, [])
        hits = []
        for number, rule in enumerate(chosen[family.name]):
            anomaly = results.anomalies[rule.anomaly]
            count = sum(row[f"found_{number}"] for row in rows)
            looked = (row[f"looked_{number}"] for row in rows) if rule.looked_at is not None else ()
            # two rules of one anomaly may look at the same thing
            anomaly.looked_at = max(
                anomaly.looked_at, results.coverage.records if rule.looked_at is None else sum(looked)
            )
            anomaly.found += count
            if count:
                hits.append(rule)
        if hits:
            found.append((family, hits))
    return found


def _read_coverage(results: CheckResults, sections: Sections, history: History) -> None:
    covered, topics = results.coverage, history.sealed.topics
    covered.errors = coverage.errors(sections.get("operations", []))
    for row in sections.get("operations", []):
        outcomes = covered.operations.setdefault(F(row["f"]).name.lower(), {})
        name = Type(row["type"]).name.lower()
        outcomes[name] = outcomes.get(name, 0) + row["count"]
    for row in sections.get("reads", []):
        covered.records += row["count"]
        covered.load_records += row["count"] if row["load"] else 0
    covered.probes = sorted(sections.get("probes", []), key=lambda row: (row["api"] or 0, row["node"] or 0))
    for row in sections.get(VALUES.name, []):
        if row["topic"] is not None:
            _read_finals(covered, row, topics.get(row["topic"], str(row["topic"])), foreign=history.foreign)


def _read_finals(covered: Coverage, row: Mapping[str, Any], topic: str, *, foreign: bool) -> None:
    """How far the final readers of a partition got; others than us need not read what was not committed."""
    if row["raw_ok"] is False or (row["raw_ok"] is None and row["transactional"] and not foreign):
        covered.raws_incomplete_count += 1
        if len(covered.raws_incomplete) < INCOMPLETE_AT_MOST:
            covered.raws_incomplete.append(f"{topic}-{row['partition']}")
    if not row["acknowledged"]:
        return
    if row["final_ok"]:
        covered.finals_complete += 1
        return
    covered.finals_incomplete_count += 1
    if len(covered.finals_incomplete) < INCOMPLETE_AT_MOST:
        names = ("partition", "final_offset", "final_end")
        covered.finals_incomplete.append({"topic": topic, **{name: row[name] for name in names}})


def _read_findings(
    history: History, results: CheckResults, found: Sequence[tuple[Family, list[Rule]]], limit: int, asking: Jobs
) -> None:
    """The second job: the evidence."""

    def evidence(of: Sequence[tuple[Family, list[Rule]]]) -> list[dict[str, Any]]:
        return _kept(history, together([family.findings(history, rules) for family, rules in of]), limit)

    told = asking.ask(found, evidence, lambda each: f"the evidence of {each[0].name}")
    kept = [row for rows in told for row in rows]
    counted: dict[str, int] = {}
    for row in kept:
        anomaly = results.anomalies[row["anomaly"]]
        counted[anomaly.name] = counted.get(anomaly.name, 0) + row["count"]
        anomaly.found = counted[anomaly.name]
        worst = [text for text in row["worst"] or [] if text not in row["first"]]
        first = row["first"][: limit - len(worst)]
        anomaly.findings += [as_finding(json.loads(text), history.sealed.topics) for text in [*first, *worst]]
    for anomaly in results.found:
        anomaly.findings.sort(key=lambda each: (each.time_ns or 0, each.place, each.values, each.tags, each.events))


def _kept(history: History, findings: DataFrame, limit: int) -> list[dict[str, Any]]:
    """How many there are, the first and the worst: of each anomaly and of each sort that may be judged by itself."""
    from pyspark.sql import functions as sql

    damaged = ", ".join(map(str, sorted(history.sealed.damaged_processes)))
    return [
        row.asDict()
        for row in findings.selectExpr(
            "anomaly",
            "severity",
            f"{_json(FINDING)} as finding",
            "struct(time, topic, partition, offset, `values`) as place",
            "tags",
            f"arrays_overlap(processes, cast(array({damaged}) as array<int>)) as of_damaged",
        )
        .groupBy("anomaly", "tags", "of_damaged")
        .agg(
            sql.count("*").alias("count"),
            sql.expr(f"min_by(finding, place, {limit})").alias("first"),
            sql.expr(f"max_by(finding, severity, {min(WORST, limit)})").alias("worst"),
        )
        .collect()
    ]


@contextmanager
def with_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session while a check runs."""
    before = {name: spark.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.set(name, str(earlier))
