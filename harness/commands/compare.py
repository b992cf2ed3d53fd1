"""`tidegauge compare` and `tidegauge investigate`: one function per command, no logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.clusters.flags import cluster_of
from harness.commands.options import (
    BootstrapOption,
    BrokenOption,
    ImageOption,
    JsonFlag,
    RunsOnOption,
    RunsTargetOption,
    RunsVersionOption,
    SparkConfOption,
    SparkMasterOption,
    StoreOption,
    asked,
    clean_up,
    consent,
    duration,
    err,
    out,
)
from harness.foundation.errors import Exit, from_os_error
from harness.foundation.view import viewed_on
from harness.history.store import store_dir
from harness.report.terminal.tables import as_json_text, line
from harness.runs import scenario as scenarios

HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write it as one self-contained HTML file, too.")
]


def compare(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Runs, scenarios (all their runs), directories, patterns in quotes, or numbers as 4391/5000; "
            "LABEL=… gives one a name. The first is the baseline.",
        ),
    ],
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit code 1 if something is worse than the baseline.")
    ] = False,
    html: HtmlOption = None,
    store: StoreOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What got worse between runs, or groups of runs, and what so few runs cannot tell.

    Success rate, findings, watermark lag, latency and throughput, with intervals; nothing but results.json is read.

    [dim]tidegauge compare before=notes/2026-01-31T10-00-00 after=notes/latest --fail-on-regression[/]
    [dim]tidegauge compare v2.2.7=4391/5000 v2.2.7.1=3939/5000[/]
    """
    from harness.report.comparison import html as compare_html
    from harness.report.comparison import inputs as compare_runs
    from harness.report.comparison import judge as comparing
    from harness.report.terminal import comparison as compare_show

    comparison = comparing.compare(compare_runs.groups_of(named, store_dir(store)))
    if html:
        write_page(html, compare_html.comparison_page(comparison))
    if as_json:
        as_json_text(out, comparison.as_json())
    else:
        compare_show.shown(out, comparison)
    raise typer.Exit(Exit.INVALID if fail_on_regression and comparison.regressions else Exit.VALID)


def investigate(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO.toml", help="A scenario file, or the name of one we ship; flags win over it."),
    ] = None,
    time: Annotated[
        str,
        typer.Option("--time", "-t", help="How long it may take in all: 90s, 10m; what is undecided then stays so."),
    ] = "9m",
    broken: BrokenOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="A setting, as for `run`; may be repeated."),
    ] = None,
    cluster: RunsOnOption = None,
    kafka_version: RunsVersionOption = None,
    target: RunsTargetOption = None,
    bootstrap: BootstrapOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Repeats the choices of the runs; new unless given.")
    ] = None,
    html: HtmlOption = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find out what a failure depends on: repeat the scenario with one thing changed at a time.

    Time-outs and poll size, partitions, bootstrap list, acks, requests in flight, idempotence, age of topics, client
    library: each against the baseline, often enough to tell an effect from noise; then what the failure follows, what
    is excluded, and the cause. Ctrl-C gives what is known so far. Exit code 0 if nothing is wrong, 1 if something is,
    5 if that could not be found out, 2 if it was stopped.

    [dim]tidegauge investigate notes --broken metadata-lists-self-only --html why.html[/]
    """
    from harness.experiments.investigate import conclusion
    from harness.experiments.investigate import output as investigate_show
    from harness.experiments.investigate import runs as investigate_run
    from harness.experiments.investigate import search as investigating
    from harness.experiments.investigate.experiments import plan

    budget_s = duration("--time", time)
    clean_up()
    given = scenarios.load(
        scenarios.find(scenario) if scenario else None,
        {
            "cluster": cluster_of(cluster, kafka_version, target, bootstrap),
            "tap": {"broken": broken} if broken else None,
            "seed": seed,
        },
        settings or [],
    )
    with viewed_on(err) as view:
        given = given.with_cluster(given.cluster.with_image(consent(build_image), view))
    known = investigating.Investigation(given, plan(given))
    place = asked(spark_master, spark_conf).place
    with investigate_run.runs_on(given, store_dir(store), sys.argv, err, place) as run:
        investigating.investigate(known, run, budget_s, lambda text: line(err, (text, "bold")))
    end = conclusion.conclude(known)
    if html:
        write_page(html, investigate_show.investigation_page(known, end))
    if as_json:
        as_json_text(out, investigate_show.as_json(known, end))
    else:
        investigate_show.shown(out, known, end)
    raise typer.Exit(conclusion.exit_code(known))


def write_page(file: Path, page: str) -> None:
    """Put an HTML file in place."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise from_os_error(error, "writing the HTML file") from error
