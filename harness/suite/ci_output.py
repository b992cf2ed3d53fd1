"""A suite for CI systems: JUnit XML, and a summary in Markdown, for files and for the page of a GitHub workflow run.

passed             passes
failed             `failure`: what is not as expected, then the cause and what was seen
trouble, unknown   `error`: nothing is known, which must not look like success
skipped, pending   `skipped`, with the reason
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from harness.foundation.errors import from_os_error
from harness.report.github import VARIABLE, escaped
from harness.report.junit import JunitCase, document
from harness.suite.outcome import CaseOutcome, Status, Try
from harness.suite.state import JUNIT_FILE, SUMMARY_FILE, State, write, write_atomically

SIGNS: dict[Status, str] = {
    "passed": "✅",
    "failed": "❌",
    "trouble": "⚠️",
    "unknown": "❔",
    "skipped": "⏭️",
    "pending": "⏳",
}
NOT_RUN = "not run, or not to its end, when this was written"
ROWS_SHOWN = 300  # a summary may have a megabyte


class CiFiles:
    """Everything that is rewritten after each try."""

    def __init__(self, path: Path, junit: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._path = path
        self._junit = junit
        name = environment.get(VARIABLE)
        self._github = Path(name) if name else None
        self._above = self._github.stat().st_size if self._github and self._github.exists() else 0

    def tell(self, state: State) -> None:
        """Put all files in place."""
        write(self._path, state)
        xml = junit(state)
        for file in (self._path / JUNIT_FILE, self._junit):
            if file:
                write_atomically(file, xml)
        text = summary(state)
        write_atomically(self._path / SUMMARY_FILE, text.encode())
        if self._github:
            self._tell_github(self._github, text)

    def _tell_github(self, file: Path, text: str) -> None:
        """In place of what we wrote there before, and below what others did."""
        try:
            with file.open("r+b" if file.exists() else "w+b") as opened:
                opened.seek(self._above)
                opened.write(text.encode())
                opened.truncate()
        except OSError as error:
            raise from_os_error(error, "writing the summary for GitHub") from error


def junit(state: State) -> bytes:
    """The XML."""
    return document(f"tidegauge.{state.suite}", [_case(state, each) for each in state.outcomes])


def _case(state: State, outcome: CaseOutcome) -> JunitCase:
    one = outcome.telling
    told = {
        "expected": outcome.expected,
        "tries": outcome.rate,
        "seed": str(one.seed) if one else "",
        "run": one.run if one else "",
        "report": one.report if one else "",
        "retried": "; ".join(text for each in outcome.tries for text in each.retried),
    }
    properties = {name: value for name, value in told.items() if value}
    case = JunitCase(f"tidegauge.{state.suite}", outcome.name, round(outcome.took_s, 2), properties)
    if outcome.status == "passed":
        return case
    if outcome.status in {"skipped", "pending"}:
        return replace(case, problem="skipped", message=why(outcome))
    return replace(
        case,
        problem="failure" if outcome.status == "failed" else "error",
        kind=outcome.status,
        message=why(outcome),
        text="\n".join(lines(outcome)),
    )


def why(outcome: CaseOutcome) -> str:
    """In one sentence, why a case is not as it should be."""
    if outcome.status == "skipped" and outcome.tries:
        return f"{_so_far(outcome)}, {outcome.needed} needed, and the rest cannot be had here: {outcome.skipped}"
    if outcome.status in {"skipped", "pending"}:
        return outcome.skipped or NOT_RUN
    one = outcome.telling
    said = "; ".join(one.unmet) if one and one.unmet and not one.trouble else one.trouble if one else ""
    return f"{outcome.rate} as expected, {outcome.needed} needed: {said}" if outcome.rate else said


def _so_far(outcome: CaseOutcome) -> str:
    return f"{sum(one.met for one in outcome.tries)} of {len(outcome.tries)} tries as expected"


def lines(outcome: CaseOutcome) -> Iterator[str]:
    """All that is worth knowing of a case that is not as it should be."""
    yield f"{outcome.status.upper()}: {why(outcome)}"
    yield f"expected: {outcome.expected}"
    if outcome.skipped:
        yield f"only {len(outcome.tries)} of {outcome.repeat} tries were made: {outcome.skipped}"
    for one in outcome.tries:
        yield from _of_a_try(one, f"try {one.number}: " if outcome.repeat > 1 else "")


def _of_a_try(one: Try, start: str) -> Iterator[str]:
    yield f"{start}{one.verdict or 'no verdict'} after {one.took_s:.0f} s, seed {one.seed}"
    yield from (f"  {text}" for text in (one.trouble, *(f"tried again after: {each}" for each in one.retried)) if text)
    yield from (f"  {reason}" for reason in one.reasons)
    yield from (f"  cause: {sentence}" for sentence in one.sentences)
    if one.seen:
        yield f"  seen: {', '.join(one.seen)}"
    if one.report or one.run:
        yield f"  report: {one.report or one.run}"


def summary(state: State) -> str:
    """The Markdown."""
    return "\n".join(_summary(state)) + "\n"


def _summary(state: State) -> Iterator[str]:
    yield f"### Suite {escaped(state.suite)}{': ' + escaped(state.title) if state.title else ''}"
    yield ""
    yield f"{counted(state)}, seed {state.seed}" + (", interrupted" if state.interrupted else "")
    yield ""
    yield "| | case | expected | found | cause | time |"
    yield "| --- | --- | --- | --- | --- | ---: |"
    for each in state.outcomes[:ROWS_SHOWN]:
        one = each.telling
        cells = (
            each.name,
            each.expected,
            " · ".join(filter(None, (found(each), each.rate))),
        )
        causes = " · ".join(escaped(sentence) for sentence in one.sentences) if one else ""
        told = " | ".join([*map(escaped, cells), causes, f"{each.took_s:.0f} s"])
        yield f"| {SIGNS[each.status]} | {told} |"
    if len(state.outcomes) > ROWS_SHOWN:
        yield f"| | and {len(state.outcomes) - ROWS_SHOWN} more | | | | |"
    wrong = [each for each in state.outcomes if each.status != "passed"]
    yield ""
    for each in wrong[:ROWS_SHOWN]:
        one = each.telling
        place = f" (run {escaped(one.run)})" if one and one.run else ""
        yield f"- {SIGNS[each.status]} **{escaped(each.name)}**: {escaped(why(each))}{place}"
    yield ""


def found(outcome: CaseOutcome) -> str:
    """What came of a case, in a word."""
    one = outcome.telling
    return outcome.status if one is None or outcome.status in {"skipped", "trouble"} else one.verdict or "no verdict"


def counted(state: State) -> str:
    """How many cases ended how."""
    statuses = [each.status for each in state.outcomes]
    counts = [f"{statuses.count(status)} {status}" for status in SIGNS if status in statuses]
    again = sum(len(one.retried) for each in state.outcomes for one in each.tries)
    return " · ".join([*counts, *([f"{again} tried again because of trouble"] if again else [])])
