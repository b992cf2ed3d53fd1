"""`tidegauge export`: a history for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.console import err, out
from harness.commands.options import JsonFlag, StoreOption
from harness.foundation.view import viewed_on


def export_history(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The directory of a run, a scenario name, or latest.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file: .jsonl, .jsonl.gz or .parquet.")],
    form: Annotated[
        Literal["jsonl", "parquet"] | None, typer.Option("--format", help="The format, if the name does not say so.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the history of a run into one file that other programs can read (docs/history.md)."""
    from harness.history.exchange.exporting import export_run
    from harness.history.store import find, store_dir
    from harness.report.terminal.exchange import exported

    found = find(store_dir(store), run)
    with viewed_on(err) as view:
        written = export_run(found, file, form, view)
    exported(out, written, as_json=as_json)
