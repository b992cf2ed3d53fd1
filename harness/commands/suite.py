"""The command `suite`; cli.py adds it to the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.clusters.flags import cluster_of
from harness.commands.options import (
    BootstrapOption,
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
    err,
    out,
)
from harness.history.store import store_dir
from harness.report.terminal import tables as show


def suite(
    named: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml", help="One that we ship (ci, nightly, seeds, track-record), or a file."
        ),
    ],
    cluster: RunsOnOption = None,
    kafka_version: RunsVersionOption = None,
    target: RunsTargetOption = None,
    bootstrap: BootstrapOption = None,
    expression: Annotated[
        str, typer.Option("-k", metavar="EXPRESSION", help="Cases whose names hold this: leader and not kafka-python.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CASE", help="This case; may be repeated.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Show the cases, run nothing.")] = False,
    first: Annotated[
        bool, typer.Option("--exitfirst", "-x", help="Stop after the first case that does not pass.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the newest one of this suite: finished cases are not run again."),
    ] = False,
    retries: Annotated[
        int, typer.Option(min=0, help="How often a try is made again that ended in trouble of the harness or machine.")
    ] = 1,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Repeats the choices of all runs; a new one unless given.")
    ] = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="JUnit XML, rewritten after each case.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run many scenarios, on as few clusters as is safe, and say which did not end as they had to.

    What is known is on disk after each case, so that a suite that was killed can go on (--resume). Ctrl-C ends the run
    that goes on, heals, and shows the table. Exit code 0 if all passed, 1 if something was found that was not expected
    or the other way round, 3 if the harness or a cluster failed, 5 if too little was seen to decide, 6 if this machine
    can do none of it, 2 if it was stopped.

    [dim]tidegauge suite ci --cluster docker --junit junit.xml[/]
    [dim]tidegauge suite seeds -k metadata[/]
    """
    from harness.suite import command, terminal
    from harness.suite.outcome import exit_code
    from harness.suite.spec import find_suite

    wanted = command.SuiteRequest(
        find_suite(named),
        store_dir(store),
        cluster_of(cluster, kafka_version, target, bootstrap) or {},
        expression,
        tuple(only or ()),
        seed,
        resume,
        retries + 1,
        first,
        asked(spark_master, spark_conf).place,
        junit,
    )
    if list_only:
        found = command.listed(wanted)
        if as_json:
            show.as_json_text(out, [terminal.case_as_json(each) for each in found])
        else:
            terminal.cases(out, found)
        return
    clean_up()
    played = command.play(wanted, consent(build_image), err)
    if as_json:
        show.as_json_text(out, {**played.state.as_json(), "directory": str(played.directory)})
    else:
        terminal.table(out, played.state, played.directory)
    raise typer.Exit(exit_code(played.state.outcomes, interrupted=played.state.interrupted))
