"""`tidegauge import`: a history that another program recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.console import err, out
from harness.commands.options import JsonFlag, StoreOption
from harness.foundation.view import viewed_on


def import_history(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A history; .gz and .zst are unpacked.")],
    form: Annotated[
        Literal["jsonl", "parquet", "jepsen"] | None,
        typer.Option("--format", help="What it is, if its name does not say so; jepsen: EDN of its Kafka workload."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Under which name it is stored; that of the file unless given.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="How the history came about: acks, idempotence, retries, client, unclean_election; may be repeated.",
        ),
    ] = None,
    check_it: Annotated[bool, typer.Option("--check", help="Check it at once; the exit code is the verdict.")] = False,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Take the history of another program into the store, so that it can be checked (docs/history.md).

    Strictly: the first thing that is wrong is named by its line, and nothing is stored then.

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
