"""The `tidegauge` command: one function per command, no logic. Exit codes are those of `harness.foundation.errors`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import harness
from harness.clusters.cleanup import heal
from harness.clusters.flags import cluster_of, parts
from harness.clusters.kinds import DEFAULT
from harness.commands.cluster import cluster_app, image_app
from harness.commands.compare import compare, investigate
from harness.commands.doctor import doctor
from harness.commands.explore import explore
from harness.commands.history import export_history, import_history
from harness.commands.listing import What, listing
from harness.commands.options import (
    BootstrapOption,
    BrokenOption,
    BudgetOption,
    CheckersOption,
    DemoOnOption,
    ImageOption,
    JsonFlag,
    JunitOption,
    RunsOnOption,
    RunsTargetOption,
    RunsVersionOption,
    SparkConfOption,
    SparkMasterOption,
    StoreOption,
    TlsCaOption,
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    VersionOption,
    asked,
    clean_up,
    consent,
    err,
    out,
)
from harness.commands.report import report
from harness.commands.suite import suite
from harness.foundation.config import parse
from harness.foundation.errors import Exit, Interrupted, TidegaugeError, UsageError, from_os_error, unexpected
from harness.foundation.security import from_environment
from harness.foundation.view import viewed_on
from harness.history import remote_runs
from harness.history.store import SCENARIO_FILE, store_dir
from harness.history.store import find as find_run
from harness.judging.checking import Checked, check_again
from harness.report.making import report_checked, report_of
from harness.report.terminal import run as show_run
from harness.report.terminal import tables as show
from harness.runs import scenario as scenarios
from harness.runs import tap_recording
from harness.runs.replay import Replay, replay_of
from harness.runs.runner import run_scenario
from harness.spark.place import Place

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
app.add_typer(cluster_app, name="cluster")
app.add_typer(image_app, name="image")


@app.command()
def demo(
    cluster: DemoOnOption = DEFAULT,
    kafka_version: VersionOption = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    as_json: JsonFlag = False,
) -> None:
    """The notes' test, 5,000 messages, twice: before real Kafka while a leader changes, and before brokers with a bug.

    The first is valid; of the second the cause is named. Both reports are kept. Exit code 0 if both ended so.
    """
    from harness.commands import demo as demonstration

    clean_up()
    given = scenarios.load(None, {"cluster": {"kind": cluster, "version": kafka_version}})
    with viewed_on(err) as view:
        spec = given.cluster.with_image(consent(build_image), view)
    said = (lambda _: None) if as_json else (lambda each: show_run.verdicts(out, [each], as_json=False))
    checked = demonstration.play(spec, store_dir(store), err, said)
    if as_json:
        show_run.verdicts(out, checked, as_json=True)
    _tell_reports(checked, as_json=as_json)
    raise typer.Exit(demonstration.exit_code(checked))


@app.command()
def run(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO.toml", help="A scenario file, or the name of one we ship; flags win over it."),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", "-w", envvar="TIDEGAUGE_WORKLOAD", help="What clients do; see `list workloads`."),
    ] = None,
    nemesis: Annotated[
        list[str] | None,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="NAME[:ROLE]",
            envvar="TIDEGAUGE_NEMESIS",
            help="A fault, on its schedule: leader-kill, isolate:follower, a mix as kill,pause, or random; may be "
            "repeated.",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Repeat a recorded run (its directory, or latest) with exactly its faults; other flags win over it.",
        ),
    ] = None,
    cluster: RunsOnOption = None,
    kafka_version: RunsVersionOption = None,
    target: RunsTargetOption = None,
    bootstrap: BootstrapOption = None,
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
    broken: BrokenOption = None,
    tap: Annotated[
        bool | None,
        typer.Option(
            "--tap/--no-tap", envvar="TIDEGAUGE_TAP", help="Whether clients go through taps.", show_default="tap"
        ),
    ] = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    junit: JunitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Put a cluster under load, break it, and find out whether it kept its promises.

    The verdict is the exit code: 0 valid, 1 invalid, 5 unknown. Ctrl-C once ends the load, heals the cluster and still
    gives a verdict; twice leaves at once. Command line over environment over scenario file over defaults.

    [dim]tidegauge run -w large-batch -n leader-kill --cluster docker --time 60 --seed 7 --set acks=all[/]
    [dim]tidegauge run --replay latest --cluster local[/]
    """
    changes = [*os.environ.get("TIDEGAUGE_SET", "").split(), *(settings or [])]
    faults_given = bool(nemesis) or any(text.startswith("nemesis.") for text in changes)
    if replay == "":
        raise UsageError("--replay names no run", "name its directory, its scenario, or latest")
    if replay and (scenario or faults_given):
        raise UsageError(
            "--replay takes the scenario and the faults from a run", "leave SCENARIO, --nemesis and --set nemesis.… out"
        )
    clean_up()
    recorded = find_run(store_dir(store), replay) if replay else None
    again = replay_of(recorded) if recorded else None
    file = recorded.path / SCENARIO_FILE if recorded else scenarios.find(scenario) if scenario else None
    given = scenarios.load(
        file,
        {
            "workload": workload,
            "nemesis": nemesis or None,
            "cluster": cluster_of(cluster, kafka_version, target, bootstrap),
            "tap": {key: value for key, value in (("on", tap), ("broken", broken)) if value not in (None, [])} or None,
            "time": time,
            "seed": seed,
        },
        changes,
    )
    _run(given, store, build_image, again, asked(spark_master, spark_conf).place, junit=junit, as_json=as_json)


