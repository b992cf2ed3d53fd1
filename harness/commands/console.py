"""What commands print to and ask through: both consoles, questions, verdicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.foundation.console import SafeConsole
from harness.foundation.detail import Detail
from harness.foundation.errors import from_os_error

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.image_choice import Consent
    from harness.judging.checking import Checked

out = SafeConsole()
err = SafeConsole(stderr=True)


def progress_console(detail: Detail) -> SafeConsole:
    """Where progress goes: to standard error, or nowhere with --quiet."""
    return SafeConsole(stderr=True, quiet=True) if detail is Detail.QUIET else err


def consent(decided: bool | None) -> Consent:
    """Whether an image may be built here: by the flags, else by asking at the terminal."""

    def answer(question: str) -> bool:
        from harness.report.terminal.tables import line

        if decided is not None:
            return decided
        if sys.stdin.isatty() and err.is_terminal:
            return typer.confirm(question, default=True, err=True)
        line(err, f"{question} Yes: not a terminal, and --no-build-image was not given.")
        return True

    return answer


def clean_up() -> None:
    """Remove what a killed harness left behind."""
    from harness.clusters.cleanup.guard import sweep
    from harness.report.terminal.tables import line

    for sentence in sweep():
        line(err, ("a killed harness left this behind, and it cannot be removed:", "yellow"), f" {sentence}")


def tell(checked: Sequence[Checked], junit: Path | None, *, as_json: bool, detail: Detail = Detail.NORMAL) -> None:
    """Print verdicts for people, scripts and CI systems."""
    from harness.report.terminal.run import verdicts

    verdicts(out, checked, as_json=as_json, detail=detail)
    write_for_ci(checked, junit)


def write_for_ci(checked: Sequence[Checked], junit: Path | None) -> None:
    """Verdicts for CI systems."""
    from harness.report.github import append_summary
    from harness.report.junit import ReportedRun, write_junit

    told = [ReportedRun(each.as_json(), each.facts) for each in checked]
    if junit:
        write_junit(junit, told)
    append_summary(told)


def tell_reports(checked: Sequence[Checked], *, as_json: bool, detail: Detail = Detail.NORMAL) -> None:
    """Print where the reports are."""
    from harness.report.making import report_of
    from harness.report.terminal.tables import line

    if not as_json and detail is not Detail.QUIET:
        for path in filter(None, map(report_of, checked)):
            line(out, f"  {'report':<10}{path}")


def write_page(file: Path, page: str) -> None:
    """Put an HTML file in place."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise from_os_error(error, "writing the HTML file") from error
