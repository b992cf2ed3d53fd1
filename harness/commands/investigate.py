"""`tidegauge investigate`: find what a failure depends on."""

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
    """The failing scenario, and the time limit for finding out why it fails."""

    scenario: ScenarioArgument = None
    time: Annotated[
        str,
        typer.Option("--time", "-t", help="Total time limit: 90s, 10m; what is undecided by then stays undecided."),
    ] = "9m"
    broken: BrokenOption = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Setting, as for `run`; may be repeated."),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed (default: random).")] = None


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
    """Find what a failure depends on: repeat the scenario with one thing changed at a time.

    Compares timeouts and poll size, partitions, bootstrap list, acks, requests in flight, idempotence, topic age and
    client library with the baseline, often enough to tell an effect from noise. Reports what the failure depends on,
    what is ruled out, and the cause. Ctrl-C reports what is known so far. Exit codes: 0 nothing is wrong, 1 something
    is wrong, 5 undecided, 2 interrupted.

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
