"""`tidegauge run`: one run, from its flags to its verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from harness.commands.console import clean_up, out, progress_console, tell, tell_reports
from harness.commands.option_groups import with_options
from harness.commands.options import (
    BrokenOption,
    ClusterOptions,
    DetailOptions,
    JsonFlag,
    JunitOption,
    ScenarioArgument,
    SparkOptions,
    StoreOption,
)
from harness.foundation.errors import UsageError
from harness.foundation.view import viewed_on

if TYPE_CHECKING:  # they take long to import
    from harness.history.store import Run
    from harness.runs.replay import Replay
    from harness.runs.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What to run; the scenario decides what these leave out."""

    scenario: ScenarioArgument = None
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload", "-w", envvar="TIDEGAUGE_WORKLOAD", help="What clients do; see `tidegauge list workloads`."
        ),
    ] = None
    nemesis: Annotated[
        list[str] | None,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="NAME[:ROLE]",
            envvar="TIDEGAUGE_NEMESIS",
            help="Fault to inject: leader-kill, isolate:follower, a mix such as kill,pause, or random; may be "
            "repeated (`tidegauge list nemeses`).",
        ),
    ] = None
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Repeat a recorded run (its directory, or latest) with the same faults; other flags override it.",
        ),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--time", "-t", envvar="TIDEGAUGE_TIME", help="Duration of the load: 45, 90s, 5m.", show_default="30s"
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", envvar="TIDEGAUGE_SEED", min=0, help="Random seed (default: random)."),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Setting of the workload (acks=all), of the faults (nemesis.every=20s) or of the cluster "
            "(cluster.netns=true); may be repeated or given in TIDEGAUGE_SET (`tidegauge list workloads`).",
        ),
    ] = None
    broken: BrokenOption = None
    tap: Annotated[
        bool | None,
        typer.Option("--tap/--no-tap", envvar="TIDEGAUGE_TAP", help="Route clients through taps.", show_default="tap"),
    ] = None


@with_options
def run(
    *,
    what: RunOptions,
    on: ClusterOptions,
    store: StoreOption = None,
    spark: SparkOptions,
    junit: JunitOption = None,
    plan_only: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and about how long it takes; start nothing.")
    ] = False,
    show: DetailOptions,
    as_json: JsonFlag = False,
) -> None:
    """Load a cluster, inject faults, and check whether it kept its promises.

    The exit code is the verdict: 0 valid, 1 invalid, 5 unknown. Ctrl-C ends the load, heals the cluster and checks what
    was recorded (exit code 2, or 1 if it is invalid); a second Ctrl-C quits at once. Flags override environment
    variables, which override the scenario file.

    [dim]tidegauge run -n leader-kill --dry-run[/]
    [dim]tidegauge run -w large-batch -n leader-kill --cluster docker --time 60 --seed 7 --set acks=all[/]
    [dim]tidegauge run --replay latest --cluster local[/]
    """
    from harness.history.store import find, store_dir
    from harness.report.terminal.tables import line
    from harness.runs.replay import replay_of
    from harness.runs.runner import exit_code_of, run_scenario

    changes = [*os.environ.get("TIDEGAUGE_SET", "").split(), *(what.settings or [])]
    _refuse_contradictions(what, changes)
    if not plan_only:
        clean_up()
    recorded = find(store_dir(store), what.replay) if what.replay else None
    replay = replay_of(recorded) if recorded else None
    scenario = _scenario(what, on, recorded, changes)
    place = spark.place()
    if plan_only:
        _plan(scenario, replay, as_json=as_json)
        return
    progress = progress_console(show.level)
    if not (what.scenario or what.replay or what.workload or what.nemesis or what.broken):
        line(
            progress,
            f"no scenario given: {scenario.workload} against Apache Kafka, without faults; "
            "add one with -n leader-kill, or see tidegauge run --help",
        )
    _headline(scenario, progress)
    with viewed_on(progress) as view:
        scenario = scenario.with_cluster(on.with_image(scenario.cluster, view))
        checked = run_scenario(
            scenario,
            store_dir(store),
            sys.argv,
            view,
            lambda each: tell([each], junit, as_json=as_json, detail=show.level),
            replay,
            place,
        )
    tell_reports([checked], as_json=as_json, detail=show.level)
    raise typer.Exit(exit_code_of(checked))


def _refuse_contradictions(what: RunOptions, changes: Sequence[str]) -> None:
    """Refuse options that --replay already decides."""
    if what.replay == "":
        raise UsageError("--replay names no run", "name its directory, its scenario, or latest")
    faults_given = bool(what.nemesis) or any(text.startswith("nemesis.") for text in changes)
    if what.replay and (what.scenario or faults_given):
        raise UsageError(
            "--replay takes the scenario and the faults from a run", "leave SCENARIO, --nemesis and --set nemesis.… out"
        )


def _scenario(what: RunOptions, on: ClusterOptions, recorded: Run | None, changes: Sequence[str]) -> Scenario:
    """The scenario of the recorded run or of the given file, overridden by the flags."""
    from harness.history.store import SCENARIO_FILE
    from harness.runs.scenario import find, load

    file = recorded.path / SCENARIO_FILE if recorded else find(what.scenario) if what.scenario else None
    flags = {
        "workload": what.workload,
        "nemesis": what.nemesis or None,
        "cluster": on.as_scenario(),
        "tap": {key: value for key, value in (("on", what.tap), ("broken", what.broken)) if value not in (None, [])}
        or None,
        "time": what.time,
        "seed": what.seed,
    }
    return load(file, flags, changes)


def _plan(scenario: Scenario, replay: Replay | None, *, as_json: bool) -> None:
    """Print what would run."""
    from harness.report.terminal.tables import as_json_text, line
    from harness.runs.dry_run import dry_run

    plan = dry_run(scenario, replay)
    if as_json:
        as_json_text(out, plan.as_json())
        return
    for title, text in plan.lines():
        line(out, f"  {title:<10}{text}")
    line(out, ("  nothing was started; leave --dry-run out to run it", "dim"))


def _headline(scenario: Scenario, console: Console) -> None:
    """Print what is about to run."""
    from harness.report.terminal.tables import line

    settings = scenario.settings
    what = [scenario.workload, *scenario.faults]
    what += [f"broken on purpose: {name}" for name in scenario.tap.broken]
    kind = scenario.cluster.kind
    line(
        console,
        (" · ".join(what), "bold"),
        f" · {kind} · {settings.client}, acks={settings.acks} · seed {scenario.seed}",
    )
