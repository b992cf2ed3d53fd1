"""What commands share: their options, their two consoles, and how flags are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harness import show
from harness.clusters.spec import ClusterSpec, Kind
from harness.clusters.which_image import Consent
from harness.config import parse
from harness.guard import sweep
from harness.store import STORE_VARIABLE

out = Console()
err = Console(stderr=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
NameArgument = Annotated[str | None, typer.Argument(help="The cluster's name; not needed when only one is up.")]
CLUSTER_HELP = "local: processes on loopback · docker: containers · external: runs already."
VERSION_HELP = "4.3.1 unless given; 4.1 means the newest 4.1.x we know."
TARGET_HELP = "The product: a name we ship, or a target file (docs/targets.md)."
KindOption = Annotated[Kind, typer.Option("--cluster", help=CLUSTER_HELP)]
VersionOption = Annotated[str | None, typer.Option("--kafka-version", help=VERSION_HELP)]
TargetOption = Annotated[str, typer.Option(help=TARGET_HELP)]
StoreOption = Annotated[
    Path | None, typer.Option(help="Where runs are kept.", envvar=STORE_VARIABLE, show_default="./store")
]
PortsOption = Annotated[
    str, typer.Option(metavar="P1,P2,P3", help="Client ports, one per node; free ones are chosen unless given.")
]
NetnsOption = Annotated[bool, typer.Option("--netns", help="A network namespace per node (local, Linux, root).")]
ImageOption = Annotated[
    bool | None,
    typer.Option(
        "--build-image/--no-build-image",
        help="Build an image here when none can be pulled; asks on a terminal unless given.",
        show_default=False,
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="External: connect with TLS; certificates are verified.")]
TlsCaOption = Annotated[Path | None, typer.Option(help="External: certificate authority to trust (PEM).")]
TlsCertOption = Annotated[Path | None, typer.Option(help="External: client certificate (PEM).")]
TlsKeyOption = Annotated[Path | None, typer.Option(help="External: client key (PEM).")]


def parts(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def cluster_spec(**given: object) -> ClusterSpec:
    """What a command's flags say about its cluster."""
    return parse(ClusterSpec, given, "the command line").checked()


def consent(decided: bool | None) -> Consent:
    """Whether an image may be built here: as the flags say, else as somebody at the terminal does."""

    def answer(question: str) -> bool:
        if decided is not None:
            return decided
        if sys.stdin.isatty() and err.is_terminal:
            return typer.confirm(question, default=True, err=True)
        show.line(err, f"{question} Yes: not a terminal, and --no-build-image was not given.")
        return True

    return answer


def clean_up() -> None:
    """Remove what a killed harness left behind."""
    for sentence in sweep():
        show.line(err, ("a killed harness left this behind, and it cannot be removed:", "yellow"), f" {sentence}")
