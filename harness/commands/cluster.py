"""`tidegauge cluster …` and `tidegauge image …`: one function per command, no logic."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from harness.clusters import detached
from harness.clusters.base import Cluster
from harness.clusters.cleanup.guard import sweep
from harness.clusters.detached_process import stay
from harness.clusters.flags import parts
from harness.clusters.image_choice import build_for
from harness.clusters.kinds import DEFAULT
from harness.clusters.target import load_target
from harness.commands.options import (
    ImageOption,
    JsonFlag,
    KindOption,
    NameArgument,
    NetnsOption,
    PortsOption,
    TargetOption,
    TlsCaOption,
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    VersionOption,
    clean_up,
    cluster_spec,
    consent,
    err,
    out,
)
from harness.foundation.errors import ClusterError
from harness.foundation.progress import shown_on
from harness.foundation.security import Mechanism
from harness.report.terminal import tables as show

cluster_app = typer.Typer(
    help="Start, look at and remove clusters: three real brokers as processes, containers, or somebody else's.",
    no_args_is_help=True,
)
image_app = typer.Typer(help="Images for --cluster docker.", no_args_is_help=True)


@cluster_app.command()
def up(
    cluster: KindOption = DEFAULT,
    kafka_version: VersionOption = None,
    target: TargetOption = "kafka",
    ports: PortsOption = "",
    netns: NetnsOption = False,
    build_image: ImageOption = None,
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of an external cluster.")] = "",
    tls: TlsOption = False,
    tls_ca: TlsCaOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    sasl: Annotated[
        Mechanism | None,
        typer.Option(
            help="External: SASL; TIDEGAUGE_SASL_USERNAME and TIDEGAUGE_SASL_PASSWORD (or ..._PASSWORD_FILE) say who."
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C, then remove the cluster.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start a cluster and leave it up until `cluster down`.

    With --json the cluster's id, nodes, addresses and the pid of the harness that holds it are printed; when that
    process ends in any way, the cluster goes with it.
    """
    clean_up()
    held: Cluster | None = None
    try:
        with shown_on(err) as progress:
            spec = cluster_spec(
                kind=cluster,
                version=kafka_version,
                target=target,
                netns=netns,
                ports=parts(ports),
                bootstrap=parts(bootstrap),
                tls=tls,
                ca_file=tls_ca,
                certificate_file=tls_cert,
                key_file=tls_key,
                mechanism=sasl,
            ).with_image(consent(build_image), progress)
            held = detached.hold(spec, progress) if foreground else None
            description = held.describe().as_json() if held else detached.bring_up(spec, progress)
        with detached.removed_if_not_told(description):
            show.cluster(out, description, as_json=as_json)
        if held:
            show.line(err, ("up until Ctrl-C", "dim"))
            stay(held, threading.Event())
    finally:
        if held:
            held.stop()


@cluster_app.command()
def down(
    name: NameArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Every cluster that `cluster up` left up.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove a cluster: its processes, containers, networks, ports and directory."""
    left = sweep()
    chosen = detached.left_up() if every else [detached.find(name)]
    for cluster in chosen:
        detached.take_down(cluster)
    show.removed(out, [cluster.name for cluster in chosen], as_json=as_json)
    if left:
        raise ClusterError(f"a killed harness left more behind ({'; '.join(left)})", "mend what it names, try again")


@cluster_app.command()
def status(name: NameArgument = None, as_json: JsonFlag = False) -> None:
    """The clusters that are up, and how each node answers."""
    clean_up()
    clusters = [detached.find(name)] if name else detached.running()
    show.status(
        out, [{**cluster.description, "nodes": detached.health(cluster)} for cluster in clusters], as_json=as_json
    )


@cluster_app.command()
def logs(
    name: NameArgument = None,
    node: Annotated[int | None, typer.Option(help="Only this node.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """The last lines of the nodes' logs."""
    cluster = detached.find(name)
    ids = [node] if node is not None else [each["id"] for each in cluster.description["nodes"]]
    show.logs(out, {node_id: detached.log_lines(cluster, node_id, lines) for node_id in ids}, as_json=as_json)


@image_app.command()
def build(kafka_version: VersionOption = None, as_json: JsonFlag = False) -> None:
    """Make an image of Apache Kafka on this machine, without a registry; compose and the harness use it."""
    with shown_on(err) as progress:
        name = build_for(load_target("kafka", kafka_version), progress)
    show.image(out, name, as_json=as_json)
