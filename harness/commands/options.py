"""The options that several commands share: single ones by the name of their type, and groups as dataclasses.

What takes long to import is imported where a value is used: every `--help` reads this module.
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
from harness.foundation.errors import UsageError
from harness.foundation.paths import STORE_VARIABLE
from harness.spark.place import EVERYTHING_HERE, MASTER_VARIABLE, Place, place

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.spec import ClusterSpec
    from harness.foundation.progress import Progress
    from harness.foundation.security import Security

VERSION_HELP = "4.3.1 unless given; 4.1 means the newest 4.1.x we know."
TARGET_HELP = "The product: a name we ship, or a target file (docs/targets.md)."

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
JunitOption = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML, too, for a CI system to read."),
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write it as one self-contained HTML file, too.")
]
ScenarioArgument = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO.toml", help="A scenario file, or the name of one we ship; flags win over it."),
]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Where runs are kept.", envvar=STORE_VARIABLE, show_default="./store")
]
VersionOption = Annotated[str | None, typer.Option("--kafka-version", help=VERSION_HELP)]
ImageOption = Annotated[
    bool | None,
    typer.Option(
        "--build-image/--no-build-image",
        help="Build an image here when none can be pulled; asks on a terminal unless given.",
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
        help="A bug that the taps play, so that correct brokers misbehave (`tidegauge list broken`).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The cluster that runs need; what these leave out is as the scenario says."""

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
        """What they say of the cluster, as a scenario file would; None if they say nothing."""
        return cluster_of(self.cluster, self.kafka_version, self.target, self.bootstrap)

    def with_image(self, spec: ClusterSpec, progress: Progress) -> ClusterSpec:
        """The cluster with its image, which may have to be built."""
        return spec.with_image(consent(self.build_image), progress)


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
            help="Where the checks run: local[*] on this machine, spark://HOST:PORT, yarn or k8s://URL on a cluster, "
            "sc://HOST:PORT through Spark Connect (docs/spark.md).",
        ),
    ] = None
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf",
            metavar="KEY=VALUE",
            help="A setting of Spark (spark.executor.memory=4g, spark.jars=hadoop-aws.jar); may be repeated.",
        ),
    ] = None

    def place(self) -> Place:
        """The place they name; an error if Spark knows none such."""
        return place(self.spark_master, self.spark_conf or ())


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """How brokers that are somebody else's are reached."""

    tls: Annotated[bool, typer.Option("--tls", help="External: connect with TLS; certificates are verified.")] = False
    tls_ca: Annotated[Path | None, typer.Option(help="External: certificate authority to trust (PEM).")] = None
    tls_cert: Annotated[Path | None, typer.Option(help="External: client certificate (PEM).")] = None
    tls_key: Annotated[Path | None, typer.Option(help="External: client key (PEM).")] = None

    def security(self) -> Security:
        """With the secrets of the environment; who we are is left to the clients."""
        from harness.foundation.security import from_environment

        return from_environment(
            tls=self.tls,
            ca_file=self.tls_ca,
            certificate_file=self.tls_cert,
            key_file=self.tls_key,
            mechanism=None,
        )


def duration(flag: str, text: str) -> float:
    """In seconds, what a flag says as people write it."""
    from harness.foundation.durations import HOW_TO_WRITE, seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}", HOW_TO_WRITE) from None
