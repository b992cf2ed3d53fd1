"""What commands share: their options, their two consoles, and how flags are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from checkers.core.budget import BUDGET_S
from checkers.core.selection import anomalies_of
from harness.clusters.cleanup.guard import sweep
from harness.clusters.flags import (
    BOOTSTRAP_VARIABLE,
    KIND_VARIABLE,
    TARGET_VARIABLE,
    VERSION_VARIABLE,
    parts,
)
from harness.clusters.image_choice import Consent
from harness.clusters.kinds import DEFAULT, KINDS, kind_named
from harness.clusters.spec import ClusterSpec
from harness.foundation.config import parse
from harness.foundation.durations import HOW_TO_WRITE, seconds
from harness.foundation.errors import UsageError
from harness.history.store import STORE_VARIABLE
from harness.judging.checking import Asked
from harness.report.terminal import tables as show
from harness.spark.place import EVERYTHING_HERE, MASTER_VARIABLE, place

out = Console()
err = Console(stderr=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
JunitOption = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML, too, for a CI system to read."),
]
NameArgument = Annotated[str | None, typer.Argument(help="The cluster's name; not needed when only one is up.")]


def kind_option(text: str, *, of_ours: bool = False, **how: Any) -> Any:
    """A flag that takes the name of a kind of cluster, or of those alone whose nodes we start."""

    def names() -> list[str]:
        return [kind.name for kind in KINDS.values() if kind.ours or not of_ours]

    def parsed(name: str) -> str:
        try:
            known = kind_named(name).name
        except UsageError as error:
            raise typer.BadParameter(str(error)) from None
        if known not in names():
            raise typer.BadParameter(f"'{known}' cannot be had here, only {', '.join(names())}")
        return known

    return typer.Option("--cluster", parser=parsed, metavar=f"<{'|'.join(names())}>", help=text, **how)


CLUSTER_HELP = " · ".join(f"{kind.name}: {kind.about}" for kind in KINDS.values()) + "."
VERSION_HELP = "4.3.1 unless given; 4.1 means the newest 4.1.x we know."
TARGET_HELP = "The product: a name we ship, or a target file (docs/targets.md)."
KindOption = Annotated[str, kind_option(CLUSTER_HELP)]
DemoOnOption = Annotated[str, kind_option("Processes or containers.", of_ours=True)]
VersionOption = Annotated[str | None, typer.Option("--kafka-version", help=VERSION_HELP)]
TargetOption = Annotated[str, typer.Option(help=TARGET_HELP)]
# Of commands that bring a cluster up for runs; what they do not say, the scenario says.
RunsOnOption = Annotated[str | None, kind_option(CLUSTER_HELP, envvar=KIND_VARIABLE, show_default=DEFAULT)]
RunsVersionOption = Annotated[str | None, typer.Option("--kafka-version", envvar=VERSION_VARIABLE, help=VERSION_HELP)]
RunsTargetOption = Annotated[str | None, typer.Option("--target", envvar=TARGET_VARIABLE, help=TARGET_HELP)]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT,...",
        help="Addresses of an external cluster.",
    ),
]
BrokenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--broken",
        "-b",
        metavar="NAME",
        envvar="TIDEGAUGE_BROKEN",
        help="A bug that the taps play, so that correct brokers misbehave (`tidegauge list broken`).",
    ),
]
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
SparkMasterOption = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        metavar="URL",
        envvar=MASTER_VARIABLE,
        show_default=EVERYTHING_HERE,
        help="Where the checks run: local[*] on this machine, spark://HOST:PORT, yarn or k8s://URL on a cluster, "
        "sc://HOST:PORT through Spark Connect (docs/spark.md).",
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        help="A setting of Spark (spark.executor.memory=4g, spark.jars=hadoop-aws.jar); may be repeated.",
    ),
]
CheckersOption = Annotated[
    str,
    typer.Option(
        "--checkers",
        metavar="NAME,...",
        help="Only these, by family or by anomaly (`tidegauge list checkers`); the verdict is then about these alone "
        "and is not kept.",
        show_default="all",
    ),
]
BudgetOption = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="DURATION",
        help="How long each checker may take (90s, 10m); one that takes longer makes the verdict unknown.",
    ),
]
TlsOption = Annotated[bool, typer.Option("--tls", help="External: connect with TLS; certificates are verified.")]
TlsCaOption = Annotated[Path | None, typer.Option(help="External: certificate authority to trust (PEM).")]
TlsCertOption = Annotated[Path | None, typer.Option(help="External: client certificate (PEM).")]
TlsKeyOption = Annotated[Path | None, typer.Option(help="External: client key (PEM).")]


def asked(master: str | None, conf: list[str] | None, checkers: str = "", budget: str = "") -> Asked:
    """How the flags of a command want a history to be checked."""
    only = parts(checkers)
    known = anomalies_of()
    if unknown := [name for name in only if name not in known]:
        raise UsageError(f"there is no checker {', '.join(unknown)}", f"choose from {', '.join(sorted(known))}")
    budget_s = duration("--budget", budget) if budget else BUDGET_S
    if not budget_s:
        raise UsageError("--budget leaves no time at all", HOW_TO_WRITE)
    return Asked(place(master, conf or ()), tuple(only), budget_s)


def duration(flag: str, text: str) -> float:
    """In seconds, what a flag says as people write it."""
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", HOW_TO_WRITE) from None


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
