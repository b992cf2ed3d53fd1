"""The command `spark`; cli.py adds it to the others."""

from __future__ import annotations

from contextlib import suppress

from harness import show
from harness.cli_options import JsonFlag, clean_up, out
from harness.spark_standby import VARIABLE, standing_by


def spark(as_json: JsonFlag = False) -> None:
    """Keep a JVM for the commands that follow: they start none, and after the first of them find it warm.

    Do in another terminal what it prints; a check then takes about half as long. It serves one command at a time: one
    that finds it taken or gone starts its own. Ctrl-C ends it, and nothing is left.
    """
    clean_up()
    with standing_by() as standby, suppress(KeyboardInterrupt):
        if as_json:
            show.as_json_line(out, {"variable": VARIABLE, "directory": str(standby.directory)})
        else:
            show.line(out, f"  export {VARIABLE}={standby.directory}")
            show.line(out, ("  for commands in another terminal; Ctrl-C ends it", "dim"))
        standby.wait()
