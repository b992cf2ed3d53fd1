"""`tidegauge store`: an index page of all stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.console import out
from harness.commands.options import JsonFlag, StoreOption


def store_index(
    store: StoreOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the index and a copy of every report to DIR, to publish it as static pages.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write an index page of all runs in the store: index.html, with verdict, cause, time and seed.

    The page is static. It links to the reports and compares any two runs. Corrupt and unfinished runs are listed, too.

    [dim]tidegauge store --output public[/]
    """
    from harness.foundation.errors import UsageError
    from harness.history.store import store_dir
    from harness.report.store_index import write_index
    from harness.report.terminal.tables import as_json_text, line

    where = store_dir(store)
    if not where.is_dir():
        raise UsageError(f"there is no store {where}", "name one with --store, or run something first")
    path, runs = write_index(where, output)
    if as_json:
        as_json_text(out, {"index": str(path), "runs": len(runs)})
        return
    line(out, f"  {'index':<10}{path} ({len(runs):,} {'run' if len(runs) == 1 else 'runs'})")
