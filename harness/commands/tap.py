"""`tidegauge tap`: taps in front of a cluster of somebody, for clients of somebody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.clusters.flags import parts
from harness.commands.console import err, out
from harness.commands.option_groups import with_options
from harness.commands.options import JsonFlag, TlsOptions
from harness.foundation.errors import Exit
from harness.foundation.view import viewed_on


@with_options
def tap(
    *,
    upstream: Annotated[
        str, typer.Option(metavar="HOST:PORT,...", help="The brokers; one is enough to find the rest.")
    ],
    record: Annotated[Path, typer.Option(metavar="DIR", help="A new directory for what passes.")],
    ports: Annotated[
        str, typer.Option(metavar="P1,P2,...", help="Where to listen, one for each upstream; free ones unless given.")
    ] = "",
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Rules: tables named rule, or a scenario (docs/tap.md).")
    ] = None,
    broken: Annotated[
        list[str] | None,
        typer.Option("--broken", "-b", metavar="NAME", help="A bug to play (`tidegauge list broken`)."),
    ] = None,
    time: Annotated[str | None, typer.Option("--time", "-t", help="Stop by itself: 45, 90s, 5m.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Repeats the chances of rules.")] = 0,
    tls: TlsOptions,
    as_json: JsonFlag = False,
) -> None:
    """Put taps before any cluster, for any client: see and bend its traffic, and have it checked.

    Point the application at the addresses that are printed. Brokers are reached with TLS when asked to; SASL passes
    through, so the application keeps its own user name and password. Ctrl-C ends it; then
    [dim]tidegauge check DIR[/] says what was wrong with what passed.
    """
    from harness.foundation.config import parse
    from harness.report.terminal import run as terminal
    from harness.runs import tap_recording

    given = {
        "upstreams": parts(upstream),
        "directory": record,
        "security": tls.security(),
        "spec": tap_recording.read_spec(rules, broken or []),
        "ports": parts(ports),
        "seed": seed,
        "time": time,
    }
    recording = parse(tap_recording.TapRecording, given, "the command line")
    with viewed_on(err) as view:
        view.phase("tap", recording.time)
        seen = tap_recording.record(recording, sys.argv, view, lambda taps: terminal.taps(out, taps, as_json=as_json))
    terminal.recorded(out, seen, as_json=as_json)
    if seen["deaths"]:  # something that passed is missing from what was recorded
        raise typer.Exit(Exit.HARNESS_ERROR)
