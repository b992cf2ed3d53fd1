"""`tidegauge tap`: put taps in front of any cluster, for any client."""

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
        str, typer.Option(metavar="HOST:PORT,...", help="Brokers to connect to; one is enough to find the rest.")
    ],
    record: Annotated[Path, typer.Option(metavar="DIR", help="Directory to create for the recording.")],
    ports: Annotated[
        str, typer.Option(metavar="P1,P2,...", help="Ports to listen on, one per upstream (default: free ports).")
    ] = "",
    rules: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Rules file (`rule` tables) or scenario file (docs/tap.md)."),
    ] = None,
    broken: Annotated[
        list[str] | None,
        typer.Option(
            "--broken", "-b", metavar="NAME", help="Built-in broker bug to simulate (`tidegauge list broken`)."
        ),
    ] = None,
    time: Annotated[str | None, typer.Option("--time", "-t", help="Stop after this time: 45, 90s, 5m.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of rules.")] = 0,
    tls: TlsOptions,
    as_json: JsonFlag = False,
) -> None:
    """Put taps in front of any cluster, for any client: record, modify and check its traffic.

    Point the application at the printed addresses. The taps connect to brokers with TLS if asked to; SASL passes
    through, so the application keeps its own credentials. Press Ctrl-C to stop, then run
    [dim]tidegauge check DIR[/] to check the recording.
    """
    from harness.foundation.config import parse
    from harness.report.terminal import lists as terminal
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
