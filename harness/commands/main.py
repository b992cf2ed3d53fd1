"""The `tidegauge` command: all of its subcommands, and how each of them ends.

Exit codes are those of `harness.foundation.errors`. Commands import slow modules where they use them, so that help and
usage errors appear at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import harness
from harness.commands.check import check
from harness.commands.cluster import cluster_app
from harness.commands.compare import compare
from harness.commands.console import err, out
from harness.commands.demo import demo
from harness.commands.doctor import doctor
from harness.commands.explore import explore
from harness.commands.export_history import export_history
from harness.commands.heal import heal
from harness.commands.image import image_app
from harness.commands.import_history import import_history
from harness.commands.investigate import investigate
from harness.commands.kind_option import Command
from harness.commands.list import list_what
from harness.commands.new import new
from harness.commands.report import report
from harness.commands.run import run
from harness.commands.store import store_index
from harness.commands.suite import suite
from harness.commands.tap import tap
from harness.foundation import optional_work
from harness.foundation.errors import Exit, Interrupted, TidegaugeError, from_os_error, unexpected

COMMANDS: dict[str, Callable[..., None]] = {  # in the order of the help
    "demo": demo,
    "run": run,
    "new": new,
    "doctor": doctor,
    "suite": suite,
    "investigate": investigate,
    "explore": explore,
    "tap": tap,
    "list": list_what,
    "check": check,
    "report": report,
    "store": store_index,
    "compare": compare,
    "import": import_history,
    "export": export_history,
    "heal": heal,
}
PANELS = {
    "Start here": ("demo", "run", "new", "doctor"),
    "Test more": ("suite", "investigate", "explore", "tap"),
    "Clusters": ("cluster", "image", "heal"),
}
OTHER_PANEL = "Look at runs"
# typer carries a copy of click, or depends on it, by version; this is the base of its errors either way
ClickException: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
INTERRUPTED_BY_CLICK = 130  # what it makes of Ctrl-C inside a command
EPILOG = """\
tidegauge demo  [dim]# a first run, on three real Kafka brokers[/]

tidegauge run -n leader-kill --dry-run  [dim]# the plan of a run; without --dry-run, the run[/]

tidegauge run --cluster external --bootstrap host:9092  [dim]# load and check your own cluster[/]

tidegauge new scenario  [dim]# a commented file to start from[/]

Exit codes: 0 valid or success · 1 invalid · 2 interrupted, everything undone · 3 harness or cluster failed · \
4 usage or configuration error · 5 unknown · 6 not supported, or currently unavailable, on this machine
"""


def _panel(name: str) -> str:
    """The group of the help in which a command is."""
    return next((panel for panel, names in PANELS.items() if name in names), OTHER_PANEL)


app = typer.Typer(
    help="Test whether a Kafka-protocol broker keeps its promises under faults.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name, cls=Command, rich_help_panel=_panel(name))(command)
app.add_typer(cluster_app, name="cluster", rich_help_panel=_panel("cluster"))
app.add_typer(image_app, name="image", rich_help_panel=_panel("image"))


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Test whether a Kafka-protocol broker keeps its promises under faults."""
    if version:
        out.print(f"tidegauge {harness.__version__}", highlight=False)
        raise typer.Exit


def main() -> NoReturn:
    """Run a command and exit with one of the exit codes, however the command ends."""
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        outcome = app(standalone_mode=False, prog_name="tidegauge")
    except (typer.Abort, KeyboardInterrupt):
        outcome = INTERRUPTED_BY_CLICK
    except ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except TidegaugeError as error:
        _end(error)
    except BrokenPipeError:
        with suppress(OSError):  # nobody reads what is still to be flushed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.HARNESS_ERROR)
    except OSError as error:
        _end(from_os_error(error, "the command"))
    except Exception as error:  # noqa: BLE001 - exit code 1 is a verdict, and this is none
        _end(unexpected(error))
    if outcome == INTERRUPTED_BY_CLICK:
        _end(Interrupted("stopped by the user", "nothing that this command started is left"))
    sys.exit(outcome if isinstance(outcome, int) else Exit.VALID)


def _end(error: TidegaugeError) -> NoReturn:
    from harness.report.terminal import tables

    tables.error(err, error)
    sys.exit(error.exit_code)


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    optional_work.give_up()
    raise KeyboardInterrupt
