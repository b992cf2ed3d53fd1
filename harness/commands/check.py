"""`tidegauge check`: check stored runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.clusters.flags import parts
from harness.commands.console import out, progress_console, tell_reports, write_for_ci
from harness.commands.option_groups import with_options
from harness.commands.options import DetailOptions, JsonFlag, JunitOption, SparkOptions, StoreOption, duration
from harness.foundation.errors import UsageError
from harness.foundation.view import viewed_on

if TYPE_CHECKING:  # it takes long to import
    from harness.history.sealed import Sealed
    from harness.judging.checking import Checked, CheckOptions


@with_options
def check(
    *,
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run directories, URLs, scenario names, or latest."),
    ],
    store: StoreOption = None,
    checkers: Annotated[
        str,
        typer.Option(
            "--checkers",
            metavar="NAME,...",
            help="Check only these families or anomalies (`tidegauge list checkers`); the verdict covers only these "
            "and is not saved.",
            show_default="all",
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="Time limit of each checker (90s, 10m); exceeding it makes the verdict unknown.",
        ),
    ] = "10m",
    spark: SparkOptions,
    junit: JunitOption = None,
    show: DetailOptions,
    as_json: JsonFlag = False,
) -> None:
    """Check stored runs again, including killed ones; the exit code is the worst verdict.

    A run may be on this machine or at any URL that Spark can read. Results are saved next to the run if it is on this
    machine.

    [dim]tidegauge check latest --checkers duplicate,watermarks[/]
    [dim]tidegauge check hdfs://namenode/runs/stream/2026-01-31T10-00-00 --spark-master spark://master:7077[/]
    """
    from harness.history.remote_runs import find
    from harness.history.store import store_dir
    from harness.judging.checking import check_again
    from harness.report.making import report_checked
    from harness.report.terminal.run import verdicts, worst

    options = _options(spark, checkers, budget)
    found = [find(store_dir(store), name) for name in runs]
    with viewed_on(progress_console(show.level)) as view:

        def show_and_report(each: Checked, sealed: Sealed) -> None:
            """The verdict as soon as it is known, and then the report."""
            if not as_json:
                view.close()
                verdicts(out, [each], as_json=False, detail=show.level)
            report_checked(each, sealed, view)

        checked = check_again(found, view, options, show_and_report)
    if as_json:
        verdicts(out, checked, as_json=True)
    write_for_ci(checked, junit)
    tell_reports(checked, as_json=as_json, detail=show.level)
    raise typer.Exit(worst(checked))


def _options(spark: SparkOptions, checkers: str, budget: str) -> CheckOptions:
    """How the runs are to be checked."""
    from harness.foundation.durations import HOW_TO_WRITE
    from harness.judging.checking import CheckOptions

    budget_s = duration("--budget", budget)
    if not budget_s:
        raise UsageError("--budget leaves no time at all", HOW_TO_WRITE)
    return CheckOptions(spark.place(), checkers_named(checkers), budget_s)


def checkers_named(text: str) -> tuple[str, ...]:
    """Families and anomalies, as `--checkers` lists them."""
    from checkers.core.selection import anomalies_of

    only, known = parts(text), anomalies_of()
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"there is no checker {', '.join(unknown)}", f"choose from {', '.join(sorted(known))}")
    return tuple(only)
