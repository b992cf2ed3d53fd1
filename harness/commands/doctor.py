"""`tidegauge doctor`: what this machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console

from harness.commands.console import out
from harness.commands.options import JsonFlag
from harness.foundation.errors import Exit

if TYPE_CHECKING:  # it takes long to import
    from harness.runs.machine import MachineCheck


def doctor(as_json: JsonFlag = False) -> None:
    """What this machine can do, and for each missing thing what it costs and how to get it."""
    from harness.runs.machine import examine, examine_faults

    found = [*examine(), *examine_faults()]
    checks(out, found, as_json=as_json)
    able = all(check.ok for check in found if check.needed_for_local)
    raise typer.Exit(Exit.VALID if able else Exit.CANNOT_HERE)


def checks(console: Console, found: list[MachineCheck], *, as_json: bool) -> None:
    """What this machine has and has not."""
    from harness.report.terminal.tables import as_json_text, line

    if as_json:
        as_json_text(console, [check.as_json() for check in found])
        return
    width = max(len(check.name) for check in found)
    for check in found:
        mark = ("✓", "green") if check.ok else ("✗", "yellow")
        line(console, mark, f" {check.name:<{width}} {check.found}")
        if not check.ok:
            line(console, f"{'':{width + 3}}costs: {check.costs}")
            line(console, f"{'':{width + 3}}remedy: {check.remedy}")
