"""The diagnosis in the few rows of it that a screen has room for; results.json and the report have all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from checkers.core.results import Finding
from harness.judging.checking import Checked, run_facts_of
from harness.judging.diagnosis import Cause, Diagnosis
from harness.judging.sentences.wording import Wording
from harness.report.terminal.layout import Row
from harness.report.terminal.names import Names

BECAUSE_SHOWN = 2
NAMES_SHOWN = 4
NS = 1_000_000_000
OF_VALUES = frozenset({"lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "false-ack"})


def diagnosis_rows(diagnosis: Diagnosis, checked: Checked, names: Names) -> Iterator[Row]:
    """Every cause, the gravest with its evidence; remedy, what is excluded, the first finding; nothing if no cause."""
    cause = diagnosis.cause
    if cause is None:
        if diagnosis.unexplained:
            yield Row("cause", f"unknown: no rule explains {_some(diagnosis.unexplained)}")
        return
    yield from _causes(cause, diagnosis.causes[1:], names)
    if cause.remedies:
        yield Row("fix", "; or ".join(each.removeprefix("or ") for each in cause.remedies), lines=3, shrinks=True)
    if diagnosis.excluded:
        yield Row("excluded", ", ".join(each.name for each in diagnosis.excluded[:NAMES_SHOWN]), least=2)
    for each in diagnosis.not_excluded:
        yield Row("", names.short(f"not excluded: {each}"), lines=2, least=3)
    if diagnosis.unexplained:
        yield Row("", f"not explained by this: {_some(diagnosis.unexplained)}")
    if cause.first is not None:
        yield Row("first", first_in_prose(cause.first, checked, names), least=1)


def _causes(cause: Cause, others: Sequence[Cause], names: Names) -> Iterator[Row]:
    """The gravest with its evidence, then each of the others."""
    if others:
        yield Row("causes", f"{len(others) + 1}, gravest first", least=1)
    yield Row("1" if others else "cause", names.short(f"{cause.sentence} ({cause.confidence})"))
    for number, text in enumerate(_evidence(cause)):
        yield Row("", names.short(text), lines=2, least=5 if number else 0, shrinks=True)
    for number, other in enumerate(others, 2):
        yield Row(str(number), names.short(f"{other.sentence} ({other.confidence})"), shrinks=True)


def first_in_prose(finding: Finding, checked: Checked, names: Names) -> str:
    """When it was, by the clock on the wall if that is known, what, and where."""
    say = Wording(checked.results.first_ns, run_facts_of(checked.facts).imported)
    value = say.value(finding.values[0]) if finding.values and finding.anomaly in OF_VALUES else ""
    what = ", ".join(part for part in (finding.anomaly, names.place(finding), value) if part)
    return "  ".join(part for part in (wall_clock(finding.time_ns, checked.facts), what) if part)


def wall_clock(time_ns: int | None, facts: Mapping[str, Any]) -> str:
    """The time of day at which an event happened, where the run was made; empty if nobody noted one."""
    anchor = facts.get("anchor")
    if time_ns is None or not isinstance(anchor, dict):
        return ""
    try:
        wall_ns = int(anchor["wall_ns"]) + time_ns - int(anchor["monotonic_ns"])
        at = datetime.fromtimestamp(wall_ns // NS, _zone(str(facts.get("started_at", ""))))
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return ""
    return f"{at:%H:%M:%S}.{wall_ns % NS // 1_000_000:03}"


def _evidence(cause: Cause) -> Iterator[str]:
    yield from cause.because[:BECAUSE_SHOWN]
    yield from (f"against it: {sentence}" for sentence in cause.against[:1])


def _some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _zone(started_at: str) -> timezone:
    try:
        offset = datetime.strptime(started_at, "%Y-%m-%dT%H:%M:%S%z").utcoffset()
    except ValueError:
        offset = None
    return timezone(offset or timedelta())
