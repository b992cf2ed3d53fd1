"""`tidegauge export`: write a history for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.console import err, out
from harness.commands.options import JsonFlag, StoreOption
from harness.foundation.view import viewed_on


def export_history(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run directory, scenario name, or latest.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create: .jsonl, .jsonl.gz or .parquet.")],
    form: Annotated[
        Literal["jsonl", "parquet"] | None, typer.Option("--format", help="File format (default: from the file name).")
    ] = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Export the history of a run to one file that other programs can read (docs/history.md)."""
    from harness.history.exchange.exporting import export_run
    from harness.history.store import find, store_dir
    from harness.report.terminal.exchange import exported

    found = find(store_dir(store), run)
    with viewed_on(err) as view:
        written = export_run(found, file, form, view)
    exported(out, written, as_json=as_json)
