"""The `tidegauge` command: one function per command, no logic. Exit codes are those of `harness.errors`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console

import harness
from harness import detached, doctor, show, show_run
from harness import scenario as scenarios
from harness import store as stored
from harness.checking import check_again
from harness.clusters.base import Cluster
from harness.clusters.spec import ClusterSpec, Kind
from harness.clusters.target import load_target
from harness.clusters.which_image import Consent, build_for
from harness.config import parse
from harness.errors import ClusterError, Exit, Interrupted, TidegaugeError, from_os_error, unexpected
from harness.guard import sweep
from harness.keeper import stay
from harness.listing import What, listing
from harness.live import viewed_on
from harness.progress import shown_on
from harness.runner import run_scenario
from harness.security import Mechanism
from harness.store import STORE_VARIABLE, store_dir

out = Console()
err = Console(stderr=True)

# typer carries a copy of click, or depends on it, by version; this is the base of its errors either way
ClickException: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
INTERRUPTED_BY_CLICK = 130  # what it makes of Ctrl-C inside a command
EPILOG = (
    "Exit codes: 0 valid or fine · 1 invalid · 2 interrupted, everything undone · 3 harness error · "
    "4 usage or configuration · 5 unknown · 6 this machine cannot do that"
)
app = typer.Typer(
    help="Finds out whether a Kafka-protocol broker keeps its promises while you break it.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
cluster_app = typer.Typer(
    help="Start, look at and remove clusters: three real brokers as processes, containers, or somebody else's.",
    no_args_is_help=True,
)
image_app = typer.Typer(help="Images for --cluster docker.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")
app.add_typer(image_app, name="image")

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


@app.command()
def demo(
    cluster: Annotated[
        Literal["local", "docker"], typer.Option("--cluster", help="Processes or containers.")
    ] = "local",
    kafka_version: VersionOption = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The notes' test: three brokers, 5,000 messages sent and read back, and what arrived per partition."""
    _sweep()
    given = scenarios.load(None, {"cluster": {"kind": cluster, "version": kafka_version}})
    _run(given, store, build_image, as_json=as_json)


@app.command()
def run(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO.toml", help="A scenario file, or the name of one we ship; flags win over it."),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", "-w", envvar="TIDEGAUGE_WORKLOAD", help="What clients do: large-batch or stream."),
    ] = None,
    nemesis: Annotated[
        list[str] | None,
        typer.Option("--nemesis", "-n", envvar="TIDEGAUGE_NEMESIS", help="A fault, on its schedule; may be repeated."),
    ] = None,
    cluster: Annotated[
        Kind | None, typer.Option("--cluster", envvar="TIDEGAUGE_CLUSTER", help=CLUSTER_HELP, show_default="local")
    ] = None,
    kafka_version: Annotated[
        str | None, typer.Option("--kafka-version", envvar="TIDEGAUGE_KAFKA_VERSION", help=VERSION_HELP)
    ] = None,
    target: Annotated[str | None, typer.Option(envvar="TIDEGAUGE_TARGET", help=TARGET_HELP)] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(envvar="TIDEGAUGE_BOOTSTRAP", metavar="HOST:PORT,...", help="Addresses of an external cluster."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", "-t", envvar="TIDEGAUGE_TIME", help="How long the load lasts: 45, 90s, 5m.", show_default="30s"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", envvar="TIDEGAUGE_SEED", min=0, help="Repeats the choices of a run; new unless given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="A setting of the workload (acks=all), or of nemesis.… (nemesis.every=20s) or cluster.… "
            "(cluster.netns=true); may be repeated, TIDEGAUGE_SET may hold some; see `tidegauge list workloads`.",
        ),
    ] = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Put a cluster under load, break it, and find out whether it kept its promises.

    The verdict is the exit code: 0 valid, 1 invalid, 5 unknown. Ctrl-C once ends the load, heals the cluster and still
    gives a verdict; twice leaves at once. Command line over environment over scenario file over defaults.

    [dim]tidegauge run -w large-batch -n leader-kill --cluster docker --time 60 --seed 7 --set acks=all[/]
    """
    _sweep()
    given = scenarios.load(
        scenarios.find(scenario) if scenario else None,
        {
            "workload": workload,
            "nemesis": nemesis or None,
            "cluster": {
                key: value
                for key, value in {
                    "kind": cluster,
                    "version": kafka_version,
                    "target": target,
                    "bootstrap": _parts(bootstrap) if bootstrap else None,
                }.items()
                if value is not None
            }
            or None,
            "time": time,
            "seed": seed,
        },
        [*os.environ.get("TIDEGAUGE_SET", "").split(), *(settings or [])],
    )
    _run(given, store, build_image, as_json=as_json)


@app.command()
def check(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Directories of runs, scenario names, or latest.")
    ],
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check stored runs again, the killed ones too; the exit code is that of the worst verdict."""
    found = [stored.find(store_dir(store), name) for name in runs]
    with viewed_on(err) as view:
        checked = check_again(found, view)
    show_run.verdicts(out, checked, as_json=as_json)
    raise typer.Exit(show_run.worst(checked))


