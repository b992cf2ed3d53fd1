"""`tidegauge report`: regenerate the reports of stored runs."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.commands.console import err, out
from harness.commands.option_groups import with_options
from harness.commands.options import JsonFlag, SparkOptions, StoreOption
from harness.foundation.view import viewed_on


@with_options
def report(
    *,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories, scenario names, or latest.")],
    store: StoreOption = None,
    spark: SparkOptions,
    as_json: JsonFlag = False,
) -> None:
    """Regenerate the report of checked runs: one HTML file next to each run.

    The report needs no network and no JavaScript. Chart data is cached in series.json; without that file, or after
    another check, Spark reads the history again.

    [dim]tidegauge report latest[/]
    """
    from harness.history.store import find, store_dir
    from harness.report.making import report_again
    from harness.report.terminal.tables import as_json_text, line

    found = [find(store_dir(store), name) for name in runs]
    place = spark.place()
    with viewed_on(err) as view:
        paths = [report_again(run, view, place) for run in found]
    if as_json:
        as_json_text(out, [{"run": str(run.path), "report": str(path)} for run, path in zip(found, paths, strict=True)])
        return
    for path in paths:
        line(out, f"  {'report':<10}{path}")
