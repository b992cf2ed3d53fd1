"""`tidegauge explore`: one function, no logic."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.clusters.flags import cluster_of, parts
from harness.clusters.spec import make_cluster
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
from harness.foundation.progress import SilentProgress
from harness.foundation.view import viewed_on
from harness.history.store import store_dir
from harness.report.terminal.tables import as_json_text, line
from harness.runs import scenario as scenarios


def explore(
    find: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="What counts as a finding: illegal (what no configuration allows), any (also what the drawn settings "
            "allow, as a loss with acks=1), or anomalies by name, allowed or not (`tidegauge list checkers`).",
        ),
    ] = "illegal",
    budget: Annotated[str, typer.Option(metavar="DURATION", help="How long it may take in all: 90s, 10m, 2h.")] = "10m",
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", help="Draw from these workloads alone; may be repeated.", show_default="all"),
    ] = None,
    nemesis: Annotated[
        list[str] | None,
        typer.Option(
            "--nemesis",
            "-n",
            metavar="NAME[:ROLE]",
            help="Draw from these faults alone; may be repeated.",
            show_default="all that `random` draws from",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="The same in every try (acks=all, client=kafka-python), as for `run`.",
        ),
    ] = None,
    broken: BrokenOption = None,
    cluster: RunsOnOption = None,
    kafka_version: RunsVersionOption = None,
    target: RunsTargetOption = None,
    bootstrap: BootstrapOption = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Draws the same again; new unless given.")] = None,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.toml",
            help="Where the scenario that was found is written.",
            show_default="found.toml beside its runs",
        ),
    ] = None,
    store: StoreOption = None,
    build_image: ImageOption = None,
    spark_master: SparkMasterOption = None,
    spark_conf: SparkConfOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Look for trouble that nobody thought of: draw settings and faults, run them, and make what is found small.

    Each try is a short run with settings, faults, victims and times of its own. The first finding ends the search: it
    is run again with fewer faults, plainer settings and shorter times, as long as it still shows, and kept as a
    scenario file with the command that repeats it. Every run is kept in the store, in explore-SEED.

    Exit code 1 if something was found, 0 if nothing was (which does not mean valid), 5 if no try came to a verdict, 2
    if it was stopped before. Ctrl-C heals, and keeps the best so far.

    [dim]tidegauge explore --budget 30m --set acks=all[/]
    [dim]tidegauge explore --find lost-write --seed 7[/]
    """
    from harness.experiments.explore import (
        command,
        goal,
        output,
        search,
        search_space,
        weights,
    )
    from harness.experiments.explore.runs import ExplorationRuns

    budget_s = duration("--budget", budget)
    looked_for = goal.goal_of(parts(find))
    seed = secrets.randbits(31) if seed is None else seed
    name = f"explore-{seed}"
    file = command.writable(out_file) if out_file else store_dir(store) / name / output.FILE
    clean_up()
    spec = scenarios.load(None, {"cluster": cluster_of(cluster, kafka_version, target, bootstrap)}).cluster
    with viewed_on(err) as view:
        spec = spec.with_image(consent(build_image), view)
    flags = {
        "name": name,
        "cluster": spec.model_dump(exclude_defaults=True),
        "tap": {"broken": broken} if broken else None,
    }
    everything = search_space.search_space_on(
        make_cluster(spec, SilentProgress()), workload or (), nemesis or (), settings or (), flags
    )
    space = replace(everything, weights=weights.weights_for(looked_for))
    known = search.Exploration(space, looked_for, seed, budget_s)
    line(err, (f"looking for {looked_for} · seed {seed} · {budget} at most", "bold"))
    ground = ExplorationRuns(space, store_dir(store), sys.argv, err, asked(spark_master, spark_conf).place)
    played = command.play(known, search_space.candidates(space, seed), ground, file, err)
    if as_json:
        as_json_text(out, output.as_json(known, played.file, played.report))
    else:
        output.shown(out, known, played.file, played.report)
    raise typer.Exit(known.exit_code)
