"""`tidegauge compare`: regressions between runs."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.commands.console import out, write_page
from harness.commands.options import HtmlOption, JsonFlag, StoreOption
from harness.foundation.errors import Exit


def compare(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Runs, scenarios (all their runs), directories, quoted patterns, or counts such as 4391/5000; "
            "LABEL=… names one. The first is the baseline.",
        ),
    ],
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit code 1 if something is worse than the baseline.")
    ] = False,
    html: HtmlOption = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare runs, or groups of runs, and report regressions.

    Compares success rate, findings, watermark lag, latency and throughput, with confidence intervals, and says where
    there are too few runs to tell. Only results.json is read.

    [dim]tidegauge compare before=notes/2026-01-31T10-00-00 after=notes/latest --fail-on-regression[/]
    [dim]tidegauge compare v2.2.7=4391/5000 v2.2.7.1=3939/5000[/]
    """
    from harness.history.store import store_dir
    from harness.report.comparison.html import comparison_page
    from harness.report.comparison.inputs import groups_of
    from harness.report.comparison.judge import compare as compared
    from harness.report.terminal.comparison import shown
    from harness.report.terminal.tables import as_json_text

    comparison = compared(groups_of(named, store_dir(store)))
    if html:
        write_page(html, comparison_page(comparison))
    if as_json:
        as_json_text(out, comparison.as_json())
    else:
        shown(out, comparison)
    raise typer.Exit(Exit.INVALID if fail_on_regression and comparison.regressions else Exit.VALID)
