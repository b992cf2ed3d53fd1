"""`tidegauge new`: write a commented file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.commands.console import out
from harness.foundation.errors import UsageError, from_os_error
from harness.foundation.paths import PACKAGE

Kind = Literal["scenario", "target", "suite"]
TEMPLATES = PACKAGE / "commands" / "templates"
NAMES: dict[Kind, str] = {"scenario": "my-scenario.toml", "target": "my-broker.toml", "suite": "my-suite.toml"}
NEXT: dict[Kind, str] = {
    "scenario": "tidegauge run {file} --dry-run",
    "target": "tidegauge doctor --target {file}",
    "suite": "tidegauge suite {file} --list",
}


def new(
    kind: Annotated[Kind, typer.Argument(help="What to write.")],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="File to create (default: my-scenario.toml, my-broker.toml, …)."),
    ] = None,
) -> None:
    """Write a commented scenario, target or suite to start from. Existing files are never overwritten.

    [dim]tidegauge new scenario leader-kill.toml[/]
    """
    from harness.report.terminal.tables import line

    place = file or Path(NAMES[kind])
    if place.suffix != ".toml":
        raise UsageError(f"{place} is not a TOML file", f"name it {place}.toml")
    text = (TEMPLATES / f"{kind}.toml").read_text(encoding="utf-8").replace("{file}", str(place))
    try:
        with place.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise UsageError(f"{place} exists already", "name another file, or remove it") from None
    except FileNotFoundError:
        raise UsageError(f"there is no directory {place.parent}", f"run `mkdir -p {place.parent}`") from None
    except OSError as error:
        raise from_os_error(error, "writing the file") from error
    line(out, f"wrote {place}; next: {NEXT[kind].format(file=place)}")
