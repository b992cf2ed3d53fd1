"""`tidegauge cluster …`: clusters without a run."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from harness.clusters.flags import DEFAULT_KIND, parts
from harness.commands.console import clean_up, consent, err, out
from harness.commands.kind_option import Command, kind_option
from harness.commands.option_groups import with_options
from harness.commands.options import TARGET_HELP, ImageOption, JsonFlag, TlsOptions, VersionOption
from harness.foundation.errors import ClusterError
from harness.foundation.progress import shown_on
from harness.foundation.security import Mechanism

if TYPE_CHECKING:  # they take long to import
    from harness.clusters.base import Cluster
    from harness.clusters.spec import ClusterSpec

NameArgument = Annotated[str | None, typer.Argument(help="Cluster name; optional if only one is up.")]
cluster_app = typer.Typer(
    help="Start, inspect and remove clusters of three real brokers, as processes or containers.",
    no_args_is_help=True,
)


@dataclass(frozen=True, kw_only=True)
class NewClusterOptions:
    """The cluster to start."""

    cluster: Annotated[str, kind_option()] = DEFAULT_KIND
    kafka_version: VersionOption = None
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = "kafka"
    ports: Annotated[
        str, typer.Option(metavar="P1,P2,P3", help="Client ports, one per node (default: free ports).")
    ] = ""
    netns: Annotated[bool, typer.Option("--netns", help="Give each node a network namespace (local, Linux, root).")] = (
        False
    )
    build_image: ImageOption = None
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of an external cluster.")] = ""


@cluster_app.command(cls=Command)
@with_options
def up(
    *,
    new: NewClusterOptions,
    tls: TlsOptions,
    sasl: Annotated[
        Mechanism | None,
        typer.Option(
            help="External: SASL mechanism; TIDEGAUGE_SASL_USERNAME and TIDEGAUGE_SASL_PASSWORD (or ..._PASSWORD_FILE)."
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground; Ctrl-C removes the cluster.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start a cluster and leave it up until `cluster down`.

    --json prints the cluster's id, nodes, addresses and the pid of the harness that holds it. When that process ends,
    the cluster is removed.
    """
    from harness.clusters import detached
    from harness.clusters.detached_process import stay
    from harness.report.terminal import tables

    clean_up()
    held: Cluster | None = None
    try:
        with shown_on(err) as progress:
            spec = _spec(new, tls, sasl).with_image(consent(new.build_image), progress)
            held = detached.hold(spec, progress) if foreground else None
            description = held.describe().as_json() if held else detached.bring_up(spec, progress)
        with detached.removed_if_not_told(description):
            tables.cluster(out, description, as_json=as_json)
        if held:
            tables.line(err, ("up until Ctrl-C", "dim"))
            stay(held, threading.Event())
    finally:
        if held:
            held.stop()


def _spec(new: NewClusterOptions, tls: TlsOptions, sasl: Mechanism | None) -> ClusterSpec:
    """The cluster that the flags describe, validated."""
    from harness.clusters.spec import ClusterSpec
    from harness.foundation.config import parse

    given = {
        "kind": new.cluster,
        "version": new.kafka_version,
        "target": new.target,
        "netns": new.netns,
        "ports": parts(new.ports),
        "bootstrap": parts(new.bootstrap),
        "tls": tls.tls,
        "ca_file": tls.tls_ca,
        "certificate_file": tls.tls_cert,
        "key_file": tls.tls_key,
        "mechanism": sasl,
    }
    return parse(ClusterSpec, given, "the command line").checked()


@cluster_app.command()
def down(
    name: NameArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Remove every cluster that `cluster up` started.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove a cluster: its processes, containers, networks, ports and directory."""
    from harness.clusters import detached
    from harness.clusters.cleanup.guard import sweep
    from harness.report.terminal.tables import removed

    left = sweep()
    chosen = detached.left_up() if every else [detached.find(name)]
    for cluster in chosen:
        detached.take_down(cluster)
    removed(out, [cluster.name for cluster in chosen], as_json=as_json)
    if left:
        raise ClusterError(f"a killed harness left more behind ({'; '.join(left)})", "fix what it names and try again")


@cluster_app.command()
def status(name: NameArgument = None, as_json: JsonFlag = False) -> None:
    """Show the clusters that are up and the health of each node."""
    from harness.clusters import detached
    from harness.report.terminal import tables

    clean_up()
    clusters = [detached.find(name)] if name else detached.running()
    tables.status(
        out, [{**cluster.description, "nodes": detached.health(cluster)} for cluster in clusters], as_json=as_json
    )


@cluster_app.command()
def logs(
    name: NameArgument = None,
    node: Annotated[int | None, typer.Option(help="Show only this node.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines to show.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Show the last lines of the nodes' logs."""
    from harness.clusters import detached
    from harness.report.terminal import tables

    cluster = detached.find(name)
    ids = [node] if node is not None else [each["id"] for each in cluster.description["nodes"]]
    tables.logs(out, {node_id: detached.log_lines(cluster, node_id, lines) for node_id in ids}, as_json=as_json)