@app.command()
def tap(
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
    tls: TlsOption = False,
    tls_ca: TlsCaOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Put taps before any cluster, for any client: see and bend its traffic, and have it checked.

    Point the application at the addresses that are printed. Brokers are reached with TLS when asked to; SASL passes
    through, so the application keeps its own user name and password. Ctrl-C ends it; then
    [dim]tidegauge check DIR[/] says what was wrong with what passed.
    """
    security = from_environment(tls=tls, ca_file=tls_ca, certificate_file=tls_cert, key_file=tls_key, mechanism=None)
    given = {
        "upstreams": parts(upstream),
        "directory": record,
        "security": security,
        "spec": tap_recording.read_spec(rules, broken or []),
        "ports": parts(ports),
        "seed": seed,
        "time": time,
    }
    recording = parse(tap_recording.TapRecording, given, "the command line")
    with viewed_on(err) as view:
        view.phase("tap", recording.time)
        seen = tap_recording.record(recording, sys.argv, view, lambda taps: show_run.taps(out, taps, as_json=as_json))
    show_run.recorded(out, seen, as_json=as_json)


@app.command()
def check(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Directories or URLs of runs, scenario names, or latest."),
    ],
    store: StoreOption = None,
    checkers: CheckersOption = "",
    budget: BudgetOption = "10m",
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    junit: JunitOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check stored runs again, the killed ones too; the exit code is that of the worst verdict.

    A run is checked where it is: on this machine, or at any URL that the Spark in use can read. Results are kept beside
    a run on this machine.

    [dim]tidegauge check latest --checkers duplicate,watermarks[/]
    [dim]tidegauge check hdfs://namenode/runs/stream/2026-01-31T10-00-00 --spark-master spark://master:7077[/]
    """
    how = asked(spark_master, spark_conf, checkers, budget)
    found = [remote_runs.find(store_dir(store), name) for name in runs]
    with viewed_on(err) as view:
        checked = check_again(found, view, how, lambda each, sealed: report_checked(each, sealed, view))
    _tell(checked, junit, as_json=as_json)
    _tell_reports(checked, as_json=as_json)
    raise typer.Exit(show_run.worst(checked))


@app.command(name="list")
def list_what(
    what: Annotated[What, typer.Argument(help="What to list.")] = "runs",
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What there is: runs in the store, workloads with their settings, nemeses, checkers, scenario files."""
    show_run.listing(out, what, listing(what, store_dir(store)), as_json=as_json)


@app.command(name="heal")
def heal_now(as_json: JsonFlag = False) -> None:
    """Undo what a killed harness left: rules, paused processes, full disks, containers, namespaces.

    Clusters and runs that somebody uses are left alone. Exit code 3 when something could not be undone.
    """
    healed = heal.heal()
    show.healed(out, healed, as_json=as_json)
    raise typer.Exit(Exit.HARNESS_ERROR if healed.left else Exit.VALID)


app.command()(doctor)
app.command(name="import")(import_history)
app.command(name="export")(export_history)
app.command()(compare)
app.command()(investigate)
app.command()(explore)
app.command()(report)
app.command()(suite)


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


def _run(
    given: scenarios.Scenario,
    store: Path | None,
    build_image: bool | None,
    replay: Replay | None = None,
    place: Place | None = None,
    *,
    junit: Path | None = None,
    as_json: bool,
) -> NoReturn:
    """Run a scenario and end with its verdict."""
    _headline(given)
    with viewed_on(err) as view:
        scenario = given.with_cluster(given.cluster.with_image(consent(build_image), view))
        checked = run_scenario(
            scenario,
            store_dir(store),
            sys.argv,
            view,
            lambda each: _tell([each], junit, as_json=as_json),
            replay,
            place,
        )
    _tell_reports([checked], as_json=as_json)
    raise typer.Exit(checked.exit_code)


def _headline(scenario: scenarios.Scenario) -> None:
    """What is about to be run."""
    settings = scenario.settings
    what = [scenario.workload, *scenario.faults]
    what += [f"broken on purpose: {name}" for name in scenario.tap.broken]
    kind = scenario.cluster.kind
    show.line(
        err,
        (" · ".join(what), "bold"),
        f" · {kind} · {settings.client}, acks={settings.acks} · seed {scenario.seed}",
    )


def _tell(checked: Sequence[Checked], junit: Path | None, *, as_json: bool) -> None:
    """Verdicts for whoever reads them: people, scripts, CI systems."""
    from harness.report.github import append_summary
    from harness.report.junit import RunTold, write_junit

    show_run.verdicts(out, checked, as_json=as_json)
    told = [RunTold(each.as_json(), each.facts) for each in checked]
    if junit:
        write_junit(junit, told)
    append_summary(told)


def _tell_reports(checked: Sequence[Checked], *, as_json: bool) -> None:
    """Where the reports are, for whoever is going to open one."""
    if not as_json:
        for path in filter(None, map(report_of, checked)):
            show.line(out, f"  {'report':<10}{path}")
