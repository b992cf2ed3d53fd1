"""What `run`, `check` and `demo` print of a run: its verdict on one screen, or JSON for scripts.

The screen is to be understood in ten seconds: what was tested, the verdict and what it comes to, then the cause, its
evidence and the remedy, what the verdict covers, and where to go on. Everything else is behind `--verbose`, in the
report, and in results.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from harness.foundation.detail import Detail
from harness.foundation.errors import Exit
from harness.foundation.reasons import ILLEGAL
from harness.judging.checking import Checked
from harness.judging.sentences.consequences import allowed, broken_promises
from harness.judging.sentences.wording import Wording
from harness.report.making import REPORT_FILE
from harness.report.terminal.coverage import coverage_rows, is_ours, reached
from harness.report.terminal.details import detail_rows
from harness.report.terminal.diagnosis import diagnosis_rows
from harness.report.terminal.layout import INDENT, TITLE, Line, Row, fitted
from harness.report.terminal.names import Names, tested
from harness.report.terminal.tables import as_json_text, line

VALID_LINES, OTHER_LINES = 12, 18  # with the line of the report, which follows
FRAME = 2  # lines: what was tested, and the empty one below it
REASONS_SHOWN = 3
FOUND_SHOWN = 5
COLOURS = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
_GRAVEST = (Exit.HARNESS_ERROR, Exit.INVALID, Exit.UNKNOWN, Exit.VALID)


def verdicts(console: Console, checked: Sequence[Checked], *, as_json: bool, detail: Detail = Detail.NORMAL) -> None:
    """One run as it is, or several one after the other."""
    if as_json:
        data = [each.as_json() for each in checked]
        as_json_text(console, data[0] if len(data) == 1 else data)
        return
    for number, each in enumerate(checked):
        if number:
            line(console)
        for parts in screen(each, console.width, detail):
            line(console, *parts)


def worst(checked: Sequence[Checked]) -> Exit:
    """The exit code of several verdicts."""
    codes = [each.exit_code for each in checked]
    return next((code for code in _GRAVEST if code in codes), Exit.VALID)


def screen(checked: Checked, width: int, detail: Detail = Detail.NORMAL) -> list[Line]:
    """A verdict in a few lines; no cause is left out, however many there are."""
    names = Names.of(checked)
    first, *others = _answer(checked, names, width)
    if detail is Detail.QUIET:
        return first.shown(width)
    heading: list[Line] = [((tested(checked, width), "bold"),), ("",)]
    rows = [first, *others, *coverage_rows(checked, names), *_end(checked)]
    if detail is Detail.VERBOSE:
        rows += detail_rows(checked, names, width)
    else:
        most = VALID_LINES if checked.verdict.outcome == "valid" else OTHER_LINES
        report = Row("report", f"{checked.run.path}/{REPORT_FILE}", whole=True)
        rows = fitted(rows, width, most - FRAME - report.height(width))
    return [*heading, *(shown for row in rows for shown in row.shown(width))]


def sentence(checked: Checked, room: int) -> str:
    """What the verdict comes to, in one line if that is possible."""
    verdict = checked.verdict
    if verdict.outcome == "unknown":
        return next((reason.sentence for reason in verdict.reasons), "not enough was seen to decide")
    told = reached(checked) if verdict.outcome == "valid" else broken_promises(verdict.seen, checked.results)
    first, *more = told
    for each in more:
        if len(f"{first}; {each}") > room:
            break
        first = f"{first}; {each}"
    return first


def _answer(checked: Checked, names: Names, width: int) -> Iterator[Row]:
    """The verdict and what it comes to, then why."""
    outcome, diagnosis = checked.verdict.outcome, checked.diagnosis
    yield Row(outcome.upper(), names.short(sentence(checked, width - INDENT - TITLE)), COLOURS[outcome])
    yield from _reasons(checked, names)
    yield from diagnosis_rows(diagnosis, checked, names)
    found = [f"{each.anomaly} ×{each.found:,}" for each in checked.verdict.seen if each.mark.status != "allowed"]
    if found:
        more = f" and {len(found) - FOUND_SHOWN} more" if len(found) > FOUND_SHOWN else ""
        yield Row("found", ", ".join(found[:FOUND_SHOWN]) + more, lines=2, least=4)
    if permitted := allowed(checked.verdict.seen):
        yield Row("allowed", names.short(permitted), lines=2, least=0 if outcome == "valid" else 4)


def _reasons(checked: Checked, names: Names) -> Iterator[Row]:
    """What else keeps the verdict from being valid."""
    verdict = checked.verdict
    rest = [reason.sentence for reason in verdict.reasons if reason.code != ILLEGAL]
    if verdict.outcome == "unknown":
        rest = rest[1:]
    for number, text in enumerate(rest[:REASONS_SHOWN]):
        yield Row("also" if not number else "", names.short(text), least=5 if verdict.outcome == "invalid" else 0)
    if len(rest) > REASONS_SHOWN:
        left = Wording.count(len(rest) - REASONS_SHOWN, "more reason")
        yield Row("", f"and {left} (--verbose)", least=4)
    if verdict.outcome == "unknown" and checked.results.figures.acknowledged:
        clean = all(each.mark.status == "allowed" for each in verdict.seen)
        yield Row("so far", "; ".join([*reached(checked), *(["nothing wrong found"] if clean else [])]), least=1)


def _end(checked: Checked) -> Iterator[Row]:
    """Where the run is, or how to repeat it."""
    outcome, expected = checked.verdict.outcome, checked.facts.get("scenario", {}).get("expect")
    if expected and expected != outcome:
        yield Row("expected", str(expected), "yellow")
    told = outcome != "valid" or checked.diagnosis.causes
    if told and is_ours(checked) and checked.facts.get("kind") != "import" and checked.is_here:
        path = checked.run.path
        how = f"--replay {path}" if checked.facts.get("schedule") else f"{path}/scenario.toml"
        yield Row("repeat", f"tidegauge run {how}", whole=True)
    else:
        yield Row("run", str(checked.run.path), whole=True)
