"""`tidegauge heal`: undo what a killed harness left behind."""

from __future__ import annotations

import typer

from harness.commands.console import out
from harness.commands.options import JsonFlag
from harness.foundation.errors import Exit


def heal(as_json: JsonFlag = False) -> None:
    """Undo what a killed harness left behind: rules, paused processes, full disks, containers, namespaces.

    Clusters and runs in use are left alone. The exit code is 3 if something could not be undone.
    """
    from harness.clusters.cleanup.heal import heal as undo_all
    from harness.report.terminal.tables import healed as shown

    healed = undo_all()
    shown(out, healed, as_json=as_json)
    raise typer.Exit(Exit.HARNESS_ERROR if healed.left else Exit.VALID)
