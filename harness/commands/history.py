"""`tidegauge import` and `tidegauge export`: histories of other programs, and for them; cli.py adds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.options import JsonFlag, StoreOption, err, out
from harness.foundation.view import viewed_on
from harness.history.store import find as find_run
from harness.history.store import store_dir


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
    from harness.history.exchange import importing
    from harness.judging.checking import check_again
    from harness.report.terminal import exchange as show_foreign
    from harness.report.terminal import run as show_run

    with viewed_on(err) as view:
        taken = importing.import_history(
            file, store_dir(store), view, form=form, name=name, settings=tuple(settings or ())
        )
        checked = check_again([taken.run], view) if check_it else []
    show_foreign.imported(out, taken, checked, as_json=as_json)
    raise typer.Exit(show_run.worst(checked))


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
    from harness.history.exchange import exporting
    from harness.report.terminal import exchange as show_foreign

    found = find_run(store_dir(store), run)
    with viewed_on(err) as view:
        written = exporting.export_run(found, file, form, view)
    show_foreign.exported(out, written, as_json=as_json)