@app.command(name="list")
def list_what(
    what: Annotated[What, typer.Argument(help="What to list.")] = "runs",
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What there is: runs in the store, workloads with their settings, nemeses, checkers, scenario files."""
    show_run.listing(out, what, listing(what, store_dir(store)), as_json=as_json)


@app.command(name="doctor")
def examine(as_json: JsonFlag = False) -> None:
    """What this machine can do, and for each missing thing what it costs and how to get it."""
    checks = doctor.examine()
    show.checks(out, checks, as_json=as_json)
    able = all(check.ok for check in checks if check.needed_for_local)
    raise typer.Exit(Exit.VALID if able else Exit.CANNOT_HERE)


@cluster_app.command()
def up(
    cluster: KindOption = "local",
    kafka_version: VersionOption = None,
    target: TargetOption = "kafka",
    ports: PortsOption = "",
    netns: NetnsOption = False,
    build_image: ImageOption = None,
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Addresses of an external cluster.")] = "",
    tls: Annotated[bool, typer.Option("--tls", help="External: connect with TLS; certificates are verified.")] = False,
    tls_ca: Annotated[Path | None, typer.Option(help="External: certificate authority to trust (PEM).")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="External: client certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="External: client key (PEM).")] = None,
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
    _sweep()
    held: Cluster | None = None
    try:
        with shown_on(err) as progress:
            spec = _spec(
                kind=cluster,
                version=kafka_version,
                target=target,
                netns=netns,
                ports=_parts(ports),
                bootstrap=_parts(bootstrap),
                tls=tls,
                ca_file=tls_ca,
                certificate_file=tls_cert,
                key_file=tls_key,
                mechanism=sasl,
            ).with_image(_consent(build_image), progress)
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
    _sweep()
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


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Finds out whether a Kafka-protocol broker keeps its promises while you break it."""
    if version:
        out.print(f"tidegauge {harness.__version__}", highlight=False)
        raise typer.Exit


def main() -> NoReturn:
    """Run a command; every way it can end is one of the exit codes."""
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        outcome = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        outcome = INTERRUPTED_BY_CLICK
    except ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except TidegaugeError as error:
        _end(error)
    except BrokenPipeError:
        with suppress(OSError):  # nobody reads what is still to be flushed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.HARNESS_ERROR)
    except OSError as error:
        _end(from_os_error(error, "the command"))
    except Exception as error:  # noqa: BLE001 - exit code 1 is a verdict, and this is none
        _end(unexpected(error))
    if outcome == INTERRUPTED_BY_CLICK:
        _end(Interrupted("stopped by the user", "nothing that this command started is left"))
    sys.exit(outcome if isinstance(outcome, int) else Exit.VALID)


def _end(error: TidegaugeError) -> NoReturn:
    show.error(err, error)
    sys.exit(error.exit_code)


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(given: scenarios.Scenario, store: Path | None, build_image: bool | None, *, as_json: bool) -> NoReturn:
    """Run a scenario and end with its verdict."""
    show_run.headline(err, given)
    with viewed_on(err) as view:
        scenario = given.with_cluster(given.cluster.with_image(_consent(build_image), view))
        checked = run_scenario(
            scenario, store_dir(store), sys.argv, view, lambda each: show_run.verdicts(out, [each], as_json=as_json)
        )
    raise typer.Exit(checked.exit_code)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _spec(**given: object) -> ClusterSpec:
    return parse(ClusterSpec, given, "the command line").checked()


def _consent(decided: bool | None) -> Consent:
    def consent(question: str) -> bool:
        if decided is not None:
            return decided
        if sys.stdin.isatty() and err.is_terminal:
            return typer.confirm(question, default=True, err=True)
        show.line(err, f"{question} Yes: not a terminal, and --no-build-image was not given.")
        return True

    return consent


def _sweep() -> None:
    for sentence in sweep():
        show.line(err, ("a killed harness left this behind, and it cannot be removed:", "yellow"), f" {sentence}")
