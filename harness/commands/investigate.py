"""`tidegauge investigate`: what a failure depends on."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from harness.commands.console import clean_up, err, out, write_page
from harness.commands.option_groups import with_options
from harness.commands.options import (
    BrokenOption,
    ClusterOptions,
    HtmlOption,
    JsonFlag,
    ScenarioArgument,
    SparkOptions,
    StoreOption,
    duration,
)
from harness.foundation.view import viewed_on


@dataclass(frozen=True, kw_only=True)
class InvestigationOptions:
    """The scenario that fails, and how long it may take to find out why."""

    scenario: ScenarioArgument = None
    time: Annotated[
        str,
        typer.Option("--time", "-t", help="How long it may take in all: 90s, 10m; what is undecided then stays so."),
    ] = "9m"
    broken: BrokenOption = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="A setting, as for `run`; may be repeated."),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Repeats the choices of the runs; new unless given.")
    ] = None


@with_options
def investigate(
    *,
    what: InvestigationOptions,
    on: ClusterOptions,
    html: HtmlOption = None,
    store: StoreOption = None,
    spark: SparkOptions,
    as_json: JsonFlag = False,
) -> None:
    """Find out what a failure depends on: repeat the scenario with one thing changed at a time.

    Time-outs and poll size, partitions, bootstrap list, acks, requests in flight, idempotence, age of topics, client
    library: each against the baseline, often enough to tell an effect from noise; then what the failure follows, what
    is excluded, and the cause. Ctrl-C gives what is known so far. Exit code 0 if nothing is wrong, 1 if something is,
    5 if that could not be found out, 2 if it was stopped.

    [dim]tidegauge investigate notes --broken metadata-lists-self-only --html why.html[/]
    """
    from harness.experiments.investigate import output, search
    from harness.experiments.investigate.conclusion import conclude, exit_code
    from harness.experiments.investigate.experiments import plan
    from harness.experiments.investigate.runs import runs_on
    from harness.history.store import store_dir
    from harness.report.terminal.tables import as_json_text, line
    from harness.runs.scenario import find, load

    budget_s = duration("--time", what.time)
    clean_up()
    flags = {"cluster": on.as_scenario(), "tap": {"broken": what.broken} if what.broken else None, "seed": what.seed}
    given = load(find(what.scenario) if what.scenario else None, flags, what.settings or [])
    with viewed_on(err) as view:
        given = given.with_cluster(on.with_image(given.cluster, view))
    known = search.Investigation(given, plan(given))
    with runs_on(given, store_dir(store), sys.argv, err, spark.place()) as run:
        search.investigate(known, run, budget_s, lambda text: line(err, (text, "bold")))
    conclusion = conclude(known)
    if html:
        write_page(html, output.investigation_page(known, conclusion))
    if as_json:
        as_json_text(out, output.as_json(known, conclusion))
    else:
        output.shown(out, known, conclusion)
    raise typer.Exit(exit_code(known))
