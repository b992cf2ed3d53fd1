"""`tidegauge import`: import a history that another program recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.console import err, out
from harness.commands.options import JsonFlag, StoreOption
from harness.foundation.view import viewed_on


def import_history(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="History to import; .gz and .zst are decompressed.")],
    form: Annotated[
        Literal["jsonl", "parquet", "jepsen"] | None,
        typer.Option(
            "--format", help="File format (default: from the file name); jepsen: EDN of Jepsen's Kafka workload."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name to store it under (default: the file name).")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Setting of the clients: acks, idempotence, retries, client, unclean_election; may be repeated.",
        ),
    ] = None,
    check_it: Annotated[
        bool, typer.Option("--check", help="Check the history after importing it; the exit code is the verdict.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Import a history from another program so that it can be checked (docs/history.md).

    Parsing is strict: the first error is reported with its line, and nothing is stored.

    [dim]tidegauge import history.edn --set acks=all --set idempotence=true --check[/]
    """
    from harness.history.exchange.importing import import_history as taken_in
    from harness.history.store import store_dir
    from harness.judging.checking import check_again
    from harness.report.terminal.exchange import imported
    from harness.report.terminal.run import worst

    with viewed_on(err) as view:
        taken = taken_in(file, store_dir(store), view, form=form, name=name, settings=tuple(settings or ()))
        checked = check_again([taken.run], view) if check_it else []
    imported(out, taken, checked, as_json=as_json)
    raise typer.Exit(worst(checked))
