"""The command `report`; cli.py adds it to the others."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.commands.options import JsonFlag, SparkConfOption, SparkMasterOption, StoreOption, asked, err, out
from harness.foundation.view import viewed_on
from harness.history.store import find as find_run
from harness.history.store import store_dir
from harness.report.terminal import tables as show


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Directories of runs, scenario names, or latest.")
    ],
    store: StoreOption = None,
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Make the report of stored runs that were checked: one HTML file each, beside the run.

    It needs no network and no JavaScript. What it draws is kept as series.json; without that file, or after another
    check, Spark reads the history once more.

    [dim]tidegauge report latest[/]
    """
    from harness.report.making import report_again

    found = [find_run(store_dir(store), name) for name in runs]
    with viewed_on(err) as view:
        paths = [report_again(run, view, asked(spark_master, spark_conf).place) for run in found]
    if as_json:
        show.as_json_text(
            out, [{"run": str(run.path), "report": str(path)} for run, path in zip(found, paths, strict=True)]
        )
        return
    for path in paths:
        show.line(out, f"  {'report':<10}{path}")
