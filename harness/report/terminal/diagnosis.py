"""The diagnosis in the few lines of it that a screen has room for; results.json and the report have all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from checkers.core.results import Finding
from harness.judging.diagnosis import Cause, Diagnosis

BECAUSE_SHOWN = 2
ALLOWED_SHOWN = 2
NAMES_SHOWN = 4
TITLE = 10
NS = 1_000_000_000
OF_VALUES = frozenset({"lost-write", "lost-tail", "unseen", "phantom", "aborted-read", "duplicate", "false-ack"})


def diagnosis_lines(diagnosis: Diagnosis, facts: Mapping[str, Any]) -> Iterator[str]:
    """Every cause in a line, with the evidence of the first; excluded, remedy, first; nothing if there is no cause."""
    cause = diagnosis.cause
    if cause is None:
        if diagnosis.unexplained:
            yield _line("cause", f"not known: no rule accounts for {_some(diagnosis.unexplained)}")
        return
    count = len(diagnosis.causes)
    if count > 1:
        yield _line("causes", f"{count}, the most harmful first")
    yield _line("cause" if count == 1 else "1", f"{cause.sentence} ({cause.confidence})")
    yield from (_line("", sentence) for sentence in _evidence(cause))
    for number, other in enumerate(diagnosis.causes[1:], 2):
        yield _line(str(number), f"{other.sentence} ({other.confidence})")
    if diagnosis.excluded:
        yield _line("", f"excluded: {_excluded(diagnosis)}")
    for each in diagnosis.not_excluded:
        yield _line("", f"not excluded: {each}")
    if diagnosis.unexplained:
        yield _line("", f"not explained by that: {_some(diagnosis.unexplained)}")
    if cause.remedies:
        yield _line("remedy", " · ".join(cause.remedies))
    if cause.first is not None:
        yield _line("first", first_in_prose(cause.first, facts))


def allowed_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Causes of what is allowed, and why that was seen."""
    for cause in diagnosis.allowed[:ALLOWED_SHOWN]:
        yield _line("allowed", f"{cause.sentence} ({cause.confidence})")
        yield from (_line("", sentence) for sentence in cause.because[:1])


def first_in_prose(finding: Finding, facts: Mapping[str, Any]) -> str:
    """When it was, by the clock on the wall if that is known, where, and what."""
    clock = wall_clock(finding.time_ns, facts)
    place = f"{finding.place}: " if finding.topic is not None else ""
    value = f"value {finding.values[0]}, " if finding.values and finding.anomaly in OF_VALUES else ""
    return f"{clock}{'  ' if clock else ''}{place}{value}{finding.detail}"


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


def _excluded(diagnosis: Diagnosis) -> str:
    """The first one with its measurement."""
    names = [each.name for each in diagnosis.excluded[:NAMES_SHOWN]]
    return ", ".join([f"{names[0]} (measured: none)", *names[1:]])


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


def _line(title: str, text: str) -> str:
    return f"  {title:<{TITLE}}{text}"
