"""The options that several commands share: single options as types, groups as dataclasses.

Slow imports happen where a value is used, because every `--help` loads this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.clusters.flags import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_KIND,
    KIND_VARIABLE,
    TARGET_VARIABLE,
    VERSION_VARIABLE,
    cluster_of,
)
from harness.commands.console import consent
from harness.commands.kind_option import kind_option
from harness.foundation.detail import Detail
from harness.foundation.errors import UsageError
from harness.foundation.paths import STORE_VARIABLE
from harness.spark.place import EVERYTHING_HERE, MASTER_VARIABLE, Place, place

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.spec import ClusterSpec
    from harness.foundation.progress import Progress
    from harness.foundation.security import Security

VERSION_HELP = "Kafka version (default: 4.3.1); 4.1 means the newest known 4.1.x."
TARGET_HELP = "Product to test: a built-in target or a target file (docs/targets.md)."

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
JunitOption = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Also write the verdict as JUnit XML, for CI systems."),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write the result as one self-contained HTML file.")
]
ScenarioArgument = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO.toml", help="Scenario file or built-in scenario; flags override it."),
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Directory that keeps runs.", envvar=STORE_VARIABLE, show_default="./store"),
]
VersionOption = Annotated[str | None, typer.Option("--kafka-version", help=VERSION_HELP)]
ImageOption = Annotated[
    bool | None,
    typer.Option(
        "--build-image/--no-build-image",
        help="Build an image locally if none can be pulled (default: ask on a terminal).",
        show_default=False,
    ),
]
BrokenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--broken",
        "-b",
        metavar="NAME",
        envvar="TIDEGAUGE_BROKEN",
        help="Built-in broker bug, simulated by the taps (`tidegauge list broken`).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The cluster to run on; the scenario decides what these leave out."""

    cluster: Annotated[str | None, kind_option(envvar=KIND_VARIABLE, show_default=DEFAULT_KIND)] = None
    kafka_version: Annotated[
        str | None, typer.Option("--kafka-version", envvar=VERSION_VARIABLE, help=VERSION_HELP)
    ] = None
    target: Annotated[str | None, typer.Option("--target", envvar=TARGET_VARIABLE, help=TARGET_HELP)] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            envvar=BOOTSTRAP_VARIABLE,
            metavar="HOST:PORT,...",
            help="Addresses of an external cluster.",
        ),
    ] = None
    build_image: ImageOption = None

    def as_scenario(self) -> dict[str, object] | None:
        """The options as the cluster table of a scenario file; None if none was given."""
        return cluster_of(self.cluster, self.kafka_version, self.target, self.bootstrap)

    def with_image(self, spec: ClusterSpec, progress: Progress) -> ClusterSpec:
        """Return the cluster with its image, building the image if necessary."""
        return spec.with_image(consent(self.build_image), progress)


@dataclass(frozen=True, kw_only=True)
class DetailOptions:
    """How much the command shows."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only the verdict and errors.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every detail.")] = False

    @property
    def level(self) -> Detail:
        """What the flags mean together; an error if they contradict each other."""
        if self.quiet and self.verbose:
            raise UsageError("--quiet and --verbose contradict each other", "leave one of them out")
        return Detail.QUIET if self.quiet else Detail.VERBOSE if self.verbose else Detail.NORMAL


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Where the checks run, and how."""

    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master",
            metavar="URL",
            envvar=MASTER_VARIABLE,
            show_default=EVERYTHING_HERE,
            help="Where checks run: local[*] on this machine; spark://HOST:PORT, yarn or k8s://URL on a cluster; "
            "sc://HOST:PORT on a Spark Connect server (docs/spark.md).",
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="Spark setting (spark.executor.memory=4g, spark.jars=hadoop-aws.jar); may be repeated.",
        ),
    ] = None

    def place(self) -> Place:
        """The place they name; an error if Spark does not know it."""
        return place(self.spark_master, self.spark_conf or ())


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """How to connect to external brokers."""

    tls: Annotated[bool, typer.Option("--tls", help="External: connect with TLS and verify certificates.")] = False
    tls_ca: Annotated[Path | None, typer.Option(help="External: certificate authority to trust (PEM).")] = None
    tls_cert: Annotated[Path | None, typer.Option(help="External: client certificate (PEM).")] = None
    tls_key: Annotated[Path | None, typer.Option(help="External: client key (PEM).")] = None

    def security(self) -> Security:
        """Security with secrets from the environment; clients authenticate themselves."""
        from harness.foundation.security import from_environment

        return from_environment(
            tls=self.tls,
            ca_file=self.tls_ca,
            certificate_file=self.tls_cert,
            key_file=self.tls_key,
            mechanism=None,
        )


def duration(flag: str, text: str) -> float:
    """Parse the duration in a flag, in seconds."""
    from harness.foundation.durations import HOW_TO_WRITE, seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", HOW_TO_WRITE) from None
