"""`tidegauge list`: list things as a table or as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from harness.commands.console import out
from harness.commands.options import JsonFlag, StoreOption

What = Literal["runs", "workloads", "nemeses", "checkers", "scenarios", "broken"]


def list_what(
    what: Annotated[What, typer.Argument(help="What to list.")] = "runs",
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List runs, workloads and their settings, faults (nemeses), checkers, scenarios or built-in broker bugs."""
    from harness.commands.listing import listing
    from harness.history.store import store_dir
    from harness.report.terminal import lists as terminal

    terminal.listing(out, what, listing(what, store_dir(store)), as_json=as_json)
