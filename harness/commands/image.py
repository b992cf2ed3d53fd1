"""`tidegauge image …`: images for clusters of containers."""

from __future__ import annotations

import typer

from harness.commands.console import err, out
from harness.commands.options import JsonFlag, VersionOption
from harness.foundation.progress import shown_on

image_app = typer.Typer(help="Images for --cluster docker.", no_args_is_help=True)


@image_app.command()
def build(kafka_version: VersionOption = None, as_json: JsonFlag = False) -> None:
    """Build an Apache Kafka image on this machine, without a registry, for the harness and Docker Compose."""
    from harness.clusters.image_choice import build_for
    from harness.clusters.target import load_target
    from harness.report.terminal.tables import image

    with shown_on(err) as progress:
        name = build_for(load_target("kafka", kafka_version), progress)
    image(out, name, as_json=as_json)
